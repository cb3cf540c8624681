//! The manifest by which krew installs the kubectl plugin.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::json;

use super::files::{self, Files};
use super::{Error, VERSION};
use crate::generate;

/// The program of the plugin.
pub(super) const PROGRAM: &str = "kubectl-baton";

/// A built plugin with its platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plugin {
    os: &'static str,
    architecture: &'static str,
    pub(super) file: PathBuf,
}

/// The reason that a text names no plugin.
#[derive(Debug, thiserror::Error)]
#[error("{0}: write darwin/amd64=FILE or darwin/arm64=FILE")]
pub(super) struct NoPlugin(String);

impl Plugin {
    pub(super) fn linux(architecture: &'static str, file: PathBuf) -> Self {
        Self {
            os: "linux",
            architecture,
            file,
        }
    }

    /// The name of its archive, without its ending.
    pub(super) fn name(&self) -> String {
        format!("{PROGRAM}_{VERSION}_{}_{}", self.os, self.architecture)
    }

    /// The name of its archive.
    pub(super) fn archive(&self) -> String {
        format!("{}.tar.gz", self.name())
    }

    pub(super) fn platform(&self) -> String {
        format!("{}/{}", self.os, self.architecture)
    }

    /// The target of Rust of a plugin for macOS.
    pub(super) fn target(&self) -> &'static str {
        match self.architecture {
            "arm64" => "aarch64-apple-darwin",
            _ => "x86_64-apple-darwin",
        }
    }

    /// True if a program is for macOS and the architecture: the header of a Mach-O file has both.
    fn fits(&self, program: &[u8]) -> bool {
        let processor = match self.architecture {
            "arm64" => [0x0c, 0, 0, 1],
            _ => [7, 0, 0, 1],
        };
        let header = [[0xcf, 0xfa, 0xed, 0xfe], processor].concat();
        program.starts_with(&header)
    }
}

impl FromStr for Plugin {
    type Err = NoPlugin;

    fn from_str(text: &str) -> Result<Self, NoPlugin> {
        let plugin = text.split_once('=').and_then(|(platform, file)| {
            let (os, architecture) = match platform {
                "darwin/amd64" => ("darwin", "amd64"),
                "darwin/arm64" => ("darwin", "arm64"),
                _ => return None,
            };
            Some(Self {
                os,
                architecture,
                file: file.into(),
            })
        });
        plugin.ok_or_else(|| NoPlugin(text.to_owned()))
    }
}

/// Checks plugins that were built elsewhere.
///
/// # Errors
/// If one is no program for its platform, or there are two for one.
pub(super) fn check(plugins: &[Plugin]) -> Result<(), Error> {
    let mut platforms = BTreeSet::new();
    for plugin in plugins {
        if !plugin.fits(&files::bytes(&plugin.file)?) {
            return Err(Error::Plugin(plugin.platform(), plugin.file.clone()));
        }
        if !platforms.insert(plugin.platform()) {
            return Err(Error::Twice(plugin.platform()));
        }
    }
    Ok(())
}

/// The manifest of plugins whose archives are files of the release.
pub(super) fn manifest(plugins: &[Plugin], url: &str, files: &Files) -> Result<Vec<u8>, Error> {
    let platforms = plugins.iter().map(|plugin| {
        let archive = plugin.archive();
        json!({
            "selector": { "matchLabels": { "os": plugin.os, "arch": plugin.architecture } },
            "uri": format!("{url}/{archive}"),
            "sha256": files.hashes().get(&archive),
            "files": [
                { "from": PROGRAM, "to": "." },
                { "from": "LICENSE", "to": "." },
            ],
            "bin": PROGRAM,
        })
    });
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": { "name": "baton" },
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": env!("CARGO_PKG_REPOSITORY"),
            "shortDescription": "Show, roll out and roll back revisions",
            "description": "Shows the revisions of a deployment with their phases, probes and objects, packs \
                manifests as revisions, compares revisions, and rolls back. It also controls releases and \
                rollouts over sites. The cluster needs the manager of Baton.\n",
            "platforms": platforms.collect::<Vec<_>>(),
        },
    });
    let text = serde_saphyr::to_string(&manifest).map_err(generate::Error::from)?;
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_an_archive_for_each_platform() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(folder.path(), 0).unwrap();
        let plugins = [
            Plugin::linux("amd64", PathBuf::new()),
            "darwin/arm64=plugin".parse().unwrap(),
        ];
        for plugin in &plugins {
            files.add(&plugin.archive(), b"archive").unwrap();
        }
        let manifest = manifest(&plugins, "https://files.example/v1", &files).unwrap();
        let manifest = String::from_utf8(manifest).unwrap();
        let hash = &files.hashes()[&plugins[0].archive()];
        for text in [
            format!("uri: https://files.example/v1/kubectl-baton_{VERSION}_linux_amd64.tar.gz"),
            format!("sha256: {hash}"),
            "os: darwin".to_owned(),
            format!("version: v{VERSION}"),
        ] {
            assert!(manifest.contains(&text), "{text}: {manifest}");
        }
    }

    #[test]
    fn plugins_are_checked_before_programs_are_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin");
        let checked = |platforms: &[&str]| {
            let named = platforms
                .iter()
                .map(|it| format!("{it}={}", file.display()).parse().unwrap());
            check(&named.collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        std::fs::write(&file, [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1, 0]).unwrap();
        assert_eq!(checked(&["darwin/arm64"]), Ok(()));
        let error = checked(&["darwin/amd64"]).unwrap_err();
        assert!(error.starts_with("darwin/amd64: "), "{error}");
        let error = checked(&["darwin/arm64", "darwin/arm64"]).unwrap_err();
        assert!(error.contains("twice: darwin/arm64"), "{error}");
        std::fs::remove_file(&file).unwrap();
        assert!(checked(&["darwin/arm64"]).is_err());
    }

    #[test]
    fn plugins_of_unknown_platforms_are_refused() {
        for text in ["darwin/arm64", "linux/amd64=x", "windows/amd64=x", "=x"] {
            let error = text.parse::<Plugin>().unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
