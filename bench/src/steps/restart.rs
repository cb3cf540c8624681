//! The restart of a manager.

use std::time::Duration;

use baton_hack::manager::Manager;
use tokio::time::Instant;

use super::{StepStart, Steps};
use crate::error::Error;
use crate::figures::{Step, Timing};

/// The pause between two reads of the metrics if the reads determine the measured time.
const SHORT_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Restart {
    /// Processor time of the servers when the manager before was asked to stop.
    server: f64,
    started: Instant,
    pub(super) ready: Duration,
    /// The time since which there is nothing left to do.
    pub(super) settled: Instant,
}

impl Steps {
    /// Restarts the manager, and waits until it is calm.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        let sets = self.sets();
        // Each revision has to be reconciled once.
        let restart = self.start_again(sets).await?;
        self.restarted("restart", sets, &restart).await
    }

    /// Restarts the manager, and waits until it has ended this number of reconciles and is calm.
    pub(super) async fn start_again(&mut self, reconciles: usize) -> Result<Restart, Error> {
        let server = self.servers.cpu();
        self.manager.stop().await?;
        let started = Instant::now();
        self.manager = Manager::start(&self.launch).await?;
        let ready = started.elapsed();
        let expected = u64::try_from(reconciles).unwrap_or_default();
        let what = "the restarted manager to settle";
        let settled = self
            .wait_until_idle(what, SHORT_POLL_INTERVAL, expected)
            .await?;
        eprintln!("bench: restart: ready after {:.2} s", ready.as_secs_f64());
        Ok(Restart {
            server,
            started,
            ready,
            settled,
        })
    }

    pub(super) async fn restarted(
        &mut self,
        step: &'static str,
        sets: usize,
        restart: &Restart,
    ) -> Result<(), Error> {
        let before = StepStart {
            server: restart.server,
            ..StepStart::default()
        };
        let timing = Timing::of(0, restart.settled - restart.started);
        self.end(Step::new(step, sets, timing), before).await
    }
}
