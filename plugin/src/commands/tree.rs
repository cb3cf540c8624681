//! `tree`: revisions, phases and objects, with live health and owners; for an Application also
//! Releases and clusters.

mod application;
mod site;

use std::io::IsTerminal as _;

use baton_cluster::{
    Cluster,
    follower::Follower,
    lists::{found, once},
};
use baton_terminal::output::{Print as _, objects_none_found, report};
use baton_text::{
    output::{
        Output, Paint,
        format::{DocumentFormat, document},
    },
    tree::{Style, render},
};
use baton_view::tree::{ChainPicture, question::TreeOf};
use clap::Args;
use serde_json::json;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    screen::Screen,
    selection::SelectionArgs,
    subject::{self, Subject, object_name},
};

/// Show revisions, their phases and their objects, with live health and owners
///
/// HEALTHY is the result of the revision's probes for the present state of the object; for phases
/// and revisions, it is the number of healthy objects. OWNER is the controller of the object: a
/// revision, another object by kind and name, or none. It also shows that the object is missing.
///
/// Without TARGET, shows everything in the namespace, or in all namespaces with -A; -l selects by
/// labels. An archived revision takes one line.
///
/// For an Application of Shipper (app/NAME), shows its Releases, newest first, with their state in
/// each cluster. CAPACITY and TRAFFIC are the actual and the wanted values, SERVICE is the part of
/// the traffic that the Release gets there. A Release that has nothing left takes one line.
///
/// For a deployment to sites (sitedeploy/NAME), shows the waves of its rollout, with the number of
/// sites in each state. Up to 20 sites are shown one by one: failed ones, then those in flight, the
/// longest first, and so on. RUNS is the version at the site, QUEUE the number of queued revisions.
/// --site shows one site, with its phases and objects. For an application for sites (siteapp/NAME),
/// shows its deployments and kept versions.
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Keep the picture up to date until Ctrl-C
    #[arg(long, short)]
    watch: bool,

    /// Show the content of archived revisions, and of Releases that have nothing left
    #[arg(long)]
    archived: bool,

    /// Show only this revision; for an Application, the Release of this generation
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    revision: Option<i64>,

    /// Show only objects that are not healthy or have another owner, with their phases and
    /// revisions; for a deployment to sites, only sites that are not updated
    #[arg(long)]
    unhealthy: bool,

    /// For a deployment to sites: show this site
    #[arg(long, value_name = "SITE", value_parser = object_name)]
    site: Option<String>,

    /// Draw with ASCII characters only; this is the default if the locale has no others
    #[arg(long)]
    ascii: bool,

    /// Format for programs, instead of a picture
    #[arg(long, short, value_name = "FORMAT", conflicts_with = "watch")]
    output: Option<DocumentFormat>,
}

const NOTHING_UNHEALTHY: &str = "No unhealthy objects found.";

pub(crate) async fn run(args: &TreeArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let refused = |text: &str| Err(Error::Usage(text.to_owned()));
    match args.selection.one(&subject::ALL)? {
        Some(Subject::SiteDeployment(target) | Subject::SiteApplication(target)) => {
            site::run(&target, args, global).await
        }
        _ if args.site.is_some() => {
            refused("--site is for a deployment to sites; name one as sitedeploy/NAME")
        }
        Some(Subject::Application(_)) if args.unhealthy => {
            refused("--unhealthy is not for Applications and Releases")
        }
        Some(Subject::Application(target)) => application::run(&target, args, global).await,
        Some(Subject::Chain(_)) | None => of_chains(args, global).await,
    }
}

async fn of_chains(args: &TreeArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let scope = TreeOf {
        selection,
        archived: args.archived,
        revision: args.revision,
        unhealthy: args.unhealthy,
    };
    let mut output = global.output();
    output.ascii |= args.ascii;
    if args.watch {
        return watch(&cluster, scope, output, global).await;
    }
    let tree = once(&cluster, &scope).await?;
    found(tree.missing)?;
    show(&scope, &tree.chains, args, output)
}

/// Prints chains once.
fn show(
    scope: &TreeOf,
    chains: &[ChainPicture],
    args: &TreeArgs,
    output: Output,
) -> Result<Exit, Error> {
    match args.output {
        Some(form) => output.print(&document(form, &json!({ "chains": chains })))?,
        None if chains.is_empty() && scope.unhealthy => report(NOTHING_UNHEALTHY),
        None if chains.is_empty() => objects_none_found(scope.selection.one_namespace()),
        None => {
            let style = Style {
                with_namespaces: scope.selection.all_namespaces,
                collapsed: false,
            };
            output.print(&render(chains, style, output))?;
        }
    }
    Ok(Exit::Fine)
}

async fn watch(
    cluster: &Cluster,
    scope: TreeOf,
    output: Output,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let mut follower = Follower::start(cluster, scope.clone()).await?;
    found(follower.last().missing.clone())?;
    let mut drawing = Drawing::new();
    let mut resized = Resized::new()?;
    loop {
        tokio::select! {
            _ = follower.next() => {}
            () = resized.wait() => {}
        }
        let tree = follower.last();
        drawing.show(
            &tree.chains,
            follower.trouble(),
            &scope,
            fit(output, global),
        )?;
    }
}

/// A line below the picture with the reason that it is not up to date; empty if it is.
fn out_of_date(trouble: Option<&str>, output: Output) -> String {
    trouble.map_or_else(String::new, |trouble| {
        let line = format!("not up to date: {trouble}");
        output.paint(Paint::Bad, &line) + "\n"
    })
}

/// The output with the present width of the terminal.
fn fit(output: Output, global: &GlobalArgs) -> Output {
    Output {
        width: global.output().width,
        ..output
    }
}

enum Drawing {
    InPlace(Screen),
    /// Pictures are appended if they differ from the one before.
    Appended(String),
}

impl Drawing {
    fn new() -> Self {
        if std::io::stdout().is_terminal() {
            Self::InPlace(Screen::new())
        } else {
            Self::Appended(String::new())
        }
    }

    fn show(
        &mut self,
        chains: &[ChainPicture],
        trouble: Option<&str>,
        scope: &TreeOf,
        output: Output,
    ) -> Result<(), Error> {
        self.show_text(output, |collapsed| {
            let style = Style {
                with_namespaces: scope.selection.all_namespaces,
                collapsed,
            };
            let mut text = render(chains, style, output);
            if chains.is_empty() && scope.unhealthy {
                text.push_str(NOTHING_UNHEALTHY);
                text.push('\n');
            } else if chains.is_empty() {
                text.push_str("There is nothing to show yet.\n");
            }
            text.push_str(&out_of_date(trouble, output));
            text
        })
    }

    /// Shows a text; if there is little room, without its healthy parts.
    fn show_text(&mut self, output: Output, text: impl Fn(bool) -> String) -> Result<(), Error> {
        match self {
            Self::InPlace(screen) => {
                let whole = text(false);
                let text = if Screen::has_room_for(&whole) {
                    whole
                } else {
                    text(true)
                };
                screen.draw(&output.printable(&text))?;
            }
            Self::Appended(before) => {
                let text = text(false);
                if *before != text {
                    if !before.is_empty() {
                        output.print("\n")?;
                    }
                    output.print(&text)?;
                    *before = text;
                }
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
struct Resized(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Resized {
    fn new() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::window_change())?))
    }

    async fn wait(&mut self) {
        self.0.recv().await;
    }
}

/// Notifies about a new width of the terminal. Without signals for that, the next change of the
/// picture fits.
#[cfg(not(unix))]
struct Resized;

#[cfg(not(unix))]
impl Resized {
    fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn wait(&mut self) {
        std::future::pending().await
    }
}
