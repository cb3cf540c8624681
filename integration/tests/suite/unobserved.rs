//! No absence that was not observed as a deletion deletes anything: a table of kinds and faults.
//!
//! The world has an object of each kind that the manager watches. In each cell of the table, one
//! kind is lost in one way, while all objects are touched, so that the manager decides about them.

use baton_integration::application::{ALL_IN, TestApplication, reason};
use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, On, Verb, WatchEnd};
use baton_integration::fleet::{Fleet, version};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::assignments::{assign, names};

/// Time for which a kind is lost after the manager has noticed it. Decisions follow the touched
/// objects within milliseconds; the longest debounce is a second.
const LOST: Duration = Duration::from_millis(1500);

/// The plurals of the kinds that the manager watches at the hub.
const KINDS: [&str; 18] = [
    "objectsets",
    "objectsetphases",
    "objectslices",
    "objectdeployments",
    "clusters",
    "siteassignments",
    "siteapplications",
    "sitedeployments",
    "controllerrevisions",
    "applications",
    "releases",
    "installationtargets",
    "capacitytargets",
    "traffictargets",
    "namespaces",
    "secrets",
    "configmaps",
    "customresourcedefinitions",
];

/// Kinds that the manager requests once before it starts, to report a missing definition or right.
const PROBED: [&str; 5] = [
    "objectsets",
    "objectsetphases",
    "objectslices",
    "objectdeployments",
    "namespaces",
];

/// The objects that are touched.
const TOUCHED: [(&str, &str, &str); 5] = [
    ("package-operator.run/v1alpha1", "ObjectDeployment", "plain"),
    ("package-operator.run/v1alpha1", "ObjectSet", "delegated"),
    ("baton.run/v1alpha1", "SiteApplication", "shop"),
    ("baton.run/v1alpha1", "SiteDeployment", "sites"),
    ("shipper.booking.com/v1alpha1", "Application", "web"),
];

/// The kinds whose objects must stay.
const STAYING: [(&str, &str); 12] = [
    ("package-operator.run/v1alpha1", "ObjectDeployment"),
    ("package-operator.run/v1alpha1", "ObjectSet"),
    ("package-operator.run/v1alpha1", "ObjectSetPhase"),
    ("package-operator.run/v1alpha1", "ObjectSlice"),
    ("baton.run/v1alpha1", "SiteApplication"),
    ("baton.run/v1alpha1", "SiteDeployment"),
    ("apps/v1", "ControllerRevision"),
    ("shipper.booking.com/v1alpha1", "Application"),
    ("shipper.booking.com/v1alpha1", "Release"),
    ("shipper.booking.com/v1alpha1", "InstallationTarget"),
    ("apps/v1", "Deployment"),
    ("v1", "ConfigMap"),
];

struct World<'a> {
    faults: Faults,
    ns: &'a TestNamespace,
    site: Site,
}

impl World<'_> {
    /// Touches all objects, so that the manager decides about them.
    async fn touch(&self, mark: &str) {
        for (api, kind, name) in TOUCHED {
            let patch = json!({ "metadata": { "annotations": { "touched": mark } } });
            self.ns.merge(&object(api, kind, name), &patch).await;
        }
    }

    /// The uids of all objects that must stay, except for those that are being deleted. An archived
    /// revision counts as deleted.
    async fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let site = self.site.cluster().await;
        for (place, cluster) in [("hub", self.ns.cluster()), ("site", &site)] {
            for (api, kind) in STAYING {
                if place == "site" && !["ConfigMap", "Deployment"].contains(&kind) {
                    continue;
                }
                let like = self.ns.reference(&object(api, kind, "any"));
                let objects = cluster.list(&like, "").await;
                let stay = objects.iter().filter(|it| {
                    it["metadata"]["deletionTimestamp"].is_null()
                        && it["spec"]["lifecycleState"] != "Archived"
                        && it["metadata"]["name"] != "kube-root-ca.crt"
                });
                found.extend(stay.map(|it| {
                    let metadata = &it["metadata"];
                    format!("{place} {kind} {} {}", metadata["name"], metadata["uid"])
                }));
            }
        }
        found.sort();
        found
    }

    /// Checks that no object is deleted while a kind is lost.
    async fn stays(&self, cell: &str, before: &[String], earlier: usize) {
        self.touch(cell).await;
        tokio::time::sleep(LOST).await;
        let now = self.objects().await;
        let lost: Vec<_> = before.iter().filter(|it| !now.contains(it)).collect();
        assert!(lost.is_empty(), "{cell}: {lost:#?}");
        let requests = self.faults.requests();
        let removals: Vec<_> = requests[earlier..]
            .iter()
            .filter(|it| matches!(it.verb, Verb::Delete | Verb::DeleteCollection))
            .filter(|it| !it.is_dry_run())
            .collect();
        assert!(removals.is_empty(), "{cell}: {removals:#?}");
    }

    /// Waits until the manager has listed a kind again.
    async fn listed(&self, kind: &str, earlier: usize) {
        let path = format!("/{kind}");
        let text = format!("a list of {kind}");
        self.faults
            .until(&text, |requests| {
                requests[earlier..]
                    .iter()
                    .any(|it| it.verb == Verb::List && it.path.ends_with(&path) && it.status == 200)
            })
            .await;
    }
}

async fn manager(bed: &mut Exclusive, faults: &Faults) -> Manager {
    bed.manager_through(faults, &["--leader-elect=false"]).await
}

/// Creates an object of each kind, and waits until all are delivered.
async fn deliver(ns: &TestNamespace, site: &Site, fleet: &Fleet<'_>) -> Joined {
    let joined = site.join(ns).create().await;
    let own =
        json!({ "selector": { "matchLabels": { "kubernetes.io/metadata.name": ns.name() } } });
    let open = json!({ "namespaces": own, "clusters": names(&[joined.name()]) });
    assign(ns, "open", open).await;
    fleet.add(&joined).await;
    fleet.application(&version("1.0.0")).await;
    fleet
        .deployment(
            "sites",
            json!({ "placement": {
            "matchSiteLabels": fleet.expression(), "follow": true,
        } }),
        )
        .await;
    let slice = object("package-operator.run/v1alpha1", "ObjectSlice", "slice");
    let sliced = configmap("sliced").data("k", "v").into_json();
    ns.create(&slice.with("/objects", json!([sliced]))).await;
    let phases = json!([
        { "name": "a", "slices": ["slice"] },
        { "name": "b", "objects": [configmap("plain").data("k", "v").into_json()] },
    ]);
    let labels = json!({ "app": "plain" });
    let plain = object("package-operator.run/v1alpha1", "ObjectDeployment", "plain");
    ns.create(&plain.with(
        "/spec",
        json!({
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "phases": phases, "availabilityProbes": [] },
            },
        }),
    ))
    .await;
    let set = ns.set("delegated").revision(1);
    let delegated = configmap("delegated").data("k", "v");
    set.delegated("a", &joined.class(), [delegated])
        .available()
        .await;
    fleet.complete("sites", "1.0.0", 1).await;
    joined
}

/// True if the deployment `plain` has rolled out this value.
async fn has_rolled_out(ns: &TestNamespace, value: &str) -> bool {
    let plain = ns.get(&configmap("plain")).await;
    plain.is_some_and(|live| live["data"]["k"] == value)
}

/// Starts the manager behind a fault injector, with an object of each kind.
async fn world<'a>(bed: &mut Exclusive, ns: &'a TestNamespace) -> (World<'a>, Manager) {
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let process = manager(bed, &faults).await;
    let ready = ns.eventually("the manager to be ready", async || process.is_ready());
    ready.await;
    let site = Site::get(PUSH).await;
    (World { faults, ns, site }, process)
}

/// Creates an object of each kind, and waits until all are delivered.
async fn delivered(ns: &TestNamespace) -> (TestApplication<'_>, Joined) {
    let site = Site::get(PUSH).await;
    let joined = deliver(ns, &site, &Fleet::new(ns)).await;
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    (app, joined)
}

/// Checks that everything goes on.
async fn goes_on(ns: &TestNamespace, app: &TestApplication<'_>) {
    let plain = object("package-operator.run/v1alpha1", "ObjectDeployment", "plain");
    let new = configmap("plain").data("k", "new").into_json();
    let phases = json!([{ "name": "a", "slices": ["slice"] }, { "name": "b", "objects": [new] }]);
    let edit = json!({ "spec": { "template": { "spec": { "phases": phases } } } });
    ns.merge(&plain, &edit).await;
    ns.eventually("the deployment to roll out", async || {
        has_rolled_out(ns, "new").await
    })
    .await;
    Fleet::new(ns).application(&version("1.1.0")).await;
    ns.eventually("the site to get the version", async || {
        let live = ns.live(&Fleet::kind("SiteDeployment", "sites")).await;
        live["status"]["version"] == "1.1.0" && reason(&live, "Progressing")[0] == "Complete"
    })
    .await;
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    app.completed(1).await;
}

#[tokio::test]
async fn nothing_is_deleted_because_a_kind_is_no_longer_known() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let (app, _joined) = delivered(&ns).await;
    let (world, _manager) = world(&mut bed, &ns).await;
    let faults = &world.faults;
    let before = world.objects().await;
    for wanted in ["hub ObjectSetPhase ", "hub Release ", "site ConfigMap "] {
        let is_wanted = |it: &String| it.starts_with(wanted);
        assert!(before.iter().any(is_wanted), "{before:#?}");
    }
    for kind in KINDS {
        for (fault, answer) in [
            ("is not served", Answer::unserved()),
            ("may not be listed", Answer::forbidden()),
        ] {
            let cell = format!("{kind} {fault}");
            let path = format!("/{kind}$");
            let earlier = faults.requests().len();
            let on = On::verbs(&[Verb::List, Verb::Watch]).path(&path);
            let lost = faults.inject(on, answer);
            faults.end_watches(&path, WatchEnd::Close);
            lost.used(1).await;
            world.stays(&cell, &before, earlier).await;
            faults.heal();
            world.listed(kind, earlier).await;
        }
    }
    let earlier = faults.requests().len();
    for kind in KINDS {
        faults.end_watches(&format!("/{kind}$"), WatchEnd::Close);
    }
    world.stays("all watches end", &before, earlier).await;
    goes_on(&ns, &app).await;
}

#[tokio::test]
async fn nothing_is_deleted_because_a_kind_is_not_known_yet() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let (app, _joined) = delivered(&ns).await;
    let (world, mut process) = world(&mut bed, &ns).await;
    let faults = &world.faults;
    let before = world.objects().await;
    for kind in KINDS {
        let cell = format!("the first list of {kind} fails");
        let earlier = faults.requests().len();
        let on = On::verb(Verb::List).path(&format!("/{kind}$"));
        let probes = usize::from(PROBED.contains(&kind));
        let failed = Answer::HangUp { carried_out: false };
        let lost = faults.inject(on.after(probes), failed);
        drop(process);
        process = manager(&mut bed, faults).await;
        lost.used(1).await;
        world.stays(&cell, &before, earlier).await;
        faults.heal();
        world.listed(kind, earlier).await;
        assert_eq!(process.exited(), None, "{cell}");
    }
    goes_on(&ns, &app).await;
    drop(process);
}
