//! The figures of chains of revisions.

use super::table::{fixed, or_empty, served, table};
use crate::figures::chain::Chain;
use crate::load::Shape;

/// The number and shape of the chains.
pub(super) fn head(chain: &Chain, shape: &Shape) -> String {
    let chains = chain.shape;
    format!(
        "{} ObjectDeployments of {} phases with {} ConfigMaps of {} bytes: {} objects, and {} edits of all \
         of them.",
        chains.deployments,
        shape.phases,
        shape.per_phase,
        shape.pad,
        chains.objects(shape),
        chains.edits
    )
}

/// The meaning of the figures in the table of steps.
pub(super) const NOTES: &str = "\
     chain: until the last deployment is idle in its latest generation, its newest revision is\n\
     available and every older one archived. p50, p99, max: of each deployment, from the answer to\n\
     its creation or edit until then. All deployments are edited side by side, and again when the\n\
     last one has settled. edit after a restart: one of them is edited as soon as the restarted\n\
     manager is ready, while all others wait for their first reconcile.";

/// The tables about edits.
pub(super) fn tables(chain: &Chain) -> String {
    let growth = chain.growth().map_or_else(String::new, |growth| {
        format!("\nThe line through the edits rises by {growth:.2} KiB for each archived revision.")
    });
    format!(
        "Chain: edit by edit, and the manager's resident memory once it is calm\n{}{growth}\n\n\
         Chain: requests for each edit of a deployment, as the API server counts them\n{}\n\
         On ConfigMaps {:.2} for each object. Those of the bench are left out. The server does not report the client: \
         a GET that is\nnot among the requests by verb is of the garbage collector, which looks at revisions whose \
         objects\nchange owners. Refused: answered with a failure, such as a conflict.",
        rounds(chain),
        served(&[("", &chain.served)], |requests| fixed(
            chain.per_edit(requests),
            2
        )),
        chain.requests_per_object(),
    )
}

fn rounds(chain: &Chain) -> String {
    let header = ["edit", "objects", "s", "obj/s", "archived", "MiB"];
    let rows = chain.rounds.iter().enumerate().map(|(edit, round)| {
        vec![
            match edit {
                0 => "none yet".to_owned(),
                edit => edit.to_string(),
            },
            round.timing.objects.to_string(),
            fixed(round.timing.seconds, 2),
            fixed(round.timing.rate, 0),
            round.archived.to_string(),
            or_empty(round.memory, 2),
        ]
    });
    table(&header, rows)
}
