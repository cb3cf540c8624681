//! Autoscalers in charts.

use baton_engine::autoscaling::target;
use serde_json::Value;

use super::object::Object;

/// The least number of pods of the autoscaler that scales a workload; `None` if the chart has none
/// for it.
pub(super) fn least_pods(objects: &[Object], workload: &Object) -> Option<i32> {
    let mut autoscalers = objects.iter().filter_map(|object| {
        let target = target(&object.value)?;
        let least = match &*object.kind {
            "HorizontalPodAutoscaler" => "minReplicas",
            _ => "minReplicaCount",
        };
        // All objects of a chart are in the namespace of the Release.
        let is_target = target.group == workload.group()
            && target.kind == workload.kind
            && target.name == workload.name;
        is_target.then(|| object.at(&["spec", least]))
    });
    // With less than one pod there would be no Release to send traffic to.
    let least = autoscalers.next()?;
    let least = Value::as_i64(least).and_then(|least| i32::try_from(least).ok());
    Some(least.unwrap_or(1).max(1))
}
