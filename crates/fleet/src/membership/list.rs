//! `baton cluster list`.

use baton_engine::texts::collapse_whitespace;
use baton_terminal::output::{print, report};
use baton_text::{output::kubectl, time};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    args::{ListArgs, ListFormat},
    error::{ClusterRole, Error},
    manifest::{Manifest, text},
    server::Server,
    spec::connection_of,
};

const NONE: &str = "<none>";

/// Prints the clusters of the hub.
pub(super) async fn run(args: &ListArgs) -> Result<(), Error> {
    let hub = Server::connect(ClusterRole::Hub, &args.hub.connection()).await?;
    let kind = Manifest(json!({ "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster" }));
    let mut clusters = hub.list(&kind, "").await?;
    for cluster in &mut clusters {
        // As in kubectl: the field is long and rarely of interest.
        if let Some(Value::Object(metadata)) = cluster.get_mut("metadata") {
            metadata.remove("managedFields");
        }
    }
    if clusters.is_empty() && matches!(args.output, ListFormat::Table | ListFormat::Wide) {
        report("No clusters found");
        return Ok(());
    }
    let text = render(args.output, &clusters, Timestamp::now())?;
    print(&text).map_err(Error::Output)
}

fn render(format: ListFormat, clusters: &[Value], now: Timestamp) -> Result<String, Error> {
    let list = || json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": clusters });
    Ok(match format {
        ListFormat::Table => rows(clusters, false, now),
        ListFormat::Wide => rows(clusters, true, now),
        ListFormat::Json => format!("{:#}\n", list()),
        ListFormat::Yaml => serde_saphyr::to_string(&list())?,
        ListFormat::Name => {
            let names = clusters
                .iter()
                .map(|cluster| text(cluster, "/metadata/name"));
            names
                .flat_map(|name| ["cluster.shipper.booking.com/", name, "\n"])
                .collect()
        }
    })
}

fn rows(clusters: &[Value], wide: bool, now: Timestamp) -> String {
    const HEADINGS: [&str; 11] = [
        "NAME",
        "CONNECTION",
        "REGION",
        "CONNECTED",
        "SINCE",
        "VERSION",
        "AGE",
        "SERVER",
        "CAPABILITIES",
        "LAST CONTACT",
        "MESSAGE",
    ];
    let columns = if wide { HEADINGS.len() } else { 7 };
    let mut table = kubectl::kubectl_table(&HEADINGS[..columns]);
    for cluster in clusters {
        table.add_row(cells(cluster, now).into_iter().take(columns));
    }
    kubectl::render(table)
}

/// The cells of a row, the wide ones last.
fn cells(cluster: &Value, now: Timestamp) -> Vec<String> {
    let at = |pointer| text(cluster, pointer);
    let or_none = |text: &str| {
        if text.is_empty() {
            NONE.to_owned()
        } else {
            text.to_owned()
        }
    };
    let age = |text: &str| match text.parse() {
        Ok(then) => time::age(Some(then), now),
        Err(_) => NONE.to_owned(),
    };
    let connected = connected(cluster);
    let part = |key| connected.map_or("", |condition| text(condition, key));
    let capabilities = cluster
        .pointer("/spec/capabilities")
        .and_then(Value::as_array);
    let capabilities: Vec<&str> = capabilities
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let message = match part("/status") {
        "True" => String::new(),
        _ => collapse_whitespace(part("/message")),
    };
    vec![
        at("/metadata/name").to_owned(),
        connection_of(cluster).to_string(),
        or_none(at("/spec/region")),
        state(part("/status"), part("/reason")),
        age(part("/lastTransitionTime")),
        or_none(at("/status/serverVersion")),
        age(at("/metadata/creationTimestamp")),
        or_none(at("/spec/apiMaster")),
        or_none(&capabilities.join(",")),
        age(at("/status/lastContactTime")),
        message,
    ]
}

fn connected(cluster: &Value) -> Option<&Value> {
    let conditions = cluster.pointer("/status/conditions")?.as_array()?;
    let mut conditions = conditions.iter();
    conditions.find(|condition| text(condition, "/type") == "Connected")
}

/// True or false, with the reason if the cluster is not connected.
fn state(status: &str, reason: &str) -> String {
    match (status, reason) {
        ("", _) => "Unknown".to_owned(),
        ("True", _) | (_, "") => status.to_owned(),
        _ => format!("{status} ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-08-01T02:00:00Z".parse().unwrap()
    }

    fn clusters() -> [Value; 2] {
        let condition = |status: &str, reason: &str, message: &str| {
            json!({
                "type": "Connected", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-08-01T01:55:00Z",
            })
        };
        [
            json!({
                "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
                "metadata": { "name": "eu-1", "creationTimestamp": "2026-07-20T02:00:00Z" },
                "spec": { "region": "eu", "apiMaster": "https://10.0.0.1:6443", "capabilities": ["gpu", "ssd"] },
                "status": {
                    "conditions": [condition("False", "Unauthorized", "the token\nis too old")],
                    "serverVersion": "v1.36.3", "lastContactTime": "2026-08-01T01:59:30Z",
                },
            }),
            json!({
                "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
                "metadata": { "name": "edge", "creationTimestamp": "2026-08-01T02:00:01Z" },
                "spec": { "connection": "Pull" },
            }),
        ]
    }

    #[test]
    fn a_table_has_the_format_of_kubectl() {
        let shown = |format| render(format, &clusters(), now()).unwrap();
        assert_eq!(
            shown(ListFormat::Table),
            "\
NAME   CONNECTION   REGION   CONNECTED              SINCE    VERSION   AGE
eu-1   Push         eu       False (Unauthorized)   5m       v1.36.3   12d
edge   Pull         <none>   Unknown                <none>   <none>    0s
"
        );
        assert_eq!(
            shown(ListFormat::Wide),
            "\
NAME   CONNECTION   REGION   CONNECTED              SINCE    VERSION   AGE   \
       SERVER                  CAPABILITIES   LAST CONTACT   MESSAGE
eu-1   Push         eu       False (Unauthorized)   5m       v1.36.3   12d   \
       https://10.0.0.1:6443   gpu,ssd        30s            the token is too old
edge   Pull         <none>   Unknown                <none>   <none>    0s    \
       <none>                  <none>         <none>
"
        );
    }

    #[test]
    fn json_and_yaml_output_contain_the_whole_objects() {
        let shown = |format| render(format, &clusters(), now()).unwrap();
        assert_eq!(
            shown(ListFormat::Name),
            "cluster.shipper.booking.com/eu-1\ncluster.shipper.booking.com/edge\n"
        );
        let json: Value = serde_json::from_str(&shown(ListFormat::Json)).unwrap();
        let yaml: Value = serde_saphyr::from_str(&shown(ListFormat::Yaml)).unwrap();
        assert_eq!(json["items"], json!(clusters()));
        assert_eq!(json, yaml);
    }

    #[test]
    fn a_state_names_its_reason_unless_it_is_true() {
        for (status, reason, expected) in [
            ("", "", "Unknown"),
            ("True", "Connected", "True"),
            ("False", "Unreachable", "False (Unreachable)"),
            ("Unknown", "Connecting", "Unknown (Connecting)"),
        ] {
            assert_eq!(state(status, reason), expected);
        }
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let [_, mut cluster] = clusters();
        for (created, expected) in [
            ("2026-08-01T02:00:05Z", "0s"),
            ("2026-08-01T01:57:30Z", "2m30s"),
            ("2026-08-01T00:00:00Z", "120m"),
            ("2026-07-29T00:00:00Z", "3d2h"),
        ] {
            cluster["metadata"]["creationTimestamp"] = created.into();
            assert_eq!(cells(&cluster, now())[6], expected, "{created}");
        }
    }
}
