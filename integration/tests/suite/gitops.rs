//! The view that common tools have of Baton's objects: kstatus, which Flux and Helm wait with, and
//! Argo CD's health.

use std::io::Write as _;
use std::process::{Command, Stdio};

use baton_integration::application::reason;
use baton_integration::fleet::{APPLICATION, Fleet, version, version_with};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};

alternating_scopes! {
    kstatus_and_argo_cd_distinguish_finished_from_failed;
}

const UNDERWAY: (&str, &str) = ("InProgress", "Progressing");
const FINISHED: (&str, &str) = ("Current", "Healthy");
const FAILED: (&str, &str) = ("Failed", "Degraded");

/// Returns the health script that users give to Argo CD.
fn script() -> String {
    let settings = include_str!("../../../config/gitops/argocd-cm.yaml");
    let settings: Value = serde_saphyr::from_str(settings).unwrap();
    let customizations = &settings["data"]["resource.customizations"];
    let customizations: Value = serde_saphyr::from_str(customizations.as_str().unwrap()).unwrap();
    let [script, of_sites] = ["package-operator.run/*", "baton.run/*"]
        .map(|group| customizations[group]["health.lua"].as_str().unwrap());
    assert_eq!(script, of_sites);
    script.to_owned()
}

/// The same script judges the kinds of sites.
#[tokio::test]
async fn kstatus_and_argo_cd_recognise_a_failed_rollout_over_sites() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let judged = |object: &Value| {
        let words = judge(std::slice::from_ref(object)).remove(0);
        (words.0.clone(), words.1.clone())
    };
    let expected = |(kstatus, argocd): (&str, &str)| (kstatus.to_owned(), argocd.to_owned());
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    let strategy = json!({ "strategy": { "progressDeadline": "3s" } });
    fleet.deployment("web", strategy).await;
    let complete = fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(judged(&complete), expected(FINISHED));
    let application = ns.live(&Fleet::kind("SiteApplication", APPLICATION)).await;
    assert_eq!(judged(&application), expected(FINISHED));

    fleet.application(&version_with("1.1.0", "never")).await;
    let aborted = |live: &Value| reason(live, "Aborted")[0] == "SiteFailed";
    let aborted = fleet.becomes("web", "aborted", aborted).await;
    assert_eq!(judged(&aborted), expected(FAILED));
}

/// Returns the results of kstatus and of Argo CD for objects.
fn judge(objects: &[Value]) -> Vec<(String, String)> {
    let program = std::env::var_os("BATON_HEALTH_BIN").expect("`cargo dev test` names it");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(script().as_bytes()).unwrap();
    let mut child = Command::new(program)
        .arg(file.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = serde_json::to_vec(objects).unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let words = |it: &Value| {
        (
            text(&it["kstatus"]["status"]),
            text(&it["argocd"]["status"]),
        )
    };
    results.iter().map(words).collect()
}

fn assert_judged(reported: &Revision, expected: (&str, &str)) {
    let object = &reported.json;
    let judged = judge(std::slice::from_ref(object)).remove(0);
    assert_eq!((&*judged.0, &*judged.1), expected, "{object:#}");
}

/// Returns the state and the message that `kubectl get` prints for a deployment.
async fn printed_state(ns: &TestNamespace, reported: &Revision) -> [String; 2] {
    let table = ns.cluster().table(&reported.json).await;
    let columns = table["columnDefinitions"].as_array().unwrap();
    let cell = |name: &str| {
        let index = columns.iter().position(|column| column["name"] == name);
        let cell = &table["rows"][0]["cells"][index.unwrap()];
        cell.as_str().unwrap_or_default().to_owned()
    };
    ["Status", "Message"].map(cell)
}

async fn kstatus_and_argo_cd_distinguish_finished_from_failed(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let content = |version: &str| {
        ns.content()
            .phase("a", [cm.clone().data("k", version)])
            .probe(name_annotation_probe())
    };
    let web = ns.deployment("web").content(content("1")).create().await;
    let underway = [
        Is("Ready", "False"),
        Is("Reconciling", "True"),
        No("Stalled"),
    ];
    let first = web.set_reaches(1, &underway).await;
    assert_judged(&first, UNDERWAY);
    assert_judged(&web.reaches(&underway).await, UNDERWAY);

    ns.annotate_with_name(&cm).await;
    let finished = [Is("Ready", "True"), No("Reconciling"), No("Stalled")];
    let reported = web.reaches(&finished).await;
    assert_eq!(reported.json["status"]["phase"], "Ready");
    assert_eq!(printed_state(&ns, &reported).await[0], "Ready");
    assert_judged(&reported, FINISHED);
    assert_judged(&web.set_reaches(1, &finished).await, FINISHED);
    // A change that the manager has not observed yet.
    let mut changed = reported;
    let generation = changed.json["metadata"]["generation"].as_i64().unwrap();
    changed.json["metadata"]["generation"] = json!(generation + 1);
    assert_judged(&changed, UNDERWAY);

    let refused = ns
        .content()
        .phase("a", [object("nowhere.example/v1", "Missing", "x")]);
    web.edit(refused).await;
    let failed = [
        Is("Ready", "False"),
        No("Reconciling"),
        Because("Stalled", "True", "PreflightError"),
    ];
    let second = web.set_reaches(2, &failed).await;
    assert_judged(&second, FAILED);
    let reported = web.reaches(&failed).await;
    assert_eq!(reported.json["status"]["phase"], "Failed");
    let [word, why] = printed_state(&ns, &reported).await;
    assert!(
        word == "Failed" && why.contains("not registered on the api server"),
        "{word} {why}"
    );
    assert_judged(&reported, FAILED);

    web.edit(content("3")).await;
    let reported = web.reaches(&finished).await;
    assert_judged(&reported, FINISHED);
    let archived = web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_judged(&archived, FINISHED);
}

/// For kubectl and Argo CD a paused deployment is neither in progress nor failed.
#[tokio::test]
async fn a_paused_deployment_is_neither_in_progress_nor_failed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns
        .deployment("web")
        .content(ns.content().phase("a", [configmap("cm")]))
        .create()
        .await;
    web.concluded().await;
    web.pause().await;
    let paused = web
        .reaches(&[Is("Paused", "True"), Is("Ready", "True")])
        .await;
    assert_judged(&paused, ("Current", "Suspended"));
}

/// Phase objects are judged as well, because users may inspect them separately.
#[tokio::test]
async fn phase_objects_are_judged_like_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.revision(1)
        .delegated("a", "default", [cm.clone()])
        .probe(name_annotation_probe())
        .reaching(&[Is("Available", "False")])
        .await;
    let phase = ns.phase_ref("v1", "a");
    let judged_as = async |expected: (&str, &str)| {
        ns.eventually("the phase object's state", async || {
            let phase = ns.cluster().get(&phase).await;
            phase.is_some_and(|phase| {
                let judged = judge(&[phase]).remove(0);
                (&*judged.0, &*judged.1) == expected
            })
        })
        .await;
    };
    judged_as(UNDERWAY).await;
    ns.annotate_with_name(&cm).await;
    judged_as(FINISHED).await;
}
