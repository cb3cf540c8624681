//! The cluster of the tour, and what is put on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::NAMESPACE;
use crate::bench::manager::{Error as ManagerError, Manager, reason};

/// Where a manager keeps its lease.
const HOME: &str = "baton-system";

/// The lease that managers of these resources have, whatever their namespace.
const LEASE: &str = "8a4hp84a6s.package-operator-lock";

/// The mark of a namespace that a tour has made. Such a one is removed without a question.
const MARK: &str = "baton.run/demo";

/// Who writes.
const FIELD_MANAGER: &str = "cargo-dev-demo";

/// How long the server may take to serve a new kind.
const SERVED: Duration = Duration::from_secs(30);

/// How long what an earlier tour left may take to be gone.
const CLEARED: Duration = Duration::from_mins(2);

/// Why the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the repository cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The API server refused something.
    #[error("{what}: {}", reason(source))]
    Request {
        /// What was tried.
        what: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// Another manager is at work.
    #[error(
        "a manager is at work on this cluster already: {holder} has the lease {namespace}/{LEASE}; the tour \
         starts one of its own, so stop that one first, or apply the files of config/samples yourself"
    )]
    Occupied {
        /// The namespace of the lease.
        namespace: String,
        /// Who has it.
        holder: String,
    },
    /// The namespace belongs to somebody else.
    #[error(
        "the namespace {NAMESPACE} is there already, and not from an earlier tour: remove it, or choose \
         another cluster"
    )]
    Taken,
    /// A definition is there already and is different.
    #[error(
        "{name} is installed on this cluster in another version, which the tour does not overwrite: {reason}\n\
         To replace it: kubectl apply --server-side --force-conflicts -f config/crds"
    )]
    Foreign {
        /// The definition.
        name: String,
        /// The fields that differ, and whose they are.
        reason: String,
    },
    /// A definition is not served.
    #[error("the API server does not serve {name} after {} s", SERVED.as_secs())]
    NotServed {
        /// The definition.
        name: String,
    },
    /// The manager ended meanwhile.
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

/// A cluster.
pub struct Place {
    client: Client,
    /// Whether the namespace for the lease was not there before.
    made_home: bool,
}

impl Place {
    /// The cluster behind the client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            made_home: false,
        }
    }

    /// A client for it.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Makes sure that nothing is in the way. Changes nothing.
    ///
    /// # Errors
    ///
    /// When another manager works, or the namespace of the tour is in use.
    pub async fn inspect(&self) -> Result<(), Error> {
        let leases: Api<Lease> = Api::all(self.client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
        let leases = leases
            .list(&named)
            .await
            .map_err(request("looking for managers"))?;
        for lease in leases {
            let spec = lease.spec.clone().unwrap_or_default();
            if let Some(holder) = holder(&spec, Timestamp::now()) {
                return Err(Error::Occupied {
                    namespace: lease.namespace().unwrap_or_default(),
                    holder: holder.to_owned(),
                });
            }
        }
        match self.namespace().await? {
            Some(namespace) if !namespace.annotations().contains_key(MARK) => Err(Error::Taken),
            _ => Ok(()),
        }
    }

    /// Installs the custom resource definitions and what the manager needs, without overwriting what
    /// somebody else has written.
    ///
    /// # Errors
    ///
    /// When other versions of them are there, or the server refuses one.
    pub async fn install(&mut self, crds: &Path) -> Result<(), Error> {
        let file_error = |path: &Path, reason: String| Error::File {
            path: path.to_owned(),
            reason,
        };
        let entries = fs::read_dir(crds).map_err(|error| file_error(crds, error.to_string()))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(
                entry
                    .map_err(|error| file_error(crds, error.to_string()))?
                    .path(),
            );
        }
        paths.sort();
        let mut names = Vec::new();
        for path in paths {
            let manifest = read(&path)?;
            let name = manifest["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            match self.apply(&manifest).await {
                Ok(()) => names.push(name),
                Err(Error::Request { source, .. }) if is_conflict(&source) => {
                    let reason = reason(&source);
                    return Err(Error::Foreign { name, reason });
                }
                Err(error) => return Err(error),
            }
        }
        for name in names {
            self.served(name).await?;
        }
        self.make_home().await
    }

    async fn served(&self, name: String) -> Result<(), Error> {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let served = async {
            loop {
                let crd = api.get(&name).await.map_err(request(&name))?;
                let conditions = crd.data["status"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                if conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
                    return Ok(());
                }
                sleep(POLL).await;
            }
        };
        match tokio::time::timeout(SERVED, served).await {
            Ok(served) => served,
            Err(_) => Err(Error::NotServed { name }),
        }
    }

    async fn make_home(&mut self) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let mut home = Namespace::default();
        home.metadata.name = Some(HOME.to_owned());
        match api.create(&PostParams::default(), &home).await {
            Ok(_) => self.made_home = true,
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(request(&format!("creating the namespace {HOME}"))(error)),
        }
        Ok(())
    }

    /// Removes the namespace of a tour, if there is one, while the manager takes its objects down.
    ///
    /// # Errors
    ///
    /// When that fails or takes too long.
    pub async fn clear(&self, manager: &mut Manager) -> Result<(), Error> {
        if self.namespace().await?.is_none() {
            return Ok(());
        }
        eprintln!("demo: removing the namespace {NAMESPACE}");
        let api: Api<Namespace> = Api::all(self.client.clone());
        let what = format!("the namespace {NAMESPACE} to be gone");
        api.delete(NAMESPACE, &DeleteParams::default())
            .await
            .map_err(request(&what))?;
        let gone = async {
            while self.namespace().await?.is_some() {
                sleep(POLL).await;
            }
            Ok(())
        };
        manager.until(&what, CLEARED, gone).await?
    }

    /// Removes what was made for the manager.
    ///
    /// # Errors
    ///
    /// When the server refuses that.
    pub async fn leave(&self) -> Result<(), Error> {
        if self.made_home {
            let api: Api<Namespace> = Api::all(self.client.clone());
            let what = format!("deleting the namespace {HOME}");
            api.delete(HOME, &DeleteParams::default())
                .await
                .map_err(request(&what))?;
        }
        Ok(())
    }

    async fn namespace(&self) -> Result<Option<Namespace>, Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.get_opt(NAMESPACE)
            .await
            .map_err(request("reading the namespace of the tour"))
    }

    /// Applies a manifest, as `kubectl apply --server-side` does.
    ///
    /// # Errors
    ///
    /// When the server refuses it.
    pub async fn apply(&self, manifest: &Value) -> Result<(), Error> {
        let mut manifest = manifest.clone();
        if manifest["kind"] == "Namespace" {
            manifest["metadata"]["annotations"][MARK] = json!("made by `cargo dev demo`");
        }
        let api = self.api(&manifest);
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        let kind = manifest["kind"].as_str().unwrap_or_default();
        let what = format!("applying {kind} {name}");
        api.patch(
            name,
            &PatchParams::apply(FIELD_MANAGER),
            &Patch::Apply(&manifest),
        )
        .await
        .map_err(request(&what))?;
        Ok(())
    }

    /// Asks a revision to go into the archive.
    ///
    /// # Errors
    ///
    /// When the server refuses that.
    pub async fn archive(&self, set: &str) -> Result<(), Error> {
        let api: Api<baton_apis::ObjectSet> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"spec": {"lifecycleState": "Archived"}}));
        let patched = api.patch(set, &PatchParams::default(), &patch).await;
        patched.map_err(request(&format!("archiving {set}")))?;
        Ok(())
    }

    fn api(&self, manifest: &Value) -> Api<DynamicObject> {
        let resource = resource(manifest);
        match manifest["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// How often it is looked whether something has happened.
const POLL: Duration = Duration::from_millis(100);

/// A manifest of the repository.
///
/// # Errors
///
/// When the file cannot be read or is no YAML.
pub fn read(path: &Path) -> Result<Value, Error> {
    let failed = |reason: String| Error::File {
        path: path.to_owned(),
        reason,
    };
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_saphyr::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// The resource of a manifest, under the usual plural.
#[must_use]
pub fn resource(manifest: &Value) -> ApiResource {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")))
}

/// Makes an error of what a request for `what` came to.
pub fn request(what: &str) -> impl FnOnce(kube::Error) -> Error + use<> {
    let what = what.to_owned();
    move |source| Error::Request {
        what,
        source: Box::new(source),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Who holds a lease at `now`.
fn holder(lease: &LeaseSpec, now: Timestamp) -> Option<&str> {
    let holder = lease
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())?;
    let renewed = lease.renew_time.as_ref()?.0;
    let duration = i64::from(lease.lease_duration_seconds.unwrap_or_default());
    (now.as_second() - renewed.as_second() <= duration).then_some(holder)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_expires_or_is_released() {
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
    fn resources_are_found_by_kind() {
        let check = |api_version: &str, kind: &str, plural: &str| {
            let resource = resource(&json!({"apiVersion": api_version, "kind": kind}));
            assert_eq!(
                (resource.api_version.as_str(), resource.plural.as_str()),
                (api_version, plural)
            );
        };
        check("v1", "ConfigMap", "configmaps");
        check("apps/v1", "Deployment", "deployments");
        check("package-operator.run/v1alpha1", "ObjectSet", "objectsets");
        check(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
    }
}
