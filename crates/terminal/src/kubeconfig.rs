//! Chooses the cluster to connect to, and the credentials.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use http::Uri;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use baton_kubernetes::error::one_line;

use crate::proxy::{self, Proxies, ProxyError};

/// Flags that choose the cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ConnectionArgs {
    /// Kubeconfig to use instead of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(
        long,
        alias = "kube-config",
        env = "BATON_KUBECONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of the current one
    #[arg(
        long,
        env = "BATON_CONTEXT",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub context: Option<String>,
}

/// The cluster to connect to, or its credentials, cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A named file cannot be read.
    #[error(
        "cannot read the kubeconfig {}: {source}; \
         name an existing file with --kubeconfig or KUBECONFIG",
        path.display()
    )]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the read.
        source: io::Error,
    },
    /// A file is not a kubeconfig.
    #[error("{} is not a valid kubeconfig: {}", path.display(), one_line(source))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: Box<KubeconfigError>,
    },
    /// The context does not exist.
    #[error(
        "the kubeconfig {origin} has no context {context:?}; choose one of {contexts:?} with --context"
    )]
    UnknownContext {
        /// The kubeconfig that was searched.
        origin: String,
        /// The requested context.
        context: String,
        /// The contexts of the kubeconfig.
        contexts: Vec<String>,
    },
    /// No context was chosen.
    #[error(
        "the kubeconfig {origin} has no current context; choose one of {contexts:?} with --context"
    )]
    NoContext {
        /// The kubeconfig that was searched.
        origin: String,
        /// The contexts of the kubeconfig.
        contexts: Vec<String>,
    },
    /// The context cannot be used.
    #[error(
        "the context {context:?} of the kubeconfig {origin} cannot be used: {}",
        one_line(source)
    )]
    Context {
        /// The kubeconfig that has the context.
        origin: String,
        /// Name of the context.
        context: String,
        /// The cause.
        source: Box<KubeconfigError>,
    },
    /// There is no kubeconfig, and the process does not run in a pod.
    #[error(
        "no kubeconfig found and not running in a pod ({source}); give one with --kubeconfig or KUBECONFIG"
    )]
    Nowhere {
        /// The missing part of a pod's environment.
        source: Box<InClusterError>,
    },
    /// The URL of a proxy is not valid.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A context was given, but no kubeconfig.
    #[error(
        "--context {context:?} needs a kubeconfig and none was found; give one with --kubeconfig or KUBECONFIG"
    )]
    ContextWithoutFile {
        /// The given context.
        context: String,
    },
}

impl ConfigError {
    /// The text of the error with other names of flags: with the prefix `hub-`, the text has
    /// `--hub-kubeconfig` and `--hub-context` in place of `--kubeconfig` and `--context`.
    pub fn with_flags(&self, prefix: &str) -> String {
        self.to_string()
            .replace("--kubeconfig", &format!("--{prefix}kubeconfig"))
            .replace("--context", &format!("--{prefix}context"))
    }
}

/// The client configuration for the chosen cluster, by the rules of kubectl.
///
/// The sources are `--kubeconfig`, `KUBECONFIG` (a list of files is merged), `~/.kube/config`, and
/// the service account of the pod. A named file that does not exist is an error, never a reason to
/// use another cluster. The proxy is that of the kubeconfig, else that of the environment
/// ([`Proxies`]); a pod reaches its own server without a proxy.
///
/// # Errors
///
/// The text states in one line what is wrong and what to do about it.
pub async fn load_client_config(args: &ConnectionArgs) -> Result<kube::Config, ConfigError> {
    let proxies = Proxies::of_environment();
    let variable = std::env::var_os("KUBECONFIG");
    let files = kubeconfig_files(
        args.kubeconfig.as_deref(),
        variable.as_deref(),
        std::env::home_dir().as_deref(),
    );
    if files.is_empty() {
        return match &args.context {
            Some(context) => Err(ConfigError::ContextWithoutFile {
                context: context.clone(),
            }),
            None => in_cluster_config(),
        };
    }
    load_files(&files, args.context.as_deref(), &proxies).await
}

/// The client configuration of a pod for its own cluster, whether there is a kubeconfig or not.
///
/// # Errors
///
/// If the process does not run in a pod.
pub fn in_cluster_config() -> Result<kube::Config, ConfigError> {
    kube::Config::incluster().map_err(|source| ConfigError::Nowhere {
        source: Box::new(source),
    })
}

/// The names of all contexts to choose from. Files that cannot be read are skipped.
pub fn contexts(args: &ConnectionArgs) -> Vec<String> {
    let variable = std::env::var_os("KUBECONFIG");
    let files = kubeconfig_files(
        args.kubeconfig.as_deref(),
        variable.as_deref(),
        std::env::home_dir().as_deref(),
    );
    let configs = files.iter().filter_map(|it| Kubeconfig::read_from(it).ok());
    let mut names: Vec<String> = configs
        .flat_map(|config| config.contexts)
        .map(|context| context.name)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The files to read, in order of precedence; empty if the process should run in a pod.
fn kubeconfig_files(
    flag: Option<&Path>,
    variable: Option<&OsStr>,
    home: Option<&Path>,
) -> Vec<PathBuf> {
    if let Some(path) = flag {
        return vec![path.to_owned()];
    }
    let listed = variable.map(std::env::split_paths).into_iter().flatten();
    let listed: Vec<PathBuf> = listed.filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        // kubectl skips missing files of a list. If none is left, the first one is reported as
        // missing.
        let existing: Vec<PathBuf> = listed
            .iter()
            .filter(|path| path.exists())
            .cloned()
            .collect();
        return if existing.is_empty() {
            listed.into_iter().take(1).collect()
        } else {
            existing
        };
    }
    home.map(|home| home.join(".kube/config"))
        .filter(|path| path.exists())
        .into_iter()
        .collect()
}

async fn load_files(
    files: &[PathBuf],
    context: Option<&str>,
    proxies: &Proxies,
) -> Result<kube::Config, ConfigError> {
    let mut merged = Kubeconfig::default();
    for path in files {
        let invalid = |source| match source {
            KubeconfigError::ReadConfig(source, path) => ConfigError::Read { path, source },
            source => ConfigError::Invalid {
                path: path.clone(),
                source: Box::new(source),
            },
        };
        let next = Kubeconfig::read_from(path).map_err(invalid)?;
        merged = merged.merge(next).map_err(invalid)?;
    }
    let origin = files
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(":");
    let contexts: Vec<String> = merged
        .contexts
        .iter()
        .map(|context| context.name.clone())
        .collect();
    let current = merged
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    let Some(context) = context.or(current).map(str::to_owned) else {
        return Err(ConfigError::NoContext { origin, contexts });
    };
    if !contexts.contains(&context) {
        return Err(ConfigError::UnknownContext {
            origin,
            context,
            contexts,
        });
    }
    let options = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    let own = proxy_url(&merged, &context)?;
    let config = kube::Config::from_custom_kubeconfig(merged, &options).await;
    let mut config = config.map_err(|source| ConfigError::Context {
        origin,
        context,
        source: Box::new(source),
    })?;
    // kube would compare the address of the proxy, not that of the server, with `NO_PROXY`.
    config.proxy_url = match own {
        Some(own) => Some(own),
        None => proxies.to(&config.cluster_url)?,
    };
    Ok(config)
}

/// The proxy that a context names for its cluster.
fn proxy_url(config: &Kubeconfig, context: &str) -> Result<Option<Uri>, ProxyError> {
    let contexts = &config.contexts;
    let named = || {
        let context = contexts.iter().find(|it| it.name == context)?;
        let name = &context.context.as_ref()?.cluster;
        let cluster = config.clusters.iter().find(|it| it.name == *name)?;
        let proxy = cluster.cluster.as_ref()?.proxy_url.as_deref()?;
        (!proxy.is_empty()).then_some(proxy)
    };
    named().map(proxy::of_kubeconfig).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: 'https://127.0.0.1:6443'}}
users:
- {name: u, user: {token: t}}
contexts:
- {name: a, context: {cluster: c, user: u}}
- {name: b, context: {cluster: c, user: u, namespace: shop}}
- {name: broken, context: {cluster: nowhere, user: u}}
current-context: a
";

    #[test]
    fn kubeconfigs_are_found_in_the_places_of_kubectl() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path(".kube")).unwrap();
        for name in ["one", "two", ".kube/config"] {
            std::fs::write(path(name), KUBECONFIG).unwrap();
        }
        let list =
            |names: &[&str]| std::env::join_paths(names.iter().map(|name| path(name))).unwrap();
        let home = directory.path();
        let files = |flag: Option<&str>, variable: Option<&OsStr>, home: Option<&Path>| {
            kubeconfig_files(flag.map(path).as_deref(), variable, home)
        };
        assert_eq!(
            files(Some("gone"), Some(&list(&["one"])), Some(home)),
            [path("gone")]
        );
        assert_eq!(
            files(None, Some(&list(&["one", "gone", "two"])), Some(home)),
            [path("one"), path("two")]
        );
        assert_eq!(
            files(None, Some(&list(&["gone", "lost"])), Some(home)),
            [path("gone")]
        );
        assert_eq!(
            files(None, Some(OsStr::new("")), Some(home)),
            [path(".kube/config")]
        );
        assert_eq!(files(None, None, Some(home)), [path(".kube/config")]);
        assert_eq!(
            files(None, None, Some(&path("nobody"))),
            Vec::<PathBuf>::new()
        );
        assert_eq!(files(None, None, None), Vec::<PathBuf>::new());
    }

    /// Loads a kubeconfig with this content.
    async fn load(text: Option<&str>, context: Option<&str>) -> Result<kube::Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let args = ConnectionArgs {
            kubeconfig: Some(path.clone()),
            context: context.map(str::to_owned),
        };
        let file = path.display().to_string();
        load_client_config(&args)
            .await
            .map_err(|error| error.to_string().replace(&file, "FILE"))
    }

    #[tokio::test]
    async fn the_context_selects_cluster_and_namespace() {
        assert_eq!(
            load(Some(KUBECONFIG), None)
                .await
                .unwrap()
                .default_namespace,
            "default"
        );
        let config = load(Some(KUBECONFIG), Some("b")).await.unwrap();
        assert_eq!(config.default_namespace, "shop");
        assert_eq!(config.cluster_url, "https://127.0.0.1:6443/");
    }

    #[tokio::test]
    async fn errors_are_one_line_with_a_remedy() {
        let no_current = KUBECONFIG.replace("current-context: a", "");
        for (content, context, expected) in [
            (
                None,
                None,
                "cannot read the kubeconfig FILE: No such file or directory (os error 2); name an existing file",
            ),
            (Some("["), None, "FILE is not a valid kubeconfig: "),
            (
                Some(KUBECONFIG),
                Some("x"),
                r#"the kubeconfig FILE has no context "x"; choose one of ["a", "b", "broken"]"#,
            ),
            (
                Some(&*no_current),
                None,
                r#"the kubeconfig FILE has no current context; choose one of ["a", "b", "broken"]"#,
            ),
            (
                Some(""),
                None,
                "the kubeconfig FILE has no current context; choose one of []",
            ),
            (
                Some(KUBECONFIG),
                Some("broken"),
                r#"the context "broken" of the kubeconfig FILE cannot be used: "#,
            ),
        ] {
            let error = load(content, context).await.unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
