//! The effects of applying a deployment or a revision, found by dry runs.
//!
//! The object itself is applied first, as a dry run. If the apply creates a new revision, the objects
//! of the revision are applied as dry runs as well, as the manager would apply them.

use std::collections::BTreeSet;

use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT, Write, lists};
use baton_engine::{
    ObjectKey,
    definitions::{allows_data_loss, is_definition, recreation_refusal},
    diff::leftovers::Leftovers,
    handover::{classify, former_managers},
    owners,
    recreate::is_recreated,
    revision::{Desired, KindScope, KindState, Kinds, Phase, Reach, Revision as Next, violations},
};
use baton_kubernetes::{answer::is_immutable, wire::MediaType};
use baton_text::output::format::name;
use baton_view::{
    chain::{kind::ChainKind, member::Revision},
    children::LookupResult,
    content::RevisionContent,
    diff::{
        Section, Topic,
        apply::{ChainSiblings, NewContainers, Response, evaluate, request, without_unchanged},
        note::ObjectNote,
        outcome::{DiffOutcome, UnreadReason},
        plan::{Plan, as_next, itself, last_applied, three_way},
        revisions::{RevisionSide, settings},
    },
    served::Unserved,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::Value;

use super::{
    definitions,
    losses::{RemovalForecast, with_warning},
    phase_clusters::{PhaseClusters, PlacedChildren, read_again},
    takeover,
};
use crate::error::Error;

/// The namespace that every cluster has.
const DEFAULT_NAMESPACE: &str = "default";

/// Attempts for an object that changes during the dry run.
const ROUNDS: usize = 5;

/// Sends a dry run of an apply as the manager would send it; forced for an object that exists.
///
/// # Errors
/// If the kind is not served, or the server refuses the apply.
pub async fn dry_run(
    cluster: &Cluster,
    object: &Desired,
    body: &Value,
    is_forced: bool,
) -> Result<Value, Error> {
    let path = cluster.path_of(&object.gvk, &object.key).await?;
    let mut body = body.clone();
    owners::encode(&mut body);
    let mut answer = cluster.dry_run_apply(&path, &body, is_forced).await?;
    owners::decode(&mut answer);
    Ok(answer)
}

/// The object after an apply without the leftovers that are the reason for its refusal; `None` if
/// they are not the only reason.
async fn without_leftovers(
    cluster: &Cluster,
    object: &Desired,
    body: &Value,
    live: &Value,
    refusal: &str,
) -> Result<Option<Value>, Error> {
    let mut leftovers = Leftovers::of(body, live, refusal);
    if leftovers.is_empty() {
        return Ok(None);
    }
    loop {
        let patch = leftovers.merge_patch(body.clone(), live);
        match dry_run_merge(cluster, object, patch.clone()).await {
            Ok(answer) => return Ok(Some(answer)),
            Err(Error::Cluster(ClusterError::Refused(status))) if status.code != 409 => {
                match leftovers.with_more(&patch, live, &status.message) {
                    Some(more) => leftovers = more,
                    None => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends a dry run of an apply without leftovers, as the manager would send it.
async fn dry_run_merge(
    cluster: &Cluster,
    object: &Desired,
    mut patch: Value,
) -> Result<Value, Error> {
    let url = cluster.path_of(&object.gvk, &object.key).await?;
    owners::encode(&mut patch);
    let write = Write {
        content: MediaType::MergePatch,
        options: "",
        dry_run: true,
    };
    let mut answer = cluster.write(&url, write, &patch).await?;
    owners::decode(&mut answer);
    Ok(answer)
}

/// Calls `look` with a live object, and again after a conflict, with the object read again.
///
/// `look` receives `None` if the object does not exist. Returns the conflict if the last attempt
/// ends in one as well.
///
/// # Errors
/// Those of `look`, and if the object cannot be read again.
pub async fn retried<T>(
    cluster: &Cluster,
    object: &Desired,
    live: Option<&Value>,
    mut look: impl AsyncFnMut(Option<&Value>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut read;
    let mut live = live;
    for _ in 1..ROUNDS {
        match look(live).await {
            Err(error) if error.is_code(409) => {
                read = read_again(cluster, object).await?;
                live = read.as_ref();
            }
            done => return done,
        }
    }
    look(live).await
}

/// The effects of applying a deployment or a revision. `given` are slices that are applied together
/// with the object.
///
/// # Errors
/// If objects cannot be read, or the deployment or the revision itself would be refused.
pub async fn forecast(
    places: &PhaseClusters,
    object: &Value,
    kind: ChainKind,
    given: &[Value],
) -> Result<Vec<Section>, Error> {
    let cluster = &places.home;
    let namespace = object["metadata"]["namespace"].as_str();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let path = kind.path_of(namespace, name);
    // Read first, to distinguish a server without our kinds from a server without the object.
    let chains = lists::chains(cluster, kind, namespace).await?;
    let live = cluster.get_at(&path).await?;
    let after = dry_run_itself(cluster, &path, kind, object, live.as_ref()).await?;
    let plan = match live {
        // The spec of a revision is immutable, so the apply creates no revision.
        Some(_) if !kind.is_deployment() => None,
        _ => Plan::of(kind, &after, &chains)?,
    };
    let mut sections: Vec<Section> = itself(kind, live.as_ref(), &after).into_iter().collect();
    if let Some(plan) = plan {
        sections.extend(of_plan(places, &plan, given).await?);
    }
    Ok(sections)
}

/// The deployment or the revision as the server would store it.
async fn dry_run_itself(
    cluster: &Cluster,
    path: &str,
    kind: ChainKind,
    object: &Value,
    live: Option<&Value>,
) -> Result<Value, Error> {
    let applied = live.and_then(last_applied);
    let merged = applied.map(|applied| three_way(&applied, object));
    let (content, options) = match &merged {
        Some(_) => (MediaType::MergePatch, "&fieldValidation=Strict"),
        None => (MediaType::Apply, "&fieldValidation=Strict&force=true"),
    };
    let write = Write {
        content,
        options,
        dry_run: true,
    };
    let answer = cluster.write(path, write, merged.as_ref().unwrap_or(object));
    let answer = answer.await;
    answer.map_err(|error| match error {
        ClusterError::Refused(status) if !kind.is_deployment() && status.message.contains("is immutable") => {
            Error::Impossible(format!(
                "{} exists with other content, and a revision cannot be changed: give the new revision another name, \
                     and name this one in `previous`",
                name(object)
            ))
        }
        error => error.into(),
    })
}

/// The effects of a revision on all objects that the revision and its predecessors want.
pub(crate) async fn of_plan(
    places: &PhaseClusters,
    plan: &Plan,
    given: &[Value],
) -> Result<Vec<Section>, Error> {
    let cluster = &places.home;
    let newest = plan.previous.last();
    let read = plan.live().chain(newest).chain([&plan.revision]);
    let mut slices = lists::slices(cluster, read).await?;
    for slice in given {
        slices.insert(slice.clone());
    }
    let next = as_next(&plan.revision);
    let content = plan.content(&slices);
    let old = plan.former(&slices);
    let mut wanted = vec![(&plan.revision, &content)];
    wanted.extend(old.iter().map(|(revision, content)| (*revision, content)));
    let children = places.children(&wanted).await?;

    let mut sections = Vec::new();
    let side = RevisionSide::of_revision(&plan.revision, content.clone());
    let missing = side.missing_slices();
    if !missing.is_empty() {
        sections.push(Section::new(Topic::Slices).fate(DiffOutcome::NoSlices(missing)));
    }
    let objects = of_objects(places, plan, &next, &content, &children).await?;
    sections.extend(objects);
    sections.extend(of_old_objects(places, plan, &content, &old, &children).await?);
    let fates = DiffOutcome::count(sections.iter().map(|section| section.outcome.group()));
    let (sections, left_out) = without_unchanged(sections);
    let first = Section::new(Topic::Revision(next.number)).fate(fates);
    let first = first.notes(plan.note.clone().into_iter().chain(left_out));
    let before = newest.map(|newest| RevisionSide::of_revision(newest, slices.content(newest)));
    let settings = before.and_then(|before| settings(&before, &side));
    Ok([first]
        .into_iter()
        .chain(settings)
        .chain(sections)
        .collect())
}

async fn of_objects(
    places: &PhaseClusters,
    plan: &Plan,
    next: &Next,
    content: &RevisionContent,
    children: &PlacedChildren,
) -> Result<Vec<Section>, Error> {
    let bringing = NewContainers::of(content);
    let mut keys = BTreeSet::new();
    let objects: Vec<_> = content
        .placed()
        .map(|(phase, object)| (phase, object, keys.insert(&object.key)))
        .collect();
    let sections = objects.into_iter().map(|(phase, object, is_first)| {
        let (siblings, bringing) = (&plan.siblings, &bringing);
        async move {
            let section = Section::of(object, &phase.name);
            if !is_first {
                return Ok(section.fate(DiffOutcome::Twice));
            }
            let Some(cluster) = places.of(phase) else {
                return Ok(section.fate(DiffOutcome::NotCompared(UnreadReason::Class(
                    phase.class.clone(),
                ))));
            };
            let live = match children.find(phase, &object.key) {
                LookupResult::Live(live) => Some(live),
                // The revision would be refused, whatever objects exist.
                LookupResult::Missing
                | LookupResult::Unreadable(Unserved::Absent | Unserved::OtherVersion(_)) => None,
                LookupResult::Unreadable(why) => return Err(Error::Impossible(why.to_string())),
            };
            let next = &Next {
                delivery: phase.delivery(),
                // Only the manager knows the reach of a phase that is delivered elsewhere.
                reach: if phase.is_here() {
                    next.reach.clone()
                } else {
                    Reach::Cluster
                },
                ..next.clone()
            };
            let look = async |live: Option<&Value>| {
                let body = match request(next, siblings, object, live) {
                    Ok(body) => body,
                    Err(fate) => return Ok(Section::of(object, &phase.name).fate(fate)),
                };
                let answer = send(cluster, next, object, &body, live).await?;
                let answer = match answer {
                    Response::Refused(why) if bringing.makes_namespace(object, &why) => {
                        let invalid = invalid_anywhere(cluster, object).await?;
                        Response::Refused(invalid.unwrap_or(why))
                    }
                    answer => answer,
                };
                let by = (next, siblings);
                let (answer, notes) =
                    applied_object(cluster, by, object, live, &body, answer).await?;
                let name = &phase.name;
                let section = evaluate(siblings, bringing, name, object, live, answer);
                let section = section.notes(notes);
                match live {
                    Some(live) if section.outcome == DiffOutcome::Recreated => {
                        with_warning(cluster, section, object, live).await
                    }
                    _ => Ok(section),
                }
            };
            retried(cluster, object, live, look).await
        }
    });
    stream::iter(sections)
        .buffered(MAX_CONCURRENT)
        .try_collect()
        .await
}

/// The object after its apply, with notes on the take-over if no previous revision controls it.
async fn applied_object(
    cluster: &Cluster,
    (next, siblings): (&Next, &ChainSiblings),
    object: &Desired,
    live: Option<&Value>,
    body: &Value,
    response: Response,
) -> Result<(Response, Vec<ObjectNote>), Error> {
    let (Some(live), Response::Object(answer)) = (live, &response) else {
        return Ok((response, Vec::new()));
    };
    let situation = classify(next, siblings, live);
    let former = former_managers(&situation, object, live);
    let settled =
        takeover::without_former_fields(cluster, object, live, body, &former, answer.clone());
    let (answer, note) = settled.await?;
    if let Some(loss) = definitions::refusal(cluster, object, live, &answer).await? {
        return Ok((Response::Refused(loss), Vec::new()));
    }
    let mut notes = Vec::from_iter(note);
    notes.extend(definitions::notes(object, live, &answer));
    if !siblings.controls(live) {
        notes.extend(takeover::stays(live, body, &former));
    }
    Ok((Response::Object(answer), notes))
}

/// Sends a dry run as the manager would send it.
///
/// A conflict is an error, because it says nothing about the object.
async fn send(
    cluster: &Cluster,
    next: &Next,
    object: &Desired,
    body: &Value,
    live: Option<&Value>,
) -> Result<Response, Error> {
    let Some(resource) = cluster.resource(&object.gvk).await? else {
        return Ok(Response::NotServed);
    };
    if let Some(violation) = violation(next, object, resource.scope) {
        return Ok(Response::Refused(violation));
    }
    let mut answer = dry_run(cluster, object, body, live.is_some()).await;
    if let (Some(live), Err(Error::Cluster(ClusterError::Refused(status)))) = (live, &answer)
        && let Some(changed) =
            without_leftovers(cluster, object, body, live, &status.message).await?
    {
        answer = Ok(changed);
    }
    match answer {
        Ok(answer) => Ok(Response::Object(answer)),
        // A missing right of the user says nothing about the revision.
        Err(error) if error.is_lack_of_rights() || error.is_code(409) => Err(error),
        Err(Error::Cluster(ClusterError::Refused(status)))
            if is_recreated(object) && is_immutable(&status) =>
        {
            let is_kept = is_definition(&object.gvk) && !allows_data_loss(&object.manifest);
            Ok(if is_kept {
                Response::Refused(recreation_refusal(&status.message))
            } else {
                Response::Immutable
            })
        }
        Err(error @ (Error::Cluster(ClusterError::Refused(_)) | Error::Impossible(_))) => {
            Ok(Response::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The reason for which the server refuses an object in every namespace, if there is one.
///
/// A server validates nothing in a namespace that does not exist, so the object is sent to the
/// namespace that always exists. `None` if the user lacks the right, or if the object is refused
/// for another reason than an invalid content: such a refusal can be about that namespace alone.
async fn invalid_anywhere(cluster: &Cluster, object: &Desired) -> Result<Option<String>, Error> {
    let key = ObjectKey {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        ..object.key.clone()
    };
    let path = cluster.path_of(&object.gvk, &key).await?;
    let collection = path
        .rsplit_once('/')
        .map_or("", |(collection, _)| collection);
    let mut body = object.manifest.clone();
    body["metadata"]["namespace"] = DEFAULT_NAMESPACE.into();
    let url = format!("{collection}?dryRun=All");
    match cluster
        .send(Method::POST, &url, Some((MediaType::Json, &body)))
        .await
    {
        Err(error @ ClusterError::Refused(_)) if error.is_code(422) => Ok(Some(error.to_string())),
        Ok(_) | Err(ClusterError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The first violation that the manager finds without a request.
fn violation(next: &Next, object: &Desired, scope: KindScope) -> Option<String> {
    let kinds: Kinds = [(object.gvk.clone(), KindState::served(scope))].into();
    let phase = Phase {
        objects: vec![object.clone()],
        ..Phase::default()
    };
    let found = violations(next, &phase, &kinds).into_iter().next()?;
    let position = format!("{}: ", object.position(""));
    Some(found.strip_prefix(&position).unwrap_or(&found).to_owned())
}

/// The outcomes of the objects that previous revisions want and the new revision does not, newest
/// revision first.
async fn of_old_objects(
    places: &PhaseClusters,
    plan: &Plan,
    content: &RevisionContent,
    old: &[(&Revision, RevisionContent)],
    children: &PlacedChildren,
) -> Result<Vec<Section>, Error> {
    let leaving = RemovalForecast::new(&plan.siblings, content, &plan.deletion);
    let wanted = content.placed();
    let mut keys: BTreeSet<_> = wanted
        .map(|(phase, it)| (phase.delivery_class(), &it.key))
        .collect();
    let mut sections = Vec::new();
    let objects = old.iter().rev().flat_map(|(_, content)| content.placed());
    for (phase, object) in objects {
        if !keys.insert((phase.delivery_class(), &object.key)) {
            continue;
        }
        let found = children.find(phase, &object.key);
        let section = leaving.section(places.of(phase), (phase, object), found);
        sections.extend(section.await?);
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_no_lack_of_rights() {
        let refused = |code, message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(code);
            Error::Cluster(ClusterError::Refused(Box::new(status))).is_lack_of_rights()
        };
        let rights = "configmaps \"web\" is forbidden: User \"dev\" cannot patch resource \"configmaps\" in API \
             group \"\" in the namespace \"shop\"";
        assert!(refused(403, rights));
        assert!(refused(401, "Unauthorized"));
        assert!(!refused(
            403,
            "configmaps \"web\" is forbidden: exceeded quota: small"
        ));
        assert!(!refused(409, rights));
        assert!(!Error::Usage(rights.to_owned()).is_lack_of_rights());
    }
}
