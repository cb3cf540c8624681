use proptest::prelude::*;

use super::*;

fn found<'a>(constraint: &str, versions: &[&'a str]) -> Option<&'a str> {
    highest(constraint, versions).unwrap_or_else(|error| panic!("{constraint}: {error}"))
}

#[test]
fn the_highest_version_in_the_range_is_found() {
    let index = ["0.0.1", "0.0.3", "0.0.2"];
    for (constraint, expected) in [
        ("=0.0.1", "0.0.1"),
        (">=0.0.1", "0.0.3"),
        (">0.0.1", "0.0.3"),
        ("<=0.0.2", "0.0.2"),
        ("", "0.0.3"),
        (" ", "0.0.3"),
        ("*", "0.0.3"),
    ] {
        assert_eq!(found(constraint, &index), Some(expected), "{constraint}");
    }
    assert_eq!(found(">0.0.3", &index), None);
    assert_eq!(found("1", &[]), None);
}

/// Each row: range, versions in the range, versions outside.
#[test]
fn ranges_contain_the_same_versions_as_in_the_go_library() {
    for (constraint, inside, outside) in [
        // A single number stands for all its versions, two numbers for the patch 0.
        ("1", "1.0.0 1.9.9", "0.9.0 2.0.0"),
        ("1.2", "1.2.0", "1.2.1 1.1.9"),
        ("=1.2", "1.2.0", "1.2.1"),
        ("1.2.3", "1.2.3 v1.2.3 1.2.3+a", "1.2.4 1.2.3-a"),
        ("v1.2.3", "1.2.3", "1.2.4"),
        ("1.x", "1.0.0 1.9.9", "2.0.0"),
        ("1.2.x", "1.2.0 1.2.9", "1.3.0"),
        ("1.X.3", "1.0.0 1.9.9", "2.0.0"),
        ("*", "0.0.0 9.9.9", "1.0.0-a"),
        ("x", "0.0.0 9.9.9", "1.0.0-a"),
        // Tildes.
        ("~1", "1.0.0 1.9.9", "2.0.0"),
        ("~1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"),
        ("~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("~>1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"),
        ("~ 1.2.x", "1.2.0 1.2.9", "1.3.0"),
        ("~*", "0.0.0 9.9.9", "1.0.0-a"),
        ("~0.0.0", "0.0.0 0.0.1 9.9.9", "1.0.0-a"),
        ("~0.0", "0.0.0 9.9.9", "1.0.0-a"),
        ("~0.0.x", "0.0.0 0.0.9", "0.1.0"),
        ("~0", "0.0.0 0.9.0", "1.0.0"),
        ("~0.0.1", "0.0.1 0.0.9", "0.1.0"),
        // Carets do not treat zero differently.
        ("^1.2.3", "1.2.3 1.9.9", "1.2.2 2.0.0"),
        ("^0.2.3", "0.2.3 0.9.9", "0.2.2 1.0.0"),
        ("^0.0.3", "0.0.3 0.9.9", "0.0.2 1.0.0"),
        ("^1", "1.0.0 1.9.9", "2.0.0"),
        ("^1.x", "1.0.0 1.9.9", "2.0.0"),
        ("^*", "0.0.0 9.9.9", "1.0.0-a"),
        // Comparisons with wildcards.
        ("<1.x", "0.9.9 1.0.0 1.9.9", "2.0.0"),
        ("<=1.x", "0.9.9 1.0.0 1.9.9", "2.0.0"),
        ("<1", "0.9.9 1.9.9", "2.0.0"),
        ("<1.2.x", "1.2.9 0.9.9", "1.3.0"),
        ("<=*", "0.0.0 9.9.9", "1.0.0-a"),
        (">1.x", "1.0.1 2.0.0", "1.0.0"),
        (">=1.x", "1.0.0 2.0.0", "0.9.9"),
        ("!=1.x", "0.9.9 2.0.0", "1.0.0 1.9.9"),
        ("!=1.2.x", "1.1.0 1.3.0", "1.2.0 1.2.9"),
        // Comparisons.
        ("<1.2", "1.1.9", "1.2.0"),
        ("<=1.2", "1.2.0", "1.2.1"),
        ("=<1.2.3", "1.2.3", "1.2.4"),
        ("=>1.2.3", "1.2.3", "1.2.2"),
        ("!=1.2.3", "1.2.2 2.0.0", "1.2.3 1.2.3+a 2.0.0-a"),
        // Pre-releases, only if the range has one itself.
        (">=1.0.0", "1.0.0", "1.0.1-a"),
        (">=1.0.0-a", "1.0.0-a 1.0.0-b 1.0.1-a 2.0.0", "0.9.9"),
        ("~1.2.3-a", "1.2.3-a 1.2.3 1.2.4-b", "1.3.0 1.2.3-0"),
        ("^1.2.3-a", "1.2.3-a 1.9.0-b", "2.0.0 2.0.0-a"),
        ("1.2.3-a", "1.2.3-a", "1.2.3 1.2.3-b"),
        ("1.2.x-a", "1.2.0-a 1.2.9", "1.3.0"),
        ("<1.0.0-10", "1.0.0-9 0.9.0", "1.0.0-10 1.0.0-a 1.0.0"),
        ("!=1.0.0-a", "1.0.0-b 1.0.0", "1.0.0-a"),
        // A range from zero contains everything except zero itself.
        (">=0.0.0", "0.0.0 1.0.0 0.0.0-a 1.0.0-a", ""),
        (">0.0.0", "1.0.0 0.0.0-a 1.0.0-a", "0.0.0"),
        (">=0", "0.0.0 1.0.0-a", ""),
        (">*", "1.0.0-a", "0.0.0"),
        (">0.0.0-a", "0.0.0-b 1.0.0", "0.0.0-a 0.0.0-0"),
        // Conjunctions and alternatives.
        (">=1.0, <2.0", "1.0.0 1.9.9", "0.9.9 2.0.0"),
        (">=1.0,<2.0, !=1.5.0", "1.4.0", "1.5.0"),
        ("1.x || >=3.0", "1.5.0 3.0.0", "2.0.0"),
        (
            "<1.0 || >2.0, <3.0||5",
            "0.5.0 2.5.0 5.5.0",
            "1.5.0 3.0.0 4.0.0",
        ),
        // Ranges with a hyphen.
        ("1.2 - 4.5", "1.2.0 4.5.0", "1.1.9 4.5.1 2.0.0-a"),
        ("1.2.3 - 4.5.6", "1.2.3 4.5.6", "1.2.2 4.5.7"),
        ("1.2.3-4.5.6", "1.2.3 4.5.6", "1.2.2 4.5.7"),
        ("1.2-4.5", "1.2.0 4.5.0", "1.1.9 4.5.1"),
        ("v1.2-v4.5", "1.2.0 4.5.0", "1.1.9 4.5.1"),
        ("1-2", "1.0.0 2.9.9", "0.9.9 3.0.0"),
        ("1.0 - 2.x", "1.0.0 2.9.9", "0.9.9 3.0.0"),
        // Each end counts for itself: the upper one has no pre-release.
        ("1.0.0-a - 2.0.0", "1.0.0 2.0.0", "1.0.0-a 2.0.1"),
        ("1.0.0-a-2.0.0-b", "1.0.0-a 2.0.0-b", "2.0.0 0.9.0"),
        ("1.0-2.0 || 3.0 - 4.0", "1.5.0 3.5.0", "2.5.0"),
        ("1.0-3.0, !=2.0.0", "1.5.0", "2.0.0 3.5.0"),
        ("1.2.3-rc1", "1.2.3-rc1", "1.2.3"),
        ("1.2.3-x", "1.2.3-x", "1.2.3"),
    ] {
        for (versions, expected) in [(inside, true), (outside, false)] {
            for version in versions.split_whitespace() {
                let is_in = found(constraint, &[version]).is_some();
                assert_eq!(is_in, expected, "{version} in {constraint}");
            }
        }
    }
}

#[test]
fn a_hyphen_is_a_range_unless_the_index_has_that_pre_release() {
    let index = ["1.2.3", "2.0.0", "4.5.6"];
    assert_eq!(found("1.2.3-4.5.6", &index), Some("4.5.6"));
    assert_eq!(found("1.2.3-4.5.6, <3.0", &index), Some("2.0.0"));
    let index = ["1.2.3", "2.0.0", "4.5.6", "1.2.3-4.5.6"];
    assert_eq!(found("1.2.3-4.5.6", &index), Some("1.2.3-4.5.6"));
    assert_eq!(found("v1.2.3-4.5.6", &index), Some("1.2.3-4.5.6"));
    assert_eq!(found("1.2.3-4.5.6 || 1.2.3", &index), Some("1.2.3"));
    // With spaces, the hyphen is always a range.
    assert_eq!(found("1.2.3 - 4.5.6", &index), Some("4.5.6"));
}

#[test]
fn entries_are_found_as_they_are_written() {
    let index = [
        "latest",
        "",
        "v1.1.0",
        "1.2",
        "1.02.3-01",
        "1.0.0.0",
        "99999999999999999999.0.0",
        "*",
        "2.x",
    ];
    assert_eq!(found("*", &index), Some("1.2"));
    assert_eq!(found("1.2.0", &index), Some("1.2"));
    assert_eq!(found("<1.2", &index), Some("v1.1.0"));
    assert_eq!(found("~1.1", &index), Some("v1.1.0"));
    // Of two spellings, the first one is returned, so that the same index always gives the same result.
    assert_eq!(found("1.x", &["v1.0.0", "1.0.0", "1.0"]), Some("v1.0.0"));
}

#[test]
fn a_pinned_version_is_the_entry_with_the_same_build_metadata() {
    let index = ["1.0.0+a", "1.0.0+b", "1.0.0+c"];
    assert_eq!(found("1.0.0+b", &index), Some("1.0.0+b"));
    assert_eq!(found("1.0.0", &index), Some("1.0.0+c"));
    assert_eq!(found("1.0.0+d", &index), Some("1.0.0+c"));
}

#[test]
fn an_invalid_range_is_quoted_in_the_error() {
    for (constraint, named) in [
        ("latest", "latest"),
        (">=1.0, latest", " latest"),
        (">=1.0,", ""),
        ("||", ""),
        ("1.2.3.4", "1.2.3.4"),
        ("1..2", "1..2"),
        ("1.", "1."),
        ("1.2.3-", "1.2.3-"),
        ("1.2.3+", "1.2.3+"),
        ("1x", "1x"),
        (">> 1", ">> 1"),
        (">=1.0 - 2.0", ">=1.0 - 2.0"),
        (">=1.0 <2.0", ">=1.0 <2.0"),
        ("1.2.3-é", "1.2.3-é"),
        ("99999999999999999999", "99999999999999999999"),
    ] {
        let error = highest(constraint, &["1.0.0"]).unwrap_err();
        assert_eq!(error, ImproperConstraint(named.into()), "{constraint}");
    }
    let error = highest("a b", &[]).unwrap_err();
    assert_eq!(error.to_string(), "improper constraint: a b");
}

proptest! {
    #[test]
    fn any_text_is_a_range_or_an_error(text in "[-+.,|<>=!~^*xv0-9a é]{0,24}") {
        let _ = highest(&text, &["1.0.0", "1.2.3-4.5.6"]);
    }

    /// The highest version is the same for any order of the index.
    #[test]
    fn the_order_of_the_index_does_not_matter(
        (index, shuffled) in prop::collection::vec((0_u64..3, 0_u64..3, 0_u64..3), 0..8)
            .prop_flat_map(|index| (Just(index.clone()), Just(index).prop_shuffle())),
        constraint in "[<>~^=]?[0-2](\\.[0-2x]){0,2}",
    ) {
        let text = |index: &[(u64, u64, u64)]| -> Vec<String> {
            index.iter().map(|(a, b, c)| format!("{a}.{b}.{c}")).collect()
        };
        let (index, shuffled) = (text(&index), text(&shuffled));
        let index: Vec<&str> = index.iter().map(String::as_str).collect();
        let shuffled: Vec<&str> = shuffled.iter().map(String::as_str).collect();
        prop_assert_eq!(found(&constraint, &index), found(&constraint, &shuffled));
    }

    /// Of each pair of opposite operators, exactly one matches.
    #[test]
    fn exactly_one_of_two_opposite_operators_matches(
        version in "[0-2]\\.[0-2]\\.[0-2]",
        bound in "[0-2]\\.[0-2]\\.[0-2]",
    ) {
        let holds = |operator: &str| {
            found(&format!("{operator}{bound}"), &[version.as_str()]).is_some()
        };
        prop_assert_ne!(holds("="), holds("!="));
        prop_assert_ne!(holds("<"), holds(">="));
        prop_assert_ne!(holds(">"), holds("<="));
    }
}
