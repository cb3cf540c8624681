//! Conversations between the engine and a cluster: the real [`Pass`] and [`Teardown`], one request
//! and one answer at a time. Each step is computed once and cached.

mod delegation;
mod prepared;
mod siblings;
mod step;
mod translate;

use std::sync::{Mutex, PoisonError};

use baton_apis::{
    ControlledObjectReference, LifecycleState, ObjectSetObject, ObjectSetPhaseStatus,
    ObjectSetStatus, ObjectSetTemplatePhase,
    conditions::{ARCHIVED, AVAILABLE, IN_TRANSITION, PAUSED, SUCCEEDED},
};
use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    conditions::{report_archival, report_pass, report_phase},
    delegated::{Delegated, Delegation, DelegationAnswer, PhaseState},
    handover::{Claim, Relation, Sibling, Siblings, has_given},
    object::controlled_reference,
    object_pass::{AppliedFingerprints, Live},
    owners,
    pass::{Pass, PassResult, Position, Snapshot, Step},
    revision::{Delivery, Desired, KindScope, KindState, Kinds, Phase, Revision, prepare},
    teardown::{Teardown, TeardownOutcome},
};
use baton_probes::Probes;
use indexmap::IndexSet;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::{
    Map,
    alarm::{Write, alarm_of_decision, alarm_of_order},
    contents::{CHANGED, Contents, PRESENT},
    engine_fault,
    server::{self, Change},
    state::{Alarm, ContentId, Life, Record, Reported, RequestedState, SettledId, Status, TalkId},
    world::{ACTORS, Class, EngineFault, NAMES, OBJECTS, REVISIONS, World},
};

#[derive(Clone, Debug)]
enum Progress {
    Pass(Box<Pass<'static>>),
    Teardown(Teardown<'static>),
}

/// A request that a pass waits for.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Position of the object in the revision.
    pub at: Position,
    /// Index of the object.
    pub object: usize,
    /// The request.
    pub request: Request,
}

use prepared::{Case, Prepared};
use siblings::{ModelSiblings, object_of};
pub use step::{ArrivedRequest, Ending, PhaseAnswer, Reply, RequestOutcome, Start, View};
use translate::{
    at_present, at_present_in, controlled, delegated, kept, kept_of_phase, phase_status_of, phases,
    probes, status_of,
};

struct Dialogue {
    prepared: &'static Prepared,
    progress: Progress,
    pending: Vec<Pending>,
    /// Request about the phase object, with the index of the phase.
    delegation: Option<(usize, Delegation)>,
}

/// All conversations of a world that the search found.
pub struct Dialogues {
    world: World,
    /// All states of objects that the search found.
    pub contents: Contents,
    all: Vec<Dialogue>,
    by_text: Map<(Case, String), TalkId>,
    starts: Map<Start, (TalkId, Option<Alarm>)>,
    replies: Map<ArrivedRequest, Reply>,
    phase_answers: Map<(TalkId, PhaseAnswer, View), (TalkId, Option<Alarm>)>,
    endings: Map<(TalkId, Status), Ending>,
    prepared: Map<Case, &'static Prepared>,
    settled: IndexSet<AppliedFingerprints>,
    probes: &'static Probes,
}

/// Leaks a value, so that it lives until the process ends. A world has few of them: one revision
/// per number and wish.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl Dialogues {
    /// No conversations yet.
    #[must_use]
    pub fn new(world: World) -> Self {
        Self {
            world,
            contents: Contents::default(),
            all: Vec::new(),
            by_text: Map::default(),
            starts: Map::default(),
            replies: Map::default(),
            phase_answers: Map::default(),
            endings: Map::default(),
            prepared: Map::default(),
            settled: IndexSet::new(),
            probes: leak(probes()),
        }
    }

    /// Number of states of passes and teardowns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are no passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn dialogue(&self, id: TalkId) -> &Dialogue {
        &self.all[id as usize - 1]
    }

    /// The requests that a pass waits for; empty when the pass is over.
    #[must_use]
    pub fn pending(&self, id: TalkId) -> &[Pending] {
        &self.dialogue(id).pending
    }

    /// True if a pass has no more requests.
    #[must_use]
    pub fn is_over(&self, id: TalkId) -> bool {
        self.pending(id).is_empty() && self.delegation(id).is_none()
    }

    /// The requested state of the actor at the start of a pass.
    #[must_use]
    pub fn requested(&self, id: TalkId) -> RequestedState {
        self.dialogue(id).prepared.case.requested
    }

    /// Starts a pass or a teardown.
    ///
    /// # Panics
    /// If it is about an object that the world does not have.
    pub fn start(&mut self, start: &Start) -> (TalkId, Option<Alarm>) {
        if let Some(cached) = self.starts.get(start) {
            return *cached;
        }
        let phase = if World::is_phase(start.set) || self.world.classes[start.set] == Class::None {
            Record::default()
        } else {
            start.view[World::phase_of(start.set)]
        };
        let prepared = self.prepare(Case {
            actor: start.set,
            number: start.number,
            requested: start.requested,
            phase,
            reported: start.reported,
            own: start.own,
        });
        prepared.siblings.see(start.view);
        let observe = |at: Position| {
            let object = object_of(&prepared.desired(at).key).expect("objects of the world");
            let (observed, settled) = start.observed[object];
            let live =
                observed
                    .and_then(|id| self.contents.object(id))
                    .map_or(Live::Uncached, |live| {
                        let mut live = live.clone();
                        owners::decode(&mut live);
                        Live::Present(live)
                    });
            let settled = settled
                .checked_sub(1)
                .map(|index| self.settled[usize::from(index)]);
            (live, settled)
        };
        let Prepared {
            revision,
            phases,
            probes,
            kinds,
            siblings,
            ..
        } = prepared;
        let rolls_out = !start.is_teardown || self.world.sabotage == EngineFault::ArchivedWrites;
        let progress = if rolls_out {
            let snapshot = Snapshot {
                revision,
                phases,
                probes,
                kinds,
                siblings,
            };
            Progress::Pass(Box::new(Pass::new(snapshot, observe)))
        } else {
            let observe = |at: Position| observe(at).0;
            Progress::Teardown(Teardown::new(revision, phases, kinds, observe))
        };
        let result = self.go_on(Dialogue {
            prepared,
            progress,
            pending: Vec::new(),
            delegation: None,
        });
        self.starts.insert(*start, result);
        result
    }

    /// The effect of a request.
    pub fn reply(&mut self, ask: &ArrivedRequest) -> Reply {
        if let Some(cached) = self.replies.get(ask) {
            return *cached;
        }
        let Dialogue {
            prepared,
            progress,
            pending,
            delegation: _,
        } = self.dialogue(ask.dialogue);
        let (prepared, mut progress, mut pending) = (*prepared, progress.clone(), pending.clone());
        prepared.siblings.see(ask.view);
        let sent = pending.remove(usize::from(ask.which));
        let (at, object, request) = (sent.at, sent.object, sent.request);
        let key = World::key(object);
        let live = self.contents.object(ask.live).cloned().map(|mut live| {
            live["metadata"]["resourceVersion"] =
                if ask.is_current { PRESENT } else { CHANGED }.into();
            live
        });
        let request = engine_fault::request(self.world.sabotage, request, live.as_ref());
        let (change, answer) = if !ask.outcome.is_carried_out() {
            (Change::None, Answer::NotFound)
        } else if matches!(request, Request::Create(_)) && ask.is_known {
            // The client does not send a create for an object that the cache contains, because
            // another revision has created it in the meantime.
            (Change::None, Answer::Conflict)
        } else {
            server::serve(&key, live.as_ref(), &request, &Contents::next())
        };
        let written = match change {
            Change::None => None,
            Change::Put(object) => Some(self.contents.intern(Some(at_present(object)))),
            Change::Gone => Some(0),
        };
        let alarm = Write {
            set: prepared.set,
            number: prepared.siblings.number,
            request: &request,
            answer: &answer,
            world: &self.world,
            before: self.contents.facts(ask.live),
            after: written.map(|id| self.contents.facts(id)),
            view: &ask.view,
            // A late request cannot be called back. The object that it creates is taken away later.
            is_archived: ask.is_archived && ask.outcome != RequestOutcome::Late,
        }
        .alarm();
        if ask.outcome == RequestOutcome::Late {
            let reply = Reply {
                written,
                holds: None,
                is_seen: false,
                talk: ask.dialogue,
                alarm,
            };
            self.replies.insert(*ask, reply);
            return reply;
        }
        let is_answered = ask.outcome == RequestOutcome::Answered;
        let is_dry = matches!(
            request,
            Request::DryRunCreate(_) | Request::DryRunApply(_) | Request::DryRunMerge(_)
        );
        let holds = match &answer {
            _ if !is_answered => Some(false),
            _ if is_dry => None,
            // The request wrote nothing.
            Answer::Refused(_) | Answer::Immutable(_) => None,
            Answer::Object(_) | Answer::Created(_) => Some(true),
            _ => Some(false),
        };
        let is_seen = is_answered
            && !is_dry
            && matches!(
                answer,
                Answer::Object(_) | Answer::Created(_) | Answer::Merged(_) | Answer::NotFound
            );
        let answer = if is_answered {
            at_present_in(answer)
        } else {
            Answer::Failed("lost".to_owned())
        };
        match &mut progress {
            Progress::Pass(pass) => pass.answer(at, &request, answer),
            Progress::Teardown(teardown) => teardown.answer(at, &request, answer),
        }
        let talk = Dialogue {
            prepared,
            progress,
            pending,
            delegation: None,
        };
        let (talk, decided) = self.go_on(talk);
        let reply = Reply {
            written,
            holds,
            is_seen,
            talk,
            alarm: alarm.or(decided),
        };
        self.replies.insert(*ask, reply);
        reply
    }

    /// Ends a pass or a teardown that has no more requests.
    ///
    /// # Panics
    /// If it has requests.
    pub fn end(&mut self, id: TalkId, before: Status) -> Ending {
        if let Some(cached) = self.endings.get(&(id, before)) {
            return cached.clone();
        }
        let Dialogue {
            prepared, progress, ..
        } = self.dialogue(id);
        let (prepared, progress) = (*prepared, progress.clone());
        let now = Timestamp::UNIX_EPOCH;
        let previous = status_of(prepared.set, before);
        let is_phase = World::is_phase(prepared.set);
        let ending = match progress {
            Progress::Pass(pass) => {
                let outcome = pass.outcome();
                let mut learned = [0; OBJECTS];
                for (at, settled) in &outcome.learned {
                    let object =
                        object_of(&prepared.desired(*at).key).expect("objects of the world");
                    let (index, _) = self.settled.insert_full(*settled);
                    learned[object] = SettledId::try_from(index + 1).expect("few fingerprints");
                }
                let result = outcome.result.clone();
                let revision = &prepared.revision;
                let status = if is_phase {
                    let previous = phase_status_of(before);
                    kept_of_phase(&report_phase(&previous, revision, outcome, 0, now).0)
                } else {
                    kept(&report_pass(&previous, revision, outcome, 0, now).status)
                };
                Ending::Pass {
                    status,
                    learned,
                    result,
                }
            }
            Progress::Teardown(teardown) => {
                let outcome = teardown.outcome();
                let is_done = outcome == TeardownOutcome::Done;
                let report = report_archival(&previous, &prepared.revision, outcome, now);
                // The report of a phase object that is being deleted is only for people.
                let status = if is_phase {
                    before
                } else {
                    kept(&report.status)
                };
                Ending::Teardown { status, is_done }
            }
        };
        self.endings.insert((id, before), ending.clone());
        ending
    }

    /// The name of the revision of a pass, for people.
    #[must_use]
    pub fn name(&self, id: TalkId) -> &str {
        &self.dialogue(id).prepared.revision.identity.name
    }

    /// Lets the engine decide if all answers are there; returns the next state of the conversation.
    fn go_on(&mut self, mut talk: Dialogue) -> (TalkId, Option<Alarm>) {
        let prepared = talk.prepared;
        let mut alarm = None;
        if talk.pending.is_empty() {
            let step = match &mut talk.progress {
                Progress::Pass(pass) => pass.step(),
                Progress::Teardown(teardown) => teardown.step(),
            };
            if let Step::Delegate(phase, delegation) = &step {
                talk.delegation = Some((*phase, delegation.clone()));
            }
            if let Step::Send(requests) = step {
                talk.pending = requests
                    .into_iter()
                    .map(|(at, request)| Pending {
                        at,
                        object: object_of(&prepared.desired(at).key).expect("objects of the world"),
                        request,
                    })
                    .collect();
                let view = prepared.siblings.view();
                let own = (prepared.set, prepared.siblings.number, prepared.case.own);
                alarm = alarm_of_decision(&self.world, own, &talk.pending, &view);
                let is_pass = matches!(talk.progress, Progress::Pass(_));
                let own_phase = is_pass.then_some(prepared.case.phase);
                let order =
                    alarm_of_order(&self.world, prepared.set, &talk.pending, own_phase, &view);
                alarm = alarm.or(order);
            }
        }
        let text = format!(
            "{:?} {:?} {:?}",
            talk.progress, talk.pending, talk.delegation
        );
        let next = TalkId::try_from(self.all.len() + 1).expect("few passes");
        let key = (prepared.case, text);
        let id = *self.by_text.entry(key).or_insert(next);
        if id == next {
            self.all.push(talk);
        }
        (id, alarm)
    }
}
