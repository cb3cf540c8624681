//! `history` of a deployment to sites: its rollouts; of an application: the kept versions.

use baton_apis::SiteApplication;
use baton_cluster::Cluster;
use baton_terminal::output::{Print as _, report};
use baton_text::{
    fleet::history::{table, value, version_table},
    output::format::{document, objects},
};
use baton_view::sites::{history::lines, observed::Observed, record::Records, target::SiteTarget};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::HistoryArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error, sites::read::read};

pub(crate) async fn run(
    target: &SiteTarget,
    args: &HistoryArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.revision.is_some() {
        let text = "--revision is for the revisions of one chain; `kubectl baton diff` compares versions, and `kubectl \
                    baton tree --site SITE` shows a site";
        return Err(Error::Usage(text.to_owned()));
    }
    let cluster = global.connect().await?;
    if target.is_application() {
        return of_application(&cluster, target, args, global).await;
    }
    of_deployment(&cluster, target, args, global).await
}

async fn of_deployment(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &HistoryArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let observed: Observed = read(cluster, target).await?;
    let application = &observed.deployment.spec.application;
    let application = SiteTarget::application(application);
    let records = read::<Records>(cluster, &application).await;
    if let Err(error) = &records {
        report(&format!(
            "warning: the kept versions cannot be read: {error}"
        ));
    }
    let lines = lines(&observed, records.as_ref().ok());
    let form = args.output.map(|format| {
        format.document().ok_or_else(|| {
            let text =
                "-o name is not for rollouts, as they are not objects; use -o json or -o yaml";
            Error::Usage(text.to_owned())
        })
    });
    let text = match form.transpose()? {
        Some(form) => document(form, &value(&lines)),
        None if lines.is_empty() => {
            report(&format!(
                "{target} has not brought any version to a site yet"
            ));
            String::new()
        }
        None => table(&lines, global.output(), Timestamp::now()),
    };
    global.output().print(&text)?;
    Ok(Exit::Fine)
}

async fn of_application(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &HistoryArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let application: SiteApplication = read(cluster, target).await?;
    let records: Records = read(cluster, target).await?;
    let text = match args.output {
        Some(format) => {
            let all: Vec<Value> = records.all().iter().map(|it| it.object.clone()).collect();
            objects(format, &all, false)
        }
        None if records.all().is_empty() => {
            report(&format!("no version of {target} is kept yet"));
            String::new()
        }
        None => version_table(
            &records,
            &application.spec.version,
            global.output(),
            Timestamp::now(),
        ),
    };
    global.output().print(&text)?;
    Ok(Exit::Fine)
}
