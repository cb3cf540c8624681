//! Labels of chains, and numbers of their next revisions.
//!
//! The revisions of a chain whose objects are in one cluster have a common label. The next revision
//! takes objects over from all remaining revisions of the chain, those being deleted included, so
//! its number has to be higher than theirs.

use twox_hash::XxHash64;

/// Greatest length of a label's value.
const LABEL_LIMIT: usize = 63;

/// The label of the chain that a maker of revisions has in a cluster.
///
/// `maker` distinguishes the kinds of makers, because an application of Releases and a deployment
/// to sites may have the same name. It is empty for the former, and ends with a slash otherwise.
///
/// # Guarantees
/// Two chains of a namespace have the same label only if two hashes of 64 bits are equal.
pub fn label(maker: &str, name: &str, cluster: &str) -> String {
    // The slashes keep the parts apart: no name contains a slash.
    let hash = short_hash(&format!("{maker}{name}/{cluster}"));
    let readable = format!("{name}.{cluster}");
    let readable = begin(&readable, LABEL_LIMIT - hash.len() - 1);
    format!("{readable}.{hash}")
}

/// An object has the highest possible number, so that the next object can have no higher one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has the number {number}, and no higher number is possible")]
pub struct NoNextNumber {
    /// Name of the object with the number.
    pub name: String,
    /// The highest possible number.
    pub number: i64,
}

/// The number of the next object, by the names and numbers of the others: one more than the
/// highest, and at least 1.
///
/// # Errors
/// Returns the object that already has the highest possible number.
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

/// A hash of a text, as 16 hexadecimal digits.
pub fn short_hash(text: &str) -> String {
    format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()))
}

/// The first bytes of a name, without trailing characters that must not precede a separator.
pub fn begin(name: &str, most: usize) -> &str {
    name[..name.floor_char_boundary(most)].trim_end_matches(['.', '-', '_'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_are_valid_and_differ_between_chains() {
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
    fn the_next_number_is_the_highest_plus_one_or_an_error() {
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
