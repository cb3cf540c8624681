//! `baton cluster join`, and `rotate`, which is a join with another token.

mod account_token;
mod plan;
mod pull;
mod push;

use baton_apis::ClusterConnection;
use baton_terminal::output::report;
use serde_json::{Value, json};

use super::{
    args::{AgentManifestArgs, JoinArgs, RotateArgs},
    error::{ClusterRole, Error},
    manifest::Change,
    manifests::{assignment, cluster, is_made_for},
    progress::Step,
    request::{Goal, Request, Settings, requests},
    server::Server,
    spec::{ClusterFields, connection_of},
};
use crate::name::ClusterName;

/// Joins one cluster, or the clusters of a file.
pub(super) async fn run(args: JoinArgs) -> Result<(), Error> {
    let mut hub = args.hub.connection();
    let is_file = args.name.is_none();
    if is_file {
        // The file names contexts of one kubeconfig, which has that of the hub as well.
        hub.kubeconfig = hub
            .kubeconfig
            .or_else(|| args.target.connection.kubeconfig.clone());
    }
    let (requests, settings) = requests(args)?;
    let hub = Server::connect(ClusterRole::Hub, &hub).await?;
    let total = requests.len();
    let mut failed = 0;
    for request in requests {
        let name = request.name.clone();
        match join(&hub, request, &settings).await {
            Err(error) if is_file => {
                report(&format!("baton: {name}: {error}"));
                failed += 1;
            }
            joined => joined?,
        }
    }
    if failed > 0 {
        return Err(Error::Some { failed, total });
    }
    Ok(())
}

/// Replaces the token of a joined cluster. Everything else stays as it was joined.
///
/// # Guarantees
/// The old token is revoked before there is a new one, and after all checks.
pub(super) async fn rotate(args: RotateArgs) -> Result<(), Error> {
    let hub = Server::connect(ClusterRole::Hub, &args.hub.connection()).await?;
    let Some(live) = hub.get(&cluster(&args.name, &json!({}))).await? else {
        return Err(Error::NoSuchCluster {
            at: hub.address(),
            name: args.name.to_string(),
        });
    };
    let connection = connection_of(&live);
    if args.apply && connection == ClusterConnection::Push {
        return Err(Error::Usage(format!(
            "--apply is for an agent, and {} is a Push cluster",
            args.name
        )));
    }
    let settings = Settings {
        namespace: args.hub.namespace.as_str().to_owned(),
        agent: AgentManifestArgs::default(),
        admitted: None,
        rights: None,
        apply: args.apply,
        goal: Goal::NewToken,
        dry_run: args.dry_run,
        allow_same: args.target.allow_same,
    };
    let request = Request {
        name: args.name,
        target: args.target.connection,
        fields: ClusterFields {
            connection,
            ..ClusterFields::default()
        },
    };
    join(&hub, request, &settings).await
}

async fn join(hub: &Server, request: Request, settings: &Settings) -> Result<(), Error> {
    request.name.class()?;
    let plan = match request.fields.connection {
        ClusterConnection::Push => push::plan(hub, request, settings).await?,
        ClusterConnection::Pull => pull::plan(hub, request, settings).await?,
    };
    plan.run(settings.goal, settings.dry_run).await
}

/// The step for the SiteAssignment; `None` if no namespaces were given.
async fn plan_assignment(
    hub: &Server,
    name: &ClusterName,
    settings: &Settings,
) -> Result<Option<Step>, Error> {
    let Some(admitted) = &settings.admitted else {
        return Ok(None);
    };
    let manifest = assignment(name, admitted);
    let live = hub.get(&manifest).await?;
    if live.as_ref().is_some_and(|live| !is_made_for(live, name)) {
        return Err(Error::ForeignAssignment {
            name: name.to_string(),
        });
    }
    Ok(Some(exactly(Step::new(ClusterRole::Hub, manifest, live)?)))
}

/// Makes the step an update if the live object allows other namespaces than the requested ones.
fn exactly(mut step: Step) -> Step {
    let namespaces = |object: &Value| object.pointer("/spec/namespaces").cloned();
    let wanted = namespaces(&step.manifest.0);
    if step
        .live
        .as_ref()
        .is_some_and(|live| namespaces(live) != wanted)
    {
        step.change = Change::Update;
    }
    step
}

/// Reads the Cluster. An error if its connection is not the requested one.
async fn read_cluster(
    hub: &Server,
    name: &ClusterName,
    wanted: ClusterConnection,
) -> Result<Option<Value>, Error> {
    let found = hub.get(&cluster(name, &json!({}))).await?;
    match found.as_ref().map(connection_of) {
        Some(found) if found != wanted => Err(Error::OtherConnection {
            name: name.to_string(),
            found: found.to_string(),
        }),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::request::Admitted;

    #[test]
    fn an_assignment_is_replaced_by_the_requested_namespaces() {
        let name: ClusterName = "eu-1".parse().unwrap();
        let names =
            |names: &[&str]| Admitted::Names(names.iter().map(ToString::to_string).collect());
        let all = [Admitted::All, names(&["a"]), names(&["a", "b"])];
        for wanted in &all {
            for there in &all {
                let live = assignment(&name, there).0;
                let step =
                    Step::new(ClusterRole::Hub, assignment(&name, wanted), Some(live)).unwrap();
                let expected = if wanted == there {
                    Change::Keep
                } else {
                    Change::Update
                };
                assert_eq!(exactly(step).change, expected, "{wanted:?} over {there:?}");
            }
        }
        // Another user has changed the reach, which stays, and then added a selector, which does
        // not.
        let mut live = assignment(&name, &all[1]).0;
        live["spec"]["scope"] = "Cluster".into();
        let step = |live: &Value| {
            let step = Step::new(
                ClusterRole::Hub,
                assignment(&name, &all[1]),
                Some(live.clone()),
            );
            exactly(step.unwrap()).change
        };
        assert_eq!(step(&live), Change::Keep);
        live["spec"]["namespaces"]["selector"] = json!({});
        assert_eq!(step(&live), Change::Update);
        assert!(is_made_for(&live, &name));
        assert!(!is_made_for(&live, &"eu-2".parse().unwrap()));
        assert!(!is_made_for(
            &json!({ "metadata": { "name": "eu-1" } }),
            &name
        ));
    }
}
