//! `cargo dev image`: the image of the manager and the agent, made without Docker.
//!
//! The image has static programs and nothing else: `baton`, the pinned `helm`, certificates, and
//! the folders that both write to. The same commit results in the same image: all times are that of
//! the commit, and no file has a path of this machine.

mod layer;
mod layout;
mod programs;
mod trial;

use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;

use self::layout::{Description, Layout};
use self::programs::Platform;
use crate::exec;
use crate::paths::Dirs;
use crate::tools::{self, Tool};

/// The name of the image, as the chart has it.
const NAME: &str = "baton";

/// Options of `cargo dev image`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Platforms of the image, separated by commas [default: that of this machine]
    #[arg(long, value_name = "OS/ARCH", value_delimiter = ',')]
    platform: Vec<Platform>,
    /// Push the image to this place, such as registry.example/team/baton:0.1.0
    #[arg(long, value_name = "REFERENCE")]
    push: Option<String>,
    /// Use a registry without TLS
    #[arg(long, requires = "push")]
    insecure: bool,
    /// Push the image to a registry on this machine, pull it, and run tests with the manager in it,
    /// as its user and with a read-only file system; needs root
    #[arg(long, conflicts_with = "push")]
    trial: bool,
}

/// The reason that there is no image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Programs(#[from] programs::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the registry does not answer")]
    Registry,
    #[error("the image in the registry has the digest {found}, and not {made}")]
    Digest { found: String, made: String },
    #[error("tests have failed with the manager in the image ({0})")]
    Trial(ExitStatus),
}

/// Makes the image for all platforms, and pushes or tries it.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    let mut platforms = options.platform.clone();
    if platforms.is_empty() {
        platforms.push(Platform::here()?);
    }
    let description = Description::of_commit(dirs).await?;
    let layout = Layout::create(&dirs.workspace.join("target/image"), &description)?;
    let mut images = Vec::new();
    for platform in platforms {
        let programs = programs::build(dirs, platform).await?;
        let layers = layer::all(&programs, description.time)?;
        let image = layout.add(platform, &layers)?;
        let archive = layout.archive(platform, &image)?;
        println!("{}", archive.display());
        images.push(image);
    }
    let digest = layout.finish(&images)?;
    println!("{}\n{digest}", layout.folder().display());
    if let Some(reference) = &options.push {
        push(dirs, &layout, reference, options.insecure).await?;
    }
    if options.trial {
        trial::run(dirs, &layout, &digest).await?;
    }
    Ok(())
}

/// Pushes all platforms. Returns the reference with the digest in the registry.
async fn push(
    dirs: &Dirs,
    layout: &Layout<'_>,
    reference: &str,
    is_insecure: bool,
) -> Result<String, Error> {
    let crane = tools::of_images(Tool::Crane, dirs).await?;
    let mut command = tokio::process::Command::new(crane);
    command
        .args(["push", "--index"])
        .arg(layout.folder())
        .arg(reference);
    if is_insecure {
        command.arg("--insecure");
    }
    let pushed = exec::output(&mut command).await?;
    let pushed = pushed.trim().to_owned();
    println!("{pushed}");
    Ok(pushed)
}
