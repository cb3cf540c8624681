//! An agent that is killed in the middle of its work.

use std::cell::RefCell;

use baton_integration::faults::{Answer, Faults, Gate, On};
use baton_integration::sites::{PULL, Site};

use super::{Side, pulled};
use crate::rollout::{Stage, calm};

/// Eleven times, each with a write on its way that nobody has seen the end of.
#[tokio::test]
async fn an_agent_is_killed_in_the_middle_of_its_work() {
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
        // With the next write of a side on its way.
        let kill = async |side: &Faults| {
            let answer = if carried_out {
                Answer::HangUp { carried_out }
            } else {
                Answer::Held(Gate::default())
            };
            // Heartbeats come anyway.
            let work = On::writes().path("/(configmaps|objectsetphases)/(?:in-|new|old|v[12]-)");
            side.inject(work.times(1), answer).used(1).await;
            agent.borrow_mut().kill();
            side.heal();
            agent.borrow_mut().start();
        };
        let kills = RefCell::new(0);
        let strike = async |stage| {
            // A write that is carried out is no more to be done; of those that are held, none is.
            let sides = match stage {
                Stage::First | Stage::Second => vec![&own, &hub, &own, &hub],
                Stage::Archival => vec![&own, &hub, &hub],
            };
            for side in sides {
                kill(side).await;
                *kills.borrow_mut() += 1;
            }
        };
        rollout.run(strike).await;
        rollout
            .assert_calm(&format!("kills, the write carried out: {carried_out}"))
            .await;
        assert_eq!(kills.into_inner(), 11);
    }
}
