//! What applying a deployment or a revision would do, found out by dry runs.
//!
//! First the object itself is applied as a dry run. If that makes a new revision, its objects are
//! applied as dry runs as well, in the way the manager would do it.

use std::collections::BTreeSet;

use baton::engine::object::Identity;
use baton::engine::revision::{Desired, KindScope, Kinds, Phase, Revision as Next, violations};
use baton_apis::constants::{
    ANNOTATION_LAST_APPLIED, FIELD_MANAGER, LABEL_INSTANCE, LABEL_PACKAGE,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Map, Value, json};

use super::apply::{Answer, Ask, Bringing, Family, ask, left_behind, summary, tell};
use super::clean::clean_live;
use super::revisions::{Side, settings};
use super::{Pair, Section, Tone, gone};
use crate::chain::{self, Chain, Deployment, Revision, read_all};
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
/// Refused (409 when the object is not in the state that the body names, or exists by now), or no
/// answer. A kind that is not served is an error with the code 404.
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
    let live = cluster.get_at(&path).await?;
    let after = dry_run_itself(cluster, &path, kind, object, live.as_ref()).await?;
    let chains = read_all(cluster, kind, namespace).await?;
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

/// The manifest that `kubectl apply` has left on an object.
fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][ANNOTATION_LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The merge patch of a client-side `kubectl apply`: all that is given, and the removal of what was
/// given the last time and is no longer.
fn three_way(applied: &Value, given: &Value) -> Value {
    let (Value::Object(applied), Value::Object(given)) = (applied, given) else {
        return given.clone();
    };
    let mut patch: Map<String, Value> = applied
        .keys()
        .filter(|key| !given.contains_key(*key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    for (key, value) in given {
        let before = applied.get(key).unwrap_or(&Value::Null);
        patch.insert(key.clone(), three_way(before, value));
    }
    patch.into()
}

/// The change of the object itself, without the content of its revisions.
fn itself(kind: Kind, live: Option<&Value>, after: &Value) -> Option<Section> {
    let section = Section {
        file: name(after),
        title: name(after),
        verdict: String::new(),
        tone: Tone::Same,
        notes: Vec::new(),
        pair: None,
    };
    let Some(live) = live else {
        return Some(section.verdict(Tone::Added, "created"));
    };
    let bare = |object: &Value| {
        let mut object = clean_live(object.clone());
        let spec = if kind.is_deployment() {
            object.pointer_mut("/spec/template/spec")
        } else {
            object.pointer_mut("/spec")
        };
        if let Some(spec) = spec.and_then(Value::as_object_mut) {
            for field in ["phases", "availabilityProbes", "successDelaySeconds"] {
                spec.remove(field);
            }
        }
        object
    };
    let pair = Pair::new(Some(bare(live)), Some(bare(after)));
    (!pair.is_same()).then(|| section.verdict(Tone::Changed, "changed").pair(pair))
}

/// A revision that would be made.
struct Plan {
    /// It, as if it existed.
    revision: Revision,
    /// The revision that it would follow, and all that it takes objects over from.
    previous: Vec<Revision>,
    /// All revisions of the place.
    family: Family,
    /// When objects that it does not want go.
    deletion: String,
    /// What keeps it from being made now.
    note: Option<String>,
}

/// The revision that a deployment would make next; `None` when it makes none.
fn of_deployment(after: &Value, chains: &[Chain]) -> Result<Option<Plan>, Error> {
    let unreadable = |error: serde_json::Error| Error::Impossible(error.to_string());
    let deployment = Deployment::parse(after.clone()).map_err(unreadable)?;
    let members = chains
        .iter()
        .find(|chain| {
            let known = chain.deployment.as_ref();
            known.is_some_and(|known| {
                known.kind == deployment.kind && known.name() == deployment.name()
            })
        })
        .map_or(&[][..], |chain| &chain.revisions);
    let newest = members.last();
    let has_phases = deployment
        .spec
        .template
        .spec
        .phases
        .as_ref()
        .is_some_and(|p| !p.is_empty());
    if !has_phases || newest.is_some_and(|newest| chain::is_made_from(newest, &deployment)) {
        return Ok(None);
    }
    let numbers = members.iter().filter_map(Revision::number);
    let number = numbers.max().unwrap_or(0) + 1;
    let template = &after["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["revision"] = number.into();
    let revision = Revision::parse(json!({
        "apiVersion": after["apiVersion"],
        "kind": deployment.kind.revision().name(),
        "metadata": {
            "name": "",
            "namespace": deployment.metadata.namespace,
            "labels": deployment.spec.template.metadata.labels,
        },
        "spec": spec,
    }))
    .map_err(unreadable)?;
    let previous: BTreeSet<String> = members.iter().map(|one| one.name().to_owned()).collect();
    let target = deployment.target();
    Ok(Some(Plan {
        family: Family::new(all(chains), &previous),
        previous: members.to_vec(),
        deletion: format!("when revision {number} is available"),
        note: deployment.spec.paused.then(|| {
            format!("paused: nothing of this happens before `kubectl baton resume {target}`")
        }),
        revision,
    }))
}

/// The revision that a user would make.
fn of_revision(after: &Value, chains: &[Chain]) -> Result<Plan, Error> {
    let revision = Revision::parse(after.clone());
    let mut revision = revision.map_err(|error| Error::Impossible(error.to_string()))?;
    let names: BTreeSet<String> = revision.previous().map(str::to_owned).collect();
    let mut previous: Vec<Revision> = all(chains)
        .filter(|known| known.kind == revision.kind && names.contains(known.name()))
        .cloned()
        .collect();
    previous.sort_by_key(Revision::number);
    if revision.number().is_none() {
        let highest = previous.last().and_then(Revision::number);
        revision.spec.revision = Some(highest.unwrap_or(0) + 1);
    }
    // It does not exist, so nothing can belong to it yet, whatever the dry run says.
    revision.metadata.uid = None;
    let missing: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !previous.iter().any(|known| known.name() == *name))
        .collect();
    Ok(Plan {
        family: Family::new(all(chains), &names),
        deletion: match previous.as_slice() {
            [one] => format!("when {} is archived", one.name()),
            _ => "when the revisions before are archived".to_owned(),
        },
        note: (!missing.is_empty())
            .then(|| format!("previous: there is no {}", missing.join(", no "))),
        previous,
        revision,
    })
}

fn all(chains: &[Chain]) -> impl Iterator<Item = &Revision> {
    chains.iter().flat_map(|chain| &chain.revisions)
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
    let next = next(&plan.revision);
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
        sections.push(head("slices").verdict(Tone::Bad, format!("refused: {}", gone(&missing))));
    }
    let objects = of_objects(cluster, plan, &next, &content, &children).await?;
    sections.extend(objects);
    sections.extend(of_old_objects(plan, &content, &old, &children));
    let mut first = head(&format!("revision {}", next.number));
    first.notes.extend(plan.note.clone());
    let mut all = vec![first.verdict(Tone::Added, summary(&sections))];
    let before = newest.map(|newest| Side::of_revision(newest, slices.content(newest)));
    all.extend(before.and_then(|before| settings(&before, &side)));
    all.append(&mut sections);
    Ok(all)
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

/// A revision as the engine sees it.
fn next(revision: &Revision) -> Next {
    let label = |name: &str| revision.metadata.labels.as_ref()?.get(name).cloned();
    Next {
        identity: Identity {
            kind: revision.kind.name().to_owned(),
            namespace: revision.namespace().unwrap_or_default().to_owned(),
            name: revision.name().to_owned(),
            uid: String::new(),
        },
        number: revision.number().unwrap_or_default(),
        package: label(LABEL_PACKAGE),
        instance: label(LABEL_INSTANCE),
        ..Next::default()
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
            if phase.is_delegated() {
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
        name: String::new(),
        objects: vec![object.clone()],
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

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

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

    #[test]
    fn three_way_patches() {
        for (applied, given, expected) in [
            ("{a: 1}", "{a: 1}", "{a: 1}"),
            ("{a: 1, b: 2}", "{a: 1}", "{a: 1, b: null}"),
            ("{a: {x: 1, y: 2}}", "{a: {y: 3}}", "{a: {x: null, y: 3}}"),
            ("{a: [1, 2]}", "{a: [2]}", "{a: [2]}"),
            ("{a: x}", "{a: {y: 3}}", "{a: {y: 3}}"),
            ("{}", "{a: {y: {z: 1}}}", "{a: {y: {z: 1}}}"),
        ] {
            assert_eq!(
                three_way(&yaml(applied), &yaml(given)),
                yaml(expected),
                "{applied} {given}"
            );
        }
        let live =
            |text: &str| json!({"metadata": {"annotations": {ANNOTATION_LAST_APPLIED: text}}});
        assert_eq!(last_applied(&live(r#"{"a":1}"#)), Some(json!({"a": 1})));
        assert_eq!(last_applied(&live("x")), None);
        assert_eq!(last_applied(&json!({})), None);
    }

    const WEB: &str = "{apiVersion: package-operator.run/v1alpha1, kind: ObjectDeployment,
        metadata: {name: web, namespace: shop, uid: d},
        spec: {selector: {}, template: {metadata: {labels: {app: web}},
            spec: {phases: [{name: a, objects: [{object: {kind: ConfigMap}}]}]}}}}";

    fn set(name: &str, spec: &str) -> Revision {
        let text = format!(
            "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, metadata: {{name: {name}, namespace: shop,
              uid: {name}, labels: {{app: web}}, ownerReferences: [{{apiVersion: v, kind: ObjectDeployment, name: web, uid: d, controller: true}}]}},
              spec: {spec}}}"
        );
        Revision::parse(yaml(&text)).unwrap()
    }

    fn chain(revisions: Vec<Revision>) -> Vec<Chain> {
        vec![Chain {
            deployment: Some(Deployment::parse(yaml(WEB)).unwrap()),
            revisions,
            ..Chain::default()
        }]
    }

    #[test]
    fn the_next_revision_of_a_deployment() {
        let plan = of_deployment(&yaml(WEB), &[]).unwrap().unwrap();
        assert_eq!(plan.revision.number(), Some(1));
        assert_eq!((plan.previous.len(), plan.note), (0, None));

        let old = || vec![set("web-a", "{revision: 3}"), set("web-b", "{revision: 7}")];
        let plan = of_deployment(&yaml(WEB), &chain(old())).unwrap().unwrap();
        assert_eq!(plan.revision.number(), Some(8));
        assert_eq!(plan.previous.len(), 2);
        assert_eq!(plan.deletion, "when revision 8 is available");
        assert_eq!(plan.revision.metadata.labels.unwrap()["app"], "web");

        let same = set(
            "web-c",
            "{revision: 8, phases: [{name: a, objects: [{object: {kind: ConfigMap}}]}]}",
        );
        let mut all = old();
        all.push(same);
        assert!(of_deployment(&yaml(WEB), &chain(all)).unwrap().is_none());
        let empty = WEB.replace("[{name: a, objects: [{object: {kind: ConfigMap}}]}]", "[]");
        assert!(of_deployment(&yaml(&empty), &[]).unwrap().is_none());
        let paused = WEB.replace("selector: {}", "selector: {}, paused: true");
        let plan = of_deployment(&yaml(&paused), &[]).unwrap().unwrap();
        assert_eq!(
            plan.note.unwrap(),
            "paused: nothing of this happens before `kubectl baton resume od/web`"
        );
    }

    #[test]
    fn a_revision_by_hand() {
        let new = |spec: &str| {
            yaml(&format!(
                "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, metadata: {{name: new, namespace: shop, uid: dry}}, spec: {spec}}}"
            ))
        };
        let chains = chain(vec![
            set("web-a", "{revision: 3}"),
            set("web-b", "{revision: 7}"),
        ]);
        let plan =
            of_revision(&new("{previous: [{name: web-b}, {name: web-a}]}"), &chains).unwrap();
        assert_eq!(plan.revision.number(), Some(8));
        assert_eq!(plan.revision.uid(), "");
        assert_eq!(plan.deletion, "when the revisions before are archived");
        let plan = of_revision(&new("{previous: [{name: web-a}, {name: gone}]}"), &chains).unwrap();
        assert_eq!(plan.revision.number(), Some(4));
        assert_eq!(plan.deletion, "when web-a is archived");
        assert_eq!(plan.note.unwrap(), "previous: there is no gone");
        let plan = of_revision(&new("{revision: 12}"), &chains).unwrap();
        assert_eq!(plan.revision.number(), Some(12));
    }

    #[test]
    fn the_object_itself() {
        let live = yaml(WEB);
        let kind = Kind::ObjectDeployment;
        assert_eq!(itself(kind, None, &live).unwrap().verdict, "created");
        assert_eq!(itself(kind, Some(&live), &live), None);
        // Content is shown object by object.
        let other = yaml(&WEB.replace("ConfigMap", "Secret"));
        assert_eq!(itself(kind, Some(&live), &other), None);
        let other = yaml(&WEB.replace("selector: {}", "selector: {}, paused: true"));
        let section = itself(kind, Some(&live), &other).unwrap();
        assert_eq!(section.title, "objectdeployment.package-operator.run/web");
        assert!(section.differs());
    }
}
