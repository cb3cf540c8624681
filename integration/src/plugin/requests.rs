//! A plugin whose requests are recorded.

use std::process::Command;

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::endpoint::Endpoint;
use crate::faults::{Faults, ObservedRequest};
use crate::manifest::object;
use crate::namespace::TestNamespace;
use crate::sites::TemporaryKubeconfig;

/// Runs the plugin through a fault injector that records its requests, with an account that has all
/// rights.
pub struct SeenPlugin<'a> {
    ns: &'a TestNamespace,
    faults: Faults,
    kubeconfig: TemporaryKubeconfig,
}

impl TestNamespace {
    /// Prepares a plugin whose requests are recorded.
    pub async fn seen_plugin(&self) -> SeenPlugin<'_> {
        let faults = Faults::start(&Endpoint::of_bed(self.cluster().kubeconfig())).await;
        let account = object("v1", "ServiceAccount", "reader").within(self.name());
        self.cluster().create(&account.manifest).await.unwrap();
        let group = "rbac.authorization.k8s.io";
        let role = json!({ "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" });
        let subject =
            json!({ "kind": "ServiceAccount", "name": "reader", "namespace": self.name() });
        let name = self.unique("reader");
        let binding = object(&format!("{group}/v1"), "ClusterRoleBinding", &name)
            .with("/roleRef", role)
            .with("/subjects", json!([subject]));
        self.create_elsewhere(&binding).await;
        let token = self.cluster().token(self.name(), "reader").await;
        SeenPlugin {
            ns: self,
            kubeconfig: TemporaryKubeconfig::new(&faults.endpoint().kubeconfig(&token)),
            faults,
        }
    }
}

impl SeenPlugin<'_> {
    /// Returns a command. It must run outside of this runtime, which passes its requests on.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.ns.plugin_command(args);
        command.env("KUBECONFIG", self.kubeconfig.path());
        command
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.faults.requests()
    }

    /// Runs a command, which must not end in an error, and returns the last segments of the
    /// requested paths, in alphabetical order.
    pub async fn asks_for(&self, args: &[&str]) -> Vec<String> {
        let before = self.requests().len();
        let mut command = self.command(args);
        let ran = spawn_blocking(move || command.output().unwrap());
        let ran = ran.await.unwrap();
        assert!(ran.status.code() < Some(2), "{ran:?}");
        let requests = self.requests();
        let last = |request: &ObservedRequest| {
            request
                .path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let mut paths: Vec<String> = requests[before..].iter().map(last).collect();
        paths.sort_unstable();
        paths
    }
}
