//! Fields that an autoscaler of the package, or a controller of the control plane, sets.

use std::collections::BTreeMap;

use baton_engine::{
    ObjectKey,
    autoscaling::{self, REPLICAS},
    revision::set_by_controllers::leave_to_controllers,
};

use super::manifest::Manifest;

/// Finds fields that others set by design, by the index of the manifest.
///
/// The number of replicas in a manifest that an autoscaler of the package scales is only used to
/// create the object, as later applies would undo the work of the autoscaler. Returns a note for
/// each. The same holds for fields that a manifest leaves to the control plane.
pub(crate) fn create_only_fields(
    manifests: &[Manifest],
) -> (BTreeMap<usize, Vec<String>>, Vec<String>) {
    let mut fields: BTreeMap<usize, Vec<String>> = BTreeMap::new();
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
    for (index, manifest) in manifests.iter().enumerate() {
        let left = leave_to_controllers(&manifest.gvk, &mut manifest.object.clone());
        for path in left {
            fields.entry(index).or_default().push(path.to_string());
        }
    }
    (fields, notes)
}

fn target(manifest: &Manifest) -> Option<ObjectKey> {
    let target = autoscaling::target(&manifest.object)?;
    Some(ObjectKey {
        namespace: manifest.namespace.clone(),
        ..target
    })
}
