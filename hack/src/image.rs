//! `cargo dev image`: the image of the manager and the agent, made without Docker.
//!
//! The image has static programs and nothing else: `baton`, the pinned `helm`, certificates, and
//! the folders that both write to. The same commit results in the same image: all times are that of
//! the commit, and no file has a path of this machine.

mod layer;
mod layout;
pub(crate) mod programs;
pub(crate) mod registry;
mod trial;

use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;

use self::layout::Layout;
use self::programs::{Platform, Programs};
use crate::commit::{self, Commit};
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
    #[error(transparent)]
    Commit(#[from] commit::Error),
    #[error("the registry does not answer; {log} has its messages")]
    Registry { log: PathBuf },
    #[error("the image in the registry has the digest {found}, and not {made}")]
    Digest { found: String, made: String },
    #[error("tests have failed with the manager in the image ({0})")]
    Trial(ExitStatus),
}

/// A made image.
pub(crate) struct Image {
    /// The folder with the OCI layout.
    folder: PathBuf,
    /// The digest of its index.
    pub(crate) digest: String,
    pub(crate) platforms: Vec<OfPlatform>,
}

/// The image of a platform.
pub(crate) struct OfPlatform {
    pub(crate) platform: Platform,
    pub(crate) programs: Programs,
    /// The path of its archive.
    pub(crate) archive: PathBuf,
    /// The digest of its manifest.
    pub(crate) digest: String,
    /// The digests of its layers.
    pub(crate) layers: Vec<String>,
}

/// Makes the image for all platforms, and pushes or tries it.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    let commit = Commit::read(dirs).await?;
    let platforms = Platform::or_here(&options.platform)?;
    let image = make(dirs, &commit, &platforms, None).await?;
    for made in &image.platforms {
        println!("{}", made.archive.display());
    }
    println!("{}\n{}", image.folder.display(), image.digest);
    if let Some(reference) = &options.push {
        let pushed = push(dirs, &image, reference, options.insecure).await?;
        println!("{pushed}");
    }
    if options.trial {
        trial::run(dirs, &image).await?;
    }
    Ok(())
}

/// Makes the image for platforms. `reference` is the image that `baton cluster join` names for
/// agents; by default it is the one of the chart.
pub(crate) async fn make(
    dirs: &Dirs,
    commit: &Commit,
    platforms: &[Platform],
    reference: Option<&str>,
) -> Result<Image, Error> {
    let layout = Layout::create(&dirs.workspace.join("target/image"), commit)?;
    let (mut images, mut made) = (Vec::new(), Vec::new());
    for &platform in platforms {
        let programs = Programs::build(dirs, platform, reference).await?;
        let layers = layer::all(&programs, commit.time)?;
        let image = layout.add(platform, &layers)?;
        made.push(OfPlatform {
            platform,
            programs,
            archive: layout.archive(platform, &image)?,
            digest: image.digest(),
            layers: image.layers(),
        });
        images.push(image);
    }
    Ok(Image {
        digest: layout.finish(&images)?,
        folder: layout.folder().to_owned(),
        platforms: made,
    })
}

/// Pushes all platforms. Returns the reference with the digest in the registry, which is that of the
/// image.
pub(crate) async fn push(
    dirs: &Dirs,
    image: &Image,
    reference: &str,
    is_insecure: bool,
) -> Result<String, Error> {
    let crane = tools::path(Tool::Crane, dirs).await?;
    let mut command = tokio::process::Command::new(crane);
    command
        .args(["push", "--index"])
        .arg(&image.folder)
        .arg(reference);
    if is_insecure {
        command.arg("--insecure");
    }
    let pushed = exec::output(&mut command).await?;
    let pushed = pushed.trim().to_owned();
    if !pushed.ends_with(&image.digest) {
        return Err(Error::Digest {
            found: pushed,
            made: image.digest.clone(),
        });
    }
    Ok(pushed)
}
