//! Checks the pure crates: they decide on given data only, and neither they nor their dependencies
//! have a client, a runtime or a clock.
//!
//! A build of the whole workspace cannot show that, since all crates get the features that any
//! crate requests.

use crate::cargo;
use crate::exec;
use crate::paths::Dirs;

/// The directories of the pure crates below `crates`.
pub(crate) const CRATES: [&str; 8] = [
    "engine", "pages", "probes", "releases", "sites", "text", "view", "yaml",
];

/// Crates that they must not depend on.
const REFUSED: [&str; 4] = ["hyper", "kube-client", "rustls", "tokio"];

/// The reason that a crate is not pure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("{krate} depends on {package}: cargo tree -p {krate} -e normal -i {package}")]
    Depends {
        krate: String,
        package: &'static str,
    },
    #[error("{0} does not compile by itself")]
    Compile(String),
}

/// Checks the dependencies of each pure crate, and that it compiles alone.
pub(crate) async fn check(dirs: &Dirs) -> Result<(), Error> {
    for krate in CRATES.map(|name| format!("baton-{name}")) {
        let mut tree = cargo::command(dirs);
        tree.args(["tree", "--locked", "-p", &krate, "-e", "normal"]);
        tree.args(["--prefix", "none", "--format", "{p}"]);
        if let Some(package) = refused(&exec::output(&mut tree).await?) {
            return Err(Error::Depends { krate, package });
        }
        let mut compile = cargo::command(dirs);
        compile.args(["check", "--locked", "-p", &krate]);
        if !exec::status(&mut compile).await?.success() {
            return Err(Error::Compile(krate));
        }
    }
    Ok(())
}

/// A refused package in a dependency tree, which has a line for each package, with the name first.
fn refused(tree: &str) -> Option<&'static str> {
    let names: Vec<_> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    REFUSED.into_iter().find(|package| names.contains(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_forbids_clocks_is_checked() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let crates = std::fs::read_dir(crates).unwrap();
        let pure = crates
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("clippy.toml").exists());
        let mut pure: Vec<_> = pure
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        pure.sort();
        assert_eq!(pure, CRATES);
    }

    #[test]
    fn a_client_and_a_runtime_are_refused() {
        let pure = "baton-engine v0.1.0 (/b)\nkube v5.0.0\nhyper-text v1.0.0\nhttp v1.5.0";
        assert_eq!(refused(pure), None);
        for package in REFUSED {
            let tree = format!("{pure}\n{package} v1.2.3 (*)");
            assert_eq!(refused(&tree), Some(package));
        }
    }
}
