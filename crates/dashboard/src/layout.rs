//! The frame of all pages.

use baton_pages::html::Text;
use k8s_openapi::jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{assets::VERSION, failure::Failure, feed::Shown, reports::Report};

/// The parts of the frame that are the same on all pages.
pub(crate) struct Layout<'a> {
    /// The path before those of all pages.
    pub(crate) base: &'a str,
    /// The name of the cluster.
    pub(crate) cluster: &'a str,
    /// The name of the viewer, if there are several and the server reports it.
    pub(crate) user: Option<&'a str>,
    /// True if the viewer can log out.
    pub(crate) can_leave: bool,
}

impl Layout<'_> {
    /// A page with its content; `trouble` is the reason that it is not up to date.
    pub(crate) fn page(&self, shown: &Shown, trouble: Option<&str>) -> Markup {
        let page = &shown.rendered;
        let main = html! {
            main #main data-version=(shown.version) tabindex="-1" { (PreEscaped(page.html())) }
        };
        self.frame(&page.title, trouble, &main)
    }

    /// A page that is not kept up to date.
    pub(crate) fn report(&self, report: &Report) -> Markup {
        let main = html! { main #main tabindex="-1" { (report.content) } };
        self.frame(&report.title, None, &main)
    }

    /// A page with the reason that there is no content. With a namespace, it has a form for the overview
    /// of one namespace, which may be readable.
    pub(crate) fn failure(&self, failure: &Failure, namespace: Option<&str>) -> Markup {
        let main = html! {
            main #main tabindex="-1" {
                h1 { (failure.heading()) }
                p.message { (Text(&failure.message)) }
                @if let Some(namespace) = namespace {
                    p { "You may have rights in one namespace only:" }
                    form.filter method="get" action={ (self.base) "/" } {
                        label { "Namespace " input name="namespace" value=(Text(namespace)); }
                        button { "Show" }
                    }
                }
            }
        };
        self.frame(failure.heading(), None, &main)
    }

    /// The login page. `next` is the address of the page to go to, and `why` the reason that the viewer
    /// is not let in, if there is one.
    pub(crate) fn login(&self, next: &str, why: Option<&Failure>) -> Markup {
        let main = html! {
            main #main tabindex="-1" {
                h1 { "Log in" }
                @if let Some(why) = why { p.trouble role="alert" { (Text(&why.message)) } }
                form.login method="post" action={ (self.base) "/login" } {
                    label for="token" { "Bearer token" }
                    input #token type="password" name="token" required autocomplete="off" autofocus;
                    input type="hidden" name="next" value=(next);
                    button { "Log in" }
                }
                p {
                    "All requests to the cluster are made with the token, so the pages show what its user may read. "
                    "Service accounts get one by " code { "kubectl create token NAME" } "."
                }
            }
        };
        self.frame("Log in", None, &main)
    }

    fn frame(&self, title: &str, trouble: Option<&str>, main: &Markup) -> Markup {
        let asset = |name: &str| format!("{}/assets/{name}?v={}", self.base, *VERSION);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (Text(title)) " · Baton" }
                    link rel="stylesheet" href=(asset("dashboard.css"));
                    link rel="icon" href=(asset("icon.svg")) type="image/svg+xml";
                    script src=(asset("dashboard.js")) defer {}
                }
                body data-now=(Timestamp::now()) {
                    a.skip href="#main" { "Skip to content" }
                    header {
                        nav aria-label="Pages" {
                            a.brand href={ (self.base) "/" } { "Baton" }
                            a href={ (self.base) "/" } { "Overview" }
                            a href={ (self.base) "/clusters" } { "Clusters" }
                        }
                        span.cluster { (Text(self.cluster)) }
                        @if let Some(user) = self.user { span.user { (Text(user)) } }
                        @if self.can_leave {
                            form.leave method="post" action={ (self.base) "/logout" } {
                                button { "Log out" }
                            }
                        }
                        span #live role="status" aria-live="polite" {}
                    }
                    p #trouble.trouble role="alert" hidden[trouble.is_none()] {
                        @if let Some(trouble) = trouble { "Not up to date: " (Text(trouble)) }
                    }
                    (main)
                }
            }
        }
    }
}

/// A page that leads to another one of this server.
pub(crate) fn entrance(address: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "Baton" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            }
            body { p { a href=(address) { "Open the dashboard" } } }
        }
    }
}
