//! The pass over one wanted object: its observed state, and the request that follows.

mod answers;
mod references;
#[cfg(test)]
mod tests;
mod writes;

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{
    Request,
    definitions::{Question, is_definition},
    diff::{self, Difference, drift::Drift, leftovers::Leftovers, legacy},
    ended,
    handover::{
        Adoption, Siblings, Situation, classify, collision_message, decide_adoption,
        former_managers,
    },
    object::{
        annotation, is_terminating, metadata, metadata_mut, owner_references, why_terminating,
    },
    revision::{Delivery, Desired, Revision},
    stop::is_stopped,
};
use baton_apis::{EndedObject, EndedOutcome, constants::ANNOTATION_REVISION};
use references::References;

/// The state of an object according to a cache or a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Live {
    /// No reliable state is available: the object has to be read from the server.
    #[default]
    Unread,
    /// The object is not in the cache. The cache has labelled objects only, so an object of
    /// somebody else may exist.
    Uncached,
    /// The server reported that the object does not exist.
    Gone,
    /// The object exists.
    Present(Value),
    /// The object does not exist any more: it was deleted after it had [ended]. The
    /// value is its last state.
    Ended(Value),
}

/// Fingerprints of a wanted body and of the live fields in the server's answer to it. While both
/// stay the same there is no difference, in whatever form the server stores a value.
pub type AppliedFingerprints = (u64, u64);

/// A `resourceVersion` that no object has: it is the version of an empty etcd. An apply with this
/// version creates an object, and is refused if the object exists.
const NO_VERSION: &str = "1";

/// Number of times that a pass reads an object again because others change it at the same time.
const MAX_ROUNDS: u8 = 8;

#[derive(Clone)]
pub(super) struct ObjectPass<'a> {
    revision: &'a Revision,
    siblings: &'a dyn Siblings,
    pub desired: &'a Desired,
    live: Live,
    settled: Option<AppliedFingerprints>,
    progress: Progress,
    rounds: u8,
    /// The live state is the answer to our own write, so it is not compared again.
    written: bool,
    pub learned: Option<AppliedFingerprints>,
    pub write: Option<WriteResult>,
}

/// Progress of the present decision about an object.
#[derive(Clone, Debug, PartialEq)]
enum Progress {
    Fresh,
    /// The write goes out without a dry run, before every other write of the phase.
    Leading,
    /// A dry run accepted the write that the present live state requires.
    Checked,
    /// A dry run accepted the change of a definition, and these questions about the objects of the
    /// kind are open. The last one is asked first.
    InReview(Vec<Arc<Question>>),
    /// The create found an object that had appeared in between; the fields that it merged have to
    /// be taken back.
    MergedIntoStranger,
    /// A dry run was refused while legacy entries own fields that the write would remove. These
    /// fields may be the reason, so the entries are migrated and the dry run is repeated.
    RefusedUnmigrated,
    /// The server refused the write, perhaps because of the leftovers. The dry run without them
    /// shows if they are the reason. If not, the refusal is final.
    RefusedWithLeftovers(Leftovers, Problem, String),
    /// The server accepts the write without the leftovers.
    CheckedWithoutLeftovers(Leftovers),
    /// The server refuses the change of immutable fields, and the object is to be created again.
    Immutable,
    /// The dry run of a create was refused, possibly because the object exists.
    RefusedOrTaken(String),
    Blocked(Problem, String),
}

/// A completed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The object was created.
    Created,
    /// The object was taken over, from the named revision if its controller was one.
    TookOver(Option<String>),
    /// Drift was corrected.
    Repaired(Drift),
    /// A workload of the revision was stopped, or started again.
    Switched,
    /// The object was deleted to be created again, and its deletion has not ended.
    Deleted,
    /// The object was deleted and, unless its creation failed, created again.
    Recreated,
}

/// A problem that stops the roll-out of an object, the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The server refuses the object.
    Violation,
    /// The server refused the write, although it had accepted the dry run.
    WriteRefused,
    /// A request failed; a retry may succeed.
    Failed,
    /// The object belongs to somebody else.
    Collision,
}

/// The next action on an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextAction {
    /// The object is in the wanted state, or belongs to a newer revision.
    Nothing,
    /// A request that does not change the object's content, and precedes every write of the phase.
    Check(Request),
    /// A dry run of a write that is certain to follow. It is a check, unless the write goes before
    /// all others.
    DryRun(Request),
    /// Like a check, but sent only when no checks are left and none was refused.
    Prepare(Request),
    Write(Request),
    /// The object waits for an event that the text names.
    Wait(String),
    Blocked(Problem, String),
}

/// Prints the same fields as a [`Pass`](crate::pass::Pass).
impl fmt::Debug for ObjectPass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision: _,
            siblings: _,
            desired: _,
            live,
            settled,
            progress,
            rounds,
            written,
            learned,
            write,
        } = self;
        f.debug_struct("ObjectPass")
            .field("live", live)
            .field("settled", settled)
            .field("progress", progress)
            .field("rounds", rounds)
            .field("written", written)
            .field("learned", learned)
            .field("write", write)
            .finish_non_exhaustive()
    }
}

impl<'a> ObjectPass<'a> {
    pub fn new(
        revision: &'a Revision,
        siblings: &'a dyn Siblings,
        desired: &'a Desired,
        (live, settled): (Live, Option<AppliedFingerprints>),
    ) -> Self {
        Self {
            revision,
            siblings,
            desired,
            live,
            settled,
            progress: Progress::Fresh,
            rounds: 0,
            written: false,
            learned: None,
            write: None,
        }
    }

    pub fn live(&self) -> Option<&Value> {
        match &self.live {
            Live::Present(live) => Some(live),
            Live::Unread | Live::Uncached | Live::Gone | Live::Ended(_) => None,
        }
    }

    /// The live object, or the last state of one that has ended.
    fn last(&self) -> Option<&Value> {
        match &self.live {
            Live::Ended(last) => Some(last),
            _ => self.live(),
        }
    }

    /// The recorded end of an object that does not exist any more.
    pub fn recorded_end(&self) -> Option<&EndedObject> {
        let is_absent = matches!(self.live, Live::Uncached | Live::Gone | Live::Ended(_));
        self.recorded().filter(|_| is_absent)
    }

    /// The recorded end of an object, whoever controls an object of its name now. There is none
    /// while the object runs again under this revision.
    pub fn recorded(&self) -> Option<&EndedObject> {
        let recorded = self.revision.ended.get(&self.desired.key)?;
        let runs_again = self.is_controlled() && self.live().is_some_and(|live| self.has_run(live));
        (!runs_again).then_some(recorded)
    }

    /// The last state of the object and its outcome, if it has run to its end with the wanted
    /// content: under this revision, or under an older one that did not hand it over before it was
    /// deleted.
    pub fn ended(&self) -> Option<(&Value, EndedOutcome)> {
        let last = self.last()?;
        let outcome = ended::outcome(&self.desired.key, last)?;
        let counts = match self.classify(last) {
            Situation::Ours => true,
            Situation::Previous(_) => {
                !self.is_staying() && ended::is_inherited(self.desired, outcome)
            }
            _ => false,
        };
        (counts && self.has_run(last)).then_some((last, outcome))
    }

    /// True if the object has run to its end, and is deleted or being deleted.
    pub fn has_ended(&self) -> bool {
        !self.is_staying() && (self.ended().is_some() || self.recorded_end().is_some())
    }

    /// The `resourceVersion` of an existing object of which the revision is no owner, so that no
    /// change of the object wakes the revision.
    pub fn unowned_version(&self) -> Option<&str> {
        let live = self.live()?;
        let mut owners = owner_references(live).iter();
        let is_owned = owners.any(|reference| self.revision.identity.is(reference));
        (!is_owned).then(|| metadata(live, "resourceVersion"))
    }

    /// True if the object exists and is not being deleted.
    fn is_staying(&self) -> bool {
        self.live().is_some_and(|live| !is_terminating(live))
    }

    /// True if a state has the wanted content, perhaps in the form in which the server stores it.
    fn has_run(&self, last: &Value) -> bool {
        // The fingerprints of an object that has run before are those of another content.
        let applied = self.learned.or(self.settled);
        let applied = applied.filter(|_| !self.revision.ran.contains(&self.desired.key));
        self.has_content(last) || (applied.is_some() && applied == self.fingerprints(last))
    }

    pub fn is_controlled(&self) -> bool {
        self.live()
            .is_some_and(|live| self.revision.identity.controls(live))
    }

    /// True if the object exists with the wanted content, whoever controls it.
    pub fn is_as_wanted(&self) -> bool {
        self.live().is_some_and(|live| self.has_content(live))
    }

    /// Discards the result of a dry run, because writes before this phase may change the answer.
    pub fn check_again(&mut self) {
        if matches!(
            self.progress,
            Progress::Checked | Progress::CheckedWithoutLeftovers(_)
        ) {
            self.progress = Progress::Fresh;
        }
    }

    pub fn next_action(&self) -> NextAction {
        match &self.progress {
            Progress::MergedIntoStranger => NextAction::Check(Request::TakeBack),
            Progress::RefusedOrTaken(_) => NextAction::Check(Request::Get),
            Progress::InReview(questions) => questions.last().map_or(NextAction::Nothing, |it| {
                NextAction::Check(Request::FindAffected(it.clone()))
            }),
            Progress::Blocked(problem, text) => NextAction::Blocked(*problem, text.clone()),
            Progress::Immutable => self
                .live()
                .map_or(NextAction::Nothing, |it| self.need_to_recreate(it)),
            Progress::Fresh
            | Progress::Leading
            | Progress::Checked
            | Progress::RefusedWithLeftovers(..)
            | Progress::CheckedWithoutLeftovers(_)
            | Progress::RefusedUnmigrated => match &self.live {
                Live::Unread => NextAction::Check(Request::Get),
                Live::Uncached | Live::Gone | Live::Ended(_) if self.has_ended() => {
                    NextAction::Nothing
                }
                Live::Uncached | Live::Gone | Live::Ended(_) => self.need_when_absent(),
                Live::Present(live) => self.need_when_present(live),
            },
        }
    }

    fn need_when_absent(&self) -> NextAction {
        if self.revision.is_paused() {
            return match self.live {
                // An object of somebody else may exist, and is reported.
                Live::Uncached => NextAction::Check(Request::Get),
                _ => NextAction::Wait("not found".to_owned()),
            };
        }
        if let Some(claim) = self.siblings.taken_by_newer(&self.desired.key) {
            return NextAction::Wait(format!("not found, {claim}"));
        }
        if self.revision.disputed.contains(&self.desired.key) {
            let text = "not found: it is deleted as soon as it is created, so this is delayed";
            return NextAction::Wait(text.to_owned());
        }
        let mut body = self.desired.manifest.clone();
        let fields = metadata_mut(&mut body);
        let own = self.revision.identity.controller_reference();
        fields.insert("ownerReferences".to_owned(), vec![own].into());
        fields.insert("resourceVersion".to_owned(), NO_VERSION.into());
        match self.progress {
            Progress::Leading | Progress::Checked => NextAction::Write(Request::Create(body)),
            _ => NextAction::DryRun(Request::DryRunCreate(body)),
        }
    }

    /// Sends the write without its dry run, before every other write of its phase. May be called
    /// only if the need is [`NextAction::DryRun`].
    pub fn write_first(&mut self) {
        self.progress = Progress::Leading;
    }

    fn need_when_present(&self, live: &Value) -> NextAction {
        let is_paused = self.revision.is_paused();
        let situation = classify(self.revision, self.siblings, live);
        // In a hub whose objects were restored, a newer revision reports the object as its own. It takes
        // the object over; otherwise the object would return to the content of this revision first.
        let is_of_newer = || self.siblings.taken_by_newer(&self.desired.key).is_some();
        if situation == Situation::Lost && is_of_newer() {
            return NextAction::Nothing;
        }
        match decide_adoption(self.revision, self.desired, &situation, live) {
            Adoption::Leave(_) => NextAction::Nothing,
            Adoption::Refuse(refusal) => {
                let text =
                    collision_message(self.revision, self.siblings, (self.desired, refusal), live);
                NextAction::Blocked(Problem::Collision, text)
            }
            _ if is_paused && self.revision.delivery == Delivery::InProcess => NextAction::Nothing,
            _ if self.has_ended() => NextAction::Nothing,
            // A write to a terminating object is lost with it; the object is created again when it
            // is gone.
            _ if is_terminating(live) => NextAction::Wait(why_terminating(live)),
            // A paused delegated phase is not available while an object differs from its manifest.
            Adoption::Keep if is_paused => match self.need_when_ours(live, &situation) {
                NextAction::Write(_) | NextAction::Prepare(_) => {
                    NextAction::Wait("paused, and not as it should be".to_owned())
                }
                need => need,
            },
            Adoption::Adopt(_) if is_paused => {
                NextAction::Wait("paused, and not taken over yet".to_owned())
            }
            Adoption::Keep => self.need_when_ours(live, &situation),
            Adoption::Adopt(_) => {
                let body = self.body(live, References::All);
                // The content is valid, but the account may lack rights: only a dry run shows that
                // before the first write of the phase.
                let needs_no_check = !self.revision.is_impersonated && self.has_content(live);
                let is_checked = matches!(self.progress, Progress::Checked | Progress::Leading);
                let is_checked = is_checked || needs_no_check;
                match self.need_to_apply(body, (live, &situation), is_checked) {
                    // The write is certain to follow. An object to be migrated is excluded, because
                    // the server may refuse its dry run although the write is valid. So is a
                    // definition: the dry run shows if objects of the kind lose data.
                    NextAction::Check(request @ Request::DryRunApply(_))
                        if !self.needs_migration(live, &situation)
                            && !is_definition(&self.desired.gvk) =>
                    {
                        NextAction::DryRun(request)
                    }
                    need => need,
                }
            }
        }
    }

    fn need_when_ours(&self, live: &Value, situation: &Situation) -> NextAction {
        let body = self.body(live, References::Owned);
        if self.written || diff::compare(&body, live) == Difference::None {
            return NextAction::Nothing;
        }
        let wanted = diff::wanted_fingerprint(&self.desired.manifest);
        let settled = self.learned.or(self.settled);
        let settled = settled.filter(|(settled_wanted, _)| *settled_wanted == wanted);
        if settled.is_some_and(|(_, print)| diff::live_fingerprint(live) == Some(print)) {
            return NextAction::Nothing;
        }
        if self.is_disputed(live) {
            return NextAction::Nothing;
        }
        // Without a recorded fingerprint, for instance after a restart, the difference may be only
        // in the form in which the server stores a value; a dry run shows that. With legacy entries
        // the fingerprint also covers unwanted fields. A definition is checked before each change.
        let differs = settled.is_some()
            && !self.needs_migration(live, situation)
            && !is_definition(&self.desired.gvk);
        let is_checked = differs || self.progress == Progress::Checked;
        self.need_to_apply(body, (live, situation), is_checked)
    }

    /// True if a repair of the object has to wait. The switch of a workload is no repair.
    fn is_disputed(&self, live: &Value) -> bool {
        let is_switched = is_stopped(live) != is_stopped(&self.desired.manifest);
        self.revision.disputed.contains(&self.desired.key) && !is_switched
    }

    /// True if the live object has the wanted content, so that only owner and revision number
    /// change and no dry run is needed.
    fn has_content(&self, live: &Value) -> bool {
        let mut body = self.body(live, References::AsLive);
        let number = annotation(live, ANNOTATION_REVISION);
        body["metadata"]["annotations"][ANNOTATION_REVISION] = number.into();
        diff::compare(&body, live) == Difference::None
    }

    /// The body of an apply to an existing object.
    fn body(&self, live: &Value, references: References) -> Value {
        let mut body = self.desired.body(live);
        let list = references.list(live, self.revision);
        if !list.is_empty() {
            metadata_mut(&mut body).insert("ownerReferences".to_owned(), list.into());
        }
        body
    }

    fn classify(&self, live: &Value) -> Situation {
        classify(self.revision, self.siblings, live)
    }

    fn needs_migration(&self, live: &Value, situation: &Situation) -> bool {
        legacy::needs_migration(live, &former_managers(situation, self.desired, live))
    }

    /// True if the write to the live object is preceded by a migration of its field ownership.
    fn is_to_migrate(&self) -> bool {
        let live = self.live();
        live.is_some_and(|live| self.needs_migration(live, &self.classify(live)))
    }
}
