//! The dashboard of a cluster: pages for everybody who has a bearer token for it.
//!
//! It has no rights of its own, and no part in the work of the manager.

use std::{fmt, fs, io, path::PathBuf, sync::Arc, time::Duration};

use baton_apis::metrics::{DASHBOARD_FEEDS, DASHBOARD_PAGES};
use baton_cluster::Cluster;
use baton_dashboard::{Counts, Dashboard, Settings};
use baton_kubernetes::{client::instrumented_client, fence::Fence};
use baton_runtime::{
    exposition::encode_family,
    metrics::Metrics,
    server::{
        BindError, Readiness,
        https::{Certificate, CertificateError, Endpoint, HttpsError, serve_routes},
        serve,
    },
};
use baton_terminal::{
    connection::{CONNECT_TIMEOUT, server_url},
    kubeconfig::{ConfigError, load_client_config},
};
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::gauge::ConstGauge,
};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{cli::dashboard::DashboardArgs, run::process::Stop};

/// The number of connections at a time. Each window that is open has one.
const CONNECTIONS: usize = 2_000;
/// The interval in which the files of the certificate are read again.
const RELOAD: Duration = Duration::from_mins(1);

/// The reason that the dashboard cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no usable kubeconfig.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client could not be built.
    #[error("cannot set up the client for the API server: {0}")]
    Client(#[source] kube::Error),
    /// A file of the certificate cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// An address is in use, or TLS cannot be set up.
    #[error(transparent)]
    Endpoint(#[from] HttpsError),
    /// The address for the probes is in use.
    #[error(transparent)]
    Health(#[from] BindError),
    /// Signals cannot be received.
    #[error("cannot listen to signals: {0}")]
    Signal(#[source] io::Error),
}

/// Serves the dashboard until a signal stops it.
pub(crate) async fn run(args: DashboardArgs) -> Result<(), Error> {
    let mut stop = Stop::new().map_err(Error::Signal)?;
    let mut config = load_client_config(&args.connection).await?;
    // Requests have the tokens of viewers, and never those of this process.
    config.auth_info = kube::config::AuthInfo::default();
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let (namespace, server) = (
        config.default_namespace.clone(),
        server_url(&config.cluster_url),
    );
    let metrics = Metrics::new();
    let fence = Fence::closed();
    // Nothing here depends on a lease.
    fence.open();
    let client = instrumented_client(config, metrics.requests(), &fence).map_err(Error::Client)?;
    let nobody = Cluster::new(client, namespace, server, Arc::new(|_: &str| {}));
    let settings = Settings {
        title: args.cluster_name.unwrap_or_else(|| nobody.server.clone()),
        base: args.base_path.as_str().to_owned(),
        token_header: args.token_header,
        has_actions: args.actions,
    };
    let certificate = if let Some(files) = args.tls_cert_file.zip(args.tls_key_file) {
        let certificate = Certificate::default();
        let pair = read(&files)?;
        certificate.set(&pair.0, &pair.1)?;
        tokio::spawn(renew(files, certificate.clone(), pair));
        Some(certificate)
    } else {
        warn!("serving without TLS: an ingress or a proxy in this cluster has to add it");
        None
    };
    let endpoint = Endpoint {
        address: args.listen_addr,
        purpose: "the dashboard",
        flag: "--listen-addr",
        connections: CONNECTIONS,
    };
    let (routes, counts) = Dashboard::for_tokens(nobody, settings);
    metrics.register(|registry| registry.register_collector(Box::new(Gauges(counts))));
    let _server = serve_routes(endpoint, routes, certificate.as_ref()).await?;
    let readiness = Readiness::waiting_for("the dashboard");
    readiness.set_ready();
    let _probes = serve(&args.metrics_addr, &args.health_addr, metrics, readiness).await?;
    stop.received().await;
    info!("stopped");
    Ok(())
}

/// The files of the certificate and its key.
type Files = (PathBuf, PathBuf);
/// Counts open pages and feeds when the metrics are read.
struct Gauges(Counts);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let gauges = [
            (DASHBOARD_PAGES, self.0.pages()),
            (DASHBOARD_FEEDS, self.0.feeds()),
        ];
        gauges.iter().try_for_each(|(family, count)| {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            encode_family(&mut encoder, family, &ConstGauge::new(count))
        })
    }
}

/// The certificate and its key.
type Pair = (String, String);

fn read((certificate, key): &Files) -> Result<Pair, Error> {
    let text = |path: &PathBuf| {
        fs::read_to_string(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })
    };
    Ok((text(certificate)?, text(key)?))
}

/// Uses the files of the certificate when they have changed.
async fn renew(files: Files, certificate: Certificate, mut used: Pair) {
    loop {
        sleep(RELOAD).await;
        let renewed = read(&files).and_then(|pair| {
            if pair != used {
                certificate.set(&pair.0, &pair.1)?;
                info!("the certificate was replaced");
                used = pair;
            }
            Ok(())
        });
        if let Err(error) = renewed {
            warn!(%error, "the certificate was not replaced");
        }
    }
}
