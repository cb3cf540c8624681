//! `tree` of a deployment to sites: its waves and sites; of one site: its revisions with their
//! objects; of an application: the deployments that follow it.

use baton_apis::{
    SiteDeployment,
    constants::{LABEL_SITE, LABEL_SITE_DEPLOYMENT},
};
use baton_cluster::{
    Cluster,
    follower::Follower,
    lists::{found, once},
};
use baton_engine::names::is_label_value;
use baton_terminal::output::Print as _;
use baton_text::{
    fleet::{FleetStyle, MAX_SHOWN, application, render, value},
    output::{Output, format::document},
};
use baton_view::{
    selection::Selection,
    sites::{
        fleet::Fleet, observed::Observed, overview::Overview, question::SiteQuestion,
        target::SiteTarget,
    },
    tree::question::TreeOf,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{Drawing, Resized, TreeArgs, fit, out_of_date, show, watch};
use crate::{
    args::{GlobalArgs, given},
    commands::Exit,
    error::Error,
    sites::read::read,
    wait::deleted,
};

/// The number of sites that are shown one by one if there is little room.
const MAX_COLLAPSED: usize = 5;

/// Shows a deployment, one of its sites, or an application.
pub(crate) async fn run(
    target: &SiteTarget,
    args: &TreeArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    check(target, args)?;
    let cluster = global.connect().await?;
    let mut output = global.output();
    output.ascii |= args.ascii;
    match &args.site {
        Some(site) => one_site(&cluster, target, site, args, output, global).await,
        None if target.is_application() => overview(&cluster, target, args, output).await,
        None if args.watch => watch_fleet(&cluster, target, args, output, global).await,
        None => fleet(&cluster, target, args, output).await,
    }
}

/// Refuses flags that do not apply to the target.
fn check(target: &SiteTarget, args: &TreeArgs) -> Result<(), Error> {
    let is_application = target.is_application();
    let names_site = args.site.is_some() && !is_application;
    let of_site = [
        (args.archived, "--archived"),
        (args.revision.is_some(), "--revision"),
    ];
    let of_deployment = [
        (args.site.is_some(), "--site"),
        (args.unhealthy, "--unhealthy"),
        (args.watch, "--watch"),
    ];
    Err(Error::Usage(
        match (given(&of_site), given(&of_deployment)) {
            (Some(flag), _) if !names_site => {
                format!("{flag} is for the revisions of one site; choose it with --site")
            }
            (_, Some(flag)) if is_application => {
                format!("{flag} is for a deployment to sites; name one as sitedeploy/NAME")
            }
            _ => return Ok(()),
        },
    ))
}

async fn overview(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &TreeArgs,
    output: Output,
) -> Result<Exit, Error> {
    let overview: Overview = read(cluster, target).await?;
    output.print(&match args.output {
        Some(form) => document(
            form,
            &json!({ "application": application::value(&overview) }),
        ),
        None => application::render(&overview, Timestamp::now(), output),
    })?;
    Ok(Exit::Fine)
}

async fn fleet(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &TreeArgs,
    output: Output,
) -> Result<Exit, Error> {
    let observed: Observed = read(cluster, target).await?;
    let style = style(args, false);
    let fleet = Fleet::of(&observed, style.now);
    output.print(&match args.output {
        Some(form) => document(form, &json!({ "deployment": value(&observed, &fleet) })),
        None => render(&observed, &fleet, style, output),
    })?;
    Ok(Exit::Fine)
}

fn style(args: &TreeArgs, collapsed: bool) -> FleetStyle {
    FleetStyle {
        unhealthy: args.unhealthy,
        few: if collapsed { MAX_COLLAPSED } else { MAX_SHOWN },
        now: Timestamp::now(),
    }
}

async fn watch_fleet(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &TreeArgs,
    output: Output,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let question = SiteQuestion::<Observed>::new(target, &cluster.namespace);
    let mut follower = Follower::start(cluster, question).await?;
    let mut drawing = Drawing::new();
    let mut resized = Resized::new()?;
    loop {
        let fitting = fit(output, global);
        let fleet = Fleet::of(follower.last(), Timestamp::now());
        drawing.show_text(fitting, |collapsed| {
            let text = render(follower.last(), &fleet, style(args, collapsed), fitting);
            text + &out_of_date(follower.trouble(), fitting)
        })?;
        tokio::select! {
            exists = follower.next() => {
                if !exists {
                    return Err(deleted(target));
                }
            }
            () = resized.wait() => {}
        }
    }
}

/// Shows the revisions at a site as any other revisions.
async fn one_site(
    cluster: &Cluster,
    target: &SiteTarget,
    site: &str,
    args: &TreeArgs,
    output: Output,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    read::<SiteDeployment>(cluster, target).await?;
    let none = || {
        Error::NotFound(format!(
            "{target} has no revision in site {site}; `kubectl baton tree {target}` shows its sites"
        ))
    };
    if !is_label_value(site) {
        return Err(none());
    }
    let labels = format!(
        "{LABEL_SITE_DEPLOYMENT}={},{LABEL_SITE}={site}",
        target.name
    );
    let scope = TreeOf {
        selection: Selection {
            labels: Some(labels),
            namespace: cluster.namespace.clone(),
            ..Selection::default()
        },
        archived: args.archived,
        revision: args.revision,
        unhealthy: args.unhealthy,
    };
    if args.watch {
        return watch(cluster, scope, output, global).await;
    }
    let tree = once(cluster, &scope).await?;
    found(tree.missing)?;
    if tree.chains.is_empty() && !args.unhealthy {
        return Err(none());
    }
    show(&scope, &tree.chains, args, output)
}
