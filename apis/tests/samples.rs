//! The samples are what their comments say.

use std::{fs, path::Path};

use baton_apis::{Application, DeliveryScope, ObjectSet, SiteAssignment};
use serde_json::{Value, json};

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
fn each_revision_takes_over_from_all_before_it() {
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
fn the_assignment_says_what_is_the_default() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/20-site-assignment.yaml");
    let text = fs::read_to_string(path).expect("the sample is readable");
    let sample: SiteAssignment = serde_saphyr::from_str(&text).expect("it is a SiteAssignment");
    assert_eq!(sample.spec.scope, DeliveryScope::default());
    assert!(sample.spec.namespaces.selector.is_some() && sample.spec.clusters.names.is_none());
}

#[test]
fn the_application_has_no_field_that_is_unknown_and_ends_with_all_for_the_new_release() {
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
