//! The chains of revisions that install Releases: one chain for each application and cluster.

use baton_engine::chain_names::{
    self, NoNextNumber, begin, next_in_chain, next_number, short_hash,
};

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

/// The place of a new revision in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the revision.
    pub number: i64,
    /// Names of the previous revisions that do not exist yet.
    pub reserved: Vec<String>,
}

/// The place at the end of a chain in a cluster.
///
/// `revisions` are the names and numbers of the existing ones. `earlier` are the older Releases that
/// are installed in the cluster and have no revision, the oldest first. Shipper has installed such
/// Releases. Each of them has its number in advance, so that the Releases of an application are in
/// their order, whichever is looked at first.
///
/// # Errors
/// If no number is left. Names the revision with the highest number.
pub fn place_at_end<'a>(
    revisions: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    earlier: &[&str],
    cluster: &str,
) -> Result<Place, NoNextNumber> {
    let mut number = next_in_chain(revisions)?;
    let mut reserved = Vec::with_capacity(earlier.len());
    for release in earlier {
        let name = revision_name(release, cluster, number);
        number = next_number([(&name, Some(number))])?;
        reserved.push(name);
    }
    Ok(Place { number, reserved })
}

#[cfg(test)]
mod tests {
    use baton_apis::limits;

    use super::*;

    #[test]
    fn releases_without_revisions_have_their_numbers_in_advance() {
        let place = |revisions: &[(&str, i64)], earlier: &[&str]| {
            let revisions = revisions
                .iter()
                .map(|(name, number)| (*name, Some(*number)));
            let place = place_at_end(revisions, earlier, "eu").map_err(|no| no.name)?;
            Ok::<_, String>((place.number, place.reserved.join(" ")))
        };
        assert_eq!(place(&[], &[]), Ok((1, String::new())));
        assert_eq!(place(&[("a", 4), ("b", 2)], &[]), Ok((5, String::new())));
        assert_eq!(place(&[], &["x", "y"]), Ok((3, "x-eu-1 y-eu-2".to_owned())));
        assert_eq!(place(&[("a", 7)], &["x"]), Ok((9, "x-eu-8".to_owned())));
        for number in [limits::NUMBER, i64::MAX] {
            assert_eq!(place(&[("a", number)], &[]), Err("a".to_owned()));
        }
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
