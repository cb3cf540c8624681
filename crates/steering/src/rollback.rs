//! Rollbacks of chains: the choice of the revision, and the writes.

pub mod apply;
pub mod standalone;
pub mod write;

use baton_view::chain::{Chain, member::Revision};

use crate::error::Error;

/// A revision that a rollback may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) number: i64,
    /// True if the revision was available once while it controlled all of its objects.
    pub(crate) has_succeeded: bool,
    /// True if the revision is the wanted one: it has the content of the deployment's template, or
    /// is the newest of a chain without a deployment.
    pub(crate) is_current: bool,
    /// The content compared with the wanted content.
    pub(crate) content: Comparison,
}

/// The content of a revision compared with the wanted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Equal, including the objects of slices.
    Same,
    Different,
    /// Unknown: these slices of the revision do not exist any more. The revision cannot be chosen.
    SlicesGone(Vec<String>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Number of the revision; `None` for the default choice.
    pub(crate) to_revision: Option<i64>,
    /// True if revisions that never succeeded can be chosen.
    pub(crate) force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The chain has no revision with this number.
    #[error("revision {wanted} does not exist; {}", existing_revisions(.existing))]
    NoSuchRevision {
        wanted: i64,
        /// Numbers of the existing revisions, ascending.
        existing: Vec<i64>,
    },
    /// The chain has only the wanted content.
    #[error("there is no earlier revision with another content to roll back to; {}", existing_revisions(.existing))]
    NothingElse {
        /// Numbers of the existing revisions, ascending.
        existing: Vec<i64>,
    },
    /// The default choice needs a revision that has succeeded.
    #[error(
        "no earlier revision with another content has ever succeeded; --force rolls back to revision {newest} anyway, \
             and --to-revision to another one"
    )]
    NoneSucceeded {
        /// The number that `--force` would choose.
        newest: i64,
    },
    /// The requested revision was never fully available.
    #[error("revision {number} ({name}) has never succeeded; --force rolls back to it anyway")]
    NeverSucceeded { number: i64, name: String },
    /// Parts of the content do not exist any more.
    #[error(
        "revision {number} ({name}) cannot be rolled back to: {}",
        baton_text::diff::gone(slices)
    )]
    SlicesGone {
        number: i64,
        name: String,
        slices: Vec<String>,
    },
}

fn existing_revisions(numbers: &[i64]) -> String {
    let list: Vec<String> = numbers.iter().map(i64::to_string).collect();
    match list.as_slice() {
        [] => "there are no revisions yet".to_owned(),
        [only] => format!("there is only revision {only}"),
        _ => format!("there are the revisions {}", list.join(", ")),
    }
}

/// Numbers of the revisions of a chain, ascending.
fn numbers(chain: &Chain) -> Vec<i64> {
    chain
        .revisions
        .iter()
        .filter_map(Revision::number)
        .collect()
}

/// The revision with a number.
///
/// # Errors
/// If the chain has none.
pub fn numbered(chain: &Chain, number: i64) -> Result<&Revision, Error> {
    chain.by_number(number).ok_or_else(|| {
        let refusal = Refusal::NoSuchRevision {
            wanted: number,
            existing: numbers(chain),
        };
        Error::NotFound(refusal.to_string())
    })
}

/// The decision about a rollback: the revision, and if its content is wanted already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// The content of this revision becomes the next revision.
    Roll(&'a Candidate),
    /// The user named this revision, and its content is wanted already.
    Already(&'a Candidate),
}

/// Chooses the revision for a rollback.
///
/// The default is the newest one before the current revision that has succeeded and has another
/// content than the wanted one. If none of them has succeeded, `force` chooses the newest one with
/// another content.
pub(crate) fn choose<'a>(
    candidates: &'a [Candidate],
    options: &Options,
) -> Result<Choice<'a>, Refusal> {
    let mut existing: Vec<i64> = candidates.iter().map(|one| one.number).collect();
    existing.sort_unstable();
    let chosen = match options.to_revision {
        Some(wanted) => candidates
            .iter()
            .find(|one| one.number == wanted)
            .ok_or(Refusal::NoSuchRevision { wanted, existing })?,
        None => default(candidates, options.force, existing)?,
    };
    match &chosen.content {
        _ if chosen.is_current => Ok(Choice::Already(chosen)),
        Comparison::Same => Ok(Choice::Already(chosen)),
        Comparison::SlicesGone(slices) => Err(Refusal::SlicesGone {
            number: chosen.number,
            name: chosen.name.clone(),
            slices: slices.clone(),
        }),
        Comparison::Different if chosen.has_succeeded || options.force => Ok(Choice::Roll(chosen)),
        Comparison::Different => Err(Refusal::NeverSucceeded {
            number: chosen.number,
            name: chosen.name.clone(),
        }),
    }
}

fn default(
    candidates: &[Candidate],
    force: bool,
    existing: Vec<i64>,
) -> Result<&Candidate, Refusal> {
    let current = candidates.iter().find(|one| one.is_current);
    let mut others: Vec<&Candidate> = candidates
        .iter()
        .filter(|one| current.is_none_or(|current| one.number < current.number))
        .filter(|one| one.content != Comparison::Same)
        .collect();
    others.sort_by_key(|one| std::cmp::Reverse(one.number));
    let Some(newest) = others.first() else {
        return Err(Refusal::NothingElse { existing });
    };
    match others.iter().find(|one| one.has_succeeded) {
        Some(proven) => Ok(proven),
        None if force => Ok(newest),
        None => Err(Refusal::NoneSucceeded {
            newest: newest.number,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain in a few letters per revision: its number, then `s` for succeeded, `c` for current,
    /// `=` for the wanted content, `-` for a lost slice.
    fn chain(text: &str) -> Vec<Candidate> {
        let revision = |word: &str| {
            let digits = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            Candidate {
                name: format!("web-v{digits}"),
                number: digits.parse().unwrap(),
                has_succeeded: word.contains('s'),
                is_current: word.contains('c'),
                content: if word.contains('=') {
                    Comparison::Same
                } else if word.contains('-') {
                    Comparison::SlicesGone(vec!["web-a".to_owned(), "web-b".to_owned()])
                } else {
                    Comparison::Different
                },
            }
        };
        text.split_whitespace().map(revision).collect()
    }

    /// The choice as `roll N` or `already N`, or the message of the refusal.
    fn chosen(text: &str, to_revision: Option<i64>, force: bool) -> String {
        match choose(&chain(text), &Options { to_revision, force }) {
            Ok(Choice::Roll(one)) => format!("roll {}", one.number),
            Ok(Choice::Already(one)) => format!("already {}", one.number),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn the_default_target_is_the_newest_successful_revision_that_differs() {
        for (revisions, expected) in [
            ("1s 2s 3sc=", "roll 2"),
            // The usual case: the newest revision does not work.
            ("1s 2s 3c=", "roll 2"),
            ("1s 2 3c=", "roll 1"),
            // A restart made a second revision of the same content.
            ("1s 2s= 3sc=", "roll 1"),
            // The order of the revisions does not matter.
            ("3c= 1s 2s", "roll 2"),
            // The template was changed and has no revision yet: the newest one is not the wanted
            // one.
            ("1s 2s", "roll 2"),
            ("1s= 2s", "roll 2"),
            // The deployment was paused after a rollback to the first content.
            (
                "1s= 2",
                "no earlier revision with another content has ever succeeded; --force rolls back to revision 2 anyway, \
                     and --to-revision to another one",
            ),
            (
                "1 2 3c=",
                "no earlier revision with another content has ever succeeded; --force rolls back to revision 2 anyway, \
                     and --to-revision to another one",
            ),
            (
                "1sc=",
                "there is no earlier revision with another content to roll back to; there is only revision 1",
            ),
            (
                "1s= 2sc=",
                "there is no earlier revision with another content to roll back to; there are the revisions 1, 2",
            ),
            (
                "",
                "there is no earlier revision with another content to roll back to; there are no revisions yet",
            ),
            (
                "1s 2s- 3c=",
                "revision 2 (web-v2) cannot be rolled back to: its slices web-a, web-b do not exist any more",
            ),
        ] {
            assert_eq!(chosen(revisions, None, false), expected, "{revisions}");
        }
    }

    #[test]
    fn a_successful_revision_is_preferred_even_with_force() {
        assert_eq!(chosen("1s 2 3c=", None, true), "roll 1");
        assert_eq!(chosen("1 2 3c=", None, true), "roll 2");
        assert_eq!(
            chosen("1sc=", None, true),
            "there is no earlier revision with another content to roll back to; there is only revision 1"
        );
    }

    #[test]
    fn a_named_revision_must_exist_and_have_succeeded() {
        for (revisions, number, force, expected) in [
            ("1s 2s 3sc=", 1, false, "roll 1"),
            ("1s 2s 3sc=", 3, false, "already 3"),
            ("1s 2s= 3sc=", 2, false, "already 2"),
            ("1s 2 3sc=", 2, true, "roll 2"),
            (
                "1s 2 3sc=",
                2,
                false,
                "revision 2 (web-v2) has never succeeded; --force rolls back to it anyway",
            ),
            (
                "1s 2s 4sc=",
                3,
                false,
                "revision 3 does not exist; there are the revisions 1, 2, 4",
            ),
            (
                "",
                1,
                true,
                "revision 1 does not exist; there are no revisions yet",
            ),
            (
                "1s- 2s 3sc=",
                1,
                true,
                "revision 1 (web-v1) cannot be rolled back to: its slices web-a, web-b do not exist any more",
            ),
            // The content of the current revision is the wanted one, even if slices cannot be read.
            ("1s 2s-c", 2, false, "already 2"),
        ] {
            assert_eq!(
                chosen(revisions, Some(number), force),
                expected,
                "{revisions}"
            );
        }
    }
}
