//! `status` of several deployments: a line for each, with the problems of those that are not rolled
//! out.

mod others;

use std::fmt::Display;

use baton_cluster::{Cluster, lists};
use baton_text::{
    output::{
        Paint,
        format::document,
        objects_none_found, report,
        table::{Cell, Table},
    },
    rollout::message,
    status,
};
use baton_view::{
    chain::{Chain, member::Revision},
    content::Slices,
    rollout::{Outcome, Rollout, judge, written},
    selection::Selection,
};
use serde_json::{Value, json};

use self::others::Others;
use super::StatusArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error};

/// A chain and the state of its rollout.
#[derive(Debug)]
struct ChainRow {
    chain: Chain,
    rollout: Rollout,
}

/// One line of the overview.
#[derive(Debug)]
struct Line {
    namespace: String,
    target: String,
    revision: String,
    verdict: Cell,
    ready: String,
    /// The reason that it is not rolled out; for a rolled-out deployment, the note that it is paused.
    message: String,
    is_fine: bool,
}

/// Prints a line for each chain, Application and deployment to sites. The exit code is 0 if all are
/// rolled out or archived.
pub(super) async fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let output = global.output();
    let rows = read(&cluster, &selection).await?;
    let others = Others::read(&cluster, &selection).await?;
    let mut lines: Vec<Line> = rows.iter().map(ChainRow::line).collect();
    lines.extend(others.lines());
    let found = lines.len();
    let is_fine = lines.iter().all(|line| line.is_fine);
    let shown = |is_fine: bool| !args.unhealthy || !is_fine;
    lines.retain(|line| shown(line.is_fine));
    let text = match args.output {
        Some(form) => {
            let chains = rows.iter().filter(|row| shown(row.is_fine()));
            let mut value = value(chains);
            others.add_to(&mut value, shown);
            document(form, &value)
        }
        None if found == 0 => {
            objects_none_found(selection.one_namespace());
            String::new()
        }
        None if lines.is_empty() => {
            report(&format!("All {found} are rolled out."));
            String::new()
        }
        None => table(lines, selection.all_namespaces).render(output),
    };
    output.print(&text)?;
    Ok(Exit::of(is_fine))
}

/// Judges all chains. Slices are read only for chains that are not rolled out, to count their
/// objects.
async fn read(cluster: &Cluster, selection: &Selection) -> Result<Vec<ChainRow>, Error> {
    let chains = lists::selected(cluster, selection).await?;
    let none = Slices::default();
    let is_open = |chain: &&Chain| judge(chain, &none).outcome != Outcome::Done;
    let open = chains.iter().filter(is_open).filter_map(Chain::subject);
    // A user without the right to read slices gets everything but the number of objects.
    let slices = lists::slices(cluster, open).await.unwrap_or_default();
    let line = |chain: Chain| ChainRow::new(chain, &slices);
    Ok(chains.into_iter().map(line).collect())
}

impl ChainRow {
    fn new(chain: Chain, slices: &Slices) -> Self {
        let mut rollout = judge(&chain, slices);
        if rollout.outcome == Outcome::Done
            && let Some(revision) = chain.subject()
        {
            // All wanted objects exist.
            let all = written(revision);
            (rollout.ready, rollout.of) = (all, all);
        }
        Self { chain, rollout }
    }

    /// True if the revisions are archived and have no deployment.
    fn is_archived(&self) -> bool {
        let newest = self.chain.newest();
        self.chain.deployment.is_none() && newest.is_some_and(Revision::is_archived)
    }

    fn is_fine(&self) -> bool {
        self.rollout.outcome == Outcome::Done || self.is_archived()
    }

    fn line(&self) -> Line {
        let Self { chain, rollout } = self;
        let target = chain.target().map(|target| target.to_string());
        let number = chain.subject().and_then(Revision::number);
        Line {
            namespace: chain.namespace().unwrap_or_default().to_owned(),
            target: target.unwrap_or_default(),
            revision: number.map_or_else(String::new, |number| number.to_string()),
            verdict: self.verdict(),
            ready: ready(rollout.ready, rollout.of),
            message: self.message(),
            is_fine: self.is_fine(),
        }
    }

    fn verdict(&self) -> Cell {
        match self.rollout.outcome {
            _ if self.is_archived() => Cell::painted(Paint::Dim, "Archived"),
            outcome => Cell::painted(status::paint(outcome), status::verdict(outcome)),
        }
    }

    /// The reason that the chain is not rolled out; for a rolled-out one, the note that it is
    /// paused.
    fn message(&self) -> String {
        let deployment = self.chain.deployment.as_ref();
        if !self.is_fine() {
            message(&self.rollout)
        } else if deployment.is_some_and(|deployment| deployment.spec.paused) {
            "paused".to_owned()
        } else {
            String::new()
        }
    }
}

/// A count of what is ready; empty if there is nothing to count.
fn ready(ready: impl Display, of: impl Into<u64> + Copy) -> String {
    match of.into() {
        0 => String::new(),
        of => format!("{ready}/{of}"),
    }
}

fn table(lines: Vec<Line>, with_namespaces: bool) -> Table {
    let headings = [
        "NAMESPACE",
        "NAME",
        "REVISION",
        "VERDICT",
        "READY",
        "MESSAGE",
    ];
    let mut table = Table::new(if with_namespaces {
        &headings
    } else {
        &headings[1..]
    });
    for line in lines {
        let mut cells: Vec<Cell> = Vec::new();
        if with_namespaces {
            cells.push(line.namespace.into());
        }
        cells.extend([
            Cell::painted(Paint::Strong, line.target),
            line.revision.into(),
            line.verdict,
            line.ready.into(),
            line.message.into(),
        ]);
        table.row(cells);
    }
    table
}

fn value<'a>(rows: impl Iterator<Item = &'a ChainRow>) -> Value {
    let values = rows.map(|row| status::value(&row.chain, &row.rollout));
    json!({ "chains": values.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_text::output::Output;

    use crate::selection::from_objects;

    const API: &str = "package-operator.run/v1alpha1";

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn phases() -> Value {
        let object = |name: &str| {
            let metadata = json!({ "name": name });
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
        };
        json!({"phases": [{"name": "a", "objects": [object("x"), object("y")]}]})
    }

    fn deployment(name: &str, progressing: &Value) -> Value {
        json!({
            "apiVersion": API, "kind": "ObjectDeployment",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": phases()}},
            "status": {"conditions": [condition("Available", "True", "Available", ""), progressing]},
        })
    }

    fn set(name: &str, owner: &str, conditions: &Value, controlled: &[&str]) -> Value {
        let controlled: Vec<Value> = controlled
            .iter()
            .map(|name| json!({"kind": "ConfigMap", "group": "", "name": name, "version": "", "namespace": "shop"}))
            .collect();
        let mut set = json!({
            "apiVersion": API, "kind": "ObjectSet",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1},
            "spec": phases(), "status": {"conditions": conditions, "controllerOf": controlled},
        });
        set["spec"]["revision"] = 3.into();
        if !owner.is_empty() {
            set["metadata"]["ownerReferences"] = json!([{
                "apiVersion": API, "kind": "ObjectDeployment", "name": owner, "uid": owner, "controller": true,
            }]);
        }
        set
    }

    fn lines() -> Vec<ChainRow> {
        let done = json!([
            condition("Available", "True", "Available", ""),
            condition("Succeeded", "True", "RolloutSuccess", ""),
        ]);
        let failing = json!([condition(
            "Available",
            "False",
            "ProbeFailure",
            "Phase \"a\" failed: x"
        )]);
        let idle = condition("Progressing", "False", "Idle", "");
        let late = condition(
            "Progressing",
            "False",
            "ProgressDeadlineExceeded",
            "took too long",
        );
        let ended = json!([condition("Archived", "True", "Archived", "")]);
        let mut archived = set("old", "", &ended, &[]);
        archived["spec"]["lifecycleState"] = "Archived".into();
        let under_way = condition("Progressing", "True", "Progressing", "");
        let mut paused = deployment("paused", &idle);
        paused["spec"]["paused"] = true.into();
        let chains = from_objects(
            vec![
                deployment("fine", &idle),
                deployment("late", &late),
                deployment("waiting", &under_way),
                paused,
            ],
            vec![
                set("fine-1", "fine", &done, &["x", "y"]),
                set("late-1", "late", &failing, &["x"]),
                set("waiting-1", "waiting", &failing, &["x"]),
                set("paused-1", "paused", &done, &["x", "y"]),
                archived,
            ],
        );
        let slices = Slices::default();
        chains
            .into_iter()
            .map(|chain| ChainRow::new(chain, &slices))
            .collect()
    }

    #[test]
    fn each_deployment_has_a_line_with_its_obstacle() {
        let rows = lines();
        let lines = rows.iter().map(ChainRow::line).collect();
        insta::assert_snapshot!(table(lines, true).render(Output::plain()));
        let fine: Vec<bool> = rows.iter().map(ChainRow::is_fine).collect();
        assert_eq!(fine, [true, false, true, false, true]);
        let value = value(rows.iter());
        assert_eq!(value["chains"][1]["verdict"], "Failed");
        assert_eq!(value["chains"].as_array().unwrap().len(), 5);
    }
}
