//! A revision's number, which is higher than those of its previous revisions.

use crate::chain_names::next_number;

/// The data of a revision that numbering needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainLink {
    /// Revision number, if one is assigned.
    pub number: Option<i64>,
    /// Names of the revisions listed in `previous`.
    pub previous: Vec<String>,
    /// True if the revision will never get a number: it is archived or being deleted.
    pub is_closed: bool,
}

/// The result of numbering a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The revision has this number already.
    Given(i64),
    /// One more than the highest number of the previous revisions; the caller has to store it.
    Computed(i64),
    /// A previous revision, given by name, has no number yet; its next event triggers a reconcile.
    WaitFor(String),
    /// The revision cannot get a number; the text says why.
    Impossible(String),
}

/// Determines a revision's number.
///
/// `lookup` returns an existing revision of the same kind and namespace by its name. Previous
/// revisions that do not exist are skipped; if none exists, the number is 1.
///
/// # Guarantees
/// A cycle of revisions without numbers is detected instead of waited for, even if the revision to
/// be numbered is not part of the cycle.
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

/// Follows revisions without numbers from the end of a path.
///
/// Returns the path up to its first repetition, if there is one. Every unnumbered revision waits
/// for its first unnumbered previous revision, so only that one is followed.
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
    use baton_apis::limits;

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
        let none = "previous: b has the number 9007199254740991, and no higher number is possible";
        check(
            &link(0, &["a", "b"]),
            &[("a", link(4, &[])), ("b", link(limits::NUMBER, &[]))],
            &Numbering::Impossible(none.to_owned()),
        );
    }

    #[test]
    fn contradictory_previous_references_are_reported_at_once() {
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
        // A number set by hand breaks the cycle for the revisions that have one.
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
