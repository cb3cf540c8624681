//! The spec of a Cluster, from the flags and the live Cluster.

use baton_apis::ClusterConnection;
use serde_json::{Map, Value, json};

use super::manifest::{owns_spec_field, text};

/// The direction of the connection, by a Cluster.
pub(super) fn connection_of(cluster: &Value) -> ClusterConnection {
    match text(cluster, "/spec/connection") {
        "Pull" => ClusterConnection::Pull,
        _ => ClusterConnection::Push,
    }
}

/// The given fields of a Cluster. A field that is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterFields {
    /// The direction of the connection.
    pub connection: ClusterConnection,
    /// Region of the cluster.
    pub region: Option<String>,
    /// URL of the API server.
    pub api_master: Option<String>,
    pub capabilities: Option<Vec<String>>,
    /// Settings of the cluster for Shipper's scheduler.
    pub scheduler: Option<Value>,
}

/// The spec to apply.
///
/// A field has its given value, else the value that joining has set before, because leaving it out
/// would remove it, else the initial value of a new Cluster. Values that others have set stay
/// theirs. `server` is the default address of a push cluster.
pub(super) fn spec(given: &ClusterFields, live: Option<&Value>, server: &str) -> Value {
    let ClusterFields {
        connection,
        region,
        api_master,
        capabilities,
        scheduler,
    } = given;
    let server = match connection {
        ClusterConnection::Push => Some(json!(server)),
        ClusterConnection::Pull => None,
    };
    let mut spec = Map::new();
    spec.insert("connection".to_owned(), connection.to_string().into());
    for (field, given, initial) in [
        (
            "region",
            region.as_ref().map(|region| json!(region)),
            Some(json!("default")),
        ),
        (
            "apiMaster",
            api_master.as_ref().map(|url| json!(url)),
            server,
        ),
        (
            "capabilities",
            capabilities.as_ref().map(|all| json!(all)),
            Some(json!([])),
        ),
        ("scheduler", scheduler.clone(), None),
    ] {
        let present = live.and_then(|live| live.get("spec")?.get(field));
        let kept = present.filter(|_| live.is_some_and(|live| owns_spec_field(live, field)));
        // For an existing Cluster, only required fields get an initial value.
        let needed = live.is_none() || (present.is_none() && field != "capabilities");
        let value = given
            .or_else(|| kept.cloned())
            .or_else(|| initial.filter(|_| needed));
        if let Some(value) = value {
            spec.insert(field.to_owned(), value);
        }
    }
    Value::Object(spec)
}

/// The address of a Cluster after `spec` is applied.
pub(super) fn address<'a>(spec: &'a Value, live: Option<&'a Value>) -> &'a str {
    let applied = text(spec, "/apiMaster");
    if applied.is_empty() {
        live.map_or("", |live| text(live, "/spec/apiMaster"))
    } else {
        applied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::manifest::FIELD_MANAGER;

    const SERVER: &str = "https://target:6443";

    /// A Cluster with this spec; joining owns the fields `ours`.
    fn live(spec: &Value, ours: &[&str]) -> Value {
        let fields: Map<String, Value> = ours
            .iter()
            .map(|field| (format!("f:{field}"), json!({})))
            .collect();
        json!({
            "metadata": { "managedFields": [
                { "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": { "f:spec": fields } },
            ] },
            "spec": spec,
        })
    }

    fn eu() -> ClusterFields {
        ClusterFields {
            region: Some("eu".to_owned()),
            ..ClusterFields::default()
        }
    }

    #[test]
    fn a_new_cluster_has_all_required_fields() {
        assert_eq!(
            spec(&ClusterFields::default(), None, SERVER),
            json!({ "connection": "Push", "region": "default", "apiMaster": SERVER, "capabilities": [] })
        );
        let mut eu = ClusterFields {
            scheduler: Some(json!({ "weight": 1 })),
            ..eu()
        };
        assert_eq!(
            spec(&eu, None, SERVER),
            json!({
                "connection": "Push", "region": "eu", "apiMaster": SERVER, "capabilities": [],
                "scheduler": { "weight": 1 },
            })
        );
        eu.connection = ClusterConnection::Pull;
        assert_eq!(
            spec(&eu, None, SERVER),
            json!({ "connection": "Pull", "region": "eu", "capabilities": [], "scheduler": { "weight": 1 } })
        );
    }

    #[test]
    fn fields_without_a_flag_keep_their_values() {
        let before = json!({
            "connection": "Push", "region": "us", "apiMaster": "https://old:6443",
            "capabilities": ["gpu"], "scheduler": { "weight": 5 },
        });
        let all = [
            "connection",
            "region",
            "apiMaster",
            "capabilities",
            "scheduler",
        ];
        let ours = live(&before, &all);
        assert_eq!(spec(&ClusterFields::default(), Some(&ours), SERVER), before);
        let mut after = before.clone();
        after["region"] = "eu".into();
        assert_eq!(spec(&eu(), Some(&ours), SERVER), after);
        // A field of another owner is not applied, so it stays theirs.
        let theirs = live(&before, &[]);
        assert_eq!(
            spec(&eu(), Some(&theirs), SERVER),
            json!({ "connection": "Push", "region": "eu" })
        );
    }

    #[test]
    fn missing_fields_of_a_cluster_are_filled_in() {
        let bare = live(&json!({ "region": "eu" }), &[]);
        assert_eq!(
            spec(&ClusterFields::default(), Some(&bare), SERVER),
            json!({ "connection": "Push", "apiMaster": SERVER })
        );
    }

    #[test]
    fn the_address_is_that_of_the_resulting_spec() {
        let old = live(&json!({ "apiMaster": "https://old" }), &[]);
        let given = ClusterFields {
            api_master: Some("https://new".to_owned()),
            ..ClusterFields::default()
        };
        for (given, live, expected) in [
            (&given, Some(&old), "https://new"),
            (&ClusterFields::default(), Some(&old), "https://old"),
            (&ClusterFields::default(), None, SERVER),
        ] {
            let spec = spec(given, live, SERVER);
            assert_eq!(address(&spec, live), expected);
        }
    }
}
