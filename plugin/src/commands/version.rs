//! `version`: the versions of this program, the manager and the agents.

use baton_cluster::ClusterError;
use baton_terminal::output::{Print as _, report};
use baton_text::output::{
    format::{DocumentFormat, document},
    table::Table,
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    installation::{Agent, Manager, OWN_VERSION, agents, managers, server_time},
};

/// Print the versions of this program, of the manager and of the agents
#[derive(Clone, Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only the version of this program; no request is sent
    #[arg(long)]
    client: bool,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

pub(crate) async fn run(args: &VersionArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let output = global.output();
    let (mut leaders, mut others) = (Vec::new(), Vec::new());
    if !args.client {
        let cluster = global.connect().await?;
        // A user who may not list leases still sees the version of this program.
        let now = server_time(&cluster).await.unwrap_or_else(Timestamp::now);
        match managers(&cluster, now).await {
            Err(error) if error.is_code(403) => report(&format!("note: {error}")),
            found => leaders = found?,
        }
        match agents(&cluster).await {
            Err(Error::Cluster(ClusterError::NotServed { .. })) => {}
            Err(error) if error.is_code(403) => report(&format!("note: {error}")),
            found => others = found?,
        }
    }
    let text = match args.output {
        Some(form) => {
            let all = json!({ "client": OWN_VERSION, "managers": leaders, "agents": others });
            document(form, &all)
        }
        None => table(&leaders, &others).render(output),
    };
    output.print(&text)?;
    for warning in skew(&leaders, &others) {
        report(&format!("warning: {warning}"));
    }
    Ok(Exit::Fine)
}

fn table(managers: &[Manager], agents: &[Agent]) -> Table {
    let mut table = Table::new(&["PROGRAM", "VERSION", "PLACE"]);
    table.row(["kubectl-baton", OWN_VERSION, "here"]);
    for manager in managers {
        let version = match (manager.is_live, &manager.version) {
            (false, _) => "<none>",
            (true, version) => version.as_deref().unwrap_or("<unknown>"),
        };
        let place = match &manager.leader {
            Some(leader) if manager.is_live => {
                format!("{leader} in the namespace {}", manager.namespace)
            }
            _ => format!("no manager leads in the namespace {}", manager.namespace),
        };
        table.row(["manager", version, &place]);
    }
    for agent in agents {
        let version = agent.version.as_deref().unwrap_or("<unknown>");
        table.row(["agent", version, &format!("cluster {}", agent.cluster)]);
    }
    table
}

/// A warning for each other version. Programs of one minor version work together.
fn skew(managers: &[Manager], agents: &[Agent]) -> Vec<String> {
    let minor = |version: &str| {
        let mut parts = version.split('.');
        (
            parts.next().map(str::to_owned),
            parts.next().map(str::to_owned),
        )
    };
    let managers = managers.iter().filter_map(|it| {
        let version = it.version.as_deref().filter(|_| it.is_live)?;
        Some((
            version,
            format!("the manager in the namespace {}", it.namespace),
        ))
    });
    let agents = agents.iter().filter_map(|it| {
        let version = it.version.as_deref()?;
        Some((version, format!("the agent of the cluster {}", it.cluster)))
    });
    let all = managers.chain(agents);
    all.filter(|(version, _)| minor(version) != minor(OWN_VERSION))
        .map(|(version, subject)| {
            format!("{subject} has version {version}, and this program has {OWN_VERSION}; use the same version")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_text::output::Output;

    fn manager(version: Option<&str>) -> Manager {
        Manager {
            namespace: "baton-system".to_owned(),
            leader: Some("pod-1".to_owned()),
            version: version.map(str::to_owned),
            is_live: true,
            ..Manager::default()
        }
    }

    #[test]
    fn all_programs_are_listed() {
        let idle = Manager {
            is_live: false,
            ..manager(Some("1.0.0"))
        };
        let agent = Agent {
            cluster: "eu-1".to_owned(),
            version: None,
        };
        let text = table(&[manager(Some("9.8.7")), idle], &[agent]).render(Output::plain());
        assert_eq!(
            text,
            format!(
                "PROGRAM         VERSION     PLACE\n\
                 kubectl-baton   {OWN_VERSION:<9}   here\n\
                 manager         9.8.7       pod-1 in the namespace baton-system\n\
                 manager         <none>      no manager leads in the namespace baton-system\n\
                 agent           <unknown>   cluster eu-1\n"
            )
        );
    }

    #[test]
    fn another_minor_version_is_a_warning() {
        assert_eq!(
            skew(&[manager(Some(OWN_VERSION)), manager(None)], &[]),
            [""; 0]
        );
        let idle = Manager {
            is_live: false,
            ..manager(Some("9.8.7"))
        };
        assert_eq!(skew(&[idle], &[]), [""; 0]);
        let warnings = skew(&[manager(Some("9.8.7"))], &[]);
        assert!(
            warnings[0].contains("baton-system has version 9.8.7"),
            "{warnings:?}"
        );
    }
}
