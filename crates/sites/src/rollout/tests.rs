mod failures;
mod outages;
mod queue;
mod reports;
mod waves;

use baton_apis::{
    AfterCanary, CanaryStrategy, OnError, RollingStrategy, SiteStrategy, StrategyType,
    conditions::{ABORTED, AVAILABLE, PLACED, PROGRESSING, READY, RECONCILING, STALLED, WAITING},
};
use baton_engine::stored_time::end_of;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    world::{DEADLINE, Outcome, World},
    *,
};

fn rolling(parallel: IntOrString) -> SiteStrategy {
    SiteStrategy {
        type_: StrategyType::Rolling,
        rolling: Some(RollingStrategy {
            sites_in_parallel: parallel,
        }),
        ..SiteStrategy::default()
    }
}

fn by(parallel: i32) -> SiteStrategy {
    rolling(IntOrString::Int(parallel))
}

fn canary(sites: i32, then: AfterCanary) -> SiteStrategy {
    SiteStrategy {
        type_: StrategyType::Canary,
        canary: Some(CanaryStrategy {
            sites: Some(sites),
            match_site_labels: None,
            then,
        }),
        ..by(2)
    }
}

fn canary_by(labels: &str) -> SiteStrategy {
    SiteStrategy {
        canary: Some(CanaryStrategy {
            sites: None,
            match_site_labels: Some(labels.to_owned()),
            then: AfterCanary::AllAtOnce,
        }),
        ..canary(1, AfterCanary::AllAtOnce)
    }
}

/// A world in which version 1 is everywhere.
fn settled(sites: usize, strategy: SiteStrategy) -> World {
    let mut world = World::new(sites);
    world.run();
    world.sample.spec.strategy = strategy;
    world.created.clear();
    world
}

fn with(mut strategy: SiteStrategy, change: impl FnOnce(&mut SiteStrategy)) -> SiteStrategy {
    change(&mut strategy);
    strategy
}

fn revision(name: &Arc<str>, number: i64, version: &str, state: RevisionState) -> Revision {
    let beginning = match state {
        RevisionState::Queued | RevisionState::Skipped => RevisionStart::None,
        _ => RevisionStart::Begun,
    };
    Revision {
        name: format!("{name}-{number}").into(),
        number,
        entry: Arc::new(SiteEntry {
            application: "shop".to_owned(),
            version: version.to_owned(),
            rollout: number,
            batch: 1,
            ..SiteEntry::default()
        }),
        state,
        beginning,
        is_deleting: false,
        is_archiving: false,
    }
}

/// A site with these revisions that can be reached.
fn site(chain: Vec<Revision>) -> Site {
    Site {
        is_placed: true,
        is_online: true,
        uptime: Uptime::default(),
        is_canary: false,
        chain,
    }
}
