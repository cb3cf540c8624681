//! The types of Shipper's kinds read and write the same objects as Shipper's clients.

use baton_apis::{
    Application, CapacityTarget, CapacityTargetSpec, CapacityTargetStatus, ConditionStatus,
    InstallationTarget, InstallationTargetSpec, InstallationTargetStatus, Release,
    ReleaseEnvironment, ShipperCondition, TrafficTarget, TrafficTargetSpec, TrafficTargetStatus,
    release_crds,
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    let value: Value = serde_saphyr::from_str(yaml).expect("the fixture is YAML");
    serde_json::from_value(value).expect("the fixture is readable")
}

/// An object that is read is written unchanged.
fn check_round_trip<T: Serialize + DeserializeOwned>(yaml: &str) {
    let value: Value = read(yaml);
    let typed: T = serde_json::from_value(value.clone()).expect("the fixture fits the type");
    assert_eq!(json!(typed), value);
}

const ENVIRONMENT: &str = "
    chart: {name: nginx, version: 0.0.1, repoUrl: 'https://charts.example.com'}
    values: {nested: {list: [1, {a: null}], text: 'x<y'}, replicaCount: 3}
    clusterRequirements: {regions: [{name: eu, replicas: 2}, {name: us}], capabilities: [gpu]}
    strategy:
      steps:
      - {name: staging, capacity: {incumbent: 100, contender: 1}, traffic: {incumbent: 100, contender: 0}}
      - {name: full on, capacity: {incumbent: 0, contender: 100}, traffic: {incumbent: 0, contender: 4294967295}}
";

fn application() -> String {
    format!(
        "
apiVersion: shipper.booking.com/v1alpha1
kind: Application
metadata: {{name: shop, namespace: default, annotations: {{shipper.booking.com/app.chart.name: nginx}}}}
spec:
  revisionHistoryLimit: 3
  template:{ENVIRONMENT}
status:
  history: [shop-8c60a3ae-0, shop-26ce2b68-0]
  conditions:
  - {{type: Blocked, status: 'False', lastTransitionTime: '2026-01-01T00:00:00Z'}}
  - type: RollingOut
    status: 'True'
    lastTransitionTime: '2026-01-01T00:00:00Z'
    message: Transitioning from \"a\" to \"b\"
"
    )
}

#[test]
fn an_application() {
    check_round_trip::<Application>(&application());
}

fn release() -> String {
    format!(
        "
apiVersion: shipper.booking.com/v1alpha1
kind: Release
metadata: {{name: shop-8c60a3ae-0, namespace: default}}
spec:
  targetStep: 1
  environment:{ENVIRONMENT}
status:
  achievedStep: {{step: 0, name: staging}}
  strategy:
    state:
      waitingForInstallation: 'False'
      waitingForCapacity: 'True'
      waitingForTraffic: 'False'
      waitingForCommand: Unknown
    conditions:
    - {{type: A, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: '', message: '', step: 1}}
  conditions:
  - {{type: Complete, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}}
"
    )
}

#[test]
fn a_release() {
    check_round_trip::<Release>(&release());
}

const INSTALLATION_TARGET: &str = "
apiVersion: shipper.booking.com/v1alpha1
kind: InstallationTarget
metadata: {name: shop-8c60a3ae-0}
spec:
  clusters: [eu-1, us-1]
  canOverride: true
  chart: {name: nginx, version: 0.0.1, repoUrl: ''}
  values: {a: b}
status:
  clusters:
  - {name: eu-1, status: Failed, message: gone, conditions: [{type: Ready, status: 'False', reason: ServerError}]}
  - {name: us-1, status: Installed, conditions: [{type: Ready, status: 'True'}]}
  conditions: [{type: Ready, status: 'False', reason: ClustersNotReady, message: 'eu-1: ServerError gone'}]
";

#[test]
fn an_installation_target() {
    check_round_trip::<InstallationTarget>(INSTALLATION_TARGET);
}

const CAPACITY_TARGET: &str = "
apiVersion: shipper.booking.com/v1alpha1
kind: CapacityTarget
metadata: {name: shop-8c60a3ae-0}
spec: {clusters: [{name: eu-1, percent: 50, totalReplicaCount: 10}]}
status:
  observedGeneration: 2
  clusters:
  - name: eu-1
    availableReplicas: 4
    achievedPercent: 40
    status: Failed
    sadPods:
    - name: shop-1
      condition: {type: Ready, status: 'False', reason: ContainersNotReady}
      initContainers: [{name: i, image: i, imageID: '', ready: true, restartCount: 0}]
      containers:
      - name: app
        image: nginx
        imageID: ''
        ready: false
        restartCount: 3
        state: {waiting: {reason: CrashLoopBackOff}}
    conditions: [{type: Operational, status: 'True'}, {type: Ready, status: 'False', reason: PodsNotReady}]
    reports:
    - owner: {name: shop}
      breakdown:
      - type: Ready
        status: 'False'
        reason: ContainersNotReady
        count: 1
        containers:
        - name: app
          states:
          - type: Waiting
            reason: CrashLoopBackOff
            count: 1
            example: {pod: shop-1, message: Terminated with signal 9}
  conditions: [{type: Operational, status: 'True'}]
";

#[test]
fn a_capacity_target() {
    check_round_trip::<CapacityTarget>(CAPACITY_TARGET);
}

const TRAFFIC_TARGET: &str = "
apiVersion: shipper.booking.com/v1alpha1
kind: TrafficTarget
metadata: {name: shop-8c60a3ae-0}
spec: {clusters: [{name: eu-1, weight: 100}]}
status:
  observedGeneration: 2
  clusters: [{name: eu-1, achievedTraffic: 50, status: Synced, conditions: []}]
  conditions: [{type: Operational, status: 'True'}]
";

#[test]
fn a_traffic_target() {
    check_round_trip::<TrafficTarget>(TRAFFIC_TARGET);
}

/// The hash of an environment is the hash of this text, except for the escapes of Go.
#[test]
fn an_environment_has_shippers_order_of_fields_and_null_for_absent_ones() {
    let text = |yaml: &str| serde_json::to_string(&read::<ReleaseEnvironment>(yaml)).unwrap();
    assert_eq!(
        text(ENVIRONMENT),
        concat!(
            r#"{"chart":{"name":"nginx","version":"0.0.1","repoUrl":"https://charts.example.com"},"#,
            r#""values":{"nested":{"list":[1,{"a":null}],"text":"x<y"},"replicaCount":3},"#,
            r#""clusterRequirements":{"regions":[{"name":"eu","replicas":2},{"name":"us"}],"capabilities":["gpu"]},"#,
            r#""strategy":{"steps":["#,
            r#"{"name":"staging","capacity":{"incumbent":100,"contender":1},"#,
            r#""traffic":{"incumbent":100,"contender":0}},"#,
            r#"{"name":"full on","capacity":{"incumbent":0,"contender":100},"#,
            r#""traffic":{"incumbent":0,"contender":4294967295}}]}}"#,
        )
    );
    let nothing = concat!(
        r#"{"chart":{"name":"","version":"","repoUrl":""},"#,
        r#""values":null,"clusterRequirements":{"regions":null}}"#,
    );
    assert_eq!(text("{}"), nothing);
    assert_eq!(
        text("{values: null, clusterRequirements: {regions: null, capabilities: null}}"),
        nothing
    );
    assert_eq!(
        text("{values: {}, clusterRequirements: {regions: []}}"),
        nothing
            .replace(r#""values":null"#, r#""values":{}"#)
            .replace(r#""regions":null"#, r#""regions":[]"#)
    );
}

/// All objects of a kind are read together, so a single object must not prevent the read of the
/// others.
#[test]
fn absent_and_null_fields_of_other_writers_are_read_as_defaults() {
    for yaml in [
        "{metadata: {name: a}, spec: {}, status: {}}",
        "{metadata: {name: a}, spec: {clusters: null}, status: {conditions: null, clusters: null}}",
    ] {
        let target: InstallationTarget = read(yaml);
        assert_eq!(target.spec, InstallationTargetSpec::default());
        assert_eq!(target.status, Some(InstallationTargetStatus::default()));
        let target: CapacityTarget = read(yaml);
        assert_eq!(target.spec, CapacityTargetSpec::default());
        assert_eq!(target.status, Some(CapacityTargetStatus::default()));
        let target: TrafficTarget = read(yaml);
        assert_eq!(target.spec, TrafficTargetSpec::default());
        assert_eq!(target.status, Some(TrafficTargetStatus::default()));
    }
    let release: Release = read(
        "
metadata: {name: a}
spec: {environment: {strategy: {steps: null}, values: 5}}
status: {achievedStep: null, conditions: [{lastTransitionTime: null}], strategy: {state: {}, conditions: null}}
",
    );
    let status = release.status.unwrap();
    assert_eq!(status.achieved_step, None);
    assert_eq!(status.conditions, [ShipperCondition::default()]);
    assert_eq!(release.spec.target_step, 0);
    assert_eq!(release.spec.environment.values, Some(json!(5).into()));
    let target: CapacityTarget = read(
        "
metadata: {name: a}
spec: {clusters: [{name: eu-1, percent: 1}]}
status: {clusters: [{name: eu-1, sadPods: [{name: p, containers: null}], reports: [{breakdown: null}]}]}
",
    );
    assert_eq!(target.spec.clusters[0].total_replica_count, 0);
}

/// Collects the places in a value where its schema admits null.
fn nullable(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        if let Some(value) = value.get(name) {
            if schema["nullable"] == true {
                found.push(at.clone());
            }
            nullable(schema, value, &at, found);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        nullable(&schema["items"], item, &format!("{at}/{index}"), found);
    }
}

fn check_nulls_are_read<T: Resource<DynamicType = ()> + DeserializeOwned>(
    yaml: &str,
    least: usize,
) {
    let crds = release_crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == T::kind(&()));
    let crd = json!(crd);
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let full: Value = read(yaml);
    let mut places = Vec::new();
    nullable(schema, &full, "", &mut places);
    assert!(places.len() >= least, "the fixture has only {places:?}");
    for pointer in places {
        let mut value = full.clone();
        *value
            .pointer_mut(&pointer)
            .expect("the place was found in it") = Value::Null;
        let read = serde_json::from_value::<T>(value);
        assert!(
            read.is_ok(),
            "{}: {pointer}: {:?}",
            T::kind(&()),
            read.err()
        );
    }
}

#[test]
fn null_is_read_where_the_schema_allows_it() {
    check_nulls_are_read::<Application>(&application(), 10);
    check_nulls_are_read::<Release>(&release(), 11);
    check_nulls_are_read::<InstallationTarget>(INSTALLATION_TARGET, 12);
    check_nulls_are_read::<CapacityTarget>(CAPACITY_TARGET, 14);
    check_nulls_are_read::<TrafficTarget>(TRAFFIC_TARGET, 5);
}

#[test]
fn invalid_values_that_the_schema_allows_are_read_as_absent() {
    let target: CapacityTarget = read(
        "
metadata: {name: a}
spec: {}
status:
  conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00+99:99'}]
  clusters: [{name: eu-1, sadPods: [{name: p, containers: [{restartCount: many}], condition: {status: 5}}]}]
",
    );
    let status = target.status.unwrap();
    assert_eq!(status.conditions[0].last_transition_time, None);
    let pod = &status.clusters[0].sad_pods[0];
    assert_eq!((pod.name.as_str(), pod.containers.len()), ("p", 0));
    assert_eq!(pod.condition.status, "");
}

#[test]
fn a_status_that_is_neither_true_nor_false_is_unknown() {
    for (text, expected) in [
        ("True", ConditionStatus::True),
        ("False", ConditionStatus::False),
        ("Unknown", ConditionStatus::Unknown),
        ("", ConditionStatus::Unknown),
        ("true", ConditionStatus::Unknown),
    ] {
        let status: ConditionStatus = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(status, expected, "{text:?}");
    }
}
