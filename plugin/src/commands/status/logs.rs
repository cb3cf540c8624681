//! The last lines in the logs of crashed containers of failing workloads.

use anstream::adapter::strip_str;
use baton_apis::{WaitingForObject, url::escape};
use baton_cluster::{Cluster, MAX_CONCURRENT};
use baton_engine::{
    Gvk, ObjectKey,
    texts::truncate,
    workload::{crashed_container, runs_pods},
};
use baton_kubernetes::{
    path,
    pods::{MAX_PODS, pods_path},
};
use baton_text::output::{Output, table::Table};
use baton_view::{chain::member::Revision, object::text_at};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::error::Error;

/// The longest line that is shown, in bytes.
const MAX_LINE: usize = 512;

/// The log of a workload with a crashed container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// `Kind/name`.
    workload: String,
    /// Name of the pod; empty if the pods cannot be read.
    pod: String,
    container: String,
    /// The last line, or the reason that it cannot be read.
    line: Result<String, String>,
}

/// Reads the logs of the workloads that a revision waits for. For each, this is the log of the
/// first pod by name with a crashed container. A log that cannot be read is reported in place of
/// its line.
pub(super) async fn find(cluster: &Cluster, revision: &Revision) -> Vec<Log> {
    let waiting = revision.status.waiting_for.iter();
    let workloads = waiting.filter(|waiting| runs_pods(&waiting.group, &waiting.kind));
    let requests = workloads.map(async |waiting| {
        let workload = format!("{}/{}", waiting.kind, waiting.name);
        match of_workload(cluster, waiting, &workload).await {
            Ok(log) => log,
            Err(error) => Some(Log {
                workload,
                pod: String::new(),
                container: String::new(),
                line: Err(error.to_string()),
            }),
        }
    });
    let logs = stream::iter(requests).buffered(MAX_CONCURRENT);
    logs.filter_map(std::future::ready).collect().await
}

async fn of_workload(
    cluster: &Cluster,
    waiting: &WaitingForObject,
    workload: &str,
) -> Result<Option<Log>, Error> {
    let namespace = waiting.namespace.as_deref().unwrap_or_default();
    // All kinds with pods are served in this version.
    let gvk = Gvk {
        group: waiting.group.clone(),
        version: "v1".to_owned(),
        kind: waiting.kind.clone(),
    };
    let Some(resource) = cluster.resource(&gvk).await? else {
        return Ok(None);
    };
    let path = resource.path_of(&ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: namespace.to_owned(),
        name: waiting.name.clone(),
    });
    let path = path.map_err(|error| Error::Impossible(error.to_string()))?;
    let Some(object) = cluster.get_at(&path).await? else {
        return Ok(None);
    };
    let Some(path) = pods_path(namespace, &object["spec"]["selector"], MAX_PODS) else {
        return Ok(None);
    };
    let pods = cluster.get_at(&path).await?.unwrap_or_default();
    let Some((pod, container)) = crashed(&pods) else {
        return Ok(None);
    };
    let line = match last(cluster, namespace, pod, container).await {
        Ok(text) => last_line(&text).ok_or_else(|| "it has logged nothing".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Ok(Some(Log {
        workload: workload.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
        line,
    }))
}

/// The first pod of a list, by name, with a crashed container, and that container.
fn crashed(pods: &Value) -> Option<(&str, &str)> {
    let pods = pods["items"].as_array().map_or(&[][..], Vec::as_slice);
    let crashed = pods
        .iter()
        .filter_map(|pod| Some((text_at(pod, "/metadata/name"), crashed_container(pod)?)));
    crashed.min()
}

/// The end of the log of a container before its last restart; if there is none, of its present log.
async fn last(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Result<String, Error> {
    let path = |is_previous| {
        log_path(namespace, pod, container, is_previous)
            .map_err(|error| Error::Impossible(error.to_string()))
    };
    match cluster.text_at(&path(true)?).await {
        Err(error) if error.is_code(400) || error.is_code(404) => {
            Ok(cluster.text_at(&path(false)?).await?)
        }
        text => Ok(text?),
    }
}

fn log_path(
    namespace: &str,
    pod: &str,
    container: &str,
    is_previous: bool,
) -> Result<String, path::NameError> {
    let pod = path::object(&path::within("/api/v1", namespace, "pods")?, pod)?;
    let container = escape(container);
    let previous = if is_previous { "&previous=true" } else { "" };
    Ok(format!(
        "{pod}/log?container={container}{previous}&tailLines=1"
    ))
}

/// The last line of a log that is not empty, without control characters, shortened.
fn last_line(log: &str) -> Option<String> {
    let mut lines = log.lines().rev().map(|line| {
        let line = strip_str(line).to_string().replace('\t', " ");
        line.replace(char::is_control, "").trim().to_owned()
    });
    let line = lines.find(|line| !line.is_empty())?;
    Some(truncate(&line, MAX_LINE).into_owned())
}

/// Renders logs for people; empty without a crashed container.
pub(super) fn text(logs: &[Log], output: Output) -> String {
    if logs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["OBJECT", "POD", "CONTAINER", "LAST LINE"]);
    for log in logs {
        let line = match &log.line {
            Ok(line) => line.clone(),
            Err(why) => format!("<unknown: {why}>"),
        };
        table.row([
            log.workload.clone(),
            log.pod.clone(),
            log.container.clone(),
            line,
        ]);
    }
    format!("\nLogs of crashed containers\n{}", table.render(output))
}

/// The logs as a value for programs.
pub(super) fn value(logs: &[Log]) -> Value {
    let logs = logs.iter().map(|log| {
        json!({
            "object": log.workload, "pod": log.pod, "container": log.container,
            "line": log.line.as_ref().ok(), "note": log.line.as_ref().err(),
        })
    });
    logs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pod_with_a_crashed_container_is_asked() {
        let pod = |name: &str, code: i64| {
            json!({"metadata": {"name": name}, "status": {"containerStatuses": [{
                "name": "app", "ready": code == 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": code}},
            }]}})
        };
        let pods = json!({"items": [pod("c", 1), pod("b", 1), pod("a", 0)]});
        assert_eq!(crashed(&pods), Some(("b", "app")));
        assert_eq!(crashed(&json!({"items": [pod("a", 0)]})), None);
        assert_eq!(crashed(&Value::Null), None);
        assert_eq!(
            log_path("shop", "b", "app", true).unwrap(),
            "/api/v1/namespaces/shop/pods/b/log?container=app&previous=true&tailLines=1"
        );
        assert_eq!(
            log_path("shop", "b", "a&b", false).unwrap(),
            "/api/v1/namespaces/shop/pods/b/log?container=a%26b&tailLines=1"
        );
    }

    #[test]
    fn control_sequences_are_removed_from_the_last_log_line() {
        for (log, expected) in [
            ("first\nlast\n\n", Some("last")),
            (
                "\x1b[31mpanic:\x1b[0m\tno\x07 database\r\n",
                Some("panic: no database"),
            ),
            ("a\x1b]0;title\x07b", Some("ab")),
            ("\n \n", None),
            ("", None),
        ] {
            assert_eq!(last_line(log).as_deref(), expected, "{log:?}");
        }
        let long = last_line(&"x".repeat(100_000)).unwrap();
        assert!(
            long.len() <= MAX_LINE && long.ends_with("bytes left out)"),
            "{long}"
        );
    }

    #[test]
    fn an_unreadable_log_shows_its_error_instead_of_a_line() {
        let log = |name: &str, line: Result<&str, &str>| Log {
            workload: format!("Deployment/{name}"),
            pod: format!("{name}-0"),
            container: "app".to_owned(),
            line: line.map(str::to_owned).map_err(str::to_owned),
        };
        let logs = [log("web", Ok("no database")), log("api", Err("forbidden"))];
        assert_eq!(
            text(&logs, Output::plain()),
            "\nLogs of crashed containers\n\
             OBJECT           POD     CONTAINER   LAST LINE\n\
             Deployment/web   web-0   app         no database\n\
             Deployment/api   api-0   app         <unknown: forbidden>\n"
        );
        assert_eq!(text(&[], Output::plain()), "");
        let value = value(&logs);
        assert_eq!(value[0]["line"], "no database");
        assert_eq!(value[1]["note"], "forbidden");
    }
}
