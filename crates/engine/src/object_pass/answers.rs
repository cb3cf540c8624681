//! The effect of an answer of the server on an object in a pass.

use std::{mem, sync::Arc};

use baton_apis::constants::FIELD_MANAGER;
use serde_json::Value;

use super::{
    AppliedFingerprints, Live, MAX_ROUNDS, ObjectPass, Problem, Progress, WriteResult,
    references::References,
};
use crate::{
    Answer, Request,
    definitions::{Affected, Review, allows_data_loss, is_definition, recreation_refusal, review},
    diff::{self, Difference, drift::Drift, leftovers::Leftovers, legacy},
    handover::Situation,
    keep::is_kept,
    object::{owner_references, text},
    recreate::{self, is_recreated},
    stop::is_stopped,
};

impl ObjectPass<'_> {
    /// Processes the answer to the request that [`ObjectPass::need`] returned.
    pub fn answer(&mut self, request: &Request, answer: Answer) {
        let known = [Some(&self.desired.manifest), self.live()];
        let answer = answer.without_values(&known);
        match (request, answer) {
            (_, Answer::KindNotServed) => {
                let text = format!("{} not registered on the api server.", self.desired.gvk);
                self.progress = Progress::Blocked(Problem::Violation, text);
            }
            (_, Answer::Failed(text)) => self.progress = Progress::Blocked(Problem::Failed, text),
            (Request::Get, Answer::Object(live)) => {
                self.live = Live::Present(live);
                self.written = false;
                self.progress = Progress::Fresh;
            }
            (Request::Get, Answer::NotFound) => {
                self.live = Live::Gone;
                self.progress = match mem::replace(&mut self.progress, Progress::Fresh) {
                    // The object does not exist, so its content was refused.
                    Progress::RefusedOrTaken(text) => Progress::Blocked(Problem::Violation, text),
                    _ => Progress::Fresh,
                };
            }
            (Request::DryRunCreate(_), Answer::Created(_)) => self.progress = Progress::Checked,
            (Request::DryRunApply(body), Answer::Object(answered)) => {
                self.settle_dry_run(body, &answered);
            }
            (Request::DryRunApply(_), Answer::Refused(_) | Answer::Immutable(_))
                if self.is_to_migrate() =>
            {
                self.progress = Progress::RefusedUnmigrated;
            }
            (Request::DryRunMerge(_), Answer::Object(_)) => {
                if let Progress::RefusedWithLeftovers(leftovers, ..) = &self.progress {
                    self.progress = Progress::CheckedWithoutLeftovers(leftovers.clone());
                }
            }
            (Request::DryRunMerge(patch), Answer::Refused(more) | Answer::Immutable(more)) => {
                self.take_refusal_of_merge(patch, &more);
            }
            (Request::FindAffected(_), Answer::Affected(affected)) => self.take_review(&affected),
            (Request::DryRunApply(_) | Request::Apply(_), Answer::Immutable(_))
                if self.may_be_recreated() =>
            {
                self.progress = Progress::Immutable;
                self.settle_what_ran();
            }
            (request, Answer::Immutable(text)) => {
                self.take_refusal(request, self.refused_change(&text));
            }
            (
                request @ (Request::DryRunApply(body) | Request::Apply(body)),
                Answer::Refused(text),
            ) => {
                let leftovers = self.leftovers(body, &text);
                self.take_refusal(request, text);
                if let (Some(leftovers), Progress::Blocked(problem, text)) =
                    (leftovers, &self.progress)
                {
                    self.progress =
                        Progress::RefusedWithLeftovers(leftovers, *problem, text.clone());
                }
            }
            (request, Answer::Refused(text)) => self.take_refusal(request, text),
            (Request::HandOver(_), Answer::Object(live)) => {
                self.write = Some(self.took_over(&live));
                self.live = Live::Present(live);
                self.settle_what_ran();
            }
            (Request::DeleteForRecreation(_), Answer::NotFound) => {
                self.write = Some(WriteResult::Recreated);
                self.live = Live::Gone;
                // The dry run found no other fault than the immutable fields, so the create needs
                // no dry run of its own.
                self.progress = Progress::Checked;
            }
            (Request::DeleteForRecreation(_), Answer::Object(live)) => {
                self.write = Some(WriteResult::Deleted);
                self.live = Live::Present(live);
                self.progress = Progress::Fresh;
            }
            (Request::Migrate { .. }, Answer::Object(live)) => {
                self.begin_round();
                self.live = Live::Present(live);
                // The fingerprints were computed while other entries owned fields as well.
                (self.settled, self.learned) = (None, None);
            }
            (Request::Create(_), Answer::Created(live)) => {
                self.write_answered(live, WriteResult::Created);
            }
            (Request::Create(_), Answer::Merged(live)) if is_own_creation(&live) => {
                self.write_answered(live, WriteResult::Created);
            }
            (Request::Create(_), Answer::Merged(_)) => {
                self.progress = Progress::MergedIntoStranger;
            }
            (Request::Apply(_), Answer::Object(live)) => {
                let write = self.took_over(&live);
                self.write_answered(live, write);
            }
            (_, _) => self.start_over(),
        }
    }

    fn take_refusal(&mut self, request: &Request, text: String) {
        self.progress = match request {
            // The server also refuses to add a second controller to an existing object.
            Request::DryRunCreate(_) | Request::Create(_)
                if self.live != Live::Gone && self.progress != Progress::Checked =>
            {
                Progress::RefusedOrTaken(text)
            }
            // If the leading write is refused, no object of the phase has been written yet.
            Request::Create(_)
            | Request::Apply(_)
            | Request::HandOver(_)
            | Request::DeleteForRecreation(_)
                if self.progress != Progress::Leading =>
            {
                Progress::Blocked(Problem::WriteRefused, text)
            }
            Request::TakeBack | Request::Release { .. } | Request::Delete(_) => {
                return self.start_over();
            }
            _ => Progress::Blocked(Problem::Violation, text),
        };
    }

    /// The first refusal is reported: it names the fields that the manifest changes.
    fn take_refusal_of_merge(&mut self, patch: &Value, refusal: &str) {
        let Progress::RefusedWithLeftovers(leftovers, problem, text) = &self.progress else {
            return;
        };
        let live = self.live();
        let more = live.and_then(|live| leftovers.with_more(patch, live, refusal));
        self.progress = match more {
            Some(more) => Progress::RefusedWithLeftovers(more, *problem, text.clone()),
            None => Progress::Blocked(*problem, text.clone()),
        };
    }

    /// The leftovers that may be the reason for a refusal, if any.
    fn leftovers(&self, body: &Value, refusal: &str) -> Option<Leftovers> {
        let leftovers = Leftovers::of(body, self.live()?, refusal);
        (!leftovers.is_empty()).then_some(leftovers)
    }

    /// Begins a new round with a read, because the object is not in the state that the request was
    /// based on.
    fn start_over(&mut self) {
        self.begin_round();
        self.live = Live::Unread;
    }

    /// The kind of an accepted write to the live object, by the server's answer.
    fn took_over(&self, answered: &Value) -> WriteResult {
        let was_stopped = self.live().is_some_and(is_stopped);
        match self.live().map(|live| self.classify(live)) {
            Some(Situation::Ours) if was_stopped != is_stopped(answered) => WriteResult::Switched,
            Some(Situation::Ours) => WriteResult::Repaired(self.drift(answered)),
            Some(Situation::Previous(sibling) | Situation::Unrelated(sibling)) => {
                WriteResult::TookOver(Some(sibling.name))
            }
            Some(_) => WriteResult::TookOver(None),
            None => WriteResult::Created,
        }
    }

    /// The fields that differed before the server accepted the write.
    fn drift(&self, answered: &Value) -> Drift {
        let Some(live) = self.live() else {
            return Drift::default();
        };
        let drift = Drift::between(live, answered);
        if !drift.is_empty() {
            return drift;
        }
        // No entry shows the difference, as with the order of a list.
        match diff::compare(&self.body(live, References::Owned), live) {
            Difference::Fields(path) | Difference::NotOwned(path) => Drift::at(&path),
            Difference::Surplus(path) => Drift::surplus(&path),
            Difference::None => drift,
        }
    }

    /// True if the object may be deleted to be created again. A definition takes all objects of its
    /// kind with it, so the manifest has to allow that.
    fn may_be_recreated(&self) -> bool {
        let manifest = &self.desired.manifest;
        let loses_others = is_definition(&self.desired.gvk) && !allows_data_loss(manifest);
        is_recreated(self.desired) && !self.is_kept() && !loses_others
    }

    /// The text for a refused change of immutable fields.
    fn refused_change(&self, refusal: &str) -> String {
        if is_recreated(self.desired) && is_definition(&self.desired.gvk) && !self.is_kept() {
            return recreation_refusal(refusal);
        }
        format!("{refusal}{}", recreate::hint(self.desired))
    }

    /// True if the object must never be deleted.
    fn is_kept(&self) -> bool {
        is_kept(self.live().into_iter().chain([&self.desired.manifest]))
    }

    /// Keeps an object that has run, and sends no further request about it.
    fn settle_what_ran(&mut self) {
        let Some(live) = self.live() else { return };
        if self.is_controlled() && self.revision.ran.contains(&self.desired.key) {
            self.learned = self.fingerprints(live);
        }
    }

    /// The fingerprints of an object in the wanted state.
    pub(super) fn fingerprints(&self, live: &Value) -> Option<AppliedFingerprints> {
        let print = diff::live_fingerprint(live)?;
        Some((diff::wanted_fingerprint(&self.desired.manifest), print))
    }

    fn begin_round(&mut self) {
        self.rounds += 1;
        self.progress = if self.rounds < MAX_ROUNDS {
            Progress::Fresh
        } else {
            let text = "the object keeps changing while it is written".to_owned();
            Progress::Blocked(Problem::Failed, text)
        };
    }

    fn settle_dry_run(&mut self, body: &Value, answered: &Value) {
        self.progress = self.reviewed(answered);
        let Some(live) = self.live() else { return };
        let Some(print) = diff::live_fingerprint(live) else {
            return;
        };
        let situation = self.classify(live);
        let is_unchanged = if self.needs_migration(live, &situation) {
            // The apply would only own wanted fields a second time.
            legacy::same_content(live, answered)
        } else {
            diff::live_fingerprint(answered) == Some(print)
        };
        let is_ours = situation == Situation::Ours;
        let existing = owner_references(live);
        let mut wanted = owner_references(body).iter();
        if is_ours && is_unchanged && wanted.all(|reference| existing.contains(reference)) {
            self.learned = Some((diff::wanted_fingerprint(&self.desired.manifest), print));
        }
    }

    /// The progress after an accepted dry run: a definition is changed only if no stored object
    /// loses data.
    fn reviewed(&self, answered: &Value) -> Progress {
        let live = self.live().filter(|_| is_definition(&self.desired.gvk));
        match live.map(|live| review(live, answered)) {
            None | Some(Review::Accepted) => Progress::Checked,
            Some(Review::Refused(text)) => Progress::Blocked(Problem::Violation, text),
            Some(Review::Ask(questions)) => {
                Progress::InReview(questions.into_iter().map(Arc::new).rev().collect())
            }
        }
    }

    /// Processes the answer to the last open question.
    fn take_review(&mut self, affected: &Affected) {
        let Progress::InReview(questions) = &mut self.progress else {
            return;
        };
        let refusal = questions.pop().and_then(|it| it.refusal(affected));
        let is_over = questions.is_empty();
        match refusal {
            Some(text) => self.progress = Progress::Blocked(Problem::Violation, text),
            None if is_over => self.progress = Progress::Checked,
            None => {}
        }
    }

    fn write_answered(&mut self, live: Value, write: WriteResult) {
        self.learned = self.fingerprints(&live);
        self.live = Live::Present(live);
        self.written = true;
        self.write = match self.write {
            Some(WriteResult::Deleted | WriteResult::Recreated) => Some(WriteResult::Recreated),
            _ => Some(write),
        };
        if self.is_controlled() {
            self.progress = Progress::Fresh;
        } else {
            // A webhook can revert the owner of each write, so the number of repetitions is
            // limited.
            self.begin_round();
        }
    }
}

/// True if we created an object that a create merged into, for instance by a late write of a killed
/// manager. Then there is no entry of another apply or update.
fn is_own_creation(live: &Value) -> bool {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .is_some_and(|entries| {
            entries.iter().all(|entry| {
                !text(entry, "subresource").is_empty()
                    || (text(entry, "manager") == FIELD_MANAGER
                        && text(entry, "operation") == "Apply")
            })
        })
}
