//! One secret takes each way by which errors of other programs reach people. No condition, event,
//! log or metric contains it: plain, with escapes, in base64, or in another case.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use baton_integration::application::{ALL_IN, TestApplication, condition, name};
use baton_integration::endpoint::Endpoint;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};
use baton_integration::webhook::Webhook;

use crate::agent::Pulled;
use crate::releases_faults::repository::{add, start};

alternating_scopes! {
    errors_of_the_server_and_of_probes_contain_no_values;
}

/// No label, no number, no regular expression, no base64, no YAML, and with characters to escape.
const SECRET: &str = "Xyzzy4711 \"<[{: odd";
/// A number.
const PIN: i64 = 2_718_281_828;
/// The part of the secret that is searched for, in lower case.
const CORE: &str = "xyzzy4711";

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// The parts of a text that contain the secret.
fn leaks(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let pin = PIN.to_string();
    let reversed: String = CORE.chars().rev().collect();
    // The last characters in base64 depend on the text behind.
    let forms = [
        SECRET.to_owned(),
        SECRET.to_uppercase(),
        encoded(SECRET),
        CORE.to_owned(),
    ];
    let forms = forms.map(|form| encoded(&form)[..12].to_lowercase());
    let forms = forms.iter().map(String::as_str);
    let forms = forms.chain([CORE, &*pin, &*reversed]);
    let found = forms.filter_map(|form| {
        let at = lower.find(form)?;
        let start = lower.floor_char_boundary(at.saturating_sub(200));
        Some(lower[start..lower.ceil_char_boundary((at + 40).min(lower.len()))].to_owned())
    });
    found.collect()
}

/// The texts of a namespace that people may read who may not read its objects: statuses and events.
async fn texts(ns: &TestNamespace, namespace: &str) -> Vec<(String, String)> {
    const PKO: &str = "package-operator.run/v1alpha1";
    const SHIPPER: &str = "shipper.booking.com/v1alpha1";
    let mut texts = Vec::new();
    for (api_version, kind) in [
        (PKO, "ObjectDeployment"),
        (PKO, "ObjectSet"),
        (PKO, "ObjectSetPhase"),
        (PKO, "ClusterObjectDeployment"),
        (PKO, "ClusterObjectSet"),
        (PKO, "ClusterObjectSetPhase"),
        (SHIPPER, "Application"),
        (SHIPPER, "Release"),
        (SHIPPER, "InstallationTarget"),
        (SHIPPER, "CapacityTarget"),
        (SHIPPER, "TrafficTarget"),
        (SHIPPER, "Cluster"),
    ] {
        let like = object(api_version, kind, "").within(namespace).manifest;
        for found in ns.cluster().list(&like, "").await {
            let mut status = found["status"].clone();
            // Objects of the owner, with their whole content.
            status["templateHash"] = Value::Null;
            texts.push((format!("{kind} {}", name(&found)), status.to_string()));
        }
    }
    let events = object("v1", "Event", "").within(namespace).manifest;
    for event in ns.cluster().list(&events, "").await {
        texts.push(("event".to_owned(), event.to_string()));
    }
    texts
}

/// Fails if a text that others may read contains the secret.
async fn is_hidden(ns: &TestNamespace, namespaces: &[&str], more: &[(&str, String)]) {
    let mut all = Vec::new();
    for namespace in namespaces {
        all.extend(texts(ns, namespace).await);
    }
    let log = std::fs::read_to_string(ns.log().path()).unwrap();
    assert!(
        log.contains(ns.name()),
        "the log is not that of the manager"
    );
    all.push(("log".to_owned(), log));
    all.push(("metrics".to_owned(), ns.scrape("text/plain")));
    all.extend(
        more.iter()
            .map(|(from, text)| ((*from).to_owned(), text.clone())),
    );
    let found: Vec<_> = all
        .iter()
        .flat_map(|(from, text)| {
            leaks(text)
                .into_iter()
                .map(move |leak| format!("{from}: {leak}"))
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// A revision of one object, an optional CEL rule for it, and a part of the message.
#[derive(Clone)]
struct Way {
    name: &'static str,
    entry: Entry,
    rule: &'static str,
    text: &'static str,
}

fn way(name: &'static str, entry: Entry, rule: &'static str, text: &'static str) -> Way {
    Way {
        name,
        entry,
        rule,
        text,
    }
}

/// The ways through manifests of built-in kinds.
fn manifests() -> Vec<Way> {
    let config = |name: &str| configmap(name).data("password", SECRET);
    let text = |name: &str| secret(name).with("/stringData/password", SECRET);
    let named = |port: Value| json!({ "ports": [port] });
    vec![
        // Errors of the server about the content.
        way(
            "bad",
            secret("bad").data("password", SECRET),
            "",
            "illegal base64",
        ),
        way(
            "pin",
            secret("pin").with("/stringData/pin", PIN),
            "",
            ".stringData.pin",
        ),
        way(
            "flag",
            config("flag").with("/immutable", SECRET),
            "",
            "immutable",
        ),
        way(
            "port",
            object("v1", "Service", "port")
                .with("/spec", named(json!({ "port": 1, "name": SECRET }))),
            "",
            "spec.ports[0].name: Invalid value: a string of",
        ),
        way(
            "wrong",
            object("v1", "Service", "wrong").with("/spec", named(json!({ "port": SECRET }))),
            "",
            "/wrong: ",
        ),
        way(
            "label",
            config("label").label("password", SECRET),
            "",
            "metadata.labels: ",
        ),
        way(
            "type",
            text("type").with("/type", json!([SECRET])),
            "",
            ".type",
        ),
        // Errors of Baton about the manifest.
        way(
            "nameless",
            text("nameless").with("/metadata", json!({})),
            "",
            "must have a",
        ),
        way(
            "listed",
            text("listed").with("/metadata/labels", json!([SECRET])),
            "",
            "metadata.labels",
        ),
    ]
}

/// The ways through probes.
fn probes() -> Vec<Way> {
    let config = |name: &str| configmap(name).data("password", SECRET);
    let hidden = |name: &str| secret(name).data("password", &encoded(SECRET));
    vec![
        way(
            "key",
            hidden("key"),
            "self.data[self.data.password] == ''",
            "no such key",
        ),
        way(
            "int",
            hidden("int"),
            "int(self.data.password) == 1",
            "type conversion error",
        ),
        way(
            "time",
            config("time"),
            "timestamp(self.data.password) == timestamp(0)",
            "type conversion error",
        ),
        way(
            "length",
            config("length"),
            "duration(self.data.password) == duration('1s')",
            "type conversion error",
        ),
        way(
            "zone",
            config("zone"),
            "timestamp('2024-01-02T03:04:05Z').getHours(self.data.password) == 1",
            "time zone",
        ),
        way(
            "pattern",
            config("pattern"),
            "'a'.matches(self.data.password)",
            "regular expression",
        ),
        way(
            "address",
            config("address"),
            "url(self.data.password).getPort() == '1'",
            "URL parse error",
        ),
        way(
            "part",
            config("part"),
            "self.data.password.substring(99) == ''",
            "index out of range",
        ),
    ]
}

impl Way {
    async fn goes(&self, ns: &TestNamespace, class: &str) {
        let kind = self.entry.manifest["kind"].as_str().unwrap_or("ConfigMap");
        let mut set = ns.set(self.name).phase_of(class, "a", [self.entry.clone()]);
        if !self.rule.is_empty() {
            set = set.probe(cel_probe("", kind, self.rule, "no"));
        }
        let found = set
            .reaching(&[Is("Available", "False"), Says("Available", self.text)])
            .await;
        println!("{}: {}", self.name, found.message("Available"));
    }
}

/// A kind whose rules quote their values.
async fn vault(ns: &TestNamespace) -> Entry {
    let group = format!("{}.example.com", ns.name());
    let names = json!({ "plural": "vaults", "singular": "vault", "kind": "Vault", "listKind": "VaultList" });
    let text = json!({ "type": "string" });
    let with = |key: &str, value: Value| {
        let mut text = text.clone();
        text[key] = value;
        text
    };
    let quote = json!([{ "rule": "self.size() < 3", "messageExpression": "'bad: ' + self + self.upperAscii()" }]);
    let spec = json!({ "type": "object", "properties": {
        "pattern": with("pattern", json!("^[a-z]+$")), "choice": with("enum", json!(["a", "b"])),
        "long": with("maxLength", json!(3)), "date": with("format", json!("date-time")),
        "rule": with("x-kubernetes-validations", quote), "number": { "type": "integer", "maximum": 3 },
    } });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let api = "apiextensions.k8s.io/v1";
    let definition = object(api, "CustomResourceDefinition", &format!("vaults.{group}")).with(
        "/spec",
        json!({ "group": group, "scope": "Namespaced", "names": names, "versions": [version] }),
    );
    ns.create_elsewhere(&definition).await;
    ns.object_becomes(&definition, "established", |live| {
        condition(live, "Established") == "True"
    })
    .await;
    object(&format!("{group}/v1"), "Vault", "vault")
}

/// Refuses objects of the namespace that have a password, and quotes it.
async fn quote_passwords(ns: &TestNamespace) {
    let unique = ns.unique("quote");
    let api = "admissionregistration.k8s.io/v1";
    let password = "(object.kind == 'ObjectSet' ? object.spec.phases[0].objects[0].object.data.password \
                    : object.data.password)";
    let policy = object(api, "ValidatingAdmissionPolicy", &unique).with("/spec", json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [
            { "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"], "operations": ["*"] },
            { "apiGroups": ["package-operator.run"], "apiVersions": ["*"], "resources": ["objectsets"],
              "operations": ["CREATE"] },
        ] },
        "matchConditions": [{ "name": "policied", "expression": "object.metadata.name.startsWith('policied')" }],
        "validations": [{
            "expression": "false",
            "messageExpression": format!(
                "'password is ' + {password} + ' or ' + {password}.upperAscii() + ', on a Friday'"
            ),
        }],
    }));
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name() } });
    let binding = object(api, "ValidatingAdmissionPolicyBinding", &unique).with("/spec", json!({
        "policyName": unique, "validationActions": ["Deny"], "matchResources": { "namespaceSelector": selector },
    }));
    ns.create_elsewhere(&policy).await;
    ns.create_elsewhere(&binding).await;
    let round = std::cell::Cell::new(0);
    ns.eventually("the policy to be in force", async || {
        round.set(round.get() + 1);
        let canary = configmap(&format!("policied-canary-{}", round.get())).data("password", "x");
        ns.cluster().create(&ns.reference(&canary)).await.is_err()
    })
    .await;
}

/// The message of an admission webhook that quotes the object, and each value in several forms.
fn quote(object: &Value) -> String {
    let password = object["data"]["password"].as_str().unwrap_or_default();
    let reversed: String = password.chars().rev().collect();
    // Only a Secret hides a text that no form of the value is.
    let reversed = if object["kind"] == "Secret" {
        &*reversed
    } else {
        ""
    };
    format!(
        "no weak passwords on a Friday: {object}, {password}, {}, {}, {reversed}",
        password.to_uppercase(),
        encoded(password)
    )
}

/// Refuses objects of the namespace by a webhook that quotes them.
async fn refuse_by_webhook(ns: &TestNamespace) -> Webhook {
    let webhook = Webhook::start(&Endpoint::of_bed(ns.cluster().kubeconfig()), quote).await;
    let configuration = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        &ns.unique("webhook"),
    );
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name() } });
    let configuration = configuration.with("/webhooks", json!([{
        "name": "quote.example.com", "clientConfig": webhook.client_config(),
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "namespaceSelector": selector,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"],
            "operations": ["CREATE", "UPDATE"],
        }],
        "matchConditions": [{ "name": "hooked", "expression": "object.metadata.name.startsWith('hooked')" }],
    }]));
    ns.create_elsewhere(&configuration).await;
    let round = std::cell::Cell::new(0);
    ns.eventually("the webhook to be in force", async || {
        round.set(round.get() + 1);
        let canary = configmap(&format!("hooked-canary-{}", round.get())).data("password", "x");
        ns.cluster().create(&ns.reference(&canary)).await.is_err()
    })
    .await;
    webhook
}

/// A real webhook over HTTPS quotes the whole object. Its constant text is shown, unless the object
/// is a Secret.
#[tokio::test]
async fn errors_of_webhooks_contain_no_values() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let _webhook = refuse_by_webhook(&ns).await;
    let hooked = |kind: &str, password: &str| {
        object("v1", kind, &format!("hooked-{}", kind.to_lowercase())).data("password", password)
    };
    let config = hooked("ConfigMap", SECRET);
    let text =
        "admission webhook \"quote.example.com\" denied the request: no weak passwords on a Friday";
    way("config", config, "", text).goes(&ns, "").await;
    let hidden = hooked("Secret", &encoded(SECRET));
    let text = "not shown because it may contain values of a Secret";
    way("secret", hidden, "", text).goes(&ns, "").await;
    let shown = ns.cluster().get(&ns.set_ref("secret")).await.unwrap()["status"].to_string();
    assert!(shown.contains("quote.example.com"), "{shown}");
    assert!(!shown.contains("Friday"), "{shown}");
    is_hidden(&ns, &[ns.name()], &[]).await;
}

async fn errors_of_the_server_and_of_probes_contain_no_values(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    for way in [manifests(), probes()].concat() {
        way.goes(&ns, "").await;
    }
    let vault = vault(&ns).await;
    for (name, field, value, text) in [
        (
            "vault-pattern",
            "pattern",
            json!(SECRET),
            "should match '^[a-z]+$'",
        ),
        (
            "vault-choice",
            "choice",
            json!(SECRET),
            "supported values: \"a\", \"b\"",
        ),
        ("vault-long", "long", json!(SECRET), "spec.long"),
        ("vault-date", "date", json!(SECRET), "spec.date"),
        (
            "vault-rule",
            "rule",
            json!(SECRET),
            "spec.rule: Invalid value: ",
        ),
        (
            "vault-number",
            "number",
            json!(PIN),
            "spec.number: Invalid value: ",
        ),
    ] {
        let entry = vault.clone().with(&format!("/spec/{field}"), value);
        way(name, entry, "", text).goes(&ns, "").await;
    }
    quote_passwords(&ns).await;
    let policied = |kind: &str, password: &str| {
        object("v1", kind, &format!("policied-{}", kind.to_lowercase())).data("password", password)
    };
    way("config", policied("ConfigMap", SECRET), "", ", on a Friday")
        .goes(&ns, "")
        .await;
    way(
        "secret",
        policied("Secret", &encoded(SECRET)),
        "",
        "not shown because",
    )
    .goes(&ns, "")
    .await;
    if scope == Scope::Namespaced {
        let deployment = ns.deployment("policied");
        let template = ns.content().phase("a", [policied("ConfigMap", SECRET)]);
        let manifest = deployment.content(template).manifest();
        ns.cluster().create(&manifest).await.unwrap();
        let reference = object(
            "package-operator.run/v1alpha1",
            "ObjectDeployment",
            name(&manifest),
        );
        ns.object_becomes(&reference, "refused", |live| {
            condition(live, "Progressing") == "False" || condition(live, "Available") == "False"
        })
        .await;
        println!("{}", ns.live(&reference).await["status"]);
    }
    let namespaces = [ns.name(), "default"];
    is_hidden(
        &ns,
        if scope == Scope::Cluster {
            &namespaces
        } else {
            &namespaces[..1]
        },
        &[],
    )
    .await;
}

#[tokio::test]
async fn errors_of_other_clusters_contain_no_values() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    for way in [manifests(), probes()].concat() {
        way.goes(&ns, &joined.class()).await;
    }
    is_hidden(&ns, &[ns.name()], &[]).await;
}

#[tokio::test]
async fn reports_of_agents_contain_no_values() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    let ns = &pulled.ns;
    for way in [manifests(), probes()].concat() {
        way.goes(ns, &pulled.class()).await;
    }
    let log = std::fs::read_to_string(pulled.agent.log().path()).unwrap();
    let mirrored = pulled.joined.mirrored().await;
    let statuses: Vec<_> = mirrored
        .iter()
        .map(|mirror| mirror["status"].to_string())
        .collect();
    assert!(!statuses.is_empty());
    let more = [("log of the agent", log), ("mirrors", statuses.concat())];
    is_hidden(ns, &[ns.name()], &more).await;
}

/// A chart that is refused: its version, an additional template, and a part of the message.
const TEMPLATES: [(&str, &str, &str); 14] = [
    (
        "0.2.0",
        "{{ fail .Values.password }}",
        "templates/other.yaml:1:",
    ),
    (
        "0.2.1",
        "{{ fail (printf \"password %q is too short\" .Values.password) }}",
        "is too short",
    ),
    (
        "0.2.2",
        "{{ required (upper .Values.password) .Values.nope }}",
        "templates/other.yaml:1:",
    ),
    (
        "0.2.3",
        "{{ .Values.password | b64enc | fail }}",
        "templates/other.yaml:1:",
    ),
    (
        "0.2.4",
        "{{ mustFromJson .Values.password | toYaml }}",
        "error calling mustFromJson",
    ),
    (
        "0.2.5",
        "{{ range .Values.password }}{{ end }}",
        "range can't iterate over",
    ),
    ("0.2.6", "{{ tpl .Values.source . }}", "error calling tpl"),
    (
        "0.2.7",
        "a: [{{ .Values.password }}",
        "templates/other.yaml",
    ),
    (
        "0.2.8",
        "password: {{ .Values.password | quote }}",
        "apiVersion is missing",
    ),
    (
        "0.2.9",
        "{apiVersion: v1, kind: Secret, stringData: {password: {{ .Values.password | quote }}}}",
        "metadata.name",
    ),
    (
        "0.2.10",
        "{{ required \"a password is needed\" .Values.nope }}",
        "a password is needed",
    ),
    ("0.2.11", "{{ include .Values.password . }}", "no template"),
    (
        "0.2.12",
        "{{ fail (cat \"see\" (toJson .Values) (.Values.password | reverse | join \"\")) }}",
        "templates/other.yaml:1:",
    ),
    (
        "0.2.13",
        "{{ mustToDate \"2006\" .Values.password }}",
        "error calling mustToDate",
    ),
];

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "password": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, "pin": {"maximum": 3},
    "source": {"format": "date-time", "enum": ["a"]}}}"#;

#[tokio::test]
async fn errors_of_charts_and_repositories_contain_no_values() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    let charts = start().await;
    let home = app.clusters[0].joined.secret_reference();
    let home = home["metadata"]["namespace"].as_str().unwrap();
    let secret_of_repository = secret(&ns.unique("repository"))
        .within(home)
        .label("baton.run/chart-repository", "")
        .with(
            "/stringData",
            json!({ "url": charts.url(), "token": format!("{SECRET}\nodd") }),
        );
    let mut ways = Vec::new();
    for (version, template, text) in TEMPLATES {
        add(&charts, version, &[("templates/other.yaml", template)]);
        ways.push((version, charts.url(), text));
    }
    add(&charts, "0.3.0", &[("values.schema.json", SCHEMA)]);
    ways.push(("0.3.0", charts.url(), "does not match pattern '^[a-z]+$'"));
    let with_password = charts.url().replace("://", &format!("://me:{CORE}@"));
    ways.push(("9.9.9", with_password, "…@127.0.0.1"));
    ways.push((
        "9.9.8",
        format!("ftp://me:{CORE}@127.0.0.1/charts"),
        "…@127.0.0.1",
    ));
    let apply = async |version: &str, url: &str| {
        let mut environment = app.environment(version, 1, ALL_IN);
        environment["chart"]["repoUrl"] = url.into();
        let source = format!("{{{{ {CORE} | {CORE} }}}}");
        let values = json!({ "password": SECRET, "pin": PIN, "source": source, "replicaCount": 1 });
        environment["values"] = values;
        let name = format!("web-{}", version.replace('.', "-"));
        let application = TestApplication::kind("Application", &name);
        ns.create(&application.with("/spec/template", environment))
            .await;
        name
    };
    for (version, url, text) in &ways {
        let app_name = apply(version, url).await;
        ns.eventually(&format!("{version} to be refused: {text}"), async || {
            let mut found = Vec::new();
            for (kind, labels) in [
                ("Application", String::new()),
                ("Release", format!("shipper-app={app_name}")),
            ] {
                let like = ns.reference(&TestApplication::kind(kind, "any"));
                found.extend(ns.cluster().list(&like, &labels).await);
            }
            found.retain(|object| name(object).starts_with(&app_name));
            let status: Vec<_> = found
                .iter()
                .map(|object| object["status"]["conditions"].to_string())
                .collect();
            status.concat().contains(
                &serde_json::to_string(text)
                    .unwrap()
                    .trim_matches('"')
                    .to_owned(),
            )
        })
        .await;
    }
    // The token cannot be part of a header.
    ns.create_elsewhere(&secret_of_repository).await;
    apply("0.0.1", &charts.url()).await;
    // An object that is refused when it is installed.
    add(
        &charts,
        "0.4.0",
        &[(
            "templates/other.yaml",
            "{apiVersion: v1, kind: Secret, metadata: {name: odd}, data: {password: {{ .Values.password | quote }}}}",
        )],
    );
    let installed = apply("0.4.0", &charts.url()).await;
    ns.eventually("the Secret to be refused", async || {
        let like = ns.reference(&TestApplication::kind("InstallationTarget", "any"));
        let found = ns
            .cluster()
            .list(&like, &format!("shipper-app={installed}"))
            .await;
        found
            .iter()
            .any(|target| target["status"].to_string().contains("illegal base64"))
    })
    .await;
    is_hidden(&ns, &[ns.name()], &[]).await;
}
