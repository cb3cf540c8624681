//! The conditions for general tools, for every state.

use jiff::Timestamp;

use super::*;

const GENERATION: i64 = 7;

/// Conditions from one line each: `Available=False PreflightError: text`, with `@6` after the
/// status if they are of an earlier generation.
fn list(lines: &[&str]) -> Conditions {
    let mut conditions = Conditions::new(&[], GENERATION, Timestamp::UNIX_EPOCH);
    for line in lines {
        let (type_, rest) = line.split_once('=').unwrap();
        let (status, rest) = rest.split_once(' ').unwrap();
        let (reason, message) = rest.split_once(": ").unwrap_or((rest, ""));
        let (status, generation) = status.split_once('@').unwrap_or((status, "7"));
        let mut old = conditions.into_list();
        conditions = Conditions::new(&old, generation.parse().unwrap(), Timestamp::UNIX_EPOCH);
        conditions.copy(type_, status, reason, message);
        old = conditions.into_list();
        conditions = Conditions::new(&old, GENERATION, Timestamp::UNIX_EPOCH);
    }
    conditions
}

fn text_of(conditions: &Conditions) -> Vec<String> {
    use baton_apis::conditions::GENERAL;
    let general = conditions.list().iter();
    general
        .filter(|condition| GENERAL.contains(&&*condition.type_))
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

#[test]
fn ready_reconciling_and_stalled_follow_the_state_of_a_revision() {
    let reconciling = |ready: &str, why: &str| {
        let both = [
            format!("Ready={ready} {why}"),
            format!("Reconciling=True {why}"),
        ];
        both.to_vec()
    };
    let stalled = |why: &str| vec![format!("Ready=False {why}"), format!("Stalled=True {why}")];
    let delay = "SuccessDelay: Available; succeeds if it stays available for its success delay.";
    for (lines, expected) in [
        (
            &["Available=False ProbeFailure: a"][..],
            reconciling("False", "ProbeFailure: a"),
        ),
        (
            &["Available=False NotInControl: a"],
            reconciling("False", "NotInControl: a"),
        ),
        (
            &["Available=Unknown ClusterUnreachable: a"],
            reconciling("Unknown", "ClusterUnreachable: a"),
        ),
        (
            &["Available=False PreflightError: a"],
            stalled("PreflightError: a"),
        ),
        (
            &["Available=False CollisionDetected: a"],
            stalled("CollisionDetected: a"),
        ),
        (
            &["Available=False WriteError: a"],
            reconciling("False", "WriteError: a"),
        ),
        (
            &["Available=False SpecChanged: a", "Succeeded=True S"],
            stalled("SpecChanged: a"),
        ),
        (
            &["Available=True Available: a"],
            reconciling("False", delay),
        ),
        (
            &["Available=True Available: a", "Succeeded=True S"],
            vec!["Ready=True Available: a".to_owned()],
        ),
        (
            &[
                "Available=False ProbeFailure: a",
                "Succeeded=True@6 S",
                "Paused=True P",
            ],
            vec!["Ready=False ProbeFailure: a".to_owned()],
        ),
        (
            &["Available=False CollisionDetected: a", "Paused=True P"],
            stalled("CollisionDetected: a"),
        ),
        (
            &["Archived=False ArchivalInProgress: a"],
            reconciling("False", "ArchivalInProgress: a"),
        ),
        (&["Archived=True Archived", "Succeeded=True S"], Vec::new()),
    ] {
        let mut conditions = list(lines);
        assert_eq!(
            set_of_revision(&mut conditions, Some(1), true),
            Some(GENERATION)
        );
        assert_eq!(text_of(&conditions), expected, "{lines:?}");
        // Earlier conditions have no effect.
        for before in [
            "Reconciling=True R: r",
            "Stalled=True R: r",
            "Ready=True R: r",
        ] {
            let mut again = list(&[&[before][..], lines].concat());
            set_of_revision(&mut again, Some(1), true);
            let mut shown = text_of(&again);
            shown.sort();
            assert_eq!(shown, expected, "{before} {lines:?}");
        }
    }
}

#[test]
fn a_phase_is_ready_when_it_is_available() {
    let mut conditions = list(&["Available=True Available: a"]);
    set_of_revision(&mut conditions, None, false);
    assert_eq!(text_of(&conditions), ["Ready=True Available: a"]);
}

#[test]
fn readiness_keeps_the_generation_of_an_outdated_report() {
    let mut conditions = list(&[
        "Available=True@6 Available: a",
        "Succeeded=True@6 S",
        "Ready=True@6 Available: a",
    ]);
    assert_eq!(set_of_revision(&mut conditions, Some(6), true), Some(6));
    let ready = conditions.get(READY).unwrap();
    assert_eq!(ready.observed_generation, Some(6));
    // The conditions of an archival have the generation with which it ended.
    let mut conditions = list(&[
        "Archived=True@6 Archived",
        "Available=False ProbeFailure: a",
    ]);
    assert_eq!(set_of_revision(&mut conditions, Some(6), true), Some(7));
    assert_eq!(conditions.get(READY).unwrap().status, "False");
}

#[test]
fn messages_of_printed_conditions_are_shortened() {
    let text = "ä".repeat(1000);
    let mut conditions = list(&[&format!("Available=False PreflightError: {text}")]);
    set_of_revision(&mut conditions, None, true);
    for type_ in [READY, STALLED] {
        assert!(conditions.get(type_).unwrap().message.len() <= MAX_MESSAGE);
    }
    assert_eq!(conditions.get(AVAILABLE).unwrap().message, text);
}

#[test]
fn ready_reconciling_and_stalled_follow_the_state_of_a_deployment() {
    let find = |line: Option<&str>| line.map(|line| list(&[line]).into_list().remove(0));
    for (progressing, stalled, available, phase, expected) in [
        (
            "True LatestRevisionPendingSuccess: p",
            None,
            Some("Available=False ProbeFailure: a"),
            "Progressing",
            &[
                "Ready=False LatestRevisionPendingSuccess: p",
                "Reconciling=True LatestRevisionPendingSuccess: p",
            ][..],
        ),
        (
            "True LatestRevisionPendingSuccess: p",
            Some("Stalled=True PreflightError: s"),
            Some("Available=False PreflightError: a"),
            "Failed",
            &[
                "Ready=False PreflightError: s",
                "Stalled=True PreflightError: s",
            ],
        ),
        (
            "False ProgressDeadlineExceeded: p",
            None,
            Some("Available=False ProbeFailure: a"),
            "Failed",
            &[
                "Ready=False ProgressDeadlineExceeded: p",
                "Stalled=True ProgressDeadlineExceeded: p",
            ],
        ),
        (
            "False ObjectSetCreateError: p",
            None,
            None,
            "Failed",
            &[
                "Ready=False ObjectSetCreateError: p",
                "Stalled=True ObjectSetCreateError: p",
            ],
        ),
        (
            "Unknown DeploymentPaused: p",
            None,
            Some("Available=False ProbeFailure: a"),
            "Progressing",
            &[
                "Ready=False DeploymentPaused: p",
                "Reconciling=True DeploymentPaused: p",
            ],
        ),
        (
            "False Idle: p",
            None,
            Some("Available=True Available: a"),
            "Ready",
            &["Ready=True Idle: p"],
        ),
        (
            "False Idle: p",
            None,
            Some("Available=False ProbeFailure: a"),
            "NotReady",
            &["Ready=False ProbeFailure: a"],
        ),
        (
            "False Idle: p",
            None,
            Some("Available=Unknown ClusterUnreachable: a"),
            "NotReady",
            &[
                "Ready=Unknown ClusterUnreachable: a",
                "Reconciling=True ClusterUnreachable: a",
            ],
        ),
        (
            "False Idle: p",
            Some("Stalled=True CollisionDetected: s"),
            Some("Available=False CollisionDetected: a"),
            "Failed",
            &[
                "Ready=False CollisionDetected: s",
                "Stalled=True CollisionDetected: s",
            ],
        ),
        (
            "False Idle: the template has no phases",
            None,
            None,
            "Ready",
            &["Ready=True Idle: the template has no phases"],
        ),
    ] {
        let mut conditions = list(&[&format!("Progressing={progressing}")]);
        let (stalled, available) = (find(stalled), find(available));
        let reported = set_of_deployment(&mut conditions, stalled.as_ref(), available.as_ref());
        assert_eq!(format!("{reported:?}"), phase, "{progressing}");
        assert_eq!(text_of(&conditions), expected, "{progressing}");
    }
}
