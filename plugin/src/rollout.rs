//! Whether a chain is rolled out, and if not, why.

mod refusals;

use std::time::Duration;

use baton_apis::conditions::{self, reasons::PROGRESS_DEADLINE_EXCEEDED};
use baton_terminal::time::duration;
use tokio::time::{Instant, timeout_at};

pub(crate) use refusals::Refusals;

use crate::{
    chain::{Chain, Revision, State, not_found},
    commands::Exit,
    connect::Cluster,
    content::Slices,
    error::Error,
    live::Follower,
    output::{Output, report},
    progress::Progress,
    target::Target,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The wanted content is rolled out and available.
    Done,
    /// It is not, or not yet.
    Underway,
    /// It is not, and waiting is of no use: the deadline has passed, or it is archived or being deleted.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rollout {
    pub(crate) outcome: Outcome,
    /// What it is or waits for, in one line.
    pub(crate) message: String,
    /// How many objects are written and not waited for.
    pub(crate) ready: u64,
    /// How many objects there are to be; zero where that is unknown.
    pub(crate) of: u64,
}

/// The slices of the revision that is judged. Nobody writes them again, so they are read once per revision.
#[derive(Debug, Default)]
pub(crate) struct SubjectSlices {
    /// Uid of the revision.
    read_for: Option<String>,
    slices: Slices,
}

impl SubjectSlices {
    /// Those of a chain's revision; no request when it names none.
    pub(crate) async fn of(&mut self, cluster: &Cluster, chain: &Chain) -> &Slices {
        if let Some(revision) = chain.subject()
            && self.read_for.as_deref() != Some(revision.uid())
        {
            // Without the right to read them everything but the number of objects is known.
            let read = Slices::read(cluster, [revision]).await;
            self.slices = read.unwrap_or_default();
            self.read_for = Some(revision.uid().to_owned());
        }
        &self.slices
    }
}

/// Judges a chain: of a deployment its current revision, or the revision that was named.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec.
pub(crate) fn judge(chain: &Chain, slices: &Slices) -> Rollout {
    let subject = chain.subject();
    let (ready, of) = subject.map_or((0, 0), |revision| count(revision, slices));
    let is = |outcome, message: String| Rollout {
        outcome,
        message,
        ready,
        of,
    };
    if let Some(deployment) = chain.asked_deployment() {
        if deployment.is_deleting() {
            let message = format!("{} is being deleted", deployment.target());
            return is(Outcome::Failed, message);
        }
        if !deployment.is_observed() {
            return is(
                Outcome::Underway,
                "waiting for the manager to report on the present spec".to_owned(),
            );
        }
        let progressing = deployment.condition(conditions::PROGRESSING);
        if let Some(condition) = progressing
            && condition.status == "False"
            && condition.reason == PROGRESS_DEADLINE_EXCEEDED
        {
            return is(Outcome::Failed, condition.message.clone());
        }
        if subject.is_none() {
            let message = progressing.map_or("", |condition| condition.message.as_str());
            return is(Outcome::Underway, paused(chain, message));
        }
    }
    let Some(revision) = subject else {
        return is(Outcome::Underway, "there is no revision yet".to_owned());
    };
    let name = title(revision);
    if revision.is_deleting() {
        return is(Outcome::Failed, format!("{name} is being deleted"));
    }
    match revision.state() {
        State::Archived => return is(Outcome::Failed, format!("{name} is archived")),
        State::Archiving => return is(Outcome::Failed, format!("{name} is being archived")),
        _ => {}
    }
    let available = revision
        .condition(conditions::AVAILABLE)
        .filter(|condition| condition.observed_generation == revision.metadata.generation);
    match available {
        None => is(
            Outcome::Underway,
            paused(
                chain,
                &format!("waiting for the manager to report on {name}"),
            ),
        ),
        Some(condition) if condition.status == "True" && revision.has_succeeded() => {
            // The deployment's report follows that of the revision.
            let deployment = chain.asked_deployment();
            if deployment.is_some_and(|it| !it.is_true(conditions::AVAILABLE)) {
                let message =
                    format!("waiting for the deployment to report that {name} is available");
                return is(Outcome::Underway, paused(chain, &message));
            }
            is(Outcome::Done, format!("{name} is rolled out and available"))
        }
        Some(condition) if condition.status == "True" => is(
            Outcome::Underway,
            paused(
                chain,
                &format!("{name} is available, and has to stay so for its success delay"),
            ),
        ),
        Some(condition) => is(
            Outcome::Underway,
            paused(chain, &waits(revision, &condition.message)),
        ),
    }
}

/// What a revision is called in messages: `revision 3 (web-abc)`.
pub(crate) fn title(revision: &Revision) -> String {
    match revision.number() {
        Some(number) => format!("revision {number} ({})", revision.name()),
        None => format!("revision {}", revision.name()),
    }
}

/// A pause explains why nothing moves.
fn paused(chain: &Chain, message: &str) -> String {
    match &chain.deployment {
        Some(deployment) if deployment.spec.paused => format!("paused; {message}"),
        _ => message.to_owned(),
    }
}

/// What the first object that is waited for lacks; else what the condition says.
fn waits(revision: &Revision, condition: &str) -> String {
    let waiting = &revision.status.waiting_for;
    let Some(first) = waiting.first() else {
        return condition.to_owned();
    };
    let more = match waiting.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    format!(
        "phase {}: {}/{}: {}{more}",
        first.phase, first.kind, first.name, first.message
    )
}

/// Objects that are fine, and objects that are wanted.
fn count(revision: &Revision, slices: &Slices) -> (u64, u64) {
    let Some(of) = slices.count(revision) else {
        return (0, 0);
    };
    let controlled = &revision.status.controller_of;
    let waiting = revision.status.waiting_for.iter().filter(|waiting| {
        controlled.iter().any(|own| {
            own.group == waiting.group
                && own.kind == waiting.kind
                && own.name == waiting.name
                && own.namespace == waiting.namespace
        })
    });
    let ready = controlled.len().saturating_sub(waiting.count());
    (ready as u64, of as u64)
}

impl Rollout {
    /// Why it is not rolled out, after this time.
    pub(crate) fn failure(&self, timeout: Duration) -> String {
        let message = &self.message;
        match self.outcome {
            Outcome::Underway => format!("not rolled out after {}: {message}", duration(timeout)),
            Outcome::Failed | Outcome::Done => format!("not rolled out: {message}"),
        }
    }

    /// Tells what has become of it in this time.
    pub(crate) fn conclude(&self, timeout: Duration, output: Output) -> Result<Exit, Error> {
        if self.outcome == Outcome::Done {
            output.print(&self.message)?;
            return Ok(Exit::Fine);
        }
        report(&format!("error: {}", self.failure(timeout)));
        Ok(Exit::Negative)
    }
}

/// How often what only time decides is looked at.
const TICK: Duration = Duration::from_secs(5);

/// Follows a rollout with progress until it is done, has failed, or the time is up (zero: no limit). Returns
/// the last state; `Underway` means that the time was up.
pub(crate) async fn follow(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(Chain, Rollout), Error> {
    follow_until(cluster, target, timeout, |_| false).await
}

/// As [`follow`]; a refusal that stands is a failure as well.
pub(crate) async fn follow_unless_refused(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(Chain, Rollout), Error> {
    let mut refusals = Refusals::default();
    follow_until(cluster, target, timeout, |chain| {
        refusals.stand(chain, Instant::now())
    })
    .await
}

async fn follow_until(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut is_refused: impl FnMut(&Chain) -> bool,
) -> Result<(Chain, Rollout), Error> {
    let mut progress = Progress::new();
    let mut slices = SubjectSlices::default();
    let mut last = None;
    let (chain, _) = watch_until(cluster, target, timeout, async |chain| {
        let chain = chain?;
        let mut rollout = judge(chain, slices.of(cluster, chain).await);
        if rollout.outcome == Outcome::Underway && is_refused(chain) {
            rollout.outcome = Outcome::Failed;
        }
        let is_over = rollout.outcome != Outcome::Underway;
        if !is_over {
            progress.show(rollout.ready, rollout.of, &rollout.message);
        }
        last = Some(rollout);
        is_over.then_some(())
    })
    .await?;
    let chain = chain.unwrap_or_default();
    let rollout = last.unwrap_or_else(|| judge(&chain, &Slices::default()));
    Ok((chain, rollout))
}

/// Watches a chain until `look` finds in it what is waited for, or the time is up (zero: no limit). It looks after each
/// change, and every few seconds. Returns the last chain and what was found. That there is no chain (any more) is an
/// error, unless `look` waits for that.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut look: impl AsyncFnMut(Option<&Chain>) -> Option<T>,
) -> Result<(Option<Chain>, Option<T>), Error> {
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let place = cluster.namespace_of(target.candidates()[0]);
    let mut missing = not_found(target, place);
    let (mut follower, mut chain) = Follower::start(cluster, target).await?;
    let mut reported: Option<String> = None;
    loop {
        if let Some(found) = look(chain.as_ref()).await {
            return Ok((chain, Some(found)));
        }
        if chain.is_none() {
            return Err(missing);
        }
        missing = Error::NotFound(format!("{target} has been deleted"));
        let tick = Instant::now() + TICK;
        let until = deadline.map_or(tick, |deadline| deadline.min(tick));
        let next = match timeout_at(until, follower.next()).await {
            Ok(next) => next,
            Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                return Ok((chain, None));
            }
            Err(_) => chain,
        };
        if let Some(text) = follower.trouble()
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
        chain = next;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chain::from_objects;

    #[test]
    fn a_failure_says_whether_the_time_was_up() {
        for (outcome, expected) in [
            (Outcome::Underway, "not rolled out after 90s: it waits"),
            (Outcome::Failed, "not rolled out: it waits"),
        ] {
            let rollout = Rollout {
                outcome,
                message: "it waits".to_owned(),
                ready: 0,
                of: 0,
            };
            assert_eq!(rollout.failure(Duration::from_secs(90)), expected);
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

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
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

    /// A deployment whose template is that of `phases`, with its conditions.
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
        (rollout.outcome, rollout.message, rollout.ready, rollout.of)
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
    fn what_was_reported_before_the_last_change_does_not_count() {
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
            condition(
                "Progressing",
                "False",
                PROGRESS_DEADLINE_EXCEEDED,
                "too late"
            ),
        ]);
        let (outcome, message, ..) = judged(&late, vec![set("web-1", 1, &phases(), &json!({}))]);
        assert_eq!((outcome, message.as_str()), (Outcome::Failed, "too late"));
    }

    #[test]
    fn what_is_being_deleted_is_not_rolled_out() {
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
            let chain = crate::chain::pick(chains, &target.parse().unwrap()).unwrap();
            let rollout = judge(&chain, &Slices::default());
            (rollout.outcome, rollout.message)
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
    fn a_named_revision_speaks_for_itself() {
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
            let target: Target = "os/web-1".parse().unwrap();
            let chain = crate::chain::pick(chains, &target).unwrap();
            let rollout = judge(&chain, &Slices::default());
            assert_eq!(
                (rollout.outcome, rollout.message.as_str()),
                (Outcome::Failed, expected)
            );
        }
    }

    #[test]
    fn nothing_is_rolled_out_while_the_deployment_says_that_it_is_not_available() {
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
