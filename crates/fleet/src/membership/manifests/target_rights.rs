//! The rights of a deliverer in a cluster: the hub or the agent of the cluster.

use baton_apis::rights;
use clap::ValueEnum as _;
use serde_json::{Map, Value, json};

use super::{fill, identity};
use crate::membership::{
    args::RightsMode,
    manifest::{Change, Manifest},
    progress::Step,
    request::Admitted,
};

/// Annotation on the cluster role of a deliverer, and on a Cluster with an agent: the requested
/// mode.
const ANNOTATION_RIGHTS: &str = "baton.run/rights";

/// The requested rights in a target, from this or an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::membership) struct TargetRights {
    /// `None` if no mode was ever given.
    mode: Option<RightsMode>,
    /// True if the mode was given in this run. It then replaces rules that others have changed.
    is_given: bool,
    /// The namespaces whose service accounts the deliverer may act as; `None` to leave them as they
    /// are.
    tenants: Option<Vec<String>>,
}

impl TargetRights {
    /// The given mode, else that of an earlier run.
    pub fn new(
        given: Option<RightsMode>,
        before: Option<RightsMode>,
        admitted: Option<&Admitted>,
    ) -> Self {
        let mode = given.or(before);
        let tenants = match (mode.unwrap_or_default(), admitted) {
            (RightsMode::Tenants, Some(Admitted::Names(names))) => Some(names.clone()),
            // All namespaces would include kube-system.
            (RightsMode::Tenants, Some(Admitted::All) | None) => None,
            // This mode can act as all service accounts without a binding.
            (RightsMode::Trusted, _) => given.map(|_| Vec::new()),
        };
        Self {
            mode,
            is_given: given.is_some(),
            tenants,
        }
    }

    /// The annotation by which an object stores the mode, if there is one.
    pub fn annotations(&self) -> Map<String, Value> {
        let mode = self.mode.and_then(|mode| mode.to_possible_value());
        let said = mode.map(|mode| (ANNOTATION_RIGHTS.to_owned(), mode.get_name().into()));
        said.into_iter().collect()
    }

    /// The rules of the role that is bound in all namespaces.
    pub fn rules(&self) -> Vec<Value> {
        match self.mode.unwrap_or_default() {
            RightsMode::Trusted => rights::delivery(),
            RightsMode::Tenants => rights::delivery_for_tenants(),
        }
    }

    /// The manifests that let an account act as the service accounts of tenants; empty if it may
    /// already.
    pub fn of_tenants(&self, account: &str) -> Vec<Manifest> {
        if self.mode != Some(RightsMode::Tenants) {
            return Vec::new();
        }
        let mut values = vec![
            ("role", json!(tenants_role(account))),
            ("account", account.into()),
            ("impersonation", rights::impersonation().into()),
        ];
        let mut manifests = fill(include_str!("tenants.yaml"), &values);
        for namespace in self.tenants.iter().flatten() {
            values.push(("namespace", namespace.as_str().into()));
            manifests.extend(fill(include_str!("tenant.yaml"), &values));
            values.pop();
        }
        manifests
    }

    /// Lets a step replace rules that another user has chosen, if the mode was given in this run.
    pub fn allow_replacement(&self, step: &mut Step) {
        if self.is_given && matches!(step.change, Change::Leave { .. }) {
            step.change = Change::Update;
        }
    }

    /// True if the account must no longer act as the service accounts of a namespace.
    pub fn revokes(&self, namespace: &str) -> bool {
        let tenants = self.tenants.as_ref();
        tenants.is_some_and(|tenants| !tenants.iter().any(|tenant| tenant == namespace))
    }

    /// True if there may be namespaces whose service accounts the account must no longer act as.
    pub fn may_revoke(&self) -> bool {
        self.tenants.is_some()
    }

    /// The message about a manual step that is needed before anything can be delivered, if there is
    /// one.
    pub fn note(&self, account: &str) -> Option<String> {
        let is_open = self.mode == Some(RightsMode::Tenants) && self.tenants.is_none();
        is_open.then(|| {
            let role = tenants_role(account);
            format!(
                "Note: objects are written as service accounts of namespaces in which the cluster role {role} is \
                 bound; bind it with --for-namespaces, or by kubectl create rolebinding {role} --clusterrole={role} \
                 --serviceaccount=baton-system:{account} --namespace=NAMESPACE"
            )
        })
    }
}

/// The mode that an object stores.
pub(in crate::membership) fn mode_of(object: &Value) -> Option<RightsMode> {
    let annotations = object.pointer("/metadata/annotations")?;
    let text = annotations.get(ANNOTATION_RIGHTS)?.as_str()?;
    RightsMode::from_str(text, false).ok()
}

/// Name of the role that lets an account act as service accounts.
pub(in crate::membership) fn tenants_role(account: &str) -> String {
    format!("{account}-tenant")
}

/// The identity of a cluster role.
pub(in crate::membership) fn cluster_role(name: &str) -> Manifest {
    identity("rbac.authorization.k8s.io/v1", "ClusterRole", "", name)
}

/// The identity of the bindings of an account to the service accounts of tenants, which are in
/// several namespaces.
pub(in crate::membership) fn tenants_binding(account: &str) -> Manifest {
    let role = tenants_role(account);
    identity("rbac.authorization.k8s.io/v1", "RoleBinding", "", &role)
}

#[cfg(test)]
mod tests {
    use RightsMode::{Tenants, Trusted};

    use super::*;
    use crate::membership::error::ClusterRole;

    fn names(names: &[&str]) -> Admitted {
        Admitted::Names(names.iter().map(ToString::to_string).collect())
    }

    /// Titles of the objects that are created for tenants.
    fn made(rights: &TargetRights) -> Vec<String> {
        let manifests = rights.of_tenants("baton-hub");
        manifests.iter().map(Manifest::title).collect()
    }

    #[test]
    fn the_requested_rights_mode_overrides_that_of_an_earlier_run() {
        let (role, shop) = ("cluster role baton-hub-tenant", "namespace shop");
        let binding = "role binding baton-hub-tenant in namespace shop";
        let shops = names(&["shop"]);
        for (given, before, admitted, is_tenants, expected) in [
            (None, None, None, false, &[][..]),
            (None, None, Some(&shops), false, &[]),
            (Some(Trusted), Some(Tenants), Some(&shops), false, &[]),
            (Some(Tenants), Some(Trusted), None, true, &[role]),
            (None, Some(Tenants), Some(&Admitted::All), true, &[role]),
            (
                None,
                Some(Tenants),
                Some(&shops),
                true,
                &[role, shop, binding],
            ),
        ] {
            let rights = TargetRights::new(given, before, admitted);
            assert_eq!(made(&rights), expected, "{rights:?}");
            let rules = json!(rights.rules()).to_string();
            assert_eq!(!rules.contains(r#""*""#), is_tenants, "{rights:?}");
            let object = json!({ "metadata": { "annotations": rights.annotations() } });
            assert_eq!(mode_of(&object), given.or(before));
        }
    }

    #[test]
    fn rights_are_revoked_only_in_namespaces_known_to_be_unwanted() {
        let some = names(&["shop", "bar"]);
        for (given, before, admitted, expected) in [
            (None, None, None, false),
            (None, None, Some(&some), false),
            (Some(Tenants), None, None, false),
            (Some(Tenants), None, Some(&Admitted::All), false),
            (None, Some(Tenants), Some(&some), true),
            (Some(Trusted), Some(Tenants), None, true),
        ] {
            let rights = TargetRights::new(given, before, admitted);
            assert_eq!(rights.revokes("other"), expected, "{rights:?}");
            assert_eq!(rights.may_revoke(), expected, "{rights:?}");
        }
        let rights = TargetRights::new(Some(Tenants), None, Some(&some));
        assert!(!rights.revokes("shop") && !rights.revokes("bar"));
    }

    #[test]
    fn rules_with_another_field_manager_are_replaced_on_request() {
        for (given, expected) in [(Some(Tenants), true), (Some(Trusted), true), (None, false)] {
            let rights = TargetRights::new(given, Some(Tenants), None);
            let mut role = cluster_role("baton-hub");
            role.0["rules"] = rights.rules().into();
            let mut live = role.0.clone();
            live["rules"] = json!([]);
            live["metadata"]["managedFields"] =
                json!([{ "manager": "kubectl-edit", "fieldsV1": { "f:rules": {} } }]);
            let mut step = Step::new(ClusterRole::Target, role, Some(live)).unwrap();
            rights.allow_replacement(&mut step);
            assert_eq!(step.change == Change::Update, expected, "{given:?}");
        }
    }

    #[test]
    fn a_note_names_the_role_that_is_left_to_be_bound() {
        let shop = names(&["shop"]);
        let note = |given, admitted| TargetRights::new(given, None, admitted).note("baton-hub");
        assert_eq!(note(Some(Tenants), Some(&shop)), None);
        assert_eq!(note(Some(Trusted), None), None);
        assert_eq!(note(None, None), None);
        for admitted in [None, Some(&Admitted::All)] {
            let note = note(Some(Tenants), admitted).unwrap();
            assert!(note.contains("--clusterrole=baton-hub-tenant"), "{note}");
        }
    }
}
