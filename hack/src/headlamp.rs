//! `cargo dev headlamp`: the plugin for Headlamp, with the pages of the dashboard.

use std::{
    fs,
    path::{Path, PathBuf},
};

use flate2::Compression;
use serde_json::Value;

use crate::{
    archive::{empty_folder, gzip, packed},
    cargo, exec,
    paths::Dirs,
    scripts::{self, Source, at},
};

/// The target of the program that renders the pages.
const TARGET: &str = "wasm32-wasip1";
/// The package and the binary of that program.
const PROGRAM: &str = "baton-headlamp";
/// The folder with the sources of the plugin.
const SOURCES: &str = "crates/headlamp/web";
/// The files of the dashboard that the plugin contains.
const SHARED: [&str; 4] = [
    "crates/dashboard/assets/dashboard.css",
    "crates/dashboard/web/change.ts",
    "crates/dashboard/web/idiomorph.d.ts",
    "crates/dashboard/web/times.ts",
];
/// The description of the plugin for Headlamp.
const DESCRIPTION: &str = "crates/headlamp/plugin.json";
/// The files of a plugin in Headlamp's folder of plugins: script, description and licenses.
const PLUGIN: [&str; 3] = ["main.js", "package.json", "LICENSES.txt"];
/// The licenses of the plugin and of the packages in its script.
const LICENSES: [&str; 3] = [
    "LICENSE",
    "target/headlamp/build/node_modules/@bjorn3/browser_wasi_shim/LICENSE-MIT",
    "target/headlamp/build/node_modules/idiomorph/LICENSE",
];
/// The folder with the frontend of Headlamp for the tests.
const HOST: &str = "integration/headlamp";
/// The program that serves it.
const SERVE: &str = "serve.mjs";

/// The reason that the plugin cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The target is not installed.
    #[error(
        "the standard library of Rust for {TARGET} is missing: run `rustup target add {TARGET}`"
    )]
    NoTarget,
    /// The program cannot be built.
    #[error(transparent)]
    Cargo(#[from] exec::Error),
    /// npm has failed, or a file cannot be read or written.
    #[error(transparent)]
    Script(#[from] scripts::Error),
}

/// A plugin that was made.
pub(crate) struct Made {
    /// The folder to put beside Headlamp's other plugins.
    pub(crate) folder: PathBuf,
    /// An archive of the folder.
    pub(crate) archive: PathBuf,
}

/// Makes the plugin in `target/headlamp/baton`, and an archive of it beside that folder.
///
/// # Errors
/// If the target of Rust or npm is missing, or a build fails.
pub(crate) async fn build(dirs: &Dirs) -> Result<Made, Error> {
    let program = program(dirs).await?;
    let mut sources = scripts::sources(&dirs.workspace.join(SOURCES))?;
    for path in SHARED {
        sources.push(named(&dirs.workspace.join(path))?);
    }
    let (name, program) = named(&program)?;
    let program = gzip(&program, Compression::best()).map_err(at(Path::new(&name)))?;
    sources.push((format!("{name}.gz"), program));
    let output = dirs.workspace.join("target/headlamp");
    let script = scripts::build(&output.join("build"), &sources, PLUGIN[0]).await?;
    let folder = output.join("baton");
    empty_folder(&folder).map_err(at(&folder))?;
    let description = description(dirs)?;
    let licenses = licenses(dirs)?;
    let contents = [&script, &description, &licenses];
    let files = PLUGIN.into_iter().zip(contents.map(String::as_bytes));
    for (name, content) in files.clone() {
        let path = folder.join(name);
        fs::write(&path, content).map_err(at(&path))?;
    }
    let files = files.map(|(name, content)| (format!("baton/{name}"), content));
    let archive = output.join("baton-headlamp.tar.gz");
    let content = packed(files, 0, Compression::best()).map_err(at(&archive))?;
    fs::write(&archive, content).map_err(at(&archive))?;
    Ok(Made { folder, archive })
}

/// Makes the frontend of Headlamp with a plugin, and returns the program that serves it.
///
/// # Errors
/// If npm fails, or a file cannot be read or written.
pub(crate) async fn host(dirs: &Dirs, plugin: &Path) -> Result<PathBuf, Error> {
    let folder = dirs.workspace.join("target/headlamp/host");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    for (name, content) in scripts::sources(&dirs.workspace.join(HOST))? {
        let path = folder.join(name);
        fs::write(&path, content).map_err(at(&path))?;
    }
    // Only the version of the kit is pinned, so no script of a package runs.
    let install = [
        "install",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
    ];
    for arguments in [&install[..], &["run", "build"]] {
        let mut npm = tokio::process::Command::new("npm");
        exec::output(npm.args(arguments).current_dir(&folder)).await?;
    }
    let plugins = folder.join("dist/plugins/baton");
    empty_folder(&plugins).map_err(at(&plugins))?;
    for name in PLUGIN {
        let path = plugins.join(name);
        fs::copy(plugin.join(name), &path).map_err(at(&path))?;
    }
    Ok(folder.join(SERVE))
}

/// Builds the program that renders the pages.
async fn program(dirs: &Dirs) -> Result<PathBuf, Error> {
    let mut libraries = tokio::process::Command::new("rustc");
    libraries.args(["--print", "target-libdir", "--target", TARGET]);
    let folder = exec::output(&mut libraries).await?;
    if !Path::new(folder.trim()).is_dir() {
        return Err(Error::NoTarget);
    }
    let mut build = cargo::command(dirs);
    build.args(["build", "--locked", "--profile", "wasm"]);
    build.args(["--target", TARGET, "-p", PROGRAM]);
    exec::output(&mut build).await?;
    let path = format!("target/{TARGET}/wasm/{PROGRAM}.wasm");
    Ok(dirs.workspace.join(path))
}

/// The description of the plugin, with the version of the workspace.
fn description(dirs: &Dirs) -> Result<String, Error> {
    let path = dirs.workspace.join(DESCRIPTION);
    let (_, text) = named(&path)?;
    let mut description: Value =
        serde_json::from_slice(&text).map_err(|error| at(&path)(error.into()))?;
    description["version"] = env!("CARGO_PKG_VERSION").into();
    Ok(format!("{description:#}\n"))
}

/// The texts of all licenses, each below its path.
fn licenses(dirs: &Dirs) -> Result<String, Error> {
    let texts = LICENSES.into_iter().map(|license| {
        let path = dirs.workspace.join(license);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let name = license.rsplit("node_modules/").next().unwrap_or(license);
        Ok(format!("{name}\n\n{text}\n"))
    });
    texts.collect()
}

/// A file with its name.
fn named(path: &Path) -> Result<Source, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let content = fs::read(path).map_err(at(path))?;
    Ok((name.into_owned(), content))
}
