//! The work of a kubelet for the agent of a site. The nodes of a bed only simulate pods, but the
//! agent has to run.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use tokio::process::Command;
use tokio::time::sleep;

use super::cluster::{DemoCluster, Error};
use super::sites::{EDGE, EDGE_CONTEXT};
use crate::exec::{self, Group};

/// The namespace in which `baton cluster join --pull` installs the agent.
const NAMESPACE: &str = "baton-system";

/// Selects the Secret that the agent's pod mounts.
const HUB: &str = "--field-selector=metadata.name=baton-hub";

/// Selects the Deployment of the agent.
const AGENT: &str = "--field-selector=metadata.name=baton-agent";

/// The pause between two reads of the Deployment.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the agent of the site while its Deployment wants a pod.
///
/// # Guarantees
///
/// The agent has ended when this value is dropped.
pub(crate) struct Kubelet {
    /// `baton`.
    binary: PathBuf,
    /// The kubeconfig of the site's administrator. The mounts of the pod are in the same directory:
    /// the Secret, and the state.
    kubeconfig: PathBuf,
    log: PathBuf,
    pod: Option<Group>,
}

impl Kubelet {
    pub(crate) fn new(binary: PathBuf, kubeconfig: PathBuf, log: PathBuf) -> Self {
        Self {
            binary,
            kubeconfig,
            log,
            pod: None,
        }
    }

    /// Starts or ends the agent, depending on its Deployment.
    pub(crate) async fn follow(&mut self, cluster: &DemoCluster) -> Result<(), Error> {
        let deployments = cluster
            .get_in(EDGE_CONTEXT, &["deployments", "-n", NAMESPACE, AGENT])
            .await?;
        let wanted = deployments.into_iter().any(|deployment| {
            let deployment = serde_json::from_value::<Deployment>(deployment);
            let spec = deployment.ok().and_then(|deployment| deployment.spec);
            spec.is_some_and(|spec| spec.replicas != Some(0))
        });
        if !wanted {
            self.pod = None;
        } else if self.pod.is_none() {
            self.pod = Some(self.start(cluster).await?);
        }
        Ok(())
    }

    /// Follows the Deployment forever; returns only on an error.
    pub(crate) async fn keep_following(&mut self, cluster: &DemoCluster) -> Result<(), Error> {
        loop {
            self.follow(cluster).await?;
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn start(&mut self, cluster: &DemoCluster) -> Result<Group, Error> {
        let secrets = cluster
            .get_in(EDGE_CONTEXT, &["secrets", "-n", NAMESPACE, HUB])
            .await?;
        let volume = self.kubeconfig.with_file_name("agent");
        fs::create_dir_all(&volume).map_err(Error::Agent)?;
        for secret in secrets {
            let secret: Secret = serde_json::from_value(secret)?;
            for (name, content) in secret.data.unwrap_or_default() {
                fs::write(volume.join(name), content.0).map_err(Error::Agent)?;
            }
        }
        let log = File::create(&self.log).map_err(Error::Agent)?;
        let mut command = Command::new(&self.binary);
        command
            .args(["agent", "--cluster", EDGE, "--leader-elect=false"])
            .args(["--metrics-addr=0", "--health-addr=0", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .arg("--hub-kubeconfig")
            .arg(volume.join("kubeconfig"))
            .arg("--state-dir")
            .arg(volume.join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        exec::without_settings(&mut command);
        Ok(Group::spawn(&mut command)?)
    }
}
