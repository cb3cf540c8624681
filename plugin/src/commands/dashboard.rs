//! `dashboard`: web pages of chains, Applications and sites, on this machine.

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
};

use baton_dashboard::{Dashboard, Key};
use baton_terminal::output::{Print as _, report};
use clap::Args;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use super::Exit;
use crate::{args::GlobalArgs, error::Error};

/// Show chains, Applications, sites and clusters in a browser, live
///
/// The pages are served on this machine only, to browsers that have the key in the printed address.
/// All requests to the cluster are those of your kubeconfig. The first page shows all namespaces, or that
/// of -n. Ctrl-C ends it.
#[derive(Clone, Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Port of this machine; a free one if it is 0
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Only print the address
    #[arg(long)]
    no_browser: bool,

    /// Let the pages pause, resume, roll back, promote and abort, with your rights
    ///
    /// They also abandon objects that cannot be deleted, and select sites again. Each change has a page
    /// with its effects and a button that names the object. Without this flag, no
    /// page changes anything.
    #[arg(long)]
    actions: bool,
}

pub(crate) async fn run(args: &DashboardArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let failed =
        |error: io::Error| Error::Impossible(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let key = Key::random().ok_or_else(|| {
        Error::Impossible("this system has no random numbers for the key".to_owned())
    })?;
    let first = Dashboard::address(bound, &key);
    global.output().print(&first)?;
    // The file exists as long as the dashboard.
    let _entrance = (!args.no_browser).then(|| open(&first));
    report("Ctrl-C ends the dashboard.");
    let namespace = global.namespace();
    let served = Dashboard::serve(listener, cluster, key, namespace, args.actions).await;
    served.map_err(failed)?;
    Ok(Exit::Fine)
}

/// Opens the browser. It gets a file with the address, as other users of this machine can see the
/// arguments of programs.
fn open(address: &str) -> Option<NamedTempFile> {
    let entrance = || {
        let mut file = tempfile::Builder::new()
            .prefix("baton-")
            .suffix(".html")
            .tempfile()?;
        let page = format!(
            "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url={address}\"><a href=\"{address}\">Open</a>"
        );
        file.write_all(page.as_bytes())?;
        open::that_detached(file.path())?;
        Ok::<_, io::Error>(file)
    };
    entrance()
        .inspect_err(|error| report(&format!("note: no browser was opened: {error}")))
        .ok()
}
