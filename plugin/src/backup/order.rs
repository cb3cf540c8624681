//! The order in which objects are created: owners before the objects that they own.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::kinds;
use baton_view::object::text_at;
use serde_json::Value;

use super::{KINDS, kind_of, title};

/// The objects of a backup in the order of their creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Order {
    /// Objects that may be created at the same time, group after group.
    pub(super) groups: Vec<Vec<Value>>,
    /// The objects that are not created, with the reason.
    pub(super) left_out: Vec<String>,
}

impl Order {
    /// Orders objects. Those with owners of kinds of a backup, none of which is in it, are left out:
    /// Kubernetes would delete them. All other missing owners are removed from the references.
    pub(super) fn of(objects: &[Value]) -> Self {
        let owners = Owners(objects.iter().map(|it| (uid(it), it)).collect());
        let mut groups: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        let mut left_out = Vec::new();
        let mut sorted: Vec<_> = objects.iter().collect();
        let rank = |object: &Value| KINDS.iter().position(|kind| kind.is_of(object));
        sorted.sort_by_cached_key(|object| (rank(object), title(object)));
        for object in sorted {
            if kind_of(object).is_none() {
                left_out.push(format!("{}: backups do not have its kind", title(object)));
                continue;
            }
            match owners.depth(object, &mut BTreeSet::new()) {
                None => left_out.push(format!("{}: its owner is not in the backup", title(object))),
                Some(depth) => {
                    // Blocks come after everything that they would block.
                    let group = (kinds::ROLLOUT_BLOCK.is_of(object), depth);
                    groups
                        .entry(group)
                        .or_default()
                        .push(owners.only_known(object));
                }
            }
        }
        Self {
            groups: groups.into_values().collect(),
            left_out,
        }
    }
}

/// The objects of a backup by UID.
struct Owners<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Owners<'a> {
    /// The length of the longest chain of owners above an object; `None` if all of its owners are
    /// missing, or owners form a circle. `below` has the UIDs of the objects that led here.
    fn depth(&self, object: &'a Value, below: &mut BTreeSet<&'a str>) -> Option<usize> {
        if !below.insert(uid(object)) {
            return None;
        }
        let known = references(object).filter_map(|it| self.0.get(text_at(it, "/uid")));
        // An owner that is left out does not exist either.
        let depths: Vec<_> = known.filter_map(|owner| self.depth(owner, below)).collect();
        below.remove(uid(object));
        let is_orphaned = depths.is_empty() && references(object).any(is_ours);
        (!is_orphaned).then(|| depths.into_iter().max().map_or(0, |depth| depth + 1))
    }

    /// The object without references to owners that are not created.
    fn only_known(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
            owners.retain(|it| {
                let owner = self.0.get(text_at(it, "/uid"));
                owner.is_some_and(|it| self.depth(it, &mut BTreeSet::new()).is_some())
            });
        }
        object
    }
}

fn uid(object: &Value) -> &str {
    text_at(object, "/metadata/uid")
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten()
}

/// True if a reference names a kind of a backup.
fn is_ours(reference: &Value) -> bool {
    kind_of(reference).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &kinds::Kind, name: &str, owners: &[Value]) -> Value {
        json!({
            "apiVersion": kind.api_version, "kind": kind.name,
            "metadata": { "name": name, "namespace": "shop", "uid": name, "ownerReferences": owners },
        })
    }

    fn owner(kind: &kinds::Kind, uid: &str) -> Value {
        json!({ "apiVersion": kind.api_version, "kind": kind.name, "uid": uid })
    }

    #[test]
    fn owners_come_first_and_blocks_last() {
        let foreign = json!({ "apiVersion": "v1", "kind": "ConfigMap", "uid": "elsewhere" });
        let objects = [
            object(&kinds::ROLLOUT_BLOCK, "block", &[]),
            object(
                &kinds::OBJECT_SLICE,
                "slice",
                &[owner(&kinds::OBJECT_SET, "set"), foreign],
            ),
            object(
                &kinds::OBJECT_SET,
                "set",
                &[owner(&kinds::INSTALLATION_TARGET, "it")],
            ),
            object(
                &kinds::OBJECT_SET,
                "orphan",
                &[owner(&kinds::RELEASE, "gone")],
            ),
            object(
                &kinds::OBJECT_SET,
                "half",
                &[
                    owner(&kinds::RELEASE, "gone"),
                    owner(&kinds::RELEASE, "rel"),
                ],
            ),
            object(
                &kinds::OBJECT_SLICE,
                "of-orphan",
                &[owner(&kinds::OBJECT_SET, "orphan")],
            ),
            object(&kinds::RELEASE, "rel", &[owner(&kinds::APPLICATION, "app")]),
            object(
                &kinds::INSTALLATION_TARGET,
                "it",
                &[owner(&kinds::RELEASE, "rel")],
            ),
            object(&kinds::APPLICATION, "app", &[]),
            object(
                &kinds::OBJECT_DEPLOYMENT,
                "one",
                &[owner(&kinds::OBJECT_DEPLOYMENT, "two")],
            ),
            object(
                &kinds::OBJECT_DEPLOYMENT,
                "two",
                &[owner(&kinds::OBJECT_DEPLOYMENT, "one")],
            ),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key", "uid": "s" } }),
        ];
        let order = Order::of(&objects);
        let names = |group: &Vec<Value>| group.iter().map(|it| uid(it).to_owned()).collect();
        let groups: Vec<Vec<String>> = order.groups.iter().map(names).collect();
        let expected = [
            &["app"][..],
            &["rel"],
            &["it", "half"],
            &["set"],
            &["slice"],
            &["block"],
        ];
        assert_eq!(groups, expected);
        assert_eq!(
            order.groups[4][0]["metadata"]["ownerReferences"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let missing = "its owner is not in the backup";
        assert_eq!(
            order.left_out,
            [
                "Secret key: backups do not have its kind".to_owned(),
                format!("ObjectDeployment shop/one: {missing}"),
                format!("ObjectDeployment shop/two: {missing}"),
                format!("ObjectSet shop/orphan: {missing}"),
                format!("ObjectSlice shop/of-orphan: {missing}"),
            ]
        );
    }
}
