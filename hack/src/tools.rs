//! The binaries of the bed and of other tools: existing ones are used, missing ones are built from the
//! pinned Go modules or installed from their crates.

mod build;
pub(crate) mod crates;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::paths::Dirs;
use crate::pins::Pins;

/// A program that the bed consists of, or that is used with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The API server.
    KubeApiserver,
    /// Built-in controllers: garbage collection, namespaces, Deployments.
    KubeControllerManager,
    /// Assigns pods to nodes.
    KubeScheduler,
    /// The command line client.
    Kubectl,
    /// The store behind the API server.
    Etcd,
    /// Simulates nodes and the status of their pods.
    Kwok,
    /// Starts the other programs as one cluster.
    Kwokctl,
    /// Renders charts. Not part of a bed.
    Helm,
    /// Reports how other tools interpret a status. Not part of a bed.
    Health,
    /// Pushes and pulls images. Not part of a bed.
    Crane,
    /// A registry of images. Not part of a bed.
    Registry,
    /// Signs the files of a release, and checks the signatures. Not part of a bed.
    Cosign,
    /// Lists the modules of a Go program. Not part of a bed.
    Cyclonedx,
    /// Installs plugins of kubectl. Not part of a bed.
    Krew,
    /// Checks the manifest of a plugin of kubectl. Not part of a bed.
    KrewValidator,
    /// Checks rules of Prometheus, and runs their tests. Not part of a bed.
    Promtool,
}

/// Tools that are built together, in one run of the Go compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    Kubernetes,
    Etcd,
    Kwok,
    Helm,
    Health,
    Crane,
    Registry,
    Cosign,
    Cyclonedx,
    Krew,
    Prometheus,
}

/// The reason that the tools are missing.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(
        "Go {needed} or newer is needed to build {missing}, and no `go` was found: \
         install it from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a directory that holds them"
    )]
    NoGo { needed: String, missing: String },
    #[error(
        "Go {needed} or newer is needed to build {missing}, and `go` is {found}: update it from https://go.dev/dl"
    )]
    OldGo {
        needed: String,
        found: String,
        missing: String,
    },
    #[error("building {what} failed ({status}):\n{output}")]
    Build {
        what: String,
        status: std::process::ExitStatus,
        output: String,
    },
    #[error(transparent)]
    Exec(#[from] crate::exec::Error),
    #[error("{path}: {source}")]
    Cache {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Tool {
    /// The tools of a bed.
    pub const BED: [Self; 7] = [
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
        Self::Etcd,
        Self::Kwok,
        Self::Kwokctl,
    ];

    /// The file name, the Go package of the command, and its suite.
    fn source(self) -> (&'static str, &'static str, Suite) {
        use Suite::{
            Cosign, Crane, Cyclonedx, Etcd, Health, Helm, Krew, Kubernetes, Kwok, Prometheus,
            Registry,
        };
        match self {
            Self::KubeApiserver => (
                "kube-apiserver",
                "k8s.io/kubernetes/cmd/kube-apiserver",
                Kubernetes,
            ),
            Self::KubeControllerManager => (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                Kubernetes,
            ),
            Self::KubeScheduler => (
                "kube-scheduler",
                "k8s.io/kubernetes/cmd/kube-scheduler",
                Kubernetes,
            ),
            Self::Kubectl => ("kubectl", "k8s.io/kubernetes/cmd/kubectl", Kubernetes),
            Self::Etcd => ("etcd", "go.etcd.io/etcd/server/v3", Etcd),
            Self::Kwok => ("kwok", "sigs.k8s.io/kwok/cmd/kwok", Kwok),
            Self::Kwokctl => ("kwokctl", "sigs.k8s.io/kwok/cmd/kwokctl", Kwok),
            Self::Helm => ("helm", "helm.sh/helm/v4/cmd/helm", Helm),
            Self::Health => ("baton-health", ".", Health),
            Self::Crane => (
                "crane",
                "github.com/google/go-containerregistry/cmd/crane",
                Crane,
            ),
            Self::Registry => (
                "registry",
                "github.com/distribution/distribution/v3/cmd/registry",
                Registry,
            ),
            Self::Cosign => ("cosign", "github.com/sigstore/cosign/v3/cmd/cosign", Cosign),
            Self::Cyclonedx => (
                "cyclonedx-gomod",
                "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod",
                Cyclonedx,
            ),
            Self::Krew => ("krew", "sigs.k8s.io/krew/cmd/krew", Krew),
            Self::KrewValidator => (
                "validate-krew-manifest",
                "sigs.k8s.io/krew/cmd/validate-krew-manifest",
                Krew,
            ),
            Self::Promtool => (
                "promtool",
                "github.com/prometheus/prometheus/cmd/promtool",
                Prometheus,
            ),
        }
    }

    /// The file name of the tool.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.source().0
    }

    fn package(self) -> &'static str {
        self.source().1
    }

    fn suite(self) -> Suite {
        self.source().2
    }

    /// The arguments that make the tool print its version without asking a server.
    fn version_args(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            Self::Helm => &["version", "--template", "{{.Version}}"],
            Self::Cosign | Self::Crane | Self::Cyclonedx | Self::Krew => &["version"],
            _ => &["--version"],
        }
    }
}

impl Suite {
    const ALL: [Self; 11] = [
        Self::Kwok,
        Self::Etcd,
        Self::Helm,
        Self::Health,
        Self::Crane,
        Self::Registry,
        Self::Cosign,
        Self::Cyclonedx,
        Self::Krew,
        Self::Prometheus,
        Self::Kubernetes,
    ];

    /// The name and the version of the suite, and the directory of the Go module that pins it.
    fn source(self, pins: &Pins) -> (&'static str, &str, &'static str) {
        match self {
            Self::Kubernetes => ("kubernetes", pins.kubernetes, pins.module),
            Self::Etcd => ("etcd", pins.etcd, "controlplane"),
            Self::Kwok => ("kwok", pins.kwok, "kwok"),
            Self::Helm => ("helm", pins.helm, "helm"),
            Self::Health => ("health", &pins.health, "health"),
            Self::Crane => ("crane", pins.crane, "images"),
            Self::Registry => ("registry", pins.registry, "images"),
            Self::Cosign => ("cosign", pins.cosign, "release"),
            Self::Cyclonedx => ("cyclonedx-gomod", pins.cyclonedx, "release"),
            Self::Krew => ("krew", pins.krew, "krew"),
            Self::Prometheus => ("prometheus", pins.prometheus, "prometheus"),
        }
    }

    fn version(self, pins: &Pins) -> &str {
        self.source(pins).1
    }

    /// The directory of the binaries of this version.
    fn dir(self, dirs: &Dirs, pins: &Pins) -> PathBuf {
        let (name, version, _) = self.source(pins);
        dirs.cache.join(format!("{name}-{version}"))
    }
}

/// The tools of a bed, each in its pinned version.
#[derive(Debug, Clone)]
pub struct Toolbox {
    paths: BTreeMap<Tool, PathBuf>,
}

impl Toolbox {
    /// Finds every tool of a bed, and builds the missing ones with progress on the standard error.
    ///
    /// The directory `$KUBEBUILDER_ASSETS`, the cache and the `PATH` are searched. Only the pinned
    /// version is used, because the tests expect the answers of *that* server.
    pub async fn prepare(dirs: &Dirs) -> Result<Self, Error> {
        let paths = prepare(&Tool::BED, dirs).await?;
        Ok(Self { paths })
    }

    /// The path of a tool.
    #[must_use]
    pub fn path(&self, tool: Tool) -> &Path {
        // `prepare` is the only constructor and adds an entry for each tool of a bed; a bare name
        // would be looked up on the PATH.
        self.paths
            .get(&tool)
            .map_or(Path::new(tool.name()), PathBuf::as_path)
    }
}

/// Finds helm in the pinned version, or builds it. The same places are searched as for the tools of
/// a bed, and before them `$HELM_BIN`, the variable that the manager reads.
pub async fn helm(dirs: &Dirs) -> Result<PathBuf, Error> {
    path(Tool::Helm, dirs).await
}

/// Finds or builds the program of `hack/health`, which reports how kstatus and Argo CD interpret
/// objects.
pub(crate) async fn health(dirs: &Dirs) -> Result<PathBuf, Error> {
    path(Tool::Health, dirs).await
}

/// Finds promtool in the pinned version, or builds it. The same places are searched as for the
/// tools of a bed.
///
/// # Errors
/// If it is missing and cannot be built.
pub async fn promtool(dirs: &Dirs) -> Result<PathBuf, Error> {
    path(Tool::Promtool, dirs).await
}

/// Builds helm for Linux on an architecture, by its name in Go. A helm on the `PATH` is not used: its
/// build is another one.
pub(crate) async fn helm_for(architecture: &str, dirs: &Dirs) -> Result<PathBuf, Error> {
    build::for_linux(Tool::Helm, architecture, dirs, &Pins::read(dirs.kubernetes)).await
}

/// Finds or builds a tool.
pub(crate) async fn path(tool: Tool, dirs: &Dirs) -> Result<PathBuf, Error> {
    let paths = prepare(&[tool], dirs).await?;
    Ok(paths.into_values().next().unwrap_or_default())
}

async fn prepare(tools: &[Tool], dirs: &Dirs) -> Result<BTreeMap<Tool, PathBuf>, Error> {
    let pins = Pins::read(dirs.kubernetes);
    let (mut paths, mut missing) = (BTreeMap::new(), Vec::new());
    for &tool in tools {
        let found = find(tool, dirs, &pins).await;
        if found.is_none() {
            missing.push(tool);
        }
        paths.insert(tool, found.unwrap_or_else(|| cached(tool, dirs, &pins)));
    }
    if !missing.is_empty() {
        build::build(&missing, dirs, &pins).await?;
    }
    Ok(paths)
}

fn cached(tool: Tool, dirs: &Dirs, pins: &Pins) -> PathBuf {
    tool.suite().dir(dirs, pins).join(tool.name())
}

async fn find(tool: Tool, dirs: &Dirs, pins: &Pins) -> Option<PathBuf> {
    let version = tool.suite().version(pins);
    let assets = std::env::var_os("KUBEBUILDER_ASSETS");
    let named = match tool {
        Tool::Helm => std::env::var_os("HELM_BIN").map(PathBuf::from),
        _ => assets.map(|assets| Path::new(&assets).join(tool.name())),
    };
    if let Some(path) = named.filter(|path| path.is_file()) {
        if is_version(&path, tool, version).await {
            return Some(path);
        }
        eprintln!("tools: not using {}: it is not {version}", path.display());
    }
    // The directory is named after the version, and a file appears in it only when it is complete.
    let path = cached(tool, dirs, pins);
    if path.is_file() {
        return Some(path);
    }
    for path in on_path(std::env::var_os("PATH").as_deref(), tool.name()) {
        if is_version(&path, tool, version).await {
            return Some(path);
        }
    }
    None
}

fn on_path(path: Option<&OsStr>, name: &str) -> Vec<PathBuf> {
    let dirs = path.map(std::env::split_paths).into_iter().flatten();
    dirs.map(|dir| dir.join(name))
        .filter(|file| file.is_absolute() && file.is_file())
        .collect()
}

async fn is_version(path: &Path, tool: Tool, version: &str) -> bool {
    let mut command = Command::new(path);
    command.args(tool.version_args()).stdin(Stdio::null());
    crate::exec::output(&mut command)
        .await
        .is_ok_and(|text| mentions(&text, version))
}

/// True if a part of `text` is the version, with or without its `v`.
fn mentions(text: &str, version: &str) -> bool {
    let bare = |part: &str| part.trim_start_matches('v').to_owned();
    text.split_whitespace()
        .any(|part| bare(part) == bare(version))
}

/// Writes a program for a test.
///
/// Processes that other tests start have copies of the open files of this process, so a program
/// that this process writes may be busy. A child writes it.
#[cfg(test)]
pub(crate) fn write_program(path: &Path, script: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
    let shell = std::process::Command::new("/bin/sh")
        .args(["-c", write])
        .arg(path)
        .arg(script)
        .status();
    assert!(shell.unwrap().success());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_version_is_suitable() {
        assert!(mentions("Kubernetes v1.36.3\n", "v1.36.3"));
        assert!(mentions(
            "etcd Version: 3.6.8\nGit SHA: Not provided",
            "v3.6.8"
        ));
        assert!(mentions(
            "Client Version: v1.36.3\nKustomize Version: v5.8.1\n",
            "v1.36.3"
        ));
        assert!(mentions(
            "kwokctl version v0.8.0 go1.26.8 (linux/amd64)",
            "v0.8.0"
        ));
        assert!(!mentions("Kubernetes v1.36.30\n", "v1.36.3"));
        assert!(!mentions("Kubernetes v1.36.3-rc.1\n", "v1.36.3"));
    }

    #[test]
    fn path_entries_that_are_relative_are_not_trusted() {
        assert!(on_path(Some(OsStr::new(".:src")), "Cargo.toml").is_empty());
        assert!(on_path(None, "sh").is_empty());
    }

    #[tokio::test]
    async fn the_version_is_requested_from_the_binary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd");
        std::fs::write(&path, "#!/bin/sh\necho etcd Version: 3.6.8\n").unwrap();
        assert!(
            !is_version(&path, Tool::Etcd, "v3.6.8").await,
            "it is not executable yet"
        );
        std::fs::remove_file(&path).unwrap();
        write_program(&path, "echo etcd Version: 3.6.8");
        assert!(is_version(&path, Tool::Etcd, "v3.6.8").await);
        assert!(!is_version(&path, Tool::Etcd, "v3.6.9").await);
    }
}
