//! Which revision an apply would make, and what it would change besides.

use std::collections::BTreeSet;

use baton_apis::constants::{ANNOTATION_LAST_APPLIED, LABEL_INSTANCE, LABEL_PACKAGE};
use baton_engine::{chain_names::next_number, object::Identity, revision::Revision as Next};
use baton_view::{
    chain::{
        self, Chain,
        kind::ChainKind,
        member::{Deployment, Revision},
    },
    content::identity,
};
use serde_json::{Map, Value, json};

use super::{Pair, Section, apply::ChainSiblings, clean::clean_live, fate::Fate};
use crate::{error::Error, output::format::name};

/// A revision that would be made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// It, as if it existed.
    pub(crate) revision: Revision,
    /// The revision that it would follow, and all that it takes objects over from.
    pub(crate) previous: Vec<Revision>,
    pub(crate) siblings: ChainSiblings,
    /// When objects that it does not want go.
    pub(crate) deletion: String,
    /// What keeps it from being made now.
    pub(crate) note: Option<String>,
}

/// The revision that a deployment would make next; `None` when it makes none. `chains` are all of its
/// namespace, or of the cluster scope.
pub(crate) fn of_deployment(after: &Value, chains: &[Chain]) -> Result<Option<Plan>, Error> {
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
    let number = number_after(members)?;
    let template = &after["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["revision"] = number.into();
    let revision = Revision::parse(json!({
        "apiVersion": after["apiVersion"],
        "kind": deployment.kind.revision().name,
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
        siblings: ChainSiblings::new(all(chains), &previous),
        previous: members.to_vec(),
        deletion: format!("when revision {number} is available"),
        note: deployment.spec.paused.then(|| {
            format!("paused: nothing of this happens before `kubectl baton resume {target}`")
        }),
        revision,
    }))
}

/// The number of what comes after some revisions.
fn number_after(revisions: &[Revision]) -> Result<i64, Error> {
    let numbers = revisions.iter().map(|it| (it.name(), it.number()));
    next_number(numbers).map_err(|error| Error::Impossible(error.to_string()))
}

/// The revision that a user would make; `chains` as above.
pub(crate) fn of_revision(after: &Value, chains: &[Chain]) -> Result<Plan, Error> {
    let revision = Revision::parse(after.clone());
    let mut revision = revision.map_err(|error| Error::Impossible(error.to_string()))?;
    let names: BTreeSet<String> = revision.previous().map(str::to_owned).collect();
    let mut previous: Vec<Revision> = all(chains)
        .filter(|known| known.kind == revision.kind && names.contains(known.name()))
        .cloned()
        .collect();
    previous.sort_by_key(Revision::number);
    if revision.number().is_none() {
        revision.spec.revision = Some(number_after(&previous)?);
    }
    // It does not exist, so nothing can belong to it yet, whatever the dry run says.
    revision.metadata.uid = None;
    let missing: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !previous.iter().any(|known| known.name() == *name))
        .collect();
    Ok(Plan {
        siblings: ChainSiblings::new(all(chains), &names),
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

/// A revision as the engine sees it.
pub(crate) fn as_next(revision: &Revision) -> Next {
    let label = |name: &str| revision.metadata.labels.as_ref()?.get(name).cloned();
    Next {
        identity: Identity {
            uid: String::new(),
            ..identity(revision)
        },
        number: revision.number().unwrap_or_default(),
        package: label(LABEL_PACKAGE),
        instance: label(LABEL_INSTANCE),
        ..Next::default()
    }
}

/// The manifest that `kubectl apply` has left on an object.
pub(crate) fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][ANNOTATION_LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The merge patch of a client-side `kubectl apply`: all that is given, and the removal of what was
/// given the last time and is no longer.
pub(crate) fn three_way(applied: &Value, given: &Value) -> Value {
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
pub(crate) fn itself(kind: ChainKind, live: Option<&Value>, after: &Value) -> Option<Section> {
    let section = Section::new(name(after), name(after));
    let Some(live) = live else {
        return Some(section.fate(Fate::Created));
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
    (!pair.is_same()).then(|| section.fate(Fate::Changed).pair(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn a_client_side_apply_removes_what_is_no_longer_given() {
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
              uid: {name}, labels: {{app: web}}, ownerReferences: [{{apiVersion: v, kind: ObjectDeployment,
                  name: web, uid: d, controller: true}}]}},
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
    fn a_revision_by_hand_follows_those_in_previous() {
        let new = |spec: &str| {
            yaml(&format!(
                "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, metadata: {{name: new, namespace: \
                     shop, uid: dry}}, spec: {spec}}}"
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
    fn the_object_itself_is_compared_without_its_content() {
        let live = yaml(WEB);
        let kind = ChainKind::ObjectDeployment;
        assert_eq!(itself(kind, None, &live).unwrap().fate, Fate::Created);
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
