//! The live rights of a deliverer in a target.

use serde_json::Value;

use super::{
    args::RightsMode,
    error::Error,
    manifest::{Change, Manifest},
    manifests::target_rights::{
        TargetRights, cluster_role, mode_of, tenants_binding, tenants_role,
    },
    progress::Step,
    server::Server,
};

/// The mode of the rights of an account.
pub(super) async fn mode_in(target: &Server, account: &str) -> Result<Option<RightsMode>, Error> {
    let role = target.get(&cluster_role(account)).await?;
    Ok(role.as_ref().and_then(mode_of))
}

/// The bindings of an account to the service accounts of tenants, also those that other clients have
/// created. Empty if their role does not exist.
pub(super) async fn bindings(
    target: &Server,
    account: &str,
) -> Result<Vec<(Manifest, Value)>, Error> {
    let role = cluster_role(&tenants_role(account));
    if target.get(&role).await?.is_none() {
        return Ok(Vec::new());
    }
    target.find(&tenants_binding(account)).await
}

/// The steps that delete bindings that are no longer wanted.
pub(super) async fn revocations(
    target: &Server,
    account: &str,
    rights: &TargetRights,
) -> Result<Vec<Step>, Error> {
    if !rights.may_revoke() {
        return Ok(Vec::new());
    }
    let bindings = bindings(target, account).await?.into_iter();
    let revoked = bindings.filter(|(binding, _)| rights.revokes(binding.namespace()));
    let steps = revoked.map(|(manifest, live)| Step {
        manifest,
        live: Some(live),
        change: Change::Delete,
    });
    Ok(steps.collect())
}
