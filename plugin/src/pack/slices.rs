//! Splits a package that is too large for one object.
//!
//! # Bins
//!
//! The objects of a phase are put into bins by a hash of their identity, not of their content:
//! first all into one bin; a bin that is too large is halved by the next bit of the hash, and so
//! on. So the objects of a bin depend only on the objects themselves, and not on their order or on
//! earlier splits. A changed object changes one slice, unless its bin overflows or two neighbours
//! shrink into one. The same holds for an added or removed object.

use baton_engine::{ObjectKey, diff::content_fingerprint};
use serde_json::{Value, json};

/// The largest object. Objects of etcd, and thus of the API server, have at most 1.5 MiB; this
/// leaves room for metadata.
pub(crate) const LARGEST_OBJECT: usize = 1_500_000;

/// Phases smaller than this share of the limit stay in the package, as they are not worth a slice.
const SMALL: usize = 16;

/// An object with its settings, as a phase lists it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: ObjectKey,
    pub(crate) value: Value,
    pub(crate) size: usize,
}

impl Entry {
    pub(crate) fn new(key: ObjectKey, value: Value) -> Self {
        let size = value.to_string().len() + 1;
        Self { key, value, size }
    }
}

pub(crate) type Slice = Vec<Entry>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Packing {
    /// The objects stay in the phase, in the order of the input.
    Inline(Vec<Entry>),
    Sliced(Vec<Slice>),
}

/// Decides which phases are split into slices, and splits them.
///
/// No phase is split if all objects together have at most `limit` bytes. Otherwise all phases are,
/// except small ones, unless the small ones together exceed the limit.
///
/// # Guarantees
/// A slice exceeds the limit only if it has one object.
pub(crate) fn split(phases: Vec<Vec<Entry>>, limit: usize) -> Vec<Packing> {
    let size = |entries: &[Entry]| entries.iter().map(|entry| entry.size).sum::<usize>();
    let sizes: Vec<_> = phases.iter().map(|entries| size(entries)).collect();
    let is_small = |size: usize| size <= limit / SMALL;
    let all_fit = sizes.iter().sum::<usize>() <= limit;
    let small_fit = sizes.iter().filter(|size| is_small(**size)).sum::<usize>() <= limit;
    phases
        .into_iter()
        .zip(sizes)
        .map(|(entries, size)| {
            if all_fit || (small_fit && is_small(size)) {
                Packing::Inline(entries)
            } else {
                Packing::Sliced(bins(entries, limit))
            }
        })
        .collect()
}

/// Puts objects into bins. The objects of a bin are sorted, so that their order in the input does
/// not matter.
fn bins(entries: Vec<Entry>, limit: usize) -> Vec<Slice> {
    let hashed = entries
        .into_iter()
        .map(|entry| (identity(&entry.key), entry));
    let mut hashed: Vec<_> = hashed.collect();
    hashed.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
    let mut bins = Vec::new();
    halve(&hashed, u64::BITS, limit, &mut bins);
    bins
}

fn halve(hashed: &[(u64, Entry)], depth: u32, limit: usize, bins: &mut Vec<Slice>) {
    let size: usize = hashed.iter().map(|(_, entry)| entry.size).sum();
    if hashed.is_empty() {
        return;
    }
    let Some(bit) = depth
        .checked_sub(1)
        .filter(|_| size > limit && hashed.len() > 1)
    else {
        let mut slice: Slice = hashed.iter().map(|(_, entry)| entry.clone()).collect();
        slice.sort_by(|a, b| a.key.cmp(&b.key));
        bins.push(slice);
        return;
    };
    let middle = hashed.partition_point(|(hash, _)| hash >> bit & 1 == 0);
    let (low, high) = hashed.split_at(middle);
    halve(low, bit, limit, bins);
    halve(high, bit, limit, bins);
}

/// A hash of the identity of an object. It must never change, because slices are split by it.
fn identity(key: &ObjectKey) -> u64 {
    let ObjectKey {
        group,
        kind,
        namespace,
        name,
    } = key;
    content_fingerprint(&json!([group, kind, namespace, name]))
}

/// The name of a slice, which depends on its content.
pub(crate) fn name(package: &str, slice: &Slice) -> String {
    let values = slice.iter().map(|entry| entry.value.clone()).collect();
    format!(
        "{package}-{:016x}",
        content_fingerprint(&Value::Array(values))
    )
}

#[cfg(test)]
#[path = "slices/tests.rs"]
mod tests;
