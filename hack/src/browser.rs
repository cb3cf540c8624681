//! `cargo dev browser`: the tests of the dashboard in a headless Chromium.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{exec, paths::Dirs};

/// The folder with the script that steers the browser.
const SOURCES: &str = "integration/browser";
/// The files of that folder.
const FILES: [&str; 3] = ["browser.mjs", "package.json", "package-lock.json"];
/// The usual names of the program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The tests, which the suite leaves out, without their module.
const TESTS: [&str; 7] = [
    "test",
    "--bed",
    "browser",
    "--test",
    "suite",
    "--",
    "--ignored",
];

/// The reason that the browser cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no Chromium.
    #[error(
        "no Chromium was found: install the package chromium, or name the program in BATON_CHROMIUM"
    )]
    NoChromium,
    /// A file cannot be copied.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// npm failed.
    #[error(transparent)]
    Npm(#[from] exec::Error),
    /// The path of this program is unknown.
    #[error("the path of this program is unknown: {0}")]
    Own(io::Error),
}

/// The command that runs the tests of a module, after npm has installed the packages of the script.
///
/// # Errors
/// If npm or Chromium is missing, or npm fails.
pub(crate) async fn tests(dirs: &Dirs, module: &str) -> Result<Command, Error> {
    let chromium = chromium().ok_or(Error::NoChromium)?;
    let folder = dirs.workspace.join("target/browser");
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| Error::File { path, source }
    };
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    for file in FILES {
        let path = dirs.workspace.join(SOURCES).join(file);
        fs::copy(&path, folder.join(file)).map_err(failed(&path))?;
    }
    let mut npm = tokio::process::Command::new("npm");
    let npm = npm.args(["ci", "--no-audit", "--no-fund"]);
    exec::output(npm.current_dir(&folder)).await?;
    let mut tests = Command::new(env::current_exe().map_err(Error::Own)?);
    tests
        .args(TESTS)
        .arg(module)
        .env("BATON_BROWSER", folder.join(FILES[0]))
        .env("BATON_CHROMIUM", chromium);
    Ok(tests)
}

/// The Chromium to use.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = env::var_os("BATON_CHROMIUM") {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let programs = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.into_iter().find(|program| program.is_file())
}
