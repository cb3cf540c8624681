//! The frame of all pages.

use k8s_openapi::jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{assets::VERSION, failure::Failure, html::Text, regions::Rendered};

/// The parts of the frame that are the same on all pages.
pub(crate) struct Layout<'a> {
    /// The path before those of all pages.
    pub(crate) base: &'a str,
    /// The name of the cluster.
    pub(crate) cluster: &'a str,
}

impl Layout<'_> {
    /// A page with its content; `trouble` is the reason that it is not up to date.
    pub(crate) fn page(&self, page: &Rendered, trouble: Option<&str>) -> Markup {
        let main = html! {
            main #main data-version=(page.version) tabindex="-1" { (PreEscaped(page.html())) }
        };
        self.frame(&page.title, trouble, &main)
    }

    /// A page with the reason that there is no content. `way_out` is the address of a page that may be
    /// readable, and its namespace.
    pub(crate) fn failure(&self, failure: &Failure, way_out: Option<(String, &str)>) -> Markup {
        let main = html! {
            main #main tabindex="-1" {
                h1 { (failure.heading()) }
                p.message { (Text(&failure.message)) }
                @if let Some((address, namespace)) = way_out {
                    p { a href=(address) { "Show the namespace " (Text(namespace)) " only" } }
                }
            }
        };
        self.frame(failure.heading(), None, &main)
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
