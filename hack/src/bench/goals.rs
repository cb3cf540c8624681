//! The figures to reach, and whether they were.

use serde::Serialize;

use super::figures::chain::{self, Chain};
use super::figures::fleet::{self, Fleet};
use super::figures::{Figures, Step, number, ratio};

/// A figure, what it should be and what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Goal {
    /// What is looked at.
    pub figure: String,
    /// What was measured.
    pub measured: String,
    /// What it should be.
    pub wanted: String,
    /// Whether it is.
    pub met: bool,
}

/// The least part of the bare rate.
const TO_BARE: f64 = 0.5;
/// The least part of it when phases are handed to a class.
const TO_BARE_DELEGATED: f64 = 0.4;
/// The most requests for each object: a dry run, a write, and a few that have to be repeated.
const PER_OBJECT: f64 = 2.1;
/// The most further requests for each ObjectSet.
const PER_SET: f64 = 4.0;
/// The longest restart in seconds.
const RESTART: f64 = 3.0;
/// The longest way of one ObjectSet to its availability in seconds.
const LONE: f64 = 0.08;
/// The most processor seconds for 1,000 objects.
const CPU: f64 = 2.0;
/// The most of them when phases are handed to a class.
const CPU_DELEGATED: f64 = 3.0;
/// The most memory in MiB for up to so many objects.
const MEMORY: [(usize, f64); 2] = [(2_000, 40.0), (10_000, 100.0)];
/// The most writes on a deployment and its status for each edit of its template.
const PER_EDIT: f64 = 3.0;
/// The most memory in KiB for each archived revision.
const PER_ARCHIVED: f64 = 3.0;
/// The most memory in MiB for each idle connected cluster.
const PER_CLUSTER: f64 = 2.0;
/// The longest restart of a manager with a fleet in seconds.
const RESTART_FLEET: f64 = 10.0;

/// All goals for which something was measured.
#[must_use]
pub fn goals(figures: &Figures) -> Vec<Goal> {
    let mut goals = Vec::new();
    let rollouts: Vec<&Step> = ["create", "handover"]
        .iter()
        .filter_map(|name| figures.step(name))
        .collect();
    for step in &rollouts {
        goals.extend(rate(figures, step));
    }
    let is_delegated = figures.shape.phase_class.is_some();
    for step in &rollouts {
        // What goes to phase objects comes on top of what goes to revisions.
        let count = if is_delegated { 1 } else { 2 };
        goals.extend(requests(step).into_iter().take(count));
    }
    for name in ["idle", "restart", chain::IDLE] {
        goals.extend(figures.step(name).map(|step| Goal {
            figure: format!("{name}: writes"),
            measured: step.writes.to_string(),
            wanted: "0".to_owned(),
            met: step.writes == 0,
        }));
    }
    goals.extend(
        figures
            .step("restart")
            .map(|step| at_most("restart until settled", step.timing.seconds, RESTART, "s")),
    );
    let lone = figures.step("lone").and_then(|step| step.per_set);
    goals.extend(lone.map(|spread| at_most("lone set, median", spread.p50, LONE, "s")));
    goals.extend(memory(figures));
    let most = if is_delegated { CPU_DELEGATED } else { CPU };
    goals.extend(processor(&rollouts, most));
    goals.extend(figures.chain.iter().flat_map(chains));
    goals.extend(
        figures
            .fleet
            .iter()
            .flat_map(|fleet| of_fleet(figures, fleet)),
    );
    goals
}

fn rate(figures: &Figures, step: &Step) -> Option<Goal> {
    let to_bare = figures.to_bare(step)?;
    let is_delegated = figures.shape.phase_class.is_some() || step.is_of_fleet();
    let least = if is_delegated {
        TO_BARE_DELEGATED
    } else {
        TO_BARE
    };
    let bound = figures.bound(step);
    let bound = bound.map_or_else(String::new, |bound| format!(" (bound: {bound:.2})"));
    Some(Goal {
        figure: format!("{}: rate", step.name),
        measured: format!("{to_bare:.2} x bare{bound}"),
        wanted: format!("at least {least} x bare"),
        met: to_bare >= least,
    })
}

fn requests(step: &Step) -> [Goal; 2] {
    let name = step.name;
    [
        at_most(
            &format!("{name}: requests per object"),
            step.requests_per_object(),
            PER_OBJECT,
            "",
        ),
        at_most(
            &format!("{name}: further requests per set"),
            step.requests_per_set(),
            PER_SET,
            "",
        ),
    ]
}

fn memory(figures: &Figures) -> Option<Goal> {
    let peaks = figures
        .steps
        .iter()
        .filter(|step| !step.is_of_chain() && !step.is_of_fleet())
        .filter_map(|step| step.memory.map(|memory| memory.peak));
    let peak = peaks.max_by(f64::total_cmp)?;
    let objects = figures.shape.objects();
    let (_, most) = MEMORY.into_iter().find(|(limit, _)| objects <= *limit)?;
    Some(at_most("peak resident memory", peak, most, "MiB"))
}

/// What "1,000 objects" means for two steps can be read in two ways; both are told.
fn processor(rollouts: &[&Step], most: f64) -> Vec<Goal> {
    let [create, handover] = rollouts else {
        return vec![];
    };
    let (Some(first), Some(second)) = (create.cpu, handover.cpu) else {
        return vec![];
    };
    let thousands = |objects: usize| number(objects) / 1000.0;
    let written = thousands(create.timing.objects + handover.timing.objects);
    vec![
        at_most(
            "CPU per 1,000 objects written, create + handover",
            ratio(first + second, written),
            most,
            "s",
        ),
        at_most(
            "the same per 1,000 objects, each created and handed over",
            ratio(first + second, thousands(create.timing.objects)),
            most,
            "s",
        ),
    ]
}

fn chains(chain: &Chain) -> Vec<Goal> {
    let writes = chain.deployment_writes();
    let growth = chain.growth();
    let mut goals = vec![at_most(
        "chain: writes on a deployment per edit",
        writes,
        PER_EDIT,
        "",
    )];
    goals.extend(growth.map(|growth| {
        let figure = "chain: memory per archived revision";
        at_most(figure, growth, PER_ARCHIVED, "KiB")
    }));
    goals
}

fn of_fleet(figures: &Figures, fleet: &Fleet) -> Vec<Goal> {
    let step = |name| figures.step(name);
    let none = |figure: &str, writes: u64| Goal {
        figure: figure.to_owned(),
        measured: writes.to_string(),
        wanted: "0".to_owned(),
        met: writes == 0,
    };
    let mut goals = Vec::new();
    if let Some(create) = step(fleet::CREATE) {
        let objects = create.timing.objects;
        let (_, at_clusters) = fleet.requests_per_object(objects);
        goals.extend(rate(figures, create));
        goals.push(at_most(
            "fleet: requests per object at its cluster",
            at_clusters,
            PER_OBJECT,
            "",
        ));
        goals.extend(create.cpu.map(|cpu| {
            let each = ratio(cpu, number(objects) / 1000.0);
            at_most("fleet: CPU per 1,000 objects", each, CPU_DELEGATED, "s")
        }));
    }
    goals.extend(fleet.per_cluster().map(|each| {
        let figure = "fleet: memory per idle connected cluster";
        at_most(figure, each, PER_CLUSTER, "MiB")
    }));
    goals.push(none(
        "fleet: idle: writes on all sides",
        fleet.idle.writes(),
    ));
    goals.push(none(
        "fleet: restart: writes on all sides",
        fleet.restart.writes(),
    ));
    goals.extend(step(fleet::RESTART).map(|step| {
        let figure = "fleet: restart until settled";
        at_most(figure, step.timing.seconds, RESTART_FLEET, "s")
    }));
    goals
}

fn at_most(figure: &str, measured: f64, most: f64, unit: &str) -> Goal {
    let with_unit = |text: String| format!("{text} {unit}").trim_end().to_owned();
    Goal {
        figure: figure.to_owned(),
        measured: with_unit(format!("{measured:.*}", if most < 1.0 { 3 } else { 2 })),
        wanted: with_unit(format!("at most {most}")),
        met: measured <= most,
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::chain::tests::chain;
    use super::super::figures::fleet::tests::fleet as a_fleet;
    use super::super::figures::{Memory, Spread, Timing};
    use super::super::load::Shape;
    use super::super::metrics::{Metrics, Requests};
    use super::super::served::tests::served;
    use super::*;
    use std::time::Duration;

    fn step(name: &'static str, seconds: u64, requests: &str) -> Step {
        let requests: Requests = Metrics::parse(requests).requests().unwrap_or_default();
        Step {
            name,
            sets: 100,
            timing: Timing::of(1000, Duration::from_secs(seconds)),
            per_set: None,
            cpu: Some(1.5),
            memory: Some(Memory {
                rss: 20.0,
                peak: 30.0,
            }),
            writes: requests.writes(),
            requests,
        }
    }

    fn figures(steps: Vec<Step>) -> Figures {
        Figures {
            shape: Shape {
                sets: 100,
                phases: 2,
                per_phase: 5,
                pad: 256,
                phase_class: None,
            },
            processors: 2,
            bare: vec![
                Timing::of(1000, Duration::from_secs(1)),
                Timing::of(2000, Duration::from_secs(1)),
            ],
            bounds: vec![],
            steps,
            chain: None,
            fleet: None,
        }
    }

    fn find(figures: &Figures, figure: &str) -> (String, bool) {
        let goals = goals(figures);
        let goal = goals.iter().find(|goal| goal.figure.starts_with(figure));
        let goal = goal.unwrap_or_else(|| panic!("no {figure} in {goals:#?}"));
        (goal.measured.clone(), goal.met)
    }

    #[test]
    fn rates_are_compared_with_the_mean_of_the_bare_ones() {
        let fast = figures(vec![step("create", 1, "")]);
        assert_eq!(
            find(&fast, "create: rate"),
            ("0.67 x bare".to_owned(), true)
        );
        let slow = figures(vec![step("create", 2, "")]);
        assert_eq!(
            find(&slow, "create: rate"),
            ("0.33 x bare".to_owned(), false)
        );
        // Only those right before and after a step count, where there are enough of them.
        let mut unsteady = figures(vec![step("create", 1, ""), step("handover", 1, "")]);
        unsteady.bare.push(Timing::of(3000, Duration::from_secs(1)));
        assert_eq!(find(&unsteady, "create: rate").0, "0.67 x bare");
        assert_eq!(find(&unsteady, "handover: rate").0, "0.40 x bare");
        let bounds = [("create", 4), ("create, dry run first", 1)];
        unsteady.bounds = bounds
            .map(|(name, rate)| (name, Timing::of(rate, Duration::from_secs(1))))
            .into();
        assert_eq!(
            find(&unsteady, "create: rate").0,
            "0.67 x bare (bound: 0.25)"
        );
        assert!((unsteady.unsteadiness() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn requests_count_for_objects_or_for_sets() {
        let requests = "baton_api_requests_total{verb=\"apply\"} 1000\n\
            baton_api_requests_total{verb=\"dry-run\"} 1000\n\
            baton_api_requests_total{verb=\"status\"} 410\n\
            baton_api_requests_total{verb=\"watch\"} 9000\n";
        let figures = figures(vec![step("handover", 1, requests)]);
        assert_eq!(
            find(&figures, "handover: requests per object"),
            ("2.00".to_owned(), true)
        );
        assert_eq!(
            find(&figures, "handover: further"),
            ("4.10".to_owned(), false)
        );
    }

    #[test]
    fn the_other_goals() {
        let restart = step(
            "restart",
            2,
            "baton_api_requests_total{verb=\"status\"} 1\n",
        );
        let mut lone = step("lone", 2, "");
        lone.per_set = Spread::of([Duration::from_millis(70)]);
        let steps = vec![
            step("create", 1, ""),
            step("handover", 1, ""),
            restart,
            lone,
        ];
        let figures = figures(steps);
        assert_eq!(find(&figures, "restart: writes"), ("1".to_owned(), false));
        assert_eq!(find(&figures, "restart until"), ("2.00 s".to_owned(), true));
        assert_eq!(find(&figures, "lone"), ("0.070 s".to_owned(), true));
        assert_eq!(find(&figures, "peak"), ("30.00 MiB".to_owned(), true));
        assert_eq!(find(&figures, "CPU"), ("1.50 s".to_owned(), true));
        assert_eq!(find(&figures, "the same"), ("3.00 s".to_owned(), false));
    }

    #[test]
    fn the_goals_of_chains() {
        let mut idle = step(
            chain::IDLE,
            10,
            "baton_api_requests_total{verb=\"get\"} 1\n",
        );
        // What chains need is no matter of the first goal.
        idle.memory = Some(Memory {
            rss: 60.0,
            peak: 60.0,
        });
        let mut figures = figures(vec![step("create", 1, ""), idle]);
        let writes = served(&[
            ("objectsets", "POST", 80),
            ("objectdeployments/status", "PUT", 26),
        ]);
        figures.chain = Some(chain(&[20.0, 21.0, 21.02], writes));
        assert_eq!(find(&figures, "peak"), ("30.00 MiB".to_owned(), true));
        assert_eq!(find(&figures, "chain: idle"), ("0".to_owned(), true));
        assert_eq!(
            find(&figures, "chain: writes on a"),
            ("3.25".to_owned(), false)
        );
        assert_eq!(
            find(&figures, "chain: memory"),
            ("5.12 KiB".to_owned(), false)
        );
    }

    #[test]
    fn the_goals_of_a_fleet() {
        let mut create = step(fleet::CREATE, 2, "");
        create.timing = Timing::of(60, Duration::from_secs(2));
        create.cpu = Some(0.3);
        create.memory = Some(Memory {
            rss: 600.0,
            peak: 600.0,
        });
        let mut figures = figures(vec![create, step(fleet::RESTART, 11, "")]);
        figures.bare = [1, 2]
            .map(|seconds| Timing::of(60, Duration::from_secs(seconds)))
            .into();
        figures.fleet = Some(a_fleet());
        for (figure, measured, met) in [
            ("fleet: create: rate", "0.67 x bare", true),
            ("fleet: requests per object", "2.05", true),
            ("fleet: CPU", "5.00 s", false),
            ("fleet: memory", "1.50 MiB", true),
            ("fleet: idle", "0", true),
            ("fleet: restart: writes", "3", false),
            ("fleet: restart until", "11.00 s", false),
        ] {
            assert_eq!(
                find(&figures, figure),
                (measured.to_owned(), met),
                "{figure}"
            );
        }
        let goals = goals(&figures);
        assert!(
            !goals.iter().any(|goal| goal.figure.starts_with("peak")),
            "{goals:#?}"
        );
    }

    #[test]
    fn what_was_not_measured_is_no_goal() {
        let mut figures = figures(vec![]);
        figures.bare.clear();
        assert_eq!(goals(&figures), []);
    }
}
