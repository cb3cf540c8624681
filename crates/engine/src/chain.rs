//! A revision's number and place after the previous ones.

use crate::chain_names::next_number;

/// What is known of a revision by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainLink {
    /// Its number, if it has one yet.
    pub number: Option<i64>,
    /// The revisions it lists as previous.
    pub previous: Vec<String>,
    /// Whether it will never get a number any more: archived or on its way out.
    pub is_closed: bool,
}

/// The number of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// It has one.
    Given(i64),
    /// One more than the highest before it; to be persisted.
    Computed(i64),
    /// A previous revision has no number yet; its event brings the answer.
    WaitFor(String),
    /// It can have none; the text says why.
    Impossible(String),
}

/// Determines a revision's number.
///
/// `lookup` gives an existing revision of the same kind and namespace by its name. Previous
/// revisions that do not exist are skipped; no existing one at all makes it number 1.
///
/// # Guarantees
/// A cycle of revisions without numbers is found, not waited for, whether or not the asking
/// revision is a part of it.
pub fn number(
    name: &str,
    own: &ChainLink,
    lookup: impl Fn(&str) -> Option<ChainLink>,
) -> Numbering {
    if own.previous.iter().any(|previous| previous == name) {
        return Numbering::Impossible(format!("previous: {name} names itself"));
    }
    if let Some(number) = own.number.filter(|number| *number != 0) {
        return Numbering::Given(number);
    }
    let mut numbers = Vec::new();
    for previous in &own.previous {
        match lookup(previous) {
            Some(ChainLink {
                number: Some(number),
                ..
            }) if number != 0 => {
                numbers.push((previous, Some(number)));
            }
            Some(link) if !link.is_closed => {
                return match cycle(vec![name.to_owned(), previous.clone()], &lookup) {
                    Some(cycle) => {
                        Numbering::Impossible(format!("previous: cycle {}", cycle.join(" -> ")))
                    }
                    None => Numbering::WaitFor(previous.clone()),
                };
            }
            Some(_) | None => {}
        }
    }
    match next_number(numbers) {
        Ok(number) => Numbering::Computed(number),
        Err(highest) => Numbering::Impossible(format!("previous: {highest}")),
    }
}

/// Follows revisions without numbers from the end of a path; the path with its first repetition
/// when there is one. Every unnumbered revision waits for its first unnumbered previous
/// one, so following that one is enough.
fn cycle(
    mut path: Vec<String>,
    lookup: &impl Fn(&str) -> Option<ChainLink>,
) -> Option<Vec<String>> {
    loop {
        let link = lookup(path.last()?)?;
        let next = link.previous.into_iter().find(|previous| {
            lookup(previous).is_some_and(|link| link.number.unwrap_or(0) == 0 && !link.is_closed)
        })?;
        let repeated = path.contains(&next);
        path.push(next);
        if repeated {
            return Some(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn link(number: i64, previous: &[&str]) -> ChainLink {
        ChainLink {
            number: (number != 0).then_some(number),
            previous: previous.iter().map(ToString::to_string).collect(),
            is_closed: false,
        }
    }

    fn check(own: &ChainLink, others: &[(&str, ChainLink)], expected: &Numbering) {
        let mut all: BTreeMap<_, _> = others.iter().map(|(n, l)| (*n, l.clone())).collect();
        all.insert("me", own.clone());
        assert_eq!(number("me", own, |name| all.get(name).cloned()), *expected);
    }

    #[test]
    fn numbers() {
        let closed = ChainLink {
            is_closed: true,
            ..link(0, &[])
        };
        check(&link(7, &["a"]), &[], &Numbering::Given(7));
        check(&link(0, &[]), &[], &Numbering::Computed(1));
        check(&link(0, &["gone"]), &[], &Numbering::Computed(1));
        check(
            &link(0, &["a", "gone", "b"]),
            &[("a", link(4, &[])), ("b", link(2, &[]))],
            &Numbering::Computed(5),
        );
        check(
            &link(0, &["a"]),
            &[("a", link(0, &[]))],
            &Numbering::WaitFor("a".into()),
        );
        check(&link(0, &["a"]), &[("a", closed)], &Numbering::Computed(1));
        check(
            &link(0, &["a"]),
            &[("a", link(-3, &[]))],
            &Numbering::Computed(1),
        );
        let none = "previous: b has the number 9223372036854775807, which leaves none for what comes after it";
        check(
            &link(0, &["a", "b"]),
            &[("a", link(4, &[])), ("b", link(i64::MAX, &[]))],
            &Numbering::Impossible(none.to_owned()),
        );
    }

    #[test]
    fn contradictions_are_reported_and_not_waited_for() {
        let cycle = |text: &str| Numbering::Impossible(format!("previous: {text}"));
        check(&link(0, &["me"]), &[], &cycle("me names itself"));
        check(&link(3, &["me"]), &[], &cycle("me names itself"));
        check(
            &link(0, &["a"]),
            &[("a", link(0, &["me"]))],
            &cycle("cycle me -> a -> me"),
        );
        check(
            &link(0, &["a"]),
            &[("a", link(0, &["b"])), ("b", link(0, &["a"]))],
            &cycle("cycle me -> a -> b -> a"),
        );
        // A number given by hand breaks the cycle for those who have one.
        check(
            &link(2, &["a"]),
            &[("a", link(0, &["me"]))],
            &Numbering::Given(2),
        );
        check(
            &link(0, &["a"]),
            &[("a", link(2, &["me"]))],
            &Numbering::Computed(3),
        );
    }
}
