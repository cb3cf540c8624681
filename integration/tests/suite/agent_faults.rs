//! Delivery by an agent over networks that fail, with API servers that fail, and with an agent that
//! is killed.
//!
//! Each rollout must end as one that the manager delivers undisturbed: nothing is lost, and no
//! object changes more often than necessary.

mod answers;
mod crashes;
mod credentials;
mod network;

use baton_integration::agent::{Agent, Setup};
use baton_integration::endpoint::Endpoint;
use baton_integration::prelude::*;
use baton_integration::sites::Site;

use crate::rollout::Rollout;

/// An API server that an agent talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Hub,
    Site,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Hub, Self::Site];

    /// Returns the real endpoint of the side.
    async fn endpoint(self, site: &Site) -> Endpoint {
        match self {
            Self::Hub => Endpoint::of_bed(Cluster::shared().await.kubeconfig()),
            Self::Site => site.endpoint().clone(),
        }
    }

    /// Sets the endpoint at which an agent reaches the side.
    fn at<'a>(self, setup: Setup<'a>, endpoint: &Endpoint) -> Setup<'a> {
        match self {
            Self::Hub => setup.hub(endpoint),
            Self::Site => setup.site(endpoint),
        }
    }
}

/// Starts a rollout and its agent. The objects are recorded, unless the test stops the API server.
async fn pulled(
    site: &Site,
    setup: impl for<'a> FnOnce(Setup<'a>) -> Setup<'a>,
    recorded: bool,
) -> (Rollout, Agent) {
    let rollout = Rollout::without_agent(site).await;
    let agent = setup(rollout.joined.agent()).start().await;
    let patient = rollout.ns.within(crate::rollout::TIMEOUT);
    patient
        .eventually("the agent to be connected", async || {
            let cluster = rollout.joined.read().await.unwrap_or_default();
            let conditions = cluster["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Connected" && condition["status"] == "True")
        })
        .await;
    let rollout = if recorded {
        rollout.recorded().await
    } else {
        rollout
    };
    (rollout, agent)
}
