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
pub fn label(maker: &str, name: &str, cluster: &str) -> String {
    // Neither may begin with what the other ends with: a slash is in no name.
    let hash = short_hash(&format!("{maker}{name}/{cluster}"));
    let readable = format!("{name}.{cluster}");
    let readable = begin(&readable, LABEL_LIMIT - hash.len() - 1);
    format!("{readable}.{hash}")
}

/// A number that is so high that what comes after it can have none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has the number {number}, which leaves none for what comes after it")]
pub struct NoNextNumber {
    /// Name of the object that has it.
    pub name: String,
    /// The number.
    pub number: i64,
}

/// The number of what comes after others, by their names and numbers: one more than the highest, and at least 1.
///
/// # Errors
/// With the one that has the highest number there is.
pub fn next_number(
    numbers: impl IntoIterator<Item = (impl AsRef<str>, Option<i64>)>,
) -> Result<i64, NoNextNumber> {
    let mut next = 1;
    for (name, number) in numbers {
        let Some(number) = number else { continue };
        let after = number.checked_add(1).ok_or_else(|| NoNextNumber {
            name: name.as_ref().to_owned(),
            number,
        })?;
        next = next.max(after);
    }
    Ok(next)
}

/// 16 hexadecimal digits that tell a text apart from others.
pub fn short_hash(text: &str) -> String {
    format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()))
}

/// The first bytes of a name, without what may not stand in front of a separator.
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
    fn numbers_go_up_or_there_is_none() {
        for (numbers, expected) in [
            (&[][..], Ok(1)),
            (&[("a", None)], Ok(1)),
            (
                &[("a", Some(1)), ("b", None), ("c", Some(4)), ("d", Some(2))],
                Ok(5),
            ),
            (&[("a", Some(-7)), ("b", Some(0))], Ok(1)),
            (&[("a", Some(i64::MIN))], Ok(1)),
            (&[("a", Some(i64::MAX - 1))], Ok(i64::MAX)),
            (&[("a", Some(1)), ("b", Some(i64::MAX))], Err("b")),
        ] {
            let expected = expected.map_err(|name| NoNextNumber {
                name: name.into(),
                number: i64::MAX,
            });
            assert_eq!(next_number(numbers.iter().copied()), expected);
        }
    }
}
