//! A revision in full: its description and its manifests, with the values of Secrets masked.

use baton_cluster::{Cluster, lists};
use baton_pages::{html::Text, subject::ChainSubject};
use baton_text::{
    diff::{object_title, yaml},
    output::Output,
    revision::describe,
};
use baton_view::{
    chain::member::Revision,
    diff::{Pair, clean::clean},
};
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

use super::Report;
use crate::{
    failure::Failure,
    subject::{number, within},
};

/// The size of all manifests that are shown, in bytes.
const MAX_SIZE: usize = 4 * 1024 * 1024;

/// Shows a revision of a chain by its number; the current one if it is empty.
///
/// # Errors
/// If there is no such revision, or it cannot be read.
pub(crate) async fn report(
    cluster: &Cluster,
    base: &str,
    subject: &ChainSubject,
    revision: &str,
) -> Result<Report, Failure> {
    let cluster = within(subject, cluster);
    let chain = lists::chain(&cluster, &subject.target).await?;
    let shown = baton_steering::diff::second(&chain, number(revision)?)?;
    let slices = lists::slices(&cluster, [shown]).await?;
    let content = slices.content(shown);
    let is_current = chain.current().map(Revision::uid) == Some(shown.uid());
    let text = describe(
        shown,
        &content,
        is_current,
        Output::default(),
        Timestamp::now(),
    );
    let of = shown
        .number()
        .map_or_else(String::new, |of| format!("?to={of}"));
    let mut left = MAX_SIZE;
    let manifests: Vec<Markup> = content
        .placed()
        .map(|(phase, object)| {
            let pair = Pair::new(None, Some(clean(object.manifest.clone())));
            let text = yaml(pair.after());
            let is_shown = text.len() <= left;
            left -= if is_shown { text.len() } else { 0 };
            html! {
                details {
                    summary { (Text(&object_title(&object.key))) " " span.dim { "phase " (Text(&phase.name)) } }
                    @if is_shown {
                        pre tabindex="0" { (Text(&text)) }
                    } @else {
                        p.note { (text.len()) " bytes are too much for this page: kubectl shows them" }
                    }
                }
            }
        })
        .collect();
    let name = shown.target().to_string();
    let chain_address = subject.address(base);
    let markup = html! {
        h1 { "Revision " (Text(&name)) }
        p {
            "Of the chain of " a href=(chain_address) { (Text(&subject.target.to_string())) } ". "
            a href={ (chain_address) "/diff" (of) } { "Differences from the revision before" } ", "
            a href={ (chain_address) "/diff" (of) @if of.is_empty() { "?" } @else { "&" } "from=live" } {
                "differences from the cluster"
            }
        }
        pre.description tabindex="0" { (Text(&text)) }
        section.manifests {
            h2 { "Manifests" }
            @if manifests.is_empty() { p { "The revision has no objects." } }
            @for manifest in &manifests { (manifest) }
        }
    };
    Ok(Report {
        title: format!("Revision {name}"),
        content: markup,
    })
}
