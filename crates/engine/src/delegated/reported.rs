//! The status of a phase as another process reports it: reduced to the contents that the phase can
//! have, and to limited sizes.
//!
//! The reporter is the agent of another cluster, or somebody who has stolen its credentials. Without
//! limits it could make the status of the phase, or of its revision, too large to be written.

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use baton_apis::{
    ControlledObjectReference, EndedObject, ObjectSetPhaseSpec, ObjectSetPhaseStatus,
    conditions::{AVAILABLE, DISPUTED, GENERAL, MAX_MESSAGE_LENGTH, PAUSED, STARTED, STOPPED},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Wanted, reference_to};
use crate::{
    Gvk, ObjectKey,
    condition_list::find,
    mapping::{MappedCondition, known_reason, known_status},
    object::{metadata, text},
    texts::{MAX_CAUSE, mapped, shorten},
};

/// Time by which the clock of a reporter may be ahead. A later time is replaced.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// Greatest length of a UID. Those of API servers have 36 bytes.
const MAX_UID: usize = 128;

/// The facts about a phase that limit its reported status.
#[derive(Clone, Copy, Debug)]
pub struct ReportedPhase<'a> {
    /// The spec of the phase.
    pub spec: &'a ObjectSetPhaseSpec,
    /// `metadata.generation` of the phase.
    pub generation: i64,
    /// Hash of the manifests in the spec.
    pub content_hash: &'a str,
    /// The status that was accepted last.
    pub accepted: &'a ObjectSetPhaseStatus,
    /// The present time.
    pub now: Timestamp,
}

impl ReportedPhase<'_> {
    /// The acceptable parts of a reported status.
    ///
    /// # Guarantees
    /// - All parts of an honest report stay, unless the clock of its reporter is more than
    ///   five minutes ahead.
    /// - The result contains only objects of the phase, each once; only conditions that a phase has
    ///   or that its objects map, each once, of no later generation, in the form that API servers
    ///   accept; and no times of the future.
    /// - An accepted status is accepted again without a change.
    pub fn accept(&self, reported: ObjectSetPhaseStatus) -> ObjectSetPhaseStatus {
        let ObjectSetPhaseStatus {
            observed_generation,
            conditions,
            controller_of,
            ended,
            content_hash,
            stopped_for,
        } = reported;
        let known = content_hash.filter(|hash| hash == self.content_hash);
        ObjectSetPhaseStatus {
            observed_generation: observed_generation.filter(|it| self.is_past(*it)),
            conditions: self.conditions(conditions),
            controller_of: self.controlled(controller_of),
            ended: self.ended(ended),
            content_hash: self.accepted.content_hash.clone().or(known),
            stopped_for: stopped_for.filter(|uid| is_uid(uid)),
        }
    }

    fn is_past(&self, generation: i64) -> bool {
        (0..=self.generation).contains(&generation)
    }

    fn conditions(&self, mut reported: Vec<Condition>) -> Vec<Condition> {
        let mappings = self
            .spec
            .objects
            .iter()
            .flat_map(|it| &it.condition_mappings);
        let own = [AVAILABLE, PAUSED].into_iter().chain(GENERAL);
        let mut left: BTreeSet<&str> = own
            .chain([STARTED, STOPPED, DISPUTED])
            .chain(mappings.map(|mapping| &*mapping.destination_type))
            .collect();
        reported.retain(|condition| {
            let generation = condition.observed_generation;
            generation.is_none_or(|it| self.is_past(it)) && left.remove(&*condition.type_)
        });
        for condition in &mut reported {
            condition.status = known_status(&condition.status).to_owned();
            condition.reason = known_reason(&condition.reason).to_owned();
            shorten(&mut condition.message, MAX_MESSAGE_LENGTH);
            self.correct_time(condition);
        }
        within_limit(reported)
    }

    /// Replaces the time of a condition if it is in the future: by the time that was accepted with
    /// this status, so that the result stays the same.
    fn correct_time(&self, condition: &mut Condition) {
        let latest = self.now.checked_add(CLOCK_TOLERANCE).unwrap_or(self.now);
        if condition.last_transition_time.0 <= latest {
            return;
        }
        let before = find(&self.accepted.conditions, &condition.type_);
        let before = before.filter(|before| before.status == condition.status);
        condition.last_transition_time =
            before.map_or(Time(self.now), |before| before.last_transition_time.clone());
    }

    fn keys(&self) -> Vec<ObjectKey> {
        let objects = self.spec.objects.iter().map(|entry| &entry.object);
        let key = |object| ObjectKey {
            group: Gvk::new(text(object, "apiVersion"), text(object, "kind")).group,
            kind: text(object, "kind").to_owned(),
            namespace: metadata(object, "namespace").to_owned(),
            name: metadata(object, "name").to_owned(),
        };
        objects.map(key).collect()
    }

    fn controlled(
        &self,
        mut reported: Vec<ControlledObjectReference>,
    ) -> Vec<ControlledObjectReference> {
        let keys = self.keys();
        let mut wanted = Wanted::new(keys.iter().map(|key| (key, &*key.namespace)));
        for reference in &mut reported {
            reference.version.clear();
        }
        reported.retain(|it| wanted.take(it));
        reported
    }

    fn ended(&self, mut reported: Vec<EndedObject>) -> Vec<EndedObject> {
        let keys = self.keys();
        let mut wanted = Wanted::new(keys.iter().map(|key| (key, &*key.namespace)));
        reported.retain(|it| wanted.take(&reference_to(it)));
        for message in reported.iter_mut().filter_map(|it| it.message.as_mut()) {
            shorten(message, MAX_CAUSE);
        }
        reported
    }
}

/// Limits the mapped conditions as those of a revision are limited.
fn within_limit(conditions: Vec<Condition>) -> Vec<Condition> {
    let is_mapped = |condition: &Condition| condition.type_.contains('/');
    let list = conditions.iter().filter(|it| is_mapped(it));
    let list = list.map(|condition| MappedCondition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    });
    let list: Vec<_> = list.collect();
    let mut fitting = mapped(list);
    let limited = conditions.into_iter().filter_map(|condition| {
        if !is_mapped(&condition) {
            return Some(condition);
        }
        let message = fitting.next()?.message;
        Some(Condition {
            message,
            ..condition
        })
    });
    limited.collect()
}

fn is_uid(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= MAX_UID && text.chars().all(is_part)
}
