//! The checks of `doctor`.

use std::time::Duration;

use baton_apis::{
    conditions::{CONNECTED, STATE_STORED, UNIQUE},
    constants::{POLICIES, WEBHOOK},
    kinds,
};
use baton_cluster::{Cluster, ClusterError};
use baton_view::{lists::ListQuery, object::text_at};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Agent, DEFINITIONS, Manager, OWN_VERSION, agents, definitions,
    finding::{Finding, State},
    managers, rights, server_time,
};
use crate::error::Error;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// The minor versions of Kubernetes that Baton is tested with.
const TESTED: [u32; 5] = [33, 34, 35, 36, 37];
/// The largest difference between two clocks that is no finding.
const SKEW: Duration = Duration::from_secs(5);

/// Runs all checks. A check that a missing right prevents is a finding of its own, so this does not
/// fail.
///
/// `account` is the service account of the manager.
pub(crate) async fn examine(cluster: &Cluster, account: &str) -> Vec<Finding> {
    let mut findings = vec![server(cluster).await];
    match definitions::check(cluster).await {
        Ok(all) => findings.extend(all),
        Err(error) => findings.push(Finding::unknown("definitions", &error)),
    }
    findings.push(checked("admission policies", policies(cluster).await));
    let server_time = server_time(cluster).await;
    let own = server_time.map(|server| clock("clock of this machine", Timestamp::now(), server));
    let now = server_time.unwrap_or_else(Timestamp::now);
    match managers(cluster, now).await {
        Ok(managers) => {
            findings.extend(leaders(&managers, now));
            let live = managers.iter().find(|it| it.is_live);
            let manager = live.or(managers.first());
            let namespace = manager.map_or("baton-system", |it| &it.namespace);
            let clusters = manager.and_then(|it| it.clusters_namespace.as_deref());
            let reviewed = rights::check(cluster, namespace, clusters, account).await;
            findings.push(checked("rights of the manager", reviewed));
        }
        Err(error) => findings.push(Finding::unknown("leader", &error)),
    }
    findings.extend(own);
    match clusters(cluster).await {
        Ok(all) => findings.extend(all),
        Err(error) => findings.push(Finding::unknown("clusters", &error)),
    }
    match agents(cluster).await {
        Ok(all) => findings.extend(versions_of(&all)),
        Err(error) => findings.push(Finding::unknown("agents", &error)),
    }
    findings
}

fn checked(subject: &str, result: Result<Finding, Error>) -> Finding {
    result.unwrap_or_else(|error| Finding::unknown(subject, &error))
}

/// The version of Kubernetes.
async fn server(cluster: &Cluster) -> Finding {
    let subject = "API server";
    let version = match cluster.get_at("/version").await {
        Ok(version) => version.unwrap_or_default(),
        Err(error) => {
            let text = error.to_string();
            return Finding::new(subject, State::Faulty, text);
        }
    };
    let name = text_at(&version, "/gitVersion");
    let digits = |text: &str| {
        text.trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .ok()
    };
    match digits(text_at(&version, "/minor")) {
        Some(minor) if TESTED.contains(&minor) => Finding::new(subject, State::Fine, name),
        _ => {
            let tested = TESTED.map(|minor| format!("1.{minor}")).join(", ");
            let text = format!("{name}; Baton {OWN_VERSION} is tested with {tested}");
            Finding::new(subject, State::Doubtful, text)
        }
    }
}

/// The policies, and the webhook, of an installation.
async fn policies(cluster: &Cluster) -> Result<Finding, Error> {
    let subject = "admission policies";
    let releases = format!("{DEFINITIONS}/{}", kinds::RELEASE.definition());
    let has_releases = cluster.metadata_at(&releases).await?.is_some();
    let wanted = if has_releases {
        &POLICIES[..]
    } else {
        &POLICIES[..1]
    };
    let mut missing = Vec::new();
    for name in wanted {
        for kind in [
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ] {
            if cluster
                .metadata_at(&format!("{ADMISSION}/{kind}/{name}"))
                .await?
                .is_none()
            {
                missing.push(*name);
                break;
            }
        }
    }
    if !missing.is_empty() {
        let text = format!("missing: {}", missing.join(", "));
        return Ok(Finding::new(subject, State::Doubtful, text).way_out("Apply config/policy."));
    }
    let path = format!("{ADMISSION}/validatingwebhookconfigurations/{WEBHOOK}");
    let webhook = cluster.get_at(&path).await?;
    let hooks = webhook.as_ref().and_then(|it| it["webhooks"].as_array());
    let is_certified = |hook: &Value| !text_at(hook, "/clientConfig/caBundle").is_empty();
    if hooks.is_some_and(|hooks| !hooks.iter().all(is_certified)) {
        let text = format!("the webhook {WEBHOOK} has no certificate, so it is not asked");
        let way_out = "Run the manager with --webhook-addr and the rights of config/rbac/webhook.yaml, or delete the \
                       webhook.";
        return Ok(Finding::new(subject, State::Doubtful, text).way_out(way_out));
    }
    let text = if webhook.is_some() {
        "all are there, and the webhook has a certificate"
    } else {
        "all are there; there is no webhook"
    };
    Ok(Finding::new(subject, State::Fine, text))
}

/// The leader, its version, its clock and its helm, and leases that no manager holds any more.
fn leaders(managers: &[Manager], now: Timestamp) -> Vec<Finding> {
    let start = "Start a manager: `kubectl apply -f config/install.yaml`, or see its log.";
    let (live, dead): (Vec<_>, Vec<_>) = managers.iter().partition(|it| it.is_live);
    let mut findings = Vec::new();
    if managers.is_empty() {
        let text =
            "no manager has ever led here; one that runs with --leader-elect=false has no lease";
        findings.push(Finding::new("leader", State::Faulty, text).way_out(start));
    }
    for manager in dead {
        let text = idle(manager, now);
        let finding = if live.is_empty() {
            Finding::new("leader", State::Faulty, text).way_out(start)
        } else {
            let way_out = "Delete the lease if no manager is to run there; another one leads.";
            Finding::new("leader", State::Doubtful, text).way_out(way_out)
        };
        findings.push(finding);
    }
    if live.len() > 1 {
        let namespaces: Vec<_> = live.iter().map(|it| it.namespace.as_str()).collect();
        let text = format!(
            "managers lead in the namespaces {}",
            namespaces.join(" and ")
        );
        let way_out = "All write the same objects: remove all managers but those of one namespace.";
        findings.push(Finding::new("leader", State::Faulty, text).way_out(way_out));
    }
    for manager in live {
        findings.extend(about_leader(manager, now));
    }
    findings
}

/// The state of a lease without a live leader.
fn idle(manager: &Manager, now: Timestamp) -> String {
    let namespace = &manager.namespace;
    match (&manager.leader, manager.idle(now)) {
        (Some(leader), _) if !manager.is_held() => format!(
            "{leader} holds the lease in the namespace {namespace}, so no manager works: a restore of a backup runs, \
             or was interrupted, and has to run again"
        ),
        (Some(leader), Some(seconds)) => {
            format!(
                "{leader} in the namespace {namespace} has not renewed its lease for {seconds} s"
            )
        }
        (None, Some(seconds)) => {
            format!("no manager has led in the namespace {namespace} for {seconds} s")
        }
        _ => format!("no manager leads in the namespace {namespace}"),
    }
}

/// The findings about a live leader.
fn about_leader(manager: &Manager, now: Timestamp) -> Vec<Finding> {
    let leader = manager.leader.as_deref().unwrap_or_default();
    let place = format!("{leader} in the namespace {}", manager.namespace);
    let leader = if let Some(version) = &manager.version {
        of_version("leader", version, format!("{place}, version {version}"))
    } else {
        let text = format!("{place} does not report a version");
        let way_out = "It is an earlier version, or Package Operator, which uses the same lease.";
        Finding::new("leader", State::Doubtful, text).way_out(way_out)
    };
    let mut findings = vec![leader];
    let skew = SignedDuration::try_from(SKEW).unwrap_or_default();
    // It is renewed every two seconds, and is live: an old renewal is one by another clock.
    let is_other = |it: &Timestamp| it.duration_since(now) > skew || !manager.is_fresh(now);
    let renewed = manager.renewed.filter(is_other);
    findings.extend(renewed.map(|it| clock("clock of the leader", it, now)));
    if let Some(cause) = &manager.helm_missing {
        let text = format!("the leader cannot render charts: {cause}");
        let way_out = "Put helm 4 into the image, on the PATH, if you use Applications.";
        findings.push(Finding::new("helm", State::Doubtful, text).way_out(way_out));
    }
    findings
}

/// A finding about a version: fine if it is the version of this program.
fn of_version(subject: &str, version: &str, text: String) -> Finding {
    if version == OWN_VERSION {
        return Finding::new(subject, State::Fine, text);
    }
    let text = format!("{text}; this program has version {OWN_VERSION}");
    let way_out = "Use the same version of the manager, its agents and kubectl-baton.";
    Finding::new(subject, State::Doubtful, text).way_out(way_out)
}

fn versions_of(agents: &[Agent]) -> Vec<Finding> {
    let other = agents
        .iter()
        .filter(|agent| agent.version.as_deref() != Some(OWN_VERSION));
    let mut findings: Vec<_> = other
        .map(|agent| {
            let version = agent.version.as_deref().unwrap_or("unknown");
            let text = format!("the agent has version {version}");
            of_version(&format!("cluster {}", agent.cluster), version, text)
        })
        .collect();
    if findings.is_empty() && !agents.is_empty() {
        let text = format!("version {OWN_VERSION}: {}", agents.len());
        findings.push(Finding::new("agents", State::Fine, text));
    }
    findings
}

/// The Clusters that cannot be used, or one finding for all.
async fn clusters(cluster: &Cluster) -> Result<Vec<Finding>, Error> {
    let path = kinds::CLUSTER.path(None);
    let found = match cluster.list_at(&path, &ListQuery::default()).await {
        Err(ClusterError::NotServed { .. }) => return Ok(Vec::new()),
        found => found?,
    };
    let mut findings: Vec<_> = found.iter().flat_map(faults).collect();
    if findings.is_empty() && !found.is_empty() {
        let text = format!("connected: {}", found.len());
        findings.push(Finding::new("clusters", State::Fine, text));
    }
    Ok(findings)
}

/// The conditions of a Cluster that do not hold.
fn faults(cluster: &Value) -> Vec<Finding> {
    let subject = format!("cluster {}", text_at(cluster, "/metadata/name"));
    let conditions = cluster["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let faults = conditions.filter(|it| {
        let type_ = text_at(it, "/type");
        [CONNECTED, UNIQUE, STATE_STORED].contains(&type_) && it["status"] == "False"
    });
    let findings = faults.map(|condition| {
        let (type_, reason) = (text_at(condition, "/type"), text_at(condition, "/reason"));
        let text = format!(
            "{type_} is False ({reason}): {}",
            text_at(condition, "/message")
        );
        let way_out = "See \"Conditions\" on the page docs/operate/troubleshooting.md.";
        Finding::new(&subject, State::Faulty, text).way_out(way_out)
    });
    findings.collect()
}

fn clock(subject: &str, time: Timestamp, server: Timestamp) -> Finding {
    let skew = time.duration_since(server).unsigned_abs();
    // The server reports whole seconds.
    if skew <= SKEW {
        let text = "the same time as the API server";
        return Finding::new(subject, State::Fine, text);
    }
    let text = format!("{} s from that of the API server", skew.as_secs());
    Finding::new(subject, State::Doubtful, text)
        .way_out("Synchronise the clocks, for example by NTP.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_the_tested_versions() {
        let readme = include_str!("../../../README.md");
        for minor in TESTED {
            assert!(readme.contains(&format!("1.{minor}")), "1.{minor}");
        }
    }

    #[test]
    fn a_lease_of_the_past_is_faulty_only_if_no_manager_leads() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let lease = |namespace: &str, renewed| Manager {
            namespace: namespace.to_owned(),
            leader: Some("pod".to_owned()),
            version: Some(OWN_VERSION.to_owned()),
            renewed: Some(at(renewed)),
            seconds: 15,
            is_live: renewed >= 50,
            ..Manager::default()
        };
        let states = |managers: &[Manager]| {
            let found = leaders(managers, at(100));
            found.iter().map(|it| it.state).collect::<Vec<_>>()
        };
        assert_eq!(states(&[]), [State::Faulty]);
        assert_eq!(states(&[lease("old", 1)]), [State::Faulty]);
        assert_eq!(states(&[lease("a", 99)]), [State::Fine]);
        let both = [lease("old", 1), lease("a", 99)];
        assert_eq!(states(&both), [State::Doubtful, State::Fine]);
        let text = idle(&both[0], at(100));
        assert_eq!(
            text,
            "pod in the namespace old has not renewed its lease for 99 s"
        );
        // The clock of the leader is ahead, or behind.
        assert_eq!(states(&[lease("a", 110)]), [State::Fine, State::Doubtful]);
        assert_eq!(states(&[lease("a", 50)]), [State::Fine, State::Doubtful]);
        let two = [lease("a", 99), lease("b", 99)];
        assert_eq!(states(&two), [State::Faulty, State::Fine, State::Fine]);
        let restore = Manager {
            leader: Some("kubectl-baton-restore-1".to_owned()),
            is_live: false,
            ..lease("a", 99)
        };
        assert!(idle(&restore, at(100)).contains("a restore of a backup"));
    }

    #[test]
    fn a_cluster_is_faulty_by_its_conditions() {
        let cluster = |status: &str| {
            serde_json::json!({
                "metadata": {"name": "eu-1"},
                "status": {"conditions": [
                    {"type": CONNECTED, "status": status, "reason": "Unreachable", "message": "no route"},
                    {"type": "Other", "status": "False"},
                ]},
            })
        };
        let found = faults(&cluster("False"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "Connected is False (Unreachable): no route");
        assert_eq!(faults(&cluster("True")), []);
    }
}
