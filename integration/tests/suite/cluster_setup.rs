//! `baton clusters setup management`: the installation of Baton in the hub.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

use crate::cluster_commands::{baton, messages};

const ACCOUNT: &str = "shipper-mgmt-cluster";

/// The flags are those of shipperctl. A second run changes nothing, and the manager has its rights.
#[tokio::test]
async fn the_installation_is_repeatable_and_enough_for_the_manager() {
    let mut bed = Exclusive::acquire().await;
    let before = bed.snapshot().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let setup = |more: &[&str]| {
        let command = [
            "setup",
            "management",
            "--management-cluster-service-account",
            ACCOUNT,
        ];
        messages(baton(ns, None, &[&command[..], more].concat()))
    };
    let forecast = setup(&["--dry-run"]);
    assert!(
        forecast.contains("Would create deployment baton-manager\n"),
        "{forecast}"
    );
    let account = ns.reference(&object("v1", "ServiceAccount", ACCOUNT));
    assert_eq!(ns.cluster().get(&account).await, None);
    let first = setup(&[]);
    assert!(
        first.starts_with("Setting up management cluster:\n"),
        "{first}"
    );
    assert!(
        first.ends_with("Finished setting up management cluster\n"),
        "{first}"
    );
    let second = setup(&[]);
    let lines: Vec<_> = second.lines().collect();
    let steps = &lines[1..lines.len() - 1];
    assert!(steps.len() > 30, "{second}");
    let is_kept = |line: &&str| line.ends_with("... already exists. Skipping");
    let others: Vec<_> = steps.iter().filter(|line| !is_kept(line)).collect();
    assert_eq!(others, Vec::<&&str>::new());

    bed.take_manager().kill();
    bed.start_manager_as(ns.name(), ACCOUNT).await;
    ns.revision(1)
        .phase("a", [configmap("a")])
        .available()
        .await;
    bed.take_manager().kill();
    bed.restore(&before).await;
    bed.start_manager();
}
