//! `cargo dev release`: the files of a release.
//!
//! They are the programs, the image, the chart, the manifests and the book; a list of components for
//! each program; the manifest for krew; checksums, and the provenance of all files. cosign signs the
//! checksums, the provenance and the image. Except for the provenance and the signatures, the same
//! commit results in the same files.

mod changelog;
mod components;
mod files;
mod krew;
mod pinned;
mod prepare;
mod provenance;
mod signatures;
mod trial;

use std::path::PathBuf;

use clap::Args;

use self::files::Files;
use self::provenance::Provenance;
use self::signatures::{Key, Signer};
use crate::commit::Commit;
use crate::image::programs::{self, Platform};
use crate::paths::Dirs;
use crate::{book, chart, exec, generate, image, tools};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The folder of releases in the workspace.
const FOLDER: &str = "target/releases";

/// Options of `cargo dev release`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The version, such as 0.2.0 [default: that of the sources]
    version: Option<semver::Version>,
    /// Set the version in the sources, and give the unreleased changes of the changelog to it; make no
    /// files
    #[arg(long, requires = "version", conflicts_with_all = ["key", "image", "trial"])]
    prepare: bool,
    /// Sign with this key of cosign: a file, with its password in `COSIGN_PASSWORD`, or the URI of a key
    /// in a key management service. Without a key nothing is signed
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Push the image to this repository, such as registry.example/team/baton, and name it in the
    /// manifests, in the chart and in the program
    #[arg(long, value_name = "REPOSITORY")]
    image: Option<String>,
    /// Use a registry without TLS
    #[arg(long, requires = "image")]
    insecure: bool,
    /// Platforms of the programs, separated by commas [default: that of this machine]
    #[arg(long, value_name = "OS/ARCH", value_delimiter = ',')]
    platform: Vec<Platform>,
    /// A plugin that was built on macOS: darwin/amd64=FILE or darwin/arm64=FILE
    #[arg(long, value_name = "OS/ARCH=FILE")]
    plugin: Vec<krew::Plugin>,
    /// The URL of the folder that the files will be downloaded from
    #[arg(long, value_name = "URL")]
    download_url: Option<String>,
    /// The URI of the builder in the provenance
    #[arg(long, value_name = "URI")]
    builder: Option<String>,
    /// Make the files of any commit with a new key and a registry on this machine; then verify them
    /// with cosign, install the plugin with krew, and change files to see that they are refused
    #[arg(long, conflicts_with_all = ["key", "image", "plugin"])]
    trial: bool,
}

/// The reason that there are no files of a release.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "the version of the workspace is {VERSION}, not {0}: run `cargo dev release {0} --prepare`"
    )]
    Version(semver::Version),
    #[error("files differ from the commit: commit them first")]
    Dirty,
    #[error(transparent)]
    Changelog(#[from] changelog::Error),
    #[error(transparent)]
    Image(#[from] image::Error),
    #[error(transparent)]
    Program(#[from] programs::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error(transparent)]
    Chart(#[from] chart::Error),
    #[error(transparent)]
    Generate(#[from] generate::Error),
    #[error(transparent)]
    Book(#[from] book::Error),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: `{text}` is missing")]
    NoText { path: String, text: String },
    #[error("the list of components of {0} is no JSON: {1}")]
    Components(String, serde_json::Error),
    #[error("the key {0} is a file: set COSIGN_PASSWORD to its password")]
    NoPassword(String),
    #[error("{0}")]
    Trial(String),
}

/// The inputs of a release besides the sources.
struct Plan {
    commit: Commit,
    platforms: Vec<Platform>,
    plugins: Vec<krew::Plugin>,
    /// The repository of the image.
    image: Option<String>,
    insecure: bool,
    key: Option<Key>,
    /// Without a slash at its end.
    download_url: String,
    builder: String,
    notes: String,
}

/// A made release.
struct Release {
    files: Files,
    /// The reference of the image by its digest, if it was pushed.
    image: Option<String>,
}

/// Makes the files, or prepares the sources for it.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    if let Some(version) = &options.version {
        if options.prepare {
            return prepare::run(dirs, version).await;
        }
        if version.to_string() != VERSION {
            return Err(Error::Version(version.clone()));
        }
    }
    let mut plan = Plan::new(dirs, options).await?;
    if options.trial {
        return trial::run(dirs, &mut plan).await;
    }
    if plan.commit.is_dirty {
        return Err(Error::Dirty);
    }
    let release = make(dirs, &plan).await?;
    println!("{}", release.files.folder().display());
    if let Some(image) = release.image {
        println!("{image}");
    }
    if plan.key.is_none() {
        eprintln!("release: nothing is signed, as there is no --key");
    }
    Ok(())
}

impl Plan {
    async fn new(dirs: &Dirs, options: &Options) -> Result<Self, Error> {
        let repository = env!("CARGO_PKG_REPOSITORY");
        let url = match &options.download_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{repository}/releases/download/v{VERSION}"),
        };
        let builder = options.builder.clone();
        let changelog = files::read(&dirs.workspace.join("CHANGELOG.md"))?;
        Ok(Self {
            commit: Commit::read(dirs).await,
            platforms: Platform::or_here(&options.platform)?,
            plugins: options.plugin.clone(),
            image: options.image.clone(),
            insecure: options.insecure,
            key: options.key.clone().map(Key::named),
            download_url: url,
            builder: builder.unwrap_or_else(|| format!("{repository}/builders/by-hand")),
            notes: changelog::notes(&changelog, VERSION, options.trial)?,
        })
    }

    /// The image by its tag.
    fn tagged(&self) -> Option<String> {
        let repository = self.image.as_ref()?;
        Some(format!("{repository}:{VERSION}"))
    }
}

/// Makes all files.
async fn make(dirs: &Dirs, plan: &Plan) -> Result<Release, Error> {
    // An error of the key is reported before the programs are built.
    let signer = match &plan.key {
        Some(key) => Some(Signer::new(dirs, key).await?),
        None => None,
    };
    let started = provenance::now();
    let mut files = Files::create(&dirs.workspace.join(FOLDER).join(VERSION))?;
    let tagged = plan.tagged();
    let image = image::make(dirs, &plan.commit, &plan.platforms, tagged.as_deref()).await?;
    let mut plugins = Vec::new();
    for (platform, programs, archive) in &image.platforms {
        let architecture = platform.architecture();
        files.add(
            &format!("baton_{VERSION}_image_linux_{architecture}.tar"),
            &files::bytes(archive)?,
        )?;
        let name = format!("baton_{VERSION}_linux_{architecture}.tar.gz");
        files.add_program(dirs, plan, &name, "baton", &programs.baton)?;
        let plugin = programs::static_program(dirs, krew::PROGRAM, *platform, None).await?;
        plugins.push(krew::Plugin::linux(architecture, plugin));
    }
    plugins.extend(plan.plugins.iter().cloned());
    for plugin in &plugins {
        files.add_program(dirs, plan, &plugin.archive(), krew::PROGRAM, &plugin.file)?;
    }
    let pushed = match &tagged {
        Some(reference) => Some(image::push(dirs, &image, reference, plan.insecure).await?),
        None => None,
    };
    let pin = plan.image.as_deref().map(|repository| pinned::Image {
        repository,
        digest: &image.digest,
    });
    files.add("install.yaml", &pinned::manifests(dirs, pin).await?)?;
    let chart = pinned::chart(dirs, plan.commit.time, pin).await?;
    files.add(&format!("baton-{VERSION}.tgz"), &chart)?;
    for (name, list) in components::lists(dirs, plan, &image).await? {
        files.add(&components::file(name), &list)?;
    }
    let page = book::build(dirs).await?;
    let book = page.parent().unwrap_or(&page);
    files.add_folder(&format!("baton-book_{VERSION}.tar.gz"), book, plan)?;
    files.add("release-notes.md", plan.notes.as_bytes())?;
    let manifest = krew::manifest(&plugins, &plan.download_url, &files)?;
    files.add("baton.yaml", &manifest)?;
    let checksums = files.checksums();
    files.add("checksums.txt", checksums.as_bytes())?;
    let provenance = Provenance::new(dirs, plan, &files, &image.digest, &started).await?;
    if let Some(signer) = &signer {
        signer.sign(&files.path("checksums.txt")).await?;
        signer.attest(&files, &provenance).await?;
        files.add_unlisted("cosign.pub", signer.public_key().await?.as_bytes())?;
        if let Some(image) = &pushed {
            signer.sign_image(&files, image, &provenance).await?;
        }
    } else {
        files.add_unlisted("provenance.json", provenance.statement().as_bytes())?;
    }
    Ok(Release {
        files,
        image: pushed,
    })
}
