//! `wait` for a deployment to sites.

use baton_apis::{SiteDeployment, conditions};
use baton_engine::condition_list::find;
use baton_text::fleet;
use baton_view::sites::{
    observed::status, question::SiteQuestion, target::SiteTarget, verdict::judge,
};

use super::{Goal, GoalState, WaitArgs, follow_goal, judge_condition};
use crate::{args::GlobalArgs, commands::Exit, error::Error};

pub(crate) async fn run(
    target: &SiteTarget,
    args: &WaitArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let unknown = match &args.what {
        Goal::Succeeded => Some("succeeded"),
        Goal::Archived => Some("archived"),
        Goal::Revision(_) => Some("revision"),
        _ => None,
    };
    if let Some(what) = unknown {
        return Err(Error::Usage(format!(
            "--for {what} is for deployments and revisions; of a deployment to sites it is rolled-out, available, \
             deleted or condition=TYPE"
        )));
    }
    let cluster = global.connect().await?;
    let question = SiteQuestion::<SiteDeployment>::new(target, &cluster.namespace);
    let check = |deployment: &SiteDeployment| Some(check_goal(target, deployment, &args.what));
    follow_goal(&cluster, question, target, (args, global), check).await
}

/// Checks if a deployment has reached a goal.
fn check_goal(target: &SiteTarget, deployment: &SiteDeployment, goal: &Goal) -> GoalState {
    let name = target.full();
    let status = status(deployment);
    let condition = |type_: &str, value: &str| {
        let found = find(&status.conditions, type_);
        judge_condition(&name, type_, value, found, deployment.metadata.generation)
    };
    match goal {
        Goal::Available => match condition(conditions::AVAILABLE, "True") {
            GoalState::Yes(_) => GoalState::Yes(format!("{name} is available")),
            other => other,
        },
        Goal::Condition { type_, status } => condition(type_, status),
        Goal::Deleted if deployment.metadata.deletion_timestamp.is_some() => {
            GoalState::No(format!("{name} is being deleted"))
        }
        Goal::Deleted => GoalState::No(format!("{name} exists, and is not being deleted")),
        _ => {
            let verdict = judge(deployment);
            let message = format!("{target}: {}", fleet::message(&verdict));
            GoalState::of(verdict.outcome, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{condition, deployment};

    #[test]
    fn an_aborted_rollout_is_not_waited_for() {
        let target = SiteTarget::deployment("shop");
        let looked = |conditions: &[serde_json::Value], goal: &Goal| {
            let mut object = deployment("shop");
            object["status"]["conditions"] = conditions.into();
            check_goal(&target, &serde_json::from_value(object).unwrap(), goal)
        };
        let progressing = condition("Progressing", "True", "RollingOut", "wave 2 of 3");
        assert_eq!(
            looked(std::slice::from_ref(&progressing), &Goal::RolledOut),
            GoalState::No("sitedeploy/shop: wave 2 of 3".to_owned())
        );
        let aborted = condition("Aborted", "True", "SiteFailed", "eu-4 failed");
        assert_eq!(
            looked(&[aborted, progressing], &Goal::RolledOut),
            GoalState::Never("sitedeploy/shop: eu-4 failed".to_owned())
        );
        let complete = condition("Progressing", "False", "Complete", "");
        let available = condition("Available", "True", "Available", "");
        let both = [complete, available];
        assert!(matches!(
            looked(&both, &Goal::RolledOut),
            GoalState::Yes(text) if text.starts_with("sitedeploy/shop: version 1.2.0 is in")
        ));
        assert!(matches!(looked(&both, &Goal::Available), GoalState::Yes(_)));
        assert!(matches!(looked(&both, &Goal::Deleted), GoalState::No(_)));
    }
}
