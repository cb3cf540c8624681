//! The revision that an apply would create, and the change of the applied object itself.

use std::collections::BTreeSet;

use baton_apis::constants::{ANNOTATION_LAST_APPLIED, LABEL_INSTANCE, LABEL_PACKAGE};
use baton_engine::{
    chain_names::{NoNextNumber, next_in_chain},
    object::Identity,
    revision::Revision as Next,
};
use serde_json::{Map, Value, json};

use super::{
    Section, Topic,
    apply::ChainSiblings,
    clean::clean_live,
    note::ObjectNote,
    outcome::{DiffOutcome, RemovalTime},
};
use crate::{
    chain::{
        self, Chain,
        kind::ChainKind,
        member::{Deployment, Revision},
    },
    content::{RevisionContent, Slices, identity},
    object::text_at,
};

/// The reason that there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum NoPlan {
    /// The object is not valid for its kind.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
    /// No number is left for another revision.
    #[error(transparent)]
    NoNumber(#[from] NoNextNumber),
}

/// A revision that would be created.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The planned revision, as if it existed.
    pub revision: Revision,
    /// The previous revisions, from which the planned revision takes objects over; oldest first.
    pub previous: Vec<Revision>,
    /// All revisions in the same scope and namespace.
    pub siblings: ChainSiblings,
    /// The time when the objects that the revision does not want are deleted.
    pub deletion: RemovalTime,
    /// The reason that the revision is not made now, if there is one.
    pub note: Option<ObjectNote>,
}

impl Plan {
    /// The revision that an apply of a deployment or a revision would create; `None` if it creates
    /// none.
    ///
    /// `chains` are all chains in its namespace, or in the cluster scope.
    ///
    /// # Errors
    /// If the object cannot be read, or no revision number is left.
    pub fn of(kind: ChainKind, object: &Value, chains: &[Chain]) -> Result<Option<Self>, NoPlan> {
        if kind.is_deployment() {
            return of_deployment(object, chains);
        }
        let name = text_at(object, "/metadata/name");
        // The spec of a revision is immutable.
        if all(chains).any(|existing| existing.kind == kind && existing.name() == name) {
            return Ok(None);
        }
        of_revision(object, chains).map(Some)
    }

    /// The previous revisions that are not archived, oldest first.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.previous.iter().filter(|it| !it.is_archived())
    }

    /// The content of the previous revisions that are not archived.
    pub fn former(&self, slices: &Slices) -> Vec<(&Revision, RevisionContent)> {
        self.live().map(|it| (it, slices.content(it))).collect()
    }

    /// The content of the planned revision.
    pub fn content(&self, slices: &Slices) -> RevisionContent {
        let phases = self.revision.spec.phases.as_deref().unwrap_or_default();
        let next = as_next(&self.revision);
        slices.resolve(&next, self.revision.namespace(), phases)
    }
}

/// The revision that a deployment would create next; `None` if it creates none.
fn of_deployment(after: &Value, chains: &[Chain]) -> Result<Option<Plan>, NoPlan> {
    let deployment = Deployment::parse(after.clone())?;
    let target = deployment.target();
    let existing = chains
        .iter()
        .find(|it| it.target().as_ref() == Some(&target));
    let members = existing.map_or(&[][..], |chain| &chain.revisions);
    let phases = deployment.spec.template.spec.phases.as_deref();
    let is_made = |newest| chain::is_made_from(newest, &deployment);
    if phases.unwrap_or_default().is_empty() || members.last().is_some_and(is_made) {
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
    }))?;
    let previous: BTreeSet<String> = members.iter().map(|one| one.name().to_owned()).collect();
    Ok(Some(Plan {
        siblings: ChainSiblings::new(chains, &previous),
        previous: members.to_vec(),
        deletion: RemovalTime::Available(number),
        note: deployment.spec.paused.then_some(ObjectNote::Paused(target)),
        revision,
    }))
}

/// The number of a revision that follows `revisions`.
fn number_after(revisions: &[Revision]) -> Result<i64, NoNextNumber> {
    next_in_chain(revisions.iter().map(|it| (it.name(), it.number())))
}

/// The revision that a user would create.
fn of_revision(after: &Value, chains: &[Chain]) -> Result<Plan, NoPlan> {
    let mut revision = Revision::parse(after.clone())?;
    let names: BTreeSet<String> = revision.previous().map(str::to_owned).collect();
    let mut previous: Vec<Revision> = all(chains)
        .filter(|existing| existing.kind == revision.kind && names.contains(existing.name()))
        .cloned()
        .collect();
    previous.sort_by_key(Revision::number);
    if revision.number().is_none() {
        revision.spec.revision = Some(number_after(&previous)?);
    }
    // The planned revision does not exist, so no object can belong to it, even if the dry run
    // returns a UID.
    revision.metadata.uid = None;
    let missing = names
        .iter()
        .filter(|name| !previous.iter().any(|existing| existing.name() == **name));
    let missing: Vec<String> = missing.cloned().collect();
    Ok(Plan {
        siblings: ChainSiblings::new(chains, &names),
        deletion: RemovalTime::Archived(match previous.as_slice() {
            [one] => Some(one.name().to_owned()),
            _ => None,
        }),
        note: (!missing.is_empty()).then_some(ObjectNote::NoPrevious(missing)),
        previous,
        revision,
    })
}

fn all(chains: &[Chain]) -> impl Iterator<Item = &Revision> {
    chains.iter().flat_map(|chain| &chain.revisions)
}

/// A revision in the form that the engine uses.
pub fn as_next(revision: &Revision) -> Next {
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

/// The manifest that `kubectl apply` stores in an object.
pub fn last_applied(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][ANNOTATION_LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The merge patch of a client-side `kubectl apply`.
///
/// Contains all fields of `given`, and removes the fields of `applied` that `given` omits.
pub fn three_way(applied: &Value, given: &Value) -> Value {
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

/// The change of the applied object itself, without the content of its revisions.
pub fn itself(kind: ChainKind, live: Option<&Value>, after: &Value) -> Option<Section> {
    let topic = Topic::Chain(kind, text_at(after, "/metadata/name").to_owned());
    let Some(live) = live else {
        return Some(Section::new(topic).fate(DiffOutcome::Created));
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
    Section::of_change(topic, bare(live), bare(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::target::Target;

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
        assert_eq!(plan.deletion, RemovalTime::Available(8));
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
        let target = Target::new(ChainKind::ObjectDeployment, "web");
        assert_eq!(plan.note.unwrap(), ObjectNote::Paused(target));
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
        assert_eq!(plan.deletion, RemovalTime::Archived(None));
        let plan = of_revision(&new("{previous: [{name: web-a}, {name: gone}]}"), &chains).unwrap();
        assert_eq!(plan.revision.number(), Some(4));
        assert_eq!(
            plan.deletion,
            RemovalTime::Archived(Some("web-a".to_owned()))
        );
        let missing = ObjectNote::NoPrevious(vec!["gone".to_owned()]);
        assert_eq!(plan.note.unwrap(), missing);
        let plan = of_revision(&new("{revision: 12}"), &chains).unwrap();
        assert_eq!(plan.revision.number(), Some(12));
    }

    #[test]
    fn the_object_itself_is_compared_without_its_content() {
        let live = yaml(WEB);
        let kind = ChainKind::ObjectDeployment;
        assert_eq!(
            itself(kind, None, &live).unwrap().outcome,
            DiffOutcome::Created
        );
        assert_eq!(itself(kind, Some(&live), &live), None);
        // The content is compared in a section per object.
        let other = yaml(&WEB.replace("ConfigMap", "Secret"));
        assert_eq!(itself(kind, Some(&live), &other), None);
        let other = yaml(&WEB.replace("selector: {}", "selector: {}, paused: true"));
        let section = itself(kind, Some(&live), &other).unwrap();
        assert_eq!(section.topic, Topic::Chain(kind, "web".to_owned()));
        assert!(section.differs());
    }
}
