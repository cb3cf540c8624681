//! `cargo dev check`: everything that can be said about the sources without running the tests.

use crate::cargo;
use crate::exec::Group;
use crate::generate;
use crate::paths::Dirs;
use crate::tidy;

/// Some checks failed; each has told why.
#[derive(Debug, thiserror::Error)]
#[error("failed: {}", .0.join(", "))]
pub struct Failed(Vec<&'static str>);

/// The checks that cargo does: name, arguments, and the flags of rustdoc.
const CARGO: [(&str, &[&str], &str); 3] = [
    ("format", &["fmt", "--all", "--check"], ""),
    (
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        "",
    ),
    (
        "documentation",
        &["doc", "--workspace", "--no-deps", "--locked"],
        "-D warnings",
    ),
];

/// Runs all checks, also when one has failed.
///
/// # Errors
///
/// The names of the checks that failed. What they found is on the standard error.
pub async fn run(dirs: &Dirs) -> Result<(), Failed> {
    let mut failed = Vec::new();
    for (name, args, rustdoc) in CARGO {
        eprintln!("check: {name}");
        if !passes(dirs, args, rustdoc).await {
            failed.push(name);
        }
    }
    eprintln!("check: generated files");
    if let Err(error) = generate::run(true) {
        eprintln!("{error}");
        failed.push("generated files");
    }
    eprintln!("check: tidiness");
    if let Err(error) = tidy::check(&dirs.workspace) {
        eprintln!("{error}");
        failed.push("tidiness");
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failed(failed))
    }
}

async fn passes(dirs: &Dirs, args: &[&str], rustdoc: &str) -> bool {
    let mut command = cargo::command(dirs);
    command.args(args);
    if !rustdoc.is_empty() {
        command.env("RUSTDOCFLAGS", rustdoc);
    }
    let mut group = match Group::spawn(&mut command) {
        Ok(group) => group,
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    };
    group.wait().await.is_ok_and(|status| status.success())
}
