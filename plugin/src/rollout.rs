//! Whether a chain is rolled out, and if not, why.

use std::time::Duration;

use baton_apis::conditions::{self, reasons::PROGRESS_DEADLINE_EXCEEDED};
use tokio::time::{Instant, timeout_at};

use crate::{
    chain::{Chain, Revision},
    connect::Cluster,
    error::Error,
    live::Follower,
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
    /// It is not, and waiting is of no use: the deadline has passed, or the revision is archived.
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
    if let (Some(deployment), None) = (&chain.deployment, &chain.named) {
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
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let place = cluster.namespace_of(target.candidates()[0]);
    let (mut follower, chain) = Follower::start(cluster, target).await?;
    let mut chain = chain.ok_or_else(|| crate::chain::not_found(target, place))?;
    loop {
        let rollout = judge(&chain);
        if rollout.verdict != Verdict::Underway {
            return Ok(rollout);
        }
        progress.show(rollout.ready, rollout.of, &rollout.message);
        let next = match deadline {
            None => follower.next().await,
            Some(deadline) => match timeout_at(deadline, follower.next()).await {
                Ok(next) => next,
                Err(_) => return Ok(rollout),
            },
        };
        chain = next.ok_or_else(|| Error::NotFound(format!("{target} has been deleted")))?;
    }
}
