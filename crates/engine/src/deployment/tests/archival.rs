//! Archival, and the pause before it, by the state of the chain.

use super::*;
use crate::deployment::archival::wanted_contents;

#[test]
fn an_available_revision_archives_all_older_ones_in_two_steps() {
    check(
        &["available succeeded +a", "available succeeded +a"],
        "pause web-1",
    );
    check(
        &[
            "paused",
            "failing pausing",
            "archived",
            "available succeeded +a",
        ],
        "archive web-1",
    );
    check(&["paused stale", "available +a"], "");
    check(&["archiving", "available +a"], "");
}

#[test]
fn only_a_current_report_with_full_control_counts_as_available() {
    check(&["available +b", "available stale +a"], "");
    check(&["available +b", "available transition a"], "");
    check(
        &["available +b", "available transition succeeded +a c"],
        "pause web-1",
    );
    check(&["available +b", "available transition succeeded a"], "");
}

/// The second revision worked, but a failing one has taken its objects: only the first one is
/// certain to work.
#[test]
fn a_revision_without_objects_left_archives_no_older_ones() {
    let second = "available succeeded transition d";
    check(&["available succeeded paused +c", second, "failing +d"], "");
    // A revision that still controls an object, or never contained any, supersedes the older ones.
    let some = "available succeeded transition +d e";
    let first = "available succeeded paused +c";
    check(&[first, some, "failing +e"], "archive web-1");
    check(
        &[first, "available succeeded", "failing +e"],
        "archive web-1",
    );
}

#[test]
fn failed_intermediates_with_nothing_in_common_are_archived() {
    // The failed intermediate revision has handed the configuration on, and no newer revision
    // contains its workload.
    check(
        &[
            "available succeeded transition c +w1",
            "failing transition c +w2",
            "failing +c +w3",
        ],
        "pause web-2",
    );
    // Some object is still to be handed over.
    check(
        &["available succeeded +w1", "failing +c +w2", "failing c +w3"],
        "",
    );
    // An available intermediate revision stays until the newest one is available.
    check(
        &[
            "available succeeded +w1",
            "available succeeded +w2",
            "failing +w3",
        ],
        "pause web-1",
    );
}

#[test]
fn objects_in_any_newer_live_revision_prevent_archival() {
    // Revision 3, and not 2, contains the object of revision 1, and has not reached it yet.
    check(&["failing +a", "failing +b", "failing a b +c"], "");
    // Archived revisions do not count.
    check(&["failing +a", "archived a", "failing +c"], "pause web-1");
    // A slice is missing, so the content of the newest revision is unknown.
    let mut snapshot = chain(&["failing +a", "failing +c"]);
    snapshot.contents.clear();
    assert_eq!(list(&snapshot.actions()), "");
}

#[test]
fn a_revision_is_archived_only_if_it_reports_that_it_controls_nothing() {
    check(&["failing succeeded a", "failing +a"], "pause web-1");
    check(&["failing a", "failing +a"], "pause web-1");
    check(&["a", "failing +a"], "");
    check(&["failing stale a", "failing +a"], "");
    check(&["failing foreign a", "failing +a"], "");
}

#[test]
fn the_newest_successful_revision_stays_while_it_controls_objects() {
    check(&["failing succeeded +a", "failing +b"], "");
    check(
        &["failing succeeded +a", "failing succeeded +b", "failing +c"],
        "pause web-1",
    );
}

#[test]
fn contents_are_read_only_where_they_affect_archival() {
    let wanted = |traits: &[&str]| wanted_contents(&chain(traits)).join(" ");
    assert_eq!(wanted(&["available succeeded", "available succeeded"]), "");
    assert_eq!(wanted(&["archived", "failing"]), "");
    assert_eq!(wanted(&["available", "failing"]), "");
    assert_eq!(wanted(&["failing", "failing", "failing"]), "web-3 web-2");
    assert_eq!(
        wanted(&["available", "failing", "archived", "failing"]),
        "web-4"
    );
}
