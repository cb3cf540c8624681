//! `tree` of an Application: its Releases, clusters, and the revisions that install them.

use baton_terminal::output::Print as _;
use std::future::pending;

use baton_apis::constants::shipper::LABEL_APP;
use baton_cluster::{Cluster, follower::Follower, lists::once};
use baton_engine::names::is_label_value;
use baton_steering::releases::question;
use baton_text::{
    application::{AppStyle, render, value},
    output::{Output, format::document},
    tree::Style,
};
use baton_view::{
    applications::{
        observed::Observed,
        picture::{AppPicture, picture},
        target::AppTarget,
    },
    selection::Selection,
    tree::{ChainPicture, question::TreeOf},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{Drawing, Resized, TreeArgs, fit, out_of_date};
use crate::{
    args::GlobalArgs,
    commands::Exit,
    error::Error,
    wait::{application::read, deleted},
};

/// Shows an Application, or one of its Releases.
pub(crate) async fn run(
    target: &AppTarget,
    args: &TreeArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let mut output = global.output();
    output.ascii |= args.ascii;
    if args.watch {
        return watch(&cluster, target, args, output, global).await;
    }
    let observed = read(&cluster, target).await?;
    let chains = match scope(&observed) {
        Some(scope) => match once(&cluster, &scope).await {
            Ok(tree) => Ok(tree.chains),
            Err(error) => Err(error.to_string()),
        },
        None => Ok(Vec::new()),
    };
    let drawn = draw(&observed, &chains, args)?;
    match args.output {
        Some(form) => output.print(&document(form, &json!({ "application": value(&drawn) })))?,
        None => output.print(&render(&drawn, style(args, false), output))?,
    }
    Ok(Exit::Fine)
}

/// The revisions of an Application; `None` if none can have its label.
fn scope(observed: &Observed) -> Option<TreeOf> {
    is_label_value(&observed.name).then(|| TreeOf {
        selection: Selection {
            labels: Some(format!("{LABEL_APP}={}", observed.name)),
            namespace: observed.namespace.clone(),
            ..Selection::default()
        },
        // Archived revisions belong to a cluster as well, which only their phases name.
        archived: true,
        revision: None,
        unhealthy: false,
    })
}

fn style(args: &TreeArgs, collapsed: bool) -> AppStyle {
    AppStyle {
        tree: Style {
            with_namespaces: false,
            collapsed,
        },
        idle: args.archived,
        now: Timestamp::now(),
    }
}

/// Draws the Application, or the Release that the user named.
fn draw(
    observed: &Observed,
    chains: &Result<Vec<ChainPicture>, String>,
    args: &TreeArgs,
) -> Result<AppPicture, Error> {
    let chains = chains.as_ref().map(Vec::as_slice).map_err(String::as_str);
    let mut drawn = picture(observed, chains);
    if let Some(name) = &observed.named {
        drawn.releases.retain(|release| release.name == *name);
    }
    if let Some(number) = args.revision {
        drawn
            .releases
            .retain(|release| release.generation == Some(number));
        if drawn.releases.is_empty() {
            let text = format!(
                "{} has no release of generation {number}",
                observed.target()
            );
            return Err(Error::NotFound(text));
        }
    }
    Ok(drawn)
}

async fn watch(
    cluster: &Cluster,
    target: &AppTarget,
    args: &TreeArgs,
    output: Output,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let mut follower = Follower::start(cluster, question(cluster, target)).await?;
    let (mut chains, mut tree) = (Ok(Vec::new()), None);
    if let Some(scope) = scope(follower.last()) {
        match Follower::start(cluster, scope).await {
            Ok(started) => tree = Some(started),
            Err(error) => chains = Err(error.to_string()),
        }
    }
    let mut drawing = Drawing::new();
    let mut resized = Resized::new()?;
    // The first answers are there already, and `next` returns at once.
    loop {
        let of_tree = async {
            match &mut tree {
                Some(tree) => tree.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = of_tree => {}
            exists = follower.next() => {
                if !exists {
                    return Err(deleted(target));
                }
            }
            () = resized.wait() => {}
        }
        if let Some(tree) = &tree {
            chains = Ok(tree.last().chains.clone());
        }
        let fitting = fit(output, global);
        let trouble = follower
            .trouble()
            .or(tree.as_ref().and_then(Follower::trouble));
        let drawn = draw(follower.last(), &chains, args)?;
        drawing.show_text(fitting, |collapsed| {
            render(&drawn, style(args, collapsed), fitting) + &out_of_date(trouble, fitting)
        })?;
    }
}
