//! Well-known kinds: their scope, and the phase of their objects.

use baton_engine::revision::KindScope;

/// The phase of an object by its kind, in the order of the rollout. A revision is torn down in the
/// opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Namespaces, which may contain all other objects.
    Namespaces,
    /// Definitions of kinds, which the objects of the kinds need.
    Crds,
    /// Accounts and rights: without an account pods are refused, and without rights they cannot
    /// work.
    Rbac,
    /// Objects that pods refer to or are admitted by: settings, volumes, quotas, policies, classes.
    /// Objects of foreign kinds without a definition in the package are here as well: their
    /// controller runs already, and pods often wait for its results, such as a Secret.
    Config,
    /// Services, as pods get older services into their environment.
    Services,
    Workloads,
    /// Registrations that make the API server call the workloads. Before the workloads respond, the
    /// server would refuse requests of the whole cluster.
    Registrations,
    /// Objects of the package's own kinds: the workloads check, default and handle them, and still
    /// run to clean up after them when the revision is torn down.
    CustomResources,
    Scaling,
    /// Objects that route requests from outside to the workloads.
    Traffic,
}

impl Stage {
    /// All stages, in order.
    pub(crate) const ALL: [Self; 10] = [
        Self::Namespaces,
        Self::Crds,
        Self::Rbac,
        Self::Config,
        Self::Services,
        Self::Workloads,
        Self::Registrations,
        Self::CustomResources,
        Self::Scaling,
        Self::Traffic,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Crds => "crds",
            Self::Rbac => "rbac",
            Self::Config => "config",
            Self::Services => "services",
            Self::Workloads => "workloads",
            Self::Registrations => "registrations",
            Self::CustomResources => "custom-resources",
            Self::Scaling => "scaling",
            Self::Traffic => "traffic",
        }
    }
}

use KindScope::{Cluster, Namespaced};
use Stage::{Config, Scaling, Traffic};

/// The built-in kinds of every API server that have stored objects, and the kinds of Baton. A line
/// has a group (`-` for the core group), the scope, the stage, and kinds.
const BUILT_IN: &str = "\
- Namespaced config ConfigMap Event LimitRange PersistentVolumeClaim PodTemplate ResourceQuota Secret
- Namespaced services Endpoints Service
- Cluster namespaces Namespace
- Cluster config Node PersistentVolume
- Namespaced workloads Pod ReplicationController
- Namespaced rbac ServiceAccount
admissionregistration.k8s.io Cluster config MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io Cluster config ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io Cluster registrations MutatingWebhookConfiguration ValidatingWebhookConfiguration
apiextensions.k8s.io Cluster crds CustomResourceDefinition
apiregistration.k8s.io Cluster registrations APIService
apps Namespaced config ControllerRevision
apps Namespaced workloads DaemonSet Deployment ReplicaSet StatefulSet
autoscaling Namespaced scaling HorizontalPodAutoscaler
batch Namespaced workloads CronJob Job
certificates.k8s.io Cluster config CertificateSigningRequest ClusterTrustBundle
coordination.k8s.io Namespaced config Lease
discovery.k8s.io Namespaced services EndpointSlice
events.k8s.io Namespaced config Event
flowcontrol.apiserver.k8s.io Cluster config FlowSchema PriorityLevelConfiguration
networking.k8s.io Cluster config IPAddress IngressClass ServiceCIDR
networking.k8s.io Namespaced traffic Ingress
networking.k8s.io Namespaced config NetworkPolicy
node.k8s.io Cluster config RuntimeClass
package-operator.run Cluster workloads ClusterObjectDeployment ClusterObjectSet ClusterObjectSetPhase
package-operator.run Cluster config ClusterObjectSlice
package-operator.run Namespaced workloads ObjectDeployment ObjectSet ObjectSetPhase
package-operator.run Namespaced config ObjectSlice
policy Namespaced config PodDisruptionBudget
rbac.authorization.k8s.io Cluster rbac ClusterRole ClusterRoleBinding
rbac.authorization.k8s.io Namespaced rbac Role RoleBinding
resource.k8s.io Cluster config DeviceClass DeviceTaintRule ResourceSlice
resource.k8s.io Namespaced config ResourceClaim ResourceClaimTemplate
scheduling.k8s.io Cluster config PriorityClass
storage.k8s.io Cluster config CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass
storage.k8s.io Namespaced config CSIStorageCapacity
storagemigration.k8s.io Cluster config StorageVersionMigration";

/// Groups of common extensions whose kinds route requests to pods. Created too early, they would
/// route requests to missing pods.
const TRAFFIC_GROUPS: [&str; 6] = [
    "gateway.networking.k8s.io",
    "networking.istio.io",
    "projectcontour.io",
    "route.openshift.io",
    "traefik.containo.us",
    "traefik.io",
];

/// Groups of common extensions whose kinds scale pods.
const SCALING_GROUPS: [&str; 1] = ["keda.sh"];

fn built_in(group: &str, kind: &str) -> Option<(KindScope, Stage)> {
    let group = if group.is_empty() { "-" } else { group };
    BUILT_IN.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (own, scope, stage) = (fields.next()?, fields.next()?, fields.next()?);
        let scope = match scope {
            "Cluster" => Cluster,
            _ => Namespaced,
        };
        let stage = Stage::ALL.into_iter().find(|one| one.name() == stage)?;
        (own == group && fields.any(|one| one == kind)).then_some((scope, stage))
    })
}

/// The scope of a kind; `None` for custom resources.
pub(crate) fn scope(group: &str, kind: &str) -> Option<KindScope> {
    built_in(group, kind).map(|(scope, _)| scope)
}

/// The stage of a kind. `is_own` is true if the package defines kinds of the group.
pub(crate) fn stage(group: &str, kind: &str, is_own: bool) -> Stage {
    match built_in(group, kind) {
        Some((_, stage)) => stage,
        None if is_own => Stage::CustomResources,
        None if TRAFFIC_GROUPS.contains(&group) => Traffic,
        None if SCALING_GROUPS.contains(&group) => Scaling,
        None => Config,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        Stage::{Namespaces, Rbac, Registrations, Workloads},
        *,
    };

    #[test]
    fn kinds_are_listed_once() {
        let rows = BUILT_IN.lines().map(|line| line.split(' ').collect());
        let rows: Vec<Vec<&str>> = rows.collect();
        assert!(rows.is_sorted_by(|a, b| a[0] <= b[0]));
        let mut kinds = BTreeSet::new();
        for row in rows {
            assert!(["Cluster", "Namespaced"].contains(&row[1]), "{row:?}");
            assert!(
                Stage::ALL.iter().any(|stage| stage.name() == row[2]),
                "{row:?}"
            );
            for kind in &row[3..] {
                assert!(kinds.insert((row[0], *kind)), "{row:?}");
            }
        }
    }

    #[test]
    fn stages_are_sorted_and_have_unique_names() {
        assert!(Stage::ALL.is_sorted());
        let names: BTreeSet<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        assert_eq!(names.len(), Stage::ALL.len());
    }

    #[test]
    fn every_kind_has_a_stage() {
        for (group, kind, is_own, expected) in [
            ("", "Namespace", false, Namespaces),
            ("", "ServiceAccount", false, Rbac),
            ("", "PersistentVolumeClaim", false, Config),
            ("policy", "PodDisruptionBudget", false, Config),
            ("batch", "Job", false, Workloads),
            ("apps", "Deployment", true, Workloads),
            ("apiregistration.k8s.io", "APIService", false, Registrations),
            ("networking.k8s.io", "Ingress", false, Traffic),
            ("autoscaling", "HorizontalPodAutoscaler", false, Scaling),
            ("example.com", "Widget", true, Stage::CustomResources),
            ("cert-manager.io", "Certificate", false, Config),
            ("gateway.networking.k8s.io", "HTTPRoute", false, Traffic),
            (
                "gateway.networking.k8s.io",
                "HTTPRoute",
                true,
                Stage::CustomResources,
            ),
            ("keda.sh", "ScaledObject", false, Scaling),
            ("example.com", "Deployment", false, Config),
        ] {
            assert_eq!(stage(group, kind, is_own), expected, "{kind}.{group}");
        }
    }
}
