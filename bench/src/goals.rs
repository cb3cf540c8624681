//! The goals: figures to reach, compared with the measured ones.

use serde::Serialize;

use super::figures::{Figures, Step, chain, fleet, number, ratio};

mod releases;
mod releases_fleet;
mod sites;

/// A figure with its wanted and its measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Goal {
    pub(crate) figure: String,
    pub(crate) measured: String,
    pub(crate) wanted: String,
    pub(crate) met: bool,
}

/// Minimum shares of the bare rate, by step; the second value is for delegated phases.
const TO_BARE: [(&str, f64, Option<f64>); 4] = [
    ("create", 0.45, Some(0.3)),
    ("handover", 0.35, Some(0.22)),
    ("unchanged", 0.7, None),
    (fleet::CREATE, 0.4, None),
];
/// Minimum share of the rate that the requests of a step alone reach.
const TO_BOUND: f64 = 0.9;
/// Maximum number of requests per object: a dry run, a write, and a few retries.
const PER_OBJECT: f64 = 2.1;
/// Maximum number of further requests per ObjectSet.
const PER_SET: f64 = 4.0;
/// Maximum duration of a restart in seconds.
const RESTART: f64 = 3.0;
/// Maximum time until one ObjectSet is available, in seconds.
const LONE: f64 = 0.06;
/// Maximum number of processor seconds for 1,000 objects.
const CPU: f64 = 2.0;
/// Maximum number of processor seconds for 1,000 objects with delegated phases.
const CPU_DELEGATED: f64 = 3.0;
/// Maximum memory in MiB, by the largest number of objects for which it holds.
const MEMORY: [(usize, f64); 2] = [(2_000, 40.0), (10_000, 100.0)];
/// Maximum number of writes of a deployment and its status per edit of its template.
const PER_EDIT: f64 = 3.0;
/// Maximum time until an edit right after a restart is rolled out, in seconds.
const EDIT: f64 = 1.0;
/// Maximum memory in KiB per archived revision.
const PER_ARCHIVED: f64 = 3.0;
/// Maximum memory in MiB per idle connected cluster.
const PER_CLUSTER: f64 = 2.0;
/// Maximum duration of the restart of a manager with a fleet, in seconds.
const RESTART_FLEET: f64 = 10.0;

/// All goals with a measurement.
pub(crate) fn goals(figures: &Figures) -> Vec<Goal> {
    let mut goals = Goals(Vec::new());
    let rollouts = ["create", "handover", "unchanged"].map(|name| figures.step(name));
    let restart = figures.step("restart");
    let is_delegated = figures.shape.phase_class.is_some();
    for step in rollouts.into_iter().flatten() {
        goals.rate(figures, step);
    }
    for step in rollouts.into_iter().flatten() {
        let name = step.name;
        let per_object = Some(step.requests_per_object());
        goals.at_most(
            &format!("{name}: requests per object"),
            per_object,
            PER_OBJECT,
            "",
        );
        // Requests about phase objects would be counted on top of those about revisions.
        let per_set = (!is_delegated).then(|| step.requests_per_set());
        goals.at_most(
            &format!("{name}: further requests per set"),
            per_set,
            PER_SET,
            "",
        );
    }
    for name in ["idle", "restart", chain::IDLE] {
        let writes = figures.step(name).map(|step| step.writes);
        goals.none(&format!("{name}: writes"), writes);
    }
    let settled = restart.map(|step| step.timing.seconds);
    goals.at_most("restart until settled", settled, RESTART, "s");
    let lone = figures.step("lone").and_then(|step| step.per_set);
    goals.at_most("lone set, median", lone.map(|spread| spread.p50), LONE, "s");
    let objects = figures.shape.objects();
    if let Some((_, most)) = MEMORY.into_iter().find(|(limit, _)| objects <= *limit) {
        goals.at_most("peak resident memory", peak(figures), most, "MiB");
    }
    if let [Some(create), Some(handover), _] = rollouts {
        // "1,000 objects" in two steps has two meanings; both are reported.
        let cpu = create
            .cpu
            .zip(handover.cpu)
            .map(|(first, second)| first + second);
        let most = if is_delegated { CPU_DELEGATED } else { CPU };
        let (first, second) = (create.timing.objects, handover.timing.objects);
        let written = "CPU per 1,000 objects written, create + handover";
        goals.at_most(written, per_thousand(cpu, first + second), most, "s");
        let each = "the same per 1,000 objects, each created and handed over";
        goals.at_most(each, per_thousand(cpu, first), most, "s");
    }
    if let Some(chain) = &figures.chain {
        let writes = Some(chain.deployment_writes());
        goals.at_most(
            "chain: writes on a deployment per edit",
            writes,
            PER_EDIT,
            "",
        );
        let growth = chain.growth();
        goals.at_most(
            "chain: memory per archived revision",
            growth,
            PER_ARCHIVED,
            "KiB",
        );
    }
    let edit = figures.step(chain::RESTART).and_then(|step| step.per_set);
    goals.at_most(chain::RESTART, edit.map(|spread| spread.max), EDIT, "s");
    if let Some(fleet) = &figures.fleet {
        goals.fleet(figures, fleet);
    }
    if figures.releases.is_some() {
        goals.releases(figures);
    }
    goals.releases_fleet(figures);
    if let Some(sites) = &figures.sites {
        goals.sites(figures, sites);
    }
    goals.0
}

/// The peak memory in all steps but those of chains, a fleet, Releases or sites.
fn peak(figures: &Figures) -> Option<f64> {
    let steps = figures.steps.iter();
    let is_other = |step: &&Step| {
        step.is_of_chain() || step.is_of_fleet() || step.is_of_releases() || step.is_of_sites()
    };
    let steps = steps.filter(|step| !is_other(step));
    let peaks = steps.filter_map(|step| step.memory.map(|memory| memory.peak));
    peaks.max_by(f64::total_cmp)
}

fn per_thousand(cpu: Option<f64>, objects: usize) -> Option<f64> {
    Some(ratio(cpu?, number(objects) / 1000.0))
}

struct Goals(Vec<Goal>);

impl Goals {
    fn rate(&mut self, figures: &Figures, step: &Step) {
        let Some(to_bare) = figures.to_bare(step) else {
            return;
        };
        let mut at_least = |figure: &str, measured: f64, least: f64, of: &str| {
            self.0.push(Goal {
                figure: format!("{}: {figure}", step.name),
                measured: format!("{measured:.2} x {of}"),
                wanted: format!("at least {least} x {of}"),
                met: measured >= least,
            });
        };
        let is_delegated = figures.shape.phase_class.is_some();
        let least = TO_BARE.iter().find(|(name, ..)| *name == step.name);
        let least = least.and_then(|(_, least, delegated)| {
            if is_delegated {
                *delegated
            } else {
                Some(*least)
            }
        });
        if let Some(least) = least {
            at_least("rate", to_bare, least, "bare");
        }
        if let Some(bound) = figures.bound(step) {
            let bounded = format!("its bound of {bound:.2}");
            at_least(
                "rate of its requests",
                ratio(to_bare, bound),
                TO_BOUND,
                &bounded,
            );
        }
    }

    fn fleet(&mut self, figures: &Figures, fleet: &fleet::Fleet) {
        if let Some(create) = figures.step(fleet::CREATE) {
            let objects = create.timing.objects;
            let (_, at_clusters) = fleet.requests_per_object(objects);
            self.rate(figures, create);
            let per_object = "fleet: requests per object at its cluster";
            self.at_most(per_object, Some(at_clusters), PER_OBJECT, "");
            let cpu = per_thousand(create.cpu, objects);
            self.at_most("fleet: CPU per 1,000 objects", cpu, CPU_DELEGATED, "s");
        }
        let memory = "fleet: memory per idle connected cluster";
        self.at_most(memory, fleet.per_cluster(), PER_CLUSTER, "MiB");
        self.none(
            "fleet: idle: writes on all sides",
            Some(fleet.idle.writes()),
        );
        self.none(
            "fleet: restart: writes on all sides",
            Some(fleet.restart.writes()),
        );
        let restart = figures.step(fleet::RESTART);
        let settled = restart.map(|step| step.timing.seconds);
        self.at_most("fleet: restart until settled", settled, RESTART_FLEET, "s");
    }

    fn none(&mut self, figure: &str, writes: Option<u64>) {
        self.0.extend(writes.map(|writes| Goal {
            figure: figure.to_owned(),
            measured: writes.to_string(),
            wanted: "0".to_owned(),
            met: writes == 0,
        }));
    }

    fn at_most(&mut self, figure: &str, measured: Option<f64>, most: f64, unit: &str) {
        let with_unit = |text: String| format!("{text} {unit}").trim_end().to_owned();
        self.0.extend(measured.map(|measured| Goal {
            figure: figure.to_owned(),
            measured: with_unit(format!("{measured:.*}", if most < 1.0 { 3 } else { 2 })),
            wanted: with_unit(format!("at most {most}")),
            met: measured <= most,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::chain::tests::chain;
    use super::super::figures::fleet::tests::fleet as a_fleet;
    use super::super::figures::releases::tests::releases as some_releases;
    use super::super::figures::sites::tests::sites as some_sites;
    use super::super::figures::tests::{figures, memory};
    use super::super::figures::{Replayed, Timing, sites};
    use super::super::requests::tests::requests;
    use super::super::served::tests::served;
    use super::*;

    fn step(name: &'static str, seconds: u64, sent: &[(&str, u64)]) -> Step {
        let timing = Timing::of(1000, Duration::from_secs(seconds));
        let step = Step::new(name, 100, timing).with_requests(requests(sent));
        Step {
            cpu: Some(1.5),
            memory: Some(memory(20.0, 30.0)),
            ..step
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
        let fast = figures(vec![step("create", 1, &[])]);
        assert_eq!(
            find(&fast, "create: rate"),
            ("0.67 x bare".to_owned(), true)
        );
        let slow = figures(vec![step("create", 2, &[])]);
        assert_eq!(
            find(&slow, "create: rate"),
            ("0.33 x bare".to_owned(), false)
        );
        // If there are enough bare measurements, only those right before and after a step count.
        let mut unsteady = figures(vec![step("create", 1, &[]), step("handover", 1, &[])]);
        unsteady.bare.push(Timing::of(3000, Duration::from_secs(1)));
        assert_eq!(find(&unsteady, "create: rate").0, "0.67 x bare");
        assert_eq!(find(&unsteady, "handover: rate").0, "0.40 x bare");
        let timing = Timing::of(800, Duration::from_secs(1));
        unsteady.replayed = vec![Replayed {
            step: "create",
            requests: 2400,
            timing,
            to_bare: 0.8,
        }];
        let of_bound = find(&unsteady, "create: rate of its requests");
        assert_eq!(of_bound, ("0.83 x its bound of 0.80".to_owned(), false));
        assert!((unsteady.unsteadiness() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn requests_are_counted_per_object_and_per_set() {
        let sent = [
            ("apply", 1000),
            ("dry-run", 1000),
            ("status", 410),
            ("watch", 9000),
        ];
        let figures = figures(vec![step("handover", 1, &sent)]);
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
    fn times_memory_and_cpu_are_compared_with_their_goals() {
        let restart = step("restart", 2, &[("status", 1)]);
        let lone = step("lone", 2, &[]).with_latencies([Duration::from_millis(50)]);
        let steps = vec![
            step("create", 1, &[]),
            step("handover", 1, &[]),
            restart,
            lone,
        ];
        let figures = figures(steps);
        assert_eq!(find(&figures, "restart: writes"), ("1".to_owned(), false));
        assert_eq!(find(&figures, "restart until"), ("2.00 s".to_owned(), true));
        assert_eq!(find(&figures, "lone"), ("0.050 s".to_owned(), true));
        assert_eq!(find(&figures, "peak"), ("30.00 MiB".to_owned(), true));
        assert_eq!(find(&figures, "CPU"), ("1.50 s".to_owned(), true));
        assert_eq!(find(&figures, "the same"), ("3.00 s".to_owned(), false));
    }

    #[test]
    fn chains_are_compared_with_their_goals() {
        let mut idle = step(chain::IDLE, 10, &[("get", 1)]);
        // The memory of chains does not count for this goal.
        idle.memory = Some(memory(60.0, 60.0));
        let mut figures = figures(vec![step("create", 1, &[]), idle]);
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
    fn fleets_are_compared_with_their_goals() {
        let mut create = step(fleet::CREATE, 2, &[]);
        create.timing = Timing::of(60, Duration::from_secs(2));
        create.cpu = Some(0.3);
        create.memory = Some(memory(600.0, 600.0));
        let mut figures = figures(vec![create, step(fleet::RESTART, 11, &[])]);
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
    fn releases_are_compared_with_their_goals() {
        let mut lone = step("releases: lone, all in", 2, &[]);
        lone = lone.with_latencies([100, 150, 400].map(Duration::from_millis));
        let mut at_once = step("releases: at once, all in", 3, &[]);
        at_once.helm = Some(2.5);
        let idle = step("releases: idle", 30, &[("status", 1)]);
        let mut figures = figures(vec![lone, at_once, idle]);
        figures.releases = Some(some_releases(served(&[])));
        for (figure, measured, met) in [
            ("releases: lone, all in", "0.150 s", true),
            ("releases: at once, all in", "3.00 s", false),
            ("releases: at once, all in: CPU", "4.00 s", false),
            ("releases: peak", "30.00 MiB", true),
            ("releases: idle: writes", "1", false),
        ] {
            let found = find(&figures, figure);
            assert_eq!(found, (measured.to_owned(), met), "{figure}");
        }
        let goals = goals(&figures);
        assert!(!goals.iter().any(|goal| goal.figure.starts_with("peak")));
    }

    #[test]
    fn sites_are_compared_with_their_goals() {
        let idle = step(sites::IDLE, 40, &[]);
        let restart = step(sites::RESTART, 12, &[("status", 1)]);
        let mut figures = figures(vec![idle, restart]);
        figures.sites = Some(some_sites());
        for (figure, measured, met) in [
            ("sites: memory per site", "256.00 KiB", false),
            ("sites: memory per site, connections", "51.20 KiB", true),
            ("sites: longest status", "1.95 KiB", true),
            ("sites: all at once: writes", "4.00", true),
            ("sites: idle: writes", "0", true),
            ("sites: restart: writes", "1", false),
            ("sites: planner, to all at once", "4.50 ms", true),
        ] {
            let found = find(&figures, figure);
            assert_eq!(found, (measured.to_owned(), met), "{figure}");
        }
        let goals = goals(&figures);
        assert!(!goals.iter().any(|goal| goal.figure.starts_with("peak")));
    }

    #[test]
    fn a_figure_that_was_not_measured_has_no_goal() {
        let mut figures = figures(vec![]);
        figures.bare.clear();
        assert_eq!(goals(&figures), []);
    }
}
