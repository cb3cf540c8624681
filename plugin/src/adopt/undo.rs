//! Undoes an adoption: the objects stay as they are, without an owner, and their fields go back to
//! the tool that had them.
//!
//! An owner is deleted after it owns nothing, because garbage collection would delete objects that
//! it does not know to be released. So the deployment is paused first, then the objects are given
//! back, and then the deployment is deleted. Dry runs find refusals before that. After an
//! interruption the command can be run again: the deployment is paused then, or owns nothing.

mod fields;
pub(super) mod pausing;
mod slices;

use std::{collections::BTreeSet, time::Duration};

use baton_apis::constants::LABEL_OBJECT_DEPLOYMENT;
use baton_cluster::{
    Cluster, MAX_CONCURRENT,
    lists::{self, not_found},
};
use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::wire::MediaType;
use baton_text::{diff::object_title, output::format::name};
use baton_view::{
    chain::{
        Chain,
        kind::ChainKind,
        member::{Deployment, Revision},
        target::Target,
    },
    children::{Detail, LookupResult, Owner, owner},
    content::RevisionContent,
    delegates::Delegates,
};
use futures::{StreamExt as _, future::try_join_all, stream};
use http::Method;
use serde_json::{Value, json};

use self::{
    fields::{hand_back, is_let_go, is_owned},
    slices::Collection,
};
use crate::{error::Error, wait::chain::watch_until};

/// A deployment with everything that belongs to it.
pub(crate) struct AdoptedDeployment {
    /// The deployment, which may be deleted already.
    pub(crate) target: Target,
    kind: ChainKind,
    chain: Chain,
    /// Objects that the revisions control or have released, in the order of their phases.
    pub(crate) objects: Vec<(Gvk, ObjectKey)>,
    /// Names of the slices.
    pub(crate) slices: BTreeSet<String>,
}

/// Reads a deployment with everything that belongs to it, or the rest of one whose deletion was
/// interrupted.
pub(crate) async fn read(
    cluster: &Cluster,
    kind: ChainKind,
    name: &str,
) -> Result<AdoptedDeployment, Error> {
    let target = Target::new(kind, name);
    let chains = lists::chains(cluster, kind, cluster.namespace_of(kind)).await?;
    let chain = chain_of(chains, name);
    let of = Collection { cluster, kind };
    let slices = of.of(&chain, name).await?;
    if chain.deployment.is_none() && chain.revisions.is_empty() && slices.is_empty() {
        return Err(not_found(&target, cluster.namespace_of(kind)).into());
    }
    let objects = objects(cluster, &chain).await?;
    Ok(AdoptedDeployment {
        target,
        kind,
        chain,
        objects,
        slices,
    })
}

/// A deployment with its revisions, and with revisions that it has left: garbage collection removes
/// their owner reference when the deployment is deleted without them.
fn chain_of(chains: Vec<Chain>, name: &str) -> Chain {
    let mut whole = Chain::default();
    for chain in chains {
        match &chain.deployment {
            Some(deployment) if deployment.name() == name => {
                whole.revisions.extend(chain.revisions);
                whole.deployment = chain.deployment;
            }
            Some(_) => {}
            None => {
                let revisions = chain.revisions.into_iter();
                whole
                    .revisions
                    .extend(revisions.filter(|revision| was_made_for(revision, name)));
            }
        }
    }
    whole
        .revisions
        .sort_by_key(|revision| revision.number().unwrap_or(i64::MAX));
    whole
}

fn was_made_for(revision: &Revision, deployment: &str) -> bool {
    let labels = revision.metadata.labels.as_ref();
    let made_for = labels.and_then(|labels| labels.get(LABEL_OBJECT_DEPLOYMENT));
    revision.controller().is_none() && made_for.is_some_and(|name| name == deployment)
}

/// The objects of a chain to give back.
async fn objects(cluster: &Cluster, chain: &Chain) -> Result<Vec<(Gvk, ObjectKey)>, Error> {
    let live: Vec<&Revision> = chain
        .revisions
        .iter()
        .filter(|revision| !revision.is_archived())
        .collect();
    let slices = lists::slices(cluster, live.iter().copied()).await?;
    let contents: Vec<(&Revision, RevisionContent)> = live
        .into_iter()
        .map(|revision| (revision, slices.content(revision)))
        .collect();
    let delegated = contents.iter().flat_map(|(_, content)| &content.phases);
    if let Some(phase) = delegated.into_iter().find(|phase| phase.is_delegated()) {
        return Err(Error::Impossible(format!(
            "phase {} has the class {}; --undo cannot release the objects of such a phase",
            phase.name, phase.class
        )));
    }
    let wanted: Vec<_> = contents
        .iter()
        .map(|(revision, content)| (*revision, content))
        .collect();
    let children = lists::children(cluster, "", &wanted, Detail::AsProbed).await?;
    let mut keys = BTreeSet::new();
    let mut objects = Vec::new();
    for object in contents.iter().flat_map(|(_, content)| content.objects()) {
        match children.find(&object.key) {
            LookupResult::Live(live) if is_held(live, chain) => {
                if keys.insert(&object.key) {
                    objects.push((object.gvk.clone(), object.key.clone()));
                }
            }
            LookupResult::Live(_) | LookupResult::Missing => {}
            LookupResult::Unreadable(why) => {
                let title = object_title(&object.key);
                return Err(Error::Impossible(format!("{title}: {why}")));
            }
        }
    }
    Ok(objects)
}

/// True if an object belongs to a chain, or was released by it. An object with a controller outside
/// the chain stays, although the chain is another owner: garbage collection removes that reference.
fn is_held(live: &Value, chain: &Chain) -> bool {
    match owner(live, chain, &Delegates::default()) {
        Owner::Revision { .. } => true,
        Owner::Nobody => is_let_go(live) || is_owned(live, &uids(chain)),
        Owner::Stranger { .. } => false,
    }
}

/// UIDs of the possible owners of a chain's objects.
fn uids(chain: &Chain) -> BTreeSet<&str> {
    let deployment = chain.deployment.iter().map(Deployment::uid);
    deployment
        .chain(chain.revisions.iter().map(Revision::uid))
        .collect()
}

impl AdoptedDeployment {
    /// Undoes the adoption: pauses the deployment, gives the objects back, and deletes the
    /// deployment, its revisions and its slices. `report` is called after each step.
    ///
    /// # Guarantees
    /// - Nothing is changed unless the server accepts in a dry run that all objects are given back.
    /// - Nothing is deleted unless all objects were given back, so they stay when an owner is
    ///   deleted. An object that cannot be given back does not stop the others.
    pub(crate) async fn undo(
        &self,
        cluster: &Cluster,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let refused = self.hand_back(cluster, true, |_| Ok(())).await?;
        all_done(
            &refused,
            "nothing was changed, because some fields cannot be given back",
        )?;
        self.pause(cluster, timeout, &mut report).await?;
        // A rollout may have gone on until the deployment was paused.
        let held = read(cluster, self.kind, &self.target.name).await?;
        held.release_objects(cluster, timeout, report).await
    }

    /// Gives the objects back, and deletes their paused owners.
    async fn release_objects(
        &self,
        cluster: &Cluster,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let refused = self.hand_back(cluster, false, &mut report).await?;
        all_done(
            &refused,
            "nothing was deleted, because some objects were not given back: run this again, or take all objects over \
             again with `kubectl baton resume` for the paused deployment",
        )?;
        if let Some(deployment) = &self.chain.deployment {
            orphan(cluster, &deployment.path(), deployment.uid()).await?;
            gone(cluster, &deployment.target(), timeout).await?;
            report(&format!("{} deleted", name(&deployment.object)))?;
        }
        let revisions = &self.chain.revisions;
        for revision in revisions {
            orphan(cluster, &revision.path(), revision.uid()).await?;
        }
        if !revisions.is_empty() {
            report(&format!("waiting for the deletion of {}", list(revisions)))?;
        }
        let targets: Vec<Target> = revisions.iter().map(Revision::target).collect();
        try_join_all(targets.iter().map(|target| gone(cluster, target, timeout))).await?;
        for revision in revisions {
            report(&format!("{} deleted", name(&revision.object)))?;
        }
        let left = self.delete_slices(cluster, &mut report).await?;
        all_done(&left, "some slices were not deleted; run this again")
    }

    /// Gives all objects back. Returns the errors of those that cannot be given back.
    async fn hand_back(
        &self,
        cluster: &Cluster,
        is_dry_run: bool,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<Vec<String>, Error> {
        let owners = &uids(&self.chain);
        let requests = self.objects.iter().map(async |object| {
            let answer = hand_back(cluster, object, owners, is_dry_run).await;
            (object_title(&object.1), answer)
        });
        let mut answers = stream::iter(requests).buffered(MAX_CONCURRENT);
        let mut left = Vec::new();
        while let Some((title, answer)) = answers.next().await {
            match answer {
                Ok(Some(manager)) => {
                    report(&format!(
                        "{title} kept; its fields are given back to {manager}"
                    ))?;
                }
                Ok(None) => report(&format!("{title} does not exist any more"))?,
                Err(error) => left.push(format!("{title}: {error}")),
            }
        }
        Ok(left)
    }

    /// Deletes the slices that are not needed any more. Returns the errors of those that cannot be
    /// deleted.
    async fn delete_slices(
        &self,
        cluster: &Cluster,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<Vec<String>, Error> {
        let kind = self.kind;
        let of = Collection { cluster, kind };
        let mut left = Vec::new();
        for slice in of.free(&self.slices, &uids(&self.chain)).await? {
            match of.delete(&slice).await {
                Ok(()) => report(&format!("{} deleted", of.title(&slice)))?,
                Err(error) => left.push(format!("{}: {error}", of.title(&slice))),
            }
        }
        Ok(left)
    }
}

fn list(revisions: &[Revision]) -> String {
    let titles: Vec<String> = revisions.iter().map(|it| it.target().to_string()).collect();
    titles.join(", ")
}

fn all_done(left: &[String], what: &str) -> Result<(), Error> {
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::Impossible(format!(
        "{what}:\n  {}",
        left.join("\n  ")
    )))
}

/// Deletes a deployment or a revision without its dependents.
async fn orphan(cluster: &Cluster, path: &str, uid: &str) -> Result<(), Error> {
    let body = json!({"propagationPolicy": "Orphan", "preconditions": {"uid": uid}});
    match cluster
        .send(Method::DELETE, path, Some((MediaType::Json, &body)))
        .await
    {
        Err(error) if error.is_code(404) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

async fn gone(cluster: &Cluster, target: &Target, timeout: Duration) -> Result<(), Error> {
    let (_, is_gone) = watch_until(cluster, target, timeout, async |chain| {
        chain.is_none().then_some(())
    })
    .await?;
    is_gone.ok_or_else(|| {
        Error::Impossible(format!(
            "{target} is still being deleted; check its finalizers, then run this again"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::from_objects;

    const API_VERSION: &str = "package-operator.run/v1alpha1";

    fn deployment(name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": "ObjectDeployment", "metadata": {"name": name, "uid": name},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"phases": []}}},
        })
    }

    /// A revision that was created for a deployment, and is owned by it if `is_owned`.
    fn revision(name: &str, number: i64, deployment: &str, is_owned: bool) -> Value {
        let mut revision = json!({
            "apiVersion": API_VERSION, "kind": "ObjectSet", "metadata": {"name": name, "uid": name, "labels": {}},
            "spec": {"revision": number},
        });
        if !deployment.is_empty() {
            revision["metadata"]["labels"][LABEL_OBJECT_DEPLOYMENT] = deployment.into();
        }
        if is_owned {
            revision["metadata"]["ownerReferences"] = json!([{
                "apiVersion": API_VERSION, "kind": "ObjectDeployment", "name": deployment, "uid": deployment,
                "controller": true,
            }]);
        }
        revision
    }

    #[test]
    fn revisions_of_a_deleted_deployment_are_found() {
        let found = |deployments: &[&str]| {
            let revisions = vec![
                revision("shop-b", 2, "shop", false),
                revision("shop-a", 1, "shop", deployments.contains(&"shop")),
                revision("other-a", 1, "other", deployments.contains(&"other")),
                revision("shop-by-hand", 1, "", false),
            ];
            let deployments = deployments.iter().map(|name| deployment(name)).collect();
            let chain = chain_of(from_objects(deployments, revisions), "shop");
            let names = chain.revisions.iter().map(|it| it.name().to_owned());
            (chain.deployment.is_some(), names.collect::<Vec<_>>())
        };
        let both = || vec!["shop-a".to_owned(), "shop-b".to_owned()];
        assert_eq!(found(&["shop", "other"]), (true, both()));
        assert_eq!(found(&["other"]), (false, both()));
        assert_eq!(found(&[]), (false, both()));
    }
}
