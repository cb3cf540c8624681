//! The figures of chains of revisions.

use comfy_table::Table;

use super::{numbers, table};
use crate::bench::figures::chain::Chain;
use crate::bench::load::Shape;
use crate::bench::served::Count;

/// What is written.
pub fn head(chain: &Chain, shape: &Shape) -> String {
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

/// What the figures in the table of steps mean.
pub const NOTES: &str = "chain: until the last deployment is idle in its latest generation, its newest revision is\n\
    available and every older one archived. p50, p99, max: of each deployment, from the answer to\n\
    its creation or edit until then. All deployments are edited side by side, and again when the\n\
    last one has settled.";

/// The tables about edits.
pub fn tables(chain: &Chain) -> String {
    let growth = chain.growth().map_or_else(String::new, |growth| {
        format!("\nThe line through the edits rises by {growth:.2} KiB for each archived revision.")
    });
    format!(
        "Chain: edit by edit, and the manager's resident memory once it is calm\n{}{growth}\n\n\
         Chain: requests for each edit of a deployment, as the API server counts them\n{}\n\
         On ConfigMaps {:.2} for each object. Those of the bench are left out. The server does not tell who asks: a GET that is\n\
         not among the requests by verb is of the garbage collector, which looks at revisions whose objects\n\
         change owners. Refused: answered with a failure, such as a conflict.",
        rounds(chain).trim_fmt(),
        served(chain).trim_fmt(),
        chain.requests_per_object(),
    )
}

fn rounds(chain: &Chain) -> Table {
    let mut table = table(&["edit", "objects", "s", "obj/s", "archived", "MiB"]);
    for (edit, round) in chain.rounds.iter().enumerate() {
        let memory = round.memory.map(|memory| format!("{memory:.2}"));
        table.add_row([
            if edit == 0 {
                "none yet".to_owned()
            } else {
                edit.to_string()
            },
            round.timing.objects.to_string(),
            format!("{:.2}", round.timing.seconds),
            format!("{:.0}", round.timing.rate),
            round.archived.to_string(),
            memory.unwrap_or_default(),
        ]);
    }
    numbers(&mut table);
    table
}

fn served(chain: &Chain) -> Table {
    let verbs = chain.served.verbs();
    let mut header = vec!["resource"];
    header.extend(&verbs);
    header.extend(["all", "refused"]);
    let mut table = table(&header);
    let per_edit = |requests: u64| match requests {
        0 => String::new(),
        requests => format!("{:.2}", chain.per_edit(requests)),
    };
    for resource in chain.served.resources() {
        let Count { sent, refused } = chain.served.about(resource);
        let mut row = vec![resource.to_owned()];
        let of = |verb: &&str| per_edit(chain.served.of(resource, verb).sent);
        row.extend(verbs.iter().map(of));
        row.extend([per_edit(sent), per_edit(refused)]);
        table.add_row(row);
    }
    numbers(&mut table);
    table
}
