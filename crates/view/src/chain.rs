//! Chains: a deployment with its revisions, or revisions that name each other in `previous`.
//!
//! Two lists are enough for all chains of a namespace, however long they are.

mod group;
pub mod kind;
pub mod member;
pub mod question;
pub mod target;

use std::collections::BTreeMap;

use baton_apis::constants::{ANNOTATION_HASH, ANNOTATION_TEMPLATE_METADATA};
use baton_engine::deployment::{
    slices::instead_of_objects,
    template::{has_labels, hash, metadata_digest, same_content},
};
use serde::Deserialize;
use serde_json::Value;

use self::{
    group::group,
    kind::ChainKind,
    member::{ChainObject, Deployment, Reported, Revision},
    target::Target,
};

/// A deployment with its revisions, or revisions that belong together.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The deployment that made the revisions; `None` if users or programs made them one by one.
    pub deployment: Option<Deployment>,
    /// The revisions by number, lowest first. Revisions without a number come last, oldest first.
    pub revisions: Vec<Revision>,
    /// Name of the revision that the user named; `None` if the user named a deployment.
    pub named: Option<String>,
}

impl Chain {
    /// The kind of the revisions; `None` for a chain without revisions and deployment.
    pub fn revision_kind(&self) -> Option<ChainKind> {
        let deployment = self.deployment.as_ref().map(|d| d.kind.revision());
        deployment.or_else(|| self.revisions.first().map(|revision| revision.kind))
    }

    /// Namespace of the chain; `None` for a cluster-scoped one.
    pub fn namespace(&self) -> Option<&str> {
        match &self.deployment {
            Some(deployment) => deployment.namespace(),
            None => self.revisions.first().and_then(Revision::namespace),
        }
    }

    /// The object that names the chain: the deployment, or else the newest revision.
    pub fn target(&self) -> Option<Target> {
        match &self.deployment {
            Some(deployment) => Some(deployment.target()),
            None => self.newest().map(Revision::target),
        }
    }

    /// The revision with the highest number.
    pub fn newest(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    /// The revision that the deployment wants: the newest one, if its content equals the template.
    /// In a chain without a deployment, the newest one.
    pub fn current(&self) -> Option<&Revision> {
        let newest = self.newest()?;
        match &self.deployment {
            Some(deployment) if !is_made_from(newest, deployment) => None,
            _ => Some(newest),
        }
    }

    /// The revision with this number.
    pub fn by_number(&self, number: i64) -> Option<&Revision> {
        self.revisions
            .iter()
            .find(|revision| revision.number() == Some(number))
    }

    /// The revision with this name.
    pub fn by_name(&self, name: &str) -> Option<&Revision> {
        self.revisions
            .iter()
            .find(|revision| revision.name() == name)
    }

    /// The revision with this UID.
    pub fn by_uid(&self, uid: &str) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.uid() == uid)
    }

    /// The revision that the user selected: the named one, or else the current one.
    pub fn subject(&self) -> Option<&Revision> {
        match &self.named {
            Some(name) => self.by_name(name),
            None => self.current(),
        }
    }

    /// The deployment, if the user named it; `None` if the user named one of its revisions.
    pub fn asked_deployment(&self) -> Option<&Deployment> {
        self.deployment.as_ref().filter(|_| self.named.is_none())
    }

    /// True if the deployment or a revision of the chain has this kind and name.
    fn has(&self, kind: ChainKind, name: &str) -> bool {
        if kind.is_deployment() {
            let deployment = self.deployment.as_ref();
            deployment
                .is_some_and(|deployment| deployment.kind == kind && deployment.name() == name)
        } else {
            self.revision_kind() == Some(kind) && self.by_name(name).is_some()
        }
    }

    /// The revisions, highest number first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Revision> {
        self.revisions.iter().rev()
    }
}

/// True if a revision was created from the present template of a deployment.
///
/// The rules are those of the manager: the content is the same, and so is the digest of the
/// template's metadata, or the labels for a revision without a digest.
pub fn is_made_from(revision: &Revision, deployment: &Deployment) -> bool {
    let template = &deployment.spec.template;
    let same_metadata = match revision.annotation(ANNOTATION_TEMPLATE_METADATA) {
        Some(digest) => {
            let raw = deployment.object.pointer("/spec/template");
            digest == metadata_digest(raw.unwrap_or(&Value::Null))
        }
        None => has_labels(
            revision
                .metadata
                .labels
                .as_ref()
                .unwrap_or(&BTreeMap::new()),
            &template.metadata.labels,
        ),
    };
    // The objects of slices that were not read are compared by the hash: only Baton creates revisions
    // with slices.
    let is_of_hash = || {
        let object = &deployment.object;
        let collisions = object
            .pointer("/status/collisionCount")
            .and_then(Value::as_i64);
        let collisions = collisions
            .and_then(|count| count.try_into().ok())
            .unwrap_or(0);
        let template = object.pointer("/spec/template").unwrap_or(&Value::Null);
        revision.annotation(ANNOTATION_HASH) == Some(&*hash(template, collisions))
    };
    let is_sliced = instead_of_objects(&revision.spec, &template.spec)
        .next()
        .is_some();
    same_metadata
        && (same_content(&revision.spec, &template.spec, &BTreeMap::new())
            || (is_sliced && is_of_hash()))
}

/// Assembles chains: a revision belongs to the deployment with the UID of its controller reference,
/// or else to the revisions that its `previous` names, and to those that name it.
///
/// # Guarantees
/// Every deployment and every revision is in exactly one chain. Chains are sorted by namespace and
/// name, those of deployments before the others.
pub fn assemble(deployments: Vec<Deployment>, revisions: Vec<Revision>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = deployments
        .into_iter()
        .map(|deployment| Chain {
            deployment: Some(deployment),
            ..Chain::default()
        })
        .collect();
    chains.sort_by_key(namespaced_name);
    let by_uid: BTreeMap<String, usize> = chains
        .iter()
        .enumerate()
        .filter_map(|(index, chain)| {
            let deployment = chain.deployment.as_ref()?;
            Some((deployment.uid().to_owned(), index))
        })
        .collect();
    let mut alone = Vec::new();
    for revision in revisions {
        let index = revision
            .controller()
            .and_then(|owner| by_uid.get(&owner.uid));
        match index {
            Some(index) => chains[*index].revisions.push(revision),
            None => alone.push(revision),
        }
    }
    let mut standalone = group(alone);
    for chain in chains.iter_mut().chain(&mut standalone) {
        chain.revisions.sort_by_key(|revision| {
            (
                revision.number().unwrap_or(i64::MAX),
                revision.created(),
                revision.name().to_owned(),
            )
        });
    }
    standalone.sort_by_key(namespaced_name);
    chains.append(&mut standalone);
    chains
}

fn namespaced_name(chain: &Chain) -> (String, String) {
    let name = match (&chain.deployment, chain.revisions.first()) {
        (Some(deployment), _) => deployment.name(),
        (None, Some(revision)) => revision.name(),
        (None, None) => "",
    };
    (
        chain.namespace().unwrap_or_default().to_owned(),
        name.to_owned(),
    )
}

/// Assembles chains as [`assemble`] does, from objects as lists return them. Returns the objects
/// that cannot be parsed besides.
pub fn from_objects(
    deployments: Vec<Value>,
    revisions: Vec<Value>,
) -> (Vec<Chain>, Vec<serde_json::Error>) {
    let mut left_out = Vec::new();
    let chains = assemble(
        parse(deployments, &mut left_out),
        parse(revisions, &mut left_out),
    );
    (chains, left_out)
}

fn parse<S, T>(objects: Vec<Value>, left_out: &mut Vec<serde_json::Error>) -> Vec<ChainObject<S, T>>
where
    S: for<'de> Deserialize<'de> + Default,
    T: for<'de> Deserialize<'de> + Default + Reported,
{
    let parsed = objects.into_iter().map(ChainObject::parse);
    let fine = parsed.filter_map(|it| it.map_err(|error| left_out.push(error)).ok());
    fine.collect()
}

/// The chain of the object that a user named, among chains of its namespace and scope; `None` if no
/// chain has the object.
pub fn pick(mut chains: Vec<Chain>, target: &Target) -> Option<Chain> {
    let (index, kind) = position(&chains, target)?;
    let mut chain = chains.swap_remove(index);
    if !kind.is_deployment() {
        chain.named = Some(target.name.clone());
    }
    Some(chain)
}

/// Index of the chain with the object that a user named, and the kind of that object; `None` if no
/// chain has it.
pub fn position(chains: &[Chain], target: &Target) -> Option<(usize, ChainKind)> {
    target.candidates().into_iter().find_map(|kind| {
        let has = |chain: &Chain| chain.has(kind, &target.name);
        Some((chains.iter().position(has)?, kind))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A revision of the deployment with this UID; without a controller if the UID is empty.
    fn set(name: &str, number: i64, owner: &str, previous: &[&str]) -> Value {
        let previous: Vec<Value> = previous.iter().map(|name| json!({"name": name})).collect();
        let mut set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {"previous": previous},
        });
        if number != 0 {
            set["spec"]["revision"] = number.into();
        }
        if !owner.is_empty() {
            set["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                "name": "any", "uid": owner, "controller": true,
            }]);
        }
        set
    }

    fn deployment(name: &str, uid: &str) -> Value {
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
            "metadata": {"name": name, "namespace": "shop", "uid": uid},
            "spec": {"selector": {}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"phases": [{"name": "a"}]},
            }},
        })
    }

    /// The name of each chain, and its revisions.
    fn names(chains: &[Chain]) -> Vec<(String, Vec<&str>)> {
        let target = |chain: &Chain| chain.target().unwrap().to_string();
        chains
            .iter()
            .map(|chain| {
                let revisions = chain.revisions.iter().map(Revision::name).collect();
                (target(chain), revisions)
            })
            .collect()
    }

    #[test]
    fn revisions_belong_to_the_deployment_that_controls_them() {
        let (chains, _) = from_objects(
            vec![deployment("web", "d1"), deployment("api", "d2")],
            vec![
                set("web-b", 2, "d1", &["web-a"]),
                set("api-a", 1, "d2", &[]),
                set("web-new", 0, "d1", &["web-a", "web-b"]),
                set("web-a", 1, "d1", &[]),
                // The deployment was deleted, or deleted and created again.
                set("web-old", 9, "d0", &[]),
            ],
        );
        assert_eq!(
            names(&chains),
            [
                ("od/api".to_owned(), vec!["api-a"]),
                ("od/web".to_owned(), vec!["web-a", "web-b", "web-new"]),
                ("os/web-old".to_owned(), vec!["web-old"]),
            ]
        );
    }

    #[test]
    fn standalone_revisions_are_linked_in_both_directions() {
        let (chains, _) = from_objects(
            Vec::new(),
            vec![
                set("c", 3, "", &["b"]),
                set("x", 1, "", &["gone"]),
                set("a", 1, "", &[]),
                set("y", 2, "", &["gone"]),
                set("b", 2, "", &["a"]),
                set("alone", 1, "", &[]),
            ],
        );
        assert_eq!(
            names(&chains),
            [
                ("os/c".to_owned(), vec!["a", "b", "c"]),
                ("os/alone".to_owned(), vec!["alone"]),
                // Both name the same revision, which does not exist any more.
                ("os/y".to_owned(), vec!["x", "y"]),
            ]
        );
    }

    #[test]
    fn a_name_alone_is_a_deployment_first() {
        let chains = || {
            from_objects(
                vec![deployment("web", "d1")],
                vec![
                    set("web", 1, "", &[]),
                    set("web-a", 1, "d1", &[]),
                    set("only", 1, "", &[]),
                ],
            )
            .0
        };
        let pick = |text: &str| {
            let (kind, name) = match text.split_once('/') {
                Some((short, name)) => {
                    let mut all = ChainKind::ALL.into_iter();
                    (all.find(|kind| kind.shortest() == short), name)
                }
                None => (None, text),
            };
            let name = name.to_owned();
            let chain = pick(chains(), &Target { kind, name })?;
            Some((chain.target().unwrap().to_string(), chain.named))
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(pick("web"), Some(("od/web".to_owned(), None)));
        assert_eq!(pick("os/web"), Some(("os/web".to_owned(), named("web"))));
        assert_eq!(pick("web-a"), Some(("od/web".to_owned(), named("web-a"))));
        assert_eq!(pick("only"), Some(("os/only".to_owned(), named("only"))));
        assert_eq!(pick("cos/only"), None);
        assert_eq!(pick("od/only"), None);
    }

    #[test]
    fn the_current_revision_has_the_content_of_the_template() {
        let current = |edit: fn(&mut Value)| {
            let mut newest = set("web-b", 2, "d1", &[]);
            newest["spec"]["phases"] = json!([{"name": "a"}]);
            newest["metadata"]["labels"] = json!({"app": "web"});
            edit(&mut newest);
            let (chains, _) = from_objects(
                vec![deployment("web", "d1")],
                vec![set("web-a", 1, "d1", &[]), newest],
            );
            chains[0]
                .current()
                .map(|revision| revision.name().to_owned())
        };
        let newest = Some("web-b".to_owned());
        assert_eq!(current(|_| {}), newest);
        // Without a digest the labels decide. A revision made by others may have more labels.
        assert_eq!(
            current(|set| set["metadata"]["labels"]["more"] = "x".into()),
            newest
        );
        assert_eq!(
            current(|set| set["metadata"]["labels"]["app"] = "x".into()),
            None
        );
        assert_eq!(
            current(|set| set["spec"]["phases"][0]["name"] = "b".into()),
            None
        );
        assert_eq!(
            current(|set| set["spec"]["successDelaySeconds"] = 5.into()),
            None
        );
        assert_eq!(
            current(|set| {
                set["metadata"]["annotations"] = json!({ANNOTATION_TEMPLATE_METADATA: "other"});
            }),
            None
        );
    }

    #[test]
    fn states_in_the_order_in_which_they_matter() {
        let state = |edit: fn(&mut Value)| {
            let mut set = set("web", 1, "", &[]);
            edit(&mut set);
            Revision::parse(set).unwrap().state().as_str()
        };
        let condition = |type_: &str, status: &str| {
            json!([{
                "type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }])
        };
        assert_eq!(state(|_| {}), "Pending");
        assert_eq!(
            state(|set| set["spec"]["lifecycleState"] = "Paused".into()),
            "Paused"
        );
        assert_eq!(
            state(|set| set["spec"]["lifecycleState"] = "Archived".into()),
            "Archiving"
        );
        assert_eq!(
            state(|set| {
                set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }),
            "Deleting"
        );
        for (type_, status, expected) in [
            ("Available", "True", "Available"),
            ("Available", "False", "NotReady"),
            ("Archived", "True", "Archived"),
        ] {
            let mut set = set("web", 1, "", &[]);
            set["status"] = json!({"conditions": condition(type_, status)});
            assert_eq!(Revision::parse(set).unwrap().state().as_str(), expected);
        }
    }

    #[test]
    fn an_unreadable_revision_is_named_in_the_error() {
        let mut broken = set("web", 1, "", &[]);
        broken["spec"]["phases"] = "none".into();
        let error = Revision::parse(broken).unwrap_err().to_string();
        assert!(error.starts_with("ObjectSet web is left out: "), "{error}");
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let error = Revision::parse(other).unwrap_err().to_string();
        assert_eq!(error, "ConfigMap x is not of a kind of Baton");
    }
}
