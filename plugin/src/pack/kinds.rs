//! What is known of kinds: their scope, and the phase that they belong into.

use std::fmt;

use baton::engine::revision::KindScope;

/// Where an object belongs by its kind. In the order of the rollout; a revision is torn down in the
/// opposite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Namespaces: everything else may be inside of one.
    Namespaces,
    /// Definitions of kinds: objects of the kinds need them.
    Crds,
    /// Accounts and rights: pods are refused without the one and useless without the other.
    Rbac,
    /// What pods refer to or are admitted by: settings, volumes, quotas, policies, classes. Objects
    /// of foreign kinds too, whose definition is not part of the package: whatever works on them
    /// runs already, and often they become what pods wait for, such as a Secret.
    Config,
    /// Services: pods find those that are older than themselves in their environment.
    Services,
    /// Everything that runs.
    Workloads,
    /// What makes the API server call the workloads: before they answer, it would refuse requests
    /// of the whole cluster.
    Registrations,
    /// Objects of the package's own kinds: the workloads check, default and act on them, and are
    /// still there to clean up after them when the revision is torn down.
    CustomResources,
    /// What scales the workloads.
    Scaling,
    /// What leads requests from outside to them.
    Traffic,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
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

    /// Name of the phase.
    #[must_use]
    pub fn name(self) -> &'static str {
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

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

use KindScope::{Cluster, Namespaced};
use Stage::{Config, Crds, Namespaces, Rbac, Registrations, Scaling, Services, Traffic, Workloads};

/// A kind of a group.
type Known = (&'static str, KindScope, Stage);

/// The kinds that every API server has and keeps objects of, and those of this product, by group.
const BUILT_IN: [(&str, &[Known]); 21] = [
    (
        "",
        &[
            ("ConfigMap", Namespaced, Config),
            ("Endpoints", Namespaced, Services),
            ("Event", Namespaced, Config),
            ("LimitRange", Namespaced, Config),
            ("Namespace", Cluster, Namespaces),
            ("Node", Cluster, Config),
            ("PersistentVolume", Cluster, Config),
            ("PersistentVolumeClaim", Namespaced, Config),
            ("Pod", Namespaced, Workloads),
            ("PodTemplate", Namespaced, Config),
            ("ReplicationController", Namespaced, Workloads),
            ("ResourceQuota", Namespaced, Config),
            ("Secret", Namespaced, Config),
            ("Service", Namespaced, Services),
            ("ServiceAccount", Namespaced, Rbac),
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            ("MutatingAdmissionPolicy", Cluster, Config),
            ("MutatingAdmissionPolicyBinding", Cluster, Config),
            ("MutatingWebhookConfiguration", Cluster, Registrations),
            ("ValidatingAdmissionPolicy", Cluster, Config),
            ("ValidatingAdmissionPolicyBinding", Cluster, Config),
            ("ValidatingWebhookConfiguration", Cluster, Registrations),
        ],
    ),
    (
        "apiextensions.k8s.io",
        &[("CustomResourceDefinition", Cluster, Crds)],
    ),
    (
        "apiregistration.k8s.io",
        &[("APIService", Cluster, Registrations)],
    ),
    (
        "apps",
        &[
            ("ControllerRevision", Namespaced, Config),
            ("DaemonSet", Namespaced, Workloads),
            ("Deployment", Namespaced, Workloads),
            ("ReplicaSet", Namespaced, Workloads),
            ("StatefulSet", Namespaced, Workloads),
        ],
    ),
    (
        "autoscaling",
        &[("HorizontalPodAutoscaler", Namespaced, Scaling)],
    ),
    (
        "batch",
        &[
            ("CronJob", Namespaced, Workloads),
            ("Job", Namespaced, Workloads),
        ],
    ),
    (
        "certificates.k8s.io",
        &[
            ("CertificateSigningRequest", Cluster, Config),
            ("ClusterTrustBundle", Cluster, Config),
        ],
    ),
    ("coordination.k8s.io", &[("Lease", Namespaced, Config)]),
    (
        "discovery.k8s.io",
        &[("EndpointSlice", Namespaced, Services)],
    ),
    ("events.k8s.io", &[("Event", Namespaced, Config)]),
    (
        "flowcontrol.apiserver.k8s.io",
        &[
            ("FlowSchema", Cluster, Config),
            ("PriorityLevelConfiguration", Cluster, Config),
        ],
    ),
    (
        "networking.k8s.io",
        &[
            ("IPAddress", Cluster, Config),
            ("Ingress", Namespaced, Traffic),
            ("IngressClass", Cluster, Config),
            ("NetworkPolicy", Namespaced, Config),
            ("ServiceCIDR", Cluster, Config),
        ],
    ),
    ("node.k8s.io", &[("RuntimeClass", Cluster, Config)]),
    (
        "package-operator.run",
        &[
            ("ClusterObjectDeployment", Cluster, Workloads),
            ("ClusterObjectSet", Cluster, Workloads),
            ("ClusterObjectSetPhase", Cluster, Workloads),
            ("ClusterObjectSlice", Cluster, Config),
            ("ObjectDeployment", Namespaced, Workloads),
            ("ObjectSet", Namespaced, Workloads),
            ("ObjectSetPhase", Namespaced, Workloads),
            ("ObjectSlice", Namespaced, Config),
        ],
    ),
    ("policy", &[("PodDisruptionBudget", Namespaced, Config)]),
    (
        "rbac.authorization.k8s.io",
        &[
            ("ClusterRole", Cluster, Rbac),
            ("ClusterRoleBinding", Cluster, Rbac),
            ("Role", Namespaced, Rbac),
            ("RoleBinding", Namespaced, Rbac),
        ],
    ),
    (
        "resource.k8s.io",
        &[
            ("DeviceClass", Cluster, Config),
            ("DeviceTaintRule", Cluster, Config),
            ("ResourceClaim", Namespaced, Config),
            ("ResourceClaimTemplate", Namespaced, Config),
            ("ResourceSlice", Cluster, Config),
        ],
    ),
    ("scheduling.k8s.io", &[("PriorityClass", Cluster, Config)]),
    (
        "storage.k8s.io",
        &[
            ("CSIDriver", Cluster, Config),
            ("CSINode", Cluster, Config),
            ("CSIStorageCapacity", Namespaced, Config),
            ("StorageClass", Cluster, Config),
            ("VolumeAttachment", Cluster, Config),
            ("VolumeAttributesClass", Cluster, Config),
        ],
    ),
    (
        "storagemigration.k8s.io",
        &[("StorageVersionMigration", Cluster, Config)],
    ),
];

/// Groups of widespread extensions whose kinds lead requests to pods. Served too early, they would
/// lead them to pods that are not there yet.
const TRAFFIC_GROUPS: [&str; 6] = [
    "gateway.networking.k8s.io",
    "networking.istio.io",
    "projectcontour.io",
    "route.openshift.io",
    "traefik.containo.us",
    "traefik.io",
];

/// As above, for what scales pods.
const SCALING_GROUPS: [&str; 1] = ["keda.sh"];

fn built_in(group: &str, kind: &str) -> Option<(KindScope, Stage)> {
    let (_, kinds) = BUILT_IN.iter().find(|known| known.0 == group)?;
    let (_, scope, stage) = kinds.iter().find(|known| known.0 == kind)?;
    Some((*scope, *stage))
}

/// The scope of a kind; `None` for custom resources.
#[must_use]
pub fn scope(group: &str, kind: &str) -> Option<KindScope> {
    built_in(group, kind).map(|(scope, _)| scope)
}

/// The stage of a kind. `is_own` says whether the package itself defines kinds of the group.
#[must_use]
pub fn stage(group: &str, kind: &str, is_own: bool) -> Stage {
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

    use super::*;

    #[test]
    fn kinds_are_listed_once() {
        assert!(BUILT_IN.is_sorted_by(|a, b| a.0 < b.0));
        for (group, kinds) in BUILT_IN {
            assert!(kinds.is_sorted_by(|a, b| a.0 < b.0), "{group}");
        }
    }

    #[test]
    fn stages_are_in_order_and_have_names_of_their_own() {
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
