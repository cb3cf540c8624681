//! Properties of all chains. A chain starts with random revisions and changes by random events; the
//! decisions of the gate are applied to it.

use proptest::prelude::*;

use super::*;
use crate::{
    terms::{OwnerTerms, Terms},
    version::may_skip,
};

const VERSIONS: [&str; 6] = ["1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1", "nightly"];

fn member(number: i64, (version, mark, stop): (usize, u8, u8)) -> ActiveRevision {
    ActiveRevision {
        uid: format!("u{number}").into(),
        name: format!("v{number}").into(),
        number,
        entry: SiteEntry {
            version: VERSIONS[version].to_owned(),
            rollout: number,
            phases: vec!["a".to_owned(), "b".to_owned()],
            is_edit: mark == 1,
            is_rollback: mark == 2,
            stop: match stop {
                0 => SiteStop::All,
                1 => SiteStop::Services(vec!["s".to_owned()]),
                _ => SiteStop::None,
            },
            ..SiteEntry::default()
        },
        phases: vec![PhaseState::default(); 2],
        is_leaving: false,
    }
}

/// The next event. The first number selects a revision, modulo the length of the chain, and the
/// second one a phase.
#[derive(Clone, Debug)]
enum Event {
    /// The gate decides about a phase.
    Ask(usize, usize),
    /// A phase that has begun becomes available, or unavailable.
    Probe(usize, usize, bool),
    /// A phase that has begun is refused.
    Refuse(usize, usize),
    /// A phase stops for the newest revision that requests it.
    Stop(usize, usize),
    /// A revision starts to leave.
    Leave(usize),
    /// The upgrade window opens or closes.
    Window(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..6_usize, 0..2_usize).prop_map(|(at, phase)| Event::Ask(at, phase)),
        6 => (0..6_usize, 0..2_usize, prop::bool::weighted(0.8))
            .prop_map(|(at, phase, is)| Event::Probe(at, phase, is)),
        1 => (0..6_usize, 0..2_usize).prop_map(|(at, phase)| Event::Refuse(at, phase)),
        3 => (0..6_usize, 0..2_usize).prop_map(|(at, phase)| Event::Stop(at, phase)),
        1 => (0..6_usize).prop_map(Event::Leave),
        1 => any::<bool>().prop_map(Event::Window),
    ]
}

fn terms(is_open: bool, skips: bool) -> Terms {
    let closed = baton_apis::UpgradeWindow {
        cron: "0 14 * * *".to_owned(),
        duration: "1h".to_owned(),
        time_zone: None,
    };
    Terms {
        owner: OwnerTerms {
            skip_patch_versions: skips,
            ..OwnerTerms::default()
        },
        site_windows: if is_open { Vec::new() } else { vec![closed] },
    }
}

fn has_begun(state: &PhaseState) -> bool {
    state.begun.since().is_some()
}

fn question(chain: &[ActiveRevision], own: usize, phase: usize) -> Question<'_> {
    Question {
        chain,
        own,
        phase,
        uptime: Uptime::default(),
    }
}

/// Checks the conditions under which the gate may let a phase begin.
fn check_beginning(chain: &[ActiveRevision], own: usize, phase: usize, is_open: bool) {
    let ActiveRevision { entry, phases, .. } = &chain[own];
    for newer in chain[own + 1..].iter().filter(|it| it.takes_part()) {
        assert!(
            !newer.phases.iter().any(has_begun),
            "the order changed: {chain:?} {own}"
        );
    }
    if phase > 0 {
        assert!(phases[phase - 1].is_available);
        return;
    }
    let older = chain[..own].iter().filter(|it| it.takes_part());
    let was_refused = |it: &&ActiveRevision| !has_begun(&it.phases[0]) && it.phases[0].is_refused;
    let older: Vec<_> = older.filter(|it| !was_refused(it)).collect();
    if let Some(nearest) = older.last() {
        assert!(
            has_begun(&nearest.phases[0]),
            "it overtook: {chain:?} {own}"
        );
        let rights = entry.is_edit || entry.is_rollback;
        let is_done = nearest.phases.iter().all(|it| it.is_available);
        let is_refused = nearest.phases.iter().any(|it| it.is_refused);
        assert!(rights || is_done || is_refused, "{chain:?} {own}");
    }
    let is_upgrade = older.iter().any(|it| has_begun(&it.phases[0]));
    assert!(is_open || !is_upgrade || entry.is_edit || entry.is_rollback || has_begun(&phases[0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_queue_keeps_its_order(
        drawn in prop::collection::vec((0..6_usize, 0..6_u8, 0..6_u8), 1..6),
        events in prop::collection::vec(event(), 0..60),
        skips: bool,
    ) {
        let mut chain: Vec<_> = (1..).zip(drawn).map(|(number, drawn)| member(number, drawn)).collect();
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut is_open = true;
        for event in events {
            match event {
                Event::Window(opens) => is_open = opens,
                Event::Leave(at) => {
                    let at = at % chain.len();
                    chain[at].is_leaving = true;
                }
                Event::Probe(at, phase, is) => {
                    let at = at % chain.len();
                    let state = &mut chain[at].phases[phase];
                    state.is_available = is && matches!(state.begun, PhaseStart::Yes(_));
                    state.is_refused = false;
                }
                Event::Refuse(at, phase) => {
                    let at = at % chain.len();
                    let state = &mut chain[at].phases[phase];
                    state.is_refused = match state.begun {
                        PhaseStart::Yes(_) => true,
                        PhaseStart::Not => phase == 0,
                        PhaseStart::Skipped | PhaseStart::Stopping(_) => false,
                    };
                    state.is_available &= !state.is_refused;
                }
                Event::Stop(at, phase) => {
                    let own = at % chain.len();
                    let demand = question(&chain, own, phase).stop_request();
                    chain[own].phases[phase].stopped_for = demand.map(|demand| demand.uid.to_string());
                }
                Event::Ask(at, phase) => {
                    let own = at % chain.len();
                    if chain[own].is_leaving {
                        continue;
                    }
                    let was = chain[own].phases[phase].clone();
                    let question = question(&chain, own, phase);
                    let decision = question.decide(&terms(is_open, skips), now);
                    if let PhaseStart::Yes(_) = was.begun {
                        prop_assert_eq!(&decision, &Decision::Start, "a phase that had begun may not go on");
                    }
                    match decision {
                        Decision::Start => {
                            // Older revisions that stopped need not stay available.
                            if !has_begun(&was) {
                                check_beginning(&chain, own, phase, is_open);
                            }
                            let has_stops = phase == 0 && !chain[own].entry.stop.is_none();
                            if has_stops && !matches!(was.begun, PhaseStart::Yes(_)) {
                                let uid = &*chain[own].uid;
                                let older = chain[..own].iter().filter(|it| it.takes_part());
                                let mut ran = older.flat_map(|it| &it.phases);
                                let is_still = ran.all(|it| {
                                    !matches!(it.begun, PhaseStart::Yes(_)) || it.stopped_for.as_deref() == Some(uid)
                                });
                                prop_assert!(is_still, "an older revision has not stopped: {:?}", chain);
                            }
                            let state = &mut chain[own].phases[phase];
                            state.is_refused &= has_begun(state);
                            state.begun = PhaseStart::Yes(now);
                        }
                        Decision::StopFirst { .. } => {
                            prop_assert_eq!(phase, 0);
                            if !has_begun(&was) {
                                check_beginning(&chain, own, phase, is_open);
                            }
                            let state = &mut chain[own].phases[phase];
                            (state.begun, state.is_refused) = (PhaseStart::Stopping(now), false);
                        }
                        Decision::Skip { .. } => {
                            prop_assert!(!has_begun(&was));
                            if chain[own].phases[0].begun != PhaseStart::Skipped {
                                let version = &chain[own].entry.version;
                                let mut later = chain[own + 1..].iter();
                                prop_assert!(skips && later.any(|it| may_skip(version, &it.entry.version)));
                            }
                            chain[own].phases[phase].begun = PhaseStart::Skipped;
                        }
                        Decision::Wait { .. } => {}
                    }
                }
            }
        }
    }

    /// A queue without obstacles is completed, for all entries.
    #[test]
    fn a_queue_without_obstacles_is_completed(
        drawn in prop::collection::vec((0..6_usize, 0..1_u8, 0..6_u8), 1..6),
        skips: bool,
    ) {
        let mut chain: Vec<_> = (1..).zip(drawn).map(|(number, drawn)| member(number, drawn)).collect();
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        for _ in 0..2 * chain.len() {
            for own in 0..chain.len() {
                for phase in 0..2 {
                    let question = question(&chain, own, phase);
                    let demand = question.stop_request().map(|demand| demand.uid.to_string());
                    let decision = question.decide(&terms(true, skips), now);
                    let state = &mut chain[own].phases[phase];
                    state.stopped_for = demand.clone();
                    match decision {
                        Decision::Start => {
                            state.begun = PhaseStart::Yes(now);
                            state.is_available = demand.is_none();
                        }
                        Decision::StopFirst { .. } => state.begun = PhaseStart::Stopping(now),
                        Decision::Skip { .. } => state.begun = PhaseStart::Skipped,
                        Decision::Wait { .. } => {}
                    }
                }
            }
        }
        let last = chain.last().unwrap();
        prop_assert!(last.is_available(), "{:?}", chain);
    }
}
