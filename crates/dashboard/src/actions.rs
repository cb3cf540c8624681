//! Changes of rollouts: each has a page with its effects, and a button that names the object.
//!
//! All requests are made with the credentials of the viewer. The page sends dry runs, so a right that is
//! missing is named there. The form carries the state that the page is about: UID and generation of the
//! object, and the choice that was shown. The change is refused if the object is in another state.

mod applications;
mod chains;
mod sites;

use std::{collections::BTreeMap, sync::Arc};

use baton_cluster::{Cluster, ClusterError};
use baton_pages::{
    action::Action,
    html::{Text, address},
    subject::{ChainSubject, are_names},
};
use baton_steering::{Error, pausing, version::SpecVersion};
use baton_text::diff::Labels;
use baton_view::{applications::target::AppTarget, diff::Section, sites::target::SiteTarget};
use maud::{Markup, html};
use parking_lot::Mutex;

use crate::{
    failure::Failure,
    reports::{Report, sections},
};

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

    /// The URL path of the object.
    fn path(&self) -> String {
        match self {
            Self::Chain(ChainSubject {
                target,
                kind,
                namespace,
            }) => kind.path_of(namespace.as_deref(), &target.name),
            Self::Application { namespace, target } => {
                target.kind.path_of(Some(namespace), &target.name)
            }
            Self::Sites { namespace, target } => target.path(namespace),
        }
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

/// Remarks about a change, such as rights that are missing for a part of it.
type Remarks = Arc<Mutex<Vec<String>>>;

/// The cluster with remarks that are collected.
fn collecting(cluster: &Cluster) -> (Cluster, Remarks) {
    let remarks = Remarks::default();
    let sink = Arc::clone(&remarks);
    let cluster = cluster.with_warnings(Arc::new(move |text: &str| {
        let mut remarks = sink.lock();
        if !remarks.iter().any(|it| it == text) {
            remarks.push(text.to_owned());
        }
    }));
    (cluster, remarks)
}

/// The state of the object of a change, for its form.
async fn state(cluster: &Cluster, subject: &Subject) -> Result<Fields, Error> {
    let object = cluster.metadata_at(&subject.path()).await?;
    let missing = || Error::NotFound(format!("{} does not exist", subject.name()));
    let object = object.ok_or_else(missing)?;
    let metadata = &object["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    Ok(Fields::from([
        ("uid".to_owned(), uid),
        ("generation".to_owned(), generation.to_string()),
    ]))
}

/// The page with the effects of a change, and the button that makes it.
///
/// # Errors
/// The reason that the change is not possible, with its page.
pub(crate) async fn preview(
    cluster: &Cluster,
    base: &str,
    action: Action,
    subject: &Subject,
    fields: &Fields,
) -> Result<Report, (Failure, Report)> {
    let (cluster, remarks) = collecting(cluster);
    let cluster = &cluster;
    let name = subject.name();
    let by_force = if is_forced(fields) { " by force" } else { "" };
    let title = format!("{} {name}{by_force}", action.words());
    let back = html! { p { a href=(subject.address(base)) { "Back to " (Text(&name)) } } };
    let page = |content: Markup| Report {
        content: html! { h1 { (Text(&title)) } (content) (back) },
        title: title.clone(),
    };
    let found = async {
        // Read first: a change after that is found by the form.
        let state = state(cluster, subject).await?;
        let found = effects(cluster, action, subject, fields).await?;
        Ok::<_, Error>((state, found))
    };
    let (state, found) = match found.await {
        Ok(found) => found,
        Err(error) => {
            let can_be_forced = can_be_forced(cluster, action, subject, fields, &error).await;
            let content = html! {
                (refusal(&error))
                @if can_be_forced {
                    form method="get" {
                        (hidden(fields))
                        input type="hidden" name="force" value="1";
                        button { "Show the effects of forcing it" }
                    }
                }
            };
            let report = page(content);
            return Err((error.into(), report));
        }
    };
    let labels = found
        .labels
        .unwrap_or_else(|| Labels::new("live", "applied"));
    let mut all = fields.clone();
    all.extend(state);
    all.extend(found.state);
    let remarks = remarks.lock();
    Ok(page(html! {
        @for line in &found.lines { p { (Text(line)) } }
        @for remark in remarks.iter() { p.warning { "Warning: " (Text(remark)) } }
        form.confirm method="post" {
            (hidden(&all))
            button.act { (Text(&title)) }
        }
        (sections(&found.sections, &labels))
    }))
}

async fn effects(
    cluster: &Cluster,
    action: Action,
    subject: &Subject,
    fields: &Fields,
) -> Result<Preview, Error> {
    match subject {
        Subject::Chain(subject) => chains::preview(cluster, action, subject, fields).await,
        Subject::Application { namespace, target } => {
            let cluster = cluster.within(namespace);
            applications::preview(&cluster, action, target, fields).await
        }
        Subject::Sites { namespace, target } => {
            let cluster = cluster.within(namespace);
            sites::preview(&cluster, action, target, fields).await
        }
    }
}

/// Makes a change. Returns remarks about it; mostly there are none.
///
/// # Errors
/// If it is refused, or the object is not in the state of the preview any more.
pub(crate) async fn perform(
    cluster: &Cluster,
    action: Action,
    subject: &Subject,
    fields: &Fields,
) -> Result<Vec<String>, Error> {
    let (cluster, remarks) = collecting(cluster);
    let cluster = &cluster;
    let now = state(cluster, subject).await?;
    if now
        .iter()
        .any(|(name, value)| fields.get(name) != Some(value))
    {
        let name = subject.name();
        return Err(Error::Impossible(format!(
            "{name} has changed since its page was made; look at the effects again"
        )));
    }
    match subject {
        Subject::Chain(subject) => chains::perform(cluster, action, subject, fields).await?,
        Subject::Application { namespace, target } => {
            let cluster = cluster.within(namespace);
            applications::perform(&cluster, action, target, fields).await?;
        }
        Subject::Sites { namespace, target } => {
            let cluster = cluster.within(namespace);
            sites::perform(&cluster, action, target, fields).await?;
        }
    }
    Ok(std::mem::take(&mut *remarks.lock()))
}

/// The page after a change with remarks.
pub(crate) fn done(base: &str, action: Action, subject: &Subject, remarks: &[String]) -> Report {
    let name = subject.name();
    let title = format!("{} {name}: done", action.words());
    Report {
        content: html! {
            h1 { (Text(&title)) }
            @for remark in remarks { p.warning { "Warning: " (Text(remark)) } }
            p { a href=(subject.address(base)) { "Back to " (Text(&name)) } }
        },
        title,
    }
}

/// The page with the reason that nothing was changed, as far as it is known.
pub(crate) fn refused(base: &str, action: Action, subject: &Subject, error: &Error) -> Report {
    let name = subject.name();
    // The server may have made the change, although its answer did not arrive.
    let is_unknown = match error {
        Error::Cluster(ClusterError::Refused(status)) => status.code >= 500,
        Error::Cluster(ClusterError::Unreachable { .. }) => true,
        _ => false,
    };
    let title = if is_unknown {
        "It is not known if anything was changed"
    } else {
        "Nothing was changed"
    };
    Report {
        title: title.to_owned(),
        content: html! {
            h1 { (title) }
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

/// True if a change that was refused is possible by force.
async fn can_be_forced(
    cluster: &Cluster,
    action: Action,
    subject: &Subject,
    fields: &Fields,
    error: &Error,
) -> bool {
    if is_forced(fields) || !matches!(error, Error::Foreseen { .. } | Error::Impossible(_)) {
        return false;
    }
    let mut forced = fields.clone();
    forced.insert("force".to_owned(), "1".to_owned());
    effects(cluster, action, subject, &forced).await.is_ok()
}

fn is_forced(fields: &Fields) -> bool {
    fields.get("force").is_some_and(|force| force == "1")
}

/// The state of the object that a form is about.
///
/// # Errors
/// If the form has none.
fn shown(fields: &Fields) -> Result<SpecVersion, Error> {
    let uid = fields.get("uid").cloned();
    let missing = || Error::Usage("the form does not have the state of the object".to_owned());
    Ok(SpecVersion {
        uid: uid.ok_or_else(missing)?,
        generation: number_in(fields, "generation")?,
    })
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

/// The change of a pause, as the commands name it.
fn switch(action: Action) -> pausing::Action {
    match action {
        Action::Pause => pausing::Action::Pause,
        _ => pausing::Action::Resume,
    }
}

/// The error for a pause of an object that is paused, or a resume of one that is not.
fn needs_no_pause(action: Action, target: &dyn std::fmt::Display) -> Error {
    let (_, already) = switch(action).words();
    Error::Impossible(format!("{target} is {already}"))
}

/// The error for a change that an object of this kind does not have.
fn unknown(action: Action, target: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("{target}: there is no such change ({action:?})"))
}
