//! The steps of joining a cluster, for both directions of the connection.

use baton_terminal::output::{print, report};

use super::account_token::AccountToken;
use crate::{
    membership::{
        error::{ClusterRole, Error},
        manifest::{Manifest, uid},
        manifests::{
            Credentials, HUB,
            agent::{AGENT, Agent, AgentOptions},
            cluster_secret,
            target_rights::TargetRights,
        },
        progress::{Progress, Step},
        request::Goal,
        rights::Right,
        server::Server,
    },
    name::ClusterName,
};

/// The steps to carry out, in this order.
pub(super) struct Plan<'a> {
    pub name: ClusterName,
    pub hub: &'a Server,
    /// `None` if only the hub is changed.
    pub target: Option<Server>,
    /// Steps in the cluster to which the other one connects. The last one creates the token.
    pub account: Vec<Step>,
    pub account_token: AccountToken,
    /// Step on the hub, before that of the Cluster, so that the Cluster is never open to too many
    /// namespaces.
    pub assignment: Option<Step>,
    /// Step on the hub. The Cluster is not used without the following steps.
    pub cluster: Step,
    pub access: TokenRecipient,
    /// The rights of the deliverer in the target.
    pub rights: TargetRights,
    /// Steps that create the access, in the cluster that connects, with the present token.
    pub access_steps: Vec<Step>,
}

/// The object that gets the token: a Secret on the hub, or the agent.
pub(super) enum TokenRecipient {
    /// The Secret of the Cluster, in this namespace on the hub.
    Secret(String),
    /// The agent in the target.
    Agent(AgentOptions),
}

impl TokenRecipient {
    pub fn manifests(
        &self,
        name: &ClusterName,
        server: &str,
        credentials: &Credentials,
        cluster_uid: &str,
    ) -> Result<Vec<Manifest>, Error> {
        match self {
            Self::Secret(namespace) => Ok(vec![cluster_secret(
                name,
                namespace,
                cluster_uid,
                server,
                credentials,
            )]),
            Self::Agent(options) => {
                let agent = Agent {
                    cluster: name,
                    options,
                    hub: server,
                    credentials,
                };
                Ok(agent.manifests()?)
            }
        }
    }

    /// The account in the target that delivers.
    fn deliverer(&self) -> &'static str {
        match self {
            Self::Secret(_) => HUB,
            Self::Agent(_) => AGENT,
        }
    }

    /// The cluster of the access, and the cluster of the account that it uses.
    fn sides(&self) -> (ClusterRole, ClusterRole) {
        match self {
            Self::Secret(_) => (ClusterRole::Hub, ClusterRole::Target),
            Self::Agent(_) => (ClusterRole::Target, ClusterRole::Hub),
        }
    }
}

impl Plan<'_> {
    /// Carries out the plan, or prints the steps of a dry run. Missing rights are reported before
    /// the first write.
    pub async fn run(mut self, goal: Goal, dry_run: bool) -> Result<(), Error> {
        for side in [ClusterRole::Target, ClusterRole::Hub] {
            if let Some(server) = self.server(side) {
                server.require_rights(self.rights(side)).await?;
            }
        }
        let connection = match self.access {
            TokenRecipient::Secret(_) => "which the hub connects to",
            TokenRecipient::Agent(_) => "whose agent connects to the hub",
        };
        let doing = match goal {
            Goal::Member => "Joining",
            Goal::NewToken => "Replacing the token of",
        };
        report(&format!("{doing} cluster {}, {connection}:", self.name));
        if dry_run {
            self.forecast();
            return Ok(());
        }
        let mut progress = Progress::over(self.steps().map(|(_, step)| step));
        match self.carry_out(&mut progress).await {
            Ok(()) => self.finish(goal, &progress),
            Err(error) => return Err(progress.halfway(error)),
        }
        Ok(())
    }

    fn server(&self, side: ClusterRole) -> Option<&Server> {
        match side {
            ClusterRole::Hub => Some(self.hub),
            ClusterRole::Target => self.target.as_ref(),
        }
    }

    fn steps(&self) -> impl Iterator<Item = (ClusterRole, &Step)> {
        let (access, account) = self.access.sides();
        let steps = self.account.iter().map(move |step| (account, step));
        steps
            .chain(self.assignment.iter().map(|step| (ClusterRole::Hub, step)))
            .chain([(ClusterRole::Hub, &self.cluster)])
            .chain(self.access_steps.iter().map(move |step| (access, step)))
    }

    fn rights(&self, side: ClusterRole) -> Vec<Right> {
        let steps = self.steps().filter(|(of, _)| *of == side);
        let mut rights: Vec<Right> = steps.flat_map(|(_, step)| step.rights()).collect();
        let (_, account) = self.access.sides();
        if let Some(secret) = self.account_token.awaited().filter(|_| account == side) {
            rights.extend(["list", "watch"].map(|verb| secret.right(verb)));
        }
        rights
    }

    fn forecast(&self) {
        let mut at = None;
        for (side, step) in self.steps() {
            self.print_heading(&mut at, side);
            report(&step.forecast());
        }
        if self.target.is_none() {
            report("Would print the manifest of the agent");
        }
    }

    /// Prints a heading if the next step is in another cluster than the last one.
    fn print_heading(&self, at: &mut Option<ClusterRole>, side: ClusterRole) {
        if *at != Some(side)
            && let Some(server) = self.server(side)
        {
            report(&server.heading());
        }
        *at = Some(side);
    }

    async fn carry_out(&mut self, progress: &mut Progress) -> Result<(), Error> {
        let (access, account) = self.access.sides();
        let mut at = None;
        self.print_heading(&mut at, account);
        let server = match account {
            ClusterRole::Hub => Some(self.hub),
            ClusterRole::Target => self.target.as_ref(),
        };
        let Some(server) = server else { return Ok(()) };
        for step in &self.account {
            progress.carry_out(server, step).await?;
        }
        let credentials = self.account_token.credentials(server).await?;
        self.print_heading(&mut at, ClusterRole::Hub);
        if let Some(assignment) = &self.assignment {
            progress.carry_out(self.hub, assignment).await?;
        }
        let cluster = progress.carry_out(self.hub, &self.cluster).await?;
        let url = &self.account_token.address.url;
        let manifests = self
            .access
            .manifests(&self.name, url, &credentials, uid(&cluster))?;
        let Some(server) = self.server(access) else {
            report(
                "Printing the manifest of the agent, which is to be applied in the cluster and holds the agent's token",
            );
            return print(&documents(&manifests)?).map_err(Error::Output);
        };
        self.print_heading(&mut at, access);
        let (made, others) = self.access_steps.split_at(manifests.len());
        for (manifest, planned) in manifests.into_iter().zip(made) {
            let mut step = Step::new(access, manifest, planned.live.clone())?;
            self.rights.allow_replacement(&mut step);
            progress.carry_out(server, &step).await?;
        }
        for step in others {
            progress.carry_out(server, step).await?;
        }
        Ok(())
    }

    fn finish(&self, goal: Goal, progress: &Progress) {
        let name = &self.name;
        if !progress.has_changed_something() {
            report(&format!(
                "Cluster {name} was joined already; nothing was changed"
            ));
            return;
        }
        report(&match goal {
            Goal::Member => format!("Finished joining cluster {name}"),
            Goal::NewToken => format!("Finished replacing the token of cluster {name}"),
        });
        if let Some(note) = self.rights.note(self.access.deliverer()) {
            report(&note);
        }
        let address = &self.account_token.address;
        if address.is_local() {
            let reader = match self.access {
                TokenRecipient::Secret(_) => "the manager",
                TokenRecipient::Agent(_) => "the agent",
            };
            report(&format!(
                "Note: {} is an address of this machine; if {reader} runs elsewhere, give an address that it can reach \
                 with --{}",
                address.url, address.flag
            ));
        }
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
