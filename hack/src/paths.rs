//! The directories of the tasks: the workspace, and the cache of files that take long to build.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::kubernetes::{self, Kubernetes};

/// The directories of the tasks.
#[derive(Debug, Clone)]
pub struct Dirs {
    /// The root of the workspace.
    pub workspace: PathBuf,
    /// The cache: built tools, and the state of running beds. It is not removed by `cargo clean`.
    pub cache: PathBuf,
    /// The version of control planes, from the variable [`kubernetes::VARIABLE`].
    pub kubernetes: Kubernetes,
}

/// The reason that the directories are unknown.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error("no place for the cache: set BATON_CACHE, XDG_CACHE_HOME or HOME")]
    NoCache,
    #[error(transparent)]
    Kubernetes(#[from] kubernetes::UnknownVersion),
    #[error("cannot make {path} absolute: {source}")]
    Absolute {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Dirs {
    /// Reads the environment: the cache is `$BATON_CACHE`, else `$XDG_CACHE_HOME/baton`, else
    /// `$HOME/.cache/baton`.
    pub fn from_env() -> Result<Self, Error> {
        let cache = cache(|name| std::env::var_os(name))?;
        // The path is absolute, because processes run in other directories and are identified by
        // the paths in their arguments.
        let cache = std::path::absolute(&cache).map_err(|source| Error::Absolute {
            path: cache,
            source,
        })?;
        let hack = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = hack.parent().unwrap_or(hack).to_owned();
        let kubernetes = match std::env::var(kubernetes::VARIABLE) {
            Ok(version) => version.parse()?,
            Err(_) => Kubernetes::default(),
        };
        Ok(Self {
            workspace,
            cache,
            kubernetes,
        })
    }

    /// The directory of a Go module in this directory.
    #[must_use]
    pub fn go_module(&self, name: &str) -> PathBuf {
        self.workspace.join("hack").join(name)
    }

    /// The parent directory of the beds.
    #[must_use]
    pub fn clusters(&self) -> PathBuf {
        self.cache.join("clusters")
    }

    /// The directory of the generated custom resource definitions.
    #[must_use]
    pub fn crds(&self) -> PathBuf {
        self.workspace.join("config").join("crds")
    }

    /// The directory of the generated definitions of the release kinds.
    #[must_use]
    pub fn release_crds(&self) -> PathBuf {
        self.workspace.join("config").join("releases")
    }
}

fn cache(var: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let dir = |name: &str| {
        var(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    dir("BATON_CACHE")
        .or_else(|| dir("XDG_CACHE_HOME").map(|dir| dir.join("baton")))
        .or_else(|| dir("HOME").map(|dir| dir.join(".cache").join("baton")))
        .ok_or(Error::NoCache)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Option<PathBuf> {
        let find = |name: &str| {
            vars.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        cache(find).ok()
    }

    #[test]
    fn cache_prefers_the_most_specific_variable() {
        let (home, xdg, own) = (
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("BATON_CACHE", "/b"),
        );
        assert_eq!(with(&[home, xdg, own]), Some("/b".into()));
        assert_eq!(with(&[home, xdg]), Some("/x/baton".into()));
        assert_eq!(with(&[home]), Some("/h/.cache/baton".into()));
        assert_eq!(
            with(&[home, ("BATON_CACHE", "")]),
            Some("/h/.cache/baton".into())
        );
        assert_eq!(with(&[]), None);
    }
}
