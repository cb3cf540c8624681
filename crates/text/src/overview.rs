//! Everything that rolls out: a line for each, with the reason if it is not rolled out.

use baton_apis::{Release, SiteDeployment};
use baton_view::{
    applications::{clusters::clusters, observed::Observed, state::Verdict},
    chain::member::Revision,
    overview::{ChainRow, Overview},
    rollout::Outcome,
    sites::{self, observed::status as status_of, target::SiteTarget},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use crate::{
    application, fleet,
    output::{
        Paint,
        table::{Cell, Table},
    },
    rollout::message,
    status,
};

/// One line of the overview.
#[derive(Clone, Debug)]
pub struct Line {
    /// Namespace of the object; empty for a cluster-scoped one.
    pub namespace: String,
    /// The object, as users type it.
    pub target: String,
    /// Number of the revision, generation of the release, or version.
    pub revision: String,
    /// The verdict in one word.
    pub verdict: &'static str,
    /// The meaning of the verdict.
    pub paint: Paint,
    /// Number of parts that are ready.
    pub ready: u64,
    /// Number of parts that are wanted; zero if there is nothing to count.
    pub of: u64,
    /// The reason that it is not rolled out; for a rolled-out deployment, the note that it is paused.
    pub message: String,
    /// The last change of a condition of the object; for an Application, of its Release.
    pub since: Option<Timestamp>,
    /// True if nothing is to be done.
    pub is_fine: bool,
    /// True for a chain that belongs to an Application or to a deployment to sites.
    pub is_part: bool,
}

/// The lines of an overview: chains, then Applications, then deployments to sites.
pub fn lines(overview: &Overview) -> Vec<Line> {
    let chains = overview.chains.iter().map(chain);
    let applications = overview.applications.iter();
    let applications = applications.map(|(observed, verdict)| of_application(observed, verdict));
    let sites = overview.sites.iter().map(site_deployment);
    chains.chain(applications).chain(sites).collect()
}

fn chain(row: &ChainRow) -> Line {
    let ChainRow { chain, rollout } = row;
    let target = chain.target().map(|target| target.to_string());
    let number = chain.subject().and_then(Revision::number);
    let (paint, verdict) = match rollout.outcome {
        _ if row.is_archived() => (Paint::Dim, "Archived"),
        outcome => (status::paint(outcome), status::verdict(outcome)),
    };
    let deployment = chain.deployment.as_ref();
    Line {
        namespace: chain.namespace().unwrap_or_default().to_owned(),
        target: target.unwrap_or_default(),
        revision: number.map_or_else(String::new, |number| number.to_string()),
        verdict,
        paint,
        ready: rollout.ready,
        of: rollout.of,
        message: if !row.is_fine() {
            message(rollout)
        } else if deployment.is_some_and(|deployment| deployment.spec.paused) {
            "paused".to_owned()
        } else {
            String::new()
        },
        since: match deployment {
            Some(deployment) => last(&deployment.status.conditions),
            None => chain.subject().and_then(|it| last(&it.status.conditions)),
        },
        is_fine: row.is_fine(),
        is_part: row.is_part(),
    }
}

fn of_application(observed: &Observed, state: &Verdict) -> Line {
    let history = observed.known_history();
    let generation = history.newest().map(|newest| newest.generation.to_string());
    let release = observed.subject();
    let clusters = release.map_or_else(Vec::new, |release| clusters(observed, release));
    let pods = clusters.iter().filter_map(|cluster| cluster.capacity);
    let (pods, wanted) = pods.fold((0, 0), |(pods, wanted), capacity| {
        let available = capacity.available_pods.unwrap_or_default();
        (pods + available, wanted + capacity.wanted_pods)
    });
    let is_fine = state.outcome == Outcome::Done;
    Line {
        namespace: observed.namespace.clone(),
        target: observed.target().to_string(),
        revision: generation.unwrap_or_default(),
        verdict: status::verdict(state.outcome),
        paint: status::paint(state.outcome),
        ready: u64::from(pods.unsigned_abs()),
        of: u64::from(wanted.unsigned_abs()),
        message: if is_fine {
            String::new()
        } else {
            application::verdict::message(state)
        },
        since: release.and_then(last_of_release),
        is_fine,
        is_part: false,
    }
}

fn last_of_release(release: &Release) -> Option<Timestamp> {
    let conditions = release.status.iter().flat_map(|it| &it.conditions);
    let times = conditions.filter_map(|condition| condition.last_transition_time.as_ref());
    times.map(|time| time.0).max()
}

/// The last change of one of these conditions.
fn last(conditions: &[Condition]) -> Option<Timestamp> {
    let times = conditions.iter().map(|it| it.last_transition_time.0);
    times.max()
}

fn site_deployment(deployment: &SiteDeployment) -> Line {
    let state = sites::verdict::judge(deployment);
    let status = status_of(deployment);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let counts = &status.counts;
    let is_fine = state.outcome == Outcome::Done;
    Line {
        namespace: deployment.metadata.namespace.clone().unwrap_or_default(),
        target: SiteTarget::deployment(name).to_string(),
        revision: status.version.clone().unwrap_or_default(),
        verdict: status::verdict(state.outcome),
        paint: status::paint(state.outcome),
        ready: u64::from(counts.updated.unsigned_abs()),
        of: u64::from(counts.sites.unsigned_abs()),
        message: match (is_fine, deployment.spec.paused) {
            (true, true) => "paused".to_owned(),
            (true, false) => String::new(),
            (false, _) => fleet::message(&state),
        },
        since: last(&status.conditions),
        is_fine,
        is_part: false,
    }
}

/// The lines as a table.
#[must_use]
pub fn table(lines: Vec<Line>, with_namespaces: bool) -> Table {
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
            Cell::painted(line.paint, line.verdict),
            ready(line.ready, line.of).into(),
            line.message.into(),
        ]);
        table.row(cells);
    }
    table
}

/// A count of parts that are ready; empty if there is nothing to count.
fn ready(ready: u64, of: u64) -> String {
    match of {
        0 => String::new(),
        of => format!("{ready}/{of}"),
    }
}

/// The overview as a value for programs: the parts for which `shown` accepts that they are fine or
/// not. Kinds without objects are left out, except chains.
pub fn value(overview: &Overview, shown: impl Fn(bool) -> bool) -> Value {
    let is_done = |outcome: Outcome| outcome == Outcome::Done;
    let chains = overview.chains.iter().filter(|row| shown(row.is_fine()));
    let chains: Vec<Value> = chains
        .map(|row| status::value(&row.chain, &row.rollout))
        .collect();
    let applications = overview.applications.iter();
    let applications = applications.filter(|(_, verdict)| shown(is_done(verdict.outcome)));
    let applications: Vec<Value> = applications
        .map(|(observed, verdict)| application::status::value(observed, verdict))
        .collect();
    let sites = overview.sites.iter().filter_map(|deployment| {
        let verdict = sites::verdict::judge(deployment);
        let value = json!({
            "name": deployment.metadata.name,
            "namespace": deployment.metadata.namespace,
            "state": verdict.state,
            "message": fleet::message(&verdict),
            "status": deployment.status,
        });
        shown(is_done(verdict.outcome)).then_some(value)
    });
    let sites: Vec<Value> = sites.collect();
    let mut value = json!({ "chains": chains });
    if !applications.is_empty() {
        value["applications"] = applications.into();
    }
    if !sites.is_empty() {
        value["siteDeployments"] = sites.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use baton_view::{applications::state::judge, content::Slices};

    use super::*;
    use crate::{
        application::fixtures, fleet::fixtures as site_fixtures, from_objects, output::Output,
    };

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

    fn rows() -> Vec<ChainRow> {
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
        let overview = Overview {
            chains: rows(),
            ..Overview::default()
        };
        let lines = lines(&overview);
        let fine: Vec<bool> = lines.iter().map(|line| line.is_fine).collect();
        assert_eq!(fine, [true, false, true, false, true]);
        insta::assert_snapshot!(table(lines, true).render(Output::plain()));
        let all = value(&overview, |_| true);
        assert_eq!(all["chains"][1]["verdict"], "Failed");
        assert_eq!(all["chains"].as_array().unwrap().len(), 5);
        assert!(all["applications"].is_null());
        let open = value(&overview, |is_fine| !is_fine);
        assert_eq!(open["chains"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn applications_and_deployments_to_sites_have_the_columns_of_deployments() {
        let observed = fixtures::observed(&fixtures::mid_rollout());
        let verdict = judge(&observed);
        let overview = Overview {
            applications: vec![(observed, verdict)],
            sites: vec![serde_json::from_value(site_fixtures::deployment("eu")).unwrap()],
            ..Overview::default()
        };
        let open = lines(&overview).into_iter().filter(|line| !line.is_fine);
        assert_eq!(open.count(), 2);
        insta::assert_snapshot!(table(lines(&overview), true).render(Output::plain()));
        let value = value(&overview, |is_fine| !is_fine);
        assert_eq!(value["applications"][0]["verdict"], "Underway");
        assert_eq!(value["siteDeployments"][0]["name"], "eu");
    }
}
