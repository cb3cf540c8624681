//! The chains of revisions that Releases are installed by: one for each application and cluster.
//!
//! A chain is known by a label of its revisions. The next revision of it takes objects over from all that are left of
//! it, those on their way out included, so its number has to be higher than theirs.

use twox_hash::XxHash64;

/// Most characters of a label's value.
const LABEL_LIMIT: usize = 63;
/// Most characters of what a name of a revision is made of; the names of its phases follow it in names of at most 253.
const NAME_LIMIT: usize = 180;

/// The label of the chain of an application in a cluster.
///
/// # Guarantees
/// Two chains of a namespace have the same label only if two hashes of 64 bits are the same.
#[must_use]
pub fn label(application: &str, cluster: &str) -> String {
    // Neither may begin with what the other ends with: a slash is in no name.
    let hash = short_hash(&format!("{application}/{cluster}"));
    let readable = format!("{application}.{cluster}");
    let readable = begin(&readable, LABEL_LIMIT - hash.len() - 1);
    format!("{readable}.{hash}")
}

/// The name of the revision of a Release in a cluster, with its number in the chain.
///
/// The number tells it apart from one of the same Release that is still on its way out.
#[must_use]
pub fn revision_name(release: &str, cluster: &str, number: i64) -> String {
    let name = format!("{release}-{cluster}");
    if name.len() <= NAME_LIMIT {
        return format!("{name}-{number}");
    }
    let hash = short_hash(&format!("{release}/{cluster}"));
    let begin = begin(&name, NAME_LIMIT - hash.len() - 1);
    format!("{begin}-{hash}-{number}")
}

/// The number in the name of a revision of a Release in a cluster; `None` if it is the name of another one.
#[must_use]
pub fn number_of(name: &str, release: &str, cluster: &str) -> Option<i64> {
    let number = name.rsplit_once('-')?.1.parse().ok()?;
    (revision_name(release, cluster, number) == name).then_some(number)
}

/// The number of the next revision of a chain, by those of the revisions that are left of it.
#[must_use]
pub fn next_number(numbers: impl IntoIterator<Item = Option<i64>>) -> i64 {
    let highest = numbers.into_iter().flatten().max();
    highest.unwrap_or(0).saturating_add(1)
}

fn short_hash(text: &str) -> String {
    format!("{:016x}", XxHash64::oneshot(0, text.as_bytes()))
}

/// The first bytes of a name, without what may not stand in front of a separator.
fn begin(name: &str, most: usize) -> &str {
    name[..name.floor_char_boundary(most)].trim_end_matches(['.', '-', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_values_and_tell_chains_apart() {
        let long = "a".repeat(63);
        let pairs = [
            ("web", "eu"),
            ("web", "eu.1"),
            ("web.eu", "1"),
            (&long, "eu"),
            (&long, "us"),
        ];
        let labels: std::collections::BTreeSet<_> =
            pairs.map(|(app, cluster)| label(app, cluster)).into();
        assert_eq!(labels.len(), pairs.len());
        for label in &labels {
            assert!(label.len() <= LABEL_LIMIT, "{label}");
        }
        assert!(label("web", "eu").starts_with("web.eu."));
    }

    #[test]
    fn names_are_bounded_and_differ_by_number() {
        assert_eq!(revision_name("web-1f-0", "eu", 3), "web-1f-0-eu-3");
        let long = "c".repeat(253);
        let name = revision_name("web-1f-0", &long, i64::MAX);
        assert!(name.len() <= NAME_LIMIT + 20, "{name}");
        assert_ne!(
            revision_name("web-1f-0", &format!("{long}d"), 1),
            revision_name("web-1f-0", &format!("{long}e"), 1)
        );
    }

    #[test]
    fn a_name_tells_its_number() {
        let long = "c".repeat(253);
        for cluster in ["eu", "eu-1", &long] {
            let name = revision_name("web-1f-0", cluster, 7);
            assert_eq!(number_of(&name, "web-1f-0", cluster), Some(7));
            assert_eq!(number_of(&name, "web-1f-1", cluster), None);
        }
        assert_eq!(number_of("web-1f-0-eu-07", "web-1f-0", "eu"), None);
        assert_eq!(number_of("web", "web", "eu"), None);
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
