//! The end of a wait for content that a command has applied: the same output and exit codes for every
//! command.

use std::{fmt::Display, time::Duration};

use baton_cluster::Cluster;
use baton_terminal::output::{Print as _, report};
use baton_text as text;
use baton_text::{
    output::Output,
    rollout::{failure, message},
};
use baton_view::{
    chain::{Chain, target::Target},
    rollout::{Outcome, Rollout},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::chain::follow_applied;
use crate::error::Error;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppliedEnd {
    RolledOut,
    NotRolledOut,
    /// Other content was applied meanwhile.
    Superseded,
}

/// A wait for content that was applied.
pub(crate) struct AppliedWait<'a> {
    /// The deployment or revision.
    pub(crate) target: &'a Target,
    /// The object that the server returned for the write; null if later writes are ignored.
    pub(crate) applied: &'a Value,
    /// The longest time to wait; zero for no limit.
    pub(crate) timeout: Duration,
}

impl AppliedWait<'_> {
    /// Waits until the content is rolled out, is refused persistently, is superseded, or the time is
    /// up. Reports the end, and returns the last state.
    pub(crate) async fn end(
        &self,
        cluster: &Cluster,
        output: Output,
    ) -> Result<(AppliedEnd, Chain, Rollout), Error> {
        let superseded = |chain: &Chain| is_superseded(chain, self.applied);
        let (chain, rollout) =
            follow_applied(cluster, self.target, self.timeout, superseded).await?;
        let end = self.report(&chain, &rollout, output)?;
        Ok((end, chain, rollout))
    }

    fn report(
        &self,
        chain: &Chain,
        rollout: &Rollout,
        output: Output,
    ) -> Result<AppliedEnd, Error> {
        if is_superseded(chain, self.applied) {
            report_superseded(self.target, "template");
            return Ok(AppliedEnd::Superseded);
        }
        let message = message(rollout);
        if rollout.outcome == Outcome::Done {
            output.print(&message)?;
            return Ok(AppliedEnd::RolledOut);
        }
        let plain = Output {
            colors: false,
            ..output
        };
        report(text::status::text(chain, rollout, Timestamp::now(), plain).trim_end());
        let failure = failure(rollout.outcome, &message, self.timeout);
        report(&format!("error: {failure}"));
        Ok(AppliedEnd::NotRolledOut)
    }
}

/// Reports that an object wants something else than what was applied.
pub(crate) fn report_superseded(target: impl Display, what: &str) {
    report(&format!(
        "error: superseded: {target} has another {what} now, so this one is not rolled out; \
         `kubectl baton wait {target}` waits for the other one"
    ));
}

/// True if the deployment got another template, or was created anew, since it was applied.
fn is_superseded(chain: &Chain, applied: &Value) -> bool {
    let deployment = chain.deployment.as_ref().filter(|_| !applied.is_null());
    deployment.is_some_and(|deployment| {
        let now = &deployment.object;
        ["/metadata/uid", "/spec/template"]
            .iter()
            .any(|field| now.pointer(field) != applied.pointer(field))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selection::from_objects;

    #[test]
    fn a_deployment_with_another_template_is_superseded() {
        let deployment = |uid: &str, phase: &str| {
            json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                "metadata": {"name": "web", "namespace": "shop", "uid": uid},
                "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"phases": [{"name": phase}]}}},
            })
        };
        let applied = deployment("d", "a");
        for (now, expected) in [
            (deployment("d", "a"), false),
            (deployment("d", "b"), true),
            (deployment("e", "a"), true),
        ] {
            let chains = from_objects(vec![now.clone()], Vec::new());
            assert_eq!(is_superseded(&chains[0], &applied), expected, "{now}");
            assert!(!is_superseded(&chains[0], &Value::Null));
        }
        let mut paused = applied.clone();
        paused["spec"]["paused"] = true.into();
        let chains = from_objects(vec![paused], Vec::new());
        assert!(!is_superseded(&chains[0], &applied));
    }
}
