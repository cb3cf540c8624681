//! `redeploy`: selects the sites of a deployment again.

use baton_steering::{note, sites};
use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::{Exit, pause::for_each_target};
use crate::{
    args::GlobalArgs,
    error::Error,
    subject::{Subject, SubjectKind},
};

/// Select the sites of a deployment to sites again
///
/// A deployment to sites (sitedeploy/NAME) selects its sites when it is changed, and not when
/// labels of sites change or sites join, unless it has `placement.follow`. Sites that match now get
/// its version; sites that do not match any more have its objects taken down.
#[derive(Clone, Debug, Args)]
pub(crate) struct RedeployArgs {
    /// SiteDeployments: sitedeploy/NAME or NAME
    #[arg(value_name = "SITEDEPLOYMENT", required = true)]
    words: Vec<String>,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &RedeployArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let subjects = Subject::parse_all(&args.words, &[SubjectKind::SiteDeployment])?.into_iter();
    let targets: Result<Vec<_>, _> = subjects.map(Subject::site_deployment).collect();
    for_each_target(&targets?, global, async |cluster, target| {
        sites::redeploy(cluster, target, Timestamp::now(), args.dry_run).await?;
        Ok(format!(
            "{} selects its sites again{}",
            target.full(),
            note(args.dry_run)
        ))
    })
    .await
}
