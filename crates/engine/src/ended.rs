//! Objects that run to their end and are then deleted by their own rule: Jobs with
//! `ttlSecondsAfterFinished`, and Pods that are not restarted. They have done their work for the
//! content of their revision, and are not created again.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`, "Objects that end".

use std::collections::BTreeMap;

use baton_apis::{EndedObject, EndedOutcome};
use serde_json::Value;

use crate::{ObjectKey, object::text, recreate::is_rerun, revision::Desired, workload::list};

/// The entries of `status.ended` of a revision or phase, by object.
pub type Ended = BTreeMap<ObjectKey, EndedObject>;

/// The result of an object; `None` if it still runs, if no rule deletes it after its end, or if it
/// was deleted before its end, which stops its pods.
pub fn outcome(key: &ObjectKey, live: &Value) -> Option<EndedOutcome> {
    match (&*key.group, &*key.kind) {
        ("batch", "Job") => {
            live.pointer("/spec/ttlSecondsAfterFinished")
                .filter(|ttl| ttl.is_number())?;
            let deleted = live.pointer("/metadata/deletionTimestamp");
            let deleted = deleted.and_then(Value::as_str);
            // Times of a server have one form, so their texts are in the order of time.
            let is_end = |condition: &&Value| {
                deleted.is_none_or(|at| text(condition, "lastTransitionTime") <= at)
            };
            let mut conditions = list(live, "/status/conditions").iter().filter(is_end);
            conditions.find_map(|it| match (text(it, "type"), text(it, "status")) {
                ("Complete", "True") => Some(EndedOutcome::Complete),
                ("Failed", "True") => Some(EndedOutcome::Failed),
                _ => None,
            })
        }
        ("", "Pod") => {
            let policy = live.pointer("/spec/restartPolicy");
            let may_end = policy.is_some_and(|policy| policy != "Always");
            let has_completed = live["status"]["phase"] == "Succeeded";
            // Only the deletion of a Pod that runs has a grace period.
            let period = live.pointer("/metadata/deletionGracePeriodSeconds");
            let was_running = period.and_then(Value::as_i64).unwrap_or(0) > 0;
            (may_end && has_completed && !was_running).then_some(EndedOutcome::Complete)
        }
        _ => None,
    }
}

/// True if objects of a kind may end.
pub fn may_kind_end(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "Pod"))
}

/// True if an object may be deleted by its own rule, according to its manifest.
pub fn may_end(desired: &Desired) -> bool {
    match (&*desired.key.group, &*desired.key.kind) {
        ("batch", "Job") => {
            let ttl = desired.manifest.pointer("/spec/ttlSecondsAfterFinished");
            ttl.is_some_and(Value::is_number)
        }
        ("", "Pod") => {
            let policy = desired.manifest.pointer("/spec/restartPolicy");
            policy.is_some_and(|policy| policy != "Always")
        }
        _ => false,
    }
}

/// True if a revision takes over this result of an older one for an object of the same content. It
/// does not if the object has failed, or is annotated to run again.
pub fn is_inherited(desired: &Desired, outcome: EndedOutcome) -> bool {
    outcome == EndedOutcome::Complete && !is_rerun(desired)
}

/// The entries of a status, by object.
pub fn by_object<'a>(entries: impl IntoIterator<Item = &'a EndedObject>) -> Ended {
    let entries = entries.into_iter().map(|entry| {
        let key = ObjectKey {
            group: entry.group.clone(),
            kind: entry.kind.clone(),
            namespace: entry.namespace.clone().unwrap_or_default(),
            name: entry.name.clone(),
        };
        (key, entry.clone())
    });
    entries.collect()
}

/// The entry of a status for an object; `message` is that of the probes that it has failed.
pub(crate) fn entry(
    key: &ObjectKey,
    outcome: EndedOutcome,
    message: Option<String>,
) -> EndedObject {
    EndedObject {
        group: key.group.clone(),
        kind: key.kind.clone(),
        name: key.name.clone(),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        outcome,
        message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::{phase, revision};

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
        }
    }

    #[test]
    fn an_object_ends_if_it_is_finished_and_a_rule_deletes_it() {
        let complete = Some(EndedOutcome::Complete);
        let failed = Some(EndedOutcome::Failed);
        let job = |ttl: Value, type_: &str, status: &str| {
            let conditions = json!([
                {"type": "SuccessCriteriaMet", "status": "True"},
                {"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:05Z"},
            ]);
            json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": conditions}})
        };
        let pod = |policy: &str, phase: &str| json!({"spec": {"restartPolicy": policy}, "status": {"phase": phase}});
        let [batch, core] = [key("batch", "Job"), key("", "Pod")];
        let deleted = |mut live: Value, at: &str, period: i64| {
            live["metadata"] =
                json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": period});
            live
        };
        let at = |second: i64| format!("2026-01-01T00:00:0{second}Z");
        for (key, live, expected) in [
            (
                &batch,
                deleted(job(json!(0), "Complete", "True"), &at(5), 0),
                complete,
            ),
            (
                &batch,
                deleted(job(json!(0), "Complete", "True"), &at(4), 0),
                None,
            ),
            (
                &core,
                deleted(pod("Never", "Succeeded"), &at(9), 0),
                complete,
            ),
            (&core, deleted(pod("Never", "Succeeded"), &at(9), 30), None),
            (&batch, job(json!(0), "Complete", "True"), complete),
            (&batch, job(json!(9), "Failed", "True"), failed),
            (&batch, job(json!(9), "Complete", "False"), None),
            (&batch, job(json!(9), "Suspended", "True"), None),
            (&batch, job(Value::Null, "Complete", "True"), None),
            (
                &batch,
                json!({"spec": {"ttlSecondsAfterFinished": 0}}),
                None,
            ),
            (&core, pod("Never", "Succeeded"), complete),
            (&core, pod("OnFailure", "Succeeded"), complete),
            // A Pod that was evicted has not done its work.
            (&core, pod("Never", "Failed"), None),
            (&core, pod("Never", "Running"), None),
            (&core, pod("Always", "Succeeded"), None),
            (&core, json!({}), None),
            (
                &key("x.example", "Job"),
                job(json!(0), "Complete", "True"),
                None,
            ),
        ] {
            assert_eq!(outcome(key, &live), expected, "{key:?} {live}");
        }
    }

    #[test]
    fn manifests_show_which_objects_may_end() {
        for (text, expected) in [
            (
                "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}",
                true,
            ),
            (
                "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {}}",
                false,
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never}}",
                true,
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Always}}",
                false,
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}",
                false,
            ),
        ] {
            let object = phase(&revision(), "p", &[text]).objects.remove(0);
            assert_eq!(may_end(&object), expected, "{text}");
        }
    }

    #[test]
    fn only_completed_objects_are_inherited() {
        for (update, outcome, expected) in [
            ("recreate", EndedOutcome::Complete, true),
            ("recreate", EndedOutcome::Failed, false),
            ("rerun", EndedOutcome::Complete, false),
        ] {
            let annotations = format!("{{baton.run/update: {update}}}");
            let text = format!(
                "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, annotations: {annotations}}}}}"
            );
            let object = phase(&revision(), "p", &[&text]).objects.remove(0);
            let entry = entry(&object.key, outcome, None);
            assert_eq!(
                is_inherited(&object, entry.outcome),
                expected,
                "{update} {outcome:?}"
            );
            assert_eq!(by_object(&[entry]).keys().next(), Some(&object.key));
        }
    }
}
