//! The figures for people, and for programs.

mod chain;
mod fleet;

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use serde::Serialize;

use super::figures::{Figures, Step, ratio};
use super::goals::{Goal, goals};

/// How far bare rates may differ on a machine that has nothing else to do.
const STEADY: f64 = 0.25;

/// The figures and what they mean as JSON.
///
/// # Errors
///
/// When a figure is no number that JSON can hold.
pub fn json(figures: &Figures) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        figures: &'a Figures,
        to_bare: Vec<(&'static str, Option<f64>)>,
        goals: Vec<Goal>,
    }
    let paced = figures.steps.iter().filter(|step| step.is_paced());
    serde_json::to_string_pretty(&Report {
        figures,
        to_bare: paced
            .map(|step| (step.name, figures.to_bare(step)))
            .collect(),
        goals: goals(figures),
    })
}

/// The figures as tables.
#[must_use]
pub fn tables(figures: &Figures) -> String {
    let head = head(figures);
    let notes = "p50, p99, max: of each set, from the answer to its creation to the sight of its availability.\n\
        obj/s: without a manager (bare), until the last set is available (create), and its predecessor\n\
        controls nothing (handover), until nothing is left (teardown). x bare: by the bare rates right\n\
        before and after the step, of teardown by their mean. CPU, memory, requests: of the\n\
        manager; server: CPU seconds of the API server and etcd.";
    let chains = figures.chain.as_ref().map(|_| chain::NOTES);
    let chains = chains.map_or_else(String::new, |notes| format!("\n{notes}"));
    let fleets = figures.fleet.as_ref().map(|_| fleet::NOTES);
    let fleets = fleets.map_or_else(String::new, |notes| format!("\n{notes}"));
    let unsteady = if figures.unsteadiness() > STEADY {
        format!(
            "\nThe bare rates differ by {:.0} %: the machine is busy with other things, and no rate \
             here is to be trusted.",
            100.0 * figures.unsteadiness()
        )
    } else {
        String::new()
    };
    let mut text = format!(
        "{head}\n\n{}\n\n{notes}{chains}{fleets}{unsteady}\n",
        steps(figures).trim_fmt()
    );
    if !figures.steps.is_empty() {
        text += "\nRequests by verb\n";
        text += &requests(figures).trim_fmt();
        if let Some(chain) = &figures.chain {
            text += "\n\n";
            text += &chain::tables(chain);
        }
        if let Some(fleet) = &figures.fleet {
            let shape = figures.shape;
            text += "\n\n";
            text += &fleet::tables(fleet, shape.objects(), shape.sets);
        }
        text += "\n\nGoals\n";
        text += &verdicts(figures);
        text += "\n";
    }
    text
}

fn head(figures: &Figures) -> String {
    let shape = figures.shape;
    let mut head = String::new();
    // The objects without a manager are as those of the sets, also where there are none.
    if figures.chain.is_none() || figures.steps.iter().any(|step| !step.is_of_chain()) {
        let class = shape.phase_class.map_or_else(String::new, |class| {
            format!(" All phases are handed to the class {class}.")
        });
        head = format!(
            "{} ObjectSets of {} phases with {} ConfigMaps of {} bytes: {} objects.{class}\n",
            shape.sets,
            shape.phases,
            shape.per_phase,
            shape.pad,
            shape.objects(),
        );
    }
    if let Some(chain) = &figures.chain {
        head += &chain::head(chain, &shape);
        head += "\n";
    }
    if let Some(fleet) = &figures.fleet {
        head += &fleet::head(fleet);
        head += "\n";
    }
    head + &format!(
        "{} processors, shared by the API server, the manager and the bench.",
        figures.processors
    )
}

fn steps(figures: &Figures) -> Table {
    let mut table = table(&[
        "step", "objects", "s", "obj/s", "x bare", "p50 s", "p99 s", "max s", "CPU s", "server",
        "MiB", "peak",
    ]);
    for (index, bare) in figures.bare.iter().enumerate() {
        table.add_row(bare_row(
            &format!("bare {}", index + 1),
            &format!("{}", bare.objects),
            &format!("{:.2}", bare.seconds),
            bare.rate,
            &format!("{:.2}", bare.server),
        ));
    }
    if let Some(mean) = figures.bare_rate() {
        table.add_row(bare_row("bare, mean", "", "", mean, ""));
    }
    let plain = figures
        .bounds
        .first()
        .map_or(0.0, |(_, timing)| timing.rate);
    for (name, timing) in &figures.bounds {
        let mut row = bare_row(
            name,
            &format!("{}", timing.objects),
            &format!("{:.2}", timing.seconds),
            timing.rate,
            &format!("{:.2}", timing.server),
        );
        row[4] = format!("{:.2}", ratio(timing.rate, plain));
        table.add_row(row);
    }
    for step in &figures.steps {
        table.add_row(step_row(figures, step));
    }
    numbers(&mut table);
    table
}

fn bare_row(name: &str, objects: &str, seconds: &str, rate: f64, server: &str) -> [String; 12] {
    let rate = format!("{rate:.0}");
    // What is left empty is about the manager.
    [
        name, objects, seconds, &rate, "", "", "", "", "", server, "", "",
    ]
    .map(str::to_owned)
}

fn step_row(figures: &Figures, step: &Step) -> Vec<String> {
    let or_empty = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let objects = step.timing.objects;
    vec![
        step.name.to_owned(),
        if objects > 0 {
            objects.to_string()
        } else {
            String::new()
        },
        format!("{:.2}", step.timing.seconds),
        or_empty(step.is_paced().then_some(step.timing.rate), 0),
        or_empty(figures.to_bare(step), 2),
        or_empty(step.per_set.map(|spread| spread.p50), 3),
        or_empty(step.per_set.map(|spread| spread.p99), 3),
        or_empty(step.per_set.map(|spread| spread.max), 3),
        or_empty(step.cpu, 2),
        or_empty(Some(step.timing.server), 2),
        or_empty(step.memory.map(|memory| memory.rss), 1),
        or_empty(step.memory.map(|memory| memory.peak), 1),
    ]
}

fn requests(figures: &Figures) -> Table {
    let verbs: BTreeSet<&str> = figures
        .steps
        .iter()
        .flat_map(|step| step.requests.iter().map(|(verb, _)| verb))
        .collect();
    let mut header = vec!["step"];
    header.extend(&verbs);
    header.extend(["writes", "/object", "/set"]);
    let mut table = table(&header);
    for step in &figures.steps {
        let mut row = vec![step.name.to_owned()];
        row.extend(verbs.iter().map(|verb| match step.requests.of(verb) {
            0 => String::new(),
            sent => sent.to_string(),
        }));
        row.push(step.writes.to_string());
        // What goes with what is another matter where revisions are archived, and where two sides
        // are asked: see the tables of chains and of the fleet.
        if step.timing.objects > 0 && !step.is_of_chain() && !step.is_of_fleet() {
            row.push(format!("{:.2}", step.requests_per_object()));
            row.push(format!("{:.2}", step.requests_per_set()));
        } else {
            row.extend([String::new(), String::new()]);
        }
        table.add_row(row);
    }
    numbers(&mut table);
    table
}

fn verdicts(figures: &Figures) -> String {
    let goals = goals(figures);
    let mut table = table(&["figure", "measured", "goal", ""]);
    for goal in &goals {
        let verdict = if goal.met { "ok" } else { "MISSED" };
        table.add_row([&goal.figure, &goal.measured, &goal.wanted, verdict]);
    }
    let met = goals.iter().filter(|goal| goal.met).count();
    format!("{}\n{met} of {} reached.", table.trim_fmt(), goals.len())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill('─');
    table
        .load_style(TableStyle::new().header_separator(line))
        .set_header(header.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Numbers stand below each other.
fn numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::chain::tests::chain;
    use super::super::figures::fleet::tests::fleet;
    use super::super::figures::{Memory, Spread, Timing};
    use super::super::load::Shape;
    use super::super::metrics::Metrics;
    use super::super::served::tests::served;
    use super::*;

    fn figures() -> Figures {
        let requests = "baton_api_requests_total{verb=\"apply\"} 2000\n\
            baton_api_requests_total{verb=\"status\"} 600\n";
        let requests = Metrics::parse(requests).requests().unwrap();
        let step = |name, objects| Step {
            name,
            sets: 200,
            timing: Timing::of(objects, Duration::from_secs(4)),
            per_set: Spread::of([Duration::from_millis(1500)]),
            cpu: Some(2.25),
            memory: Some(Memory {
                rss: 21.5,
                peak: 30.04,
            }),
            requests: requests.clone(),
            writes: requests.writes(),
        };
        Figures {
            shape: Shape {
                sets: 200,
                phases: 2,
                per_phase: 5,
                pad: 256,
                phase_class: None,
            },
            processors: 2,
            bare: vec![Timing::of(2000, Duration::from_secs(2)).with_server(1.75)],
            bounds: vec![],
            steps: vec![step("create", 2000), step("idle", 0)],
            chain: None,
            fleet: None,
        }
    }

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_hold_every_figure() {
        let text = tables(&figures());
        let row = |start: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(start))
                .unwrap();
            words(line)
        };
        assert_eq!(row("bare 1"), "bare 1 2000 2.00 1000 1.75");
        assert_eq!(
            row("create"),
            "create 2000 4.00 500 0.50 1.500 1.500 1.500 2.25 0.00 21.5 30.0"
        );
        let costs = "create 2000 600 2600 1.00 3.00";
        assert!(text.lines().any(|line| words(line) == costs), "{text}");
        assert!(text.contains("2000 objects"), "{text}");
    }

    #[test]
    fn chains_have_tables_of_their_own() {
        let mut figures = figures();
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
                text.lines().any(|found| words(found) == line),
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
        let mut figures = figures();
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
                text.lines().any(|found| words(found) == line),
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
    fn json_holds_figures_and_goals() {
        let report: serde_json::Value = serde_json::from_str(&json(&figures()).unwrap()).unwrap();
        assert_eq!(report["steps"][0]["requests"]["apply"], 2000);
        assert_eq!(report["to_bare"][0][0], "create");
        assert_eq!(report["goals"][0]["met"], true);
    }
}
