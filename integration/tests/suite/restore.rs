//! A cluster whose etcd is restored from a backup, while the manager has observed later changes.

use baton_integration::application::reason;
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{Fleet, settings, spec, version};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PULL, PUSH, Site};

use crate::agent::Pulled;

/// Number of changes of each object after the restore. Each change is an event.
const TOUCHES: usize = 3;

both_scopes! {
    objects_of_a_restored_revision_are_no_strays;
}

/// A revision was archived after the backup, and the manager has observed its end.
///
/// After the restore its objects are live again. The resource versions of the cluster may exceed
/// the old ones before or after the manager detects the restore.
async fn objects_of_a_restored_revision_are_no_strays(scope: Scope) {
    // A run stops and starts a control plane four times, so each scope covers one case.
    let writes = match scope {
        Scope::Namespaced => 400,
        Scope::Cluster => 0,
    };
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    let objects = |number: i64| {
        ["shared", "own"].map(|name| match name {
            "own" => configmap(&format!("own-{number}")),
            name => configmap(name).data("from", &number.to_string()),
        })
    };
    ns.revision(1).phase("a", objects(1)).available().await;
    // Another revision has the same kinds, so they are watched all the time.
    ns.set("other")
        .phase("a", [configmap("other")])
        .available()
        .await;
    let before = [ns.live(&objects(1)[0]).await, ns.live(&objects(1)[1]).await];
    let snapshot = bed.snapshot().await;

    ns.revision(2).phase("a", objects(2)).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.gone(&objects(1)[1]).await;
    for write in 0..writes {
        let patch = json!({ "data": { "write": write.to_string() } });
        ns.merge(&configmap("other"), &patch).await;
    }
    bed.restore(&snapshot).await;

    let is_unchanged = async || {
        for (entry, before) in objects(1).iter().zip(&before) {
            match ns.get(entry).await {
                Some(live) if uid(&live) == uid(before) => {}
                _ => return false,
            }
        }
        true
    };
    for touch in 0..TOUCHES {
        for entry in &objects(1) {
            let patch = json!({ "metadata": { "labels": { "touched": touch.to_string() } } });
            ns.merge(entry, &patch).await;
        }
        ns.stays(Duration::from_secs(4), "the objects are live", is_unchanged)
            .await;
    }
    // The manager continues with the restored objects.
    ns.revision(2).phase("a", objects(2)).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.gone(&objects(1)[1]).await;
    let shared = ns.live(&objects(1)[0]).await;
    assert_eq!(uid(&shared), uid(&before[0]));
    let log = std::fs::read_to_string(bed.manager().log().path()).unwrap();
    assert!(
        !log.contains("was created after its owner had ended"),
        "a stray"
    );
}

/// A revision that the backup lacks has left its objects in another cluster. Only a revision of its
/// chain takes them over: here the revision of that name, which is applied again.
#[tokio::test]
async fn objects_of_a_forgotten_revision_are_taken_over_by_its_chain() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let class = joined.class();
    let delivered = configmap("delivered").within(ns.name());
    let snapshot = bed.snapshot().await;
    let set = |name: &str, data: &str| {
        let object = delivered.clone().data("k", data);
        ns.set(name).delegated("a", &class, [object])
    };
    set("web", "v1").available().await;
    let before = site.live(&ns, &delivered).await;
    bed.restore(&snapshot).await;
    // A manager with a lease ends by itself.
    bed.take_manager().kill();
    bed.start_manager();

    let collides = [Because("Available", "False", "CollisionDetected")];
    set("other", "v2").create().await;
    let other = ns.reaches("other", &collides).await;
    let message = other.message("Available");
    let named = format!(
        "controlled by ObjectSetPhase {}/web-a, which does not exist in this hub any more",
        ns.name()
    );
    assert!(message.contains(&named), "{message}");
    set("web", "v3").available().await;
    let after = site.live(&ns, &delivered).await;
    assert_eq!(
        (uid(&after), &after["data"]["k"]),
        (uid(&before), &json!("v3"))
    );
}

/// The hub has forgotten two versions of an application, and the site has the later one. The site keeps
/// its workload, the hub reports that, and the next version takes the objects over.
async fn the_chain_of_a_site_continues_after_the_hub_has_forgotten_versions(index: usize) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let site = Site::get(index).await;
    let join = site.join(&ns);
    let joined = if index == PULL { join.pull() } else { join };
    let joined = joined.create().await;
    let agent = match index {
        PULL => Some(joined.agent().start().await),
        _ => None,
    };
    joined.becomes("Connected", "True").await;
    fleet.add(&joined).await;
    let [first, third, fourth] = ["1.0.0", "1.2.0", "1.3.0"].map(|version| {
        let settings = settings().data("version", version).data("other", version);
        let added = configmap("added")
            .data("version", version)
            .data("other", version);
        match version {
            "1.0.0" => spec(version, &[settings]),
            _ => spec(version, &[settings, added]),
        }
    });
    fleet.application(&first).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let snapshot = bed.snapshot().await;
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 1).await;
    fleet.application(&third).await;
    fleet.complete("web", "1.2.0", 1).await;
    let read = async || {
        let [one, two] = [settings(), configmap("added")];
        [site.live(&ns, &one).await, site.live(&ns, &two).await].map(|mut live| {
            json!({ "uid": uid(&live).to_owned(), "version": live["data"]["version"].take() })
        })
    };
    let before = read().await;
    bed.restore(&snapshot).await;
    bed.take_manager().kill();
    bed.start_manager();

    let is_reported = async || {
        let revisions = fleet.revisions("web", &joined).await;
        revisions
            .last()
            .is_some_and(|it| reason(it, "Available")[0] == "CollisionDetected")
    };
    ns.eventually(
        "the hub to report that the site has another version",
        is_reported,
    )
    .await;
    assert_eq!(read().await, before);
    fleet.application(&fourth).await;
    fleet.complete("web", "1.3.0", 1).await;
    let after = before.map(|before| json!({ "uid": before["uid"], "version": "1.3.0" }));
    assert_eq!(read().await, after);
    drop(agent);
}

#[tokio::test]
async fn the_chain_of_a_push_site_continues_after_the_hub_has_forgotten_versions() {
    the_chain_of_a_site_continues_after_the_hub_has_forgotten_versions(PUSH).await;
}

#[tokio::test]
async fn the_chain_of_a_pull_site_continues_after_the_hub_has_forgotten_versions() {
    the_chain_of_a_site_continues_after_the_hub_has_forgotten_versions(PULL).await;
}

/// The hub is restored while an agent runs, and the agent is not restarted. Its heartbeat goes on, it
/// follows the restored state, and it gets changes that are made later.
///
/// In the second round the agent sees the hub again only after the resource versions of the hub have
/// exceeded those that the agent had seen before.
#[tokio::test]
async fn an_agent_follows_a_hub_that_was_restored() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let joined = Site::get(PULL).await.join(&ns).pull().create().await;
    let hub = joined.hub_endpoint();
    let line = Proxy::start(hub.address).await;
    let agent = joined.agent().hub(&hub.at(line.address())).start().await;
    joined.becomes("Connected", "True").await;
    let pulled = Pulled { agent, joined, ns };
    let ns = &pulled.ns;
    ns.create(&configmap("other")).await;
    let (class, succeeded) = (pulled.class(), [Is("Succeeded", "True")]);
    let delivered = |round: u8, data: &str| configmap(&format!("cm-{round}")).data("k", data);
    for round in [0, 1] {
        ns.set(&format!("before-{round}"))
            .revision(1)
            .delegated("a", &class, [delivered(round, "v1")])
            .reaching(&succeeded)
            .await;
    }
    // A server that has no watches stops sooner.
    line.set(Mode::Cut).await;
    bed.take_manager().kill();
    let snapshot = bed.snapshot().await;
    bed.start_manager();
    line.set(Mode::Pass).await;

    for (round, writes) in [(0, 0), (1, 400)] {
        let [before, after] = ["before", "after"].map(|name| format!("{name}-{round}"));
        // The mirror and the heartbeat object get newer versions, which the agent has seen.
        beats(&pulled).await;
        ns.set_lifecycle(&before, "Paused").await;
        ns.reaches(&before, &[Is("Paused", "True")]).await;
        beats(&pulled).await;
        if writes > 0 {
            line.set(Mode::Cut).await;
            bed.take_manager().kill();
            bed.restore(&snapshot).await;
        } else {
            bed.restore(&snapshot).await;
            // A manager with a lease ends by itself.
            bed.take_manager().kill();
        }
        for write in 0..writes {
            let patch = json!({ "data": { "write": write.to_string() } });
            ns.merge(&configmap("other"), &patch).await;
        }
        line.set(Mode::Pass).await;
        bed.start_manager();

        beats(&pulled).await;
        // The revision is not paused in the restored state.
        pulled.is_repaired(&delivered(round, "v1")).await;
        ns.set(&after)
            .previous(&[&before])
            .delegated("a", &class, [delivered(round, "v2")])
            .reaching(&succeeded)
            .await;
        let taken = pulled.live(&delivered(round, "v2")).await;
        assert_eq!(taken["data"]["k"], "v2");
    }
}

/// Waits until the hub has a heartbeat that the agent writes from now on.
async fn beats(pulled: &Pulled) {
    let heartbeat = object("package-operator.run/v1alpha1", "ObjectSetPhase", "agent");
    let heartbeat = heartbeat.within(&pulled.joined.mirrors()).manifest;
    // The times of conditions are in whole seconds.
    let now = jiff::Timestamp::now().as_second();
    let is_current = async || {
        let live = pulled.ns.cluster().get(&heartbeat).await.unwrap();
        let time = live.pointer("/status/conditions/0/lastTransitionTime");
        let time = time.and_then(Value::as_str).unwrap_or_default();
        let time = time.parse::<jiff::Timestamp>();
        time.is_ok_and(|time| time.as_second() > now)
    };
    pulled.ns.eventually("a new heartbeat", is_current).await;
    pulled.joined.becomes("Connected", "True").await;
}
