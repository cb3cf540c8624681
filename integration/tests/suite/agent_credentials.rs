//! The rights of somebody who has stolen an agent's credentials.

use std::pin::pin;

use baton_integration::prelude::*;
use futures::StreamExt as _;
use http::{Method, Request};
use kube::Client;
use kube::api::WatchEvent;

use crate::cluster_commands::{baton, messages};
use crate::cluster_commands_pull::{
    GROUP, client, document, documents, home, mounted, phase, watched,
};

/// The agent's rights in the namespace of its cluster, as the server reports them.
const RIGHTS: [&str; 5] = [
    "get objectsetphases",
    "list objectsetphases",
    "patch objectsetphases/status",
    "update objectsetphases/status",
    "watch objectsetphases",
];

/// A client with the agent's credentials.
struct Thief(Client);

impl Thief {
    async fn new(secret: &Value) -> Self {
        let dir = mounted(secret);
        Self(client(&dir.path().join("kubeconfig")).await)
    }

    /// Sends a request. Returns the status code, and the body if the request was granted.
    async fn sends(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.sends_with(method, path, body, &[]).await
    }

    async fn sends_with(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let method: Method = method.parse().unwrap();
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body).unwrap(),
        };
        match self.0.request(request.body(body).unwrap()).await {
            Err(kube::Error::Api(status)) => (status.code, Value::Null),
            answer => (200, answer.unwrap()),
        }
    }

    /// Returns the agent's rights in a namespace, without those of every authenticated user: `get
    /// secrets`.
    async fn rights(&self, namespace: &str) -> Vec<String> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": { "namespace": namespace },
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let (code, review) = self.sends("POST", path, &review).await;
        assert_eq!(
            (code, &review["status"]["incomplete"]),
            (200, &json!(false))
        );
        let texts = |rule: &Value, key: &str| {
            let texts = rule[key].as_array().cloned().unwrap_or_default();
            texts
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let mut rights = Vec::new();
        for rule in review["status"]["resourceRules"].as_array().unwrap() {
            // Self-reviews, which every user may request.
            if rule["apiGroups"] == json!(["authorization.k8s.io"])
                || rule["apiGroups"] == json!(["authentication.k8s.io"])
            {
                continue;
            }
            assert_eq!(rule["apiGroups"], json!(["package-operator.run"]), "{rule}");
            for resource in texts(rule, "resources") {
                rights.extend(
                    texts(rule, "verbs")
                        .iter()
                        .map(|verb| format!("{verb} {resource}")),
                );
            }
        }
        rights.sort();
        rights
    }
}

/// With two sites, the credentials of the first agent allow reads of the first site's phases and
/// writes of their status, and nothing else on the hub.
#[tokio::test]
async fn credentials_of_an_agent_give_access_to_its_own_phases_only() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let hub = ns.cluster();
    let [own, other] = ["own", "other"].map(|name| ns.unique(name));
    let mut secrets = Vec::new();
    for name in [&own, &other] {
        let printed = baton(&ns, None, &["join", name, "--pull"]);
        assert_eq!(printed.code, 0, "{printed:?}");
        secrets.push(document(&documents(&printed.stdout), "Secret").clone());
        hub.create(&phase(&home(name), "web").manifest)
            .await
            .unwrap();
    }
    let thief = Thief::new(&secrets[0]).await;
    let (here, there) = (home(&own), home(&other));
    let phases = |namespace: &str| format!("/apis/{GROUP}/namespaces/{namespace}/objectsetphases");
    let (mine, theirs) = (phases(&here), phases(&there));

    // The rights that the agent needs. They take effect with a delay.
    ns.eventually("the agent to have its rights", async || {
        thief.sends("GET", &mine, &Value::Null).await.0 == 200
    })
    .await;
    let (_, found) = thief
        .sends("GET", &format!("{mine}/web"), &Value::Null)
        .await;
    assert_eq!(found["metadata"]["name"], "web");
    let mut events = pin!(watched(thief.0.clone(), &found, 60).await);
    let touched = json!({ "metadata": { "annotations": { "touched": "yes" } } });
    hub.merge(&found, &touched).await.unwrap();
    assert!(matches!(events.next().await, Some(WatchEvent::Modified(_))));
    assert_eq!(thief.rights(&here).await, RIGHTS);
    for namespace in [there.as_str(), ns.name(), "kube-system", "baton-system"] {
        assert_eq!(thief.rights(namespace).await, [""; 0], "{namespace}");
    }

    writes_nothing_but_the_status(hub, &thief, &here, &mine).await;

    for request in forbidden(&own, &other, ns.name()).lines() {
        let (method, path) = request.trim().split_once(' ').unwrap();
        // The server checks the rights before the body.
        let body = match method {
            "GET" | "DELETE" => Value::Null,
            _ => json!({}),
        };
        let (code, answer) = thief.sends(method, path, &body).await;
        assert_eq!(code, 403, "{request}: {answer}");
    }
    let manager = "system:serviceaccount:baton-system:baton";
    let disguise = [("Impersonate-User", manager)];
    let (code, _) = thief
        .sends_with("GET", &theirs, &Value::Null, &disguise)
        .await;
    assert_eq!(code, 403);

    for name in [&own, &other] {
        messages(baton(&ns, None, &["remove", name]));
    }
}

/// Returns requests that the server must refuse to the agent of the cluster `own`:
///
/// - requests about phases of other clusters, and about its own phases except for their status,
/// - about the objects that phases are made from, and about Clusters,
/// - about credentials, including its own,
/// - about rights,
/// - about all other objects in its own namespace.
fn forbidden(own: &str, other: &str, ns: &str) -> String {
    let (here, there) = (home(own), home(other));
    let (rbac, clusters) = (
        "apis/rbac.authorization.k8s.io/v1",
        "apis/shipper.booking.com/v1alpha1/clusters",
    );
    let text = format!(
        "GET /apis/{GROUP}/namespaces/{there}/objectsetphases
        GET /apis/{GROUP}/namespaces/{there}/objectsetphases/web
        GET /apis/{GROUP}/namespaces/{there}/objectsetphases?watch=1
        PATCH /apis/{GROUP}/namespaces/{there}/objectsetphases/web/status
        PUT /apis/{GROUP}/namespaces/{there}/objectsetphases/web/status
        GET /apis/{GROUP}/objectsetphases
        GET /apis/{GROUP}/objectsetphases?watch=1
        GET /apis/{GROUP}/namespaces/{ns}/objectsetphases
        GET /apis/{GROUP}/clusterobjectsetphases

        POST /apis/{GROUP}/namespaces/{here}/objectsetphases
        PATCH /apis/{GROUP}/namespaces/{here}/objectsetphases/web
        PUT /apis/{GROUP}/namespaces/{here}/objectsetphases/web
        DELETE /apis/{GROUP}/namespaces/{here}/objectsetphases/web
        DELETE /apis/{GROUP}/namespaces/{here}/objectsetphases
        GET /apis/{GROUP}/namespaces/{here}/objectsetphases/web/status

        GET /apis/{GROUP}/namespaces/{here}/objectsets
        GET /apis/{GROUP}/namespaces/{ns}/objectsets
        GET /apis/{GROUP}/objectsets
        GET /apis/{GROUP}/clusterobjectsets
        GET /apis/{GROUP}/objectslices
        GET /apis/{GROUP}/objectdeployments
        GET /{clusters}
        GET /{clusters}/{own}
        PATCH /{clusters}/{own}

        GET /api/v1/namespaces/{here}/secrets
        GET /api/v1/namespaces/{here}/secrets/agent-token
        GET /api/v1/namespaces/{ns}/secrets
        GET /api/v1/namespaces/baton-system/secrets
        GET /api/v1/secrets?watch=1
        POST /api/v1/namespaces/{here}/secrets
        POST /api/v1/namespaces/{here}/serviceaccounts/agent/token
        POST /api/v1/namespaces/{here}/serviceaccounts/default/token
        POST /api/v1/namespaces/baton-system/serviceaccounts/baton/token

        GET /{rbac}/namespaces/{here}/roles/agent
        PATCH /{rbac}/namespaces/{here}/roles/agent
        POST /{rbac}/namespaces/{here}/roles
        POST /{rbac}/namespaces/{here}/rolebindings
        POST /{rbac}/clusterrolebindings

        GET /api/v1/namespaces
        GET /api/v1/namespaces/{here}
        PATCH /api/v1/namespaces/{here}
        GET /api/v1/namespaces/{here}/configmaps
        POST /api/v1/namespaces/{here}/pods
        POST /api/v1/namespaces/{here}/events
        POST /apis/events.k8s.io/v1/namespaces/{here}/events
        POST /apis/coordination.k8s.io/v1/namespaces/{here}/leases"
    );
    text.replace("\n\n", "\n")
}

/// A write to the status of a phase changes only the status, for any body.
async fn writes_nothing_but_the_status(hub: &Cluster, thief: &Thief, here: &str, mine: &str) {
    let web = phase(here, "web").manifest;
    let before = hub.get(&web).await.unwrap();
    let condition = |kind: &str| {
        json!({ "conditions": [{
            "type": kind, "status": "True", "reason": "Stolen", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] })
    };
    let evil = json!({
        "metadata": {
            "labels": { "evil": "yes" }, "annotations": { "baton.run/origin": "evil" },
            "finalizers": ["evil.example/finalizer"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "evil", "uid": "1" }],
        },
        "spec": { "revision": 7, "paused": true, "objects": [
            { "object": configmap("evil").manifest },
        ] },
        "status": condition("Patched"),
    });
    let status = format!("{mine}/web/status");
    let (code, _) = thief.sends("PATCH", &status, &evil).await;
    assert_eq!(code, 200);
    assert_only_the_status_differs(hub, &before, "Patched").await;
    let mut whole = hub.get(&web).await.unwrap();
    for part in ["labels", "annotations", "finalizers", "ownerReferences"] {
        whole["metadata"][part] = evil["metadata"][part].clone();
    }
    whole["spec"] = evil["spec"].clone();
    whole["status"] = condition("Put");
    let (code, _) = thief.sends("PUT", &status, &whole).await;
    assert_eq!(code, 200);
    assert_only_the_status_differs(hub, &before, "Put").await;
}

async fn assert_only_the_status_differs(hub: &Cluster, before: &Value, condition: &str) {
    let mut after = hub.get(before).await.unwrap();
    assert_eq!(after["status"]["conditions"][0]["type"], condition);
    let mut before = before.clone();
    for object in [&mut before, &mut after] {
        object["status"] = Value::Null;
        // Both fields change with every write.
        for part in ["managedFields", "resourceVersion"] {
            object["metadata"][part] = Value::Null;
        }
    }
    assert_eq!(before, after);
}
