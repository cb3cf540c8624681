//! Sentences about the progress of a chain.

use std::time::Duration;

use crate::time::duration;
use baton_view::{
    chain::member::Revision,
    rollout::{Outcome, Reason, RevisionReason, Rollout, Title},
};

/// The state of a chain, or the reason that it waits, in one line.
pub fn message(rollout: &Rollout) -> String {
    let message = match &rollout.reason {
        Reason::DeploymentDeleting(target) => format!("{target} is being deleted"),
        Reason::DeploymentUnobserved => {
            "waiting for the manager to report on the present spec".to_owned()
        }
        Reason::Reported(message) => message.clone(),
        Reason::NoRevision => "there is no revision yet".to_owned(),
        Reason::WaitingFor(first, more) => {
            let more = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!(
                "phase {}: {}/{}: {}{more}",
                first.phase, first.kind, first.name, first.message
            )
        }
        Reason::Revision(revision, reason) => of_revision(&titled(revision), *reason),
    };
    if rollout.paused {
        format!("paused; {message}")
    } else {
        message
    }
}

fn of_revision(name: &str, reason: RevisionReason) -> String {
    match reason {
        RevisionReason::Deleting => format!("{name} is being deleted"),
        RevisionReason::Archived => format!("{name} is archived"),
        RevisionReason::Archiving => format!("{name} is being archived"),
        RevisionReason::Unobserved => format!("waiting for the manager to report on {name}"),
        RevisionReason::SuccessDelay => {
            format!("{name} is available, and must stay available for its success delay")
        }
        RevisionReason::DeploymentBehind => {
            format!("waiting for the deployment to report that {name} is available")
        }
        RevisionReason::Available => format!("{name} is rolled out and available"),
    }
}

/// A revision in messages: `revision 3 (web-abc)`.
pub fn title(revision: &Revision) -> String {
    titled(&Title::of(revision))
}

fn titled(Title { number, name }: &Title) -> String {
    match number {
        Some(number) => format!("revision {number} ({name})"),
        None => format!("revision {name}"),
    }
}

/// The reason that a rollout is not done after this time.
pub fn failure(outcome: Outcome, message: &str, timeout: Duration) -> String {
    match outcome {
        Outcome::Underway => format!("not rolled out after {}: {message}", duration(timeout)),
        Outcome::Failed | Outcome::Done => format!("not rolled out: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::conditions::Reason::ProgressDeadlineExceeded;
    use baton_view::{
        chain::{kind::ChainKind, pick, target::Target},
        content::Slices,
        rollout::judge,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::from_objects;

    /// A target such as `os/web-1`, or a name.
    fn parse(target: &str) -> Target {
        match target.split_once('/') {
            Some(("os", name)) => Target::new(ChainKind::ObjectSet, name),
            Some((_, name)) => Target::new(ChainKind::ObjectDeployment, name),
            None => Target {
                kind: None,
                name: target.to_owned(),
            },
        }
    }

    #[test]
    fn a_failure_states_if_the_timeout_was_reached() {
        for (outcome, expected) in [
            (Outcome::Underway, "not rolled out after 90s: it waits"),
            (Outcome::Failed, "not rolled out: it waits"),
        ] {
            let failure = failure(outcome, "it waits", Duration::from_secs(90));
            assert_eq!(failure, expected);
        }
    }

    fn set(name: &str, number: i64, spec: &Value, status: &Value) -> Value {
        let mut spec = spec.clone();
        spec["revision"] = number.into();
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "generation": 1,
                "ownerReferences": [{
                    "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                    "name": "web", "uid": "d", "controller": true,
                }],
            },
            "spec": spec, "status": status,
        })
    }

    fn condition(
        type_: &str,
        status: &str,
        reason: impl Into<&'static str>,
        message: &str,
    ) -> Value {
        let reason = reason.into();
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn phases() -> Value {
        let object = |name: &str| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}}})
        };
        json!({"phases": [{"name": "a", "objects": [object("x"), object("y")]}]})
    }

    /// A deployment with the content of `phases` in its template, and these conditions.
    fn deployment(conditions: &Value) -> Value {
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 1},
            "spec": {
                "selector": {}, "template": {"metadata": {}, "spec": phases()},
            },
            "status": {"conditions": conditions},
        })
    }

    fn judged(conditions: &Value, sets: Vec<Value>) -> (Outcome, String, u64, u64) {
        let chains = from_objects(vec![deployment(conditions)], sets);
        let rollout = judge(&chains[0], &Slices::default());
        (
            rollout.outcome,
            message(&rollout),
            rollout.ready,
            rollout.of,
        )
    }

    fn controlled(name: &str) -> Value {
        json!({"kind": "ConfigMap", "group": "", "name": name, "version": "", "namespace": "shop"})
    }

    #[test]
    fn a_rollout_is_judged_by_its_current_revision() {
        let idle = json!([
            condition("Available", "True", "Available", ""),
            condition("Progressing", "False", "Idle", "Update concluded."),
        ]);
        let available = json!({
            "conditions": [
                condition("Available", "True", "Available", ""),
                condition("Succeeded", "True", "RolloutSuccess", ""),
            ],
            "controllerOf": [controlled("x"), controlled("y")],
        });
        assert_eq!(
            judged(&idle, vec![set("web-1", 1, &phases(), &available)]),
            (
                Outcome::Done,
                "revision 1 (web-1) is rolled out and available".to_owned(),
                2,
                2
            )
        );

        let mut delayed = available.clone();
        delayed["conditions"].as_array_mut().unwrap().pop();
        let (outcome, message, ..) = judged(&idle, vec![set("web-1", 1, &phases(), &delayed)]);
        assert_eq!(outcome, Outcome::Underway);
        assert!(message.contains("success delay"), "{message}");

        let waiting = json!({
            "conditions": [condition("Available", "False", "ProbeFailure", "long")],
            "controllerOf": [controlled("x"), controlled("y")],
            "waitingFor": [{
                "phase": "a", "kind": "ConfigMap", "group": "", "name": "y", "namespace": "shop",
                "reason": "ProbeFailure", "message": "nothing is ready",
            }],
        });
        assert_eq!(
            judged(&idle, vec![set("web-1", 1, &phases(), &waiting)]),
            (
                Outcome::Underway,
                "phase a: ConfigMap/y: nothing is ready".to_owned(),
                1,
                2
            )
        );
    }

    #[test]
    fn objects_in_slices_are_counted_once_all_are_known() {
        let object =
            |name: &str| json!({"object": {"kind": "ConfigMap", "metadata": {"name": name}}});
        let spec = json!({"phases": [
            {"name": "a", "objects": [object("x")], "slices": ["s1", "s2"]}, {"name": "b", "slices": ["s2"]},
        ]});
        let status = json!({"controllerOf": [controlled("x"), controlled("y")]});
        let sets = vec![set("web-1", 1, &spec, &status)];
        let chains = from_objects(Vec::new(), sets);
        let mut slices = Slices::default();
        let mut expected = [(0, 0), (0, 0), (2, 8)].into_iter();
        let slice = |name: &str, objects: &[&str]| {
            let objects: Vec<Value> = objects.iter().map(|name| object(name)).collect();
            json!({"metadata": {"name": name, "namespace": "shop"}, "objects": objects})
        };
        for (name, objects) in [("", &[][..]), ("s1", &["a"]), ("s2", &["b", "c", "d"])] {
            slices.insert(slice(name, objects));
            let rollout = judge(&chains[0], &slices);
            assert_eq!(Some((rollout.ready, rollout.of)), expected.next(), "{name}");
        }
    }

    #[test]
    fn objects_that_have_ended_are_ready_after_their_deletion() {
        let ended = |name: &str| {
            json!({
                "group": "", "kind": "ConfigMap", "name": name, "namespace": "shop", "outcome": "Complete",
            })
        };
        let two = json!([
            {"object": {"kind": "ConfigMap", "metadata": {"name": "x"}}},
            {"object": {"kind": "ConfigMap", "metadata": {"name": "y"}}},
        ]);
        let spec = json!({"phases": [{"name": "a", "objects": two}]});
        for (ended, expected) in [
            (json!([]), (1, 2)),
            (json!([ended("y")]), (2, 2)),
            (json!([ended("x")]), (1, 2)),
        ] {
            let status = json!({"controllerOf": [controlled("x")], "ended": ended});
            let chains = from_objects(Vec::new(), vec![set("web-1", 1, &spec, &status)]);
            let rollout = judge(&chains[0], &Slices::default());
            assert_eq!((rollout.ready, rollout.of), expected, "{ended}");
        }
    }

    #[test]
    fn reports_of_an_older_generation_do_not_count() {
        let mut conditions = json!([
            condition("Available", "True", "Available", ""),
            condition("Progressing", "False", "Idle", ""),
        ]);
        conditions[1]["observedGeneration"] = 0.into();
        let (outcome, message, ..) = judged(&conditions, Vec::new());
        assert_eq!(outcome, Outcome::Underway);
        assert!(message.contains("waiting for the manager"), "{message}");
    }

    #[test]
    fn a_template_without_its_revision_is_not_done() {
        let progressing = json!([
            condition("Available", "True", "Available", ""),
            condition(
                "Progressing",
                "True",
                "Progressing",
                "Progressing to a new ObjectSet."
            ),
        ]);
        let other = json!({"phases": [{"name": "b"}]});
        assert_eq!(
            judged(&progressing, vec![set("web-1", 1, &other, &json!({}))]),
            (
                Outcome::Underway,
                "Progressing to a new ObjectSet.".to_owned(),
                0,
                0
            )
        );
    }

    #[test]
    fn a_deadline_that_has_passed_ends_the_wait() {
        let late = json!([
            condition("Available", "True", "Available", ""),
            condition("Progressing", "False", ProgressDeadlineExceeded, "too late"),
        ]);
        let (outcome, message, ..) = judged(&late, vec![set("web-1", 1, &phases(), &json!({}))]);
        assert_eq!((outcome, message.as_str()), (Outcome::Failed, "too late"));
    }

    #[test]
    fn objects_in_deletion_are_not_rolled_out() {
        let deleted = |mut object: Value| {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object
        };
        let available = json!({
            "conditions": [
                condition("Available", "True", "Available", ""),
                condition("Succeeded", "True", "RolloutSuccess", ""),
            ],
        });
        let web = || set("web-1", 1, &phases(), &available);
        let idle = json!([
            condition("Available", "True", "Available", ""),
            condition("Progressing", "False", "Idle", ""),
        ]);
        let of = |deployment: Value, set: Value, target: &str| {
            let chains = from_objects(vec![deployment], vec![set]);
            let chain = pick(chains, &parse(target)).unwrap();
            let rollout = judge(&chain, &Slices::default());
            (rollout.outcome, message(&rollout))
        };
        assert_eq!(
            of(deleted(deployment(&idle)), web(), "od/web"),
            (Outcome::Failed, "od/web is being deleted".to_owned())
        );
        for target in ["od/web", "os/web-1"] {
            assert_eq!(
                of(deployment(&idle), deleted(web()), target),
                (
                    Outcome::Failed,
                    "revision 1 (web-1) is being deleted".to_owned()
                )
            );
        }
    }

    #[test]
    fn a_named_revision_is_judged_by_its_own_status() {
        let spec = json!({"lifecycleState": "Archived"});
        let done = json!({"conditions": [condition("Archived", "True", "Archived", "")]});
        for (status, expected) in [
            (json!({}), "revision 1 (web-1) is being archived"),
            (done, "revision 1 (web-1) is archived"),
        ] {
            let chains = from_objects(
                vec![deployment(&json!([]))],
                vec![set("web-1", 1, &spec, &status)],
            );
            let target = parse("os/web-1");
            let chain = pick(chains, &target).unwrap();
            let rollout = judge(&chain, &Slices::default());
            assert_eq!(
                (rollout.outcome, message(&rollout).as_str()),
                (Outcome::Failed, expected)
            );
        }
    }

    #[test]
    fn a_rollout_is_underway_while_the_deployment_is_unavailable() {
        let conditions = json!([
            condition("Available", "False", "ObjectSetUnready", ""),
            condition("Progressing", "True", "Progressing", ""),
        ]);
        let available = json!({"conditions": [
            condition("Available", "True", "Available", ""),
            condition("Succeeded", "True", "RolloutSuccess", ""),
        ]});
        let (outcome, message, ..) =
            judged(&conditions, vec![set("web-1", 1, &phases(), &available)]);
        assert_eq!(outcome, Outcome::Underway);
        let expected = "waiting for the deployment to report that revision 1 (web-1) is available";
        assert_eq!(message, expected);
    }
}
