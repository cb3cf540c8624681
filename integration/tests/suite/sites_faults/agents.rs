//! An agent that is killed while it upgrades its site.

use baton_integration::application::condition;
use baton_integration::faults::{Answer, Faults, Gate, On};
use baton_integration::fleet::{Fleet, entry, settings, spec};
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, Site};

use super::configmaps;
use crate::agent::{Pulled, remote_owners};
use crate::sites_queue::{pods, workload};

/// Returns a version of two phases. Each phase has an object that all versions share, and the
/// second phase also has an object of this version only.
fn two_phases(number: &str) -> Value {
    let object = |name: &str| {
        configmap(name)
            .data("version", number)
            .data("other", number)
    };
    let mut content = spec(number, &[object("settings")]);
    let objects = [object("second"), object(&format!("own-{number}"))].map(Entry::into_json);
    let phases = &mut content["template"]["spec"]["phases"];
    let second = json!({ "name": "second", "objects": objects });
    phases.as_array_mut().unwrap().push(second);
    content
}

/// Joins a site whose agent reaches it through a fault injector.
async fn failing() -> (Pulled, Faults) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).pull().create().await;
    let faults = Faults::start(site.endpoint()).await;
    let agent = joined.agent().site(faults.endpoint()).start().await;
    joined.becomes("Connected", "True").await;
    Fleet::new(&ns).add(&joined).await;
    (Pulled { agent, joined, ns }, faults)
}

/// True if the newest revision has this version and has begun.
async fn has_begun(pulled: &Pulled, number: &str) -> bool {
    let revisions = Fleet::new(&pulled.ns)
        .revisions("web", &pulled.joined)
        .await;
    let newest = revisions.last().unwrap();
    entry(newest)["version"] == number && condition(newest, "baton.run/Started") == "True"
}

/// Waits until the site has exactly the objects of a version, each controlled by the newest
/// revision alone.
async fn has_only_version(pulled: &Pulled, number: &str) {
    let (ns, joined) = (&pulled.ns, &pulled.joined);
    let site = joined.site().cluster().await;
    let own = format!("own-{number}");
    let mut names = [own.as_str(), "second", "settings"];
    names.sort_unstable();
    let revisions = Fleet::new(ns).revisions("web", joined).await;
    let newest = &revisions[revisions.len() - 1];
    let newest = newest["metadata"]["name"].as_str().unwrap();
    let is_so = async || {
        let mut found = configmaps(&site, ns).await;
        found.sort_by_key(|it| it["metadata"]["name"].to_string());
        let has_names = found
            .iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap())
            .eq(names);
        let is_owned = |live: &Value| {
            let owners = remote_owners(live);
            owners.len() == 1 && owners[0].1 && owners[0].0.starts_with(newest)
        };
        has_names && found.iter().all(is_owned)
    };
    ns.eventually(&format!("all of version {number} and nothing else"), is_so)
        .await;
}

/// The agent is killed between the record that an upgrade has begun and the first write; after the
/// first write is carried out but not answered; and in the middle of the second phase.
#[tokio::test]
async fn an_upgrade_continues_after_the_agent_was_killed() {
    let (mut pulled, faults) = failing().await;
    let path = format!("/namespaces/{}/configmaps/", pulled.ns.name());
    Fleet::new(&pulled.ns)
        .application(&two_phases("1.0.0"))
        .await;
    Fleet::new(&pulled.ns).deployment("web", json!({})).await;
    Fleet::new(&pulled.ns).complete("web", "1.0.0", 1).await;
    has_only_version(&pulled, "1.0.0").await;
    let identity = uid(&pulled.live(&settings()).await).to_owned();
    let points = [
        (
            "1.1.0",
            "settings",
            Answer::Held(Gate::default()),
            ["1.0.0", "1.0.0"],
        ),
        (
            "1.2.0",
            "settings",
            Answer::HangUp { carried_out: true },
            ["1.2.0", "1.1.0"],
        ),
        (
            "1.3.0",
            "second",
            Answer::Held(Gate::default()),
            ["1.3.0", "1.2.0"],
        ),
    ];
    for (number, name, answer, there) in points {
        let write = On::writes().path(&format!("{path}{name}"));
        let injected = faults.inject(write, answer);
        // An agent that observes its own write would continue, so the second phase is held back as
        // well.
        if name == "settings" {
            let second = On::writes().path(&format!("{path}second"));
            faults.inject(second, Answer::Held(Gate::default()));
        }
        Fleet::new(&pulled.ns)
            .application(&two_phases(number))
            .await;
        injected.used(1).await;
        let begun = async || has_begun(&pulled, number).await;
        pulled
            .ns
            .eventually(&format!("{number} to begin"), begun)
            .await;
        let is_there = async || {
            let mut found = Vec::new();
            for object in [settings(), configmap("second")] {
                found.push(pulled.live(&object).await["data"]["version"].clone());
            }
            found == there
        };
        pulled
            .ns
            .eventually(&format!("{there:?} in the site"), is_there)
            .await;
        pulled.agent.kill();
        faults.heal();
        pulled.agent.start();
        Fleet::new(&pulled.ns).complete("web", number, 1).await;
        has_only_version(&pulled, number).await;
    }
    assert_eq!(uid(&pulled.live(&settings()).await), identity);
}

/// The agent is also killed while the previous version stops. Nothing of the next version is
/// written before the old pods are gone.
#[tokio::test]
async fn a_stop_of_a_version_continues_after_the_agent_was_killed() {
    let (mut pulled, _faults) = failing().await;
    let content = |number: &str| {
        let mut content = two_phases(number);
        let workload = workload(&format!("web:{number}")).into_json();
        let objects = &mut content["template"]["spec"]["phases"][0]["objects"];
        objects.as_array_mut().unwrap().push(workload);
        content["upgrade"] = json!({ "method": "StopAndRestart" });
        content
    };
    Fleet::new(&pulled.ns).application(&content("1.0.0")).await;
    Fleet::new(&pulled.ns).deployment("web", json!({})).await;
    Fleet::new(&pulled.ns).complete("web", "1.0.0", 1).await;
    let are = async |pulled: &Pulled, wanted: (usize, usize), remove_finalizers: bool| {
        let (ns, joined) = (&pulled.ns, &pulled.joined);
        let text = format!("{wanted:?} pods");
        let holds = async || pods(ns, joined, remove_finalizers).await == wanted;
        ns.eventually(&text, holds).await;
    };
    are(&pulled, (1, 0), false).await;
    Fleet::new(&pulled.ns).application(&content("1.1.0")).await;
    are(&pulled, (0, 1), false).await;
    pulled.agent.kill();
    pulled.agent.start();
    let is_before = async || {
        let live = pulled.live(&workload("")).await;
        let settings = pulled.live(&settings()).await;
        let image = &live["spec"]["template"]["spec"]["containers"][0]["image"];
        let found = json!([image, live["spec"]["replicas"], settings["data"]["version"]]);
        let holds = found == json!(["web:1.0.0", 0, "1.0.0"]);
        if !holds {
            println!("{found}");
        }
        holds
    };
    pulled
        .ns
        .stays(Duration::from_secs(3), "while a pod is there", is_before)
        .await;
    pulled.agent.kill();
    are(&pulled, (0, 0), true).await;
    pulled.agent.start();
    Fleet::new(&pulled.ns).complete("web", "1.1.0", 1).await;
    are(&pulled, (1, 0), true).await;
    let live = pulled.live(&workload("")).await;
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["image"],
        "web:1.1.0"
    );
    has_only_version(&pulled, "1.1.0").await;
    // Only the test removes the finalizer of the last pod.
    pulled
        .ns
        .delete(&Fleet::kind("SiteDeployment", "web"))
        .await;
    are(&pulled, (0, 0), true).await;
}
