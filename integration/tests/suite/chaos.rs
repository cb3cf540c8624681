//! Chains of revisions whose users do not wait for any result.

use std::collections::BTreeMap;

use baton_integration::prelude::*;
use baton_integration::seed::{SEED, seeds};
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Number of concurrent chains.
const CHAINS: u64 = 4;

/// Number of steps in each chain.
const STEPS: u64 = 40;

/// Names of the objects that revisions choose from.
const POOL: [&str; 6] = ["cm-0", "cm-1", "cm-2", "cm-3", "cm-4", "cm-5"];

/// A chain with its desired state.
struct Chain<'a> {
    ns: &'a TestNamespace,
    random: StdRng,
    name: String,
    newest: i64,
    /// Existing revisions by number; true for those that are to be archived.
    revisions: BTreeMap<i64, bool>,
    /// The objects of the newest revision with their data.
    content: BTreeMap<String, String>,
}

impl<'a> Chain<'a> {
    fn new(ns: &'a TestNamespace, seed: u64) -> Self {
        Self {
            ns,
            random: StdRng::seed_from_u64(seed),
            name: format!("chain-{seed}"),
            newest: 0,
            revisions: BTreeMap::new(),
            content: BTreeMap::new(),
        }
    }

    fn set(&self, number: i64) -> String {
        format!("{}-r{number}", self.name)
    }

    fn object(&self, name: &str) -> Entry {
        configmap(&format!("{}-{name}", self.name))
    }

    /// Creates the next revision, with some of the objects in some of three phases.
    async fn roll_out(&mut self) {
        self.newest += 1;
        let name = self.set(self.newest);
        let previous: Vec<String> = self
            .revisions
            .keys()
            .map(|number| self.set(*number))
            .collect();
        let previous: Vec<&str> = previous.iter().map(String::as_str).collect();
        self.content.clear();
        let mut phases: [Vec<Entry>; 3] = Default::default();
        for candidate in POOL {
            let phase = self.random.random_range(0..5);
            if let Some(phase) = phases.get_mut(phase) {
                let object = self.object(candidate).data("from", &name);
                self.content.insert(object.name().to_owned(), name.clone());
                phase.push(object);
            }
        }
        let mut set = self.ns.set(&name).previous(&previous);
        for (at, objects) in phases.into_iter().enumerate() {
            set = set.phase(&format!("phase-{at}"), objects);
        }
        set.create().await;
        self.revisions.insert(self.newest, false);
    }

    /// Returns one of the revisions before the newest one.
    fn older(&mut self) -> Option<i64> {
        let older: Vec<i64> = self
            .revisions
            .keys()
            .copied()
            .filter(|number| *number != self.newest)
            .collect();
        (!older.is_empty()).then(|| older[self.random.random_range(0..older.len())])
    }

    async fn lifecycle(&self, number: i64, state: &str) {
        let patch = json!({ "spec": { "lifecycleState": state } });
        self.ns.patch_set(&self.set(number), &patch).await.unwrap();
    }

    /// Deletes a revision, unless it is new.
    ///
    /// The API server removes an object at once if it had no finalizer at the time of the request,
    /// even if one was added meanwhile. Then there is no teardown, and objects that the revision
    /// has already taken over have no controller.
    async fn delete(&mut self, number: i64) {
        let name = self.set(number);
        let set = self.ns.read_set(&name).await;
        if !set.has(&[Phase("Pending")]) {
            self.revisions.remove(&number);
            let set = self.ns.set_ref(&name);
            self.ns.cluster().delete(&set, "Background").await;
        }
    }

    async fn step(&mut self) {
        let victim = self.random.random_range(0..POOL.len());
        let victim = self.object(POOL[victim]);
        let reference = self.ns.reference(&victim);
        let cluster = self.ns.cluster();
        match self.random.random_range(0..10) {
            0..=2 => self.roll_out().await,
            3 => {
                if let Some(number) = self.older() {
                    self.revisions.insert(number, true);
                    self.lifecycle(number, "Archived").await;
                }
            }
            4 => {
                if let Some(number) = self.older() {
                    self.delete(number).await;
                }
            }
            5 => self.lifecycle(self.newest, "Paused").await,
            6 => self.lifecycle(self.newest, "Active").await,
            7 => {
                cluster.delete(&reference, "Background").await;
            }
            8 => {
                let drift = json!({ "data": { "from": "a user" } });
                let _ = cluster.merge(&reference, &drift).await;
            }
            _ => {
                let label = json!({ "metadata": { "labels": null } });
                let _ = cluster.merge(&reference, &label).await;
            }
        }
        let pause = Duration::from_millis(self.random.random_range(0..120));
        tokio::time::sleep(pause).await;
    }

    /// Fails unless the newest revision gets its content and all other objects are removed.
    async fn settle(&mut self) {
        self.lifecycle(self.newest, "Active").await;
        let name = self.set(self.newest);
        let done = [
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
            No("Paused"),
        ];
        self.ns.reaches(&name, &done).await;
        for number in self
            .revisions
            .keys()
            .copied()
            .filter(|number| *number != self.newest)
        {
            self.lifecycle(number, "Archived").await;
        }
        for number in self
            .revisions
            .keys()
            .filter(|number| **number != self.newest)
        {
            let archived = [Because("Archived", "True", "Archived"), Controls(&[])];
            self.ns.reaches(&self.set(*number), &archived).await;
        }
        let newest = self.ns.reaches(&name, &done).await;
        assert_eq!(newest.controller_of().len(), self.content.len());
        for candidate in POOL {
            let object = self.object(candidate);
            let Some(wanted) = self.content.get(object.name()) else {
                self.ns.gone(&object).await;
                continue;
            };
            let wanted = json!({ "from": wanted });
            let live = self
                .ns
                .object_becomes(&object, "as the newest revision wants it", |live| {
                    live["data"] == wanted
                        && is_labelled(live)
                        && owner_names(live) == [name.as_str()]
                });
            assert_managed_by(&live.await, &newest);
        }
    }
}

#[tokio::test]
async fn random_changes_settle_in_the_state_requested_last() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let seeds = seeds(CHAINS);
    println!("{SEED}={}", seeds.start);
    let ns = &ns;
    join_all(seeds.map(|seed| async move {
        let mut chain = Chain::new(ns, seed);
        chain.roll_out().await;
        for _ in 0..STEPS {
            chain.step().await;
        }
        chain.settle().await;
    }))
    .await;
}
