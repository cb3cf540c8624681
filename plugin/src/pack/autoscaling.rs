//! Fields that an autoscaler of the package sets.

use std::collections::BTreeMap;

use baton_engine::{Gvk, ObjectKey};
use serde_json::Value;

use super::manifest::Manifest;

const REPLICAS: &str = ".spec.replicas";

/// Finds objects whose number of replicas an autoscaler of the package sets.
///
/// The number in their manifest is only used to create them, as later applies would undo the work
/// of the autoscaler. Returns a note for each.
pub(crate) fn create_only_fields(
    manifests: &[Manifest],
) -> (BTreeMap<usize, Vec<String>>, Vec<String>) {
    let mut fields = BTreeMap::new();
    let mut notes = Vec::new();
    for autoscaler in manifests {
        let Some(target) = target(autoscaler) else {
            continue;
        };
        let found = manifests
            .iter()
            .enumerate()
            .find(|(_, manifest)| manifest.key() == target);
        if let Some((index, manifest)) = found
            && manifest.object.pointer("/spec/replicas").is_some()
        {
            fields.insert(index, vec![REPLICAS.to_owned()]);
            notes.push(format!(
                "{}: its number of replicas is left to {} once it exists",
                manifest.title(),
                autoscaler.title()
            ));
        }
    }
    (fields, notes)
}

fn target(manifest: &Manifest) -> Option<ObjectKey> {
    match (manifest.gvk.group.as_str(), manifest.gvk.kind.as_str()) {
        ("autoscaling", "HorizontalPodAutoscaler") | ("keda.sh", "ScaledObject") => {}
        _ => return None,
    }
    let target = manifest.object.pointer("/spec/scaleTargetRef")?;
    let text = |field| target.get(field).and_then(Value::as_str);
    // Only the second kind of autoscaler has these defaults. The first one requires the fields.
    let gvk = Gvk::new(
        text("apiVersion").unwrap_or("apps/v1"),
        text("kind").unwrap_or("Deployment"),
    );
    Some(ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: manifest.namespace.clone(),
        name: text("name")?.to_owned(),
    })
}
