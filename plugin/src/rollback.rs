//! Which revision to go back to, and what to write for that. Decisions only: nothing here talks to a
//! server.

pub(crate) mod standalone;
pub(crate) mod write;

use baton_view::chain::{Chain, member::Revision};

use crate::error::Error;

/// A revision that could be gone back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    pub(crate) number: i64,
    /// Whether it was available once while it controlled all of its objects.
    pub(crate) has_succeeded: bool,
    /// Whether it is the one that is wanted now: its content is that of the deployment's template, or it
    /// is the newest of a chain without a deployment.
    pub(crate) is_current: bool,
    /// How its content compares with what is wanted now.
    pub(crate) content: Comparison,
}

/// A revision's content beside what is wanted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Equal, the objects of slices included.
    Same,
    Different,
    /// Unknown, and not available for a rollback: these slices of the revision do not exist any more.
    SlicesGone(Vec<String>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The number of the revision; `None` is the default.
    pub(crate) to_revision: Option<i64>,
    /// Go back to a revision that never succeeded as well.
    pub(crate) force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The chain has no such number.
    #[error("revision {wanted} does not exist; {}", known(.existing))]
    NoSuchRevision {
        wanted: i64,
        /// The numbers there are, ascending.
        existing: Vec<i64>,
    },
    /// There is only what is wanted now.
    #[error("there is no earlier revision with another content to roll back to; {}", known(.existing))]
    NothingElse {
        /// The numbers there are, ascending.
        existing: Vec<i64>,
    },
    /// By default only what was proven to work is gone back to.
    #[error(
        "no earlier revision with another content has ever succeeded; --force rolls back to revision {newest} all \
             the same, --to-revision to another one"
    )]
    NoneSucceeded {
        /// What `--force` would choose.
        newest: i64,
    },
    /// The revision that was asked for was never fully available.
    #[error(
        "revision {number} ({name}) has never succeeded; --force rolls back to it all the same"
    )]
    NeverSucceeded { number: i64, name: String },
    /// Parts of the content are lost.
    #[error(
        "revision {number} ({name}) cannot be rolled back to: {}",
        crate::text::diff::gone(slices)
    )]
    SlicesGone {
        number: i64,
        name: String,
        slices: Vec<String>,
    },
}

fn known(numbers: &[i64]) -> String {
    let list: Vec<String> = numbers.iter().map(i64::to_string).collect();
    match list.as_slice() {
        [] => "there are no revisions yet".to_owned(),
        [only] => format!("there is only revision {only}"),
        _ => format!("there are the revisions {}", list.join(", ")),
    }
}

/// The numbers of a chain's revisions, ascending.
fn numbers(chain: &Chain) -> Vec<i64> {
    chain
        .revisions
        .iter()
        .filter_map(Revision::number)
        .collect()
}

pub(crate) fn numbered(chain: &Chain, number: i64) -> Result<&Revision, Error> {
    chain.by_number(number).ok_or_else(|| {
        let refusal = Refusal::NoSuchRevision {
            wanted: number,
            existing: numbers(chain),
        };
        Error::NotFound(refusal.to_string())
    })
}

/// What a rollback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// Make this revision's content the next revision.
    Roll(&'a Candidate),
    /// This revision was asked for, and its content is what is wanted already.
    Already(&'a Candidate),
}

/// Chooses the revision to go back to.
///
/// By default that is the newest one before the current revision that has succeeded and has another
/// content than what is wanted now. When none of them has succeeded, `force` takes the newest one
/// with another content.
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

    /// What is chosen, as `roll N`, `already N` or the message of the refusal.
    fn chosen(text: &str, to_revision: Option<i64>, force: bool) -> String {
        match choose(&chain(text), &Options { to_revision, force }) {
            Ok(Choice::Roll(one)) => format!("roll {}", one.number),
            Ok(Choice::Already(one)) => format!("already {}", one.number),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn by_default_the_newest_proven_one_with_another_content() {
        for (revisions, expected) in [
            ("1s 2s 3sc=", "roll 2"),
            // The usual case: the newest one is broken.
            ("1s 2s 3c=", "roll 2"),
            ("1s 2 3c=", "roll 1"),
            // A restart made a second revision of the same content.
            ("1s 2s= 3sc=", "roll 1"),
            // Any order.
            ("3c= 1s 2s", "roll 2"),
            // The template was changed and has no revision yet: the newest one is not what is wanted.
            ("1s 2s", "roll 2"),
            ("1s= 2s", "roll 2"),
            // Paused after going back to the first content.
            (
                "1s= 2",
                "no earlier revision with another content has ever succeeded; --force rolls back to revision 2 all \
                     the same, --to-revision to another one",
            ),
            (
                "1 2 3c=",
                "no earlier revision with another content has ever succeeded; --force rolls back to revision 2 all \
                     the same, --to-revision to another one",
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
    fn forced_a_proven_one_is_still_preferred() {
        assert_eq!(chosen("1s 2 3c=", None, true), "roll 1");
        assert_eq!(chosen("1 2 3c=", None, true), "roll 2");
        assert_eq!(
            chosen("1sc=", None, true),
            "there is no earlier revision with another content to roll back to; there is only revision 1"
        );
    }

    #[test]
    fn a_named_revision_has_to_exist_and_to_have_succeeded() {
        for (revisions, number, force, expected) in [
            ("1s 2s 3sc=", 1, false, "roll 1"),
            ("1s 2s 3sc=", 3, false, "already 3"),
            ("1s 2s= 3sc=", 2, false, "already 2"),
            ("1s 2 3sc=", 2, true, "roll 2"),
            (
                "1s 2 3sc=",
                2,
                false,
                "revision 2 (web-v2) has never succeeded; --force rolls back to it all the same",
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
            // The current revision's content is what is wanted, whatever could not be read.
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
