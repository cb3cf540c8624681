//! The kinds that Baton serves, one row for each: the names of a kind, its scope, and its place in URLs.

use serde_json::Value;

use crate::{
    constants::{API_VERSION, BATON_API_VERSION, BATON_GROUP, GROUP, VERSION, shipper},
    url::escape,
};

/// A kind as its definition has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The kind as objects name it.
    pub name: &'static str,
    /// The resource in URLs.
    pub plural: &'static str,
    /// Further names that kubectl takes, the shortest last.
    pub short_names: &'static [&'static str],
    /// API group.
    pub group: &'static str,
    /// `apiVersion` of its objects.
    pub api_version: &'static str,
    /// True if its objects live in namespaces.
    pub is_namespaced: bool,
}

/// Revisions of a namespace.
pub const OBJECT_SET: Kind = kind(PKO, "ObjectSet", "objectsets", &["objset", "os"]);
/// Revisions of the cluster.
pub const CLUSTER_OBJECT_SET: Kind = kind(
    PKO,
    "ClusterObjectSet",
    "clusterobjectsets",
    &["clobjset", "cos"],
)
.cluster_scoped();
/// Delegated phases of revisions of a namespace.
pub const OBJECT_SET_PHASE: Kind = kind(
    PKO,
    "ObjectSetPhase",
    "objectsetphases",
    &["objsetphase", "osp"],
);
/// Delegated phases of revisions of the cluster.
pub const CLUSTER_OBJECT_SET_PHASE: Kind = kind(
    PKO,
    "ClusterObjectSetPhase",
    "clusterobjectsetphases",
    &["clobjsetphase", "cosp"],
)
.cluster_scoped();
/// Objects of revisions of a namespace.
pub const OBJECT_SLICE: Kind = kind(PKO, "ObjectSlice", "objectslices", &["objslice", "osl"]);
/// Objects of revisions of the cluster.
pub const CLUSTER_OBJECT_SLICE: Kind = kind(
    PKO,
    "ClusterObjectSlice",
    "clusterobjectslices",
    &["clobjslice", "cosl"],
)
.cluster_scoped();
/// Deployments of a namespace.
pub const OBJECT_DEPLOYMENT: Kind = kind(
    PKO,
    "ObjectDeployment",
    "objectdeployments",
    &["objdeploy", "od"],
);
/// Deployments of the cluster.
pub const CLUSTER_OBJECT_DEPLOYMENT: Kind = kind(
    PKO,
    "ClusterObjectDeployment",
    "clusterobjectdeployments",
    &["clobjdeploy", "cod"],
)
.cluster_scoped();
/// Clusters that objects are delivered to.
pub const CLUSTER: Kind = kind(SHIPPER, "Cluster", "clusters", &["cl"]).cluster_scoped();
/// Applications as Shipper has them.
pub const APPLICATION: Kind = kind(SHIPPER, "Application", "applications", &["app"]);
/// Versions of an Application.
pub const RELEASE: Kind = kind(SHIPPER, "Release", "releases", &["rel"]);
/// The clusters that have the objects of a Release.
pub const INSTALLATION_TARGET: Kind = kind(
    SHIPPER,
    "InstallationTarget",
    "installationtargets",
    &["it"],
);
/// The pods of a Release in each cluster.
pub const CAPACITY_TARGET: Kind = kind(SHIPPER, "CapacityTarget", "capacitytargets", &["ct"]);
/// The traffic of a Release in each cluster.
pub const TRAFFIC_TARGET: Kind = kind(SHIPPER, "TrafficTarget", "traffictargets", &["tt"]);
/// Rights of namespaces to deliver to clusters.
pub const SITE_ASSIGNMENT: Kind =
    kind(BATON, "SiteAssignment", "siteassignments", &["siteassign"]).cluster_scoped();
/// Applications of sites.
pub const SITE_APPLICATION: Kind = kind(BATON, "SiteApplication", "siteapplications", &["siteapp"]);
/// Rollouts of an application to sites.
pub const SITE_DEPLOYMENT: Kind = kind(BATON, "SiteDeployment", "sitedeployments", &["sitedeploy"]);

impl Kind {
    /// All of them, in no particular order.
    pub const ALL: [&'static Self; 17] = [
        &OBJECT_SET,
        &CLUSTER_OBJECT_SET,
        &OBJECT_SET_PHASE,
        &CLUSTER_OBJECT_SET_PHASE,
        &OBJECT_SLICE,
        &CLUSTER_OBJECT_SLICE,
        &OBJECT_DEPLOYMENT,
        &CLUSTER_OBJECT_DEPLOYMENT,
        &CLUSTER,
        &APPLICATION,
        &RELEASE,
        &INSTALLATION_TARGET,
        &CAPACITY_TARGET,
        &TRAFFIC_TARGET,
        &SITE_ASSIGNMENT,
        &SITE_APPLICATION,
        &SITE_DEPLOYMENT,
    ];

    /// The name of one object of the kind: `objectset`.
    #[must_use]
    pub fn singular(&self) -> &'static str {
        self.plural.strip_suffix('s').unwrap_or(self.plural)
    }

    /// The shortest name that kubectl takes: `os`.
    #[must_use]
    pub fn shortest(&self) -> &'static str {
        self.short_names.last().unwrap_or(&self.plural)
    }

    /// The name of the definition: `objectsets.package-operator.run`.
    #[must_use]
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// True if kubectl takes a word for the kind: `os`, `ObjectSets.package-operator.run`, and so on.
    #[must_use]
    pub fn is_named_by(&self, word: &str) -> bool {
        let word = word.to_ascii_lowercase();
        let without_group = word
            .strip_suffix(self.group)
            .and_then(|word| word.strip_suffix('.'));
        let bare = without_group.map_or(&*word, |word| {
            let version = word.strip_suffix(VERSION);
            version
                .and_then(|word| word.strip_suffix('.'))
                .unwrap_or(word)
        });
        bare == self.singular() || bare == self.plural || self.short_names.contains(&bare)
    }

    /// The kind of an object that a server returned; `None` for kinds of others.
    #[must_use]
    pub fn of(object: &Value) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|kind| kind.is_of(object))
    }

    /// True if an object, as the server returns it, is of the kind.
    #[must_use]
    pub fn is_of(&self, object: &Value) -> bool {
        object["apiVersion"] == self.api_version && object["kind"] == self.name
    }

    /// URL path of the group and version.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("/apis/{}", self.api_version)
    }

    /// URL path of all objects of the kind in a namespace; in all namespaces where it is `None`.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let (prefix, plural) = (self.prefix(), self.plural);
        match namespace {
            Some(namespace) if self.is_namespaced => {
                format!("{prefix}/namespaces/{}/{plural}", escape(namespace))
            }
            _ => format!("{prefix}/{plural}"),
        }
    }

    /// URL path of an object of the kind.
    #[must_use]
    pub fn path_of(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.path(namespace), escape(name))
    }

    const fn cluster_scoped(self) -> Self {
        Self {
            is_namespaced: false,
            ..self
        }
    }
}

const PKO: [&str; 2] = [GROUP, API_VERSION];
const SHIPPER: [&str; 2] = [shipper::GROUP, shipper::API_VERSION];
const BATON: [&str; 2] = [BATON_GROUP, BATON_API_VERSION];

const fn kind(
    [group, api_version]: [&'static str; 2],
    name: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
) -> Kind {
    Kind {
        name,
        plural,
        short_names,
        group,
        api_version,
        is_namespaced: true,
    }
}
