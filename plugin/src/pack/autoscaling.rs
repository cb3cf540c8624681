//! Fields that an autoscaler in the package is going to set.

use std::collections::BTreeMap;

use baton_engine::{Gvk, ObjectKey};
use serde_json::Value;

use super::manifest::Manifest;

const REPLICAS: &str = ".spec.replicas";

/// Finds objects whose number of replicas an autoscaler of the package sets. The number in their
/// manifest holds until then; kept up, it would undo what the autoscaler does. Comes with a note for
/// each.
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
    // The second kind of autoscaler has these defaults, the first one requires the fields.
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
