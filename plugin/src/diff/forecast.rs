//! What applying a deployment or a revision would do, found out by dry runs.
//!
//! First the object itself is applied as a dry run. If that makes a new revision, its objects are
//! applied as dry runs as well, in the way the manager would do it.

use std::collections::BTreeSet;

use baton::engine::revision::{Desired, KindScope, Kinds, Phase, Revision as Next, violations};
use baton_apis::constants::FIELD_MANAGER;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::Value;

use super::apply::{Answer, Ask, Bringing, ask, condense, left_behind, summary, tell};
use super::plan::{Plan, as_next, itself, last_applied, of_deployment, of_revision, three_way};
use super::revisions::{Side, settings};
use super::{Section, Tone};
use crate::chain::{Revision, read_all};
use crate::children::{Children, Detail, Found};
use crate::connect::{self, Cluster, Content as Body};
use crate::content::{Content, Slices};
use crate::error::Error;
use crate::output::name;
use crate::target::Kind;

/// Dry runs under way at the same time.
const SIDE_BY_SIDE: usize = 8;

/// How often an object that changes in between is looked at again.
pub const ROUNDS: usize = 5;

/// Sends a dry run of an apply as the manager would send it; forced for an object that exists.
///
/// # Errors
/// Refused (409 when the object is not in the state that the body names, or exists by now), no answer,
/// or the kind is not served.
pub async fn dry_run(
    cluster: &Cluster,
    object: &Desired,
    body: &Value,
    is_forced: bool,
) -> Result<Value, Error> {
    let path = path(cluster, object).await?;
    let path = format!(
        "{path}?fieldManager={FIELD_MANAGER}&fieldValidation=Ignore&dryRun=All&force={is_forced}"
    );
    let body = Some((Body::Apply, body));
    cluster.send(Method::PATCH, &path, body).await
}

/// Whether a refusal is about who asks. Quotas and admission refuse with the same code, for another
/// reason.
#[must_use]
pub fn is_lack_of_rights(error: &Error) -> bool {
    match error {
        Error::Refused(status) => {
            status.code == 401
                || (status.code == 403 && status.message.contains(" cannot patch resource "))
        }
        _ => false,
    }
}

/// Reads an object that has changed since it was read.
///
/// # Errors
/// Refused, or no answer.
pub async fn read_again(cluster: &Cluster, object: &Desired) -> Result<Option<Value>, Error> {
    let path = path(cluster, object).await?;
    cluster.get_at(&path).await
}

async fn path(cluster: &Cluster, object: &Desired) -> Result<String, Error> {
    let Some(resource) = cluster.resource(&object.gvk).await? else {
        let (version, kind) = (object.gvk.api_version(), &object.gvk.kind);
        return Err(Error::NotFound(format!("{version} {kind} is not served")));
    };
    resource
        .path_of(&object.gvk, &object.key)
        .map_err(Error::Impossible)
}

/// What applying a deployment or a revision would do. `given` are slices that come with it.
///
/// # Errors
/// The server refuses the object itself, or something cannot be read.
pub async fn forecast(
    cluster: &Cluster,
    object: &Value,
    kind: Kind,
    given: &[Value],
) -> Result<Vec<Section>, Error> {
    let namespace = object["metadata"]["namespace"].as_str();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = kind.path_of(namespace, &connect::escape(name));
    // First, as this tells a server without our kinds from one without the object.
    let chains = read_all(cluster, kind, namespace).await?;
    let live = cluster.get_at(&path).await?;
    let after = dry_run_itself(cluster, &path, kind, object, live.as_ref()).await?;
    let plan = if kind.is_deployment() {
        of_deployment(&after, &chains)?
    } else if live.is_some() {
        // A revision does not change.
        None
    } else {
        Some(of_revision(&after, &chains)?)
    };
    let mut sections: Vec<Section> = itself(kind, live.as_ref(), &after).into_iter().collect();
    if let Some(plan) = plan {
        sections.extend(of_plan(cluster, &plan, given).await?);
    }
    Ok(sections)
}

/// What the server would make of the deployment or the revision itself.
async fn dry_run_itself(
    cluster: &Cluster,
    path: &str,
    kind: Kind,
    object: &Value,
    live: Option<&Value>,
) -> Result<Value, Error> {
    let options = format!(
        "?fieldManager={}&fieldValidation=Strict&dryRun=All",
        connect::FIELD_MANAGER
    );
    let applied = live.and_then(last_applied);
    let merged;
    let (options, body) = if let Some(applied) = applied {
        merged = three_way(&applied, object);
        (options, (Body::MergePatch, &merged))
    } else {
        (format!("{options}&force=true"), (Body::Apply, object))
    };
    let answer = cluster
        .send(Method::PATCH, &format!("{path}{options}"), Some(body))
        .await;
    answer.map_err(|error| match error {
        Error::Refused(status) if !kind.is_deployment() && status.message.contains("is immutable") => {
            Error::Impossible(format!(
                "{} exists with another content, and revisions do not change: give the new one another name, and this one in `previous`",
                name(object)
            ))
        }
        error => error,
    })
}

/// What a revision would do with all objects that it and the revisions before it want.
async fn of_plan(cluster: &Cluster, plan: &Plan, given: &[Value]) -> Result<Vec<Section>, Error> {
    let live_ones: Vec<&Revision> = plan
        .previous
        .iter()
        .filter(|one| !one.is_archived())
        .collect();
    let newest = plan.previous.last();
    let read = live_ones
        .iter()
        .copied()
        .chain(newest)
        .chain([&plan.revision]);
    let mut slices = Slices::read(cluster, read).await?;
    for slice in given {
        slices.insert(slice.clone());
    }
    let next = as_next(&plan.revision);
    let phases = plan.revision.spec.phases.as_deref().unwrap_or_default();
    let content = slices.resolve(&next, plan.revision.namespace(), phases);
    let old: Vec<(&Revision, Content)> = live_ones
        .into_iter()
        .map(|revision| (revision, slices.content(revision)))
        .collect();
    let mut wanted = vec![(&plan.revision, &content)];
    wanted.extend(old.iter().map(|(revision, content)| (*revision, content)));
    let children = Children::read(cluster, &wanted, Detail::Whole).await?;

    let mut sections = Vec::new();
    let side = Side::of_revision(&plan.revision, content.clone());
    let missing = side.missing_slices();
    if !missing.is_empty() {
        let verdict = format!("refused: there is no slice {}", missing.join(", no slice "));
        sections.push(head("slices").verdict(Tone::Bad, verdict));
    }
    let objects = of_objects(cluster, plan, &next, &content, &children).await?;
    sections.extend(objects);
    sections.extend(of_old_objects(plan, &content, &old, &children));
    let fates = summary(&sections);
    let (sections, left_out) = condense(sections);
    let mut first = head(&format!("revision {}", next.number)).verdict(Tone::Added, fates);
    first.notes = plan.note.iter().cloned().chain(left_out).collect();
    let before = newest.map(|newest| Side::of_revision(newest, slices.content(newest)));
    let settings = before.and_then(|before| settings(&before, &side));
    Ok([first]
        .into_iter()
        .chain(settings)
        .chain(sections)
        .collect())
}

/// A section about the revision as a whole.
fn head(title: &str) -> Section {
    Section {
        file: String::new(),
        title: title.to_owned(),
        verdict: String::new(),
        tone: Tone::Same,
        notes: Vec::new(),
        pair: None,
    }
}

async fn of_objects(
    cluster: &Cluster,
    plan: &Plan,
    next: &Next,
    content: &Content,
    children: &Children,
) -> Result<Vec<Section>, Error> {
    let bringing = Bringing::of(content);
    let mut seen = BTreeSet::new();
    let objects = content.phases.iter().flat_map(|phase| {
        let objects = phase.objects.iter();
        objects.map(move |object| (phase, object))
    });
    let objects: Vec<_> = objects
        .map(|(phase, object)| (phase, object, seen.insert(&object.key)))
        .collect();
    let sections = objects.into_iter().map(|(phase, object, is_first)| {
        let (family, bringing) = (&plan.family, &bringing);
        async move {
            let section = Section::of(&object.gvk, &object.key, Some(&phase.name));
            if !is_first {
                let verdict = "refused: it is in the revision already";
                return Ok(section.verdict(Tone::Bad, verdict));
            }
            if !phase.is_here() {
                let verdict = format!("not compared: class {} writes it", phase.class);
                return Ok(section.verdict(Tone::Same, verdict));
            }
            let mut live = match children.find(&object.key) {
                Found::Live(live) => Some(live.clone()),
                Found::Missing => None,
                // A kind that is not served has no objects.
                Found::Unreadable(_) if cluster.resource(&object.gvk).await?.is_none() => None,
                Found::Unreadable(why) => return Err(Error::Impossible(why.to_owned())),
            };
            let next = &Next {
                delivery: phase.delivery(),
                ..next.clone()
            };
            let mut rounds = ROUNDS;
            loop {
                rounds -= 1;
                let (body, is_forced) = match ask(next, family, &phase.name, object, live.as_ref())
                {
                    Ask::Nothing(section) => return Ok(section),
                    Ask::Create(body) => (body, false),
                    Ask::Apply(body) => (body, true),
                };
                match send(cluster, next, object, &body, is_forced).await {
                    Ok(answer) => {
                        let live = live.as_ref();
                        return Ok(tell(family, bringing, &phase.name, object, live, answer));
                    }
                    Err(error) if error.is_code(409) && rounds > 0 => {
                        live = read_again(cluster, object).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    });
    stream::iter(sections)
        .buffered(SIDE_BY_SIDE)
        .try_collect()
        .await
}

/// Sends a dry run as the manager would. A conflict is an error: it says nothing about the object.
async fn send(
    cluster: &Cluster,
    next: &Next,
    object: &Desired,
    body: &Value,
    is_forced: bool,
) -> Result<Answer, Error> {
    let Some(resource) = cluster.resource(&object.gvk).await? else {
        return Ok(Answer::NotServed);
    };
    if let Some(violation) = violation(next, object, resource.scope) {
        return Ok(Answer::Refused(violation));
    }
    match dry_run(cluster, object, body, is_forced).await {
        Ok(answer) => Ok(Answer::Object(answer)),
        // Who may not ask is told so; that is no property of the revision.
        Err(error) if is_lack_of_rights(&error) || error.is_code(409) => Err(error),
        Err(error @ (Error::Refused(_) | Error::Impossible(_))) => {
            Ok(Answer::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// What the manager finds wrong before it asks the server.
fn violation(next: &Next, object: &Desired, scope: KindScope) -> Option<String> {
    let kinds: Kinds = [(object.gvk.clone(), scope)].into();
    let phase = Phase {
        objects: vec![object.clone()],
        ..Phase::default()
    };
    let found = violations(next, &phase, &kinds).into_iter().next()?;
    let position = format!("{}: ", object.position(""));
    Some(found.strip_prefix(&position).unwrap_or(&found).to_owned())
}

/// Objects that the revisions before want and the new one does not, newest first.
fn of_old_objects(
    plan: &Plan,
    content: &Content,
    old: &[(&Revision, Content)],
    children: &Children,
) -> Vec<Section> {
    let mut seen: BTreeSet<_> = content.objects().map(|object| &object.key).collect();
    let mut sections = Vec::new();
    for (_, content) in old.iter().rev() {
        for phase in &content.phases {
            for object in &phase.objects {
                if !seen.insert(&object.key) {
                    continue;
                }
                let live = match children.find(&object.key) {
                    Found::Live(live) => Some(live),
                    Found::Missing | Found::Unreadable(_) => None,
                };
                let when = &plan.deletion;
                sections.extend(left_behind(&plan.family, &phase.name, object, live, when));
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_no_lack_of_rights() {
        let refused = |code, message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(code);
            is_lack_of_rights(&Error::Refused(Box::new(status)))
        };
        let rights = "configmaps \"web\" is forbidden: User \"dev\" cannot patch resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
        assert!(refused(403, rights));
        assert!(refused(401, "Unauthorized"));
        assert!(!refused(
            403,
            "configmaps \"web\" is forbidden: exceeded quota: small"
        ));
        assert!(!refused(409, rights));
        assert!(!is_lack_of_rights(&Error::Usage(rights.to_owned())));
    }
}
