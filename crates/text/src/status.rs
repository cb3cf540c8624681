//! The state of a chain on one screen, and as a value for programs.

use std::fmt::{Display, Write as _};

use crate::time::age;
use baton_apis::{
    ControlledObjectReference, WaitingForObject,
    conditions::{AVAILABLE, GENERAL, Reason},
};
use baton_engine::texts::collapse_whitespace;
use baton_view::{
    chain::{Chain, member::Revision},
    content::{SERVED, is_served},
    rollout::{Outcome, Rollout},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use crate::{
    output::{
        Output, Paint,
        format::{first, name},
        table::{Cell, Table},
    },
    rollout::{message, title},
};

/// The number of objects of a list that are named.
const MAX_NAMED: usize = 3;

/// Renders the state for people; every line ends with a newline.
pub fn text(chain: &Chain, rollout: &Rollout, now: Timestamp, output: Output) -> String {
    let mut text = heading(chain, rollout, output);
    let subject = chain.subject();
    if let Some(revision) = subject {
        let _ = writeln!(text, "\n{}", output.wrap(&about(revision, rollout, now)));
    }
    text.push_str(&condition_table(&conditions(chain, subject), now, output));
    if let Some(revision) = subject.filter(|revision| !revision.status.waiting_for.is_empty()) {
        text.push_str("\nWaiting for\n");
        text.push_str(&waiting_table(revision).render(output));
    }
    let holders = holders(chain, subject);
    if !holders.is_empty() {
        text.push_str("\nOther revisions that control objects\n");
        text.push_str(&holder_table(&holders, now).render(output));
    }
    text
}

/// The first line: `od/web in namespace shop: rolled out`.
pub fn title_line(
    target: &impl Display,
    namespace: Option<&str>,
    outcome: Outcome,
    words: &str,
    output: Output,
) -> String {
    let in_namespace = namespace.map_or_else(String::new, |it| format!(" in namespace {it}"));
    let target = output.paint(Paint::Strong, &target.to_string());
    let words = output.paint(paint(outcome), words);
    format!("{target}{in_namespace}: {words}\n")
}

/// The outcome in words, at the end of the first line.
pub fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "rolled out",
        Outcome::Underway => "not rolled out yet",
        Outcome::Failed => "not rolled out",
    }
}

/// The meaning of an outcome.
pub fn paint(outcome: Outcome) -> Paint {
    match outcome {
        Outcome::Done => Paint::Good,
        Outcome::Underway => Paint::Warn,
        Outcome::Failed => Paint::Bad,
    }
}

/// The first line, and the messages below it.
fn heading(chain: &Chain, rollout: &Rollout, output: Output) -> String {
    let target = match (&chain.named, chain.subject()) {
        (Some(_), Some(revision)) => Some(revision.target()),
        _ => chain.target(),
    };
    let target = target.map_or_else(String::new, |target| target.to_string());
    let mut text = title_line(
        &target,
        chain.namespace(),
        rollout.outcome,
        words(rollout.outcome),
        output,
    );
    // For a finished rollout, the next line is the same message.
    let message = message(rollout);
    if rollout.outcome != Outcome::Done && !message.is_empty() {
        let _ = writeln!(text, "{}", output.wrap(&message));
        let subject = chain.subject();
        let hints = [subject.and_then(unserved), subject.and_then(ways_out)];
        for hint in hints.into_iter().flatten() {
            let _ = writeln!(text, "{}", output.wrap(&hint));
        }
    }
    text
}

/// The reason that a phase may have no report: its class is served by another controller.
fn unserved(revision: &Revision) -> Option<String> {
    let mut waiting = revision.status.waiting_for.iter();
    let waiting = waiting.find(|waiting| waiting.reason == Reason::NotReported)?;
    let mut phases = revision.spec.phases.iter().flatten();
    let phase = phases.find(|phase| phase.name == waiting.phase && !is_served(&phase.class))?;
    Some(format!(
        "No controller has reported on phase {}, which has the class {}; {SERVED}",
        phase.name, phase.class
    ))
}

/// Remedies for an object that another controller has; the condition names that controller.
fn ways_out(revision: &Revision) -> Option<String> {
    let available = revision.condition(AVAILABLE)?;
    (available.reason == Reason::CollisionDetected).then(|| {
        "Ways out: leave the object out of the revision; make its controller release it; or take it over, with \
         collisionProtection IfNoController if it has no controller, else None."
            .to_owned()
    })
}

/// The line about the judged revision.
fn about(revision: &Revision, rollout: &Rollout, now: Timestamp) -> String {
    let mut text = format!(
        "{}: {}, {} old",
        title(revision),
        revision.state().as_str(),
        age(revision.created(), now)
    );
    if rollout.of > 0 {
        let _ = write!(text, ", {} of {} objects ready", rollout.ready, rollout.of);
    }
    if let Some(cause) = revision.change_cause() {
        let _ = write!(text, ", change cause: {}", collapse_whitespace(cause));
    }
    sentence(&text)
}

/// A text that begins with a capital letter.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Conditions of the deployment and of the revision, each with the name of its object.
fn conditions<'a>(chain: &'a Chain, subject: Option<&'a Revision>) -> Vec<(String, &'a Condition)> {
    let deployment = chain.asked_deployment();
    let deployment = deployment.map(|it| (it.target(), &it.status.conditions));
    let revision = subject.map(|it| (it.target(), &it.status.conditions));
    let all = deployment.into_iter().chain(revision);
    all.flat_map(|(target, conditions)| special(&target, conditions))
        .collect()
}

/// Conditions with the name of their object. Conditions for general tools are left out, as they
/// repeat others.
pub fn special<'a>(
    of: &impl ToString,
    conditions: &'a [Condition],
) -> Vec<(String, &'a Condition)> {
    let special = conditions
        .iter()
        .filter(|it| !GENERAL.contains(&&*it.type_));
    special
        .map(|condition| (of.to_string(), condition))
        .collect()
}

/// The table of conditions, after an empty line; empty without conditions.
pub fn condition_table(
    conditions: &[(String, &Condition)],
    now: Timestamp,
    output: Output,
) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["OF", "CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for (of, condition) in conditions {
        table.row([
            Cell::from(of.clone()),
            condition.type_.clone().into(),
            condition.status.clone().into(),
            condition.reason.clone().into(),
            age(Some(condition.last_transition_time.0), now).into(),
            condition.message.clone().into(),
        ]);
    }
    format!("\n{}", table.render(output))
}

fn waiting_table(revision: &Revision) -> Table {
    let mut table = Table::new(&["PHASE", "OBJECT", "REASON", "MESSAGE"]);
    for waiting in &revision.status.waiting_for {
        table.row([
            waiting.phase.clone(),
            object(
                &waiting.kind,
                &waiting.name,
                waiting.namespace.as_deref(),
                revision,
            ),
            waiting.reason.clone(),
            waiting.message.clone(),
        ]);
    }
    table
}

/// The revisions that control objects, except for the judged one.
fn holders<'a>(chain: &'a Chain, subject: Option<&Revision>) -> Vec<&'a Revision> {
    let uid = subject.map_or("", Revision::uid);
    chain
        .newest_first()
        .filter(|revision| revision.uid() != uid && !revision.status.controller_of.is_empty())
        .collect()
}

fn holder_table(holders: &[&Revision], now: Timestamp) -> Table {
    let mut table = Table::new(&["REVISION", "NAME", "STATE", "AGE", "OBJECTS"]);
    for revision in holders {
        let number = revision.number();
        table.row([
            number.map_or_else(|| "<none>".to_owned(), |number| number.to_string()),
            revision.name().to_owned(),
            revision.state().as_str().to_owned(),
            age(revision.created(), now),
            list(&revision.status.controller_of, revision),
        ]);
    }
    table
}

/// The first objects of a list, and the number of further ones.
fn list(objects: &[ControlledObjectReference], revision: &Revision) -> String {
    let names = objects
        .iter()
        .map(|one| object(&one.kind, &one.name, one.namespace.as_deref(), revision));
    first(&names.collect::<Vec<_>>(), MAX_NAMED)
}

/// An object as `Kind/name`, with the namespace if it is not that of the revision.
fn object(kind: &str, name: &str, namespace: Option<&str>, revision: &Revision) -> String {
    match namespace.filter(|namespace| Some(*namespace) != revision.namespace()) {
        Some(namespace) if !namespace.is_empty() => format!("{kind}/{name} -n {namespace}"),
        _ => format!("{kind}/{name}"),
    }
}

/// The outcome in one word.
pub fn verdict(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "RolledOut",
        Outcome::Underway => "Underway",
        Outcome::Failed => "Failed",
    }
}

/// The state as a value for programs.
pub fn value(chain: &Chain, rollout: &Rollout) -> Value {
    let subject = chain.subject();
    let of_deployment = chain.asked_deployment();
    let conditions =
        of_deployment.map(|deployment| serde_json::to_value(&deployment.status.conditions));
    let waiting: &[WaitingForObject] = subject.map_or(&[], |revision| &revision.status.waiting_for);
    json!({
        "target": of_deployment.map(|deployment| name(&deployment.object))
            .or_else(|| subject.map(|revision| name(&revision.object))),
        "namespace": chain.namespace(),
        "rolledOut": rollout.outcome == Outcome::Done,
        "verdict": verdict(rollout.outcome),
        "message": message(rollout),
        "conditions": conditions.and_then(Result::ok).unwrap_or_else(|| json!([])),
        "revision": subject.map(of_revision),
        "waitingFor": waiting,
        "otherHolders": holders(chain, subject).into_iter().map(of_revision).collect::<Vec<_>>(),
    })
}

fn of_revision(revision: &Revision) -> Value {
    json!({
        "name": revision.name(),
        "revision": revision.number(),
        "state": revision.state().as_str(),
        "changeCause": revision.change_cause(),
        "conditions": revision.status.conditions,
        "controllerOf": revision.status.controller_of,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_objects;

    #[test]
    fn the_phase_without_a_report_is_named() {
        let unserved = |class: &str, reason: &str| {
            let set = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
                "spec": {"revision": 1, "phases": [
                    {"name": "a", "class": "elsewhere"}, {"name": "database", "class": class},
                ]},
                "status": {"waitingFor": [{
                    "phase": "database", "group": "package-operator.run", "kind": "ObjectSetPhase",
                    "name": "web-1-database", "namespace": "shop", "reason": reason, "message": "",
                }]},
            });
            let chains = from_objects(Vec::new(), vec![set]);
            unserved(&chains[0].revisions[0])
        };
        assert_eq!(
            unserved("other", Reason::NotReported.as_str()).as_deref(),
            Some(
                "No controller has reported on phase database, which has the class other; Baton serves only the \
                 classes default and cluster.NAME"
            )
        );
        assert_eq!(unserved("default", Reason::NotReported.as_str()), None);
        assert_eq!(unserved("other", "ProbeFailure"), None);
    }

    #[test]
    fn a_collision_is_shown_with_remedies() {
        let reported = |reason: &str| {
            let available = json!({"type": "Available", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let set = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
                "spec": {"revision": 1},
                "status": {"conditions": [available]},
            });
            let chains = from_objects(Vec::new(), vec![set]);
            ways_out(&chains[0].revisions[0])
        };
        let ways = reported(Reason::CollisionDetected.as_str()).unwrap();
        assert!(
            ways.contains("collisionProtection IfNoController"),
            "{ways}"
        );
        assert_eq!(reported("ProbeFailure"), None);
    }
}
