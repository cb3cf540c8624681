//! The next revision of a chain without a deployment.

use std::collections::BTreeSet;

use baton_cluster::{Cluster, Write};
use baton_engine::chain_names::next_number;
use baton_kubernetes::wire::MediaType;
use baton_view::chain::{Chain, kind::ChainKind, member::Revision, target::Target};
use serde_json::Value;

use super::write::{next_name, next_revision};
use crate::error::Error;

/// Checks that a person may make the next revision of the chain of `target`.
///
/// # Errors
/// If another object makes its revisions, or one of them has no number yet.
pub fn check(chain: &Chain, target: &Target) -> Result<(), Error> {
    if let Some(deployment) = &chain.deployment {
        return Err(Error::Impossible(format!(
            "{target} belongs to {0}, which makes its revisions: use {0}",
            deployment.target()
        )));
    }
    if let Some(owner) = chain.revisions.iter().find_map(Revision::controller) {
        return Err(Error::Impossible(format!(
            "{target} is controlled by {} {}, which makes its revisions",
            owner.kind, owner.name
        )));
    }
    let unnumbered = chain
        .revisions
        .iter()
        .find(|revision| revision.number().is_none() && !revision.is_archived());
    match unnumbered {
        Some(revision) => Err(Error::Impossible(format!(
            "{} has no number yet; check that the manager runs",
            revision.target()
        ))),
        None => Ok(()),
    }
}

/// The next revision of a chain, with the content of one of its revisions. It takes objects over
/// from all revisions that are not archived.
///
/// # Errors
/// If there is no number for it, or its name is taken.
pub fn next(
    chain: &Chain,
    content: &Revision,
    name: Option<&str>,
    cause: &str,
) -> Result<Value, Error> {
    let numbers = chain.revisions.iter().map(|it| (it.name(), it.number()));
    let number = next_number(numbers).map_err(|error| Error::Impossible(error.to_string()))?;
    let live = chain
        .revisions
        .iter()
        .filter(|revision| !revision.is_archived());
    let previous: Vec<String> = live.map(|revision| revision.name().to_owned()).collect();
    let taken: BTreeSet<String> = chain
        .revisions
        .iter()
        .map(|revision| revision.name().to_owned())
        .collect();
    let name = match (name, chain.newest()) {
        (Some(name), _) if taken.contains(name) => {
            return Err(Error::Usage(format!(
                "--name: the chain has a revision {name} already"
            )));
        }
        (Some(name), _) => name.to_owned(),
        (None, newest) => {
            let newest = newest.unwrap_or(content);
            let own = newest.number().unwrap_or_default();
            next_name(newest.name(), own, number, &taken)
        }
    };
    Ok(next_revision(
        &content.object,
        &name,
        number,
        &previous,
        cause,
    ))
}

/// Creates a revision.
///
/// # Errors
/// If its name is taken, or the request fails.
pub async fn create(
    cluster: &Cluster,
    kind: ChainKind,
    revision: &Value,
    dry_run: bool,
) -> Result<Value, Error> {
    let namespace = revision["metadata"]["namespace"].as_str();
    let write = Write::new(MediaType::Json, dry_run);
    match cluster.write(&kind.path(namespace), write, revision).await {
        Err(error) if error.is_code(409) => {
            let name = revision["metadata"]["name"].as_str().unwrap_or_default();
            Err(Error::Impossible(format!(
                "{} {name:?} exists already and is not of this chain; choose another name with --name",
                kind.plural
            )))
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_view::chain::member::Deployment;

    fn set(name: &str, metadata: &str, spec: &str) -> Revision {
        let text = format!(
            "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet, metadata: {{name: {name}{metadata}}}, \
                 spec: {spec}}}"
        );
        Revision::parse(serde_saphyr::from_str(&text).unwrap()).unwrap()
    }

    fn chain(revisions: Vec<Revision>) -> Chain {
        Chain {
            revisions,
            ..Chain::default()
        }
    }

    fn web() -> Chain {
        chain(vec![
            set("web-v1", "", "{revision: 1, lifecycleState: Archived}"),
            set("web-v2", "", "{revision: 2}"),
            set("web-v3", "", "{revision: 3, lifecycleState: Paused}"),
        ])
    }

    #[test]
    fn the_next_revision_takes_over_from_all_that_are_not_archived() {
        let chain = web();
        let made = next(&chain, &chain.revisions[0], None, "because").unwrap();
        assert_eq!(made["metadata"]["name"], "web-v4");
        assert_eq!(made["spec"]["revision"], 4);
        // Archived revisions have nothing to hand over.
        let previous = serde_json::json!([{"name": "web-v2"}, {"name": "web-v3"}]);
        assert_eq!(made["spec"]["previous"], previous);
        let named = next(&chain, &chain.revisions[0], Some("fresh"), "because").unwrap();
        assert_eq!(named["metadata"]["name"], "fresh");
        let refused = next(&chain, &chain.revisions[0], Some("web-v2"), "because");
        assert_eq!(
            refused.unwrap_err().to_string(),
            "--name: the chain has a revision web-v2 already"
        );
    }

    #[test]
    fn revisions_of_a_controller_are_not_made_by_hand() {
        let target = Target::new(ChainKind::ObjectSet, "web-v1");
        let refused = |chain: &Chain| check(chain, &target).unwrap_err().to_string();
        assert!(check(&web(), &target).is_ok());

        let mut of_deployment = web();
        let deployment = "{apiVersion: package-operator.run/v1alpha1, kind: ObjectDeployment, metadata: {name: \
             web}, spec: {selector: {}, template: {metadata: {}, spec: {}}}}";
        let deployment = Deployment::parse(serde_saphyr::from_str(deployment).unwrap());
        of_deployment.deployment = Some(deployment.unwrap());
        assert_eq!(
            refused(&of_deployment),
            "os/web-v1 belongs to od/web, which makes its revisions: use od/web"
        );
        let owner = ", ownerReferences: [{apiVersion: v, kind: Package, name: shop, uid: u, controller: true}]";
        assert_eq!(
            refused(&chain(vec![set("web-v1", owner, "{revision: 1}")])),
            "os/web-v1 is controlled by Package shop, which makes its revisions"
        );
        assert_eq!(
            refused(&chain(vec![set("web-v1", "", "{}")])),
            "os/web-v1 has no number yet; check that the manager runs"
        );
        let never = set("web-v0", "", "{lifecycleState: Archived}");
        assert!(
            check(
                &chain(vec![set("web-v1", "", "{revision: 1}"), never]),
                &target
            )
            .is_ok()
        );
    }
}
