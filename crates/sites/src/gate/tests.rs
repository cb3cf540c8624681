//! The beginning of phases, by table.

use baton_apis::{ObjectSetPhaseStatus, UpgradeWindow};

use super::*;
use crate::terms::{OwnerTerms, StartObstacle};

/// Noon.
const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() - seconds).unwrap()
}

/// Revisions of two phases each, the oldest first, as `version state state marks`. Each is of a
/// rollout of its own, unless the mark `again` makes it another one with the content of the first
/// revision of this version.
///
/// States: `-` not begun, `bad` refused before it began, `skip` skipped, `stop` waits for others to
/// stop, `run` begun a minute ago, `ok` available, `no` refused, `still` stopped for the last
/// revision. Marks: `edit`, `rollback`, `leaving`, `other` for another application, `all` and `svc`
/// for the workloads to stop.
fn chain(lines: &[&str]) -> Vec<ActiveRevision> {
    let mut chain: Vec<ActiveRevision> = (1..)
        .zip(lines)
        .map(|(number, line)| {
            let words: Vec<_> = line.split(' ').collect();
            let has = |mark: &str| words[3..].contains(&mark);
            let stop = match (has("all"), has("svc")) {
                (true, _) => SiteStop::All,
                (_, true) => SiteStop::Services(vec![format!("s{number}")]),
                _ => SiteStop::None,
            };
            let first = lines.iter().position(|it| it.starts_with(words[0]));
            let first = i64::try_from(first.unwrap() + 1).unwrap();
            let content = if has("again") { first } else { number };
            ActiveRevision {
                uid: format!("u{number}").into(),
                name: format!("v{number}").into(),
                number,
                entry: SiteEntry {
                    application: if has("other") { "bank" } else { "shop" }.to_owned(),
                    site: "edge".to_owned(),
                    version: words[0].to_owned(),
                    edit: content.to_string(),
                    rollout: if has("edit") { first } else { content },
                    phases: vec!["a".to_owned(), "b".to_owned()],
                    is_edit: has("edit"),
                    is_rollback: has("rollback"),
                    stop,
                    ..SiteEntry::default()
                },
                phases: words[1..3].iter().map(|word| state(word)).collect(),
                is_leaving: has("leaving"),
            }
        })
        .collect();
    let newest = chain.last().unwrap().uid.to_string();
    let states = chain.iter_mut().flat_map(|member| &mut member.phases);
    for state in states.filter(|state| state.stopped_for.is_some()) {
        state.stopped_for = Some(newest.clone());
    }
    chain
}

fn state(word: &str) -> PhaseState {
    let since = seconds_ago(60);
    PhaseState {
        begun: match word {
            "-" | "bad" => PhaseStart::Not,
            "skip" => PhaseStart::Skipped,
            "stop" => PhaseStart::Stopping(since),
            _ => PhaseStart::Yes(since),
        },
        is_available: word == "ok",
        is_refused: matches!(word, "no" | "bad"),
        stopped_for: (word == "still").then(String::new),
    }
}

fn windows(cron: &str) -> Vec<UpgradeWindow> {
    let window = |cron: &str| UpgradeWindow {
        cron: cron.to_owned(),
        duration: "1h".to_owned(),
        time_zone: None,
    };
    cron.split('|')
        .filter(|cron| !cron.is_empty())
        .map(window)
        .collect()
}

fn said(decision: Decision) -> String {
    match decision {
        Decision::Start => "start".to_owned(),
        Decision::StopFirst { message } => format!("stop: {message}"),
        Decision::Wait {
            message,
            until: None,
        } => format!("wait: {message}"),
        Decision::Wait {
            message,
            until: Some(until),
        } => format!("wait until {until}: {message}"),
        Decision::Skip { message } => format!("skip: {message}"),
    }
}

#[track_caller]
fn check(lines: &[&str], phase: usize, terms: &Terms, expected: &str) {
    let chain = chain(lines);
    let own = chain.len() - 1;
    check_at(&chain, own, phase, terms, expected);
}

#[track_caller]
fn check_at(chain: &[ActiveRevision], own: usize, phase: usize, terms: &Terms, expected: &str) {
    let question = Question {
        chain,
        own,
        phase,
        uptime: Uptime::since(seconds_ago(3600)),
    };
    let said = said(question.decide(terms, now()));
    assert!(said.starts_with(expected), "{said}, not {expected}");
}

#[test]
fn a_revision_waits_until_the_one_before_is_available() {
    let terms = Terms::default();
    for (lines, phase, expected) in [
        (&["1.0.0 - -"][..], 0, "start"),
        (&["1.0.0 ok -"], 1, "start"),
        (&["1.0.0 run -"], 1, r#"wait: Waits for phase "a"."#),
        (&["1.0.0 ok ok", "1.1.0 - -"], 0, "start"),
        (
            &["1.0.0 ok run", "1.1.0 - -"],
            0,
            "wait: Waits for version 1.0.0 (v1), which is not available yet.",
        ),
        (
            &["1.0.0 ok -", "1.1.0 - -"],
            0,
            "wait: Waits for version 1.0.0 (v1), which is not available yet.",
        ),
        (
            &["1.0.0 - -", "1.1.0 - -"],
            0,
            "wait: Waits for version 1.0.0 (v1), which has not begun.",
        ),
        // A revision whose objects were taken over need not stay available.
        (&["1.0.0 run run", "1.1.0 ok ok", "1.2.0 - -"], 0, "start"),
        (
            &["1.0.0 ok ok", "1.1.0 - -", "1.2.0 - -"],
            0,
            "wait: Waits for version 1.1.0 (v2)",
        ),
        // Revisions that leave or were skipped do not hold the next one.
        (
            &["1.0.0 ok ok", "1.1.0 - - leaving", "1.2.0 - -"],
            0,
            "start",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 run - leaving", "1.2.0 - -"],
            0,
            "start",
        ),
        (&["1.0.0 ok ok", "1.1.0 skip skip", "1.2.0 - -"], 0, "start"),
        // An edit or rollback does not wait for the revision that it corrects.
        (&["1.0.0 run -", "1.0.0 - - edit"], 0, "start"),
        (
            &["1.0.0 ok ok", "1.1.0 run -", "1.0.0 - - rollback"],
            0,
            "start",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 - -", "1.0.0 - - edit"],
            0,
            "wait: Waits for version 1.1.0 (v2), which has not begun.",
        ),
    ] {
        check(lines, phase, &terms, expected);
    }
}

/// A manager gives waiting revisions again behind an edit, and may end before it has withdrawn them.
#[test]
fn a_revision_that_was_overtaken_does_not_begin() {
    let terms = Terms::default();
    let queue = |second: &'static str, third: &'static str| {
        let [again, third_again] = ["1.1.0 - - again", "1.2.0 - - again"];
        [
            "1.0.0 ok ok",
            second,
            third,
            "1.0.0 - - edit",
            again,
            third_again,
        ]
    };
    let waits = |number: usize| format!("wait: Waits for version 1.{number}.0");
    for (second, third, expected) in [
        // The revisions run in their old order, as long as they are not withdrawn.
        ("1.1.0 - -", "1.2.0 - -", ["start", &waits(1), &waits(2)]),
        (
            "1.1.0 ok ok",
            "1.2.0 - -",
            ["", "start", "wait: Does not begin: version 1.1.0 (v2)"],
        ),
        (
            "1.1.0 ok ok",
            "1.2.0 ok ok",
            [
                "",
                "",
                "wait: Does not begin: version 1.2.0 (v3), which has begun, has",
            ],
        ),
        // The edit comes first if they are withdrawn.
        ("1.1.0 - - leaving", "1.2.0 - - leaving", ["", "", "start"]),
    ] {
        let chain = chain(&queue(second, third));
        for (own, expected) in (1..).zip(expected) {
            check_at(&chain, own, 0, &terms, expected);
        }
    }
    for (lines, expected) in [
        (
            &["1.0.0 ok ok", "1.0.0 - - again"][..],
            "wait: Does not begin",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 ok ok", "1.0.0 - - again"],
            "wait: Does not begin",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 ok ok", "1.0.0 - - edit"],
            "wait: Does not begin",
        ),
        // Another rollout brings the version back.
        (&["1.0.0 ok ok", "1.1.0 ok ok", "1.0.0 - -"], "start"),
    ] {
        check(lines, 0, &terms, expected);
    }
    // A revision is not skipped for itself.
    let mut skips = Terms::default();
    skips.owner.skip_patch_versions = true;
    let chain = chain(&[
        "1.0.0 ok ok",
        "1.0.1 - -",
        "1.1.0 - -",
        "1.0.0 - - edit",
        "1.0.1 - - again",
    ]);
    check_at(&chain, 1, 0, &skips, "start");
}

/// There is no wait for a deadline, because a refused revision does not become available by itself.
#[test]
fn a_refused_revision_does_not_block_the_next_one() {
    let terms = Terms::default();
    check(
        &["1.0.0 ok ok", "1.1.0 no -", "1.2.0 - -"],
        0,
        &terms,
        "start",
    );
    check(
        &["1.0.0 ok ok", "1.1.0 ok no", "1.2.0 - -"],
        0,
        &terms,
        "start",
    );
    check(&["1.0.0 ok ok", "1.1.0 ok no"], 1, &terms, "start");
}

/// The refused revision never wrote anything, so the next one follows the one that runs.
#[test]
fn a_revision_refused_before_it_starts_does_not_block_the_next_one() {
    let terms = Terms::default();
    for (lines, expected) in [
        (&["1.0.0 ok ok", "1.1.0 bad -", "1.2.0 - -"][..], "start"),
        (&["1.0.0 ok ok", "1.0.0 bad - edit", "1.1.0 - -"], "start"),
        (&["1.0.0 bad -", "1.1.0 - -"], "start"),
        (
            &["1.0.0 run -", "1.1.0 bad -", "1.2.0 - -"],
            "wait: Waits for version 1.0.0 (v1), which is not available yet.",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 - -", "1.2.0 bad -", "1.3.0 - -"],
            "wait: Waits for version 1.1.0 (v2), which has not begun.",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 bad -", "1.2.0 - - all"],
            "stop: Waits until the workloads have stopped: phase \"a\" of version 1.0.0 (v1)",
        ),
    ] {
        check(lines, 0, &terms, expected);
    }
    // The refused revision does not begin after the next one has begun.
    let chain = chain(&["1.0.0 ok ok", "1.1.0 bad -", "1.2.0 run -"]);
    check_at(
        &chain,
        1,
        0,
        &terms,
        "wait: Does not begin: version 1.2.0 (v3)",
    );
}

/// While a site is offline, none of its revisions can become available.
#[test]
fn time_offline_does_not_count_towards_the_deadline_in_the_queue() {
    let chain = chain(&["1.0.0 ok ok", "1.1.0 run -", "1.2.0 - -"]);
    let terms = Terms {
        owner: OwnerTerms {
            progress_deadline: Some(30),
            ..OwnerTerms::default()
        },
        ..Terms::default()
    };
    for (in_touch, expected) in [
        (0, "wait until 2026-01-01T12:00:31Z"),
        (29, "wait until 2026-01-01T12:00:02Z"),
        (31, "start"),
        (3600, "start"),
    ] {
        let question = Question {
            chain: &chain,
            own: 2,
            phase: 0,
            uptime: Uptime::since(seconds_ago(in_touch)),
        };
        let said = said(question.decide(&terms, now()));
        assert!(said.starts_with(expected), "{said}, not {expected}");
    }
}

#[test]
fn a_failed_revision_does_not_block_the_next_one() {
    let lines = ["1.0.0 ok ok", "1.1.0 run -", "1.2.0 - -"];
    for (deadline, expected) in [
        (None, "wait: Waits for version 1.1.0"),
        (
            Some(61),
            "wait until 2026-01-01T12:00:02Z: Waits for version 1.1.0",
        ),
        (Some(59), "start"),
    ] {
        let owner = OwnerTerms {
            progress_deadline: deadline,
            ..OwnerTerms::default()
        };
        let terms = Terms {
            owner,
            ..Terms::default()
        };
        check(&lines, 0, &terms, expected);
    }
}

#[test]
fn no_older_revision_starts_after_a_newer_one() {
    let terms = Terms::default();
    let chain = chain(&["1.0.0 run -", "1.1.0 - -", "1.0.0 run - rollback"]);
    check_at(&chain, 0, 0, &terms, "start");
    check_at(
        &chain,
        0,
        1,
        &terms,
        "wait: Does not begin: version 1.0.0 (v3) has begun already.",
    );
    check_at(
        &chain,
        1,
        0,
        &terms,
        "wait: Does not begin: version 1.0.0 (v3) has begun already.",
    );
}

#[test]
fn upgrades_begin_while_the_windows_of_owner_and_site_are_open() {
    let two = ["1.0.0 ok ok", "1.1.0 - -"];
    let (open, closed) = ("30 11 * * *", "0 14 * * *");
    let opens = |closed: &str| {
        let at = "2026-01-01T14:00:00Z";
        format!(
            "wait until {at}: Waits for its upgrade window, which opens at {at}; the windows of {closed} are closed \
             now."
        )
    };
    let (of_owner, of_site) = (
        &*opens("SiteApplication \"shop\""),
        &*opens("Cluster \"edge\""),
    );
    let of_both = &*opens("SiteApplication \"shop\" and Cluster \"edge\"");
    for (owner, site, expected) in [
        ("", "", "start"),
        (open, "", "start"),
        ("", open, "start"),
        (open, open, "start"),
        (closed, "", of_owner),
        ("", closed, of_site),
        (closed, closed, of_both),
        (open, "0 14 * * *", "wait until"),
        (closed, open, "wait until"),
        ("30 11 * * *|0 14 * * *", closed, of_site),
        // The windows are never open together.
        (
            "0 1 * * *",
            "0 3 * * *",
            "wait until 2026-01-02T12:00:00Z: Waits for upgrade windows",
        ),
        // An invalid window holds the upgrade, and is named.
        (
            "soon",
            "",
            r#"wait: No upgrade begins before SiteApplication "shop" is corrected: upgradeWindows[0] ("soon""#,
        ),
        (
            "",
            "0 0 30 2 *",
            r#"wait: No upgrade begins before Cluster "edge" is corrected: upgradeWindows[0]"#,
        ),
    ] {
        let mut terms = Terms {
            site_windows: windows(site),
            ..Terms::default()
        };
        terms.owner.windows = windows(owner);
        check(&two, 0, &terms, expected);
        // Windows do not apply to the first installation, the end of an upgrade that has begun, and
        // an edit.
        for (lines, phase) in [
            (&["1.0.0 - -"][..], 0),
            (&["1.0.0 skip skip", "1.0.1 - -"], 0),
            (&["1.0.0 ok ok leaving", "1.0.1 - -"], 0),
            (&["1.0.0 ok ok", "1.1.0 run -"], 0),
            (&["1.0.0 ok ok", "1.1.0 ok -"], 1),
            (&["1.0.0 ok ok", "1.0.0 - - edit"], 0),
            (&["1.0.0 ok ok", "1.1.0 run -", "1.0.0 - - rollback"], 0),
        ] {
            check(lines, phase, &terms, "start");
        }
        terms.owner.windows_apply_to_edits = true;
        check(&["1.0.0 ok ok", "1.0.0 - - edit"], 0, &terms, expected);
    }
}

#[test]
fn upgrades_wait_while_the_windows_of_the_owner_are_unknown() {
    let mut terms = Terms::default();
    terms.owner.is_gone = true;
    let gone = r#"wait: Waits for SiteApplication "shop", which does not exist"#;
    for (lines, expected) in [
        (&["1.0.0 ok ok", "1.1.0 - -"][..], gone),
        (&["1.0.0 ok ok", "1.0.0 - - edit"], gone),
        (&["1.0.0 - -"], "start"),
        (
            &["1.0.0 ok ok", "1.1.0 run -", "1.0.0 - - rollback"],
            "start",
        ),
    ] {
        check(lines, 0, &terms, expected);
    }
}

/// Revisions that leave are deleted one by one: none begins because the one before is gone.
#[test]
fn no_revision_of_a_deleted_deployment_starts() {
    let mut terms = Terms::default();
    let hold = "Does not begin any more: SiteDeployment \"\" is deleted.";
    let waits = format!("wait until 2026-01-01T12:00:10Z: {hold}");
    let stops = format!("stop: {hold}");
    for (lines, phase, expected) in [
        (&["1.0.0 ok ok leaving", "1.1.0 - -"][..], 0, &*waits),
        (&["1.0.0 ok ok", "1.0.0 - - edit"], 0, &waits),
        (&["1.0.0 - -"], 0, &waits),
        (&["1.0.0 ok ok leaving", "1.1.0 stop - all"], 0, &stops),
        (&["1.0.0 ok ok", "1.1.0 run -"], 0, "start"),
        (&["1.0.0 ok ok", "1.1.0 ok -"], 1, "start"),
    ] {
        terms.owner.hold = Some(StartObstacle::Leaving);
        check(lines, phase, &terms, expected);
        // An unknown hold does not end a phase that waits for others to stop.
        terms.owner.hold = Some(StartObstacle::Unknown);
        let expected = match expected {
            "start" => expected,
            _ if lines[1..].iter().any(|line| line.contains("stop")) => "start",
            _ => {
                "wait until 2026-01-01T12:00:10Z: Waits until SiteApplications and SiteDeployments"
            }
        };
        check(lines, phase, &terms, expected);
    }
}

#[test]
fn versions_are_skipped_for_later_patches_in_the_queue() {
    let mut terms = Terms::default();
    let skipping = |lines: &[&str], own: usize, terms: &Terms, expected: &str| {
        check_at(&chain(lines), own, 0, terms, expected);
    };
    let lines = ["1.2.0 ok ok", "1.2.1 - -", "1.2.2 - -", "1.3.0 - -"];
    skipping(&lines, 1, &terms, "start");
    terms.owner.skip_patch_versions = true;
    skipping(
        &lines,
        1,
        &terms,
        "skip: This version is skipped, because version 1.2.2 (v3) replaces it.",
    );
    let one_skipped = ["1.2.0 ok ok", "1.2.1 skip skip", "1.2.2 - -", "1.3.0 - -"];
    skipping(&one_skipped, 1, &terms, "skip");
    skipping(&one_skipped, 2, &terms, "start");
    for lines in [
        ["1.2.0 ok ok", "1.2.1 - -", "1.2.2 - - leaving"],
        ["1.2.0 ok ok", "1.2.1 - -", "1.2.2 skip skip"],
        ["1.2.0 ok ok", "1.2.1 - -", "2.2.2 - -"],
        ["1.2.0 ok ok", "1.2.1 - -", "next - -"],
        ["1.2.0 ok ok", "1.2.1 - -", "1.2.2 - - other"],
        ["1.2.0 ok ok", "1.2.0 - - edit", "1.2.1 - -"],
    ] {
        skipping(&lines, 1, &terms, "start");
    }
    // A version is not skipped before its turn, and not while the window is closed: until then more
    // versions may follow.
    skipping(
        &["1.2.0 run run", "1.2.1 - -", "1.2.2 - -"],
        1,
        &terms,
        "wait",
    );
    terms.site_windows = windows("0 14 * * *");
    skipping(&lines, 1, &terms, "wait");
}

#[test]
fn a_skipped_revision_stays_skipped() {
    let terms = Terms::default();
    let chain = chain(&["1.2.0 ok ok", "1.2.1 skip -"]);
    for phase in [0, 1] {
        check_at(&chain, 1, phase, &terms, "skip");
    }
}

#[test]
fn the_next_version_begins_by_stopping_the_workloads_of_the_one_before() {
    let terms = Terms::default();
    for (lines, phase, expected) in [
        (&["1.0.0 - - all"][..], 0, "start"),
        (
            &["1.0.0 ok ok", "1.1.0 - - all"],
            0,
            "stop: Waits until the workloads have stopped: phase \"a\" of version 1.0.0 (v1), phase \"b\" of",
        ),
        (&["1.0.0 ok ok", "1.1.0 stop - svc"], 0, "stop"),
        (
            &["1.0.0 still ok", "1.1.0 stop - all"],
            0,
            "stop: Waits until the workloads have stopped: phase \"b\" of version 1.0.0 (v1).",
        ),
        (&["1.0.0 still still", "1.1.0 stop - all"], 0, "start"),
        // A phase that has not begun has no workloads.
        (
            &[
                "1.0.0 still -",
                "1.0.1 stop - all",
                "1.0.0 - - rollback all",
            ],
            0,
            "start",
        ),
        // Revisions further back may have workloads, too.
        (
            &["1.0.0 ok ok", "1.1.0 still still", "1.2.0 stop - all"],
            0,
            "stop",
        ),
        (
            &[
                "1.0.0 ok ok leaving",
                "1.1.0 still still",
                "1.2.0 stop - all",
            ],
            0,
            "start",
        ),
        // Once it has taken over, nothing holds it.
        (&["1.0.0 run run", "1.1.0 run - all"], 0, "start"),
    ] {
        check(lines, phase, &terms, expected);
    }
    // A revision that waits for others to stop gives way to one that corrects the site.
    let chain = chain(&["1.0.0 ok ok", "1.1.0 stop - all", "1.0.0 run - rollback"]);
    check_at(&chain, 1, 0, &terms, "wait: Does not begin: version");
}

#[test]
fn older_revisions_stop_until_they_are_archived_or_the_newer_one_is_deleted() {
    for (lines, expected) in [
        (&["1.0.0 ok ok", "1.1.0 - - all"][..], "none"),
        (&["1.0.0 ok ok", "1.1.0 stop -"], "none"),
        (&["1.0.0 ok ok", "1.1.0 stop - all"], "All by 2"),
        (&["1.0.0 ok ok", "1.1.0 ok ok all"], "All by 2"),
        (&["1.0.0 ok ok", "1.1.0 stop - all leaving"], "none"),
        (
            &["1.0.0 ok ok", "1.1.0 ok ok svc", "1.2.0 run - svc"],
            r#"Services(["s2", "s3"]) by 3"#,
        ),
        (
            &["1.0.0 ok ok", "1.1.0 ok ok all", "1.2.0 run - svc"],
            "All by 3",
        ),
        (
            &["1.0.0 ok ok", "1.1.0 ok ok svc", "1.2.0 run -"],
            r#"Services(["s2"]) by 2"#,
        ),
    ] {
        let chain = chain(lines);
        let question = Question {
            chain: &chain,
            own: 0,
            phase: 0,
            uptime: Uptime::since(seconds_ago(3600)),
        };
        let demand = question.stop_request().map_or(
            "none".to_owned(),
            |StopRequest { stop, uid, .. }| {
                let by = chain.iter().find(|member| member.uid == uid).unwrap();
                format!("{stop:?} by {}", by.number)
            },
        );
        assert_eq!(demand, expected, "{lines:?}");
    }
}

/// The message for a deleted revision of the same name does not count for this revision.
#[test]
fn a_stop_for_a_deleted_revision_of_the_same_name_does_not_count() {
    let mut chain = chain(&["1.0.0 still still", "1.1.0 stop - all"]);
    chain[1].uid = "another".into();
    check_at(&chain, 1, 0, &Terms::default(), "stop");
}

#[test]
fn states_by_their_conditions() {
    use baton_apis::conditions::{AVAILABLE, Reason, STARTED, STOPPED};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    let condition = |type_: &str, status: &str, reason: &str, generation| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: "text".to_owned(),
        observed_generation: Some(generation),
        last_transition_time: Time(now()),
    };
    let read = |conditions: &[Condition]| {
        let status = ObjectSetPhaseStatus {
            conditions: conditions.to_vec(),
            stopped_for: Some("u9".to_owned()),
            ..ObjectSetPhaseStatus::default()
        };
        PhaseState::of(&status, 2)
    };
    for (status, reason, expected) in [
        ("True", Reason::Started, PhaseStart::Yes(now())),
        ("True", Reason::Stopping, PhaseStart::Stopping(now())),
        ("False", Reason::Skipped, PhaseStart::Skipped),
        ("False", Reason::Other, PhaseStart::Not),
    ] {
        // The result does not depend on the generation.
        let found = read(&[condition(STARTED, status, reason.as_str(), 1)]);
        assert_eq!(found.begun, expected, "{status} {reason}");
    }
    // A revision that has not begun may be refused because of its cluster, which is no error of its
    // own.
    for (started, expected) in [
        (("True", Reason::Started), true),
        (("False", Reason::PreflightError), true),
        (("False", Reason::Other), false),
    ] {
        let list = [
            condition(STARTED, started.0, started.1.as_str(), 1),
            condition(AVAILABLE, "False", Reason::CollisionDetected.as_str(), 2),
        ];
        assert_eq!(read(&list).is_refused, expected, "{started:?}");
        assert!(!read(&list[1..]).is_refused);
    }
    for (status, generation, expected) in
        [("True", 2, true), ("True", 1, false), ("False", 2, false)]
    {
        let found = read(&[condition(AVAILABLE, status, "x", generation)]);
        assert_eq!(found.is_available, expected, "{status} {generation}");
    }
    for (status, expected) in [("True", Some("u9".to_owned())), ("False", None)] {
        let found = read(&[condition(STOPPED, status, "x", 2)]);
        assert_eq!(found.stopped_for, expected);
    }
    assert_eq!(
        PhaseState::of(&ObjectSetPhaseStatus::default(), 2),
        PhaseState::default()
    );
}
