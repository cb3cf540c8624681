//! Measures the time that the planner of rollouts takes for one step of many sites. It is pure: no
//! request is sent.

use std::hint::black_box;
use std::time::{Duration, Instant};

use baton_apis::{RollingStrategy, SiteStrategy, StrategyType};
use baton_sites::rollout::plan;
use baton_sites::rollout::sample::Sample;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

/// Sites of a plan.
const SITES: usize = 10_000;

/// Number of times that each plan is made. The fastest counts, since only other processes make it
/// slower.
const TIMES: u32 = 50;

/// One step of the planner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Planned {
    /// The decision of the plan.
    pub(crate) what: &'static str,
    /// Number of sites.
    pub(crate) sites: usize,
    pub(crate) milliseconds: f64,
}

/// Measures the steps of a rollout.
pub(crate) fn measure() -> Vec<Planned> {
    let mut planned = Vec::new();
    let mut sample = Sample::new(SITES);
    planned.push(step("first version, all at once", &sample));
    sample.roll_out();
    planned.push(step("nothing to do", &sample));
    sample.request_version("2");
    planned.push(step("next version, all at once", &sample));
    sample.spec.strategy = SiteStrategy {
        type_: StrategyType::Rolling,
        rolling: Some(RollingStrategy {
            sites_in_parallel: IntOrString::String("10%".to_owned()),
        }),
        ..SiteStrategy::default()
    };
    planned.push(step("next version, first wave of a tenth", &sample));
    sample.carry_out(plan(&sample.observed()));
    planned.push(step("next version, a wave under way", &sample));
    sample.roll_out();
    sample.spec.strategy = SiteStrategy::default();
    for version in ["3", "4"] {
        sample.request_version(version);
        sample.roll_out();
    }
    sample.request_version("5");
    planned.push(step(
        "fifth version with a full history, all at once",
        &sample,
    ));
    planned
}

fn step(what: &'static str, sample: &Sample) -> Planned {
    let observed = sample.observed();
    let time = || {
        let started = Instant::now();
        let plan = black_box(plan(black_box(&observed)));
        let elapsed = started.elapsed();
        drop(plan);
        elapsed
    };
    let fastest = (0..TIMES).map(|_| time()).min();
    Planned {
        what,
        sites: SITES,
        milliseconds: 1000.0 * fastest.as_ref().map_or(0.0, Duration::as_secs_f64),
    }
}
