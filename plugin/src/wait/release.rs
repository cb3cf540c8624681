//! The end of a wait for a step of a Release, after a command has changed an Application.

use std::time::Duration;

use baton_apis::{ReleaseEnvironment, kinds};
use baton_cluster::{Cluster, Write};
use baton_kubernetes::wire::MediaType;
use baton_terminal::output::{Print as _, report};
use baton_text::{
    application::{refusal::refused, verdict::message},
    output::Output,
    time::duration,
};
use baton_view::{
    applications::{
        history::{current, wants},
        observed::Observed,
        state::judge,
        steer::{Refusal, StepChoice, promote, step_outcome},
        target::AppTarget,
    },
    rollout::Outcome,
};

use super::{
    application::watch_until,
    applied::{AppliedEnd, report_superseded},
};
use crate::error::Error;

/// A wait for the Release of an environment that was applied.
pub(crate) struct ReleaseWait {
    pub(crate) application: AppTarget,
    /// The applied environment.
    pub(crate) wanted: ReleaseEnvironment,
    /// The longest time to wait for each step; zero for no limit.
    pub(crate) timeout: Duration,
    /// True to send the Release to its last step at once, and to wait for that step instead of the
    /// first one.
    pub(crate) full: bool,
}

impl ReleaseWait {
    /// Waits until the Release has achieved the step, has failed, the Application wants another
    /// environment, or the time is up. Reports the end.
    pub(crate) async fn end(&self, cluster: &Cluster, output: Output) -> Result<AppliedEnd, Error> {
        // The manager may not have made the Release yet: `current` is `None` until then.
        let is_superseded = |observed: &Observed| !wants(observed, &self.wanted);
        if self.full {
            let (observed, _) = self
                .watch(cluster, |observed| {
                    (is_superseded(observed) || current(observed).is_some()).then_some(())
                })
                .await?;
            if !is_superseded(&observed) && current(&observed).is_some() {
                send_to_the_end(cluster, &observed, output).await?;
            }
        }
        let (observed, arrived) = self
            .watch(cluster, |observed| {
                if is_superseded(observed) {
                    return Some(Outcome::Failed);
                }
                current(observed)?;
                if self.full {
                    return Some(judge(observed).outcome).filter(|it| *it != Outcome::Underway);
                }
                step_outcome(observed)
            })
            .await?;
        if is_superseded(&observed) {
            report_superseded(&self.application, "template");
            return Ok(AppliedEnd::Superseded);
        }
        report_end(&observed, arrived, self.timeout, output)
    }

    async fn watch<T>(
        &self,
        cluster: &Cluster,
        look: impl FnMut(&Observed) -> Option<T>,
    ) -> Result<(Observed, Option<T>), Error> {
        watch_until(cluster, &self.application, self.timeout, look).await
    }
}

/// Sends the newest Release to its last step, although it may not have achieved the first one.
async fn send_to_the_end(
    cluster: &Cluster,
    observed: &Observed,
    output: Output,
) -> Result<(), Error> {
    let promotion = match promote(observed, StepChoice::Last, true) {
        Err(Refusal::AtTheEnd(..)) => return Ok(()),
        promotion => promotion.map_err(|refusal| Error::Impossible(refused(observed, &refusal)))?,
    };
    let Some(patch) = &promotion.patch else {
        return Ok(());
    };
    let release = &promotion.release;
    let url = kinds::RELEASE.path_of(Some(&cluster.namespace), release);
    let write = Write::new(MediaType::JsonPatch, false);
    let written = cluster.write(&url, write, patch).await;
    written.map_err(|error| {
        error.of_write(|| {
            format!("release {release} has changed since it was read; it was not promoted")
        })
    })?;
    let label = &promotion.label;
    let line = format!("release.shipper.booking.com/{release} sent to step {label}");
    Ok(output.print(&line)?)
}

/// Reports the end of a wait for a step.
pub(crate) fn report_end(
    observed: &Observed,
    arrived: Option<Outcome>,
    timeout: Duration,
    output: Output,
) -> Result<AppliedEnd, Error> {
    let message = message(&judge(observed));
    match arrived {
        Some(Outcome::Done) => {
            output.print(&message)?;
            return Ok(AppliedEnd::RolledOut);
        }
        Some(_) => report(&format!("error: {message}")),
        None => {
            let waited = duration(timeout);
            report(&format!(
                "error: the step is not achieved after {waited}: {message}"
            ));
        }
    }
    Ok(AppliedEnd::NotRolledOut)
}
