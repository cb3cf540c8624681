//! Plans the join of a cluster whose agent connects to the hub.

use baton_apis::ClusterConnection;

use super::{
    account_token::{AccountToken, replace_token},
    plan::{Plan, TokenRecipient},
    plan_assignment, read_cluster,
};
use crate::membership::{
    error::{ClusterRole, Error},
    manifests::{
        agent::{AGENT, AgentOptions},
        agent_account, cluster,
        target_rights::{TargetRights, mode_of},
    },
    progress::Step,
    request::{Goal, Request, Settings},
    server::Server,
    spec::spec,
    target::{differs, is_free},
    tenants::{mode_in, revocations},
    token::Address,
};

/// Reads the live objects, and decides the steps.
pub(super) async fn plan<'a>(
    hub: &'a Server,
    request: Request,
    settings: &Settings,
) -> Result<Plan<'a>, Error> {
    let Request {
        name,
        target,
        fields: given,
    } = request;
    let account = agent_account(&name)?;
    let target = if settings.apply {
        let target = Server::connect(ClusterRole::Target, &target).await?;
        differs(hub, &target, settings.allow_same).await?;
        is_free(&target, &name).await?;
        Some(target)
    } else {
        None
    };
    let live = read_cluster(hub, &name, ClusterConnection::Pull).await?;
    let in_target = match &target {
        Some(target) => mode_in(target, AGENT).await?,
        None => None,
    };
    let before = in_target.or_else(|| live.as_ref().and_then(mode_of));
    let rights = TargetRights::new(settings.rights, before, settings.admitted.as_ref());
    let options = AgentOptions::new(&settings.agent, rights.clone(), live.as_ref());
    let assignment = plan_assignment(hub, &name, settings).await?;
    let mut account = Step::plan(hub, account).await?;
    if settings.goal == Goal::NewToken {
        replace_token(hub, &mut account)?;
    }
    let given_server = options.hub_server.clone();
    let server_address = Address {
        is_given: given_server.is_some(),
        url: given_server.unwrap_or_else(|| hub.url().to_owned()),
        flag: "hub-server",
    };
    let account_token = AccountToken::find(hub, &account, server_address).await?;
    let mut wanted = cluster(&name, &spec(&given, live.as_ref(), ""));
    // The annotations of the Cluster store the options of its agent.
    let annotations = options.annotations();
    if !annotations.is_empty() {
        wanted.0["metadata"]["annotations"] = annotations.into();
    }
    let cluster = Step::new(ClusterRole::Hub, wanted, live)?;
    let access = TokenRecipient::Agent(options);
    let access_steps = match &target {
        Some(target) => {
            let url = &account_token.address.url;
            let agent = access.manifests(&name, url, &account_token.expected(), "")?;
            let mut steps = Step::plan(target, agent).await?;
            for step in &mut steps {
                rights.allow_replacement(step);
            }
            steps.extend(revocations(target, AGENT, &rights).await?);
            steps
        }
        None => Vec::new(),
    };
    Ok(Plan {
        name,
        hub,
        target,
        account,
        account_token,
        assignment,
        cluster,
        access,
        rights,
        access_steps,
    })
}
