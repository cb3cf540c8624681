//! Changes of rollouts: each has a page with its effects, and a button that names the object.
//!
//! All requests are made with the credentials of the viewer. The page sends dry runs, so a right that is
//! missing is named there. The form carries the state that the page is about, and the change is refused
//! if the object is in another one.

mod applications;
mod chains;
mod sites;

use std::collections::BTreeMap;

use baton_apis::url::escape;
use baton_cluster::Cluster;
use baton_steering::Error;
use baton_text::diff::Labels;
use baton_view::{applications::target::AppTarget, diff::Section, sites::target::SiteTarget};
use maud::{Markup, html};
use strum::{EnumString, IntoStaticStr};

use crate::{
    html::{Text, address},
    reports::{Report, sections},
    subject::{ChainSubject, are_names},
};

/// A change of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Action {
    Pause,
    Resume,
    Rollback,
    Promote,
    Abort,
    Redeploy,
    Abandon,
}

impl Action {
    /// The words on the button, before the name of the object.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Rollback => "Roll back",
            Self::Promote => "Promote",
            Self::Abort => "Abort the rollout of",
            Self::Redeploy => "Select the sites again of",
            Self::Abandon => "Abandon the objects of",
        }
    }
}

/// The object that is changed.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Chain(ChainSubject),
    Application {
        namespace: String,
        target: AppTarget,
    },
    Sites {
        namespace: String,
        target: SiteTarget,
    },
}

impl Subject {
    /// The Application with this name; `None` if it cannot be one.
    pub(crate) fn application(namespace: &str, name: &str) -> Option<Self> {
        are_names(namespace, name).then(|| Self::Application {
            namespace: namespace.to_owned(),
            target: AppTarget::application(name),
        })
    }

    /// The deployment to sites with this name; `None` if it cannot be one.
    pub(crate) fn sites(namespace: &str, name: &str) -> Option<Self> {
        are_names(namespace, name).then(|| Self::Sites {
            namespace: namespace.to_owned(),
            target: SiteTarget::deployment(name),
        })
    }

    /// The object, as people type it.
    fn name(&self) -> String {
        match self {
            Self::Chain(subject) => subject.target.to_string(),
            Self::Application { target, .. } => target.to_string(),
            Self::Sites { target, .. } => target.to_string(),
        }
    }

    /// The address of the page of the object.
    pub(crate) fn address(&self, base: &str) -> String {
        match self {
            Self::Chain(subject) => subject.address(base),
            Self::Application { namespace, target } => {
                address(base, "applications", namespace, &target.name)
            }
            Self::Sites { namespace, target } => address(base, "sites", namespace, &target.name),
        }
    }
}

/// A link to the page of a change, with fields for it.
pub(crate) fn link(page: &str, action: Action, fields: &[(&str, &str)], words: &str) -> Markup {
    let name: &str = action.into();
    let fields = fields.iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}={}", escape(value)))
        .collect();
    let query = if fields.is_empty() {
        String::new()
    } else {
        format!("?{}", fields.join("&"))
    };
    html! { a.act href={ (page) "/actions/" (name) (query) } { (words) } }
}

/// The fields of an address or of a form: the choices of the viewer, and the state that a page is about.
pub(crate) type Fields = BTreeMap<String, String>;

/// The effects of a change.
#[derive(Default)]
struct Preview {
    /// The effects in words.
    lines: Vec<String>,
    /// The effects on objects.
    sections: Vec<Section>,
    labels: Option<Labels>,
    /// The state that the preview is about, for the form.
    state: Fields,
}

/// The page with the effects of a change, and the button that makes it.
pub(crate) async fn preview(
    cluster: &Cluster,
    base: &str,
    action: Action,
    subject: &Subject,
    fields: &Fields,
) -> Report {
    let found = match subject {
        Subject::Chain(subject) => chains::preview(cluster, action, subject, fields).await,
        Subject::Application { namespace, target } => {
            let cluster = cluster.within(namespace);
            applications::preview(&cluster, action, target, fields).await
        }
        Subject::Sites { namespace, target } => {
            let cluster = cluster.within(namespace);
            sites::preview(&cluster, action, target, fields).await
        }
    };
    let name = subject.name();
    let title = format!("{} {name}", action.words());
    let page = subject.address(base);
    let is_forced = is_forced(fields);
    let content = match found {
        Err(error) => html! {
            (refusal(&error))
            @if matches!(error, Error::Foreseen { .. } | Error::Impossible(_)) && !is_forced && can_force(action) {
                form method="get" {
                    (hidden(fields))
                    input type="hidden" name="force" value="1";
                    button { "Show the effects of forcing it" }
                }
            }
        },
        Ok(preview) => {
            let labels = preview
                .labels
                .unwrap_or_else(|| Labels::new("live", "applied"));
            html! {
                @for line in &preview.lines { p { (Text(line)) } }
                form.confirm method="post" {
                    (hidden(fields))
                    (hidden(&preview.state))
                    button.act { (Text(&title)) }
                }
                (sections(&preview.sections, &labels))
            }
        }
    };
    let content = html! {
        h1 { (Text(&title)) }
        (content)
        p { a href=(page) { "Back to " (Text(&name)) } }
    };
    Report { title, content }
}

/// Makes a change. Returns the line about it.
///
/// # Errors
/// If it is refused, or the object is not in the state of the preview any more.
pub(crate) async fn perform(
    cluster: &Cluster,
    action: Action,
    subject: &Subject,
    fields: &Fields,
) -> Result<(), Error> {
    match subject {
        Subject::Chain(subject) => chains::perform(cluster, action, subject, fields).await,
        Subject::Application { namespace, target } => {
            let cluster = cluster.within(namespace);
            applications::perform(&cluster, action, target, fields).await
        }
        Subject::Sites { namespace, target } => {
            let cluster = cluster.within(namespace);
            sites::perform(&cluster, action, target, fields).await
        }
    }
}

/// The page with the reason that nothing was changed.
pub(crate) fn refused(base: &str, action: Action, subject: &Subject, error: &Error) -> Report {
    let name = subject.name();
    Report {
        title: "Nothing was changed".to_owned(),
        content: html! {
            h1 { "Nothing was changed" }
            p { (Text(action.words())) " " (Text(&name)) ":" }
            (refusal(error))
            p { a href=(subject.address(base)) { "Back to " (Text(&name)) } }
        },
    }
}

fn refusal(error: &Error) -> Markup {
    html! {
        p.message role="alert" { (Text(&error.to_string())) }
        @if let Error::Foreseen { refused, .. } = error {
            ul { @for line in refused { li { (Text(line)) } } }
        }
    }
}

fn hidden(fields: &Fields) -> Markup {
    html! {
        @for (name, value) in fields {
            input type="hidden" name=(Text(name)) value=(value);
        }
    }
}

/// True if a change may be forced.
fn can_force(action: Action) -> bool {
    matches!(action, Action::Rollback | Action::Promote | Action::Abort)
}

fn is_forced(fields: &Fields) -> bool {
    fields.get("force").is_some_and(|force| force == "1")
}

/// The number in a field, if there is one.
///
/// # Errors
/// If it is no number.
fn number_in<T: std::str::FromStr>(fields: &Fields, name: &str) -> Result<Option<T>, Error> {
    let text = fields.get(name).map(String::as_str).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let refusal = || Error::Usage(format!("{name}: {text:?} is no number"));
    text.parse().map(Some).map_err(|_| refusal())
}

/// The error for a change that an object of this kind does not have.
fn unknown(action: Action, target: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("{target}: there is no such change ({action:?})"))
}
