//! Autoscalers in charts.

use serde_json::Value;

use super::object::Object;

/// The least number of pods of the autoscaler that scales a workload; `None` if the chart has none
/// for it.
pub(super) fn least_pods(objects: &[Object], workload: &Object) -> Option<i32> {
    let mut autoscalers = objects.iter().filter_map(|object| {
        let least = match (object.group(), &*object.kind) {
            ("autoscaling", "HorizontalPodAutoscaler") => "minReplicas",
            ("keda.sh", "ScaledObject") => "minReplicaCount",
            _ => return None,
        };
        let target = object.at(&["spec", "scaleTargetRef"]);
        // A ScaledObject without a kind scales a Deployment.
        let kind = target["kind"].as_str().unwrap_or("Deployment");
        (kind == workload.kind && target["name"] == *workload.name)
            .then(|| object.at(&["spec", least]))
    });
    // With less than one pod there would be no Release to send traffic to.
    let least = autoscalers.next()?;
    let least = Value::as_i64(least).and_then(|least| i32::try_from(least).ok());
    Some(least.unwrap_or(1).max(1))
}
