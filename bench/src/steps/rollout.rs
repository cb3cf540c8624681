//! Rollouts of revisions without a deployment, and their teardown.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use super::wait::{ExpectedState, until_met};
use super::{POLL_INTERVAL, Steps};
use crate::error::Error;
use crate::figures::{Step, Timing};
use crate::load::{Shape, set_name};
use crate::target::Target;
use crate::watch::Watch;

/// Number of lone sets.
const LONE: usize = 20;

impl Steps {
    /// Rolls out first revisions, until all are available.
    pub(crate) async fn create(&mut self) -> Result<(), Error> {
        let wanted = self.all(1, ExpectedState::Available).collect();
        let sets = self.figures.shape.bodies(1);
        self.roll_out("create", sets, wanted).await
    }

    /// Rolls out second revisions, until all are available and the first ones control nothing.
    pub(crate) async fn handover(&mut self) -> Result<(), Error> {
        let old = self.all(1, ExpectedState::ControlsNothing);
        let wanted = old.chain(self.all(2, ExpectedState::Available)).collect();
        let sets = self.figures.shape.bodies(2);
        self.roll_out("handover", sets, wanted).await
    }

    /// Rolls out third revisions with the same content, until all are available and the second ones
    /// control nothing.
    pub(crate) async fn unchanged(&mut self) -> Result<(), Error> {
        let old = self.all(2, ExpectedState::ControlsNothing);
        let wanted = old.chain(self.all(3, ExpectedState::Available)).collect();
        let sets = self.figures.shape.bodies(3);
        self.roll_out("unchanged", sets, wanted).await
    }

    pub(super) async fn roll_out(
        &mut self,
        step: &'static str,
        sets: BTreeMap<String, Value>,
        wanted: BTreeMap<String, ExpectedState>,
    ) -> Result<(), Error> {
        let before = self.begin().await?;
        let limit = self.limit();
        let started = Instant::now();
        let create = self.target.create_all(self.target.sets(), &sets);
        let created = self
            .manager
            .until("ObjectSets to be created", limit, create);
        let answers = created.await??;
        let met = self.until_met(step, wanted).await?;
        let end = met.values().max().copied().unwrap_or(started);
        let latencies = answers
            .iter()
            .filter_map(|(name, answer)| Some(met.get(name)?.saturating_duration_since(answer.at)));
        // The remaining work counts for the step's requests and processor time.
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let timing = Timing::of(self.figures.shape.objects(), end - started);
        let step = Step::new(step, sets.len(), timing).with_latencies(latencies);
        self.end(step, before).await
    }

    /// Rolls out one revision after the other on an otherwise idle manager.
    pub(crate) async fn lone(&mut self) -> Result<(), Error> {
        let shape = Shape {
            sets: 1,
            ..self.figures.shape
        };
        let target = Target::create(&self.client, "bench-lone").await?;
        let mut watch = Watch::start(&self.client, target.sets());
        let before = self.begin().await?;
        let limit = self.limit();
        let mut latencies = Vec::new();
        for number in 0..LONE {
            let name = set_name(number, 1);
            let body = BTreeMap::from([(name.clone(), shape.set(number, 1))]);
            let create = target.create_all(target.sets(), &body);
            let answers = self.manager.until("a lone set", limit, create).await??;
            let mut met = async |wanted| {
                let wanted = BTreeMap::from([(name.clone(), wanted)]);
                let what = "the ObjectSets of lone";
                until_met(&mut self.manager, &mut watch, what, wanted, limit).await
            };
            let available = met(ExpectedState::Available).await?;
            let at = available.values().zip(answers.values());
            latencies.extend(at.map(|(at, answer)| at.saturating_duration_since(answer.at)));
            target.delete_sets(std::slice::from_ref(&name)).await?;
            met(ExpectedState::Gone).await?;
        }
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let timing = Timing::of(LONE * shape.objects(), latencies.iter().sum());
        let step = Step::new("lone", LONE, timing).with_latencies(latencies);
        self.end(step, before).await
    }

    /// Deletes all revisions, and waits until none of their objects is left.
    pub(crate) async fn teardown(&mut self) -> Result<(), Error> {
        // The older revisions are deleted first: without a successor they would take their objects
        // back.
        let all = || (1..=3).flat_map(|revision| self.all(revision, ExpectedState::Gone));
        let names: Vec<String> = all().map(|(name, _)| name).collect();
        let wanted = all().collect();
        let before = self.begin().await?;
        let limit = self.limit();
        let started = Instant::now();
        let delete = self.target.delete_sets(&names);
        self.manager
            .until("ObjectSets to be deleted", limit, delete)
            .await??;
        self.until_met("teardown", wanted).await?;
        let children = self.target.without_children();
        self.manager
            .until("the last object to be gone", limit, children)
            .await??;
        let elapsed = started.elapsed();
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let timing = Timing::of(self.figures.shape.objects(), elapsed);
        self.end(Step::new("teardown", names.len(), timing), before)
            .await
    }

    /// The revisions of all sets with that number, by name.
    pub(super) fn all(
        &self,
        revision: u32,
        wanted: ExpectedState,
    ) -> impl Iterator<Item = (String, ExpectedState)> + use<> {
        (0..self.figures.shape.sets).map(move |number| (set_name(number, revision), wanted))
    }

    async fn until_met(
        &mut self,
        step: &str,
        wanted: BTreeMap<String, ExpectedState>,
    ) -> Result<BTreeMap<String, Instant>, Error> {
        let limit = self.limit();
        let what = format!("the ObjectSets of {step}");
        until_met(&mut self.manager, &mut self.watch, &what, wanted, limit).await
    }
}
