//! Labels of chains, and numbers of their next revisions.
//!
//! A chain that leads into one cluster is known by a label of its revisions. The next revision of it takes objects over
//! from all that are left of it, those on their way out included, so its number has to be higher than theirs.

use twox_hash::XxHash64;

/// Most characters of a label's value.
const LABEL_LIMIT: usize = 63;

/// The label of the chain that something has in a cluster.
///
/// `maker` tells apart what makes chains: an application of Releases and a deployment to sites may have the same name.
/// It is empty for the former, and ends with a slash otherwise.
///
/// # Guarantees
/// Two chains of a namespace have the same label only if two hashes of 64 bits are the same.
#[must_use]
pub fn label(maker: &str, name: &str, cluster: &str) -> String {
    // Neither may begin with what the other ends with: a slash is in no name.
    let hash = short_hash(&format!("{maker}{name}/{cluster}"));
    let readable = format!("{name}.{cluster}");
    let readable = begin(&readable, LABEL_LIMIT - hash.len() - 1);
    format!("{readable}.{hash}")
}

/// The number of the next revision of a chain, by those of the revisions that are left of it.
#[must_use]
pub fn next_number(numbers: impl IntoIterator<Item = Option<i64>>) -> i64 {
    let highest = numbers.into_iter().flatten().max();
    highest.unwrap_or(0).saturating_add(1)
}

/// 16 hexadecimal digits that tell a text apart from others.
#[must_use]
pub fn short_hash(text: &str) -> String {
    format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()))
}

/// The first bytes of a name, without what may not stand in front of a separator.
#[must_use]
pub fn begin(name: &str, most: usize) -> &str {
    name[..name.floor_char_boundary(most)].trim_end_matches(['.', '-', '_'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_are_values_and_tell_chains_apart() {
        let long = "a".repeat(63);
        let chains = [
            ("", "web", "eu"),
            ("site/", "web", "eu"),
            ("", "web", "eu.1"),
            ("", "web.eu", "1"),
            ("", &long, "eu"),
            ("", &long, "us"),
        ];
        let labels: BTreeSet<_> = chains
            .map(|(maker, name, at)| label(maker, name, at))
            .into();
        assert_eq!(labels.len(), chains.len());
        for label in &labels {
            assert!(label.len() <= LABEL_LIMIT, "{label}");
        }
        assert!(label("", "web", "eu").starts_with("web.eu."));
    }

    #[test]
    fn numbers_go_up() {
        for (numbers, expected) in [
            (vec![], 1),
            (vec![None], 1),
            (vec![Some(1), None, Some(4), Some(2)], 5),
            (vec![Some(i64::MAX)], i64::MAX),
        ] {
            assert_eq!(next_number(numbers), expected);
        }
    }
}
