//! Manifests of well-known projects: they are packed as they are published, rolled out, upgraded, rolled back, and
//! deleted. At rest nothing is written.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use baton_hack::modules::Module;
use baton_hack::paths::Dirs;
use baton_integration::application::condition;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use tempfile::TempDir;
use tokio::time::sleep;

/// The time in which nothing may be written.
const REST: Duration = Duration::from_mins(1);

/// Two versions of `MetalLB`: a load balancer with definitions, webhooks and a `DaemonSet`.
const METALLB: [Module; 2] = [
    Module {
        path: "go.universe.tf/metallb",
        version: "v0.15.2",
        sum: "h1:r7KDgJtk3KZe3qb36zRVrVCYHxLR03nPGT+qFXOomJM=",
    },
    Module {
        path: "go.universe.tf/metallb",
        version: "v0.16.2",
        sum: "h1:RCSAGoZmqcvTg0e56+Okbwz8iTuQVX30JpKX5mYEPUM=",
    },
];

/// Two versions of Argo CD: large definitions, several workloads, empty Secrets and ConfigMaps.
const ARGO_CD: [Module; 2] = [
    Module {
        path: "github.com/argoproj/argo-cd/v2",
        version: "v2.13.3",
        sum: "h1:pP0MdX9hUnOd5MDJ6VkspLFctoVCdDtlAv9EQOA94TI=",
    },
    Module {
        path: "github.com/argoproj/argo-cd/v2",
        version: "v2.14.0",
        sum: "h1:SXcoMpamQtAqWjz7Hp7CcAPL0zgML+9iCKwwQ7Y53I8=",
    },
];

/// The operator of Prometheus, whose definitions need several slices.
const PROMETHEUS: Module = Module {
    path: "github.com/prometheus-operator/prometheus-operator",
    version: "v0.85.0",
    sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
};

#[tokio::test]
async fn metallb_is_rolled_out_upgraded_and_rolled_back() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let manifest = "config/manifests/metallb-native.yaml";
    let [old, new] = [
        published(&METALLB[0], manifest).await,
        published(&METALLB[1], manifest).await,
    ];
    Project::new(&ns, "metallb").lives([&[old], &[new]]).await;
}

/// Other tests define a kind of Argo CD as well.
#[tokio::test]
async fn argo_cd_is_rolled_out_upgraded_and_rolled_back() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Cluster).await;
    let manifest = "manifests/install.yaml";
    let [old, new] = [
        published(&ARGO_CD[0], manifest).await,
        published(&ARGO_CD[1], manifest).await,
    ];
    Project::new(&ns, "argocd").lives([&[old], &[new]]).await;
}

#[tokio::test]
async fn a_monitoring_stack_is_rolled_out_upgraded_and_rolled_back() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let operator = published(&PROMETHEUS, "bundle.yaml").await;
    let stack = |version| include_str!("manifests/monitoring.yaml").replace("VERSION", version);
    let newer = operator.replace("0.85.0", "0.85.1");
    Project::new(&ns, "monitoring")
        .lives([&[operator, stack("1.0.0")], &[newer, stack("1.1.0")]])
        .await;
}

#[tokio::test]
async fn an_ingress_controller_is_rolled_out_upgraded_and_rolled_back() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let controller = |version| include_str!("manifests/ingress.yaml").replace("VERSION", version);
    Project::new(&ns, "ingress")
        .lives([&[controller("1.0.0")], &[controller("1.1.0")]])
        .await;
}

/// Returns a manifest that a project has published.
async fn published(module: &Module, path: &str) -> String {
    let folder = module.folder(&Dirs::from_env().unwrap()).await.unwrap();
    fs::read_to_string(folder.join(path)).unwrap()
}

/// A project that is packed into a deployment.
struct Project<'a> {
    ns: &'a TestNamespace,
    name: String,
    files: TempDir,
}

impl<'a> Project<'a> {
    fn new(ns: &'a TestNamespace, name: &str) -> Self {
        Self {
            ns,
            name: ns.unique(name),
            files: TempDir::with_prefix("manifests-").unwrap(),
        }
    }

    /// Rolls the first version out, upgrades, rolls back, rests, and deletes everything.
    async fn lives(&self, [old, new]: [&[String]; 2]) {
        self.pack(old);
        self.pack(new);
        self.run(&["rollback", &format!("cod/{}", self.name)]);
        self.run(&["wait", &format!("cod/{}", self.name)]);
        self.rests().await;
        self.run(&["drift", &format!("cod/{}", self.name)]);
        let objects = self.objects().await;
        let deployment = object(OWN_API, "ClusterObjectDeployment", &self.name);
        let deployment = self.ns.reference(&deployment);
        assert!(self.ns.cluster().delete(&deployment, "Background").await);
        for object in objects {
            let gone = async || self.ns.cluster().get(&object).await.is_none();
            let text = format!(
                "{} {} to be deleted",
                object["kind"], object["metadata"]["name"]
            );
            self.ns.eventually(&text, gone).await;
        }
    }

    /// Packs a version, and waits until it is rolled out.
    fn pack(&self, files: &[String]) {
        let mut paths = Vec::new();
        for (index, text) in files.iter().enumerate() {
            let path: PathBuf = self.files.path().join(format!("{index}.yaml"));
            fs::write(&path, text).unwrap();
            paths.push(path.to_str().unwrap().to_owned());
        }
        let mut args: Vec<_> = vec!["pack"];
        args.extend(paths.iter().map(String::as_str));
        args.extend([
            "--name",
            &self.name,
            "--cluster",
            "--apply",
            "--wait",
            "--timeout",
            "3m",
        ]);
        self.run(&args);
    }

    fn run(&self, args: &[&str]) {
        self.ns.plugin(args).done();
    }

    /// Fails if an object is written while the deployment is at rest. The end of older revisions, which
    /// are removed from the owners of all objects, and the last states of workloads are awaited before.
    async fn rests(&self) {
        let are_archived = async || {
            let revisions = self.revisions().await;
            let is_archived = |it: &Value| condition(it, "Archived") == "True";
            revisions.iter().filter(|it| !is_archived(it)).count() == 1
        };
        self.ns
            .eventually("all revisions but the newest to be archived", are_archived)
            .await;
        let settled = async || {
            let before = self.versions().await;
            sleep(Duration::from_secs(2)).await;
            before == self.versions().await
        };
        self.ns
            .eventually("the last status of all objects", settled)
            .await;
        let before = self.versions().await;
        // Each write changes a version, so there is nothing to look at in between.
        sleep(REST).await;
        assert_eq!(before, self.versions().await);
    }

    /// Returns the objects of the newest revision.
    async fn objects(&self) -> Vec<Value> {
        let revision = self.newest().await;
        let controlled = revision["status"]["controllerOf"].as_array().unwrap();
        let phases = revision["spec"]["phases"].as_array().unwrap();
        let mut entries: Vec<Value> = Vec::new();
        for phase in phases {
            entries.extend(phase["objects"].as_array().into_iter().flatten().cloned());
            for slice in phase["slices"].as_array().into_iter().flatten() {
                let slice = object(OWN_API, "ClusterObjectSlice", slice.as_str().unwrap());
                let slice = self
                    .ns
                    .cluster()
                    .get(&self.ns.reference(&slice))
                    .await
                    .unwrap();
                entries.extend(slice["objects"].as_array().unwrap().iter().cloned());
            }
        }
        let mut objects = Vec::new();
        for mut entry in entries {
            let mut object = entry["object"].take();
            let reference = |it: &&Value| {
                it["kind"] == object["kind"] && it["name"] == object["metadata"]["name"]
            };
            let Some(reference) = controlled.iter().find(reference) else {
                // A Job that was collected after its end.
                continue;
            };
            object["metadata"]["namespace"] = reference["namespace"].clone();
            objects.push(object);
        }
        assert!(!objects.is_empty(), "{revision}");
        objects
    }

    async fn newest(&self) -> Value {
        let number = |revision: &Value| revision["spec"]["revision"].as_i64();
        self.revisions()
            .await
            .into_iter()
            .max_by_key(number)
            .unwrap()
    }

    async fn revisions(&self) -> Vec<Value> {
        let like = self
            .ns
            .reference(&object(OWN_API, "ClusterObjectSet", "any"));
        let labels = format!("package-operator.run/object-deployment={}", self.name);
        self.ns.cluster().list(&like, &labels).await
    }

    /// Returns the version of each object, and of the revision.
    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        let line = |it: &Value| {
            format!(
                "{} {} {}",
                it["kind"], it["metadata"]["name"], it["metadata"]["resourceVersion"]
            )
        };
        for object in self.objects().await {
            versions.push(line(&self.ns.cluster().get(&object).await.unwrap()));
        }
        versions.push(line(&self.newest().await));
        versions
    }
}

const OWN_API: &str = "package-operator.run/v1alpha1";
