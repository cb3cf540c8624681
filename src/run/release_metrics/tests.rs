use std::{sync::Arc, time::Duration};

use baton_apis::{Application, Release};
use baton_runtime::{
    clock::Clock, controller::Controller as _, metrics::Metrics, outcomes::ReconcileOutcome,
};
use baton_typed::{key::Key, store::Change};
use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::json;

use super::installations::Installations;
use super::objects::release_families;
use crate::controllers::releases::application::Applications;

fn release(installed: &str, complete: bool) -> Arc<Release> {
    let conditions = if complete {
        json!([{"type": "Complete", "status": "True"}])
    } else {
        json!([{"type": "Scheduled", "status": "False", "reason": "ChartFetchFailure"}])
    };
    let object = json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "labels": {"shipper-app": "web"},
            "annotations": {"shipper.booking.com/release.clusters": "eu,us"},
        },
        "spec": {"targetStep": 0, "environment": {}},
        "status": {
            "conditions": conditions,
            "strategy": {"conditions": [{
                "type": "ContenderAchievedInstallation", "status": installed, "step": 0,
                "lastTransitionTime": "1970-01-01T00:00:00Z", "reason": "", "message": "",
            }]},
        },
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

#[test]
fn releases_are_counted_by_condition_and_cluster() {
    let releases = [release("False", false), release("True", true)];
    let now = Timestamp::UNIX_EPOCH + Duration::from_secs(20);
    let (states, places, ages) = release_families(&releases, now);
    let metrics = Metrics::new();
    metrics.register(|registry| {
        registry.register("states", "", states);
        registry.register("places", "", places);
        registry.register("ages", "", ages);
    });
    let mut states = metrics.series("states");
    states.retain(|line| line.contains("Scheduled") || line.contains("Complete"));
    states.sort();
    let labels = r#"namespace="shop",shipper_app="web",cond_type="#;
    assert_eq!(
        states,
        [
            format!(r#"states{{{labels}"Complete",cond_status="False",cond_reason="NoReason"}} 1"#),
            format!(r#"states{{{labels}"Complete",cond_status="True",cond_reason="NoReason"}} 1"#),
            format!(
                r#"states{{{labels}"Scheduled",cond_status="False",cond_reason="ChartFetchFailure"}} 1"#
            ),
            format!(
                r#"states{{{labels}"Scheduled",cond_status="False",cond_reason="NoReason"}} 1"#
            ),
        ]
    );
    assert_eq!(
        metrics.series("places{cluster=\"eu\""),
        ["places{cluster=\"eu\"} 2"]
    );
    // Only the 20 seconds of the incomplete Release.
    let type_ = "cond_type=\"ContenderAchievedInstallation\"";
    assert_eq!(
        metrics.series("ages_sum"),
        [format!("ages_sum{{{type_}}} 20.0")]
    );
}

#[test]
fn an_installation_is_timed_once() {
    let seconds = Histogram::new([1.0]);
    let watch = Installations::new(seconds.clone(), Clock::default());
    let application = Arc::new(Application::default());
    let mut application = Application::clone(&application);
    application.metadata.name = Some("web".into());
    application.metadata.namespace = Some("shop".into());
    let new = Some(Arc::new(application));
    watch.application(&Change { old: None, new });
    for _ in 0..2 {
        watch.release(&Change {
            old: Some(release("False", false)),
            new: Some(release("True", false)),
        });
    }
    let metrics = Metrics::new();
    metrics.register(|registry| registry.register("seconds", "", seconds));
    assert_eq!(metrics.series("seconds_count"), ["seconds_count 1"]);
}

#[test]
fn requests_and_queues_have_shippers_names() {
    let metrics = Metrics::new();
    let mut queues = super::Queues::new(&metrics);
    let queue = queues.named::<Applications>("application_controller_applications");
    metrics.register(|registry| queues.register(registry));
    queue.add(Key::new("Application", "shop", "web"));
    let controller = metrics.controller(Applications::NAME);
    controller.waited(Duration::ZERO);
    controller.reconciled(ReconcileOutcome::Changed, Duration::from_secs(2));
    let found = |name: &str| {
        let prefix = format!("shipper_application_controller_applications_workqueue_{name} ");
        metrics.series(&prefix).join(",").replace(&prefix, "")
    };
    for (name, expected) in [
        ("depth", "1"),
        ("adds", "1"),
        ("retries", "0"),
        ("latency_seconds_count", "1"),
        ("duration_seconds_sum", "2.0"),
        ("unfinished_work_seconds", "0.0"),
        ("longest_running_processor_seconds", "0.0"),
    ] {
        assert_eq!(found(name), expected, "{name}");
    }
}
