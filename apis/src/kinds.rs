//! The kinds that Baton serves, one row for each: names, scope, and place in URLs.

use serde_json::Value;

use crate::{
    constants::{API_VERSION, BATON_API_VERSION, BATON_GROUP, GROUP, VERSION, shipper},
    url::escape,
};

/// A kind with the names of its definition.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name of the kind in objects.
    pub name: &'static str,
    /// Name of the resource in URLs.
    pub plural: &'static str,
    /// Further names that kubectl accepts, the shortest last.
    pub short_names: &'static [&'static str],
    /// API group.
    pub group: &'static str,
    /// `apiVersion` of its objects.
    pub api_version: &'static str,
    /// True if its objects have a namespace.
    pub is_namespaced: bool,
}

const PKO: [&str; 2] = [GROUP, API_VERSION];
const SHIPPER: [&str; 2] = [shipper::GROUP, shipper::API_VERSION];
const BATON: [&str; 2] = [BATON_GROUP, BATON_API_VERSION];

macro_rules! kinds {
    ($($(#[$doc:meta])* $id:ident = $api:ident, $name:literal, $plural:literal, $short:tt, $scope:ident;)+) => {
        $($(#[$doc])* pub const $id: Kind = Kind {
            name: $name,
            plural: $plural,
            short_names: &$short,
            group: $api[0],
            api_version: $api[1],
            is_namespaced: kinds!(@ $scope),
        };)+

        impl Kind {
            /// All kinds that Baton serves.
            pub const ALL: &'static [&'static Self] = &[$(&$id),+];
        }
    };
    (@ namespaced) => { true };
    (@ cluster) => { false };
}

kinds! {
    /// Revisions in a namespace.
    OBJECT_SET = PKO, "ObjectSet", "objectsets", ["objset", "os"], namespaced;
    /// Cluster-scoped revisions.
    CLUSTER_OBJECT_SET = PKO, "ClusterObjectSet", "clusterobjectsets", ["clobjset", "cos"], cluster;
    /// Delegated phases of revisions in a namespace.
    OBJECT_SET_PHASE = PKO, "ObjectSetPhase", "objectsetphases", ["objsetphase", "osp"], namespaced;
    /// Delegated phases of cluster-scoped revisions.
    CLUSTER_OBJECT_SET_PHASE =
        PKO, "ClusterObjectSetPhase", "clusterobjectsetphases", ["clobjsetphase", "cosp"], cluster;
    /// Objects of revisions in a namespace, stored outside of the revision.
    OBJECT_SLICE = PKO, "ObjectSlice", "objectslices", ["objslice", "osl"], namespaced;
    /// Objects of cluster-scoped revisions, stored outside of the revision.
    CLUSTER_OBJECT_SLICE = PKO, "ClusterObjectSlice", "clusterobjectslices", ["clobjslice", "cosl"], cluster;
    /// Deployments in a namespace.
    OBJECT_DEPLOYMENT = PKO, "ObjectDeployment", "objectdeployments", ["objdeploy", "od"], namespaced;
    /// Cluster-scoped deployments.
    CLUSTER_OBJECT_DEPLOYMENT =
        PKO, "ClusterObjectDeployment", "clusterobjectdeployments", ["clobjdeploy", "cod"], cluster;
    /// Clusters that objects are delivered to.
    CLUSTER = SHIPPER, "Cluster", "clusters", ["cl"], cluster;
    /// Applications of Shipper.
    APPLICATION = SHIPPER, "Application", "applications", ["app"], namespaced;
    /// Versions of an Application.
    RELEASE = SHIPPER, "Release", "releases", ["rel"], namespaced;
    /// The clusters that have the objects of a Release.
    INSTALLATION_TARGET = SHIPPER, "InstallationTarget", "installationtargets", ["it"], namespaced;
    /// The pods of a Release in each cluster.
    CAPACITY_TARGET = SHIPPER, "CapacityTarget", "capacitytargets", ["ct"], namespaced;
    /// The traffic of a Release in each cluster.
    TRAFFIC_TARGET = SHIPPER, "TrafficTarget", "traffictargets", ["tt"], namespaced;
    /// Blocks of rollouts in a namespace, or in all.
    ROLLOUT_BLOCK = SHIPPER, "RolloutBlock", "rolloutblocks", ["rb"], namespaced;
    /// Rights of namespaces to deliver to clusters.
    SITE_ASSIGNMENT = BATON, "SiteAssignment", "siteassignments", ["siteassign"], cluster;
    /// Applications of sites.
    SITE_APPLICATION = BATON, "SiteApplication", "siteapplications", ["siteapp"], namespaced;
    /// Rollouts of an application to sites.
    SITE_DEPLOYMENT = BATON, "SiteDeployment", "sitedeployments", ["sitedeploy"], namespaced;
}

impl Kind {
    /// The singular of the kind, as kubectl accepts it: `objectset`.
    pub fn singular(&self) -> &'static str {
        self.plural.strip_suffix('s').unwrap_or(self.plural)
    }

    /// The shortest name that kubectl takes: `os`.
    pub fn shortest(&self) -> &'static str {
        self.short_names.last().unwrap_or(&self.plural)
    }

    /// The name of the definition: `objectsets.package-operator.run`.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// True if kubectl accepts a word for the kind: `os`, `ObjectSets.package-operator.run`, and so
    /// on.
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

    /// The kind of an object that a server returned; `None` for kinds that Baton does not serve.
    pub fn of(object: &Value) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| kind.is_of(object))
    }

    /// True if an object, as the server returns it, is of the kind.
    pub fn is_of(&self, object: &Value) -> bool {
        object["apiVersion"] == self.api_version && object["kind"] == self.name
    }

    /// The kind of the collection or object at a URL path; `None` for kinds that Baton does not
    /// serve.
    pub fn at(path: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|kind| {
            let segments = path.strip_prefix(&kind.prefix());
            let mut segments = segments.unwrap_or_default().split('/').skip(1).peekable();
            if segments.next_if_eq(&"namespaces").is_some() {
                segments.next();
            }
            segments.next() == Some(kind.plural)
        })
    }

    /// URL path of the group and version.
    pub fn prefix(&self) -> String {
        format!("/apis/{}", self.api_version)
    }

    /// URL path of all objects of the kind in a namespace; `None` for all namespaces.
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
    pub fn path_of(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.path(namespace), escape(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_kind() {
        for kind in Kind::ALL {
            for path in [kind.path(Some("shop")), kind.path_of(Some("shop"), "web")] {
                assert_eq!(Kind::at(&path), Some(*kind), "{path}");
            }
        }
        let everywhere = OBJECT_SET.path(None);
        assert_eq!(Kind::at(&everywhere), Some(&OBJECT_SET));
        for path in [
            "/api/v1/namespaces/objectsets",
            "/apis/apps/v1/objectsets",
            "",
        ] {
            assert_eq!(Kind::at(path), None, "{path}");
        }
    }
}
