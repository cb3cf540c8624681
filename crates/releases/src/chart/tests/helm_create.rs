//! Charts of `helm create`, and names that change with the Release.

use super::*;

/// The objects of `helm create web`, with an Ingress, an autoscaler and an `HTTPRoute`.
fn stock(release: &str) -> Vec<Value> {
    let labels = json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": release});
    let name = format!("{release}-web");
    let mut workload = deployment(&name);
    workload["spec"]["selector"]["matchLabels"] = labels.clone();
    workload["spec"]["template"]["metadata"]["labels"] = labels.clone();
    workload["spec"]["template"]["spec"]["serviceAccountName"] = json!(name);
    workload["spec"].as_object_mut().unwrap().remove("replicas");
    let object = |api_version: &str, kind: &str, spec: Value| {
        json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec,
        })
    };
    let backend = json!({"service": {"name": name, "port": {"number": 80}}});
    let test = json!({"helm.sh/hook": "test"});
    let mut hook = object(
        "v1",
        "Pod",
        json!({"containers": [{"args": [format!("{name}:80")]}]}),
    );
    hook["metadata"] = json!({"name": format!("{name}-test-connection"), "annotations": test});
    vec![
        workload,
        service(&name, &labels, &labels),
        object("v1", "ServiceAccount", Value::Null),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            json!({"rules": [{"http": {"paths": [{"backend": backend}]}}]}),
        ),
        object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            json!({"rules": [{"backendRefs": [{"name": name}]}]}),
        ),
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "minReplicas": 2,
            }),
        ),
        hook,
    ]
}

/// All Releases share the Service and the objects that send traffic to it. The test is left out, and
/// the autoscaler scales the workload.
#[test]
fn the_chart_of_helm_create_works_unchanged() {
    let content = check(stock("shop-1")).unwrap();
    let names: Vec<_> = content
        .manifests
        .iter()
        .map(|manifest| {
            let object = &manifest.object;
            format!(
                "{} {}",
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            "ServiceAccount shop-1-web",
            "Service shop-web",
            "Deployment shop-1-web",
            "Ingress shop-web",
            "HTTPRoute shop-web",
            "HorizontalPodAutoscaler shop-1-web",
        ]
    );
    let at = |index: usize, path: &str| content.manifests[index].object.pointer(path).unwrap();
    assert_eq!(
        at(1, "/spec/selector"),
        &json!({"app.kubernetes.io/name": "web", "shipper-app": "shop", "shipper-traffic-status": "enabled"})
    );
    assert_eq!(
        at(2, "/spec/template/spec/serviceAccountName"),
        "shop-1-web"
    );
    assert_eq!(
        at(2, "/metadata/annotations"),
        &json!({"baton.run/scaling": "autoscaler"})
    );
    assert_eq!(
        at(3, "/spec/rules/0/http/paths/0/backend/service/name"),
        "shop-web"
    );
    assert_eq!(at(4, "/spec/rules/0/backendRefs/0/name"), "shop-web");
    assert_eq!(content.workloads[0].replicas, 2);
}

#[test]
fn references_to_the_service_are_followed() {
    for (path, expected) in [
        ("/spec/to", json!({"kind": "Service", "name": "shop-lb"})),
        ("/spec/backend", json!({"serviceName": "shop-lb"})),
        ("/spec/routes", json!([{"services": [{"name": "shop-lb"}]}])),
    ] {
        let mut route = json!({
            "apiVersion": "example.com/v1", "kind": "Route", "metadata": {"name": "shop-1-route"}, "spec": {},
        });
        let text = expected.to_string().replace("shop-lb", "shop-1-lb");
        route["spec"][path.trim_start_matches("/spec/")] = serde_json::from_str(&text).unwrap();
        let content = check(vec![deployment("shop-1"), production("shop-1-lb"), route]).unwrap();
        let found = &content.manifests[2].object;
        assert_eq!(found["metadata"]["name"], "shop-route");
        assert_eq!(found.pointer(path), Some(&expected));
    }
}

/// Other names and selectors stay: those of Releases that no Application has created, and those
/// without the name of the Release.
#[test]
fn names_without_the_release_stay() {
    let documents = vec![deployment("shop-1"), production("shop-prod")];
    let content = check(documents).unwrap();
    assert_eq!(content.manifests[0].object["metadata"]["name"], "shop-prod");
    let other = labels(&[("shipper-app", "other")]);
    let installation = Installation {
        name: "shop-1",
        labels: &other,
        chart: &chart(),
        scalable: &Scalable::new(),
    };
    let content = super::content(stock("shop-1"), installation).unwrap();
    assert_eq!(
        content.manifests[1].object["metadata"]["name"],
        "shop-1-web"
    );
}

#[test]
fn a_service_that_depends_on_the_hash_of_the_release_is_refused() {
    let plain = json!({"app": "nginx"});
    for (name, selector, expected) in [
        (
            "web-abc",
            plain,
            "Service \"web-abc\": metadata.name \"web-abc\"",
        ),
        (
            "web",
            json!({"app": "abc"}),
            "Service \"web\": spec.selector[app] \"abc\"",
        ),
    ] {
        let documents = vec![deployment("shop-1"), service(name, &Value::Null, &selector)];
        refused(
            documents,
            &format!(
                "{expected} changes with each Release. Remove the hash of the Release from it: the name of the Release \
                 may be used in full, or not at all."
            ),
        );
    }
}
