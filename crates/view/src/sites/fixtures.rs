//! Objects of deployments to sites, for tests.
#![allow(dead_code, reason = "the tests of two crates use them, each some")]

use baton_apis::{
    SiteDeployment, SiteEntry,
    conditions::reasons::{CLUSTER_UNREACHABLE, PROBE_FAILURE, QUEUED, ROLLING_OUT},
    constants::{ANNOTATION_SITE, LABEL_SITE, LABEL_SITE_DEPLOYMENT},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{cluster, observed::Observed, revision::SiteRevision};

/// 2026-01-01T01:00:00Z
pub const NOW: Timestamp = Timestamp::constant(1_767_229_200, 0);
/// Five minutes before [`NOW`].
pub const T0: Timestamp = Timestamp::constant(1_767_228_900, 0);

const T0_TEXT: &str = "2026-01-01T00:55:00Z";

pub fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": T0_TEXT,
    })
}

/// A revision of the deployment `shop` at a site.
#[derive(Clone, Debug)]
pub struct SiteRevisionFixture {
    pub site: String,
    number: i64,
    entry: SiteEntry,
    conditions: Vec<Value>,
    is_archived: bool,
}

impl SiteRevisionFixture {
    /// A revision of rollout 3 and wave 1, without a status.
    pub fn new(site: &str, number: i64, version: &str) -> Self {
        Self {
            site: site.to_owned(),
            number,
            entry: SiteEntry {
                deployment: "shop".to_owned(),
                site: site.to_owned(),
                application: "shop".to_owned(),
                version: version.to_owned(),
                edit: format!("edit-{version}"),
                rollout: 3,
                batch: 1,
                phases: vec!["main".to_owned()],
                ..SiteEntry::default()
            },
            conditions: Vec::new(),
            is_archived: false,
        }
    }

    pub fn rollout(mut self, rollout: i64, wave: i32) -> Self {
        (self.entry.rollout, self.entry.batch) = (rollout, wave);
        self
    }

    pub fn rollback(mut self) -> Self {
        self.entry.is_rollback = true;
        self
    }

    pub fn available(mut self, status: &str, reason: &str, message: &str) -> Self {
        let condition = condition("Available", status, reason, message);
        self.conditions.retain(|one| one["type"] != "Available");
        self.conditions.push(condition);
        self
    }

    pub fn started(self) -> Self {
        self.started_at(T0_TEXT)
    }

    pub fn started_at(mut self, time: &str) -> Self {
        let mut condition = condition("baton.run/Started", "True", "Started", "");
        condition["lastTransitionTime"] = time.into();
        self.conditions.push(condition);
        self
    }

    pub fn succeeded(mut self) -> Self {
        let condition = condition("Succeeded", "True", "RolloutSuccess", "");
        self.conditions.push(condition);
        self
    }

    pub fn archived(mut self) -> Self {
        self.is_archived = true;
        self
    }

    /// The revision as the server returns it.
    pub fn object(&self) -> Value {
        let name = format!("shop-{}-{}", self.site, self.number);
        let phase = json!({
            "name": "main", "class": format!("cluster.{}", self.site), "slices": ["content"],
        });
        let mut object = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {
                "name": name, "namespace": "edge", "uid": name, "creationTimestamp": T0_TEXT,
                "labels": { LABEL_SITE_DEPLOYMENT: "shop", LABEL_SITE: self.site },
                "annotations": { ANNOTATION_SITE: serde_json::to_string(&self.entry).unwrap() },
            },
            "spec": { "revision": self.number, "phases": [phase] },
            "status": { "conditions": self.conditions },
        });
        if self.is_archived {
            object["spec"]["lifecycleState"] = "Archived".into();
        }
        object
    }
}

/// A deployment in its third rollout, of version 1.2.0: two canaries, then six sites together.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "baton.run/v1alpha1", "kind": "SiteDeployment",
        "metadata": {
            "name": name, "namespace": "edge", "uid": format!("u-{name}"), "generation": 4,
            "creationTimestamp": "2025-12-01T00:00:00Z",
        },
        "spec": {
            "application": "shop", "applicationVersion": "1.2.0",
            "placement": { "matchSiteLabels": "system/type = edge" },
            "strategy": {
                "type": "Canary", "canary": { "sites": 2, "then": "Rolling" },
                "rolling": { "sitesInParallel": 6 }, "healthyTime": "10m",
            },
        },
        "status": {
            "observedGeneration": 4, "rollout": 3, "version": "1.2.0", "previousVersion": "1.1.0",
            "counts": {
                "sites": 10, "updated": 3, "healthy": 3, "soaking": 0, "queued": 2, "offline": 1, "failed": 1,
            },
            "batch": { "number": 2, "of": 3, "sites": ["eu-3", "eu-4", "eu-5", "eu-6", "eu-7", "eu-8"] },
            "failing": [
                { "name": "eu-4", "reason": PROBE_FAILURE, "message": "Phase \"main\" failed: no pods" },
            ],
            "conditions": [
                condition("Progressing", "True", ROLLING_OUT, "Wave 2 of 3: 1 of 6 sites is available."),
                condition("Placed", "True", "Placed", ""),
            ],
        },
    })
}

/// A Cluster that can be reached if `is_online`.
pub fn cluster(name: &str, is_online: bool) -> Value {
    let (status, reason) = if is_online {
        ("True", "Connected")
    } else {
        ("False", "AgentSilent")
    };
    json!({
        "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
        "metadata": { "name": name, "labels": { "system/type": "edge" } },
        "spec": { "region": &name[..2], "connection": "Pull" },
        "status": { "conditions": [condition("Connected", status, reason, "")] },
    })
}

/// The record of the selected sites.
pub fn placement(number: i64, sites: &[String]) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": format!("shop-sites-{number}"), "namespace": "edge",
            "ownerReferences": [{
                "apiVersion": "baton.run/v1alpha1", "kind": "SiteDeployment", "name": "shop", "uid": "u-shop",
            }],
        },
        "revision": number,
        "data": { "generation": number, "sites": sites },
    })
}

/// The objects in the middle of a rollout, with a site in each state but `RolledBack` and
/// `Soaking`.
pub fn mid_rollout() -> Vec<Value> {
    let old = |site: &str| {
        SiteRevisionFixture::new(site, 1, "1.1.0")
            .rollout(2, 1)
            .started()
            .succeeded()
            .available("True", "Available", "")
    };
    let new = |site: &str, wave: i32| SiteRevisionFixture::new(site, 2, "1.2.0").rollout(3, wave);
    let fine = |given: SiteRevisionFixture| {
        given
            .started()
            .succeeded()
            .available("True", "Available", "")
    };
    let failing = "Phase \"main\" failed: Deployment edge/web: 0 of 2 replicas are available";
    let window = "Waits for the upgrade windows of the site, which open at 2026-01-02T02:00:00Z.";
    let mut objects = vec![deployment("shop")];
    let revisions = [
        old("eu-1").archived(),
        fine(new("eu-1", 1)),
        old("eu-2").archived(),
        fine(new("eu-2", 1)),
        old("eu-3").archived(),
        fine(new("eu-3", 2)),
        old("eu-4"),
        new("eu-4", 2)
            .started()
            .available("False", PROBE_FAILURE, failing),
        old("eu-5"),
        new("eu-5", 2)
            .started()
            .available("False", PROBE_FAILURE, failing),
        old("eu-6").available("Unknown", CLUSTER_UNREACHABLE, ""),
        new("eu-6", 2).available("Unknown", CLUSTER_UNREACHABLE, ""),
        old("eu-7"),
        new("eu-7", 2).available("False", QUEUED, window),
        SiteRevisionFixture::new("eu-8", 1, "1.0.0")
            .rollout(1, 1)
            .started()
            .available("True", "Available", ""),
        SiteRevisionFixture::new("eu-8", 2, "1.1.0")
            .rollout(2, 1)
            .started()
            .available("False", PROBE_FAILURE, failing),
        SiteRevisionFixture::new("eu-8", 3, "1.2.0")
            .rollout(3, 2)
            .available("False", QUEUED, "Waits for version 1.1.0."),
        old("eu-9"),
        old("us-1"),
    ];
    objects.extend(revisions.iter().map(SiteRevisionFixture::object));
    let sites: Vec<String> = (1..=10).map(|number| format!("eu-{number}")).collect();
    let mut clusters = sites.clone();
    clusters.push("us-1".to_owned());
    objects.extend(clusters.iter().map(|name| cluster(name, name != "eu-6")));
    objects.push(placement(3, &sites));
    objects.push(placement(2, &clusters));
    objects
}

/// The deployment among objects, with the objects that belong to it.
pub fn observed(objects: &[Value]) -> Observed {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let deployment = of("SiteDeployment").next().unwrap().clone();
    Observed::new(
        serde_json::from_value(deployment).unwrap(),
        of("ObjectSet").flat_map(SiteRevision::read),
        Ok(cluster::by_name(of("Cluster"))),
        of("ControllerRevision"),
    )
}

/// 10,000 sites in the middle of a rollout: 40 waves of 100 sites are done, the next is under way,
/// and seven sites have failed.
pub fn ten_thousand() -> Observed {
    let mut deployment: SiteDeployment = serde_json::from_value(deployment("shop")).unwrap();
    if let Some(status) = &mut deployment.status {
        status.counts.sites = 10_000;
        status.failing.clear();
        let batch = status.batch.get_or_insert_default();
        (batch.number, batch.of) = (41, 100);
    }
    let sites: Vec<String> = (0..10_000).map(|at| format!("site-{at:05}")).collect();
    let revision = |(at, site): (usize, &String)| {
        let old = SiteRevisionFixture::new(site, 1, "1.1.0")
            .rollout(2, 1)
            .started()
            .available("True", "Available", "");
        let wave = i32::try_from(at / 100).unwrap() + 1;
        let begun = format!("2026-01-01T00:55:{:02}Z", at % 60);
        let new = SiteRevisionFixture::new(site, 2, "1.2.0").rollout(3, wave);
        let new = match at {
            ..4_000 => Some(new.started().available("True", "Available", "")),
            4_000..4_007 => Some(new.available("False", "PreflightError", "no such kind")),
            4_007..4_100 => Some(new.started_at(&begun).available("False", PROBE_FAILURE, "")),
            _ => None,
        };
        [Some(old), new]
    };
    let revisions = sites.iter().enumerate().flat_map(revision).flatten();
    let revisions: Vec<SiteRevision> = revisions
        .flat_map(|given| SiteRevision::read(&given.object()))
        .collect();
    let clusters: Vec<Value> = sites.iter().map(|site| cluster(site, true)).collect();
    Observed::new(
        deployment,
        revisions,
        Ok(cluster::by_name(clusters.iter())),
        &[placement(3, &sites)],
    )
}
