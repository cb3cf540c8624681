//! Reads the live objects, and finds those that cannot be adopted.

use std::collections::BTreeSet;

use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT};
use baton_engine::{
    object::{controller, is_terminating, text},
    revision::KindScope,
};
use baton_text::diff::object_title;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::{FoundObjects, ObjectToAdopt};
use crate::{error::Error, pack::scope::Scopes};

/// Objects that can be adopted.
#[derive(Debug, Default)]
pub(crate) struct Adoptable {
    /// The members, each with its live object.
    pub(crate) members: Vec<(ObjectToAdopt, Value)>,
    pub(crate) scopes: Scopes,
    pub(crate) notes: Vec<String>,
    pub(crate) errors: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AdoptFilter {
    /// True if objects of a record that do not exist in the cluster are left out.
    pub(crate) skip_missing: bool,
    /// True if Secrets stay with the tool that made them.
    pub(crate) no_secrets: bool,
}

/// The result of reading an object to adopt.
enum ReadResult {
    Live(Value),
    Missing,
    NotServed,
    Failed(String),
}

/// Reads the members that were not read yet: one request per object.
pub(crate) async fn read(
    cluster: &Cluster,
    found: Vec<FoundObjects>,
    choice: AdoptFilter,
) -> Result<Adoptable, Error> {
    let mut adoptable = Adoptable::default();
    let mut keys = BTreeSet::new();
    let mut members = Vec::new();
    for source in found {
        adoptable.notes.extend(source.notes);
        adoptable.errors.extend(source.errors);
        for mut member in source.members {
            let resource = cluster.resource(&member.gvk).await?;
            if let Some(resource) = &resource {
                let kind = (member.gvk.group.clone(), member.gvk.kind.clone());
                adoptable.scopes.insert(kind, resource.scope);
                match resource.scope {
                    KindScope::Cluster => member.namespace.clear(),
                    KindScope::Namespaced if member.namespace.is_empty() => {
                        member.namespace.clone_from(&source.namespace);
                    }
                    KindScope::Namespaced => {}
                }
            }
            if keys.insert(member.key()) {
                members.push((member, resource));
            }
        }
    }
    let looks = members
        .into_iter()
        .map(|(mut member, resource)| async move {
            let looked = match (member.live.take(), resource) {
                (Some(live), _) => Ok::<_, Error>(ReadResult::Live(live)),
                (None, None) => Ok(ReadResult::NotServed),
                (None, Some(resource)) => match resource.path_of(&member.key()) {
                    Ok(path) => match cluster.get_at(&path).await {
                        Ok(Some(live)) => Ok(ReadResult::Live(live)),
                        Ok(None) => Ok(ReadResult::Missing),
                        Err(error @ ClusterError::Unreachable { .. }) => Err(error.into()),
                        Err(error) => Ok(ReadResult::Failed(error.to_string())),
                    },
                    Err(error) => Ok(ReadResult::Failed(error.to_string())),
                },
            };
            (member, looked)
        });
    let mut looks = stream::iter(looks).buffered(MAX_CONCURRENT);
    while let Some((member, looked)) = looks.next().await {
        adoptable.take(member, looked?, choice);
    }
    Ok(adoptable)
}

impl Adoptable {
    fn take(&mut self, member: ObjectToAdopt, looked: ReadResult, choice: AdoptFilter) {
        let ObjectToAdopt { location, .. } = &member;
        let title = object_title(&member.key());
        match looked {
            ReadResult::Live(live) => {
                if let Some(refusal) = refusal(&live) {
                    self.errors.push(format!("{title} {refusal}"));
                } else if is_secret(&member) && choice.no_secrets {
                    self.notes.push(format!(
                        "{title} is left out because of --no-secrets, and is not changed"
                    ));
                } else {
                    self.members.push((member, live));
                }
            }
            ReadResult::Missing if choice.skip_missing => self.notes.push(format!(
                "{location}: {title} does not exist; it is left out"
            )),
            ReadResult::Missing => self.errors.push(format!(
                "{location}: {title} does not exist; --skip-missing leaves it out"
            )),
            ReadResult::NotServed => {
                let version = member.gvk.api_version();
                self.errors.push(format!(
                    "{location}: {title} is of {version}, which the API server does not serve"
                ));
            }
            ReadResult::Failed(why) => self.errors.push(format!("{location}: {title}: {why}")),
        }
    }
}

fn is_secret(member: &ObjectToAdopt) -> bool {
    member.gvk.group.is_empty() && member.gvk.kind == "Secret"
}

/// The reason that an object cannot be adopted, if there is one.
fn refusal(live: &Value) -> Option<String> {
    if is_terminating(live) {
        return Some("is being deleted".to_owned());
    }
    let owner = controller(live)?;
    let of = match text(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!(".{group}"),
        None => String::new(),
    };
    Some(format!(
        "is controlled by {}{of} {}, which also writes it; adopt that object instead, or leave this one out",
        text(owner, "kind"),
        text(owner, "name")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::adopt::whole;

    fn taken(live: ReadResult, choice: AdoptFilter) -> (usize, Vec<String>, Vec<String>) {
        let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"}});
        let member = ObjectToAdopt::of_manifest(whole("Helm release shop"), manifest).unwrap();
        let mut adoptable = Adoptable::default();
        adoptable.take(member, live, choice);
        (adoptable.members.len(), adoptable.notes, adoptable.errors)
    }

    const ALL: AdoptFilter = AdoptFilter {
        skip_missing: false,
        no_secrets: false,
    };

    #[test]
    fn objects_that_cannot_be_adopted_are_reported_with_a_cause() {
        let owned = json!({"metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "plain"},
            {"apiVersion": "shop.example/v1", "kind": "Cart", "name": "c", "controller": true},
        ]}});
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        for (looked, expected) in [
            (
                ReadResult::Live(owned),
                "Secret shop/db is controlled by Cart.shop.example c, which also writes it; adopt that object instead, \
                 or leave this one out",
            ),
            (ReadResult::Live(deleted), "Secret shop/db is being deleted"),
            (
                ReadResult::Missing,
                "Helm release shop: Secret shop/db does not exist; --skip-missing leaves it out",
            ),
            (
                ReadResult::NotServed,
                "Helm release shop: Secret shop/db is of v1, which the API server does not serve",
            ),
            (
                ReadResult::Failed("secrets is forbidden".to_owned()),
                "Helm release shop: Secret shop/db: secrets is forbidden",
            ),
        ] {
            assert_eq!(
                taken(looked, ALL),
                (0, Vec::new(), vec![expected.to_owned()])
            );
        }
        assert_eq!(
            taken(ReadResult::Live(json!({})), ALL),
            (1, Vec::new(), Vec::new())
        );
    }

    #[test]
    fn missing_objects_and_secrets_are_left_out_on_request() {
        let choice = AdoptFilter {
            skip_missing: true,
            no_secrets: true,
        };
        for (looked, expected) in [
            (
                ReadResult::Missing,
                "Helm release shop: Secret shop/db does not exist; it is left out",
            ),
            (
                ReadResult::Live(json!({})),
                "Secret shop/db is left out because of --no-secrets, and is not changed",
            ),
        ] {
            assert_eq!(
                taken(looked, choice),
                (0, vec![expected.to_owned()], Vec::new())
            );
        }
    }
}
