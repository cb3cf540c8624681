//! The records of the versions of an application.

use baton_apis::SiteApplicationSpec;
use baton_integration::application::{condition, reason};
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{APPLICATION, Fleet, spec, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};
use baton_sites::snapshot::{content, record_name};

/// Label of the records of an application.
const LABEL: &str = "baton.run/site-application";

/// A version whose probe and object have the characters that the API server escapes in the data of
/// a `ControllerRevision`.
fn special(name: &str) -> Value {
    let settings = configmap("settings")
        .data("version", name)
        .data("other", "a && b < c > d \u{2028}");
    let mut spec = spec(name, &[settings]);
    let rule = "size(self.data) > 1 && size(self.data) < 3";
    let probe = cel_probe("", "ConfigMap", rule, "1 < keys < 3");
    spec["template"]["spec"]["availabilityProbes"] = json!([probe]);
    spec
}

/// The server compares the data of a record as text: the owner that a deployment adds to it must
/// not change that text.
#[tokio::test]
async fn probes_with_all_characters_reach_sites() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&special("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    fleet.application(&special("1.1.0")).await;
    fleet.complete("web", "1.1.0", 1).await;
    // The first version comes back: its record gets another number.
    fleet.application(&special("1.0.0")).await;
    fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(fleet.kept().await, ["1.1.0", "1.0.0"]);
}

/// Baton 0.1 stored records without escapes, and the server refuses every patch of such a record.
#[tokio::test]
async fn records_of_an_earlier_release_are_used() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&special("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;

    let application = Fleet::kind("SiteApplication", APPLICATION);
    let mut spec = ns.live(&application).await["spec"].clone();
    spec["version"] = "1.1.0".into();
    let of_spec: SiteApplicationSpec = serde_json::from_value(spec.clone()).unwrap();
    let snapshot = content((ns.name(), APPLICATION), &of_spec)
        .unwrap()
        .snapshot;
    let name = record_name(APPLICATION, &snapshot.version, &snapshot.edit);
    let record = object("apps/v1", "ControllerRevision", &name)
        .label(LABEL, APPLICATION)
        .with("/data", json!(snapshot))
        .with("/revision", json!(2));
    let made = ns.create(&record).await;
    assert!(json!(snapshot).to_string().contains("&&"));
    ns.merge(&application, &json!({ "spec": spec })).await;
    fleet.complete("web", "1.1.0", 1).await;
    let live = ns.live(&record).await;
    assert_eq!(live["metadata"]["uid"], made["metadata"]["uid"]);
    let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(
        owners.len(),
        2,
        "the application and the deployment: {live}"
    );
}

/// A record that cannot be written is reported by its application, and stored later without another
/// change.
#[tokio::test]
async fn a_record_that_cannot_be_stored_is_reported() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let quota = object("v1", "ResourceQuota", "quota");
    let count = "count/controllerrevisions.apps";
    let hard = |most: &str| json!({ "spec": { "hard": { count: most } } });
    ns.create(&quota.clone().with("/spec", hard("0")["spec"].clone()))
        .await;
    let counts = async || ns.live(&quota).await["status"]["used"][count] == "0";
    ns.eventually("records to be counted", counts).await;

    fleet.application(&version("1.0.0")).await;
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let is_reported = |live: &Value| {
        let [reason, message] = reason(live, "Kept");
        reason == "WriteError" && message.contains("exceeded quota: quota")
    };
    let live = ns
        .object_becomes(&application, "the refusal to be reported", is_reported)
        .await;
    for (type_, status) in [
        ("Kept", "False"),
        ("Ready", "False"),
        ("Reconciling", "True"),
    ] {
        assert_eq!(condition(&live, type_), status, "{type_}");
    }
    // The sites of a deployment are stored in a record too.
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.deployment("web", json!({})).await;
    let deployment = Fleet::kind("SiteDeployment", "web");
    let is_reported = |live: &Value| {
        let [reason, message] = reason(live, "Progressing");
        reason == "RevisionRefused" && message.contains("exceeded quota: quota")
    };
    ns.object_becomes(&deployment, "the refusal to be reported", is_reported)
        .await;
    ns.merge(&quota, &hard("9")).await;
    fleet.complete("web", "1.0.0", 1).await;
    let live = ns.live(&application).await;
    assert_eq!(reason(&live, "Kept")[0], "Kept");
}
