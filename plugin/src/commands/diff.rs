//! `diff`: compares two revisions, a revision with the cluster, or the cluster with the effect of a
//! file.

mod application;
mod site;

use std::path::PathBuf;

use baton_cluster::lists;
use baton_steering::diff::{between, first, forecast, live::with_cluster, second};
use baton_terminal::output::{Print as _, report};
use baton_text::{
    diff::{self, Labels, json, render, warning::warning},
    output::format::{DocumentFormat, document},
    rollout::title,
};
use baton_view::{
    chain::{kind::ChainKind, target::Target},
    diff::Section,
};
use clap::Args;

use super::Exit;
use crate::{
    applications,
    args::GlobalArgs,
    diff::{
        check,
        external::External,
        input,
        phase_clusters::{self, ClusterContext},
    },
    error::Error,
    pack::input::Input,
    sites,
    subject::{self, Subject, object_name},
};

const USAGE: &str = "\
kubectl baton diff [OPTIONS] TARGET [--from NUMBER] [--to NUMBER]
       kubectl baton diff [OPTIONS] TARGET --live [--to NUMBER]
       kubectl baton diff [OPTIONS] app/NAME [--release NAME [--release NAME]]
       kubectl baton diff [OPTIONS] sitedeploy/NAME [--from-version VERSION] [--to-version VERSION]
       kubectl baton diff [OPTIONS] {-f FILE | -k DIR} [--name NAME]";

/// Compare revisions with each other, with the cluster, or with the effect of a file
///
/// By default, the current revision is compared with the one before it. Values of Secrets are never
/// shown. Warnings report the losses if namespaces, definitions of kinds, volume claims or stateful
/// sets would be deleted. With -f or -k, all phases are checked, and the fields that a take-over
/// from another tool would remove are shown; objects of Baton's kinds are compared as they are. With
/// --live, the managers of fields that the revision leaves alone are shown as well. The environment
/// variable `KUBECTL_EXTERNAL_DIFF` names another program to show the differences, as for `kubectl
/// diff`.
///
/// Exit code 0: no differences. 1: there are differences. 2: an error. 3: a change would be
/// refused.
///
/// For an Application of Shipper (app/NAME), the newest Release is compared with the one that it
/// replaces: chart, values, strategy, and rendered manifests. With -f, the chart of an Application is
/// rendered by helm, which has to be installed, and checked as by the manager; its manifests are
/// compared with those of the newest Release. --no-chart leaves that out.
///
/// For a deployment to sites (sitedeploy/NAME), its present version is compared with its previous
/// one; for its application (siteapp/NAME), the newest version with the one before.
#[derive(Clone, Debug, Args)]
#[command(override_usage = USAGE)]
pub(crate) struct DiffArgs {
    /// Deployment or revision: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME; or app/NAME,
    /// rel/NAME, sitedeploy/NAME, siteapp/NAME
    #[arg(value_name = "TARGET", num_args = 1..=2, required_unless_present_any = ["filename", "kustomize"],
        conflicts_with_all = ["filename", "kustomize"])]
    words: Vec<String>,

    /// Number of the first revision, or generation of the first Release; by default the one before the second
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..), conflicts_with_all =
        ["live", "filename", "kustomize"])]
    from: Option<i64>,

    /// Number of the second revision, or generation of the second Release; by default the current one
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..),
        conflicts_with_all = ["filename", "kustomize"])]
    to: Option<i64>,

    /// Name of a Release to compare: the first, then the second. A single Release is compared with
    /// the one before it
    #[arg(long, value_name = "NAME", value_parser = object_name, conflicts_with_all =
        ["live", "filename", "kustomize", "from", "to"])]
    release: Vec<String>,

    /// First version of an application for sites; by default the one before the second
    #[arg(long, value_name = "VERSION", conflicts_with_all =
        ["live", "filename", "kustomize", "from", "to", "release"])]
    from_version: Option<String>,

    /// Second version of an application for sites; by default the present one of the deployment, or
    /// the newest one of the application
    #[arg(long, value_name = "VERSION", conflicts_with_all =
        ["live", "filename", "kustomize", "from", "to", "release"])]
    to_version: Option<String>,

    /// Compare the revision with the cluster, and show the wanted fields that differ
    #[arg(long, conflicts_with_all = ["filename", "kustomize"])]
    live: bool,

    /// Compare with the effect of applying this file or directory; `-` is the standard input
    #[arg(long, short, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Compare with the effect of applying the kustomization in this directory, built by kubectl
    #[arg(long, short, value_name = "DIR", conflicts_with = "filename")]
    kustomize: Option<PathBuf>,

    /// Name of the deployment that plain manifests are packed into, as for `kubectl baton pack`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["words", "live", "to", "from"])]
    name: Option<String>,

    /// Do not render and check the chart of an Application in a file
    #[arg(long)]
    no_chart: bool,

    /// Format for programs, instead of text
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,

    /// Context of the kubeconfig for the Cluster NAME, to compare the objects of phases with class
    /// cluster.NAME; may be repeated. Without it, these objects are not compared
    #[arg(long, value_name = "NAME=CONTEXT")]
    cluster_context: Vec<ClusterContext>,
}

pub(crate) async fn run(args: &DiffArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let file = args.filename.clone().map(Input::Path);
    let input = file.or_else(|| args.kustomize.clone().map(Input::Kustomization));
    if let Some(input) = input {
        return with_file(input, args, global).await;
    }
    if args.release.len() > 2 {
        let text = "--release can be given at most twice";
        return Err(Error::Usage(text.to_owned()));
    }
    let refused = |text: &str| Err(Error::Usage(text.to_owned()));
    match Subject::parse(&args.words, &subject::ALL)? {
        Subject::SiteDeployment(target) | Subject::SiteApplication(target) => {
            site::run(&target, args, global).await
        }
        _ if args.from_version.is_some() || args.to_version.is_some() => {
            refused("--from-version and --to-version are for sites; use --from and --to")
        }
        Subject::Application(target) => application::run(&target, args, global).await,
        Subject::Chain(_) if !args.release.is_empty() => {
            refused("--release is for Applications; use --from and --to")
        }
        Subject::Chain(target) => of_chain(&target, args, global).await,
    }
}

async fn of_chain(target: &Target, args: &DiffArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let places = phase_clusters::connect(global, &args.cluster_context).await?;
    let cluster = &places.home;
    let chain = lists::chain(cluster, target).await?;
    let to = second(&chain, args.to)?;
    let (sections, labels) = if args.live {
        let labels = Labels::new("live", title(to));
        (with_cluster(&places, &chain, to).await?, labels)
    } else {
        let from = first(&chain, to, args.from)?;
        let labels = Labels::new(title(from), title(to));
        (between(cluster, &chain, from, to).await?, labels)
    };
    show(&sections, &labels, args, global).await
}

/// Prints the effect of applying a file.
async fn with_file(given: Input, args: &DiffArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let places = phase_clusters::connect(global, &args.cluster_context).await?;
    let cluster = &places.home;
    let mut given = input::read(cluster, global, given, args.name.as_deref()).await?;
    for slice in &mut given.slices {
        input::set_default_namespace(slice, cluster, global)?;
    }
    let mut sections = Vec::new();
    for mut subject in given.subjects {
        let Some(kind) = ChainKind::of(&subject) else {
            continue;
        };
        input::set_default_namespace(&mut subject, cluster, global)?;
        sections.extend(forecast::forecast(&places, &subject, kind, &given.slices).await?);
    }
    for mut application in given.applications {
        input::set_default_namespace(&mut application, cluster, global)?;
        sections
            .extend(applications::forecast::forecast(cluster, &application, !args.no_chart).await?);
    }
    for mut application in given.site_applications {
        input::set_default_namespace(&mut application, cluster, global)?;
        sections.extend(sites::forecast::forecast(cluster, &application).await?);
    }
    for (kind, object) in given.others {
        sections.push(check::compare(cluster, kind, &object).await?);
    }
    show(&sections, &Labels::new("live", "applied"), args, global).await
}

/// Prints sections, or shows them with another program.
async fn show(
    sections: &[Section],
    labels: &Labels,
    args: &DiffArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let differs = if let Some(format) = args.output {
        let value = json::value(sections);
        global.output().print(&document(format, &value))?;
        sections.iter().any(Section::differs)
    } else if let Some(external) = External::from_env() {
        for section in sections {
            for one in &section.warnings {
                let title = diff::title(&section.topic);
                report(&format!("warning: {title}: {}", warning(one)));
            }
        }
        external.show(sections, labels).await?
    } else {
        let output = global.output();
        output.print(&render(sections, labels, output))?;
        sections.iter().any(Section::differs)
    };
    Ok(exit(sections, differs))
}

/// The exit code. A refusal has precedence over a difference.
fn exit(sections: &[Section], differs: bool) -> Exit {
    if sections.iter().any(Section::is_refused) {
        Exit::Refused
    } else if differs {
        Exit::Negative
    } else {
        Exit::Fine
    }
}

#[cfg(test)]
mod tests {
    use baton_view::diff::{Topic, outcome::DiffOutcome};

    use super::*;

    #[test]
    fn exit_codes_tell_differences_and_refusals_apart() {
        let section = |fate| Section::new(Topic::Slices).fate(fate);
        let (same, changed) = (
            section(DiffOutcome::Unchanged),
            section(DiffOutcome::Changed),
        );
        let refused = section(DiffOutcome::Refused("no".to_owned()));
        assert_eq!(exit(std::slice::from_ref(&same), false), Exit::Fine);
        assert_eq!(exit(&[same.clone(), changed.clone()], true), Exit::Negative);
        for differs in [false, true] {
            let sections = [same.clone(), refused.clone(), changed.clone()];
            assert_eq!(exit(&sections, differs), Exit::Refused);
        }
    }
}
