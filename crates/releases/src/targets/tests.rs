//! The status of targets and of their clusters.

use std::collections::BTreeMap;

use baton_apis::{conditions::EventReason, *};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    reasons::{Cause::*, Vocabulary::*},
    *,
};
use crate::{capacity as pods, traffic as endpoints};

const NOW: Timestamp = Timestamp::constant(100, 0);

fn update(vocabulary: Vocabulary) -> Update {
    Update {
        vocabulary,
        now: NOW,
        ignores_offline: false,
    }
}

/// The conditions as text: type, status, reason, message.
fn text_of(conditions: &[ShipperCondition]) -> String {
    let one = |condition: &ShipperCondition| {
        let ShipperCondition {
            type_,
            status,
            reason,
            message,
            ..
        } = condition;
        format!("{type_} {status} {reason} {message}")
            .trim_end()
            .to_owned()
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(" | ")
}

fn capacity_target(clusters: &[&str]) -> CapacityTarget {
    let cluster = |name: &&str| ClusterCapacityTarget {
        name: (*name).into(),
        percent: 50,
        total_replica_count: 10,
    };
    let spec = CapacityTargetSpec {
        clusters: clusters.iter().map(cluster).collect(),
    };
    let mut target = CapacityTarget::new("r", spec);
    target.metadata.generation = Some(7);
    target
}

fn traffic_target(clusters: &[&str]) -> TrafficTarget {
    let cluster = |name: &&str| ClusterTrafficTarget {
        name: (*name).into(),
        weight: 5,
    };
    let spec = TrafficTargetSpec {
        clusters: clusters.iter().map(cluster).collect(),
    };
    let mut target = TrafficTarget::new("r", spec);
    target.metadata.generation = Some(7);
    target
}

fn installation_target(clusters: &[&str]) -> InstallationTarget {
    let spec = InstallationTargetSpec {
        clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
        ..Default::default()
    };
    InstallationTarget::new("r", spec)
}

fn planned(verdict: pods::Verdict) -> pods::Plan {
    pods::Plan {
        scale: Vec::new(),
        desired: 5,
        available: 3,
        achieved_percent: 30,
        scaled_to: 0,
        verdict,
        sad_pods: vec![SadPod::default()],
        reports: vec![CapacityReport::default()],
    }
}

fn shifted(verdict: endpoints::Verdict) -> endpoints::Plan {
    endpoints::Plan {
        enable: Vec::new(),
        disable: Vec::new(),
        achieved: 4,
        verdict,
    }
}

fn outcomes<T>(list: impl IntoIterator<Item = (&'static str, T)>) -> BTreeMap<String, T> {
    list.into_iter()
        .map(|(name, outcome)| (name.to_owned(), outcome))
        .collect()
}

/// The reasons for a cluster with a failure: in the documentation, and in the implementation. `-`
/// stands for a cluster that is not operational.
const FAILURES: &str = "
    Capacity     NoClient    -ServerError              -InternalError
    Capacity     NoCluster   -ServerError              -InternalError
    Capacity     Read        -ServerError              -InternalError
    Capacity     Missing      MissingDeployment        -InternalError
    Capacity     Write        ServerError               InternalError
    Traffic      NoClient    -ServerError              -InternalError
    Traffic      NoCluster   -ServerError              -InternalError
    Traffic      Read        -ServerError              -InternalError
    Traffic      Missing      MissingService           -InternalError
    Traffic      Write        ServerError               InternalError
    Installation NoClient    -TargetClusterClientError -InternalError
    Installation NoCluster   -TargetClusterClientError -InternalError
    Installation Read         ServerError               InternalError
    Installation Write        ServerError               InternalError
    Installation Discovery    ClientError               InternalError
    Installation UnknownKind  ClientError               UnknownError
    Installation Chart        ChartError                ChartError
    Installation Refused      UnknownError              UnknownError
";

/// The cause of the failure in clusters `a` and `b`, if any, and the unready ones in the message.
#[test]
fn clusters_without_their_agents_are_ignored_unless_there_are_no_others() {
    for (a, b, ignores_offline, expected) in [
        (None, Some(AgentLost), false, "b: ServerError no"),
        (None, Some(NoClient), true, "b: ServerError no"),
        (None, Some(AgentLost), true, ""),
        (None, Some(Write), true, "b: ServerError no"),
        (
            Some(AgentLost),
            Some(AgentLost),
            true,
            "no cluster is connected",
        ),
        (Some(AgentLost), Some(Write), true, "b: ServerError no"),
    ] {
        let outcome = |cause: Option<_>| match cause {
            None => Ok(planned(pods::Verdict::Ready)),
            Some(cause) => Err(Failure::new(cause, "no")),
        };
        let found = outcomes([("a", outcome(a)), ("b", outcome(b))]);
        let update = Update {
            ignores_offline,
            ..update(Documentation)
        };
        let status = capacity(&capacity_target(&["a", "b"]), &found, update).status;
        let ready = find(&status.conditions, READY).unwrap();
        let is_ready = ready.status == ConditionStatus::True;
        assert_eq!(is_ready, expected.is_empty(), "{a:?} {b:?}");
        assert_eq!(ready.message, expected, "{a:?} {b:?}");
    }
}

/// A cluster that was removed holds a Release only if the Release is to have something there.
#[test]
fn a_cluster_that_does_not_exist_has_nothing() {
    let gone = |cause| outcomes([("a", Err(Failure::new(cause, "gone")))]);
    for (cause, percent, expected) in [
        (NoCluster, 0, ""),
        (NoCluster, 50, "a: ServerError gone"),
        (NoClient, 0, "a: ServerError gone"),
    ] {
        let mut target = capacity_target(&["a"]);
        target.spec.clusters[0].percent = percent;
        let status = capacity(&target, &gone(cause), update(Documentation)).status;
        let ready = find(&status.conditions, READY).unwrap();
        assert_eq!(ready.message, expected, "{cause:?} {percent}");
        assert_eq!(ready.status == ConditionStatus::True, expected.is_empty());
        let operational = find(&status.clusters[0].conditions, OPERATIONAL).unwrap();
        assert_eq!(operational.message, "gone");
        let mut target = traffic_target(&["a"]);
        target.spec.clusters[0].weight = percent.unsigned_abs();
        let found = outcomes([("a", Err(Failure::new(cause, "gone")))]);
        let status = traffic(&target, &found, update(Documentation)).status;
        assert_eq!(find(&status.conditions, READY).unwrap().message, expected);
    }
}

#[test]
fn a_pass_is_incomplete_without_an_observation_of_each_cluster() {
    for (causes, expected) in [
        (vec![], false),
        (vec![None, Some(NoClient)], false),
        (vec![None, Some(NotObserved)], true),
    ] {
        let failure = |cause: &Option<_>| cause.map_or(Ok(()), |it| Err(Failure::new(it, "")));
        let outcomes = causes.iter().map(failure).enumerate();
        let outcomes = outcomes.map(|(at, outcome)| (at.to_string(), outcome));
        assert_eq!(is_incomplete(&outcomes.collect()), expected, "{causes:?}");
    }
}

#[test]
fn reasons_of_clusters_that_could_not_be_worked_in() {
    let kinds = [Kind::Capacity, Kind::Traffic, Kind::Installation];
    let causes = [
        NoCluster,
        NoClient,
        Read,
        Missing,
        Write,
        Discovery,
        UnknownKind,
        Chart,
        Refused,
    ];
    for row in FAILURES.lines().filter(|row| !row.trim().is_empty()) {
        let words: Vec<_> = row.split_whitespace().collect();
        let [kind, cause, documentation, implementation] = words[..] else {
            panic!("{row}");
        };
        let kind = *kinds
            .iter()
            .find(|found| format!("{found:?}") == kind)
            .unwrap();
        let cause = *causes
            .iter()
            .find(|found| format!("{found:?}") == cause)
            .unwrap();
        for (vocabulary, reason) in [
            (Documentation, documentation),
            (Implementation, implementation),
        ] {
            let expected = match reason.strip_prefix('-') {
                Some(reason) => format!("Operational False {reason} no | Ready Unknown"),
                None => format!("Operational True | Ready False {reason} no"),
            };
            let mut clusters = Clusters::new(kind, update(vocabulary));
            let (conditions, summary) = clusters.set("a", &[], Err(&Failure::new(cause, "no")));
            assert_eq!(text_of(&conditions), expected, "{row}");
            assert_eq!((summary.status, summary.message.as_str()), ("Failed", "no"));
        }
    }
}

#[test]
fn reasons_of_clusters_without_the_wanted_pods() {
    for (verdict, documentation, implementation) in [
        (pods::Verdict::Ready, "True", "True"),
        (
            pods::Verdict::InProgress,
            "False WrongPodCount",
            "False InProgress",
        ),
        (
            pods::Verdict::DeploymentStuck("quota".into()),
            "False WrongPodCount quota",
            "False DeploymentStuck quota",
        ),
        (
            pods::Verdict::PodsNotReady("1/5: x".into()),
            "False PodsNotReady 1/5: x",
            "False PodsNotReady 1/5: x",
        ),
    ] {
        for (vocabulary, expected) in [
            (Documentation, documentation),
            (Implementation, implementation),
        ] {
            let outcomes = outcomes([("a", Ok(planned(verdict.clone())))]);
            let updated = capacity(&capacity_target(&["a"]), &outcomes, update(vocabulary));
            let cluster = &updated.status.clusters[0];
            assert_eq!(
                text_of(&cluster.conditions),
                format!("Operational True | Ready {expected}")
            );
            assert_eq!(cluster.status, "Synced");
            assert_eq!(
                (cluster.available_replicas, cluster.achieved_percent),
                (3, 30)
            );
        }
    }
}

/// The message of a target lists the clusters that are not ready, sorted.
#[test]
fn the_message_of_a_target_lists_the_clusters_that_are_not_ready() {
    let target = capacity_target(&["d", "b", "a", "c"]);
    let outcomes = outcomes([
        ("a", Ok(planned(pods::Verdict::Ready))),
        ("b", Ok(planned(pods::Verdict::InProgress))),
        ("c", Err(Failure::new(NoClient, "no such cluster"))),
        (
            "d",
            Ok(planned(pods::Verdict::PodsNotReady("1/5: x".into()))),
        ),
    ]);
    let updated = capacity(&target, &outcomes, update(Implementation));
    let expected = "Operational True | Ready False ClustersNotReady b: InProgress; \
                    c: InternalError no such cluster; d: PodsNotReady 1/5: x";
    assert_eq!(text_of(&updated.status.conditions), expected);
    assert_eq!(updated.status.observed_generation, Some(7));
    let names: Vec<_> = updated
        .status
        .clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let events: Vec<_> = updated
        .events
        .iter()
        .map(|event| (event.reason, event.message.as_str()))
        .collect();
    assert_eq!(events.len(), 5);
    assert_eq!(
        events[0],
        (
            EventReason::ClusterCapacityConditionChanged,
            "[] -> [Operational True], [] -> [Ready True]"
        )
    );
    assert_eq!(events[4].0, EventReason::CapacityTargetConditionChanged);
}

#[test]
fn an_equal_report_does_not_change_the_status() {
    let later = Update {
        vocabulary: Documentation,
        now: Timestamp::constant(900, 0),
        ignores_offline: false,
    };
    let mut target = capacity_target(&["a", "b"]);
    let found = outcomes([
        ("a", Ok(planned(pods::Verdict::InProgress))),
        ("b", Err(Failure::new(Read, "no"))),
    ]);
    let first = capacity(&target, &found, update(Documentation));
    target.status = Some(first.status.clone());
    let second = capacity(&target, &found, later);
    assert_eq!((second.status, second.events), (first.status, vec![]));

    let mut target = traffic_target(&["a"]);
    let found = outcomes([("a", Ok(shifted(endpoints::Verdict::InProgress)))]);
    let first = traffic(&target, &found, update(Documentation));
    target.status = Some(first.status.clone());
    let second = traffic(&target, &found, later);
    assert_eq!((second.status, second.events), (first.status, vec![]));
}

/// Unknown values of a cluster stay unchanged, and clusters that left the spec are removed.
#[test]
fn unreachable_clusters_keep_their_reported_numbers() {
    let mut target = capacity_target(&["a", "b"]);
    let found = outcomes(["a", "b"].map(|name| (name, Ok(planned(pods::Verdict::Ready)))));
    target.status = Some(capacity(&target, &found, update(Documentation)).status);
    target.spec.clusters.remove(0);
    let lost = outcomes([("b", Err(Failure::new(NoClient, "gone")))]);
    let updated = capacity(&target, &lost, update(Documentation));
    let [cluster] = &updated.status.clusters[..] else {
        panic!("one cluster");
    };
    assert_eq!(
        (cluster.name.as_str(), cluster.available_replicas),
        ("b", 3)
    );
    assert_eq!(
        (cluster.status.as_str(), cluster.message.as_str()),
        ("Failed", "gone")
    );
    assert_eq!(
        text_of(&updated.status.conditions),
        "Operational True | Ready False ClustersNotReady b: ServerError gone"
    );
}

#[test]
fn traffic_of_clusters() {
    let verdict = endpoints::Verdict::PodsNotReady {
        pods: 1,
        enabled: 3,
    };
    let found = outcomes([
        ("a", Ok(shifted(verdict))),
        ("b", Ok(shifted(endpoints::Verdict::Ready))),
    ]);
    let updated = traffic(&traffic_target(&["a", "b"]), &found, update(Documentation));
    let message = "1/3 pods designated to receive traffic are not ready";
    let expected =
        format!("Operational True | Ready False ClustersNotReady a: PodsNotReady {message}");
    assert_eq!(text_of(&updated.status.conditions), expected);
    assert_eq!(updated.status.clusters[0].achieved_traffic, 4);
    let expected = format!("Operational True | Ready False PodsNotReady {message}");
    assert_eq!(text_of(&updated.status.clusters[0].conditions), expected);
    assert_eq!(updated.status.clusters[0].status, "Synced");
}

/// A strategy must not take a report about the old spec for a report about the new one.
#[test]
fn a_spec_whose_weights_are_not_known_is_not_observed() {
    let mut target = traffic_target(&["a"]);
    let found = outcomes([("a", Ok(shifted(endpoints::Verdict::Ready)))]);
    target.status = Some(traffic(&target, &found, update(Documentation)).status);
    target.metadata.generation = Some(8);
    let updated = traffic_unknown(&target, "why", update(Documentation));
    assert_eq!(
        text_of(&updated.status.conditions),
        "Operational False InternalError why | Ready True"
    );
    assert_eq!(updated.status.observed_generation, Some(7));
    assert_eq!(updated.events.len(), 1);
    let mut again = target.clone();
    again.status = Some(updated.status);
    assert_eq!(
        traffic_unknown(&again, "why", update(Documentation)).events,
        []
    );
}

/// Case I1.
#[test]
fn a_chart_that_is_installed_everywhere() {
    let done = "Operational True | Ready True";
    for clusters in [&["a"][..], &["a", "b"]] {
        let found = clusters.iter().map(|name| (*name, Ok(Progress::Installed)));
        let found: BTreeMap<_, InstallationOutcome> = found
            .map(|(name, outcome)| (name.to_owned(), outcome))
            .collect();
        let target = installation_target(clusters);
        let status = installation(&target, Ok(&found), update(Documentation)).status;
        assert_eq!(text_of(&status.conditions), done);
        for cluster in &status.clusters {
            assert_eq!(text_of(&cluster.conditions), done);
        }
        assert_eq!(status.clusters.len(), clusters.len());
    }
}

#[test]
fn installation_of_clusters() {
    let mut target = installation_target(&["b", "a", "c"]);
    let found = outcomes([
        ("a", Ok(Progress::Installed)),
        ("b", Ok(Progress::InProgress("Service web".into()))),
        (
            "c",
            Err(Failure::new(
                UnknownKind,
                "kind Zebra not found on the Kubernetes cluster",
            )),
        ),
    ]);
    let updated = installation(&target, Ok(&found), update(Documentation));
    let expected = "Operational True | Ready False ClustersNotReady b: InProgress Service web; \
                    c: ClientError kind Zebra not found on the Kubernetes cluster";
    assert_eq!(text_of(&updated.status.conditions), expected);
    let statuses: Vec<_> = updated
        .status
        .clusters
        .iter()
        .map(|cluster| cluster.status.as_str())
        .collect();
    assert_eq!(statuses, ["Installed", "", "Failed"]);

    // Without a chart no cluster is touched, and the reports on clusters stay unchanged.
    target.status = Some(updated.status.clone());
    let refused = installation(&target, Err("no such chart"), update(Documentation));
    assert_eq!(refused.status.clusters, updated.status.clusters);
    let message =
        "b: InProgress Service web; c: ClientError kind Zebra not found on the Kubernetes cluster";
    let expected = format!(
        "Operational False ChartError no such chart | Ready False ClustersNotReady {message}"
    );
    assert_eq!(text_of(&refused.status.conditions), expected);
    assert_eq!(
        refused.events[0].reason,
        EventReason::InstallationTargetConditionChanged
    );
}

#[test]
fn transition_times_move_only_with_the_status() {
    let old = Some(Time(Timestamp::constant(1, 0)));
    let previous = |status| {
        vec![ShipperCondition {
            type_: READY.into(),
            status,
            last_transition_time: old.clone(),
            ..Default::default()
        }]
    };
    for (status, expected) in [
        (ConditionStatus::False, old.clone()),
        (ConditionStatus::True, Some(Time(NOW))),
    ] {
        let mut clusters = Clusters::new(Kind::Capacity, update(Documentation));
        let (conditions, _) = clusters.set(
            "a",
            &previous(status),
            Ok((false, Some(Reason::InProgress), "")),
        );
        assert_eq!(
            find(&conditions, READY).unwrap().last_transition_time,
            expected
        );
    }
}

#[test]
fn a_strategy_waits_for_targets_that_become_ready() {
    let said = |text: &str| -> Vec<ShipperCondition> {
        let one = |part: &str| {
            let (type_, status) = part.split_once('=').unwrap();
            serde_json::from_value(serde_json::json!({
                "type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        text.split_whitespace().map(one).collect()
    };
    let (waits, ready) = (
        "Operational=True Ready=False",
        "Operational=True Ready=True",
    );
    let broken = "Operational=False Ready=True";
    for (present, new, expected) in [
        ((None, ""), (Some(1), waits), false),
        ((None, ""), (Some(1), ready), true),
        ((None, ""), (Some(1), broken), true),
        ((Some(1), waits), (Some(1), waits), false),
        ((Some(1), waits), (Some(2), waits), false),
        ((Some(1), waits), (Some(1), ready), true),
        ((Some(1), ready), (Some(1), ready), false),
        ((Some(1), ready), (Some(2), ready), true),
        ((Some(1), ready), (Some(2), waits), false),
        (
            (Some(1), waits),
            (Some(1), "Operational=False Ready=False"),
            true,
        ),
    ] {
        let is_awaited = is_awaited((present.0, &said(present.1)), (new.0, &said(new.1)));
        assert_eq!(is_awaited, expected, "{present:?} {new:?}");
    }
}
