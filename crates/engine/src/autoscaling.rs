//! Autoscalers that set the number of replicas of a workload.

use std::collections::BTreeSet;

use baton_apis::ObjectSetTemplatePhase;
use serde_json::Value;

use crate::{
    Gvk, ObjectKey,
    object::{metadata, text},
};

/// The field that autoscalers set, as a create-only field.
pub const REPLICAS: &str = ".spec.replicas";

/// The object that an autoscaler scales; `None` if the manifest is no autoscaler.
///
/// The namespace is that of the manifest, and empty if the manifest has none.
pub fn target(autoscaler: &Value) -> Option<ObjectKey> {
    let gvk = gvk(autoscaler);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("autoscaling", "HorizontalPodAutoscaler") | ("keda.sh", "ScaledObject") => {}
        _ => return None,
    }
    let target = autoscaler.pointer("/spec/scaleTargetRef")?;
    let field = |field| target.get(field).and_then(Value::as_str);
    // Only the second kind of autoscaler has these defaults. The first one requires the fields.
    let gvk = Gvk::new(
        field("apiVersion").unwrap_or("apps/v1"),
        field("kind").unwrap_or("Deployment"),
    );
    Some(ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: metadata(autoscaler, "namespace").to_owned(),
        name: field("name")?.to_owned(),
    })
}

/// Makes the number of replicas create-only in each object that an autoscaler among the same phases
/// scales. `namespace` is that of manifests without one.
///
/// A manifest without a number is included: an older revision may have set it, and an apply that
/// drops the field would scale the workload to 1.
pub fn leave_replicas(phases: &mut [ObjectSetTemplatePhase], namespace: &str) {
    let complete = |mut key: ObjectKey| {
        if key.namespace.is_empty() {
            namespace.clone_into(&mut key.namespace);
        }
        key
    };
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    let targets: BTreeSet<_> = objects
        .filter_map(|entry| target(&entry.object))
        .map(complete)
        .collect();
    if targets.is_empty() {
        return;
    }
    for entry in phases.iter_mut().flat_map(|phase| &mut phase.objects) {
        let fields = &entry.create_only_fields;
        let is_left = |field: &String| field == REPLICAS || field == ".spec";
        if !fields.iter().any(is_left) && targets.contains(&complete(key(&entry.object))) {
            entry.create_only_fields.push(REPLICAS.to_owned());
        }
    }
}

fn gvk(manifest: &Value) -> Gvk {
    Gvk::new(text(manifest, "apiVersion"), text(manifest, "kind"))
}

fn key(manifest: &Value) -> ObjectKey {
    let gvk = gvk(manifest);
    ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: metadata(manifest, "namespace").to_owned(),
        name: metadata(manifest, "name").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures;

    fn yaml(text: &str) -> Value {
        fixtures::yaml(text)
    }

    const WEB: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}";

    #[track_caller]
    fn check(autoscaler: &str, workload: &str, is_left: bool) {
        let phase = |object: &str| ObjectSetTemplatePhase {
            objects: vec![baton_apis::ObjectSetObject {
                object: yaml(object),
                ..Default::default()
            }],
            ..ObjectSetTemplatePhase::default()
        };
        let mut phases = [phase(workload), phase(autoscaler)];
        leave_replicas(&mut phases, "shop");
        leave_replicas(&mut phases, "shop");
        let fields = &phases[0].objects[0].create_only_fields;
        let expected: &[&str] = if is_left { &[REPLICAS] } else { &[] };
        assert_eq!(*fields, expected, "{autoscaler} {workload}");
        assert!(phases[1].objects[0].create_only_fields.is_empty());
    }

    #[test]
    fn replicas_are_left_to_an_autoscaler_of_another_phase() {
        let hpa = |target: &str, more: &str| {
            format!(
                "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: h{more}}}, spec: \
                 {{scaleTargetRef: {target}}}}}"
            )
        };
        let web = "{apiVersion: apps/v1, kind: Deployment, name: web}";
        check(&hpa(web, ""), WEB, true);
        check(&hpa(web, ", namespace: shop"), WEB, true);
        check(&hpa(web, ", namespace: other"), WEB, false);
        let placed = WEB.replace("name: web", "name: web, namespace: shop");
        check(&hpa(web, ""), &placed, true);
        check(&hpa(&web.replace("web", "api"), ""), WEB, false);
        check(
            &hpa(&web.replace("Deployment", "StatefulSet"), ""),
            WEB,
            false,
        );
        check(
            &hpa(&web.replace("apps/v1", "example.com/v1"), ""),
            WEB,
            false,
        );
        let keda = "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: s}, spec: {scaleTargetRef: \
                    {name: web}}}";
        check(keda, WEB, true);
        check(&keda.replace("keda.sh", "example.com"), WEB, false);
        check(&keda.replace("{name: web}", "null"), WEB, false);
    }
}
