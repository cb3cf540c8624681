//! Tokens of an agent that expire and are replaced while it runs.

use baton_integration::prelude::*;
use baton_integration::sites::{PULL, Site};
use futures::future::join_all;

use super::Side;
use crate::agent_offline::SILENT;
use crate::rollout::{Rollout, Stage, TIMEOUT, calm};

/// The token of one side expires before a delivery, and a new one is written to the same file.
#[tokio::test]
async fn an_agent_uses_a_replaced_token_after_the_old_one_has_expired() {
    calm().await;
    let site = &Site::get(PULL).await;
    join_all(Side::BOTH.map(async |side| {
        let rollout = Rollout::without_agent(site).await;
        let account = match side {
            Side::Hub => rollout.joined.admit_agent().await,
            Side::Site => site.account().await,
        };
        let expiring = account.expiring_token(Duration::from_secs(8));
        let setup = rollout.joined.agent();
        let setup = match side {
            Side::Hub => setup.hub_token(&expiring),
            Side::Site => setup.site_token(&expiring),
        };
        let agent = setup.start().await;
        rollout.joined.becomes("Connected", "True").await;
        let rollout = rollout.recorded().await;
        let endpoint = side.endpoint(site).await;
        endpoint.until_refused(&expiring).await;
        let disturb = async |stage| {
            if stage != Stage::First {
                return;
            }
            let reported = rollout.joined.becomes("Connected", "False").await;
            // The agent can report a fault of the site only if it reaches the hub.
            assert_eq!(
                reported["reason"] == SILENT,
                side == Side::Hub,
                "{reported}"
            );
            let patient = rollout.ns.within(TIMEOUT);
            let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
            patient.reaches("v1", &lost).await;
            let token = account.token().await.text;
            match side {
                Side::Hub => agent.replace_hub_token(&token),
                Side::Site => agent.replace_site_token(&token),
            }
        };
        rollout.run(disturb).await;
        let text = format!("a token of the {side:?} that expires");
        rollout.assert_calm(&text).await;
    }))
    .await;
}
