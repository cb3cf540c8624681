//! The samples are what their comments say.

use std::{fs, path::Path};

use baton_apis::ObjectSet;

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
        .filter(|text| !text.contains("\nkind: ObjectDeployment\n"))
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
