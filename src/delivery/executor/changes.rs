//! The changes that a pass has made: their events and metrics, disputes, and the affected siblings.

use std::collections::BTreeSet;

use baton_apis::conditions::{EventReason, Reason};
use baton_engine::{
    ObjectKey,
    diff::drift::{Drift, Drifted},
    disputes::Disputes,
    object::controlled_reference,
    object_pass::WriteResult,
    pass::{Outcome, Position},
    revision::{Desired, Phase},
};
use baton_kubernetes::events::{EventKind, EventMessage};
use baton_records::{record::RecordKind, revision::RevisionKey};

use super::{
    super::{observed::AffectedSiblings, repairs},
    Executor, RolloutInput,
};

impl<K: RecordKind> Executor<'_, K> {
    /// The siblings that a pass affects. Publishes one event for all objects that were taken over.
    pub(super) fn affected(
        &self,
        phases: &[Phase],
        outcome: &Outcome,
        by: RevisionKey,
        previous: impl Iterator<Item = String>,
    ) -> AffectedSiblings {
        let mut names = Vec::new();
        let mut from = Vec::new();
        let mut taken = BTreeSet::new();
        let mut is_expected = self.is_of_site;
        for (at, write) in &outcome.writes {
            if let WriteResult::TookOver(owner) = write {
                let key = &at.of(phases).key;
                names.push(key.to_string());
                is_expected &= owner.is_some();
                from.extend(owner.clone());
                taken.insert(controlled_reference(key));
            }
        }
        from.sort_unstable();
        from.dedup();
        if !is_expected {
            self.publish_takeovers(&names, &from);
        }
        let name = |at: &Position| at.of(phases).key.to_string();
        let deleted = |(_, write): &&(_, WriteResult)| {
            matches!(write, WriteResult::Deleted | WriteResult::Recreated)
        };
        let recreated = outcome.writes.iter().filter(deleted);
        let recreated = recreated.map(|(at, _)| name(at)).collect();
        let what = "Deleted {count} object(s) to create them again, as their change is refused";
        self.publish_objects(EventReason::Recreated, what, recreated);
        let created = |(_, write): &(_, WriteResult)| {
            matches!(
                write,
                WriteResult::Created | WriteResult::Deleted | WriteResult::Recreated
            )
        };
        if outcome.writes.iter().any(created) {
            // If an older revision left a deleted object to this one, it is no owner of the new
            // object, so that no event of the object wakes it.
            from.extend(previous);
        }
        AffectedSiblings {
            by,
            siblings: from,
            taken,
        }
    }

    /// Publishes one event for all objects that were repaired in a pass, counts the repairs, and
    /// adds the disputed objects to the outcome.
    pub(super) async fn note_repairs(&self, wanted: &RolloutInput<'_>, outcome: &mut Outcome) {
        let repaired = self.repairs(wanted, outcome).await;
        let now = self.shared.clock.now();
        let begun = self.owners.with_disputes(self.record, |disputes| {
            let begun = disputes.note(&repaired, now);
            outcome.mapped.extend(disputes.condition(now));
            outcome.delayed_for = disputes.next(now);
            begun
        });
        for dispute in begun.into_iter().flatten() {
            let reason = EventReason::Condition(Reason::Disputed);
            self.publish_as(EventKind::Warning, reason, dispute.to_string());
        }
        if !repaired.is_empty() {
            self.shared.repairs.count(&self.record.key, &repaired);
            self.publish(EventReason::Repaired, repairs::note(repaired));
        }
    }

    /// The objects that were repaired in a pass. The field managers of objects that the account may
    /// not read are left out.
    async fn repairs(&self, wanted: &RolloutInput<'_>, outcome: &Outcome) -> Vec<Drifted> {
        let mut repaired = Vec::new();
        for (at, write) in &outcome.writes {
            let Desired { gvk, key, .. } = at.of(&wanted.phases);
            let mut drift = match write {
                WriteResult::Repaired(drift) => drift.clone(),
                WriteResult::Created if self.was_lost(wanted, key) => Drift::deleted(),
                WriteResult::Deleted => {
                    let begin = |disputes: &mut Disputes| disputes.begin_recreation(key);
                    self.owners.with_disputes(self.record, begin);
                    continue;
                }
                _ => continue,
            };
            if let Some(account) = &self.account
                && self.target.hides(account, gvk, key).await.is_some()
            {
                drift = drift.without_managers();
            }
            repaired.push(Drifted::new(key, drift));
        }
        repaired
    }

    /// True if another client has deleted an object that was created in this pass.
    fn was_lost(&self, wanted: &RolloutInput<'_>, key: &ObjectKey) -> bool {
        let was_controlled = wanted.controlled.contains(&controlled_reference(key));
        let note = |disputes: &mut Disputes| disputes.note_created(key, was_controlled);
        self.owners.with_disputes(self.record, note) == Some(true)
    }

    /// Publishes that the objects of these names were taken over, and from which owners.
    fn publish_takeovers(&self, names: &[String], from: &[String]) {
        if names.is_empty() {
            return;
        }
        let count = names.len();
        let whose = if from.is_empty() {
            "that had no controller".to_owned()
        } else {
            format!("from {}", from.join(", "))
        };
        let text = format!("Took over {count} object(s) {whose}: {}", names.join(", "));
        self.publish(EventReason::TookOver, text);
    }

    /// Publishes an event about objects, if there are any; `{count}` stands for their number.
    pub(super) fn publish_objects(&self, reason: EventReason, what: &str, mut names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        let what = what.replace("{count}", &names.len().to_string());
        self.publish(reason, format!("{what}: {}", names.join(", ")));
    }

    fn publish(&self, reason: EventReason, note: impl Into<EventMessage>) {
        self.publish_as(EventKind::Normal, reason, note);
    }

    fn publish_as(&self, kind: EventKind, reason: EventReason, note: impl Into<EventMessage>) {
        let (key, uid) = (&self.record.key, &self.record.uid);
        self.shared.events.publish(key, uid, kind, reason, note);
    }
}
