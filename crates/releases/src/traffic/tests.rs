//! Decisions about traffic.

use std::collections::BTreeMap;

use baton_apis::{ClusterTrafficTarget, TrafficTarget, TrafficTargetSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::json;

use super::{label, selector::wanted, *};

/// A Release in a cluster: its pods are `<name>-<index>`; the first ones have the label.
struct Release {
    name: &'static str,
    weight: u32,
    pods: usize,
    enabled: usize,
    /// Number of pods with the label that are ready addresses; those after them are addresses that
    /// are not ready.
    ready: usize,
    not_ready: usize,
}

fn release(name: &'static str, weight: u32, pods: usize, enabled: usize) -> Release {
    Release {
        name,
        weight,
        pods,
        enabled,
        ready: enabled,
        not_ready: 0,
    }
}

struct World {
    weights: Weights,
    names: Vec<(String, &'static str, bool)>,
    endpoints: Endpoints,
    selector: Selector,
}

impl World {
    fn new(releases: &[Release]) -> Self {
        let mut names = Vec::new();
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        for release in releases {
            for pod in 0..release.pods {
                let name = format!("{}-{pod}", release.name);
                if pod < release.ready {
                    ready.push(name.clone());
                } else if pod < release.ready + release.not_ready {
                    not_ready.push(name.clone());
                }
                names.push((name, release.name, pod < release.enabled));
            }
        }
        Self {
            weights: releases
                .iter()
                .map(|release| (release.name.to_owned(), release.weight))
                .collect(),
            names,
            endpoints: Endpoints::new(
                ready.iter().map(String::as_str),
                not_ready.iter().map(String::as_str),
            ),
            selector: Selector::Label,
        }
    }

    fn with<T>(&self, decide: impl FnOnce(Cluster) -> T) -> T {
        let pods: Vec<_> = self
            .names
            .iter()
            .map(|(name, release, enabled)| Pod {
                name,
                release,
                enabled: *enabled,
            })
            .collect();
        decide(Cluster {
            weights: &self.weights,
            pods: &pods,
            endpoints: &self.endpoints,
            selector: &self.selector,
        })
    }

    fn plan(&self, release: &str) -> Plan {
        self.with(|cluster| plan(release, cluster))
    }

    /// Changes the labels as planned; then all pods that the Service selects become ready
    /// addresses.
    fn act(&mut self) {
        for release in self.weights.clone().keys() {
            self.label(release);
        }
        self.selector = self.with(wanted);
        self.observe();
    }

    /// Changes the labels of the pods of a Release as planned.
    fn label(&mut self, release: &str) {
        let plan = self.plan(release);
        for (name, _, enabled) in &mut self.names {
            *enabled = (*enabled || plan.enable.contains(name)) && !plan.disable.contains(name);
        }
    }

    /// Sets the addresses to the pods that the Service selects.
    fn observe(&mut self) {
        self.endpoints = Endpoints::new(self.served(), []);
    }

    /// Replaces a pod by one without the label.
    fn replace(&mut self, pod: usize) {
        let count = self.names.len();
        self.names[pod % count].2 = false;
    }

    /// Number of pods that should have traffic.
    fn wanted(&self) -> usize {
        let total = total(&self.weights);
        let of = |(release, weight): (&String, &u32)| {
            let pods = self.names.iter().filter(|(_, of, _)| of == release);
            target_pods(pods.count(), self.names.len(), *weight, total)
        };
        self.weights.iter().map(of).sum()
    }

    /// The pods that the Service selects.
    fn served(&self) -> Vec<&str> {
        let serves = |(_, release, enabled): &&(String, &str, bool)| match &self.selector {
            Selector::Label => *enabled,
            Selector::Release(selected) => selected == release,
        };
        self.names
            .iter()
            .filter(serves)
            .map(|(name, ..)| name.as_str())
            .collect()
    }
}

/// Checks the plan for a Release. `expected` is the number of pods that get the label, the number
/// that lose it, `achievedTraffic`, and the verdict.
fn check(releases: &[Release], name: &str, expected: (usize, usize, u32, Verdict)) {
    let plan = World::new(releases).plan(name);
    let found = (
        plan.enable.len(),
        plan.disable.len(),
        plan.achieved,
        plan.verdict,
    );
    assert_eq!(found, expected, "{name}");
}

#[test]
fn the_number_of_labelled_pods_follows_the_weights() {
    use Verdict::{InProgress, Ready};
    check(&[release("a", 1, 10, 0)], "a", (10, 0, 0, InProgress));
    // Halves are rounded up.
    check(&[release("a", 1, 10, 5)], "a", (5, 0, 1, InProgress));
    check(&[release("a", 0, 10, 5)], "a", (0, 5, 0, InProgress));
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        check(
            &names.map(|name| release(name, 10, 5, 5)),
            name,
            (0, 0, 10, Ready),
        );
    }
    let two = || [release("a", 100, 10, 10), release("b", 100, 1, 1)];
    check(&two(), "a", (0, 4, 182, InProgress));
    check(&two(), "b", (0, 0, 18, Ready));
}

#[test]
fn pods_get_labels_before_others_lose_them() {
    use Verdict::{InProgress, Ready};
    check(&[release("a", 0, 0, 0)], "a", (0, 0, 0, Ready));
    check(&[release("a", 0, 1, 0)], "a", (0, 0, 0, Ready));
    check(&[release("a", 10, 10, 0)], "a", (10, 0, 0, InProgress));
    check(&[release("a", 10, 10, 10)], "a", (0, 0, 10, Ready));
    let two = || [release("old", 0, 10, 10), release("new", 1, 10, 0)];
    check(&two(), "new", (10, 0, 0, InProgress));
    // The Release keeps its traffic until the others have theirs.
    check(&two(), "old", (0, 0, 1, InProgress));
    let served = [release("old", 0, 10, 10), release("new", 1, 10, 10)];
    check(&served, "old", (0, 10, 1, InProgress));
    let not_ready = Release {
        ready: 2,
        not_ready: 1,
        ..release("a", 10, 3, 3)
    };
    let verdict = Verdict::PodsNotReady {
        pods: 1,
        enabled: 3,
    };
    check(&[not_ready], "a", (0, 0, 7, verdict));
}

#[test]
fn pods_are_changed_in_the_order_of_their_names() {
    let plan = World::new(&[release("a", 100, 10, 10), release("b", 100, 1, 1)]).plan("a");
    assert_eq!(plan.disable, ["a-0", "a-1", "a-2", "a-3"]);
    let plan = World::new(&[release("a", 1, 4, 2), release("b", 1, 2, 2)]).plan("a");
    assert_eq!(plan.enable, ["a-2"]);
}

/// The last three rows have the right labels: pods are missing, pods are not ready, and more pods
/// than those with the label get traffic.
#[test]
fn missing_traffic_is_reported_with_its_reason() {
    let check =
        |ready: &[&str], not_ready: &[&str], weight, expected: (bool, Option<Reason>, &str)| {
            let mut world = World::new(&[release("a", weight, 3, if weight > 0 { 3 } else { 0 })]);
            world.endpoints = Endpoints::new(ready.iter().copied(), not_ready.iter().copied());
            let (status, reason, message) = world.plan("a").verdict.condition();
            assert_eq!((status, reason, message.as_str()), expected);
        };
    check(&["a-0", "a-1", "a-2"], &[], 1, (true, None, ""));
    let message = "2/3 pods designated to receive traffic are not yet in endpoints";
    check(
        &["a-0"],
        &[],
        1,
        (false, Some(Reason::PodsNotInEndpoints), message),
    );
    let message = "1/3 pods designated to receive traffic are not ready";
    check(
        &["a-0"],
        &["a-1"],
        1,
        (false, Some(Reason::PodsNotReady), message),
    );
    let message = "2 pods no longer designated to receive traffic are still in endpoints";
    check(
        &["a-0", "a-1"],
        &["a-2"],
        0,
        (false, Some(Reason::PodsDraining), message),
    );
}

/// With 100 pods, 7 of 100 are 7, not 8.
#[test]
fn numbers_of_pods_are_exact() {
    for (release, application, weight, total, expected) in [
        (100, 100, 7, 100, 7),
        (100, 100, 0, 100, 0),
        (100, 100, 1, 1000, 1),
        (3, 100, 50, 100, 3),
        (10, 10, 1, 0, 0),
        (
            usize::MAX,
            usize::MAX,
            u32::MAX,
            u64::from(u32::MAX),
            usize::MAX,
        ),
        (0, 5, 1, 1, 0),
    ] {
        assert_eq!(target_pods(release, application, weight, total), expected);
    }
    for (ready, application, total, expected) in [
        (10, 11, 200, 182),
        (1, 2, 1, 1),
        (1, 3, 1, 0),
        (0, 0, 100, 0),
        (5, 0, 100, 0),
        (usize::MAX, 1, u64::MAX, u32::MAX),
    ] {
        assert_eq!(achieved_traffic(ready, application, total), expected);
    }
}

fn target(name: &str, release: Option<&str>, clusters: &[(&str, u32)]) -> TrafficTarget {
    let cluster = |&(name, weight): &(&str, u32)| ClusterTrafficTarget {
        name: name.into(),
        weight,
    };
    let mut target = TrafficTarget::new(
        name,
        TrafficTargetSpec {
            clusters: clusters.iter().map(cluster).collect(),
        },
    );
    target.metadata.namespace = Some("ns".into());
    let label = release.map(|release| (LABEL_RELEASE.to_owned(), release.to_owned()));
    target.metadata.labels = Some(label.into_iter().collect());
    target
}

#[test]
fn weights_are_those_of_the_targets_that_list_the_cluster() {
    let targets = [
        target("one", Some("a"), &[("x", 3), ("y", 5)]),
        target("two", Some("b"), &[("y", 7)]),
    ];
    let expected = |pairs: &[(&str, u32)]| -> Weights {
        pairs
            .iter()
            .map(|&(name, weight)| (name.to_owned(), weight))
            .collect()
    };
    let expected = [
        ("x".to_owned(), expected(&[("a", 3)])),
        ("y".to_owned(), expected(&[("a", 5), ("b", 7)])),
    ];
    assert_eq!(weights(&targets), Ok(BTreeMap::from(expected)));
}

#[test]
fn ambiguous_or_unlabelled_traffic_targets_are_refused() {
    let error = weights(&[target("one", None, &[])]).unwrap_err();
    let expected = "TrafficTarget \"ns/one\" needs a \"shipper-release\" label in order to select resources in the \
                    target clusters";
    assert_eq!(error.to_string(), expected);
    let targets = [target("two", Some("a"), &[]), target("one", Some("a"), &[])];
    let error = weights(&targets).unwrap_err();
    assert_eq!(
        error.to_string(),
        "multiple TrafficTargets for the same release \"ns/a\": [one two]"
    );
}

#[test]
fn labels_are_added_or_replaced() {
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let patch = |op| {
        let path = "/metadata/labels/shipper-traffic-status";
        Some(json!({"op": op, "path": path, "value": "enabled"}))
    };
    for (found, expected) in [
        (labels(&[]), patch("add")),
        (labels(&[("other", "x")]), patch("add")),
        (labels(&[("shipper-traffic-status", "enabled")]), None),
        (
            labels(&[("shipper-traffic-status", "disabled"), ("other", "x")]),
            patch("replace"),
        ),
        (
            labels(&[("shipper-traffic-status", "odd")]),
            patch("replace"),
        ),
    ] {
        let patch = label::patch(&found, true);
        assert_eq!(patch.map(|operation| json!(operation)), expected);
        assert_eq!(label::is_enabled(&found), expected.is_none());
    }
    assert_eq!(
        label::patch(&labels(&[("shipper-traffic-status", "disabled")]), false),
        None
    );
}

#[test]
fn addresses_are_pods_by_name() {
    let endpoint = |kind: &str, name: &str, conditions: serde_json::Value| {
        let target = json!({"kind": kind, "name": name});
        json!({"addresses": [], "targetRef": target, "conditions": conditions})
    };
    let slice = |endpoints: serde_json::Value| -> EndpointSlice {
        serde_json::from_value(json!({"addressType": "IPv4", "endpoints": endpoints})).unwrap()
    };
    let slices = [
        slice(json!([
            endpoint("Pod", "ready", json!({"ready": true})),
            endpoint("Pod", "unsaid", json!({})),
            endpoint("Pod", "starts", json!({"ready": false})),
            endpoint("Pod", "ends", json!({"ready": false, "serving": true, "terminating": true})),
            endpoint("Pod", "half", json!({"ready": false})),
            endpoint("Node", "node", json!({"ready": true})),
            {"addresses": []},
        ])),
        slice(json!([endpoint("Pod", "half", json!({"ready": true}))])),
    ];
    let expected = Endpoints::new(["ready", "unsaid", "half"], ["starts"]);
    assert_eq!(Endpoints::of_slices(&slices), expected);
}

#[test]
fn selectors_are_read_and_written() {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let by_label = map(&[
        ("shipper-app", "app"),
        ("shipper-traffic-status", "enabled"),
    ]);
    let by_name = map(&[("shipper-app", "app"), ("shipper-release", "a")]);
    let both = map(&[
        ("shipper-release", "a"),
        ("shipper-traffic-status", "enabled"),
    ]);
    let named = Selector::Release("a".into());
    assert_eq!(Selector::of(&by_label), Selector::Label);
    assert_eq!(Selector::of(&by_name), named);
    assert_eq!(Selector::of(&both), Selector::Label);
    for selector in [&by_label, &by_name] {
        assert_eq!(Selector::Label.within(selector), by_label);
        assert_eq!(named.within(selector), by_name);
        assert_eq!(Selector::of(selector).within(selector), *selector);
    }
    assert_eq!(Selector::Label.within(&both).get("shipper-release"), None);
    assert_eq!(named.within(&both), map(&[("shipper-release", "a")]));
}

#[test]
fn the_service_names_the_release_that_has_all_the_traffic() {
    let check = |releases: &[Release], selector: Selector, expected: Selector| {
        let mut world = World::new(releases);
        world.selector = selector;
        assert_eq!(world.with(wanted), expected);
    };
    let named = |name: &str| Selector::Release(name.into());
    let all = || release("new", 100, 3, 3);
    check(&[all()], Selector::Label, named("new"));
    check(
        &[all(), release("old", 0, 3, 0)],
        Selector::Label,
        named("new"),
    );
    // Two Releases have traffic, none has, or the labels do not match the weights yet.
    check(
        &[all(), release("old", 1, 3, 1)],
        Selector::Label,
        Selector::Label,
    );
    check(&[release("new", 0, 3, 0)], Selector::Label, Selector::Label);
    check(
        &[all(), release("old", 0, 3, 1)],
        Selector::Label,
        Selector::Label,
    );
    check(
        &[release("new", 100, 3, 2)],
        Selector::Label,
        Selector::Label,
    );
    // The pods of the Release may not exist yet.
    check(
        &[release("new", 100, 0, 0), release("old", 0, 3, 0)],
        Selector::Label,
        named("new"),
    );
    // The Release stays selected while pods come and go, until the labels match another weight.
    check(&[release("new", 100, 3, 1)], named("new"), named("new"));
    check(
        &[all(), release("old", 100, 3, 0)],
        named("new"),
        named("new"),
    );
    check(
        &[all(), release("old", 100, 3, 3)],
        named("new"),
        Selector::Label,
    );
    // A Release that does not exist is not selected any more.
    check(&[release("old", 100, 3, 3)], named("new"), Selector::Label);
}

/// While the Service selects a Release by name, a pod that replaces another gets the label, and
/// traffic as before.
#[test]
fn labels_follow_while_the_service_names_a_release() {
    let mut world = World::new(&[release("a", 100, 3, 2)]);
    world.selector = Selector::Release("a".into());
    world.endpoints = Endpoints::new(world.served(), []);
    let plan = world.plan("a");
    assert_eq!(
        (plan.enable, plan.verdict),
        (vec!["a-2".to_owned()], Verdict::Ready)
    );
    // While the Service selects by label, the label of a ready pod stays unchanged.
    world.selector = Selector::Label;
    assert_eq!(world.plan("a").enable, [""; 0]);
}

proptest! {
    /// For all earlier weights, and while pods come and go: some pod has traffic at every moment,
    /// if one had it before, and in the end the numbers match the weights.
    #[test]
    fn traffic_shifts_between_weights_without_a_gap(
        pods in prop::array::uniform3(1_usize..6),
        rollout in prop::collection::vec(prop::array::uniform3(0_u32..4), 1..5),
    ) {
        let names = ["a", "b", "c"];
        let releases: Vec<_> = names.iter().zip(pods).map(|(name, pods)| release(name, 0, pods, 0)).collect();
        let mut world = World::new(&releases);
        let mut had_traffic = false;
        for weights in rollout {
            let wanted = weights.iter().any(|&weight| weight > 0);
            world.weights = names.iter().map(|&name| name.to_owned()).zip(weights).collect();
            let fewest = world.served().len().min(world.wanted());
            for _ in 0..8 {
                world.act();
                prop_assert!(world.served().len() >= fewest);
                if wanted && had_traffic {
                    prop_assert!(!world.served().is_empty());
                }
            }
            had_traffic = wanted;
            for name in names {
                prop_assert_eq!(world.plan(name).verdict, Verdict::Ready, "{}", name);
            }
            let single = weights.iter().filter(|&&weight| weight > 0).count() == 1;
            prop_assert_eq!(world.selector != Selector::Label, single);
        }
    }

    /// A rollout forth and back, with passes in any order, and all pods of a Release replaced at
    /// any time while the Service selects it by name: some pod has traffic at every moment.
    #[test]
    fn replaced_pods_get_traffic_before_they_are_labelled(
        pods in (1_usize..4, 1_usize..4),
        passes in prop::collection::vec(prop::collection::vec(0_u8..5, 0..12), 9),
    ) {
        let mut world = World::new(&[release("a", 1, pods.0, pods.0), release("b", 0, pods.1, 0)]);
        world.act();
        prop_assert_eq!(&world.selector, &Selector::Release("a".into()));
        let rollout = [(1, 0), (1, 1), (0, 1), (1, 1), (1, 0), (1, 3), (0, 3), (1, 3), (1, 0)];
        for ((a, b), passes) in rollout.into_iter().zip(passes) {
            world.weights = Weights::from([("a".to_owned(), a), ("b".to_owned(), b)]);
            let fewest = world.served().len().min(world.wanted());
            let mut is_replaced = false;
            for pass in passes {
                match pass {
                    0 => world.label("a"),
                    1 => world.label("b"),
                    2 => world.selector = world.with(wanted),
                    3 => world.observe(),
                    _ if world.selector != Selector::Label => {
                        (0..world.names.len()).for_each(|pod| world.replace(pod));
                        is_replaced = true;
                    }
                    _ => {}
                }
                let served = world.served().len();
                prop_assert!(served >= fewest || is_replaced, "after {pass} at {a}/{b}: {:?}", world.names);
                prop_assert!(!world.served().is_empty(), "after {pass} at {a}/{b}: {:?}", world.names);
            }
            for _ in 0..8 {
                world.act();
                prop_assert!(!world.served().is_empty());
            }
            prop_assert_eq!(world.plan("a").verdict, Verdict::Ready);
            prop_assert_eq!(world.plan("b").verdict, Verdict::Ready);
        }
    }
}
