//! Objects that earlier states of Baton have stored are read without a loss.
//!
//! Each file in `objects` has objects of all kinds, as a cluster had them during the tests on that day
//! or of that version: together they have all fields that were written then. A field that a later
//! version does not read is lost at its next write of the object.

use std::collections::BTreeSet;

use baton_apis::{
    Application, CapacityTarget, Cluster, ClusterObjectDeployment, ClusterObjectSet,
    ClusterObjectSetPhase, ClusterObjectSlice, InstallationTarget, ObjectDeployment, ObjectSet,
    ObjectSetPhase, ObjectSlice, Release, RolloutBlock, SiteApplication, SiteAssignment,
    SiteDeployment, TrafficTarget,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The days or versions, with the number of kinds at that time and the objects.
const EARLIER: [(&str, usize, &str); 1] =
    [("2026-11-30", 18, include_str!("objects/2026-11-30.json"))];

/// Reads an object and writes it again.
fn round_trip<T: Serialize + DeserializeOwned>(object: &Value) -> Result<Value, String> {
    let typed: T = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    Ok(json!(typed))
}

macro_rules! round_trip_of {
    ($object:expr, $($kind:ident),+) => {
        match $object["kind"].as_str() {
            $(Some(stringify!($kind)) => round_trip::<$kind>($object),)+
            other => Err(format!("{other:?} is no kind")),
        }
    };
}

/// The paths of values in `before` that `after` does not have. An empty list or map says as much as
/// none.
fn lost(before: &Value, after: &Value, path: &str) -> Vec<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .flat_map(|(key, value)| {
                let path = format!("{path}.{key}");
                match after.get(key) {
                    Some(after) => lost(value, after, &path),
                    None if *value == json!([]) || *value == json!({}) => Vec::new(),
                    None => vec![path],
                }
            })
            .collect(),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => before
            .iter()
            .zip(after)
            .flat_map(|(before, after)| lost(before, after, &format!("{path}[]")))
            .collect(),
        _ if before == after => Vec::new(),
        _ => vec![format!("{path}: {before} became {after}")],
    }
}

#[test]
fn objects_of_earlier_versions_lose_nothing() {
    for (version, count, text) in EARLIER {
        let objects: Vec<Value> = serde_json::from_str(text).unwrap();
        let mut kinds = BTreeSet::new();
        for object in &objects {
            let after = round_trip_of!(
                object,
                Application,
                CapacityTarget,
                Cluster,
                ClusterObjectDeployment,
                ClusterObjectSet,
                ClusterObjectSetPhase,
                ClusterObjectSlice,
                InstallationTarget,
                ObjectDeployment,
                ObjectSet,
                ObjectSetPhase,
                ObjectSlice,
                Release,
                RolloutBlock,
                SiteApplication,
                SiteAssignment,
                SiteDeployment,
                TrafficTarget
            );
            let name = format!(
                "{version} {} {}",
                object["kind"], object["metadata"]["name"]
            );
            let after = after.unwrap_or_else(|error| panic!("{name}: {error}"));
            let lost = lost(object, &after, "");
            assert_eq!(lost, Vec::<String>::new(), "{name}");
            kinds.insert(object["kind"].as_str().unwrap());
        }
        assert_eq!(kinds.len(), count, "{version}: {kinds:?}");
    }
}

#[test]
fn a_loss_is_found_at_any_depth() {
    let before = json!({"a": [{"b": 1, "c": 2}], "d": {}});
    let after = json!({"a": [{"b": 1, "e": 3}], "d": {"new": true}});
    assert_eq!(lost(&before, &after, ""), [".a[].c"]);
    let changed = lost(&json!({"a": 1}), &json!({"a": "1"}), "");
    assert_eq!(changed, [".a: 1 became \"1\""]);
}
