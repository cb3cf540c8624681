//! The chains of revisions that install Releases: one chain for each application and cluster.

use baton_engine::chain_names::{self, begin, short_hash};

/// Maximum length of the base of a revision name. The names of phases add to it, and have at most
/// 253 characters.
const NAME_LIMIT: usize = 180;

/// The label of the chain of an application in a cluster.
pub fn label(application: &str, cluster: &str) -> String {
    chain_names::label("", application, cluster)
}

/// The name of the revision of a Release in a cluster, with its number in the chain.
///
/// The number distinguishes it from a revision of the same Release that is still being deleted.
pub fn revision_name(release: &str, cluster: &str, number: i64) -> String {
    let name = format!("{release}-{cluster}");
    if name.len() <= NAME_LIMIT {
        return format!("{name}-{number}");
    }
    let hash = short_hash(&format!("{release}/{cluster}"));
    let begin = begin(&name, NAME_LIMIT - hash.len() - 1);
    format!("{begin}-{hash}-{number}")
}

/// The number in the name of a revision of a Release in a cluster; `None` for the name of another
/// revision.
pub fn number_of(name: &str, release: &str, cluster: &str) -> Option<i64> {
    let number = name.rsplit_once('-')?.1.parse().ok()?;
    (revision_name(release, cluster, number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_number_of_a_revision_is_read_from_its_name() {
        let long = "c".repeat(253);
        for cluster in ["eu", "eu-1", &long] {
            let name = revision_name("web-1f-0", cluster, 7);
            assert_eq!(number_of(&name, "web-1f-0", cluster), Some(7));
            assert_eq!(number_of(&name, "web-1f-1", cluster), None);
        }
        assert_eq!(number_of("web-1f-0-eu-07", "web-1f-0", "eu"), None);
        assert_eq!(number_of("web", "web", "eu"), None);
    }
}
