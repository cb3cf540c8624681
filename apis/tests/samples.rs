//! The samples are valid, and have the properties that their comments state.

use std::{fs, path::Path};

use baton_apis::{
    Application, DeliveryScope, ObjectSet, SiteApplication, SiteAssignment, SiteDeployment,
    constants::LABEL_SERVICE,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(path).expect("the file is part of the repository")
}

/// Reads an object of a kind; no field is unknown.
fn exact<K: DeserializeOwned + Serialize>(value: &Value) -> K {
    let object: K = serde_json::from_value(value.clone()).expect("it is an object of this kind");
    let taken = json!(object);
    assert!(is_within(value, &taken), "{value} became {taken}");
    object
}

/// True if `whole` contains all fields of `part`. It may contain more, such as defaults.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| is_within(value, other))),
        (Value::Array(part), Value::Array(whole)) => {
            let pairs = || part.iter().zip(whole);
            part.len() == whole.len() && pairs().all(|(value, other)| is_within(value, other))
        }
        _ => part == whole,
    }
}

/// The revisions of the tour, in order.
fn revisions() -> Vec<ObjectSet> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples");
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("the samples are part of the repository")
        .map(|entry| entry.expect("the directory is readable").path())
        .filter(|path| !path.ends_with("00-namespace.yaml"))
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| fs::read_to_string(path).expect("the sample is readable"))
        .filter(|text| text.contains("\nkind: ObjectSet\n"))
        .map(|text| serde_saphyr::from_str(&text).expect("the sample is an ObjectSet"))
        .collect()
}

#[test]
fn each_revision_names_all_older_ones_as_previous() {
    let mut older: Vec<String> = Vec::new();
    for revision in revisions() {
        let previous: Vec<_> = revision.spec.previous.into_iter().flatten().collect();
        let names: Vec<_> = previous.iter().map(|reference| &reference.name).collect();
        assert_eq!(names, older.iter().rev().collect::<Vec<_>>());
        older.push(revision.metadata.name.unwrap());
    }
    assert_eq!(
        older,
        ["shop-v1", "shop-v2", "shop-v3", "shop-v4", "shop-v5"]
    );
}

#[test]
fn the_rollback_has_the_content_of_the_first_revision() {
    let revisions = revisions();
    assert_eq!(revisions[4].spec.phases, revisions[0].spec.phases);
    assert_eq!(
        revisions[4].spec.availability_probes,
        revisions[0].spec.availability_probes
    );
    assert_eq!(revisions[4].spec.revision, None);
}

#[test]
fn the_assignment_sample_states_the_default_scope() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/20-site-assignment.yaml");
    let text = fs::read_to_string(path).expect("the sample is readable");
    let sample: SiteAssignment = serde_saphyr::from_str(&text).expect("it is a SiteAssignment");
    assert_eq!(sample.spec.scope, DeliveryScope::default());
    assert!(sample.spec.namespaces.selector.is_some() && sample.spec.clusters.names.is_none());
}

#[test]
fn the_application_sample_has_known_fields_and_ends_with_all_capacity() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/30-application.yaml");
    let text = fs::read_to_string(path).expect("the sample is readable");
    let value: Value = serde_saphyr::from_str(&text).expect("the sample is YAML");
    let sample: Application = serde_json::from_value(value.clone()).expect("it is an Application");
    assert_eq!(json!(sample), value);
    let steps = sample.spec.template.strategy.unwrap().steps;
    let last = steps.last().unwrap();
    assert_eq!((last.capacity.incumbent, last.capacity.contender), (0, 100));
    assert_eq!(last.traffic.incumbent, 0);
}

#[test]
fn the_site_samples_have_known_fields_and_refer_to_each_other() {
    let [application, deployment] =
        ["40-site-application.yaml", "41-site-deployment.yaml"].map(|name| {
            let text = read(&format!("config/samples/{name}"));
            serde_saphyr::from_str::<Value>(&text).expect("the sample is YAML")
        });
    let application: SiteApplication = exact(&application);
    let deployment: SiteDeployment = exact(&deployment);
    assert_eq!(
        application.metadata.namespace,
        deployment.metadata.namespace
    );
    assert_eq!(
        application.metadata.name.as_ref(),
        Some(&deployment.spec.application)
    );
    // A healthy time needs probes.
    let content = application
        .spec
        .template
        .spec
        .read()
        .expect("the template is valid");
    assert!(
        content
            .availability_probes
            .as_ref()
            .is_some_and(|probes| !probes.is_empty())
    );
    let phases = content.phases.as_ref().expect("there are phases");
    assert!(phases.iter().all(|phase| phase.class.is_empty()));
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let services: Vec<_> = objects
        .filter_map(|entry| entry.object["metadata"]["labels"][LABEL_SERVICE].as_str())
        .collect();
    for service in &application.spec.upgrade.services {
        assert!(
            services.contains(&service.name.as_str()),
            "{}",
            service.name
        );
    }
}

#[test]
fn manifests_in_the_documentation_of_sites_have_known_fields() {
    let page = read("docs/guides/sites.md");
    let blocks = page.split("```yaml\n").skip(1);
    let mut kinds = Vec::new();
    for block in blocks {
        let text = block.split("```").next().expect("a block has an end");
        let value: Value = serde_saphyr::from_str(text).expect("it is YAML");
        match value["kind"].as_str() {
            Some("SiteApplication") => {
                exact::<SiteApplication>(&value);
            }
            Some("SiteDeployment") => {
                exact::<SiteDeployment>(&value);
            }
            kind => panic!("{kind:?} is no kind of this page"),
        }
        kinds.push(value["kind"].clone());
    }
    assert!(kinds.contains(&json!("SiteApplication")) && kinds.contains(&json!("SiteDeployment")));
}
