//! The types read and write the same objects as users and other controllers.

use baton_apis::{
    Cluster, ClusterConnection, ClusterObjectSet, CollisionProtection, ObjectDeployment,
    ObjectDeploymentStatus, ObjectDeploymentStatusPhase, ObjectSet, ObjectSetPhase,
    ObjectSetStatusPhase, ObjectSlice, PreviousRevisionReference,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).expect("the fixture is readable")
}

/// An object that is read is written unchanged.
fn check_round_trip<T: Serialize + DeserializeOwned>(yaml: &str) {
    let value: Value = read(yaml);
    let typed: T = serde_json::from_value(value.clone()).expect("the fixture fits the type");
    assert_eq!(json!(typed), value);
}

const FULL_SET: &str = r#"
apiVersion: package-operator.run/v1alpha1
kind: ObjectSet
metadata: {name: v2, namespace: default, labels: {package-operator.run/object-deployment: demo}}
spec:
  lifecycleState: Paused
  revision: 2
  successDelaySeconds: 5
  previous: [{name: v1}, {name: v0, kind: ObjectSet, group: package-operator.run}]
  phases:
  - name: config
    class: default
    slices: [one]
    objects:
    - collisionProtection: IfNoController
      conditionMappings: [{sourceType: Available, destinationType: demo.example/Available}]
      createOnlyFields: [.spec.replicas]
      object: {apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {k: v}}
  availabilityProbes:
  - selector: {kind: {group: "", kind: ConfigMap}, selector: {matchLabels: {a: b}}}
    probes:
    - fieldsEqual: {fieldA: .metadata.name, fieldB: .data.k}
    - condition: {type: Available, status: "True"}
    - cel: {rule: "true", message: never}
status:
  phase: NotReady
  revision: 2
  contentHash: abc
  remotePhases: [{name: a, uid: b}]
  controllerOf: [{kind: ConfigMap, group: "", name: cm, namespace: default, version: ""}]
  waitingFor:
  - {phase: config, group: "", kind: ConfigMap, name: cm, namespace: default, reason: ProbeFailure, message: missing}
  conditions:
  - type: Available
    status: "False"
    reason: ProbeFailure
    message: missing
    observedGeneration: 1
    lastTransitionTime: "2026-01-01T00:00:00Z"
"#;

#[test]
fn both_scopes_read_the_same_content() {
    check_round_trip::<ObjectSet>(FULL_SET);
    check_round_trip::<ClusterObjectSet>(
        &FULL_SET.replace("kind: ObjectSet\nmeta", "kind: ClusterObjectSet\nmeta"),
    );
    let set: ObjectSet = read(FULL_SET);
    let cluster_set: ClusterObjectSet = read(FULL_SET);
    assert_eq!(set.spec, cluster_set.spec.0);
}

#[test]
fn a_set_is_read_without_any_field_of_its_spec() {
    let set: ObjectSet = read("{metadata: {name: a}, spec: {}}");
    assert_eq!(set.spec, baton_apis::ObjectSetSpec::default());
    let set: ObjectSet = read("{metadata: {name: a}, spec: {}, status: {}}");
    assert_eq!(set.status.unwrap().phase, ObjectSetStatusPhase::Pending);
}

#[test]
fn written_references_contain_only_the_name() {
    let reference = PreviousRevisionReference {
        name: "v1".to_owned(),
        ..Default::default()
    };
    assert_eq!(json!(reference), json!({ "name": "v1" }));
}

#[test]
fn an_unknown_collision_protection_protects() {
    for (text, expected) in [
        ("Prevent", CollisionProtection::Prevent),
        ("IfNoController", CollisionProtection::IfNoController),
        ("None", CollisionProtection::None),
        ("Whatever", CollisionProtection::Prevent),
    ] {
        let read: CollisionProtection = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(read, expected);
    }
}

#[test]
fn a_slice_has_its_objects_at_the_top() {
    check_round_trip::<ObjectSlice>(
        "
apiVersion: package-operator.run/v1alpha1
kind: ObjectSlice
metadata: {name: one}
objects:
- collisionProtection: Prevent
  object: {apiVersion: v1, kind: ConfigMap, metadata: {name: cm}}
",
    );
}

#[test]
fn a_phase_object() {
    check_round_trip::<ObjectSetPhase>(
        "
apiVersion: package-operator.run/v1alpha1
kind: ObjectSetPhase
metadata: {name: v1-config, labels: {package-operator.run/phase-class: default}}
spec:
  paused: true
  revision: 1
  previous: [{name: v0}]
  objects: []
",
    );
}

#[test]
fn a_deployment() {
    check_round_trip::<ObjectDeployment>(
        "
apiVersion: package-operator.run/v1alpha1
kind: ObjectDeployment
metadata: {name: demo}
spec:
  paused: true
  progressDeadlineSeconds: 600
  revisionHistoryLimit: 3
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {name: some, namespace: other, labels: {app: demo}, annotations: {a: b}, finalizers: [c]}
    spec: {successDelaySeconds: 3, phases: []}
status: {observedGeneration: 2, phase: Ready, revision: 4, templateHash: abc, collisionCount: 1}
",
    );
    let deployment: ObjectDeployment =
        read("{metadata: {name: a}, spec: {selector: {}, template: {metadata: {}, spec: {}}}}");
    assert_eq!(deployment.spec.revision_history_limit, 10);
}

#[test]
fn a_cluster_of_shipper_has_a_push_connection() {
    let cluster: Cluster = read(
        "
apiVersion: shipper.booking.com/v1alpha1
kind: Cluster
metadata: {name: eu-1}
spec: {region: eu-west, apiMaster: 'https://10.1.2.3:6443', capabilities: [gpu], scheduler: {weight: 0}}
status: {inService: true}
",
    );
    assert_eq!(cluster.spec.connection, ClusterConnection::Push);
    assert_eq!(cluster.spec.scheduler.weight, Some(0));
    assert_eq!(cluster.status.unwrap().in_service, Some(true));
}

#[test]
fn a_cluster_with_an_agent_needs_no_address() {
    check_round_trip::<Cluster>(
        "
apiVersion: shipper.booking.com/v1alpha1
kind: Cluster
metadata: {name: edge-7}
spec: {region: edge, capabilities: [], scheduler: {unschedulable: true, identity: edge-6}, connection: Pull}
status:
  serverVersion: v1.36.3
  lastContactTime: '2026-01-01T00:00:00Z'
  conditions:
  - {type: Connected, status: 'False', reason: Unreachable, message: gone, lastTransitionTime: '2026-01-01T00:00:00Z'}
",
    );
}

/// Another manager may have written a phase that this one does not know.
#[test]
fn an_unknown_phase_of_a_deployment_is_none() {
    for (word, expected) in [
        ("Available", ObjectDeploymentStatusPhase::Pending),
        ("Failed", ObjectDeploymentStatusPhase::Failed),
    ] {
        let status: ObjectDeploymentStatus = read(&format!("{{phase: {word}, revision: 3}}"));
        assert_eq!((status.phase, status.revision), (expected, Some(3)));
    }
}
