//! Versions that may be skipped in a queue.

use semver::Version;

/// True if a waiting version may be skipped because `later` waits behind it: both are semantic
/// versions with the same major and minor number.
///
/// The order in the queue counts, not that of the numbers: after a change from `1.2.4` back to
/// `1.2.3`, a site that has not begun `1.2.4` gets `1.2.3` at once. So pre-releases and build
/// metadata do not matter either: `1.3.0-rc.1` may be skipped for `1.3.0`, while `1.2.9` may not be
/// skipped for `1.3.0-rc.1`. A leading `v`, as in `v1.2.3`, is ignored.
///
/// A text that is not a semantic version, such as `1.2` or `2024-05`, is never skipped, and nothing
/// is skipped for it.
pub fn may_skip(queued: &str, later: &str) -> bool {
    match (parse(queued), parse(later)) {
        (Some(queued), Some(later)) => (queued.major, queued.minor) == (later.major, later.minor),
        _ => false,
    }
}

fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_same_major_and_minor_number_are_skipped() {
        for (queued, later, expected) in [
            ("1.2.1", "1.2.4", true),
            ("1.2.1", "1.3.0", false),
            ("1.2.1", "2.2.1", false),
            ("0.0.1", "0.0.2", true),
            // The order of the queue counts.
            ("1.2.4", "1.2.3", true),
            ("1.3.0", "1.2.9", false),
            // The same version is requested again.
            ("1.2.3", "1.2.3", true),
            // A leading `v` is ignored.
            ("v1.2.1", "v1.2.4", true),
            ("v1.2.1", "1.2.4", true),
            ("vv1.2.1", "1.2.4", false),
            ("V1.2.1", "1.2.4", false),
            // Pre-releases and builds belong to their version.
            ("1.3.0-rc.1", "1.3.0", true),
            ("1.3.0-rc.1", "1.3.0-rc.2", true),
            ("1.2.9", "1.3.0-rc.1", false),
            ("1.2.3", "1.2.4-rc.1", true),
            ("1.2.3+build.7", "1.2.4", true),
        ] {
            assert_eq!(may_skip(queued, later), expected, "{queued} before {later}");
        }
    }

    #[test]
    fn only_semantic_versions_are_skipped_or_cause_a_skip() {
        for text in [
            "",
            "v",
            "1",
            "1.2",
            "1.2.3.4",
            "01.2.3",
            "1.2.x",
            "latest",
            "2024-05",
            "1.2.3-",
            " 1.2.3",
            "1.2.3 ",
            "99999999999999999999.2.3",
        ] {
            assert!(!may_skip(text, "1.2.4"), "{text:?}");
            assert!(!may_skip("1.2.4", text), "{text:?}");
            assert!(!may_skip(text, text), "{text:?}");
        }
    }
}
