//! Chains of revisions without a deployment.

use std::collections::{BTreeMap, BTreeSet};

use super::{Chain, kind::ChainKind, member::Revision};

/// Groups revisions by `previous`, in both directions and over any number of steps.
pub(super) fn group(revisions: Vec<Revision>) -> Vec<Chain> {
    type Id = (ChainKind, String, String);
    let id = |revision: &Revision, name: &str| -> Id {
        let namespace = revision.namespace().unwrap_or_default();
        (revision.kind, namespace.to_owned(), name.to_owned())
    };
    let mut neighbours: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    for revision in &revisions {
        let own = id(revision, revision.name());
        neighbours.entry(own.clone()).or_default();
        for previous in revision.previous() {
            let other = id(revision, previous);
            neighbours
                .entry(other.clone())
                .or_default()
                .insert(own.clone());
            neighbours.entry(own.clone()).or_default().insert(other);
        }
    }
    let mut group_of: BTreeMap<Id, usize> = BTreeMap::new();
    let mut chains: Vec<Chain> = Vec::new();
    for revision in revisions {
        let own = id(&revision, revision.name());
        let group = group_of.get(&own).copied().unwrap_or_else(|| {
            let group = chains.len();
            chains.push(Chain::default());
            let mut open = vec![own];
            while let Some(next) = open.pop() {
                if group_of.insert(next.clone(), group).is_none() {
                    open.extend(neighbours.get(&next).into_iter().flatten().cloned());
                }
            }
            group
        });
        chains[group].revisions.push(revision);
    }
    chains
}
