//! `wait`: until a deployment, a revision or an Application has reached a state.

mod application;
mod site;

use std::{fmt::Display, str::FromStr, time::Duration};

use baton_apis::conditions;
use baton_cluster::{Cluster, follower::Follower};
use baton_terminal::output::{Print as _, report};
use baton_text::{
    output::format::name,
    rollout::{message, title},
    time::duration,
};
use baton_view::{
    chain::{Chain, member::Revision},
    content::Slices,
    lists::Question,
    rollout::{Outcome, judge},
};
use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Exit;
use crate::{
    args::{GlobalArgs, timeout},
    error::Error,
    subject::{Subject, SubjectKind, TargetArg},
    wait::{bars::Bars, chain::watch_until, until},
};

/// Wait until a deployment or a revision has reached a state
///
/// `rolled-out` means that the newest content is available, after its success delay. `available` is
/// also satisfied by an older revision. For a deployment, `rolled-out` and `succeeded` are about
/// its current revision, and `archived` is about all others.
///
/// A deployment to sites (sitedeploy/NAME) is rolled out when its version is available at all sites
/// that can be reached. After an abort it cannot be rolled out any more. An Application (app/NAME)
/// is rolled out when its newest Release is complete.
///
/// Exit code 0: the state is reached. 1: the time is up, or the state cannot be reached any more.
/// 2: an error.
#[derive(Clone, Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    target: TargetArg,

    /// State to wait for: rolled-out, available, succeeded, archived, deleted, revision=N (or a
    /// later one), condition=TYPE or condition=TYPE=STATUS
    #[arg(long = "for", value_name = "WHAT", default_value = "rolled-out")]
    what: Goal,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    timeout: Duration,
}

/// The goals of a wait, with a short description.
pub(crate) const GOALS: [(&str, &str); 7] = [
    ("rolled-out", "the newest content is available"),
    ("available", "any content is available"),
    ("succeeded", "the current revision was rolled out once"),
    ("archived", "the older revisions are archived"),
    ("deleted", "it does not exist"),
    (
        "revision=",
        "the current revision has this number, or a higher one",
    ),
    ("condition=", "a condition has a status, by default True"),
];

/// The conditions of deployments and revisions.
pub(crate) const CONDITIONS: [(&str, &str); 9] = [
    (conditions::AVAILABLE, ""),
    (conditions::PROGRESSING, "of a deployment"),
    (conditions::PAUSED, ""),
    (conditions::SUCCEEDED, "of a revision"),
    (conditions::IN_TRANSITION, "of a revision"),
    (conditions::ARCHIVED, "of a revision"),
    (conditions::READY, "rolled out and available"),
    (conditions::RECONCILING, "being rolled out"),
    (conditions::STALLED, "refused, or past its deadline"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The wanted content is rolled out and available.
    RolledOut,
    /// The condition `Available` is true; a deployment may have it from an older revision.
    Available,
    /// The revision has succeeded; for a deployment, the current revision.
    Succeeded,
    /// The objects of the revision are gone or handed over; for a deployment, those of all
    /// revisions but the current one.
    Archived,
    /// The object does not exist.
    Deleted,
    /// The current revision has this number or a higher one.
    Revision(i64),
    Condition {
        type_: String,
        /// The status of the condition; the case of its letters is ignored.
        status: String,
    },
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = text.split_once('=').unwrap_or((text, ""));
        Ok(match (word.to_ascii_lowercase().as_str(), value) {
            ("rolled-out", "") => Self::RolledOut,
            ("available", "") => Self::Available,
            ("succeeded", "") => Self::Succeeded,
            ("archived", "") => Self::Archived,
            ("deleted" | "delete", "") => Self::Deleted,
            ("revision", number) => match number.parse() {
                Ok(number) if number > 0 => Self::Revision(number),
                _ => return Err("expected revision=N with a number from 1 on".to_owned()),
            },
            ("condition", condition) if !condition.is_empty() => {
                let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
                Self::Condition {
                    type_: type_.to_owned(),
                    status: status.to_owned(),
                }
            }
            _ => {
                return Err(
                    "expected rolled-out, available, succeeded, archived, deleted, revision=N, condition=TYPE \
                     or condition=TYPE=STATUS"
                        .to_owned(),
                );
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GoalState {
    /// The goal is reached; the text is printed.
    Yes(String),
    /// The goal is not reached; the text says why.
    No(String),
    /// The goal cannot be reached any more; the text says why.
    Never(String),
}

pub(crate) async fn run(args: &WaitArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let allowed = [
        SubjectKind::Chain,
        SubjectKind::SiteDeployment,
        SubjectKind::Application,
    ];
    let target = match Subject::parse(&args.target.words, &allowed)? {
        Subject::SiteDeployment(target) => return site::run(&target, args, global).await,
        Subject::Application(target) => return application::run(&target, args, global).await,
        subject => subject.chain()?,
    };
    let cluster = global.connect().await?;
    let mut wait = Wait::new();
    let (_, reached) = watch_until(&cluster, &target, args.timeout, async |chain| match chain {
        Some(chain) => wait.stop_text(check_goal(chain, &args.what)),
        None if args.what == Goal::Deleted => Some(Ok(wait.absence(&target))),
        None => None,
    })
    .await?;
    wait.end(reached, args, global)
}

/// Follows an object until `check` finds that its goal is reached, or cannot be reached; it returns
/// `None` once the object is gone.
async fn follow_goal<Q: Question>(
    cluster: &Cluster,
    question: Q,
    name: &impl Display,
    (args, global): (&WaitArgs, &GlobalArgs),
    check: impl Fn(&Q::Answer) -> Option<GoalState>,
) -> Result<Exit, Error> {
    let mut wait = Wait::new();
    let found = async {
        let mut follower = Follower::start(cluster, question).await?;
        let look = async |answer: &Q::Answer| match check(answer) {
            Some(state) => wait.stop_text(state),
            None => Some(Ok(wait.absence(name))),
        };
        until(&mut follower, name, args.timeout, None, look).await
    };
    let reached = match found.await {
        // The goal was the deletion of the object.
        Err(Error::NotFound(_)) if args.what == Goal::Deleted => Some(Ok(wait.absence(name))),
        found => found?,
    };
    wait.end(reached, args, global)
}

/// A wait with its display.
struct Wait {
    shown: Bars,
    /// True if the object existed during the wait.
    existed: bool,
    /// The reason that the goal was not reached at the last check.
    missing: String,
}

impl Wait {
    fn new() -> Self {
        Self {
            shown: Bars::new(""),
            existed: false,
            missing: String::new(),
        }
    }

    /// The text at the end of the wait, once the goal is reached, or cannot be reached any more.
    /// The object exists.
    fn stop_text(&mut self, reached: GoalState) -> Option<Result<String, String>> {
        self.existed = true;
        match reached {
            GoalState::Yes(message) => Some(Ok(message)),
            GoalState::Never(message) => Some(Err(message)),
            GoalState::No(message) => {
                self.shown.count(0, 0, &message);
                self.missing = message;
                None
            }
        }
    }

    /// The text at the end of a wait for the deletion of an object.
    fn absence(&self, name: &impl Display) -> String {
        if self.existed {
            format!("{name} is deleted")
        } else {
            format!("{name} does not exist")
        }
    }

    /// Reports the end of the wait. Without an outcome the time is up.
    fn end(
        self,
        reached: Option<Result<String, String>>,
        args: &WaitArgs,
        global: &GlobalArgs,
    ) -> Result<Exit, Error> {
        let is_reported = self.shown.is_reported(&self.missing);
        drop(self.shown);
        match reached {
            Some(Ok(message)) => {
                global.output().print(&message)?;
                return Ok(Exit::Fine);
            }
            Some(Err(message)) => report(&format!("error: {message}")),
            None => {
                let waited = duration(args.timeout);
                report(&if is_reported {
                    format!("error: the state is not reached after {waited}")
                } else {
                    format!("error: {} (waited {waited})", self.missing)
                });
            }
        }
        Ok(Exit::Negative)
    }
}

impl GoalState {
    /// The answer to a wait for a rollout with this outcome.
    fn of(outcome: Outcome, message: String) -> Self {
        match outcome {
            Outcome::Done => Self::Yes(message),
            Outcome::Underway => Self::No(message),
            Outcome::Failed => Self::Never(message),
        }
    }
}

fn remains(chain: &Chain) -> String {
    let metadata = match chain.asked_deployment() {
        Some(deployment) => Some((&deployment.object, &deployment.metadata)),
        None => chain
            .subject()
            .map(|revision| (&revision.object, &revision.metadata)),
    };
    let Some((object, metadata)) = metadata else {
        return "it still exists".to_owned();
    };
    let name = name(object);
    if metadata.deletion_timestamp.is_none() {
        return format!("{name} exists, and is not being deleted");
    }
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    format!(
        "{name} is being deleted and waits for its finalizers: {}",
        finalizers.join(", ")
    )
}

/// Checks if a chain has reached a goal.
fn check_goal(chain: &Chain, goal: &Goal) -> GoalState {
    let of_deployment = chain.asked_deployment();
    let subject = chain.subject();
    let object = of_deployment
        .map(|deployment| &deployment.object)
        .or_else(|| subject.map(|revision| &revision.object));
    let name = object.map_or_else(|| "it".to_owned(), name);
    let condition = |type_: &str, status: &str| {
        let (found, generation) = match (of_deployment, subject) {
            (Some(deployment), _) => (deployment.condition(type_), deployment.metadata.generation),
            (None, Some(revision)) => (revision.condition(type_), revision.metadata.generation),
            (None, None) => (None, None),
        };
        judge_condition(&name, type_, status, found, generation)
    };
    match goal {
        Goal::RolledOut => {
            // The number of ready objects is not shown here, so no slices are read.
            let rollout = judge(chain, &Slices::default());
            GoalState::of(rollout.outcome, message(&rollout))
        }
        Goal::Available => match condition(conditions::AVAILABLE, "True") {
            GoalState::Yes(_) => GoalState::Yes(format!("{name} is available")),
            other => other,
        },
        Goal::Condition { type_, status } => condition(type_, status),
        Goal::Succeeded => succeeded(chain, &name),
        Goal::Archived => archived(chain, &name),
        Goal::Revision(number) => {
            let own = match of_deployment {
                Some(deployment) => deployment.status.revision,
                None => chain.newest().and_then(Revision::number),
            };
            match own {
                Some(own) if own >= *number => {
                    GoalState::Yes(format!("{name} is at revision {own}"))
                }
                Some(own) => GoalState::No(format!("{name} is at revision {own}")),
                None => GoalState::No(format!("{name} has no revision yet")),
            }
        }
        // This chain was read, so it exists.
        Goal::Deleted => GoalState::No(remains(chain)),
    }
}

/// Checks if a condition has a status. If the condition has a generation, it must be the present
/// one.
fn judge_condition(
    name: &str,
    type_: &str,
    status: &str,
    found: Option<&Condition>,
    generation: Option<i64>,
) -> GoalState {
    let Some(found) = found else {
        return GoalState::No(format!("{name} has no condition {type_}"));
    };
    let stale = matches!(
        (found.observed_generation, generation),
        (Some(reported), Some(now)) if reported != 0 && reported < now
    );
    if stale {
        return GoalState::No(format!(
            "the condition {type_} of {name} is about an earlier spec"
        ));
    }
    if found.status.eq_ignore_ascii_case(status) {
        return GoalState::Yes(format!("{name} has the condition {type_}={}", found.status));
    }
    let because = [found.reason.as_str(), found.message.as_str()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    GoalState::No(format!(
        "{name} has {type_}={} because of {because}",
        found.status
    ))
}

fn succeeded(chain: &Chain, name: &str) -> GoalState {
    match chain.subject() {
        Some(revision) if revision.has_succeeded() => {
            GoalState::Yes(format!("{} of {name} has succeeded", title(revision)))
        }
        _ => {
            // The number of ready objects is not shown here, so no slices are read.
            let rollout = judge(chain, &Slices::default());
            let message = match rollout.outcome {
                Outcome::Failed | Outcome::Underway => message(&rollout),
                // This does not occur: a revision that is available and has not succeeded is
                // underway.
                Outcome::Done => String::new(),
            };
            GoalState::No(format!("{name} has not succeeded: {message}"))
        }
    }
}

/// Checks if a revision is archived, or all revisions of a deployment but the current one.
fn archived(chain: &Chain, name: &str) -> GoalState {
    let is_archived = |revision: &Revision| revision.is_true(conditions::ARCHIVED);
    if chain.named.is_some() || chain.deployment.is_none() {
        return match chain.subject() {
            Some(revision) if is_archived(revision) => {
                GoalState::Yes(format!("{name} is archived"))
            }
            Some(revision) => {
                let holds = revision.status.controller_of.len();
                let state = revision.state().as_str();
                GoalState::No(format!("{name} is {state} and controls {holds} objects"))
            }
            None => GoalState::No(format!("{name} has no revision yet")),
        };
    }
    let Some(current) = chain.current() else {
        return GoalState::No(format!("{name} has no revision for its template yet"));
    };
    let open: Vec<&str> = chain
        .newest_first()
        .filter(|revision| revision.uid() != current.uid() && !is_archived(revision))
        .map(Revision::name)
        .collect();
    if open.is_empty() {
        GoalState::Yes(format!(
            "all revisions of {name} but the current one are archived"
        ))
    } else {
        GoalState::No(format!(
            "these revisions of {name} are not archived: {}",
            open.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::selection::from_objects;

    #[test]
    fn goals_are_named_as_in_kubectl_wait() {
        let condition = |type_: &str, status: &str| Goal::Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
        };
        for (text, expected) in [
            ("rolled-out", Goal::RolledOut),
            ("available", Goal::Available),
            ("Succeeded", Goal::Succeeded),
            ("archived", Goal::Archived),
            ("deleted", Goal::Deleted),
            ("delete", Goal::Deleted),
            ("revision=3", Goal::Revision(3)),
            ("condition=Paused", condition("Paused", "True")),
            (
                "condition=example.com/Ready=false",
                condition("example.com/Ready", "false"),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "ready",
            "revision",
            "revision=0",
            "revision=x",
            "condition=",
            "available=yes",
        ] {
            text.parse::<Goal>().unwrap_err();
        }
    }

    fn chain(generation: i64, status: &str) -> Chain {
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "generation": generation},
            "spec": {"revision": 4},
            "status": {"conditions": [{
                "type": "Available", "status": status, "reason": "ProbeFailure", "message": "no",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        from_objects(Vec::new(), vec![set]).remove(0)
    }

    /// The older revision keeps the deployment available, and the newest one has failed.
    #[test]
    fn a_failed_rollout_is_not_rolled_out_by_an_available_older_revision() {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": message,
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let phases = json!([{"name": "a", "objects": [{"object": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}]}]);
        let late = "ObjectSet \"web-2\" exceeded its progress deadline.";
        let verdict = |progressing: Value, goal: &str| {
            let deployment = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 1},
                "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"phases": phases}}},
                "status": {"conditions": [condition("Available", "True", "Available", ""), progressing]},
            });
            let set = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "metadata": {"name": "web-2", "namespace": "shop", "uid": "u", "generation": 1,
                    "ownerReferences": [{"apiVersion": "package-operator.run/v1alpha1",
                        "kind": "ObjectDeployment", "name": "web", "uid": "d", "controller": true}]},
                "spec": {"revision": 2, "phases": phases},
                "status": {"conditions": [condition("Available", "False", "ProbeFailure", "not ready")]},
            });
            let chains = from_objects(vec![deployment], vec![set]);
            check_goal(&chains[0], &goal.parse().unwrap())
        };
        let under_way = condition("Progressing", "True", "Progressing", "");
        let failed = condition("Progressing", "False", "ProgressDeadlineExceeded", late);
        let available = "objectdeployment.package-operator.run/web is available".to_owned();
        for (progressing, goal, expected) in [
            (
                &under_way,
                "rolled-out",
                GoalState::No("not ready".to_owned()),
            ),
            (&failed, "rolled-out", GoalState::Never(late.to_owned())),
            (&failed, "available", GoalState::Yes(available)),
        ] {
            assert_eq!(verdict(progressing.clone(), goal), expected);
        }
    }

    #[test]
    fn a_wait_reports_the_unmet_condition() {
        let words = |chain: &Chain, goal: &str| match check_goal(chain, &goal.parse().unwrap()) {
            GoalState::Yes(message) => format!("yes: {message}"),
            GoalState::No(message) => message,
            GoalState::Never(message) => format!("never: {message}"),
        };
        let name = "objectset.package-operator.run/web-1";
        let waiting = chain(2, "False");
        assert_eq!(
            words(&waiting, "available"),
            format!("{name} has Available=False because of ProbeFailure: no")
        );
        assert_eq!(
            words(&waiting, "condition=Available=false"),
            format!("yes: {name} has the condition Available=False")
        );
        assert_eq!(
            words(&waiting, "condition=Paused"),
            format!("{name} has no condition Paused")
        );
        assert_eq!(
            words(&waiting, "revision=5"),
            format!("{name} is at revision 4")
        );
        assert_eq!(
            words(&waiting, "revision=3"),
            format!("yes: {name} is at revision 4")
        );
        assert_eq!(
            words(&chain(2, "True"), "available"),
            format!("yes: {name} is available")
        );
        assert_eq!(
            words(&chain(3, "True"), "available"),
            format!("the condition Available of {name} is about an earlier spec")
        );
        assert_eq!(
            words(&waiting, "archived"),
            format!("{name} is NotReady and controls 0 objects")
        );
    }
}
