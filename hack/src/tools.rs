//! The binaries of the bed: found where they are, built from the pinned Go modules where they are
//! not.

mod build;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::paths::Dirs;
use crate::pins::{self, Pins};

/// A program that the bed consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The API server.
    KubeApiserver,
    /// Built-in controllers: garbage collection, namespaces, Deployments.
    KubeControllerManager,
    /// Gives pods a node.
    KubeScheduler,
    /// The command line client.
    Kubectl,
    /// The store behind the API server.
    Etcd,
    /// Simulates nodes and what their pods do.
    Kwok,
    /// Starts the others as one cluster.
    Kwokctl,
}

/// Tools that are built together, in one run of the Go compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    Kubernetes,
    Etcd,
    Kwok,
}

/// Why the tools are not at hand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module files are broken.
    #[error(transparent)]
    Pins(#[from] pins::Error),
    /// There is no Go at all.
    #[error(
        "Go {needed} or newer is needed to build {missing}, and no `go` was found: \
         install it from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a directory that holds them"
    )]
    NoGo {
        /// The oldest version that will do.
        needed: pins::GoVersion,
        /// The tools to build.
        missing: String,
    },
    /// The Go found is too old.
    #[error(
        "Go {needed} or newer is needed to build {missing}, and `go` is {found}: update it from https://go.dev/dl"
    )]
    OldGo {
        /// The oldest version that will do.
        needed: pins::GoVersion,
        /// The version as Go states it.
        found: String,
        /// The tools to build.
        missing: String,
    },
    /// The compiler failed.
    #[error("building {what} failed ({status}):\n{output}")]
    Build {
        /// What was being built.
        what: String,
        /// How the compiler ended.
        status: std::process::ExitStatus,
        /// The end of what it wrote.
        output: String,
    },
    /// The compiler could not be run.
    #[error(transparent)]
    Exec(#[from] crate::exec::Error),
    /// The cache cannot be written.
    #[error("{path}: {source}")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 7] = [
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
        Self::Etcd,
        Self::Kwok,
        Self::Kwokctl,
    ];

    /// The file name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Etcd => "etcd",
            Self::Kwok => "kwok",
            Self::Kwokctl => "kwokctl",
        }
    }

    /// The Go package of the command.
    fn package(self) -> &'static str {
        match self {
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Kwokctl => "sigs.k8s.io/kwok/cmd/kwokctl",
        }
    }

    fn suite(self) -> Suite {
        match self {
            Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubectl => Suite::Kubernetes,
            Self::Etcd => Suite::Etcd,
            Self::Kwok | Self::Kwokctl => Suite::Kwok,
        }
    }

    /// The arguments that make the tool print its version without asking a server.
    fn version_args(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            _ => &["--version"],
        }
    }
}

impl Suite {
    const ALL: [Self; 3] = [Self::Kwok, Self::Etcd, Self::Kubernetes];

    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::Kwok => "kwok",
        }
    }

    fn version(self, pins: &Pins) -> &'static str {
        match self {
            Self::Kubernetes => pins.kubernetes,
            Self::Etcd => pins.etcd,
            Self::Kwok => pins.kwok,
        }
    }

    /// The directory of the Go module that pins the suite.
    fn module(self) -> &'static str {
        match self {
            Self::Kubernetes | Self::Etcd => "controlplane",
            Self::Kwok => "kwok",
        }
    }

    /// Where the binaries of this version are kept.
    fn dir(self, dirs: &Dirs, pins: &Pins) -> PathBuf {
        dirs.cache
            .join(format!("{}-{}", self.name(), self.version(pins)))
    }
}

/// All tools, each in its pinned version.
#[derive(Debug, Clone)]
pub struct Toolbox {
    paths: BTreeMap<Tool, PathBuf>,
}

impl Toolbox {
    /// Finds every tool, and builds what is missing with progress on the standard error.
    ///
    /// A tool is looked for in the directory `$KUBEBUILDER_ASSETS`, in the cache, and on the
    /// `PATH`; only the pinned version counts, because the tests state what *that* server answers.
    ///
    /// # Errors
    ///
    /// When something is missing and there is no suitable Go, or the build fails.
    pub async fn prepare(dirs: &Dirs) -> Result<Self, Error> {
        let pins = Pins::read()?;
        let mut paths = BTreeMap::new();
        for tool in Tool::ALL {
            if let Some(path) = find(tool, dirs, &pins).await {
                paths.insert(tool, path);
            }
        }
        let missing: Vec<Tool> = Tool::ALL
            .into_iter()
            .filter(|tool| !paths.contains_key(tool))
            .collect();
        if !missing.is_empty() {
            build::build(&missing, dirs, &pins).await?;
        }
        for tool in missing {
            paths.insert(tool, cached(tool, dirs, &pins));
        }
        Ok(Self { paths })
    }

    /// Where a tool is.
    #[must_use]
    pub fn path(&self, tool: Tool) -> &Path {
        // `prepare` is the only constructor and has an entry for each; a bare name would be looked
        // up on the PATH.
        self.paths
            .get(&tool)
            .map_or(Path::new(tool.name()), PathBuf::as_path)
    }
}

fn cached(tool: Tool, dirs: &Dirs, pins: &Pins) -> PathBuf {
    tool.suite().dir(dirs, pins).join(tool.name())
}

async fn find(tool: Tool, dirs: &Dirs, pins: &Pins) -> Option<PathBuf> {
    let version = tool.suite().version(pins);
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let path = Path::new(&assets).join(tool.name());
        if path.is_file() {
            if is_version(&path, tool, version).await {
                return Some(path);
            }
            eprintln!("tools: not using {}: it is not {version}", path.display());
        }
    }
    // The directory is named after the version, and a file appears in it complete or not at all.
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

/// Whether a word of `text` is the version, with or without its `v`.
fn mentions(text: &str, version: &str) -> bool {
    let bare = |word: &str| word.trim_start_matches('v').to_owned();
    text.split_whitespace()
        .any(|word| bare(word) == bare(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_version_is_suitable() {
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
    async fn version_is_asked_of_the_binary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd");
        std::fs::write(&path, "#!/bin/sh\necho etcd Version: 3.6.8\n").unwrap();
        assert!(
            !is_version(&path, Tool::Etcd, "v3.6.8").await,
            "it is not executable yet"
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        assert!(is_version(&path, Tool::Etcd, "v3.6.8").await);
        assert!(!is_version(&path, Tool::Etcd, "v3.6.9").await);
    }
}
