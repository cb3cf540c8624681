//! The tenant that is not to notice the attacks.

use std::time::{Duration, Instant};

use baton_integration::prelude::*;
use tokio::time::sleep;

/// Time between two reads of a revision.
const POLL: Duration = Duration::from_millis(20);

/// Time between two revisions.
const PAUSE: Duration = Duration::from_millis(500);

/// Time after which a revision counts as stuck.
const STUCK: Duration = Duration::from_mins(2);

/// The label of the object that nobody changes.
const STEADY: &str = "baton-adversary";

pub(crate) struct Victim {
    ns: TestNamespace,
}

/// The times of revisions from their creation until they are available, and of single requests of the
/// same time.
#[derive(Default)]
pub(crate) struct Latencies {
    pub(crate) revisions: Vec<Duration>,
    pub(crate) requests: Vec<Duration>,
}

impl Victim {
    pub(crate) async fn new() -> Self {
        let ns = TestNamespace::new(Scope::Namespaced).await;
        let steady = configmap("steady").label(STEADY, "steady").data("k", "v");
        ns.set("steady").phase("a", [steady]).available().await;
        Self { ns }
    }

    pub(crate) fn ns(&self) -> &TestNamespace {
        &self.ns
    }

    /// Records the changes of the steady object.
    pub(crate) async fn recording(&self) -> Recording {
        let like = self.ns.reference(&configmap("steady"));
        Recording::start(self.ns.cluster(), &like, STEADY).await
    }

    /// Rolls out lone revisions for this time.
    pub(crate) async fn rolled_out(&self, time: Duration) {
        let _ = self.while_under(sleep(time)).await;
    }

    /// Rolls out lone revisions, one after the other, until the attack ends.
    pub(crate) async fn while_under(&self, attack: impl Future<Output = ()>) -> Latencies {
        let mut latencies = Latencies::default();
        let mut attack = std::pin::pin!(attack);
        let mut has_ended = false;
        // The last revision is measured whole.
        while !has_ended {
            let revision = self.roll_out(&mut latencies);
            let mut revision = std::pin::pin!(revision);
            tokio::select! {
                () = &mut revision => {}
                () = &mut attack => {
                    has_ended = true;
                    revision.await;
                }
            }
        }
        latencies
    }

    async fn roll_out(&self, latencies: &mut Latencies) {
        let plain = self.ns.reference(&configmap("plain"));
        let start = Instant::now();
        self.ns.cluster().apply(&plain, "tests").await.unwrap();
        latencies.requests.push(start.elapsed());
        let start = Instant::now();
        let lone = self.ns.set("lone");
        lone.phase("a", [configmap("lone")]).create().await;
        let available = [Is("Available", "True")];
        while !self.ns.read_set("lone").await.has(&available) {
            assert!(start.elapsed() < STUCK, "a lone revision is stuck");
            sleep(POLL).await;
        }
        latencies.revisions.push(start.elapsed());
        self.ns.delete_set("lone", "Background").await;
        let gone = self.ns.within(STUCK);
        gone.eventually("the lone revision to be gone", async || {
            let set = self.ns.set_ref("lone");
            self.ns.cluster().get(&set).await.is_none()
        })
        .await;
        sleep(PAUSE).await;
    }
}

pub(crate) fn worst(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
