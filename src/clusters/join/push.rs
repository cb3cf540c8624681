//! A cluster that the hub connects to.

use serde_json::json;

use super::{Entrance, Request, Settings, apart, finish, is_free, live_account, read_cluster, uid};
use crate::clusters::{
    error::{Error, Side},
    manifest::Manifest,
    manifests::{cluster, cluster_secret, hub_account},
    progress::{Progress, Step, foretell, say},
    rights::Right,
    server::{Address, Server},
    spec::{Connection, address, spec},
};

/// What is to be done, step by step.
struct Plan<'a> {
    request: &'a Request,
    namespace: &'a str,
    /// In the target. The last one makes the token.
    account: Vec<Step>,
    /// On the hub. Before its Secret is there, a Cluster is not used.
    cluster: Step,
    /// On the hub, with the token that there is now.
    secret: Step,
}

/// Joins a cluster.
///
/// # Errors
/// One line. Whatever can be known to fail fails before the first write.
pub(super) async fn join(hub: &Server, request: Request, settings: &Settings) -> Result<(), Error> {
    let name = &request.name;
    name.class()?;
    let target = Server::connect(Side::Target, &request.target).await?;
    apart(hub, &target, settings.allow_same).await?;
    let live = read_cluster(hub, name, Connection::Push).await?;
    is_namespace(hub, &settings.namespace).await?;

    let account = hub_account(name);
    is_free(&target, name).await?;
    let account = Step::plan(&target, account).await?;
    let spec = spec(&request.given, live.as_ref(), target.url());
    let place = Address {
        url: address(&spec, live.as_ref()).to_owned(),
        is_given: request.given.api_master.is_some(),
        flag: "server",
    };
    let Some(token) = account.last() else {
        return Ok(());
    };
    let mut entrance = Entrance::look(&target, live_account(&account), token, place).await?;
    let owner = live.as_ref().map_or("", uid);
    let secret = cluster_secret(name, &settings.namespace, owner, &entrance.expected());
    let present = hub.get(&secret).await?;
    let plan = Plan {
        request: &request,
        namespace: &settings.namespace,
        account,
        cluster: Step::new(Side::Hub, cluster(name, &spec), live)?,
        secret: Step::new(Side::Hub, secret, present)?,
    };
    target.demand(plan.rights_in_target(&entrance)).await?;
    hub.demand(plan.rights_on_hub()).await?;

    say(&format!(
        "Joining cluster {name}, which the hub connects to:"
    ));
    if settings.dry_run {
        plan.foretell(hub, &target);
        return Ok(());
    }
    let mut progress = Progress::over(plan.steps());
    match plan.carry_out(hub, &mut entrance, &mut progress).await {
        Ok(()) => {
            finish(&progress, name, &entrance.address, "the manager");
            Ok(())
        }
        Err(error) => Err(progress.halfway(error)),
    }
}

/// The hub keeps the Secrets of its clusters somewhere; a misspelt place would be found by nobody.
async fn is_namespace(hub: &Server, namespace: &str) -> Result<(), Error> {
    let wanted = Manifest(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    }));
    if hub.get(&wanted).await?.is_some() {
        return Ok(());
    }
    Err(Error::NoClustersNamespace {
        url: hub.url().to_owned(),
        namespace: namespace.to_owned(),
    })
}

impl Plan<'_> {
    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.account.iter().chain([&self.cluster, &self.secret])
    }

    fn rights_in_target(&self, entrance: &Entrance<'_>) -> Vec<Right> {
        let mut rights: Vec<Right> = self.account.iter().flat_map(Step::rights).collect();
        if entrance.credentials.is_none() {
            rights.extend(["list", "watch"].map(|verb| entrance.secret.right(verb)));
        }
        rights
    }

    fn rights_on_hub(&self) -> Vec<Right> {
        self.cluster.rights().chain(self.secret.rights()).collect()
    }

    fn foretell(&self, hub: &Server, target: &Server) {
        say(&format!("In the target {}:", target.url()));
        foretell(&self.account);
        say(&format!("On the hub {}:", hub.url()));
        foretell(&[self.cluster.clone(), self.secret.clone()]);
    }

    async fn carry_out(
        &self,
        hub: &Server,
        entrance: &mut Entrance<'_>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let target = entrance.server;
        say(&format!("In the target {}:", target.url()));
        for step in &self.account {
            progress.carry_out(target, step).await?;
        }
        let credentials = entrance.credentials().await?;
        say(&format!("On the hub {}:", hub.url()));
        let cluster = progress.carry_out(hub, &self.cluster).await?;
        let name = &self.request.name;
        let secret = cluster_secret(name, self.namespace, uid(&cluster), &credentials);
        let secret = Step::new(Side::Hub, secret, self.secret.live.clone())?;
        progress.carry_out(hub, &secret).await?;
        Ok(())
    }
}
