//! A cluster whose agent connects to the hub.

use serde_json::{Map, Value};

use super::{Entrance, Request, Settings, apart, finish, is_free, live_account, read_cluster};
use crate::clusters::{
    error::{Error, Side},
    manifest::Manifest,
    manifests::{
        Credentials,
        agent::{Agent, Wishes},
        agent_account, cluster,
    },
    print,
    progress::{Progress, Step, foretell, say},
    rights::Right,
    server::{Address, Server},
    spec::{Connection, spec},
};

/// What is to be done, step by step.
struct Plan<'a> {
    request: &'a Request,
    wishes: &'a Wishes,
    /// On the hub. The last one makes the token.
    account: Vec<Step>,
    /// On the hub, after all that its agent needs.
    cluster: Step,
    /// In the target, if the agent is to be started there, with the token that there is now.
    agent: Vec<Step>,
}

/// Joins a cluster.
///
/// # Errors
/// One line. Whatever can be known to fail fails before the first write.
pub(super) async fn join(hub: &Server, request: Request, settings: &Settings) -> Result<(), Error> {
    let name = &request.name;
    name.class()?;
    let account = agent_account(name)?;
    let target = if settings.apply {
        let target = Server::connect(Side::Target, &request.target).await?;
        apart(hub, &target, settings.allow_same).await?;
        is_free(&target, name).await?;
        Some(target)
    } else {
        None
    };
    let live = read_cluster(hub, name, Connection::Pull).await?;
    let wishes = Wishes::new(&settings.agent, live.as_ref());
    let account = Step::plan(hub, account).await?;
    let place = Address {
        url: wishes
            .hub_server
            .clone()
            .unwrap_or_else(|| hub.url().to_owned()),
        is_given: wishes.hub_server.is_some(),
        flag: "hub-server",
    };
    let Some(token) = account.last() else {
        return Ok(());
    };
    let mut entrance = Entrance::look(hub, live_account(&account), token, place).await?;
    let spec = spec(&request.given, live.as_ref(), "");
    let wanted = annotated(cluster(name, &spec), wishes.annotations());
    let mut plan = Plan {
        request: &request,
        wishes: &wishes,
        account,
        cluster: Step::new(Side::Hub, wanted, live)?,
        agent: Vec::new(),
    };
    if let Some(target) = &target {
        let manifests = plan.agent(&entrance.address, &entrance.expected())?;
        plan.agent = Step::plan(target, manifests).await?;
        let rights = plan.agent.iter().flat_map(Step::rights).collect();
        target.demand(rights).await?;
    }
    hub.demand(plan.rights_on_hub(&entrance)).await?;

    say(&format!(
        "Joining cluster {name}, whose agent connects to the hub:"
    ));
    if settings.dry_run {
        plan.foretell(hub, target.as_ref());
        return Ok(());
    }
    let mut progress = Progress::over(plan.steps());
    let done = plan
        .carry_out(target.as_ref(), &mut entrance, &mut progress)
        .await;
    match done {
        Ok(()) => {
            finish(&progress, name, &entrance.address, "the agent");
            Ok(())
        }
        Err(error) => Err(progress.halfway(error)),
    }
}

/// A Cluster that remembers what was asked for about its agent.
fn annotated(mut cluster: Manifest, annotations: Map<String, Value>) -> Manifest {
    if !annotations.is_empty() {
        cluster.0["metadata"]["annotations"] = annotations.into();
    }
    cluster
}

impl Plan<'_> {
    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.account
            .iter()
            .chain([&self.cluster])
            .chain(&self.agent)
    }

    /// The agent's manifests, with what opens the hub.
    fn agent(&self, hub: &Address, credentials: &Credentials) -> Result<Vec<Manifest>, Error> {
        let agent = Agent {
            cluster: &self.request.name,
            wishes: self.wishes,
            hub: &hub.url,
            credentials,
        };
        Ok(agent.manifests()?)
    }

    fn rights_on_hub(&self, entrance: &Entrance<'_>) -> Vec<Right> {
        let steps = self.account.iter().chain([&self.cluster]);
        let mut rights: Vec<Right> = steps.flat_map(Step::rights).collect();
        if entrance.credentials.is_none() {
            rights.extend(["list", "watch"].map(|verb| entrance.secret.right(verb)));
        }
        rights
    }

    fn foretell(&self, hub: &Server, target: Option<&Server>) {
        say(&format!("On the hub {}:", hub.url()));
        foretell(&self.account);
        foretell(std::slice::from_ref(&self.cluster));
        match target {
            Some(target) => {
                say(&format!("In the target {}:", target.url()));
                foretell(&self.agent);
            }
            None => say("Would print the manifest of the agent"),
        }
    }

    async fn carry_out(
        &self,
        target: Option<&Server>,
        entrance: &mut Entrance<'_>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let hub = entrance.server;
        say(&format!("On the hub {}:", hub.url()));
        for step in &self.account {
            progress.carry_out(hub, step).await?;
        }
        let credentials = entrance.credentials().await?;
        progress.carry_out(hub, &self.cluster).await?;
        let manifests = self.agent(&entrance.address, &credentials)?;
        let Some(target) = target else {
            say(
                "Printing the manifest of the agent, which is to be applied in the cluster and holds the agent's token",
            );
            return print(&documents(&manifests)?);
        };
        say(&format!("In the target {}:", target.url()));
        for (manifest, planned) in manifests.into_iter().zip(&self.agent) {
            let step = Step::new(Side::Target, manifest, planned.live.clone())?;
            progress.carry_out(target, &step).await?;
        }
        Ok(())
    }
}

/// Manifests as YAML, for `kubectl apply -f -`.
fn documents(manifests: &[Manifest]) -> Result<String, Error> {
    let mut text = String::new();
    for manifest in manifests {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&manifest.0)?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}
