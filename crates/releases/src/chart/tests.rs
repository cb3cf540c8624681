//! The rules for charts, and the changes to their objects.

mod helm_create;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::capacity::workload::Scaling;

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "elsewhere", "labels": {"app": "nginx", "shipper-app": "theirs"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {"containers": []}},
        },
    })
}

/// A Service with these labels and this selector.
fn service(name: &str, labels: &Value, selector: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": selector, "ports": []},
    })
}

fn production(name: &str) -> Value {
    service(
        name,
        &json!({"shipper-lb": "production"}),
        &json!({"app": "nginx"}),
    )
}

fn labels(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let ours = [
        ("shipper-app", "shop"),
        ("shipper-release", "shop-1"),
        ("shipper-release-hash", "abc"),
    ];
    let labels = ours.iter().chain(more);
    labels
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn chart() -> Chart {
    Chart {
        name: "nginx".into(),
        version: "0.0.1".into(),
        repo_url: String::new(),
    }
}

fn check_with(
    documents: Vec<Value>,
    more: &[(&str, &str)],
    scalable: &Scalable,
) -> Result<Content, Error> {
    content(
        documents,
        Installation {
            name: "shop-1",
            labels: &labels(more),
            chart: &chart(),
            scalable,
        },
    )
}

fn check(documents: Vec<Value>) -> Result<Content, Error> {
    check_with(documents, &[], &Scalable::new())
}

fn refused(documents: Vec<Value>, expected: &str) {
    assert_eq!(check(documents).unwrap_err().to_string(), expected);
}

/// The labels that every object gets.
fn ours() -> Value {
    json!({
        "shipper-app": "shop", "shipper-release": "shop-1", "shipper-release-hash": "abc",
        "shipper-owned-by": "shop-1",
    })
}

/// The labels that every object gets, with those of the chart.
fn with_ours(mut labels: Value) -> Value {
    labels
        .as_object_mut()
        .unwrap()
        .extend(ours().as_object().unwrap().clone());
    labels
}

/// The Service is installed before the Deployment.
#[test]
fn objects_of_a_chart_get_the_labels_of_the_release() {
    let content = check(vec![deployment("shop-1-nginx"), production("nginx-prod")]).unwrap();
    let found: Vec<_> = content
        .manifests
        .iter()
        .map(|manifest| manifest.object.clone())
        .collect();
    let expected = [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "nginx-prod", "labels": with_ours(json!({"shipper-lb": "production"}))},
            "spec": {
                "selector": {"app": "nginx", "shipper-app": "shop", "shipper-traffic-status": "enabled"},
                "ports": [],
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "shop-1-nginx", "labels": with_ours(json!({"app": "nginx"}))},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": with_ours(json!({"app": "nginx"}))},
                "template": {
                    "metadata": {"labels": with_ours(json!({"app": "nginx"}))},
                    "spec": {"containers": []},
                },
            },
        }),
    ];
    assert_eq!(found, expected);
    let create_only: Vec<_> = content
        .manifests
        .iter()
        .map(|manifest| manifest.create_only.join(" "))
        .collect();
    assert_eq!(create_only, [".spec.selector", ".spec.replicas"]);
    let [workload] = &content.workloads[..] else {
        panic!("one workload");
    };
    assert_eq!(
        (workload.name.as_str(), workload.replicas),
        ("shop-1-nginx", 3)
    );
}

#[test]
fn exactly_one_service_is_chosen_for_traffic() {
    let plain = |name: &str| service(name, &json!({}), &json!({"app": "nginx"}));
    let staging = service("staging", &json!({"shipper-lb": "staging"}), &Value::Null);
    let error = |found| {
        Err(format!(
            "one and only one v1.Service object with label \"shipper-lb\" is required, but {found} found instead"
        ))
    };
    let other_kind = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "other"}});
    for (services, expected) in [
        (vec![production("a")], Ok("a")),
        (vec![plain("a")], Ok("a")),
        (vec![staging.clone()], Ok("staging")),
        (vec![plain("a"), production("b")], Ok("b")),
        (vec![plain("a"), other_kind], Ok("a")),
        (vec![plain("a"), plain("b")], error(0)),
        (vec![plain("a"), staging], error(0)),
        (vec![production("a"), production("b"), plain("c")], error(2)),
        (vec![], error(0)),
    ] {
        let mut documents = services;
        documents.push(deployment("shop-1-nginx"));
        let content = check(documents).map_err(|error| error.to_string());
        let balancers = content.map(|content| {
            let selects = |manifest: &&Manifest| {
                let found = &manifest.object;
                found.pointer("/spec/selector/shipper-traffic-status") == Some(&json!("enabled"))
            };
            let found: Vec<_> = content.manifests.iter().filter(selects).collect();
            assert_eq!(found.len(), 1);
            assert_eq!(
                found[0].object["metadata"]["labels"]["shipper-lb"],
                "production"
            );
            for other in content
                .manifests
                .iter()
                .filter(|manifest| !selects(manifest))
            {
                assert_eq!(other.object.pointer("/spec/selector/shipper-app"), None);
                assert_eq!(other.object["metadata"]["labels"]["shipper-app"], "shop");
            }
            found[0].object["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        assert_eq!(balancers, expected.map(str::to_owned));
    }
}

#[test]
fn a_service_without_a_selector_gets_one() {
    for selector in [Value::Null, json!({})] {
        let documents = vec![
            deployment("shop-1-nginx"),
            service("a", &Value::Null, &selector),
        ];
        let content = check(documents).unwrap();
        let expected = json!({"shipper-app": "shop", "shipper-traffic-status": "enabled"});
        assert_eq!(content.manifests[0].object["spec"]["selector"], expected);
    }
}

#[test]
fn selectors_of_helm_create_need_the_workaround_label() {
    let selector = |release: &str, workaround: Option<&str>| {
        let service = service(
            "lb",
            &json!({}),
            &json!({"app": "nginx", "release": release}),
        );
        let more: Vec<_> = workaround
            .map(|value| ("enable-helm-release-workaround", value))
            .into_iter()
            .collect();
        let content = check_with(
            vec![deployment("shop-1-nginx"), service],
            &more,
            &Scalable::new(),
        );
        content.map(|content| content.manifests[0].object["spec"]["selector"]["release"].clone())
    };
    assert_eq!(selector("shop-1", Some("true")), Ok(Value::Null));
    assert_eq!(selector("other", Some("true")), Ok(json!("other")));
    for workaround in [None, Some("false")] {
        let error = selector("shop-1", workaround).unwrap_err().to_string();
        for part in [
            "\"release\"",
            "Service \"lb\"",
            "This will break shipper traffic shifting logic.",
            "enable-helm-release-workaround",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    let error = selector("shop-1", Some("yes")).unwrap_err().to_string();
    let expected = "Unexpected value for label \"enable-helm-release-workaround\": \"yes\". \
                    Expected values: true/false.";
    assert_eq!(error, expected);
}

#[test]
fn the_workload_carries_the_name_of_the_release() {
    for name in ["shop-1", "shop-1-nginx", "nginx-shop-1"] {
        check(vec![deployment(name), production("lb")]).unwrap();
    }
    refused(
        vec![deployment("nginx"), production("lb")],
        "Deployment \"nginx\" has invalid name. The name of the Deployment should be templated with {{.Release.Name}}.",
    );
}

/// An object of a kind with this number of pods.
fn scaled(api_version: &str, kind: &str, name: &str, mark: Option<&str>) -> Value {
    let mut object = deployment(name);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    if kind == "ReplicationController" {
        object["spec"]["selector"] = json!({"app": "nginx"});
    }
    if let Some(mark) = mark {
        object["metadata"]["annotations"] = json!({"baton.run/scaling": mark});
    }
    object
}

#[test]
fn built_in_and_annotated_objects_are_workloads() {
    let rollout = ("example.com".to_owned(), "Rollout".to_owned());
    let scalable = Scalable::from([(rollout, ".spec.size".to_owned())]);
    let one =
        |api_version, kind, name: &str| scaled(api_version, kind, &format!("shop-1-{name}"), None);
    let with =
        |kind, name: &str, mark| scaled("apps/v1", kind, &format!("shop-1-{name}"), Some(mark));
    let web = || one("apps/v1", "Deployment", "web");
    let database = || one("apps/v1", "StatefulSet", "db");
    let error = |found| {
        Err(format!(
            "chart nginx-0.0.1 should have exactly 1 Deployment object, but it has {found}"
        ))
    };
    for (documents, expected) in [
        (vec![web()], Ok("web:3")),
        (vec![web(), database()], Ok("web:3")),
        (vec![database()], Ok("db:3")),
        (vec![one("apps/v1", "ReplicaSet", "set")], Ok("set:3")),
        (vec![one("v1", "ReplicationController", "rc")], Ok("rc:3")),
        (vec![one("example.com/v1", "Rollout", "roll")], Ok("roll:1")),
        (vec![], error(0)),
        (vec![web(), web()], error(2)),
        (vec![database(), database()], error(0)),
        (vec![one("extensions/v1beta1", "Deployment", "old")], error(0)),
        (vec![one("example.com/v1", "Other", "other")], error(0)),
        (vec![one("apps/v1", "DaemonSet", "daemon")], error(0)),
        // The chart names its workloads.
        (vec![with("Deployment", "a", "steps"), with("StatefulSet", "b", "autoscaler"), web()], Ok("a:3 b:3*")),
        (
            vec![with("DaemonSet", "a", "steps")],
            Err("DaemonSet \"shop-1-a\" cannot be scaled: the kind has no scale subresource".to_owned()),
        ),
        (
            vec![with("Deployment", "a", "me")],
            Err("Deployment \"shop-1-a\" cannot be scaled: the annotation baton.run/scaling must be steps or autoscaler"
                .to_owned()),
        ),
    ] {
        let mut documents = documents;
        documents.push(production("lb"));
        let request = chart_request(documents.clone(), &chart(), &scalable);
        let content = check_with(documents, &[], &scalable).map_err(|error| error.to_string());
        if let Ok(content) = &content {
            let sum: i32 = content.workloads.iter().map(|workload| workload.replicas).sum();
            assert_eq!(request.map(|request| request.replicas), Ok(sum));
        }
        let found = content.map(|content| {
            let one = |workload: &Workload| {
                let mark = if workload.scaling == Scaling::Autoscaler { "*" } else { "" };
                format!("{}:{}{mark}", workload.name.trim_start_matches("shop-1-"), workload.replicas)
            };
            content.workloads.iter().map(one).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found, expected.map(str::to_owned));
    }
}

#[test]
fn numbers_of_pods_are_read_from_the_chart() {
    let with = |replicas: Value| {
        let mut document = deployment("any");
        document["spec"]["replicas"] = replicas;
        let request = chart_request(vec![document], &chart(), &Scalable::new());
        request.map(|request| request.replicas)
    };
    assert_eq!(with(json!(7)), Ok(7));
    assert_eq!(with(json!(0)), Ok(0));
    assert_eq!(with(Value::Null), Ok(1), "absent is one");
    for odd in [json!(-1), json!("3"), json!(1.5), json!(i64::MAX)] {
        let error = with(odd).unwrap_err().to_string();
        assert_eq!(
            error,
            "Deployment \"any\" cannot be scaled: .spec.replicas is not a number of pods"
        );
    }
}

/// A kind that is not built in stays unchanged, except that labels are added to an existing
/// selector and template.
#[test]
fn custom_workloads_are_scaled_by_their_own_field() {
    let key = ("example.com".to_owned(), "Rollout".to_owned());
    let scalable = Scalable::from([(key, ".spec.size".to_owned())]);
    let rollout = json!({
        "apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "shop-1"},
        "spec": {"size": 4, "template": {}},
    });
    let content = check_with(vec![rollout, production("lb")], &[], &scalable).unwrap();
    let manifest = &content.manifests[1];
    let spec = json!({"size": 0, "template": {"metadata": {"labels": ours()}}});
    assert_eq!(manifest.object["spec"], spec);
    assert_eq!(manifest.create_only, [".spec.size"]);
}

/// A chart with a document that is not an object is not installed.
#[test]
fn documents_that_are_no_objects() {
    let lb = || production("lb");
    let mut no_labels = deployment("shop-1");
    no_labels["metadata"]["labels"] = json!("a");
    let mut odd_label = deployment("shop-1");
    odd_label["metadata"]["labels"]["version"] = json!(1.5);
    let mut no_spec = deployment("shop-1");
    no_spec["spec"] = json!([1]);
    let mut odd_template = deployment("shop-1");
    odd_template["spec"]["template"]["metadata"] = json!("a");
    let mut odd_selector = lb();
    odd_selector["spec"]["selector"] = json!(["app"]);
    for (documents, expected) in [
        (
            vec![json!("text")],
            "apiVersion is missing or not a string in a string of 4 bytes",
        ),
        (
            vec![json!({"kind": "Service"})],
            "apiVersion is missing or not a string in an object of the kind \"Service\"",
        ),
        (
            vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": null})],
            "metadata.name is missing or not a string in an object of the kind \"Service\"",
        ),
        (
            vec![no_labels, lb()],
            "Deployment \"shop-1\": metadata.labels: is not a map",
        ),
        (
            vec![odd_label, lb()],
            "Deployment \"shop-1\": metadata.labels: \"version\" is not a string",
        ),
        (
            vec![no_spec, lb()],
            "Deployment \"shop-1\": spec: is not a map",
        ),
        (
            vec![odd_template, lb()],
            "Deployment \"shop-1\": spec.template.metadata.labels: is not a map",
        ),
        (
            vec![deployment("shop-1"), odd_selector],
            "Service \"lb\": spec.selector: is not a map",
        ),
    ] {
        refused(documents, &format!("could not decode manifest: {expected}"));
    }
}

#[test]
fn a_deployment_without_labels_and_selector_gets_them() {
    let bare = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop-1"}, "spec": null});
    let content = check(vec![bare, production("lb")]).unwrap();
    let expected = json!({
        "replicas": 0,
        "selector": {"matchLabels": ours()},
        "template": {"metadata": {"labels": ours()}},
    });
    assert_eq!(content.manifests[1].object["spec"], expected);
}

#[test]
fn objects_are_installed_in_the_order_of_their_kinds() {
    let object = |kind: &str, name: &str| json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": name}});
    let documents = vec![
        object("Zebra", "a"),
        deployment("shop-1"),
        object("Apple", "b"),
        production("lb"),
        object("Apple", "a"),
        object("ConfigMap", "b"),
        object("Ingress", "a"),
        object("ConfigMap", "a"),
        object("Namespace", "n"),
        object("Job", "j"),
        object("CustomResourceDefinition", "c"),
    ];
    let content = check(documents).unwrap();
    let text =
        |object: &Value, path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
    let found = content.manifests.iter().map(|manifest| {
        format!(
            "{}/{}",
            text(&manifest.object, "/kind"),
            text(&manifest.object, "/metadata/name")
        )
    });
    let expected = [
        "Namespace/n",
        "ConfigMap/a",
        "ConfigMap/b",
        "CustomResourceDefinition/c",
        "Service/lb",
        "Deployment/shop-1",
        "Job/j",
        "Ingress/a",
        "Apple/a",
        "Apple/b",
        "Zebra/a",
    ];
    assert!(found.eq(expected));
}

/// The autoscalers of a chart, and the number of pods that it requests.
#[test]
fn an_autoscaler_of_the_chart_scales_the_workload() {
    let with = |api_version: &str, kind: &str, spec: Value| {
        let autoscaler = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec,
        });
        let found = check(vec![deployment("shop-1"), production("lb"), autoscaler]).unwrap();
        let workload = &found.workloads[0];
        (workload.scaling, workload.replicas)
    };
    let target = |name: &str| json!({"kind": "Deployment", "name": name});
    let hpa = ("autoscaling/v2", "HorizontalPodAutoscaler");
    let keda = ("keda.sh/v1alpha1", "ScaledObject");
    for ((api_version, kind), spec, expected) in [
        (
            hpa,
            json!({"scaleTargetRef": target("shop-1")}),
            (Scaling::Autoscaler, 3),
        ),
        (
            hpa,
            json!({"scaleTargetRef": target("shop-1"), "minReplicas": 7}),
            (Scaling::Autoscaler, 7),
        ),
        (
            hpa,
            json!({"scaleTargetRef": target("other")}),
            (Scaling::Steps, 3),
        ),
        (hpa, json!({}), (Scaling::Steps, 3)),
        (
            keda,
            json!({"scaleTargetRef": {"name": "shop-1"}, "minReplicaCount": 0}),
            (Scaling::Autoscaler, 3),
        ),
        (
            ("example.com/v1", "HorizontalPodAutoscaler"),
            json!({"scaleTargetRef": target("shop-1")}),
            (Scaling::Steps, 3),
        ),
    ] {
        assert_eq!(
            with(api_version, kind, spec.clone()),
            expected,
            "{kind} {spec}"
        );
    }
}

/// A value in a document; each choice selects a branch on the way to it.
fn branch<'a>(value: &'a mut Value, choices: &[usize]) -> &'a mut Value {
    let Some((choice, rest)) = choices.split_first() else {
        return value;
    };
    let count = match &*value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if count == 0 {
        return value;
    }
    let below = match value {
        Value::Object(map) => map.values_mut().nth(choice % count),
        value => value
            .as_array_mut()
            .and_then(|list| list.get_mut(choice % count)),
    };
    branch(below.unwrap(), rest)
}

proptest! {
    /// A chart with random changes is refused, or all objects have our labels and the workload has
    /// no pods.
    #[test]
    fn malformed_charts_are_refused_or_labelled_completely(
        choices in prop::collection::vec(0_usize..8, 0..7),
        odd in prop::sample::select(vec![
            json!(null), json!(0), json!(-1), json!(""), json!("production"), json!([]), json!([1]), json!({}),
            json!({"a": 1}), json!({"release": "shop-1"}), json!(1e300),
        ]),
        workaround in prop::option::of("true|false|odd"),
    ) {
        let mut documents = json!([deployment("shop-1"), production("lb"), {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        }]);
        *branch(&mut documents, &choices) = odd;
        let documents = documents.as_array().cloned().unwrap_or_default();
        let count = documents.len();
        let more: Vec<_> = workaround.iter().map(|value| ("enable-helm-release-workaround", value.as_str())).collect();
        let Ok(content) = check_with(documents, &more, &Scalable::new()) else {
            return Ok(());
        };
        prop_assert_eq!(content.manifests.len(), count);
        for manifest in &content.manifests {
            let labels = &manifest.object["metadata"]["labels"];
            prop_assert_eq!(&labels["shipper-owned-by"], "shop-1");
            if manifest.create_only == [".spec.replicas"] {
                prop_assert_eq!(&manifest.object["spec"]["replicas"], 0);
                let selector = &manifest.object["spec"]["selector"]["matchLabels"];
                let template = &manifest.object["spec"]["template"]["metadata"]["labels"];
                prop_assert_eq!(&selector["shipper-release"], "shop-1");
                prop_assert_eq!(&template["shipper-release"], "shop-1");
            }
        }
        let balancers = content.manifests.iter().filter(|manifest| manifest.create_only == [".spec.selector"]);
        prop_assert_eq!(balancers.count(), 1);
    }
}
