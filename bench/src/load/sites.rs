//! Sites: Clusters to which one SiteDeployment rolls out versions of a small application.

use std::collections::BTreeMap;

use baton_apis::constants::{SECRET_CA, SECRET_TOKEN};
use baton_apis::{
    Cluster, ClusterSpec, SiteApplication, SiteApplicationSpec, SiteDeployment, SiteDeploymentSpec,
    SitePlacement, SiteTemplate,
};
use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Shape, at_least_one};

/// The name of the application, and of the deployment.
pub(crate) const NAME: &str = "shop";

/// The label that selects the sites.
const LABEL: (&str, &str) = ("bench", "sites");

/// The number of sites, and of objects in each.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct Sites {
    /// Number of sites of a SiteDeployment. Each is a Cluster object, and a namespace in one of
    /// `--clusters` control planes
    #[arg(long, default_value_t = 1000, value_parser = at_least_one)]
    pub(crate) sites: usize,
    /// Number of ConfigMaps in each site, in one phase
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub(crate) objects_per_site: usize,
}

/// The strategy of a rollout over sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// All sites at once.
    AllAtOnce,
    /// A tenth of the sites at a time.
    Waves,
}

impl Sites {
    /// The names of all sites.
    pub(crate) fn names(self) -> impl Iterator<Item = String> {
        names(self.sites)
    }

    /// The names of the sites that go offline for a while: a tenth.
    pub(crate) fn lost(self) -> impl Iterator<Item = String> {
        self.names().skip(4).step_by(10)
    }

    /// Number of objects in all sites.
    pub(crate) fn objects(self) -> usize {
        self.sites * self.objects_per_site
    }

    /// The shape of the objects in all sites.
    pub(crate) fn all(self, shape: &Shape) -> Shape {
        Shape {
            sets: self.sites,
            phases: 1,
            per_phase: self.objects_per_site,
            phase_class: None,
            ..*shape
        }
    }

    /// A version of the application. Each version differs from the one before in every object.
    pub(crate) fn application(
        self,
        shape: &Shape,
        number: u32,
    ) -> serde_json::Result<SiteApplication> {
        let mut content = self.all(shape).content("app", number);
        for entry in content["phases"][0]["objects"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            entry["object"]["metadata"]["namespace"] = "bench".into();
        }
        let template = SiteTemplate {
            spec: serde_json::from_value(content)?,
        };
        let spec = SiteApplicationSpec {
            version: version(number),
            template,
            ..SiteApplicationSpec::default()
        };
        Ok(SiteApplication::new(NAME, spec))
    }
}

impl Strategy {
    /// The strategy in the spec of a deployment.
    pub(crate) fn spec(self) -> Value {
        match self {
            Self::AllAtOnce => json!({"type": "AllAtOnce", "rolling": null, "healthyTime": null}),
            Self::Waves => json!({
                "type": "Rolling",
                "rolling": {"sitesInParallel": "10%"},
                "healthyTime": "1s",
            }),
        }
    }
}

/// The names of this number of sites.
pub(crate) fn names(count: usize) -> impl Iterator<Item = String> + use<> {
    (1..=count).map(|number| format!("site-{number:04}"))
}

/// The version with this number.
pub(crate) fn version(number: u32) -> String {
    format!("1.{number}.0")
}

/// The deployment that rolls out each version to all sites.
pub(crate) fn deployment() -> SiteDeployment {
    let (key, value) = LABEL;
    let placement = SitePlacement {
        match_site_labels: Some(format!("{key} = {value}")),
        ..SitePlacement::default()
    };
    let spec = SiteDeploymentSpec {
        application: NAME.to_owned(),
        placement,
        ..SiteDeploymentSpec::default()
    };
    SiteDeployment::new(NAME, spec)
}

/// A site whose API server has this URL, with a certificate of that CA.
pub(crate) fn site(name: &str, url: &str, ca: &str) -> (Cluster, Secret) {
    let spec = ClusterSpec {
        region: "bench".to_owned(),
        api_master: url.to_owned(),
        ..ClusterSpec::default()
    };
    let mut cluster = Cluster::new(name, spec);
    let (key, value) = LABEL;
    cluster.metadata.labels = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let data = [(SECRET_TOKEN, "bench"), (SECRET_CA, ca)];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from(data)),
        ..Secret::default()
    };
    (cluster, secret)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Twenty sites of two objects each.
    pub(crate) const SITES: Sites = Sites {
        sites: 20,
        objects_per_site: 2,
    };

    const SHAPE: Shape = Shape {
        sets: 200,
        phases: 2,
        per_phase: 5,
        pad: 8,
        phase_class: Some("default"),
    };

    #[test]
    fn versions_have_the_same_objects_with_other_data() {
        let [first, second] = [1, 2].map(|number| SITES.application(&SHAPE, number).unwrap().spec);
        assert_eq!([&*first.version, &*second.version], ["1.1.0", "1.2.0"]);
        let objects = |spec: &SiteApplicationSpec| {
            let phases = spec.template.spec.read().unwrap().phases.unwrap();
            let objects = phases.into_iter().flat_map(|phase| phase.objects);
            objects.map(|entry| entry.object).collect::<Vec<_>>()
        };
        let (first, second) = (objects(&first), objects(&second));
        assert_eq!((first.len(), SITES.objects()), (2, 40));
        for (old, new) in first.iter().zip(&second) {
            assert_eq!(old["metadata"], new["metadata"]);
            assert_eq!(old["metadata"]["namespace"], "bench");
            assert_ne!(old["data"]["pad"], new["data"]["pad"]);
        }
    }

    #[test]
    fn a_tenth_of_the_sites_is_lost() {
        let lost: Vec<String> = SITES.lost().collect();
        assert_eq!(lost, ["site-0005", "site-0015"]);
        assert_eq!(SITES.names().count(), 20);
    }
}
