//! `history` of an Application: all of its Releases, or a single one in full.

use baton_terminal::output::{Print as _, report};
use baton_text::{
    application::{history::table, refusal::refused},
    diff::yaml,
    output::format::objects,
};
use baton_view::applications::{steer::of_generation, target::AppTarget};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::HistoryArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error, wait::application::read};

pub(crate) async fn run(
    target: &AppTarget,
    args: &HistoryArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let observed = read(&cluster, target).await?;
    let releases = observed.releases();
    let object = |name: Option<&str>| observed.release_object(name.unwrap_or_default()).clone();
    let text = match (args.revision, args.output) {
        (None, Some(format)) => {
            let all: Vec<Value> = releases
                .iter()
                .map(|(_, release)| object(release.metadata.name.as_deref()))
                .collect();
            objects(format, &all, false)
        }
        (None, None) if releases.is_empty() => {
            report(&format!("{target} has no releases yet"));
            String::new()
        }
        (None, None) => table(&observed, output, Timestamp::now()),
        (Some(number), format) => {
            let history = observed.known_history();
            let member = of_generation(history.members(), number);
            let member =
                member.map_err(|refusal| Error::Impossible(refused(&observed, &refusal)))?;
            let release = object(Some(member.name()));
            match format {
                Some(format) => objects(format, &[release], true),
                None => yaml(Some(&described(&release))),
            }
        }
    };
    output.print(&text)?;
    Ok(Exit::Fine)
}

/// The parts of a Release that users look for.
fn described(release: &Value) -> Value {
    json!({
        "name": release["metadata"]["name"],
        "created": release["metadata"]["creationTimestamp"],
        "targetStep": release["spec"]["targetStep"],
        "environment": release["spec"]["environment"],
        "status": release["status"],
    })
}
