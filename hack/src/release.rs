//! `cargo dev release`: the files of a release.
//!
//! They are the programs, the image, the chart, the manifests and the book; a list of components for
//! each program; the manifest for krew; checksums, and the provenance of all files. cosign signs the
//! checksums, the provenance and the image. Except for the provenance and the signatures, the same
//! commit results in the same files. Nothing is published before all files are made.

mod changelog;
mod components;
mod files;
mod krew;
mod pinned;
mod prepare;
mod provenance;
mod signatures;
mod trial;

use std::path::{Path, PathBuf};

use clap::Args;

use self::files::Files;
use self::provenance::{Provenance, Run};
use self::signatures::{Key, Signer};
use crate::commit::{self, Commit};
use crate::image::programs::{self, Platform};
use crate::paths::Dirs;
use crate::{book, chart, exec, generate, image, tools};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The folder of releases in the workspace.
const FOLDER: &str = "target/releases";

/// The options that concern the files of a release.
const FOR_FILES: [&str; 10] = [
    "key",
    "image",
    "push",
    "insecure",
    "platform",
    "plugin",
    "download_url",
    "source",
    "builder",
    "trial",
];

/// Options of `cargo dev release`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct Options {
    /// The version, such as 0.2.0 [default: that of the sources]
    version: Option<semver::Version>,
    /// Set the version in the sources, and give the unreleased changes of the changelog to it; make no
    /// files
    #[arg(long, requires = "version", conflicts_with_all = FOR_FILES)]
    prepare: bool,
    /// Sign with this key of cosign: a file, with its password in `COSIGN_PASSWORD`, or the URI of a key
    /// in a key management service. Without a key nothing is signed
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Name this repository of the image, such as registry.example/team/baton, in the manifests, in the
    /// chart and in the program
    #[arg(long, value_name = "REPOSITORY", value_parser = repository)]
    image: Option<String>,
    /// Push the image to its repository, with the version as tag, after all files are made
    #[arg(long, requires = "image")]
    push: bool,
    /// Use a registry without TLS
    #[arg(long, requires = "push")]
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
    /// The URL of the repository of the sources
    #[arg(long, value_name = "URL", default_value = env!("CARGO_PKG_REPOSITORY"))]
    source: String,
    /// The URI of the builder in the provenance
    #[arg(long, value_name = "URI")]
    builder: Option<String>,
    /// Make the files of any commit with a new key and a registry on this machine; then verify them
    /// with cosign, install the plugin with krew, and change files to see that they are refused
    #[arg(long, conflicts_with_all = ["key", "image", "push", "insecure", "plugin"])]
    trial: bool,
}

/// The reason that there are no files of a release.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "the version of the workspace is {VERSION}, not {0}: run `cargo dev release {0} --prepare`"
    )]
    Version(semver::Version),
    #[error("{0} is not later than {VERSION}, the version of the workspace")]
    NotLater(semver::Version),
    #[error("files differ from the commit; commit or remove them first:\n{0}")]
    Changes(String),
    #[error(transparent)]
    Commit(#[from] commit::Error),
    #[error(transparent)]
    Changelog(#[from] changelog::Error),
    #[error(transparent)]
    Image(#[from] image::Error),
    #[error(transparent)]
    Program(#[from] programs::Error),
    #[error("{0}: {1} is no plugin for this platform")]
    Plugin(String, PathBuf),
    #[error("a plugin is there twice: {0}")]
    Twice(String),
    #[error("a trial installs the plugin, so the platforms have to include that of this machine")]
    OtherPlatforms,
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
    #[error("the key {0} has a password: set COSIGN_PASSWORD")]
    NoPassword(String),
    #[error("{0}")]
    Trial(String),
}

/// Parses the repository of an image, which has neither a tag nor a digest.
fn repository(text: &str) -> Result<String, &'static str> {
    let name = text.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || name.contains(['@', ':']) || text.contains('@') {
        return Err("write the repository without a tag or digest");
    }
    Ok(text.to_owned())
}

/// The inputs of a release besides the sources.
struct Plan {
    commit: Commit,
    platforms: Vec<Platform>,
    plugins: Vec<krew::Plugin>,
    /// The repository of the image.
    image: Option<String>,
    push: bool,
    insecure: bool,
    key: Option<Key>,
    /// Without a slash at its end, as the next one.
    download_url: String,
    source: String,
    builder: String,
    notes: String,
}

/// A made release.
struct Release {
    files: Files,
    /// The reference of the image by its digest, if it was pushed.
    image: Option<String>,
    /// The digests of the image for each platform.
    platforms: Vec<String>,
}

/// Makes the files of a release, or prepares the sources for one.
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
    if !plan.commit.changes.is_empty() {
        return Err(Error::Changes(plan.commit.changes));
    }
    let folder = dirs.workspace.join(FOLDER).join(VERSION);
    let release = make(dirs, &plan, &folder).await?;
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
        let source = options.source.trim_end_matches('/').to_owned();
        let url = match &options.download_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{source}/releases/download/v{VERSION}"),
        };
        let platforms = Platform::or_here(&options.platform)?;
        if options.trial && !platforms.contains(&Platform::here()?) {
            return Err(Error::OtherPlatforms);
        }
        krew::check(&options.plugin)?;
        let builder = options.builder.clone();
        let changelog = files::read(&dirs.workspace.join("CHANGELOG.md"))?;
        Ok(Self {
            commit: Commit::read(dirs).await?,
            platforms,
            plugins: options.plugin.clone(),
            image: options.image.clone(),
            push: options.push,
            insecure: options.insecure,
            key: options.key.clone().map(Key::named),
            download_url: url,
            notes: changelog::notes(&changelog, VERSION, &source, options.trial)?,
            builder: builder.unwrap_or_else(|| format!("{source}/builders/by-hand")),
            source,
        })
    }

    /// The image by its tag.
    fn tagged(&self) -> Option<String> {
        let repository = self.image.as_ref()?;
        Some(format!("{repository}:{VERSION}"))
    }
}

/// Makes all files, and then publishes the image. The folder appears when it is complete.
async fn make(dirs: &Dirs, plan: &Plan, folder: &Path) -> Result<Release, Error> {
    // An error of the key is reported before the programs are built.
    let signer = match &plan.key {
        Some(key) => Some(Signer::new(dirs, key, plan.insecure).await?),
        None => None,
    };
    let run = Run::start().await?;
    let unfinished = dirs.workspace.join(FOLDER).join("unfinished");
    let mut files = Files::create(&unfinished, plan.commit.time)?;
    let tagged = plan.tagged();
    let image = image::make(dirs, &plan.commit, &plan.platforms, tagged.as_deref()).await?;
    let plugins = add_programs(dirs, plan, &image, &mut files).await?;
    let pin = plan.image.as_deref().map(|repository| pinned::Image {
        repository,
        digest: &image.digest,
    });
    files.add("install.yaml", &pinned::manifests(dirs, pin).await?)?;
    let chart = pinned::chart(dirs, plan.commit.time, pin).await?;
    files.add(&format!("baton-{VERSION}.tgz"), &chart)?;
    let page = book::build(dirs).await?;
    let book = page.parent().unwrap_or(&page);
    files.add_folder(&format!("baton-book_{VERSION}.tar.gz"), book)?;
    files.add("release-notes.md", plan.notes.as_bytes())?;
    let manifest = krew::manifest(&plugins, &plan.download_url, &files)?;
    files.add("baton.yaml", &manifest)?;
    let checksums = files.checksums();
    files.add("checksums.txt", checksums.as_bytes())?;
    let provenance = Provenance::new(dirs, plan, &files, &image.digest, &run)?;
    if let Some(signer) = &signer {
        signer.sign(&files.path("checksums.txt")).await?;
        signer.attest(&files, &provenance).await?;
        files.add_unlisted("cosign.pub", signer.public_key().await?.as_bytes())?;
    } else {
        files.add_unlisted("provenance.json", provenance.statement().as_bytes())?;
    }
    let files = files.finish(folder)?;
    let pushed = match tagged.filter(|_| plan.push) {
        Some(reference) => Some(image::push(dirs, &image, &reference, plan.insecure).await?),
        None => None,
    };
    if let (Some(signer), Some(reference)) = (&signer, &pushed) {
        signer
            .sign_image(&files, reference, &image, &provenance)
            .await?;
    }
    Ok(Release {
        files,
        image: pushed,
        platforms: image.platforms.into_iter().map(|it| it.digest).collect(),
    })
}

/// Adds the programs and the archives of the image, each with its list of components. Returns the
/// plugins.
async fn add_programs(
    dirs: &Dirs,
    plan: &Plan,
    image: &image::Image,
    files: &mut Files,
) -> Result<Vec<krew::Plugin>, Error> {
    let mut plugins = Vec::new();
    for made in &image.platforms {
        let architecture = made.platform.architecture();
        let [target, _] = made.platform.targets();
        let [baton, plugin] = components::crates(dirs, plan, &target).await?;
        let helm = components::modules(dirs, &made.programs.helm).await?;
        let name = components::image_name(architecture);
        files.add(&format!("{name}.tar"), &files::bytes(&made.archive)?)?;
        let of_image = components::of_image(plan, made, [&baton, &helm]);
        files.add_components(&name, &of_image)?;
        let name = format!("baton_{VERSION}_linux_{architecture}");
        files.add_program(dirs, &name, "baton", &made.programs.baton)?;
        files.add_components(&name, &baton)?;
        let program = programs::static_program(dirs, krew::PROGRAM, made.platform, None).await?;
        plugins.push((krew::Plugin::linux(architecture, program), plugin));
    }
    for plugin in &plan.plugins {
        let [_, list] = components::crates(dirs, plan, plugin.target()).await?;
        plugins.push((plugin.clone(), list));
    }
    for (plugin, list) in &plugins {
        files.add_program(dirs, &plugin.name(), krew::PROGRAM, &plugin.file)?;
        files.add_components(&plugin.name(), list)?;
    }
    Ok(plugins.into_iter().map(|(plugin, _)| plugin).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        let parsed =
            Line::try_parse_from([&["release"], &*line.split(' ').collect::<Vec<_>>()].concat());
        parsed.map(|line| line.options)
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        for line in [
            "0.2.0 --key k --image r.example/baton --push",
            "0.2.0 --prepare",
            "--trial --platform linux/arm64,linux/amd64",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        for line in [
            "--prepare",
            "0.2.0 --prepare --push",
            "0.2.0 --prepare --source https://x",
            "--trial --push",
            "--trial --image r.example/baton --push --insecure",
            "--push",
            "--insecure --image r.example/baton",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_image_is_a_repository() {
        for text in ["r.example:5000/team/baton", "baton"] {
            assert_eq!(repository(text), Ok(text.to_owned()));
        }
        for text in ["r/baton:0.2.0", "r/baton@sha256:1", "r/", ""] {
            assert!(repository(text).is_err(), "{text}");
        }
    }
}
