//! The next revision of a chain that has no deployment to make it.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use super::write::{next_name, next_revision};
use crate::{
    chain::{Chain, Revision},
    connect::{Cluster, Content, FIELD_MANAGER},
    error::Error,
    rollout::title,
    target::{Kind, Target},
};

/// Whether a next revision of the chain of `target` may be made by hand.
///
/// # Errors
/// Somebody else makes them, or the number of the next one is not known.
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
            "{} has no number yet: is the manager running?",
            revision.target()
        ))),
        None => Ok(()),
    }
}

/// The next revision of a chain, with the content of one of its revisions. It takes over from all
/// that are not archived.
///
/// # Errors
/// The name is taken.
pub fn next(
    chain: &Chain,
    content: &Revision,
    name: Option<&str>,
    cause: &str,
) -> Result<Value, Error> {
    let numbers = chain.revisions.iter().filter_map(Revision::number);
    let number = numbers.max().unwrap_or(0) + 1;
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
        (Some(name), _) => match chain.by_name(name) {
            Some(taken) => {
                return Err(Error::Usage(format!(
                    "--name: {name} is {} already",
                    title(taken)
                )));
            }
            None => name.to_owned(),
        },
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
/// Refused, or no answer.
pub async fn create(
    cluster: &Cluster,
    kind: Kind,
    revision: &Value,
    dry_run: bool,
) -> Result<Value, Error> {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let namespace = revision["metadata"]["namespace"].as_str();
    let path = format!(
        "{}?fieldManager={FIELD_MANAGER}{dry_run}",
        kind.path(namespace)
    );
    let created = cluster
        .send(Method::POST, &path, Some((Content::Json, revision)))
        .await;
    match created {
        Err(error) if error.is_code(409) => {
            let name = revision["metadata"]["name"].as_str().unwrap_or_default();
            Err(Error::Impossible(format!(
                "{} {name:?} exists already and is not of this chain; choose another name with --name",
                kind.plural()
            )))
        }
        result => result,
    }
}
