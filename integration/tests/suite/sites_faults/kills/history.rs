//! All changes of the rollouts, ordered by the resource versions of the API server.

use std::collections::BTreeMap;

use baton_integration::application::{condition, name};
use baton_integration::fleet::entry;
use baton_integration::prelude::*;
use baton_integration::recording::Event;

use super::fleet::{Rollout, Rollouts, given};
use crate::sites_faults::follow;
use crate::sites_faults::scenario::{Disturbance, VERSIONS};

/// A recording of the deployments and the revisions of a namespace.
pub(super) struct History {
    deployments: Recording,
    revisions: Recording,
}

/// The life of a revision, derived from its events.
#[derive(Debug, Default)]
struct Life {
    given: (String, i64, i32, bool),
    created: u64,
    started: Option<u64>,
    available: Option<u64>,
}

fn objectset(ns: &TestNamespace) -> Value {
    ns.reference(&object("package-operator.run/v1alpha1", "ObjectSet", "any"))
}

/// Returns the current resource version of the API server.
pub(super) async fn now(ns: &TestNamespace) -> u64 {
    let path = format!("/api/v1/namespaces/{}/configmaps?limit=1", ns.name());
    version(&ns.cluster().read(&path).await)
}

fn version(object: &Value) -> u64 {
    let version = &object["metadata"]["resourceVersion"];
    version.as_str().unwrap().parse().unwrap()
}

impl History {
    pub(super) async fn follow(ns: &TestNamespace) -> Self {
        Self {
            deployments: follow(ns).await,
            revisions: Recording::start(ns.cluster(), &objectset(ns), "").await,
        }
    }

    /// Fails unless in each rollout the waves follow one another, no site gets a version after the
    /// abort, no revision begins after a newer one of its site, and a manager was killed in each
    /// wave.
    pub(super) async fn assert_orderly(&self, kills: &[u64], rollouts: &Rollouts<'_>) {
        let deployments = self.deployments.so_far().await;
        let revisions = self.revisions.so_far().await;
        let mut waves = 0;
        for rollout in rollouts.all() {
            let deployment = rollout.scenario.deployment();
            let statuses = deployments
                .events
                .iter()
                .filter(|it| name(&it.object) == deployment);
            let statuses: Vec<_> = statuses.map(|it| &it.object).collect();
            let of_it = |it: &&Event| entry(&it.object)["deployment"] == *deployment;
            let sites = lives(revisions.events.iter().filter(of_it));
            waves += check(rollout, &statuses, &sites, kills);
        }
        println!("{waves} waves");
    }
}

/// Returns the created revisions of each site, the oldest first.
fn lives<'e>(events: impl Iterator<Item = &'e Event>) -> BTreeMap<String, Vec<Life>> {
    let mut by_name = BTreeMap::<(String, i64), Life>::new();
    for Event { change, object } in events {
        let site = entry(object)["site"].as_str().unwrap().to_owned();
        let number = object["spec"]["revision"].as_i64().unwrap();
        if *change == Change::Added {
            let new = Life {
                given: given(object),
                created: version(object),
                ..Life::default()
            };
            by_name.insert((site.clone(), number), new);
        }
        // The revisions of the first rollout existed before the recording.
        let Some(life) = by_name.get_mut(&(site, number)) else {
            continue;
        };
        for (type_, since) in [
            ("baton.run/Started", &mut life.started),
            ("Available", &mut life.available),
        ] {
            if since.is_none() && condition(object, type_) == "True" {
                *since = Some(version(object));
            }
        }
    }
    let mut by_site = BTreeMap::<_, Vec<_>>::new();
    for ((site, _), life) in by_name {
        by_site.entry(site).or_default().push(life);
    }
    by_site
}

/// Checks a rollout, and returns the number of its waves.
fn check(
    rollout: &Rollout,
    statuses: &[&Value],
    sites: &BTreeMap<String, Vec<Life>>,
    kills: &[u64],
) -> usize {
    let text = format!("{:?}\n{sites:#?}", rollout.scenario);
    let aborted = statuses
        .iter()
        .find(|it| condition(it, "Aborted") == "True")
        .map(|it| version(it));
    for lives in sites.values() {
        for pair in lives.windows(2) {
            // The older revision either never begins, or began earlier.
            assert!(
                pair[0]
                    .started
                    .is_none_or(|older| pair[1].started.is_none_or(|newer| older < newer)),
                "{text}"
            );
        }
    }
    let mut waves = BTreeMap::<(i64, i32), Vec<&Life>>::new();
    for life in sites.values().flatten() {
        let (version, number, batch, is_rollback) = &life.given;
        if *is_rollback {
            assert!(
                aborted.is_some_and(|aborted| aborted < life.created),
                "{text}"
            );
        } else {
            assert!(
                aborted.is_none_or(|aborted| life.created < aborted),
                "{text}"
            );
            assert_eq!(*version, VERSIONS[usize::from(*number == 2)], "{text}");
            waves.entry((*number, *batch)).or_default().push(life);
        }
    }
    let broken = matches!(rollout.scenario.trouble, Disturbance::Breaks(_));
    let mut before: Option<((i64, i32), &Vec<&Life>)> = None;
    for (id, lives) in &waves {
        let begins = lives.iter().map(|it| it.created).min().unwrap();
        if let Some(((number, batch), earlier)) = before.filter(|((number, _), _)| *number == id.0)
        {
            assert_eq!((number, batch + 1), *id, "{text}");
            let late = earlier
                .iter()
                .filter(|it| it.available.is_none_or(|since| since > begins));
            assert!(late.count() <= usize::from(broken), "{text}");
        }
        before = Some((*id, lives));
        let is_in_it = |it: &&&Value| {
            let (status, batch) = (&it["status"], &it["status"]["batch"]["number"]);
            condition(it, "Aborted") != "True" && status["rollout"] == id.0 && *batch == id.1
        };
        // While the revisions of a wave are being created, the status may still name the previous
        // wave.
        let ends = statuses.iter().skip_while(|it| version(it) < begins);
        let ends = ends.skip_while(|it| !is_in_it(it)).find(|it| !is_in_it(it));
        assert!(ends.is_some(), "{id:?} has no end\n{text}");
        let ends = version(ends.unwrap());
        let met = kills.iter().any(|kill| (begins..ends).contains(kill));
        assert!(
            met,
            "no manager was killed in {id:?}, {begins} to {ends}: {kills:?}\n{text}"
        );
    }
    waves.len()
}
