//! Requests of an agent to the hub and to its own cluster. They must be few: there are many sites,
//! and their lines are slow.

use baton_integration::faults::{Faults, ObservedRequest, Verb};
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, Site};

use crate::agent::Pulled;

/// Number of objects of a phase.
const OBJECTS: usize = 5;

/// True for the heartbeat of an agent.
fn is_heartbeat(request: &ObservedRequest) -> bool {
    request.path.ends_with("/objectsetphases/agent/status")
}

/// Requests of an agent to both sides, without heartbeats and the requests for `/version` that
/// belong to them.
#[derive(Debug, PartialEq)]
struct Cost {
    hub: Vec<(Verb, String)>,
    site: Vec<(Verb, String)>,
}

/// Returns the requests to both sides since the given number of requests to each.
fn since(hub: &Faults, site: &Faults, (at_hub, at_site): (usize, usize)) -> Cost {
    let of = |requests: &[ObservedRequest]| {
        let work = requests
            .iter()
            .filter(|request| !is_heartbeat(request) && request.path != "/version");
        work.map(|request| (request.verb, request.path.clone()))
            .collect()
    };
    Cost {
        hub: of(&hub.requests()[at_hub..]),
        site: of(&site.requests()[at_site..]),
    }
}

fn now(hub: &Faults, site: &Faults) -> (usize, usize) {
    (hub.requests().len(), site.requests().len())
}

/// A delivered phase costs one report, an object costs one request plus a dry run, and an idle
/// agent sends only heartbeats.
#[tokio::test]
async fn delivery_costs_few_requests_and_an_idle_agent_only_heartbeats() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let own = Site::get(PULL).await;
    let joined = own.join(&ns).pull().create().await;
    let hub = Faults::start(&joined.hub_endpoint()).await;
    let site = Faults::start(own.endpoint()).await;
    let agent = joined.agent().hub(hub.endpoint()).site(site.endpoint());
    let agent = agent.start().await;
    joined.becomes("Connected", "True").await;
    let pulled = Pulled { agent, joined, ns };
    let ns = &pulled.ns;
    let create = async |name: &str, previous: &[&str]| {
        let objects = (0..OBJECTS).map(|at| configmap(&format!("cm-{at}")).data("k", name));
        ns.set(name)
            .previous(previous)
            .delegated("a", &pulled.class(), objects)
            .reaching(&[Is("Succeeded", "True"), No("InTransition")])
            .await;
    };
    let count = |requests: &[(Verb, String)], verbs: &[Verb]| {
        let of = |(verb, _): &&(Verb, String)| verbs.contains(verb);
        requests.iter().filter(of).count()
    };
    let start = now(&hub, &site);
    create("v1", &[]).await;
    let cost = since(&hub, &site, start);
    assert_eq!(cost.hub.len(), 1, "one report: {cost:#?}");
    let applies = count(&cost.site, &[Verb::Apply]);
    // Each object but the first has a dry run before the first write.
    assert_eq!(applies, 2 * OBJECTS - 1, "{cost:#?}");
    let start = now(&hub, &site);
    create("v2", &["v1"]).await;
    // The old phase reports last: the new revision has succeeded by then.
    ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])])
        .await;
    let cost = since(&hub, &site, start);
    // The new phase reports that it controls the objects, and the old phase reports that it does
    // not.
    assert!(cost.hub.len() <= 3, "{cost:#?}");
    let changes = count(&cost.site, &[Verb::Apply, Verb::Patch, Verb::Update]);
    assert!(changes <= 2 * OBJECTS, "{cost:#?}");

    let start = now(&hub, &site);
    let heartbeats = |from: usize| {
        hub.requests()[from..]
            .iter()
            .filter(|s| is_heartbeat(s))
            .count()
    };
    ns.eventually("three heartbeats", async || heartbeats(start.0) >= 3)
        .await;
    let idle = since(&hub, &site, start);
    let nothing = Cost {
        hub: Vec::new(),
        site: Vec::new(),
    };
    assert_eq!(idle, nothing);
}
