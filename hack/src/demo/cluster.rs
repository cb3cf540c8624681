//! The cluster of the tour, accessed with kubectl.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::process::Command;

use super::NAMESPACE;
use crate::exec;
use crate::manager::{Cluster, Error as ManagerError, Manager};
use crate::paths::Dirs;

/// The namespace of the manager's lease.
const HOME: &str = "baton-system";

/// The lease of all managers of these resources, in any namespace.
const LEASE: &str = "8a4hp84a6s.package-operator-lock";

/// The annotation of a namespace that a tour has created. The tour may delete a namespace with it.
const MARK: &str = "baton.run/demo";

/// The time that the deletion of an earlier tour's objects may take.
const CLEARED: Duration = Duration::from_mins(2);

/// The reason that the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("kubectl prints no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "a manager runs on this cluster already: {holder} has the lease {namespace}/{LEASE}; the tour starts one of \
         its own, so stop that one first, or apply the files of config/samples yourself"
    )]
    Occupied { namespace: String, holder: String },
    #[error(
        "the namespace {NAMESPACE} is there already, and not from an earlier tour: remove it, or choose \
         another cluster"
    )]
    Taken,
    #[error(
        "other versions of the custom resource definitions are installed on this cluster, which the tour does \
         not overwrite:\n{0}\nTo replace them: kubectl apply --server-side --force-conflicts -f config/crds"
    )]
    Foreign(String),
    #[error("{command} ended unexpectedly ({status})")]
    Command {
        command: String,
        status: std::process::ExitStatus,
    },
    #[error("cannot start the agent of a site: {0}")]
    Agent(#[source] std::io::Error),
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

/// A cluster, and the kubectl for it.
pub(crate) struct DemoCluster {
    workspace: PathBuf,
    /// The directories of the custom resource definitions that the tour needs.
    crds: Vec<PathBuf>,
    kubectl: OsString,
    way: ClusterAccess,
    /// True if the tour has created the namespace for the lease.
    created_home: bool,
}

/// The way in which commands find the cluster.
#[derive(Debug, Clone)]
pub(crate) enum ClusterAccess {
    /// By a context of the user's kubeconfig.
    Context(String),
    /// As the first of these kubeconfigs, a value of `KUBECONFIG`. Applications and sites use the
    /// other clusters too.
    First {
        kubeconfigs: OsString,
        /// The path of helm, which renders the charts of Applications.
        helm: String,
    },
}

/// The programs that the tour has built for its commands.
pub(crate) struct Programs {
    /// `baton`.
    pub(crate) baton: PathBuf,
    /// `kubectl baton`.
    pub(crate) plugin: PathBuf,
}

impl DemoCluster {
    pub(crate) fn new(dirs: &Dirs, kubectl: OsString, way: ClusterAccess) -> Self {
        let crds = match way {
            ClusterAccess::Context(_) => vec![dirs.crds()],
            ClusterAccess::First { .. } => vec![dirs.crds(), dirs.release_crds()],
        };
        Self {
            workspace: dirs.workspace.clone(),
            crds,
            kubectl,
            way,
            created_home: false,
        }
    }

    /// True if the tour has other clusters as well.
    pub(crate) fn has_others(&self) -> bool {
        matches!(self.way, ClusterAccess::First { .. })
    }

    /// Checks that no manager runs and that the namespace of the tour is free. Changes nothing.
    pub(crate) async fn inspect(&self) -> Result<(), Error> {
        let named = format!("--field-selector=metadata.name={LEASE}");
        let leases = self.get(&["leases", "--all-namespaces", &named]).await?;
        for lease in leases {
            let Lease { metadata, spec } = serde_json::from_value(lease)?;
            if let Some(holder) = holder(&spec.unwrap_or_default(), Timestamp::now()) {
                let namespace = metadata.namespace.unwrap_or_default();
                let holder = holder.to_owned();
                return Err(Error::Occupied { namespace, holder });
            }
        }
        let namespace = self.namespace().await?;
        let foreign = |namespace: &Value| namespace["metadata"]["annotations"][MARK].is_null();
        if namespace.iter().any(foreign) {
            return Err(Error::Taken);
        }
        Ok(())
    }

    /// Installs the custom resource definitions and the manager's namespace, without overwriting
    /// the changes of others.
    pub(crate) async fn install(&mut self) -> Result<(), Error> {
        let files = self
            .crds
            .iter()
            .map(|dir| dir.to_string_lossy().into_owned());
        let files: Vec<String> = files.collect();
        let files: Vec<&str> = files.iter().flat_map(|dir| ["-f", dir]).collect();
        let apply = ["apply", "--server-side", "--field-manager=cargo-dev-demo"];
        match self.run(&[&apply[..], &files].concat()).await {
            Err(exec::Error::Failed { output, .. }) if output.contains("conflict") => {
                return Err(Error::Foreign(output));
            }
            applied => applied?,
        };
        let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
        self.run(&[&wait[..], &files].concat()).await?;
        match self.run(&["create", "namespace", HOME]).await {
            Ok(_) => self.created_home = true,
            Err(exec::Error::Failed { output, .. }) if output.contains("AlreadyExists") => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Creates the namespace of the tour, with the annotation that marks it.
    pub(crate) async fn create_namespace(&self) -> Result<(), Error> {
        let sample = format!("{}/00-namespace.yaml", super::steps::SAMPLES);
        self.run(&["apply", "-f", &sample]).await?;
        let mark = format!("{MARK}=made by `cargo dev demo`");
        self.run(&["annotate", "--overwrite", "namespace", NAMESPACE, &mark])
            .await?;
        Ok(())
    }

    /// Deletes the namespace of a tour, if there is one, while the manager tears its objects down.
    pub(crate) async fn delete_namespace(&self, manager: &mut Manager) -> Result<(), Error> {
        if self.namespace().await?.is_empty() {
            return Ok(());
        }
        eprintln!("demo: removing the namespace {NAMESPACE}");
        let what = format!("the namespace {NAMESPACE} to be gone");
        let gone = manager
            .until(
                &what,
                CLEARED,
                self.run(&["delete", "namespace", NAMESPACE]),
            )
            .await?;
        Ok(gone.map(drop)?)
    }

    /// Removes the objects that were created for the manager.
    pub(crate) async fn clean_up(&self) -> Result<(), Error> {
        if self.created_home {
            self.run(&["delete", "namespace", HOME]).await?;
        }
        Ok(())
    }

    async fn namespace(&self) -> Result<Vec<Value>, Error> {
        let named = format!("--field-selector=metadata.name={NAMESPACE}");
        self.get(&["namespaces", &named]).await
    }

    /// The objects that `kubectl get` returns.
    pub(crate) async fn get(&self, args: &[&str]) -> Result<Vec<Value>, Error> {
        let json = self
            .run(&[&["get", "--output=json"], args].concat())
            .await?;
        let mut list: Value = serde_json::from_str(&json)?;
        Ok(list["items"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default())
    }

    /// As [`Self::get`], in the cluster of another context.
    pub(crate) async fn get_in(&self, context: &str, args: &[&str]) -> Result<Vec<Value>, Error> {
        self.get(&[&["--context", context], args].concat()).await
    }

    async fn run(&self, args: &[&str]) -> Result<String, exec::Error> {
        let mut command = self.command(&self.kubectl);
        exec::output(command.args(args)).await
    }

    /// Runs a command of the tour, which prints its own output, and checks its exit code.
    pub(crate) async fn show(
        &self,
        programs: &Programs,
        command: &str,
        code: i32,
    ) -> Result<(), Error> {
        println!("$ {}", quoted(command));
        let (program, args) = if let Some(args) = command.strip_prefix("kubectl baton ") {
            (programs.plugin.as_os_str(), args)
        } else if let Some(args) = command.strip_prefix("baton ") {
            (programs.baton.as_os_str(), args)
        } else {
            (&*self.kubectl, command.trim_start_matches("kubectl "))
        };
        let mut child = self.command(program);
        exec::without_settings(&mut child);
        child
            .args(args.split(' '))
            .stdin(std::process::Stdio::null());
        let status = exec::status(&mut child).await?;
        println!();
        if status.code() == Some(code) {
            return Ok(());
        }
        let command = command.to_owned();
        Err(Error::Command { command, status })
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.workspace);
        match &self.way {
            ClusterAccess::Context(name) => Cluster::Context(name.clone()).select(&mut command),
            ClusterAccess::First { kubeconfigs, helm } => {
                command.env("KUBECONFIG", kubeconfigs);
                command.env("HELM_BIN", helm);
            }
        }
        command
    }
}

/// The command as it is typed in a shell. None of its arguments contains a space.
fn quoted(command: &str) -> String {
    let args = command.split(' ').map(|arg| {
        let quote = if arg.contains('{') { "'" } else { "" };
        format!("{quote}{arg}{quote}")
    });
    args.collect::<Vec<_>>().join(" ")
}

/// The holder of a lease at `now`, if the lease has not expired.
fn holder(lease: &LeaseSpec, now: Timestamp) -> Option<&str> {
    let holder = lease.holder_identity.as_deref();
    let holder = holder.filter(|holder| !holder.is_empty())?;
    let renewed = lease.renew_time.as_ref()?.0;
    let duration = i64::from(lease.lease_duration_seconds.unwrap_or_default());
    (now.as_second() - renewed.as_second() <= duration).then_some(holder)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_lease_has_a_holder_until_it_expires_or_is_released() {
        let now = Timestamp::from_second(1_000).unwrap();
        let lease = |holder: &str, renewed| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        assert_eq!(holder(&lease("a", 990), now), Some("a"));
        assert_eq!(holder(&lease("a", 980), now), None);
        assert_eq!(holder(&lease("", 999), now), None);
        assert_eq!(holder(&LeaseSpec::default(), now), None);
    }

    #[test]
    fn commands_can_be_copied() {
        assert_eq!(
            quoted(r#"kubectl patch objectset v1 -p {"spec":{"lifecycleState":"Archived"}}"#),
            r#"kubectl patch objectset v1 -p '{"spec":{"lifecycleState":"Archived"}}'"#
        );
    }
}
