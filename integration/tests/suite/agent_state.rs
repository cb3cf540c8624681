//! The state of an agent on its disk, and the agent's behaviour if the state is damaged, outdated,
//! or of another cluster.

use std::path::Path;

use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PULL, Site};

use crate::agent::{Pulled, settings};

/// Ways to damage a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Truncated,
    Flipped,
    Empty,
    Foreign,
}

impl Damage {
    const ALL: [Self; 4] = [Self::Truncated, Self::Flipped, Self::Empty, Self::Foreign];

    fn apply_to(self, path: &Path) {
        let mut content = std::fs::read(path).unwrap();
        let half = content.len() / 2;
        match self {
            Self::Truncated => content.truncate(half),
            Self::Flipped => content[half] ^= 1,
            Self::Empty => content.clear(),
            Self::Foreign => content = b"{\"apiVersion\":\"v1\"}".to_vec(),
        }
        std::fs::write(path, content).unwrap();
    }
}

/// Returns the number of the agent's warnings about its state file.
fn warnings(pulled: &Pulled) -> usize {
    let file = pulled.agent.log().about("mirrors.json", usize::MAX);
    let warned = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
    file.lines().filter(warned).count()
}

/// The damage is reported, and the agent uses the objects of the hub.
#[tokio::test]
async fn a_damaged_state_is_reported_and_nothing_is_lost() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    let set = pulled.ns.revision(1);
    set.delegated("a", &pulled.class(), [settings()])
        .create()
        .await;
    let wanted = [Is("Succeeded", "True")];
    pulled.ns.reaches("v1", &wanted).await;
    let mut before = pulled.live(&settings()).await;
    for damage in Damage::ALL {
        let warnings_before = warnings(&pulled);
        pulled.agent.stop();
        damage.apply_to(&pulled.agent.state());
        let damaged = std::fs::read(pulled.agent.state()).unwrap();
        pulled.agent.start();
        pulled
            .ns
            .eventually("the damage to be reported", async || {
                warnings(&pulled) > warnings_before
            })
            .await;
        pulled
            .ns
            .eventually("the agent to be ready", async || pulled.agent.is_ready())
            .await;
        assert_eq!(pulled.live(&settings()).await, before, "{damage:?}");
        pulled.is_repaired(&settings()).await;
        pulled.ns.reaches("v1", &wanted).await;
        let after = pulled.live(&settings()).await;
        assert_eq!(uid(&after), uid(&before), "{damage:?}");
        before = after;
        // The state is written again although nothing has changed, so the next start reports no
        // damage.
        is_replaced(&pulled, &damaged).await;
        let stored = pulled
            .joined
            .because("StateStored", "StateWasDamaged")
            .await;
        assert_eq!(stored["status"], "True");
        let warnings_before = warnings(&pulled);
        pulled.agent.kill();
        pulled.agent.start();
        pulled
            .ns
            .eventually("the agent to be ready", async || pulled.agent.is_ready())
            .await;
        assert_eq!(warnings(&pulled), warnings_before, "{damage:?}");
        assert_eq!(pulled.live(&settings()).await, before, "{damage:?}");
    }
}

/// Without the hub and without a valid state, an agent changes nothing.
#[tokio::test]
async fn a_damaged_state_without_the_hub_changes_nothing() {
    let (mut pulled, line) = Pulled::behind_a_proxy().await;
    pulled.deliver([settings()]).await;
    for damage in Damage::ALL {
        line.set(Mode::Cut).await;
        pulled.agent.stop();
        damage.apply_to(&pulled.agent.state());
        let drift = json!({ "data": { "k": "drifted" } });
        let drifted = pulled.merge(&settings(), &drift).await;
        let warnings_before = warnings(&pulled);
        pulled.agent.start();
        pulled
            .ns
            .eventually("the damage to be reported", async || {
                warnings(&pulled) > warnings_before
            })
            .await;
        let untouched = async || pulled.live(&settings()).await == drifted;
        pulled
            .ns
            .stays(Duration::from_secs(1), "it does not guess", untouched)
            .await;
        line.set(Mode::Pass).await;
        let after = pulled
            .object_becomes(&settings(), "repaired", |live| live["data"]["k"] == "v")
            .await;
        assert_eq!(uid(&after), uid(&drifted), "{damage:?}");
        pulled.ns.reaches("v1", &[Is("Available", "True")]).await;
    }
}

/// The state of another cluster, from a mixed-up volume, is not used.
#[tokio::test]
async fn the_state_of_another_cluster_is_not_used() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).named("one").pull().create().await;
    let other = site.join(&ns).named("other").pull().create().await;
    let hub = joined.hub_endpoint();
    let line = Proxy::start(hub.address).await;
    let agent = joined.agent().hub(&hub.at(line.address())).start().await;
    let mut theirs = other.agent().start().await;
    let mut pulled = Pulled { agent, joined, ns };
    let (mine, foreign) = (settings(), configmap("theirs").data("k", "v"));
    for (name, class, entry) in [
        ("one", pulled.class(), &mine),
        ("other", other.class(), &foreign),
    ] {
        let set = pulled.ns.set(name).revision(1);
        set.delegated("a", &class, [entry.clone()]).create().await;
        pulled.ns.reaches(name, &[Is("Succeeded", "True")]).await;
    }
    theirs.stop();
    pulled.agent.stop();
    line.set(Mode::Cut).await;
    std::fs::copy(theirs.state(), pulled.agent.state()).unwrap();
    let their_state = std::fs::read(pulled.agent.state()).unwrap();
    let drift = json!({ "data": { "k": "drifted" } });
    let drifted = pulled.merge(&foreign, &drift).await;
    let warnings_before = warnings(&pulled);
    pulled.agent.start();
    pulled
        .ns
        .eventually("the mistake to be reported", async || {
            warnings(&pulled) > warnings_before
        })
        .await;
    let untouched = async || pulled.live(&foreign).await == drifted;
    pulled
        .ns
        .stays(Duration::from_secs(1), "it is another's", untouched)
        .await;
    line.set(Mode::Pass).await;
    pulled.is_repaired(&mine).await;
    assert_eq!(pulled.live(&foreign).await, drifted);
    theirs.start();
    pulled
        .object_becomes(&foreign, "repaired", |live| live["data"]["k"] == "v")
        .await;
    // The file is not replaced either: the other agent may need it.
    let stored = pulled
        .joined
        .because("StateStored", "StateOfOtherCluster")
        .await;
    let message = stored["message"].as_str().unwrap();
    assert!(
        message.contains("mirrors.json is the state of the agent of cluster"),
        "{message}"
    );
    assert!(
        message.contains("delete the file if the other agent is gone"),
        "{message}"
    );
    assert_eq!(std::fs::read(pulled.agent.state()).unwrap(), their_state);
    std::fs::remove_file(pulled.agent.state()).unwrap();
    pulled.joined.because("StateStored", "StateWritten").await;
}

/// The agent is pointed to another hub, whose list of phases is complete without those of the state.
/// A phase that is missing there was not deleted: its objects stay. The state is kept until a revision
/// names the hub as lost.
#[tokio::test]
async fn the_state_of_another_hub_deletes_nothing_and_is_kept() {
    const HUB: &str = "11111111-2222-4333-8444-555555555555";
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).named("one").pull().create().await;
    let other = site.join(&ns).named("other").pull().create().await;
    let hub = joined.hub_endpoint();
    let line = Proxy::start(hub.address).await;
    let agent = joined.agent().hub(&hub.at(line.address())).start().await;
    let mut theirs = other.agent().start().await;
    let mut pulled = Pulled { agent, joined, ns };
    let (mine, foreign) = (settings(), configmap("theirs").data("k", "v"));
    for (name, class, entry) in [
        ("one", pulled.class(), &mine),
        ("other", other.class(), &foreign),
    ] {
        let set = pulled.ns.set(name).revision(1);
        set.delegated("a", &class, [entry.clone()]).create().await;
        pulled.ns.reaches(name, &[Is("Succeeded", "True")]).await;
    }
    theirs.stop();
    pulled.agent.stop();
    let state = std::fs::read_to_string(theirs.state()).unwrap();
    let (header, body) = state.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    assert_ne!(header["hub"], "", "the hub is known");
    header["cluster"] = serde_json::from_str::<Value>(
        std::fs::read_to_string(pulled.agent.state())
            .unwrap()
            .lines()
            .next()
            .unwrap(),
    )
    .unwrap()["cluster"]
        .clone();
    header["hub"] = HUB.into();
    header["checksum"] = crc32fast::hash(format!("{HUB}{}", body.trim()).as_bytes()).into();
    let state = format!("{header}\n{body}");
    std::fs::write(pulled.agent.state(), &state).unwrap();

    // Until the hub is reachable, it may be the hub of the state.
    line.set(Mode::Cut).await;
    pulled.agent.start();
    pulled.is_repaired(&foreign).await;
    line.set(Mode::Pass).await;
    let stored = pulled
        .joined
        .because("StateStored", "StateOfOtherHub")
        .await;
    let message = stored["message"].as_str().unwrap();
    assert!(message.contains(&format!("of the hub {HUB}")), "{message}");
    assert!(message.contains("baton.run/lost-hubs"), "{message}");
    let read = |pulled: &Pulled| std::fs::read_to_string(pulled.agent.state()).unwrap();
    let kept = read(&pulled);
    assert!(kept.contains(HUB) && kept.contains("theirs"), "{kept}");
    pulled.is_repaired(&mine).await;
    let drift = json!({ "data": { "k": "drifted" } });
    let drifted = pulled.merge(&foreign, &drift).await;
    let untouched = async || pulled.live(&foreign).await == drifted;
    let text = "the objects of the other hub are left alone";
    pulled
        .ns
        .stays(Duration::from_secs(2), text, untouched)
        .await;
    assert_eq!(read(&pulled), kept);

    let lost = json!({ "metadata": { "annotations": { "baton.run/lost-hubs": HUB } } });
    let one = pulled.ns.set_ref("one");
    pulled.ns.cluster().merge(&one, &lost).await.unwrap();
    pulled.joined.because("StateStored", "StateWritten").await;
    assert_eq!(pulled.live(&foreign).await, drifted);
    theirs.start();
    pulled
        .object_becomes(&foreign, "repaired", |live| live["data"]["k"] == "v")
        .await;
}

/// The directory of the state cannot be written to, as on a full disk: a file is in its place. The
/// agent delivers nevertheless, reports the disk, and uses it once it can.
#[tokio::test]
async fn an_agent_without_a_disk_delivers_and_reports_it() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).pull().create().await;
    let mut agent = joined.agent().prepare().await;
    let directory = agent.state().parent().unwrap().to_owned();
    std::fs::write(&directory, "").unwrap();
    agent.start();
    let pulled = Pulled { agent, joined, ns };
    pulled.deliver([settings()]).await;
    let stored = pulled.joined.becomes("StateStored", "False").await;
    assert_eq!(stored["reason"], "StateNotWritten");
    let message = stored["message"].as_str().unwrap();
    assert!(message.contains(&*directory.to_string_lossy()), "{message}");
    assert!(message.contains("Free or enlarge the disk"), "{message}");
    pulled.joined.becomes("Connected", "True").await;
    pulled.is_repaired(&settings()).await;
    let attempts = pulled
        .agent
        .log()
        .about("the state cannot be written, trying again", usize::MAX);
    assert_eq!(attempts.lines().count(), 1, "{attempts}");

    std::fs::remove_file(&directory).unwrap();
    let stored = pulled.joined.becomes("StateStored", "True").await;
    assert_eq!(
        (&stored["reason"], &stored["message"]),
        (&json!("StateWritten"), &json!(""))
    );
    assert!(pulled.agent.state().exists());
    pulled.ns.reaches("v1", &[Is("Available", "True")]).await;
}

/// The state is from before the last rollout, as from a backup of the volume, and the hub is
/// reachable. The agent reads the phases of the hub before it writes.
#[tokio::test]
async fn an_agent_with_a_stale_state_reads_the_hub_before_it_writes() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    let old_state = roll_out_two_revisions(&mut pulled).await;
    pulled.agent.stop();
    std::fs::write(pulled.agent.state(), &old_state).unwrap();
    let configmaps = configmap("").within(pulled.ns.name()).manifest;
    let site = pulled.joined.site().cluster().await;
    let recording = Recording::start(&site, &configmaps, "").await;
    pulled.agent.start();
    // The repair is queued behind the work of the start.
    pulled.is_repaired(&configmap("new")).await;
    pulled.ns.reaches("v2", &[Is("Available", "True")]).await;
    let recorded = recording.so_far().await;
    let changes: Vec<_> = recorded.changes().into_iter().collect();
    assert_eq!(changes, [("new".to_owned(), 2)]);
    is_replaced(&pulled, &old_state).await;
}

/// The same without the hub. The agent takes no object back that was handed over, and follows the
/// hub once it is reachable.
#[tokio::test]
async fn an_agent_with_a_stale_state_takes_no_object_back() {
    let (mut pulled, line) = Pulled::behind_a_proxy().await;
    let old_state = roll_out_two_revisions(&mut pulled).await;
    let before = pulled.live(&configmap("shared")).await;
    pulled.agent.stop();
    std::fs::write(pulled.agent.state(), &old_state).unwrap();
    line.set(Mode::Cut).await;
    pulled.agent.start();
    let untouched = async || pulled.live(&configmap("shared")).await == before;
    pulled
        .ns
        .stays(Duration::from_secs(2), "it was handed over", untouched)
        .await;
    line.set(Mode::Pass).await;
    pulled.is_repaired(&configmap("shared")).await;
    pulled.ns.reaches("v2", &[Is("Available", "True")]).await;
    let after = pulled.live(&configmap("shared")).await;
    assert_eq!(
        (uid(&after), &after["data"]),
        (uid(&before), &before["data"])
    );
}

/// Waits until the agent has written its state.
async fn is_replaced(pulled: &Pulled, before: &[u8]) {
    let replaced = async || std::fs::read(pulled.agent.state()).unwrap() != before;
    pulled
        .ns
        .eventually("the state to be written again", replaced)
        .await;
}

/// Rolls out two revisions, and returns the state from between them.
async fn roll_out_two_revisions(pulled: &mut Pulled) -> Vec<u8> {
    let class = pulled.class();
    let ns = &pulled.ns;
    let create = async |name: &str, previous: &[&str], own: &str| {
        let objects = [configmap("shared"), configmap(own)];
        ns.set(name)
            .previous(previous)
            .delegated("a", &class, objects.map(|entry| entry.data("k", name)))
            .reaching(&[Is("Succeeded", "True")])
            .await;
    };
    create("v1", &[], "old").await;
    // The state is complete when the agent has ended.
    pulled.agent.stop();
    let state = std::fs::read(pulled.agent.state()).unwrap();
    pulled.agent.start();
    create("v2", &["v1"], "new").await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    state
}
