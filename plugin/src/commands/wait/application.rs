//! `wait` for an Application or a Release.

use baton_apis::ShipperCondition;
use baton_releases::conditions::find;
use baton_steering::releases::question;
use baton_text::application::verdict::message;
use baton_view::applications::{observed::Observed, state::judge, target::AppTarget};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::{Goal, GoalState, WaitArgs, follow_goal, judge_condition};
use crate::{args::GlobalArgs, commands::Exit, error::Error};

pub(crate) async fn run(
    target: &AppTarget,
    args: &WaitArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let unknown = match &args.what {
        Goal::Available => Some("available"),
        Goal::Succeeded => Some("succeeded"),
        Goal::Archived => Some("archived"),
        Goal::Revision(_) => Some("revision"),
        Goal::RolledOut | Goal::Deleted | Goal::Condition { .. } => None,
    };
    if let Some(what) = unknown {
        return Err(Error::Usage(format!(
            "--for {what} is for deployments and revisions; of an application it is rolled-out, deleted or \
             condition=TYPE"
        )));
    }
    let cluster = global.connect().await?;
    let check = |observed: &Observed| {
        // Releases may remain for a while without their Application.
        let is_gone = args.what == Goal::Deleted && is_gone(observed);
        (!is_gone).then(|| check_goal(target, observed, &args.what))
    };
    let question = question(&cluster, target);
    follow_goal(&cluster, question, target, (args, global), check).await
}

/// True if the object that the user named does not exist.
fn is_gone(observed: &Observed) -> bool {
    match &observed.named {
        Some(release) => observed.release(release).is_none(),
        None => observed.application.is_none(),
    }
}

/// Checks if an Application or a Release has reached a goal. An Application whose Release waits for
/// a command is not rolled out.
fn check_goal(target: &AppTarget, observed: &Observed, goal: &Goal) -> GoalState {
    match goal {
        Goal::Condition { type_, status } => {
            let found = find(conditions(observed), type_).map(|found| Condition {
                type_: type_.clone(),
                status: found.status.to_string(),
                reason: found.reason.clone(),
                message: found.message.clone(),
                observed_generation: None,
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
            });
            judge_condition(&target.to_string(), type_, status, found.as_ref(), None)
        }
        Goal::Deleted if is_deleting(observed) => {
            GoalState::No(format!("{target} is being deleted"))
        }
        Goal::Deleted => GoalState::No(format!("{target} exists, and is not being deleted")),
        _ => {
            let verdict = judge(observed);
            let message = format!("{target}: {}", message(&verdict));
            GoalState::of(verdict.outcome, message)
        }
    }
}

/// The conditions of the named Release, or else of the Application.
fn conditions(observed: &Observed) -> &[ShipperCondition] {
    if observed.named.is_some() {
        let status = observed.subject().and_then(|it| it.status.as_ref());
        return status.map_or(&[], |status| &status.conditions);
    }
    let application = observed.application.as_ref();
    let status = application.and_then(|it| it.status.as_ref());
    status.map_or(&[], |status| &status.conditions)
}

fn is_deleting(observed: &Observed) -> bool {
    let metadata = match (&observed.named, &observed.application) {
        (Some(_), _) => observed.subject().map(|it| &it.metadata),
        (None, application) => application.as_ref().map(|it| &it.metadata),
    };
    metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::fixtures::{mid_rollout, observed};

    #[test]
    fn a_release_that_waits_for_a_command_is_not_rolled_out() {
        let target = AppTarget::application("shop");
        let under_way = observed(&mid_rollout());
        let checked = |goal| check_goal(&target, &under_way, &goal);
        assert!(matches!(checked(Goal::RolledOut), GoalState::No(_)));
        let rolling = |status: &str| Goal::Condition {
            type_: "RollingOut".to_owned(),
            status: status.to_owned(),
        };
        assert!(matches!(checked(rolling("True")), GoalState::Yes(_)));
        assert!(matches!(checked(rolling("False")), GoalState::No(_)));
        assert!(matches!(checked(Goal::Deleted), GoalState::No(text) if text.contains("exists")));
        assert!(!is_gone(&under_way));
    }
}
