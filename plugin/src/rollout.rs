//! Whether a chain is rolled out, and if not, why.

use std::time::Duration;

use baton_apis::conditions::{self, reasons::PROGRESS_DEADLINE_EXCEEDED};
use tokio::time::{Instant, timeout_at};

use crate::{
    chain::{Chain, Revision},
    connect::Cluster,
    error::Error,
    live::Follower,
    output::tell,
    progress::Progress,
    target::Target,
};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The wanted content is rolled out and available.
    Done,
    /// It is not, or not yet.
    Underway,
    /// It is not, and waiting is of no use: the deadline has passed, or it is archived or being deleted.
    Failed,
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// How far it is.
    pub verdict: Verdict,
    /// What it is or waits for, in one line.
    pub message: String,
    /// How many objects are written and not waited for.
    pub ready: u64,
    /// How many objects there are to be; zero where that is unknown.
    pub of: u64,
}

/// Judges a chain: of a deployment its current revision, or the revision that was named.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec.
#[must_use]
pub fn judge(chain: &Chain) -> Rollout {
    let subject = chain.subject();
    let (ready, of) = subject.map_or((0, 0), count);
    let is = |verdict, message: String| Rollout {
        verdict,
        message,
        ready,
        of,
    };
    if let Some(deployment) = chain.asked_deployment() {
        if deployment.is_deleting() {
            let message = format!("{} is being deleted", deployment.target());
            return is(Verdict::Failed, message);
        }
        if !deployment.is_observed() {
            return is(
                Verdict::Underway,
                "waiting for the manager to report on the present spec".to_owned(),
            );
        }
        let progressing = deployment.condition(conditions::PROGRESSING);
        if let Some(condition) = progressing
            && condition.status == "False"
            && condition.reason == PROGRESS_DEADLINE_EXCEEDED
        {
            return is(Verdict::Failed, condition.message.clone());
        }
        if subject.is_none() {
            let message = progressing.map_or("", |condition| condition.message.as_str());
            return is(Verdict::Underway, paused(chain, message));
        }
    }
    let Some(revision) = subject else {
        return is(Verdict::Underway, "there is no revision yet".to_owned());
    };
    let name = title(revision);
    if revision.is_deleting() {
        return is(Verdict::Failed, format!("{name} is being deleted"));
    }
    if revision.is_archived() {
        return is(Verdict::Failed, format!("{name} is archived"));
    }
    let available = revision
        .condition(conditions::AVAILABLE)
        .filter(|condition| condition.observed_generation == revision.metadata.generation);
    match available {
        None => is(
            Verdict::Underway,
            paused(
                chain,
                &format!("waiting for the manager to report on {name}"),
            ),
        ),
        Some(condition) if condition.status == "True" && revision.has_succeeded() => {
            is(Verdict::Done, format!("{name} is rolled out and available"))
        }
        Some(condition) if condition.status == "True" => is(
            Verdict::Underway,
            paused(
                chain,
                &format!("{name} is available, and has to stay so for its success delay"),
            ),
        ),
        Some(condition) => is(
            Verdict::Underway,
            paused(chain, &waits(revision, &condition.message)),
        ),
    }
}

/// What a revision is called in messages: `revision 3 (web-abc)`.
#[must_use]
pub fn title(revision: &Revision) -> String {
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
fn count(revision: &Revision) -> (u64, u64) {
    let phases = revision.spec.phases.as_deref().unwrap_or_default();
    // How many objects a slice has is not said in the revision.
    if phases.iter().any(|phase| !phase.slices.is_empty()) {
        return (0, 0);
    }
    let of: usize = phases.iter().map(|phase| phase.objects.len()).sum();
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

/// Follows a rollout with progress until it is done, has failed, or the time is up (`None`: no limit). Returns
/// the last state; `Underway` means that the time was up.
///
/// # Errors
/// There is no such target, it went away, or it cannot be read.
pub async fn follow(
    cluster: &Cluster,
    target: &Target,
    timeout: Option<Duration>,
    progress: &mut Progress,
) -> Result<Rollout, Error> {
    let wait = Wait::new(cluster, target, timeout);
    let (chain, _) = wait
        .until(
            |chain| judge(chain).verdict != Verdict::Underway,
            |chain| {
                let rollout = judge(chain);
                progress.show(rollout.ready, rollout.of, &rollout.message);
            },
        )
        .await?;
    Ok(judge(&chain))
}

/// A wait for something to become of a target, by watches.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    cluster: &'a Cluster,
    target: &'a Target,
    timeout: Option<Duration>,
}

impl<'a> Wait<'a> {
    /// For a target in a cluster, for so long; `None`: no limit.
    #[must_use]
    pub fn new(cluster: &'a Cluster, target: &'a Target, timeout: Option<Duration>) -> Self {
        Self {
            cluster,
            target,
            timeout,
        }
    }

    /// Waits until a chain is as it should be, and shows every one that is not. Returns the last one,
    /// and whether it is as it should be: it is not when the time was up.
    ///
    /// # Errors
    /// There is no such target, it went away, or it cannot be read.
    pub async fn until(
        self,
        is_reached: impl Fn(&Chain) -> bool,
        mut show: impl FnMut(&Chain),
    ) -> Result<(Chain, bool), Error> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let place = self.cluster.namespace_of(self.target.candidates()[0]);
        let (mut follower, chain) = Follower::start(self.cluster, self.target).await?;
        let mut chain = chain.ok_or_else(|| crate::chain::not_found(self.target, place))?;
        let mut told: Option<String> = None;
        loop {
            if is_reached(&chain) {
                return Ok((chain, true));
            }
            show(&chain);
            let next = match deadline {
                None => follower.next().await,
                Some(deadline) => match timeout_at(deadline, follower.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok((chain, false)),
                },
            };
            if let Some(text) = follower.trouble()
                && told.as_deref() != Some(text)
            {
                tell(&format!("warning: not up to date: {text}"));
                told = Some(text.to_owned());
            }
            chain =
                next.ok_or_else(|| Error::NotFound(format!("{} has been deleted", self.target)))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chain::from_objects;

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
        let object = |name: &str| json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}});
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

    fn judged(conditions: &Value, sets: Vec<Value>) -> (Verdict, String, u64, u64) {
        let chains = from_objects(vec![deployment(conditions)], sets);
        let rollout = judge(&chains[0]);
        (rollout.verdict, rollout.message, rollout.ready, rollout.of)
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
                Verdict::Done,
                "revision 1 (web-1) is rolled out and available".to_owned(),
                2,
                2
            )
        );

        let mut delayed = available.clone();
        delayed["conditions"].as_array_mut().unwrap().pop();
        let (verdict, message, ..) = judged(&idle, vec![set("web-1", 1, &phases(), &delayed)]);
        assert_eq!(verdict, Verdict::Underway);
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
                Verdict::Underway,
                "phase a: ConfigMap/y: nothing is ready".to_owned(),
                1,
                2
            )
        );
    }

    #[test]
    fn what_was_reported_before_the_last_change_does_not_count() {
        let mut conditions = json!([
            condition("Available", "True", "Available", ""),
            condition("Progressing", "False", "Idle", ""),
        ]);
        conditions[1]["observedGeneration"] = 0.into();
        let (verdict, message, ..) = judged(&conditions, Vec::new());
        assert_eq!(verdict, Verdict::Underway);
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
                Verdict::Underway,
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
        let (verdict, message, ..) = judged(&late, vec![set("web-1", 1, &phases(), &json!({}))]);
        assert_eq!((verdict, message.as_str()), (Verdict::Failed, "too late"));
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
            let rollout = judge(&chain);
            (rollout.verdict, rollout.message)
        };
        assert_eq!(
            of(deleted(deployment(&idle)), web(), "od/web"),
            (Verdict::Failed, "od/web is being deleted".to_owned())
        );
        for target in ["od/web", "os/web-1"] {
            assert_eq!(
                of(deployment(&idle), deleted(web()), target),
                (
                    Verdict::Failed,
                    "revision 1 (web-1) is being deleted".to_owned()
                )
            );
        }
    }

    #[test]
    fn a_named_revision_speaks_for_itself() {
        let archived = json!({"lifecycleState": "Archived"});
        let chains = from_objects(
            vec![deployment(&json!([]))],
            vec![set("web-1", 1, &archived, &json!({}))],
        );
        let target: Target = "os/web-1".parse().unwrap();
        let rollout = judge(&crate::chain::pick(chains, &target).unwrap());
        assert_eq!(
            (rollout.verdict, rollout.message.as_str()),
            (Verdict::Failed, "revision 1 (web-1) is archived")
        );
    }
}
