//! The cost of one bad revision is bounded: time, memory, requests, and the size of its status.

use std::time::Instant;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

use crate::kinds::definition;
use crate::requests::{Count, settle};

alternating_scopes! {
    long_messages_are_cut_so_that_the_status_is_written;
}

/// The names exceed the limits of servers, and the messages exceed the limit of the schema.
async fn long_messages_are_cut_so_that_the_status_is_written(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let probe = |i: usize| {
        let message = format!("{i}{}", "ä".repeat(50_000));
        cel_probe("", "ConfigMap", "self.data.ready == 'yes'", &message)
    };
    let objects = (0..20).map(|i| configmap(&format!("cm-{i}")).data("ready", "no"));
    let set = ns.revision(1).phase("a", objects);
    let set = set.probe(probe(0)).probe(probe(1)).probe(probe(2));
    let set = set
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    let message = set.message("Available");
    assert!(message.starts_with("Phase \"a\" failed: "), "{message}");
    assert!(
        message.ends_with(" bytes left out)"),
        "{} bytes",
        message.len()
    );
    let waiting = set.json["status"]["waitingFor"].as_array().unwrap();
    assert_eq!(waiting.len(), 16);
    let size = set.json["status"].to_string().len();
    assert!(size < 80 * 1024, "{size}");
    // The revision can be archived nevertheless.
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
}

/// A search for the first pattern in this text would take half a minute, and the compiled patterns
/// of the last rule would take 300 MiB.
#[tokio::test]
async fn expensive_rules_delay_no_other_revision() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    settle(&ns, &bed).await;
    let memory = || {
        bed.manager()
            .metrics()
            .sum("process_resident_memory_bytes", &[])
    };
    let before = memory().unwrap();
    let slow = cel_probe(
        "",
        "ConfigMap",
        "self.data.text.matches('a[ab]{3000}c')",
        "no",
    );
    for name in ["slow-1", "slow-2"] {
        let text = configmap(name).data("text", &"a".repeat(500_000));
        let set = ns.set(name).revision(1).phase("a", [text]);
        set.probe(slow.clone()).create().await;
    }
    let calls = (0..300).map(|i| format!("self.data.text.matches(r'\\w{{20}}x{i}')"));
    let rule = calls.collect::<Vec<_>>().join("||");
    // About 7 KiB, which is the longest allowed rule.
    let rule = rule.get(..rule.len().min(7_900)).unwrap();
    let rule = rule.rsplit_once("||").unwrap().0;
    let large = ns.set("large").revision(1).phase("a", [configmap("cm")]);
    large
        .probe(cel_probe("", "ConfigMap", rule, "no"))
        .create()
        .await;

    let slowest = std::cell::Cell::new(Duration::ZERO);
    let expensive = "CEL program failed: the rule is too expensive for this object";
    ns.eventually("all to report the error", async || {
        let start = Instant::now();
        assert!(bed.manager().is_ready());
        slowest.set(slowest.get().max(start.elapsed()));
        let mut reported = true;
        for (name, text) in [
            ("slow-1", expensive),
            ("slow-2", expensive),
            ("large", "larger than 1048576 bytes when compiled"),
        ] {
            let wanted = [Is("Available", "False"), Says("Available", text)];
            reported &= ns.read_set(name).await.has(&wanted);
        }
        reported
    })
    .await;
    let slowest = slowest.get();
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let grown = memory().unwrap() - before;
    assert!(grown < f64::from(64 << 20), "{grown} bytes more");
    // Other revisions are delivered meanwhile.
    let other = ns.set("other").revision(1).phase("a", [configmap("other")]);
    other.available().await;
}

/// The dry runs of a phase with an invalid object are repeated with a growing delay.
#[tokio::test]
async fn a_refused_phase_is_retried_with_a_growing_delay() {
    const OBJECTS: u64 = 5;
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    let dry_runs = || {
        count
            .so_far(&bed)
            .get("dry-run")
            .copied()
            .unwrap_or_default()
    };
    let wrong = configmap("wrong").with("/data", json!({ "not a key!": "v" }));
    let objects = (1..OBJECTS).map(|i| configmap(&format!("cm-{i}")));
    let set = ns
        .revision(1)
        .phase("a", [wrong].into_iter().chain(objects));
    set.reaching(&[Because("Available", "False", "PreflightError")])
        .await;
    let mut pauses = Vec::new();
    while pauses.last().is_none_or(|pause| *pause < 50) {
        assert!(
            pauses.len() < 4,
            "no pause is longer than the first: {pauses:?}"
        );
        let (start, before) = (Instant::now(), dry_runs());
        ns.within(Duration::from_mins(3))
            .eventually("the next dry runs", async || dry_runs() >= before + OBJECTS)
            .await;
        pauses.push(start.elapsed().as_secs());
    }
    // A change of kinds triggers a reconcile without that delay.
    let before = dry_runs();
    let (crd, _) = definition(&ns);
    ns.create_elsewhere(&crd).await;
    ns.within(Duration::from_secs(20))
        .eventually("dry runs after a change of kinds", async || {
            dry_runs() >= before + OBJECTS
        })
        .await;
}
