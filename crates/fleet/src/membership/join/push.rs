//! Plans the join of a cluster that the hub connects to.

use baton_apis::ClusterConnection;

use super::{
    account_token::{AccountToken, replace_token},
    plan::{Plan, TokenRecipient},
    plan_assignment, read_cluster,
};
use crate::membership::{
    error::{ClusterRole, Error},
    manifest::uid,
    manifests::{HUB, cluster, hub_account, identity, target_rights::TargetRights},
    progress::Step,
    request::{Goal, Request, Settings},
    server::Server,
    spec::{address, spec},
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
    let target = Server::connect(ClusterRole::Target, &target).await?;
    differs(hub, &target, settings.allow_same).await?;
    let live = read_cluster(hub, &name, ClusterConnection::Push).await?;
    has_namespace(hub, &settings.namespace).await?;
    is_free(&target, &name).await?;
    let before = mode_in(&target, HUB).await?;
    let rights = TargetRights::new(settings.rights, before, settings.admitted.as_ref());
    let mut account = Step::plan(&target, hub_account(&name, &rights)).await?;
    for step in &mut account {
        rights.allow_replacement(step);
    }
    if settings.goal == Goal::NewToken {
        replace_token(&target, &mut account)?;
    }
    let spec = spec(&given, live.as_ref(), target.url());
    let server_address = Address {
        url: address(&spec, live.as_ref()).to_owned(),
        is_given: given.api_master.is_some(),
        flag: "server",
    };
    let account_token = AccountToken::find(&target, &account, server_address).await?;
    account.extend(revocations(&target, HUB, &rights).await?);
    let access = TokenRecipient::Secret(settings.namespace.clone());
    let owner = live.as_ref().map_or("", uid);
    let url = &account_token.address.url;
    let secret = access.manifests(&name, url, &account_token.expected(), owner)?;
    Ok(Plan {
        hub,
        account,
        assignment: plan_assignment(hub, &name, settings).await?,
        cluster: Step::new(ClusterRole::Hub, cluster(&name, &spec), live)?,
        access_steps: Step::plan(hub, secret).await?,
        access,
        rights,
        account_token,
        target: Some(target),
        name,
    })
}

/// Checks that the namespace of the Secrets exists: in a misspelt one the manager would not find
/// them.
async fn has_namespace(hub: &Server, name: &str) -> Result<(), Error> {
    if hub
        .get(&identity("v1", "Namespace", "", name))
        .await?
        .is_some()
    {
        return Ok(());
    }
    Err(Error::NoClustersNamespace {
        at: hub.address(),
        namespace: name.to_owned(),
    })
}
