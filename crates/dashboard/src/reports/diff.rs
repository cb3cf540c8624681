//! The differences of two revisions, or of a revision from the cluster.

use baton_cluster::{Cluster, lists};
use baton_pages::{html::Text, subject::ChainSubject};
use baton_steering::{
    Error,
    diff::{between, first, live::with_cluster, phase_clusters::PhaseClusters, second},
};
use baton_text::{diff::Labels, rollout::title};
use baton_view::chain::{Chain, member::Revision};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Report, sections};
use crate::{
    failure::Failure,
    subject::{number, within},
};

/// The number of revisions that can be chosen.
const MAX_CHOICES: usize = 500;

/// The sides of the comparison. They are kept in the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DiffChoice {
    /// Number of the first revision, or `live`; the one before the second if it is empty.
    from: String,
    /// Number of the second revision; the current one if it is empty.
    to: String,
}

/// Compares two revisions of a chain, or a revision with the cluster.
///
/// # Errors
/// If there are no such revisions, or they cannot be read.
pub(crate) async fn report(
    cluster: &Cluster,
    base: &str,
    subject: &ChainSubject,
    choice: &DiffChoice,
) -> Result<Report, Failure> {
    let cluster = within(subject, cluster);
    let chain = lists::chain(&cluster, &subject.target).await?;
    let is_live = choice.from == "live";
    let to = second(&chain, number(&choice.to)?)?;
    let compared = compare(&cluster, &chain, to, choice, is_live).await;
    let form = form(&chain, to, choice);
    let content = html! {
        h1 { "Differences of " a href=(subject.address(base)) { (Text(&subject.target.to_string())) } }
        (form)
        @match compared {
            Err(why) => p.message role="alert" { (Text(&why.to_string())) },
            Ok((sections, _)) if sections.is_empty() => p { "There are no differences." },
            Ok((all, labels)) => (sections(&all, &labels)),
        }
    };
    Ok(Report {
        title: format!("Differences of {}", subject.target),
        content,
    })
}

async fn compare(
    cluster: &Cluster,
    chain: &Chain,
    to: &Revision,
    choice: &DiffChoice,
    is_live: bool,
) -> Result<(Vec<baton_view::diff::Section>, Labels), Error> {
    if is_live {
        let places = PhaseClusters::only(cluster.clone());
        let labels = Labels::new("live", title(to));
        return Ok((with_cluster(&places, chain, to).await?, labels));
    }
    let wanted = number(&choice.from).map_err(|failure| Error::Usage(failure.message))?;
    let from = first(chain, to, wanted)?;
    let labels = Labels::new(title(from), title(to));
    Ok((between(cluster, chain, from, to).await?, labels))
}

/// The form that chooses the sides.
fn form(chain: &Chain, to: &Revision, choice: &DiffChoice) -> Markup {
    let numbers = chain.newest_first().filter_map(Revision::number);
    let mut numbers: Vec<i64> = numbers.take(MAX_CHOICES).collect();
    // The chosen ones can be older.
    numbers.extend(to.number());
    numbers.extend(
        choice
            .from
            .parse::<i64>()
            .ok()
            .filter(|it| chain.by_number(*it).is_some()),
    );
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
    html! {
        form.filter method="get" {
            label { "From "
                select name="from" {
                    option value="" selected[choice.from.is_empty()] { "the one before" }
                    option value="live" selected[choice.from == "live"] { "the cluster" }
                    @for number in &numbers {
                        option value=(number) selected[choice.from == number.to_string()] { "revision " (number) }
                    }
                }
            }
            label { "to "
                select name="to" {
                    @for number in &numbers {
                        option value=(number) selected[to.number() == Some(*number)] { "revision " (number) }
                    }
                }
            }
            button { "Compare" }
        }
    }
}
