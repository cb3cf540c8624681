//! The status of a revision: mapped and delayed conditions, limits, columns.

use baton_integration::prelude::*;
use jiff::Timestamp;

alternating_scopes! {
    printer_columns_show_the_conditions;
    conditions_are_mapped;
}

fn transition(revision: &Revision, type_: &str) -> Timestamp {
    let condition = revision.condition(type_).unwrap();
    condition["lastTransitionTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns the seconds between `Available` and `Succeeded`.
fn delay(revision: &Revision) -> i64 {
    transition(revision, "Succeeded")
        .duration_since(transition(revision, "Available"))
        .as_secs()
}

/// There is no other event in between, so the condition depends on a timer.
#[tokio::test]
async fn success_is_reported_after_its_delay_without_another_event() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .spec("successDelaySeconds", 3)
        .reaching(&[Is("Available", "True"), No("InTransition")])
        .await;
    ns.stays(Duration::from_secs(2), "not succeeded yet", async || {
        ns.read_set("v1").await.has(&[No("Succeeded")])
    })
    .await;
    let set = ns
        .reaches("v1", &[Because("Succeeded", "True", "RolloutSuccess")])
        .await;
    assert!((3..=5).contains(&delay(&set)), "{}", set.status());
}

#[tokio::test]
async fn the_success_delay_restarts_when_availability_returns() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [cm.clone()])
        .probe(name_annotation_probe())
        .spec("successDelaySeconds", 4)
        .reaching(&[Is("Available", "False")])
        .await;
    ns.annotate_with_name(&cm).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    ns.merge(
        &cm,
        &json!({ "metadata": { "annotations": { "name": null } } }),
    )
    .await;
    ns.reaches("v1", &[Is("Available", "False"), No("Succeeded")])
        .await;
    ns.annotate_with_name(&cm).await;
    ns.reaches("v1", &[Is("Available", "True"), No("Succeeded")])
        .await;
    let set = ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    assert!((4..=6).contains(&delay(&set)), "{}", set.status());
}

/// A long delay must not overflow.
#[tokio::test]
async fn a_long_success_delay_does_not_overflow() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .spec("successDelaySeconds", i32::MAX)
        .available()
        .await;
    ns.stays(Duration::from_secs(2), "not succeeded", async || {
        ns.read_set("v1")
            .await
            .has(&[Is("Available", "True"), No("Succeeded")])
    })
    .await;
}

/// Returns a paused Deployment, whose status no controller writes.
fn quiet_deployment() -> Entry {
    object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 0)
        .with("/spec/paused", true)
        .with("/spec/selector/matchLabels/app", "web")
        .with("/spec/template/metadata/labels/app", "web")
        .with(
            "/spec/template/spec/containers",
            json!([{ "name": "web", "image": "image:1" }]),
        )
}

/// Adds a condition to those of the deployment controller.
async fn report(ns: &TestNamespace, entry: &Entry, condition: Value) {
    let live = ns.live(entry).await;
    let mut conditions = live["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|other| other["type"] != condition["type"]);
    conditions.push(condition);
    let patch = json!({ "status": { "conditions": conditions } });
    ns.cluster()
        .merge_status(&ns.reference(entry), &patch)
        .await
        .unwrap();
}

async fn conditions_are_mapped(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = quiet_deployment().map("Sunny", "demo.example/Weather");
    ns.revision(1)
        .phase("a", [web.clone()])
        .reaching(&[Is("Available", "True"), No("demo.example/Weather")])
        .await;
    let sunny =
        json!({ "type": "Sunny", "status": "True", "reason": "NoClouds", "message": "go out" });
    report(&ns, &web, sunny).await;
    let wanted = [
        Because("demo.example/Weather", "True", "NoClouds"),
        Says("demo.example/Weather", "go out"),
    ];
    ns.reaches("v1", &wanted).await;
    let grey =
        json!({ "type": "Sunny", "status": "False", "reason": "Clouds", "message": "stay in" });
    report(&ns, &web, grey).await;
    ns.reaches("v1", &[Because("demo.example/Weather", "False", "Clouds")])
        .await;
    ns.reaches("v1", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
}

/// Built-in kinds may omit the reason, but a condition of a revision must have one.
#[tokio::test]
async fn a_mapped_condition_without_reason_gets_one() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = quiet_deployment()
        .map("Sunny", "demo.example/Weather")
        .map("Odd", "demo.example/Odd");
    let cm = configmap("cm");
    ns.revision(1)
        .phase("a", [web.clone(), cm.clone()])
        .available()
        .await;
    report(&ns, &web, json!({ "type": "Sunny", "status": "True" })).await;
    let odd = json!({ "type": "Odd", "status": "False", "reason": "not a reason!" });
    report(&ns, &web, odd).await;
    let set = ns
        .reaches(
            "v1",
            &[
                Is("demo.example/Weather", "True"),
                Is("demo.example/Odd", "False"),
            ],
        )
        .await;
    assert_ne!(set.condition("demo.example/Weather").unwrap()["reason"], "");
    // The rest of the status is still written.
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True"), Is("Available", "True")])
        .await;
}

/// A message has at most 32768 characters, for any length of a probe's message.
#[tokio::test]
async fn a_long_message_is_cut_to_the_limit() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for (name, message) in [
        ("v1", "x".repeat(40_000)),
        ("v2", "\u{e9}\u{1f680}".repeat(15_000)),
    ] {
        let probe = cel_probe("", "ConfigMap", "self.metadata.name == 'other'", &message);
        let set = ns
            .set(name)
            .revision(1)
            .phase("a", [configmap(name)])
            .probe(probe)
            .reaching(&[Because("Available", "False", "ProbeFailure")])
            .await;
        let reported = set.message("Available");
        assert!(
            reported.chars().count() <= 32_768,
            "{}",
            reported.chars().count()
        );
        assert!(reported.len() > 30_000, "{}", reported.len());
        assert!(
            reported.starts_with("Phase \"a\" failed:  ConfigMap "),
            "{reported:.100}"
        );
    }
}

/// Covers the output of `kubectl describe`.
#[tokio::test]
async fn events_and_waiting_for_name_the_object() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (taken, probed) = (configmap("taken"), configmap("probed"));
    ns.create(&taken).await;
    ns.set("collides")
        .revision(1)
        .phase("a", [taken.clone()])
        .create()
        .await;
    let set = ns.set("waits").revision(1).phase("a", [probed.clone()]);
    set.probe(name_annotation_probe()).create().await;
    for (name, object, reason, type_) in [
        ("collides", "taken", "CollisionDetected", "Warning"),
        ("waits", "probed", "ProbeFailure", "Normal"),
    ] {
        let set = ns
            .reaches(name, &[Because("Available", "False", reason)])
            .await;
        let waiting = &set.json["status"]["waitingFor"][0];
        let wanted = json!({
            "phase": "a", "group": "", "kind": "ConfigMap", "name": object, "namespace": ns.name(),
            "reason": reason, "message": waiting["message"],
        });
        assert_eq!(*waiting, wanted);
        let all = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "namespace": ns.name() },
        });
        ns.eventually("an event with the reason", async || {
            ns.cluster().list(&all, "").await.iter().any(|event| {
                event["involvedObject"]["uid"] == set.uid()
                    && event["reason"] == reason
                    && event["type"] == type_
            })
        })
        .await;
    }
    ns.annotate_with_name(&probed).await;
    let set = ns.reaches("waits", &[Is("Available", "True")]).await;
    assert!(
        set.json["status"].get("waitingFor").is_none(),
        "{}",
        set.status()
    );
}

/// Covers the output of `kubectl get`.
async fn printer_columns_show_the_conditions(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.set("v1")
        .revision(7)
        .phase("a", [configmap("cm")])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v1", "Paused").await;
    let set = ns.reaches("v1", &[Is("Paused", "True")]).await;
    let table = ns.cluster().table(&ns.set_ref("v1")).await;
    let columns = table["columnDefinitions"].as_array().unwrap();
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let columns: Vec<_> = columns
        .iter()
        .map(|column| (text(column, "name"), column["priority"].as_i64()))
        .collect();
    let expected = [
        ("Name", 0),
        ("Status", 0),
        ("Available", 0),
        ("Paused", 0),
        ("Archived", 1),
        ("Succeeded", 1),
        ("InTransition", 1),
        ("Revision", 0),
        ("Age", 0),
        ("Message", 1),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, wide)| (name.to_owned(), Some(wide)))
        .collect();
    assert_eq!(columns, expected);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[0], set.name());
    assert_eq!(
        cells[1..4],
        [json!("Available"), json!("True"), json!("True")]
    );
    // The cell of an absent condition is empty.
    assert!(
        cells[4]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("<none>")
            .is_empty(),
        "{cells:?}"
    );
    assert_eq!(cells[5], "True");
    assert_eq!(cells[7], "7");
}
