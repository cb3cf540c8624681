//! Tries a release on this machine, by the steps of its users: verification and installation.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::files::Files;
use super::signatures::{self, Key};
use super::{Error, FOLDER, Plan, Release, VERSION, make};
use crate::archive;
use crate::exec;
use crate::image::registry::Registry;
use crate::paths::Dirs;
use crate::tools::{self, Tool};

/// The password of the key of a trial.
const PASSWORD: &str = "of a trial";

/// Makes the files with a new key and a registry on this machine, and checks them.
pub(super) async fn run(dirs: &Dirs, plan: &mut Plan) -> Result<(), Error> {
    let folder = dirs.workspace.join(FOLDER).join("trial");
    archive::empty_folder(&folder).map_err(|source| Error::File {
        path: folder.clone(),
        source,
    })?;
    let cosign = tools::path(Tool::Cosign, dirs).await?;
    let keys = Keys::make(&cosign, &folder).await?;
    let registry = Registry::start(dirs, &folder).await?;
    plan.image = Some(format!("{}/team/baton", registry.address));
    (plan.push, plan.insecure) = (true, true);
    plan.key = Some(Key {
        name: keys.private("own"),
        password: Some(PASSWORD),
    });
    let release = make(dirs, plan, &folder.join("files")).await?;
    let verifier = Verifier {
        cosign: &cosign,
        keys: &keys,
        release: &release,
    };
    verifier.checksums(&folder).await?;
    verifier.signatures().await?;
    verifier.image().await?;
    chart(dirs, &release).await?;
    plugin(dirs, &release.files, &folder).await?;
    println!("{}", release.files.folder().display());
    Ok(())
}

/// The keys of a trial: `own`, and `other`, which signs nothing.
struct Keys(PathBuf);

impl Keys {
    async fn make(cosign: &Path, folder: &Path) -> Result<Self, Error> {
        for name in ["own", "other"] {
            let mut command = Command::new(cosign);
            command
                .args(["generate-key-pair", "--output-key-prefix", name])
                .current_dir(folder)
                .env(signatures::PASSWORD, PASSWORD);
            exec::output(&mut command).await?;
        }
        Ok(Self(folder.to_owned()))
    }

    fn private(&self, name: &str) -> String {
        self.0.join(format!("{name}.key")).display().to_string()
    }

    fn public(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.pub"))
    }
}

/// A release with the keys for its signatures.
struct Verifier<'a> {
    cosign: &'a Path,
    keys: &'a Keys,
    release: &'a Release,
}

impl Verifier<'_> {
    /// `sha256sum` finds all files, and finds a changed one.
    async fn checksums(&self, folder: &Path) -> Result<(), Error> {
        let files = &self.release.files;
        let check = |place: &Path| {
            let mut command = Command::new("sha256sum");
            command
                .args(["--check", "--strict"])
                .arg(files.path("checksums.txt"))
                .current_dir(place);
            command
        };
        exec::output(&mut check(files.folder())).await?;
        let changed = folder.join("changed");
        let copied = fs::create_dir(&changed).and_then(|()| {
            for name in files.hashes().keys() {
                fs::copy(files.path(name), changed.join(name))?;
            }
            fs::write(changed.join("install.yaml"), "changed")
        });
        copied.map_err(|source| Error::File {
            path: changed.clone(),
            source,
        })?;
        refused("checksums of a changed file", &mut check(&changed)).await
    }

    /// cosign accepts the signature of the checksums and the provenance of each file, and refuses
    /// those of other files and by another key.
    async fn signatures(&self) -> Result<(), Error> {
        let files = &self.release.files;
        let blob = |key: &str, file: &str| {
            let mut command = self.command("verify-blob", key);
            command
                .arg("--bundle")
                .arg(files.path("checksums.txt.sigstore.json"));
            command.arg(files.path(file));
            command
        };
        exec::output(&mut blob("own", "checksums.txt")).await?;
        refused(
            "a signature of another file",
            &mut blob("own", "install.yaml"),
        )
        .await?;
        refused(
            "a signature by another key",
            &mut blob("other", "checksums.txt"),
        )
        .await?;
        let provenance = |key: &str, file: &str| {
            let mut command = self.command("verify-blob-attestation", key);
            command.args(["--type", "slsaprovenance1", "--bundle"]);
            command
                .arg(files.path("provenance.sigstore.json"))
                .arg(files.path(file));
            command
        };
        for name in files.hashes().keys() {
            exec::output(&mut provenance("own", name)).await?;
        }
        refused(
            "provenance of another file",
            &mut provenance("own", "cosign.pub"),
        )
        .await?;
        refused(
            "provenance by another key",
            &mut provenance("other", "install.yaml"),
        )
        .await
    }

    /// cosign accepts the signature, the provenance and the components of the image.
    async fn image(&self) -> Result<(), Error> {
        let image = self.release.image.as_deref().unwrap_or_default();
        exec::output(self.command("verify", "own").arg(image)).await?;
        refused(
            "an image by another key",
            self.command("verify", "other").arg(image),
        )
        .await?;
        let attested = |kind: &str, image: &str| {
            let mut command = self.command("verify-attestation", "own");
            command.args(["--type", kind, image]);
            command
        };
        exec::output(&mut attested("slsaprovenance1", image)).await?;
        // Each platform has its own components.
        let repository = image.split('@').next().unwrap_or(image);
        for digest in &self.release.platforms {
            let image = format!("{repository}@{digest}");
            exec::output(&mut attested("cyclonedx", &image)).await?;
        }
        Ok(())
    }

    fn command(&self, task: &str, key: &str) -> Command {
        let mut command = Command::new(self.cosign);
        command
            .args([task, "--insecure-ignore-tlog", "--key"])
            .arg(self.keys.public(key));
        command
    }
}

/// The chart and the manifests name the image by its digest.
async fn chart(dirs: &Dirs, release: &Release) -> Result<(), Error> {
    let chart = release.files.path(&format!("baton-{VERSION}.tgz"));
    let mut command = Command::new(tools::helm(dirs).await?);
    let rendered = exec::output(command.args(["template", "baton"]).arg(chart)).await?;
    let manifests = super::files::read(&release.files.path("install.yaml"))?;
    let image = format!("image: {}", release.image.as_deref().unwrap_or_default());
    let is_named = [rendered, manifests]
        .iter()
        .all(|text| text.contains(&image));
    require(is_named, || {
        Error::Trial(format!("the chart and install.yaml do not have {image:?}"))
    })
}

/// krew accepts the manifest, and installs a plugin that runs.
async fn plugin(dirs: &Dirs, files: &Files, folder: &Path) -> Result<(), Error> {
    let manifest = files.path("baton.yaml");
    let validator = tools::path(Tool::KrewValidator, dirs).await?;
    let mut validate = Command::new(validator);
    validate
        .arg("-skip-install")
        .arg("-manifest")
        .arg(&manifest);
    exec::output(&mut validate).await?;
    let root = folder.join("krew");
    let here = crate::image::programs::Platform::here()?;
    let plugin = super::krew::Plugin::linux(here.architecture(), PathBuf::new());
    let krew = tools::path(Tool::Krew, dirs).await?;
    let mut install = Command::new(krew);
    install
        .args(["install", "--manifest"])
        .arg(&manifest)
        .arg("--archive")
        .arg(files.path(&plugin.archive()))
        .env("KREW_ROOT", &root)
        .env("KREW_NO_UPGRADE_CHECK", "1");
    exec::output(&mut install).await?;
    let kubectl = tools::path(Tool::Kubectl, dirs).await?;
    let mut version = Command::new(kubectl);
    version
        .args(["baton", "version", "--client"])
        .env("PATH", root.join("bin"));
    let found = exec::output(&mut version).await?;
    require(found.contains(VERSION), || {
        Error::Trial(format!("the installed plugin reports the version {found}"))
    })
}

fn require(is_true: bool, error: impl FnOnce() -> Error) -> Result<(), Error> {
    if is_true { Ok(()) } else { Err(error()) }
}

/// Requires that a program refuses its input.
async fn refused(what: &str, command: &mut Command) -> Result<(), Error> {
    match exec::output(command).await {
        Err(exec::Error::Failed { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Error::Trial(format!("{what}: not refused"))),
    }
}
