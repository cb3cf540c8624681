//! An agent that is killed in the middle of its work.

use std::cell::RefCell;

use baton_integration::faults::{Answer, Faults, Gate, On};
use baton_integration::sites::{PULL, Site};

use super::{Side, pulled};
use crate::rollout::{Stage, calm};

/// The agent is killed eleven times, each time with a write whose answer it has not received.
#[tokio::test]
async fn a_rollout_is_completed_by_an_agent_that_is_killed_repeatedly() {
    calm().await;
    let site = &Site::get(PULL).await;
    let hub = Faults::start(&Side::Hub.endpoint(site).await).await;
    let own = Faults::start(site.endpoint()).await;
    for carried_out in [false, true] {
        let (rollout, agent) = pulled(
            site,
            |setup| setup.hub(hub.endpoint()).site(own.endpoint()),
            true,
        )
        .await;
        let agent = RefCell::new(agent);
        // The agent is killed while the next write to a side is in transit.
        let kill = async |side: &Faults| {
            let answer = if carried_out {
                Answer::HangUp { carried_out }
            } else {
                Answer::Held(Gate::default())
            };
            // Heartbeats are sent in any case, so they are not counted.
            let work = On::writes().path("/(configmaps|objectsetphases)/(?:in-|new|old|v[12]-)");
            side.inject(work.times(1), answer).used(1).await;
            agent.borrow_mut().kill();
            side.heal();
            agent.borrow_mut().start();
        };
        let kills = RefCell::new(0);
        let disturb = async |stage| {
            // The archival has too few writes for a fourth kill: a write that was carried out is
            // not repeated.
            let sides = match stage {
                Stage::First | Stage::Second => vec![&own, &hub, &own, &hub],
                Stage::Archival => vec![&own, &hub, &hub],
            };
            for side in sides {
                kill(side).await;
                *kills.borrow_mut() += 1;
            }
        };
        rollout.run(disturb).await;
        rollout
            .assert_calm(&format!("kills, the write carried out: {carried_out}"))
            .await;
        assert_eq!(kills.into_inner(), 11);
    }
}
