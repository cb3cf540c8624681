//! `cargo dev check`: all checks of the sources that do not run tests.

use std::process::ExitStatus;

use crate::book;
use crate::cargo;
use crate::chart;
use crate::dependencies;
use crate::exec;
use crate::generate;
use crate::layers;
use crate::monitoring;
use crate::paths::Dirs;
use crate::pure;
use crate::tidy;

/// Some checks failed; each has reported the reason.
#[derive(Debug, thiserror::Error)]
#[error("failed: {}", .0.join(", "))]
pub(crate) struct Failed(Vec<&'static str>);

/// The checks that cargo runs: name and arguments.
const CARGO: [(&str, &str); 4] = [
    ("format", "fmt --all --check"),
    (
        "clippy",
        "clippy --workspace --all-targets --locked -- -D warnings",
    ),
    (
        // Not a target that cargo selects by itself.
        "clippy of the attacks",
        "clippy --workspace --test adversary --locked -- -D warnings",
    ),
    ("documentation", "doc --workspace --no-deps --locked"),
];

/// Options of `cargo dev check`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Download the database of known vulnerabilities, and check the dependencies against it
    #[arg(long)]
    advisories: bool,
}

/// Runs all checks, even after one has failed.
///
/// `own` is the command line of `cargo dev`.
pub(crate) async fn run(dirs: &Dirs, options: &Options, own: &clap::Command) -> Result<(), Failed> {
    let mut failed = Vec::new();
    for (name, args) in CARGO {
        eprintln!("check: {name}");
        let mut command = cargo::command(dirs);
        command
            .args(args.split(' '))
            .env("RUSTDOCFLAGS", "-D warnings");
        if !succeeded(exec::status(&mut command).await) {
            failed.push(name);
        }
    }
    eprintln!("check: dependencies");
    if !succeeded(dependencies::rules(dirs, options.advisories).await) {
        failed.push("dependencies");
    }
    eprintln!("check: unused dependencies");
    if !succeeded(dependencies::unused(dirs).await) {
        failed.push("unused dependencies");
    }
    eprintln!("check: pure crates");
    if let Err(error) = pure::check(dirs).await {
        eprintln!("{error}");
        failed.push("pure crates");
    }
    eprintln!("check: generated files");
    if let Err(error) = generate::run(true) {
        eprintln!("{error}");
        failed.push("generated files");
    }
    eprintln!("check: chart");
    let rendered = generate::install(dirs, true).await;
    let checked = chart::check(dirs).await.map_err(generate::Error::from);
    if let Err(error) = rendered.and(checked) {
        eprintln!("{error}");
        failed.push("chart");
    }
    eprintln!("check: script of the dashboard");
    if let Err(error) = generate::script(dirs, true).await {
        eprintln!("{error}");
        failed.push("script of the dashboard");
    }
    eprintln!("check: links");
    if let Err(error) = book::check_links(&dirs.workspace) {
        eprintln!("{error}");
        failed.push("links");
    }
    eprintln!("check: pages that are run");
    if let Err(error) = book::check_runs(&dirs.workspace) {
        eprintln!("{error}");
        failed.push("pages that are run");
    }
    eprintln!("check: commands in pages");
    if let Err(error) = book::check(dirs, own).await {
        eprintln!("{error}");
        failed.push("commands in pages");
    }
    eprintln!("check: book");
    if let Err(error) = book::build(dirs).await {
        eprintln!("{error}");
        failed.push("book");
    }
    eprintln!("check: tidiness");
    if let Err(error) = tidy::check(&dirs.workspace) {
        eprintln!("{error}");
        failed.push("tidiness");
    }
    eprintln!("check: layers");
    if let Err(error) = layers::check(&dirs.workspace) {
        eprintln!("{error}");
        failed.push("layers");
    }
    eprintln!("check: rules of Prometheus");
    if let Err(error) = monitoring::check(dirs).await {
        eprintln!("{error}");
        failed.push("rules of Prometheus");
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failed(failed))
    }
}

/// True if a program has ended with success. An error is printed.
fn succeeded(ended: Result<ExitStatus, exec::Error>) -> bool {
    match ended {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}
