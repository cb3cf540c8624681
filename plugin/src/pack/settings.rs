//! Settings of a deployment that an earlier run has set by flags, and that stay without the flags.

use baton_cluster::{Cluster, FIELD_MANAGER};
use baton_view::chain::kind::ChainKind;
use serde_json::Value;

use super::apply::path;
use crate::error::Error;

/// The fields of the spec that only flags set.
const FIELDS: [&str; 2] = ["progressDeadlineSeconds", "revisionHistoryLimit"];

/// Adds the settings of the existing deployment that this program has set to a deployment that is
/// about to be applied. Without them, the apply would remove them.
pub(crate) async fn keep(cluster: &Cluster, object: &mut Value) -> Result<(), Error> {
    let is_deployment = ChainKind::of(object).is_some_and(ChainKind::is_deployment);
    if !is_deployment {
        return Ok(());
    }
    // The apply itself reports that the object cannot be read.
    if let Ok(Some(live)) = cluster.get_at(&path(cluster, object)).await {
        add(object, &live);
    }
    Ok(())
}

fn add(object: &mut Value, live: &Value) {
    for field in FIELDS {
        if object["spec"].get(field).is_none() && is_ours(live, field) {
            object["spec"][field] = live["spec"][field].clone();
        }
    }
}

/// True if this program has applied a field of the spec.
fn is_ours(live: &Value, field: &str) -> bool {
    let managers = live["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|entry| {
        entry["manager"] == FIELD_MANAGER
            && entry["operation"] == "Apply"
            && entry["fieldsV1"]["f:spec"]
                .get(format!("f:{field}"))
                .is_some()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_earlier_flags_stay() {
        let live = |manager: &str, operation: &str| {
            json!({
                "metadata": {"managedFields": [{
                    "manager": manager, "operation": operation,
                    "fieldsV1": {"f:spec": {"f:progressDeadlineSeconds": {}}},
                }]},
                "spec": {"progressDeadlineSeconds": 60, "revisionHistoryLimit": 10},
            })
        };
        let ours = live("kubectl-baton", "Apply");
        for (given, live, expected) in [
            (json!({}), &ours, json!({"progressDeadlineSeconds": 60})),
            (
                json!({"progressDeadlineSeconds": 5}),
                &ours,
                json!({"progressDeadlineSeconds": 5}),
            ),
            (json!({}), &live("kubectl-edit", "Apply"), json!({})),
            (json!({}), &live("kubectl-baton", "Update"), json!({})),
        ] {
            let mut object = json!({ "spec": given });
            add(&mut object, live);
            assert_eq!(object["spec"], expected);
        }
    }
}
