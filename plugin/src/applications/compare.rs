//! The differences of two Releases, with their rendered manifests from slices.

use std::collections::BTreeMap;

use baton_apis::{Release, constants::shipper::LABEL_RELEASE, kinds};
use baton_cluster::Cluster;
use baton_engine::names::is_label_value;
use baton_view::{
    applications::compare::{Rendered, environment, manifests, of_slices},
    diff::Section,
    lists::ListQuery,
};

/// Reads the rendered manifests of Releases from slices.
pub(super) async fn rendered(cluster: &Cluster, releases: &[&Release]) -> Rendered {
    let names = releases
        .iter()
        .filter_map(|release| release.metadata.name.as_deref());
    // No label can have another value.
    let names: Vec<&str> = names.filter(|name| is_label_value(name)).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let path = kinds::OBJECT_SLICE.path(Some(&cluster.namespace));
    let query = ListQuery::labelled(format!("{LABEL_RELEASE} in ({})", names.join(",")));
    let slices = cluster.list_at(&path, &query).await;
    let slices = slices.map_err(|error| error.to_string())?;
    Ok(of_slices(releases, slices))
}

/// The differences of two Releases.
pub(crate) async fn releases(cluster: &Cluster, from: &Release, to: &Release) -> Vec<Section> {
    let mut sections = environment(Some(&from.spec.environment), &to.spec.environment);
    let rendered = rendered(cluster, &[from, to]).await;
    sections.extend(manifests(Some(from), to, &rendered));
    sections
}

#[cfg(test)]
mod tests {
    use baton_text::{
        diff::{Labels, outcome::fate, render},
        output::Output,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::applications::fixtures::{mid_rollout, observed};

    fn slice(name: &str, owner: &str, objects: &[Value]) -> Value {
        let objects: Vec<Value> = objects
            .iter()
            .map(|object| json!({ "object": object }))
            .collect();
        json!({
            "metadata": { "name": name, "ownerReferences": [{ "uid": owner }] },
            "objects": objects,
        })
    }

    fn config(release: &str, name: &str, data: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": { "shipper-release": release, "shipper-release-hash": release },
            },
            "data": { "key": data },
        })
    }

    fn secret(value: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "password" }, "stringData": { "password": value },
        })
    }

    #[test]
    fn two_releases_are_compared() {
        let observed = observed(&mid_rollout());
        let from = observed.release("shop-old-0").unwrap();
        let to = observed.release("shop-new-0").unwrap();
        let slices = vec![
            slice(
                "shop-new-0-10",
                "u-new",
                &[config("shop-new-0", "added", "x")],
            ),
            slice(
                "shop-old-0-0",
                "u-old",
                &[
                    config("shop-old-0", "shop-old-0-same", "of shop-old-0"),
                    config("shop-old-0", "shop-old-0-other", "before"),
                    config("shop-old-0", "gone", "x"),
                    secret("hunter1"),
                ],
            ),
            slice(
                "shop-new-0-2",
                "u-new",
                &[
                    config("shop-new-0", "shop-new-0-same", "of shop-new-0"),
                    config("shop-new-0", "shop-new-0-other", "after"),
                    secret("hunter2"),
                ],
            ),
            // A slice of a deleted Release with the same name.
            slice(
                "shop-new-0-0",
                "u-gone",
                &[config("shop-new-0", "stale", "x")],
            ),
        ];
        let rendered = Ok(of_slices(&[from, to], slices));
        let mut sections = environment(Some(&from.spec.environment), &to.spec.environment);
        sections.extend(manifests(Some(from), to, &rendered));
        let labels = Labels::new("shop-old-0", "shop-new-0");
        let text = render(&sections, &labels, Output::plain());
        assert!(!text.contains("hunter"), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn manifests_that_are_not_there_are_missed() {
        let observed = observed(&mid_rollout());
        let from = observed.release("shop-old-0").unwrap();
        let to = observed.release("shop-new-0").unwrap();
        let slices = vec![slice("shop-old-0-0", "u-old", &[secret("a")])];
        let rendered = Ok(of_slices(&[from, to], slices));
        let sections = manifests(Some(from), to, &rendered);
        assert_eq!(sections.len(), 1);
        assert_eq!(
            fate(&sections[0].outcome),
            "the manifests of release shop-new-0 do not exist yet, or no longer"
        );
        assert!(sections[0].differs());
    }
}
