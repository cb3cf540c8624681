//! `history`: the revisions of a chain, or a single one in full.

mod application;
mod site;

use baton_cluster::lists;
use baton_steering::rollback::numbered;
use baton_terminal::output::{Print as _, report};
use baton_text::{
    output::{
        Output, Paint,
        format::{Format, objects},
        table::{Cell, Table},
    },
    revision::describe,
    time::age,
};
use baton_view::chain::{
    Chain,
    member::{Revision, State},
    target::Target,
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    subject::{self, Subject, TargetArg},
};

/// List the revisions of a deployment or of a chain, or print one of them
///
/// An asterisk marks the current revision, which was created from the present template of the
/// deployment. For an Application of Shipper (app/NAME), lists its Releases by generation. For a
/// deployment to sites (sitedeploy/NAME), lists its rollouts, with the number of sites that have a
/// revision of each and the number that run its version. For an application for sites
/// (siteapp/NAME), lists the kept versions.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Deployment or revision of the chain
    #[command(flatten)]
    target: TargetArg,

    /// Print the revision with this number in full, or the Release of this generation
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    revision: Option<i64>,

    /// Format for programs, instead of a table
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

pub(crate) async fn run(args: &HistoryArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    match Subject::parse(&args.target.words, &subject::ALL)? {
        Subject::Chain(target) => of_chain(&target, args, global).await,
        Subject::Application(target) => application::run(&target, args, global).await,
        Subject::SiteDeployment(target) | Subject::SiteApplication(target) => {
            site::run(&target, args, global).await
        }
    }
}

async fn of_chain(target: &Target, args: &HistoryArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let chain = lists::chain(&cluster, target).await?;
    let now = Timestamp::now();
    let text = match (args.revision, args.output) {
        (None, Some(format)) => {
            let all: Vec<Value> = chain
                .revisions
                .iter()
                .map(|one| one.object.clone())
                .collect();
            objects(format, &all, false)
        }
        (None, None) if chain.revisions.is_empty() => {
            report(&format!("{target} has no revisions yet"));
            String::new()
        }
        (None, None) => table(&chain, output, now),
        (Some(number), Some(format)) => {
            let revision = numbered(&chain, number)?;
            objects(format, std::slice::from_ref(&revision.object), true)
        }
        (Some(number), None) => {
            let revision = numbered(&chain, number)?;
            let slices = lists::slices(&cluster, [revision]).await?;
            let is_current = is_current(&chain, revision);
            describe(revision, &slices.content(revision), is_current, output, now)
        }
    };
    output.print(&text)?;
    Ok(Exit::Fine)
}

fn is_current(chain: &Chain, revision: &Revision) -> bool {
    let current = chain.current().map(Revision::uid);
    current == Some(revision.uid())
}

/// The table of a chain: one line per revision, oldest first.
fn table(chain: &Chain, output: Output, now: Timestamp) -> String {
    let mut table = Table::new(&[
        "",
        "REVISION",
        "NAME",
        "STATE",
        "SUCCEEDED",
        "AGE",
        "CHANGE-CAUSE",
    ]);
    for revision in &chain.revisions {
        let is_current = is_current(chain, revision);
        let number = revision
            .number()
            .map_or_else(|| "<none>".to_owned(), |number| number.to_string());
        let name = if is_current {
            Cell::painted(Paint::Strong, revision.name())
        } else {
            revision.name().into()
        };
        let succeeded = if revision.has_succeeded() {
            "True"
        } else {
            "False"
        };
        table.row([
            Cell::from(if is_current { "*" } else { "" }),
            number.into(),
            name,
            state(revision),
            succeeded.into(),
            age(revision.created(), now).into(),
            revision.change_cause().unwrap_or("<none>").into(),
        ]);
    }
    table.render(output)
}

fn state(revision: &Revision) -> Cell {
    let state = revision.state();
    let paint = match state {
        State::Available => Paint::Good,
        State::NotReady => Paint::Bad,
        State::Pending | State::Paused | State::Archiving | State::Deleting => Paint::Warn,
        State::Archived => Paint::Dim,
    };
    Cell::painted(paint, state.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(text: &str) -> Revision {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        object["apiVersion"] = "package-operator.run/v1alpha1".into();
        object["kind"] = "ObjectSet".into();
        Revision::parse(object).unwrap()
    }

    fn condition(type_: &str, status: &str) -> String {
        format!(
            "{{type: {type_}, status: '{status}', reason: R, message: '', lastTransitionTime: '2026-08-01T00:00:00Z'}}"
        )
    }

    #[test]
    fn the_current_revision_is_marked() {
        let now: Timestamp = "2026-08-01T01:00:00Z".parse().unwrap();
        let set = |name: &str, minutes: u8, rest: &str| {
            let created = format!("2026-08-01T00:{minutes:02}:00Z");
            revision(&format!(
                "{{metadata: {{name: {name}, uid: {name}, creationTimestamp: '{created}', {rest}}}"
            ))
        };
        let chain = Chain {
            revisions: vec![
                set(
                    "web-v1",
                    0,
                    &format!(
                        "annotations: {{kubernetes.io/change-cause: first try}}}}, spec: {{revision: 1, \
                             lifecycleState: Archived}}, status: {{conditions: [{}, {}]}}",
                        condition("Archived", "True"),
                        condition("Succeeded", "True")
                    ),
                ),
                set(
                    "web-v2",
                    30,
                    "annotations: {}}, spec: {revision: 2, lifecycleState: Paused}",
                ),
                set(
                    "web-v3",
                    59,
                    &format!(
                        "annotations: {{}}}}, spec: {{revision: 3}}, status: {{conditions: [{}]}}",
                        condition("Available", "False")
                    ),
                ),
                set("web-v4", 59, "annotations: {}}, spec: {}"),
            ],
            ..Chain::default()
        };
        assert_eq!(
            table(&chain, Output::plain(), now),
            "    REVISION   NAME     STATE      SUCCEEDED   AGE   CHANGE-CAUSE\n\
             \x20   1          web-v1   Archived   True        60m   first try\n\
             \x20   2          web-v2   Paused     False       30m   <none>\n\
             \x20   3          web-v3   NotReady   False       60s   <none>\n\
             *   <none>     web-v4   Pending    False       60s   <none>\n"
        );
    }

    #[test]
    fn a_revision_that_does_not_exist() {
        let chain = Chain {
            revisions: vec![revision("{metadata: {name: a}, spec: {revision: 1}}")],
            ..Chain::default()
        };
        assert_eq!(
            numbered(&chain, 7).unwrap_err().to_string(),
            "revision 7 does not exist; there is only revision 1"
        );
    }
}
