//! Labels of chains, and numbers of their next revisions.
//!
//! The revisions of a chain whose objects are in one cluster have a common label. The next revision
//! takes objects over from all remaining revisions of the chain, those being deleted included, so
//! its number has to be higher than theirs.

use baton_apis::limits;
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

/// The greatest step between two numbers of a chain. Each revision has the next number, and the first
/// one may be a time in milliseconds. A larger step shows a number that no controller has given.
const MAX_STEP: i64 = 1 << 42;

/// An object has a number after which there is no next one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} has the number {number}, {}", self.why())]
pub struct NoNextNumber {
    /// Name of the object with the number.
    pub name: String,
    /// The highest possible number, or one that is too far above the others.
    pub number: i64,
}

impl NoNextNumber {
    fn why(&self) -> &'static str {
        if self.number >= limits::NUMBER {
            "and no higher number is possible"
        } else {
            "which is too far above the next lower one"
        }
    }
}

/// The number of the next object, by the names and numbers of the others: one more than the
/// highest, and at least 1.
///
/// # Errors
/// Returns the object that has the highest possible number.
pub fn next_number(
    numbers: impl IntoIterator<Item = (impl AsRef<str>, Option<i64>)>,
) -> Result<i64, NoNextNumber> {
    let mut next = 1;
    for (name, number) in numbers {
        let Some(number) = number else { continue };
        if number >= limits::NUMBER {
            let name = name.as_ref().to_owned();
            return Err(NoNextNumber { name, number });
        }
        next = next.max(number + 1);
    }
    Ok(next)
}

/// The number of the next object, as [`next_number`] returns it, if all numbers were given by a
/// controller.
///
/// # Errors
/// Returns the object with the lowest number that is [too far](lowest_far) above the others.
pub fn next_in_chain<N: AsRef<str>>(
    numbers: impl IntoIterator<Item = (N, Option<i64>)>,
) -> Result<i64, NoNextNumber> {
    let numbers: Vec<_> = numbers.into_iter().collect();
    let far = lowest_far(numbers.iter().filter_map(|(_, number)| *number));
    match numbers
        .iter()
        .find(|(_, number)| far.is_some() && *number == far)
    {
        Some((name, Some(number))) => Err(NoNextNumber {
            name: name.as_ref().to_owned(),
            number: *number,
        }),
        _ => next_number(numbers),
    }
}

/// The lowest number that no controller has given, because the step from the number below it is too
/// large; `None` if there is none. Numbers below 1 count as 0.
///
/// An object with this number or a higher one is forged, as it exhausts the numbers. Where the
/// controller can do without it, it is no member of the chain; elsewhere it is reported.
pub fn lowest_far(numbers: impl IntoIterator<Item = i64>) -> Option<i64> {
    let mut numbers: Vec<_> = numbers.into_iter().map(|number| number.max(0)).collect();
    numbers.sort_unstable();
    let below = std::iter::once(&0).chain(&numbers);
    let mut steps = below.zip(&numbers);
    let far = steps.find(|(below, number)| *number - *below > MAX_STEP);
    far.map(|(_, number)| *number)
}

/// Removes the members of a chain whose number no controller has given: the [lowest far one](lowest_far) and
/// those above it.
pub fn retain_near<T>(members: &mut Vec<T>, number: impl Fn(&T) -> i64) {
    if let Some(far) = lowest_far(members.iter().map(&number)) {
        members.retain(|member| number(member) < far);
    }
}

/// True if an object without a controller may become a member of a chain: its number alone is not
/// [too far](lowest_far) above 0.
pub fn is_near(number: Option<i64>) -> bool {
    lowest_far(number).is_none()
}

/// A hash of a text, as 16 hexadecimal digits.
pub fn short_hash(text: &str) -> String {
    format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()))
}

/// The name of an object whose content determines the base of its name, if the first `taken` names are
/// those of other objects.
pub fn numbered(base: &str, taken: usize) -> String {
    match taken {
        0 => base.to_owned(),
        _ => format!("{base}-{taken}"),
    }
}

/// True if a name is [one of this base](numbered).
pub fn is_numbered(name: &str, base: &str) -> bool {
    let rest = name.strip_prefix(base);
    rest.is_some_and(|rest| {
        rest.is_empty() || {
            let number = rest.strip_prefix('-').and_then(|rest| rest.parse().ok());
            number.is_some_and(|number| number > 0 && numbered(base, number) == name)
        }
    })
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
    fn names_of_one_base_are_numbered() {
        for (name, expected) in [
            ("a-1f", true),
            ("a-1f-1", true),
            ("a-1f-12", true),
            ("a-1f-0", false),
            ("a-1f-01", false),
            ("a-1f-+1", false),
            ("a-1f-x", false),
            ("a-1f1", false),
            ("a-1", false),
        ] {
            assert_eq!(is_numbered(name, "a-1f"), expected, "{name}");
        }
        assert_eq!([0, 3].map(|taken| numbered("a", taken)), ["a", "a-3"]);
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
            (&[("a", Some(limits::NUMBER - 1))], Ok(limits::NUMBER)),
            (
                &[("a", Some(1)), ("b", Some(limits::NUMBER))],
                Err(("b", limits::NUMBER)),
            ),
            (
                &[("a", Some(i64::MAX)), ("b", Some(1))],
                Err(("a", i64::MAX)),
            ),
        ] {
            let expected = expected.map_err(|(name, number)| NoNextNumber {
                name: name.into(),
                number,
            });
            assert_eq!(next_number(numbers.iter().copied()), expected);
        }
    }

    #[test]
    fn a_number_far_above_the_others_is_not_one_of_a_chain() {
        let now = 1_764_322_300_000;
        for (numbers, far) in [
            (&[][..], None),
            (&[i64::MIN, -1, 0], None),
            (&[3, 1, 2], None),
            (&[now, now + 1], None),
            (&[MAX_STEP], None),
            (&[MAX_STEP + 1], Some(MAX_STEP + 1)),
            (&[i64::MAX, 1, i64::MAX - 1], Some(i64::MAX - 1)),
            (&[i64::MIN, i64::MAX], Some(i64::MAX)),
            // The number after an accepted one is accepted as well.
            (&[1, MAX_STEP + 1, MAX_STEP + 2], None),
        ] {
            assert_eq!(lowest_far(numbers.iter().copied()), far, "{numbers:?}");
            let named = numbers
                .iter()
                .map(|number| (number.to_string(), Some(*number)));
            let next = next_in_chain(named).map_err(|highest| highest.number);
            let highest = numbers.iter().copied().max().unwrap_or(0).max(0);
            assert_eq!(
                next,
                far.map_or(Ok(highest.wrapping_add(1)), Err),
                "{numbers:?}"
            );
        }
        assert!(is_near(None) && is_near(Some(7)) && !is_near(Some(limits::NUMBER)));
    }
}
