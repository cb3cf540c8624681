//! A leader that continues before it has detected the loss of its lease. Only the check of each
//! write prevents a write.

use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, Gate, ObservedRequest, On, Verb};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;

use super::{FLAGS, is_leader, objects};

/// True if a request is a write that only a leader may send.
fn is_of_a_leader(request: &ObservedRequest) -> bool {
    let free = ["/namespaces/baton-system/leases", "/events"];
    request.is_write() && !free.iter().any(|path| request.path.contains(path))
}

/// A leader is stopped in the middle of a pass, and another manager becomes leader and archives the
/// revision.
///
/// Then the first one receives the answers that it waits for, and tries to write before the lease
/// thread has run.
#[tokio::test]
async fn a_replaced_leader_that_has_not_noticed_it_writes_nothing() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let leader = bed.manager_through(&faults, &FLAGS).await;
    ns.eventually("the leader to lead", async || is_leader(&leader))
        .await;
    let gate = Gate::default();
    let dry_runs = On::verb(Verb::Apply).path("/configmaps/").dry_run(true);
    let held = faults.inject(dry_runs, Answer::Held(gate.clone()));
    let cm = |at: usize| configmap(&format!("r-{at}")).label("of", "r");
    ns.set("r").phase("a", (0..20).map(cm)).create().await;
    held.used(10).await;

    let minder = leader.stall("lease");
    leader.freeze();
    let successor = Manager::spawn(bed.cluster().kubeconfig(), "stale", &FLAGS);
    ns.eventually("the successor to lead", async || is_leader(&successor))
        .await;
    ns.reaches("r", &[Is("Available", "True")]).await;
    ns.set_lifecycle("r", "Archived").await;
    ns.reaches("r", &[Is("Archived", "True")]).await;
    let before = faults.requests().len();
    gate.open();
    leader.go_on();
    let late = || faults.requests().split_off(before);
    ns.eventually("the leader to go on", async || {
        let refused = leader.log().about("may no longer hold the lease", 1);
        !refused.is_empty() || late().iter().any(is_of_a_leader)
    })
    .await;
    drop(minder);
    ns.eventually("the former leader to end", async || {
        leader.exited().is_some()
    })
    .await;
    let late: Vec<_> = late().into_iter().filter(is_of_a_leader).collect();
    assert!(late.is_empty(), "{late:#?}");
    assert_eq!(objects(&ns, "r").await, [""; 0]);
}
