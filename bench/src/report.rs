//! The figures for people, and for programs.

mod chain;
mod fleet;
mod releases;
mod releases_fleet;
mod sites;
mod table;

use std::collections::BTreeSet;

use serde::Serialize;

use self::table::{fixed, or_empty, table};
use super::figures::{Figures, Step, Timing};
use super::goals::{Goal, goals};

/// The difference of bare rates that is normal on an otherwise idle machine.
const NORMAL_DIFFERENCE: f64 = 0.25;

const NOTES: &str = "p50, p99, max: of each set, from the answer to its creation until it is observed as available.\n\
     obj/s: without a manager (bare), until the last set is available (create), and its predecessor\n\
     controls nothing (handover), until nothing is left (teardown). x bare: by the bare rates right\n\
     before and after the step, of teardown by their mean. unchanged: a handover of the same content. bound:\n\
     the requests of the step once more, without a manager. CPU, memory, requests: of the manager;\n\
     server: CPU seconds of the API server and etcd.";

/// The figures and the goals as JSON.
pub(crate) fn json(figures: &Figures) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        figures: &'a Figures,
        to_bare: Vec<(&'static str, Option<f64>)>,
        goals: Vec<Goal>,
    }
    let paced = figures.steps.iter().filter(|step| step.is_paced());
    let to_bare = paced.map(|step| (step.name, figures.to_bare(step)));
    serde_json::to_string_pretty(&Report {
        figures,
        to_bare: to_bare.collect(),
        goals: goals(figures),
    })
}

/// The figures as tables.
pub(crate) fn tables(figures: &Figures) -> String {
    let mut notes = vec![NOTES.to_owned()];
    notes.extend(figures.chain.as_ref().map(|_| chain::NOTES.to_owned()));
    notes.extend(figures.fleet.as_ref().map(|_| fleet::NOTES.to_owned()));
    notes.extend(
        figures
            .releases
            .as_ref()
            .map(|_| releases::NOTES.to_owned()),
    );
    let fleet = figures.releases_fleet.as_ref();
    notes.extend(fleet.map(|_| releases_fleet::NOTES.to_owned()));
    notes.extend(figures.sites.as_ref().map(|_| sites::NOTES.to_owned()));
    if figures.unsteadiness() > NORMAL_DIFFERENCE {
        notes.push(format!(
            "The bare rates differ by {:.0} %: the machine is busy with other things, and no rate \
             here is to be trusted.",
            100.0 * figures.unsteadiness()
        ));
    }
    let mut parts = vec![head(figures), steps(figures), notes.join("\n")];
    if !figures.steps.is_empty() {
        parts.push(format!("Requests by verb\n{}", requests(figures)));
        parts.extend(figures.chain.as_ref().map(chain::tables));
        let shape = figures.shape;
        let fleet = figures.fleet.as_ref();
        parts.extend(fleet.map(|fleet| fleet::tables(fleet, shape.objects(), shape.sets)));
        let releases = figures.releases.as_ref();
        parts.extend(releases.map(|releases| releases::tables(figures, releases)));
        let fleet = figures.releases_fleet.as_ref();
        parts.extend(fleet.map(|fleet| releases_fleet::tables(figures, fleet)));
        parts.extend(figures.sites.as_ref().map(sites::tables));
        parts.push(format!("Goals\n{}", verdicts(figures)));
    }
    parts.join("\n\n") + "\n"
}

fn head(figures: &Figures) -> String {
    let shape = figures.shape;
    let mut lines = Vec::new();
    // The bare objects have the shape of the sets, even if no set is measured.
    let is_plain = |step: &Step| {
        !step.is_of_chain()
            && !step.is_of_releases()
            && !step.is_of_releases_fleet()
            && !step.is_of_sites()
    };
    let has_others = figures.chain.is_some()
        || figures.releases.is_some()
        || figures.releases_fleet.is_some()
        || figures.sites.is_some();
    if !has_others || figures.steps.iter().any(is_plain) {
        let class = shape.phase_class.map_or_else(String::new, |class| {
            format!(" All phases are handed to the class {class}.")
        });
        lines.push(format!(
            "{} ObjectSets of {} phases with {} ConfigMaps of {} bytes: {} objects.{class}",
            shape.sets,
            shape.phases,
            shape.per_phase,
            shape.pad,
            shape.objects(),
        ));
    }
    let chain = figures.chain.as_ref();
    lines.extend(chain.map(|chain| chain::head(chain, &shape)));
    lines.extend(figures.fleet.as_ref().map(fleet::head));
    lines.extend(figures.releases.as_ref().map(releases::head));
    lines.extend(figures.releases_fleet.as_ref().map(releases_fleet::head));
    lines.extend(figures.sites.as_ref().map(sites::head));
    lines.push(format!(
        "{} processors, shared by the API server, the manager and the bench.",
        figures.processors
    ));
    lines.join("\n")
}

fn steps(figures: &Figures) -> String {
    let bare = figures.bare.iter().zip(1..);
    let mut rows: Vec<Vec<String>> = bare
        .map(|(timing, round)| bare_row(&format!("bare {round}"), timing, String::new()))
        .collect();
    if let Some(mean) = figures.bare_rate() {
        let row = ["bare, mean", "", "", &fixed(mean, 0)];
        rows.push(row.map(str::to_owned).to_vec());
    }
    rows.extend(figures.steps.iter().map(|step| step_row(figures, step)));
    rows.extend(figures.replayed.iter().map(|replayed| {
        let name = format!("{}, bound", replayed.step);
        bare_row(&name, &replayed.timing, fixed(replayed.to_bare, 2))
    }));
    let header = [
        "step", "objects", "s", "obj/s", "x bare", "p50 s", "p99 s", "max s", "CPU s", "server",
        "MiB", "peak",
    ];
    table(&header, rows)
}

/// A row of a bare measurement. Columns about the manager stay empty.
fn bare_row(name: &str, timing: &Timing, to_bare: String) -> Vec<String> {
    let mut row = vec![
        name.to_owned(),
        timing.objects.to_string(),
        fixed(timing.seconds, 2),
        fixed(timing.rate, 0),
        to_bare,
    ];
    row.resize(9, String::new());
    row.extend([fixed(timing.server, 2), String::new(), String::new()]);
    row
}

fn step_row(figures: &Figures, step: &Step) -> Vec<String> {
    let timing = step.timing;
    let objects = Some(timing.objects).filter(|objects| *objects > 0);
    vec![
        step.name.to_owned(),
        objects.map_or_else(String::new, |objects| objects.to_string()),
        fixed(timing.seconds, 2),
        or_empty(step.is_paced().then_some(timing.rate), 0),
        or_empty(figures.to_bare(step), 2),
        or_empty(step.per_set.map(|spread| spread.p50), 3),
        or_empty(step.per_set.map(|spread| spread.p99), 3),
        or_empty(step.per_set.map(|spread| spread.max), 3),
        or_empty(step.cpu, 2),
        fixed(timing.server, 2),
        or_empty(step.memory.map(|memory| memory.rss), 1),
        or_empty(step.memory.map(|memory| memory.peak), 1),
    ]
}

fn requests(figures: &Figures) -> String {
    let steps = figures.steps.iter();
    let verbs: BTreeSet<&str> = steps.flat_map(|step| step.requests.verbs()).collect();
    let mut header = vec!["step"];
    header.extend(&verbs);
    header.extend(["writes", "/object", "/set"]);
    let row = |step: &Step| {
        let mut row = vec![step.name.to_owned()];
        row.extend(verbs.iter().map(|verb| match step.requests.by(verb) {
            0 => String::new(),
            sent => sent.to_string(),
        }));
        row.push(step.writes.to_string());
        // Requests per object and per set are not comparable if revisions are archived, or if there
        // are two sides: see the tables of chains and of the fleet.
        let is_simple = step.timing.objects > 0 && !step.is_of_chain() && !step.is_of_fleet();
        row.push(or_empty(is_simple.then(|| step.requests_per_object()), 2));
        row.push(or_empty(is_simple.then(|| step.requests_per_set()), 2));
        row
    };
    table(&header, figures.steps.iter().map(row))
}

fn verdicts(figures: &Figures) -> String {
    let goals = goals(figures);
    let met = goals.iter().filter(|goal| goal.met).count();
    let of = goals.len();
    let row = |goal: Goal| {
        let verdict = if goal.met { "ok" } else { "MISSED" };
        vec![goal.figure, goal.measured, goal.wanted, verdict.to_owned()]
    };
    let header = ["figure", "measured", "goal", ""];
    let table = table::of_texts(&header, goals.into_iter().map(row));
    format!("{table}\n{met} of {of} reached.")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::chain::tests::chain;
    use super::super::figures::fleet::tests::fleet;
    use super::super::figures::tests as figures;
    use super::super::requests::tests::requests;
    use super::super::served::tests::served;
    use super::*;

    fn some_figures() -> Figures {
        let step = |name, objects| {
            let timing = Timing::of(objects, Duration::from_secs(4));
            let step = Step::new(name, 200, timing)
                .with_latencies([Duration::from_millis(1500)])
                .with_requests(requests(&[("apply", 2000), ("status", 600)]));
            Step {
                cpu: Some(2.25),
                memory: Some(figures::memory(21.5, 30.04)),
                ..step
            }
        };
        let mut figures = figures::figures(vec![step("create", 2000), step("idle", 0)]);
        figures.shape.sets = 200;
        figures.bare = vec![Timing::of(2000, Duration::from_secs(2)).with_server(1.75)];
        figures
    }

    fn squeezed(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_contain_every_figure() {
        let text = tables(&some_figures());
        let row = |start: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(start))
                .unwrap();
            squeezed(line)
        };
        assert_eq!(row("bare 1"), "bare 1 2000 2.00 1000 1.75");
        assert_eq!(
            row("create"),
            "create 2000 4.00 500 0.50 1.500 1.500 1.500 2.25 0.00 21.5 30.0"
        );
        let costs = "create 2000 600 2600 1.00 3.00";
        assert!(text.lines().any(|line| squeezed(line) == costs), "{text}");
        assert!(text.contains("2000 objects"), "{text}");
    }

    #[test]
    fn chains_have_tables_of_their_own() {
        let mut figures = some_figures();
        let requests = served(&[
            ("configmaps", "dry run", 80),
            ("configmaps", "APPLY", 82),
            ("objectdeployments/status", "PUT", 20),
        ]);
        figures.chain = Some(chain(&[20.0, 21.5, 21.75], requests));
        let text = tables(&figures);
        for line in [
            "none yet 40 2.00 20 0 20.00",
            "2 40 2.00 20 8 21.75",
            "resource dry run APPLY PUT all refused",
            "configmaps 10.00 10.25 20.25",
            "objectdeployments/status 2.50 2.50",
        ] {
            assert!(
                text.lines().any(|found| squeezed(found) == line),
                "{line}\n{text}"
            );
        }
        assert!(text.contains("64.00 KiB for each archived"), "{text}");
        assert!(text.contains("4 ObjectDeployments of 2 phases"), "{text}");
        let report: serde_json::Value = serde_json::from_str(&json(&figures).unwrap()).unwrap();
        assert_eq!(report["chain"]["rounds"][2]["archived"], 8);
        assert_eq!(report["chain"]["served"]["configmaps"]["APPLY"]["sent"], 82);
    }

    #[test]
    fn fleets_have_tables_of_their_own() {
        let mut figures = some_figures();
        figures.shape.sets = 6;
        figures.fleet = Some(fleet());
        let text = tables(&figures);
        for line in [
            "idle 2 20.00",
            "idle 4 23.00 1.500",
            "idle after the delivery and a restart 4 24.50",
            "resource at dry run POST APPLY PUT all refused",
            "objectsetphases hub 2.00 2.00",
            "configmaps clusters 10.00 10.50 20.50",
            "resource at GET dry run APPLY PUT all refused",
            "configmaps clusters 5 2 7",
        ] {
            assert!(
                text.lines().any(|found| squeezed(found) == line),
                "{line}\n{text}"
            );
        }
        assert!(
            text.contains("2.05 at its cluster and 0.70 at the hub"),
            "{text}"
        );
        assert!(text.contains("into 2 clusters, 3 sets each"), "{text}");
        let report: serde_json::Value = serde_json::from_str(&json(&figures).unwrap()).unwrap();
        assert_eq!(report["fleet"]["cluster_objects"], 4);
        assert_eq!(
            report["fleet"]["create"]["clusters"]["configmaps"]["APPLY"]["sent"],
            63
        );
    }

    #[test]
    fn json_contains_figures_and_goals() {
        let report: serde_json::Value =
            serde_json::from_str(&json(&some_figures()).unwrap()).unwrap();
        assert_eq!(report["steps"][0]["requests"]["apply"], 2000);
        assert_eq!(report["to_bare"][0][0], "create");
        assert_eq!(report["goals"][0]["met"], true);
    }
}
