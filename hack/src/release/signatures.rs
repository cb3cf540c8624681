//! Signatures by cosign, in sigstore's bundle format and without a transparency log.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::files::{Files, write};
use super::provenance::Provenance;
use super::{Error, FOLDER, components};
use crate::exec;
use crate::image::Image;
use crate::paths::Dirs;
use crate::tools::{self, Tool};

/// Settings for cosign: no service takes part in a signature with a key.
const SETTINGS: [(&str, &str); 2] = [
    (
        "signing-config.json",
        r#"{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","rekorTlogConfig":{},"tsaConfig":{}}"#,
    ),
    (
        "trusted-root.json",
        r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#,
    ),
];

/// A key of cosign.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// Its file, or its URI in a key management service.
    pub(super) name: String,
    /// The password of the file, if it is not in the environment.
    pub(super) password: Option<&'static str>,
}

impl Key {
    /// A key whose password is in the environment.
    pub(super) fn named(name: String) -> Self {
        Self {
            name,
            password: None,
        }
    }
}

/// The variable with the password of a key, which cosign reads.
pub(super) const PASSWORD: &str = "COSIGN_PASSWORD";

/// A key with the program that signs.
pub(super) struct Signer {
    cosign: PathBuf,
    key: Key,
    /// The folder of the settings.
    settings: PathBuf,
    /// True for a registry without TLS.
    insecure: bool,
}

impl Signer {
    /// Checks that the key can be used.
    pub(super) async fn new(dirs: &Dirs, key: &Key, insecure: bool) -> Result<Self, Error> {
        // A key in a variable is one in a file.
        let is_file = !key.name.contains("://") || key.name.starts_with("env://");
        // cosign would ask on a terminal.
        let is_known = key.password.is_some() || std::env::var_os(PASSWORD).is_some();
        if is_file && !is_known {
            return Err(Error::NoPassword(key.name.clone()));
        }
        let settings = dirs.workspace.join(FOLDER).join("signing");
        fs::create_dir_all(&settings).map_err(|source| Error::File {
            path: settings.clone(),
            source,
        })?;
        for (name, text) in SETTINGS {
            write(&settings.join(name), text.as_bytes())?;
        }
        let signer = Self {
            cosign: tools::path(Tool::Cosign, dirs).await?,
            key: key.clone(),
            settings,
            insecure,
        };
        // It fails with a wrong password.
        signer.public_key().await?;
        Ok(signer)
    }

    /// cosign with the key.
    fn command(&self, task: &str) -> Command {
        let mut command = Command::new(&self.cosign);
        command.args([task, "--key", &self.key.name]);
        command.envs(self.key.password.map(|password| (PASSWORD, password)));
        command
    }

    /// A task of cosign that signs.
    fn signing(&self, task: &str) -> Command {
        let mut command = self.command(task);
        for (option, (file, _)) in ["--signing-config", "--trusted-root"]
            .into_iter()
            .zip(SETTINGS)
        {
            command.arg(option).arg(self.settings.join(file));
        }
        command.arg("--yes");
        command
    }

    /// The public key as PEM.
    pub(super) async fn public_key(&self) -> Result<String, Error> {
        Ok(exec::output(&mut self.command("public-key")).await?)
    }

    /// Signs a file. The signature is beside it.
    pub(super) async fn sign(&self, file: &Path) -> Result<(), Error> {
        let mut bundle = file.as_os_str().to_owned();
        bundle.push(".sigstore.json");
        let mut command = self.signing("sign-blob");
        exec::output(command.arg("--bundle").arg(bundle).arg(file)).await?;
        Ok(())
    }

    /// Signs the provenance of all files.
    pub(super) async fn attest(&self, files: &Files, provenance: &Provenance) -> Result<(), Error> {
        let statement = self.settings.join("statement.json");
        write(&statement, provenance.statement().as_bytes())?;
        let mut command = self.signing("attest-blob");
        command
            .arg("--statement")
            .arg(&statement)
            .arg("--bundle")
            .arg(files.path("provenance.sigstore.json"))
            // One of the subjects, which cosign asks for.
            .arg(files.path("checksums.txt"));
        exec::output(&mut command).await?;
        Ok(())
    }

    /// Signs a pushed image in its registry, and adds its provenance, and the components of each
    /// platform.
    pub(super) async fn sign_image(
        &self,
        files: &Files,
        reference: &str,
        image: &Image,
        provenance: &Provenance,
    ) -> Result<(), Error> {
        let mut command = self.for_registry("sign");
        exec::output(command.args(["--recursive", reference])).await?;
        let predicate = self.settings.join("predicate.json");
        write(&predicate, provenance.predicate().as_bytes())?;
        self.add(reference, "slsaprovenance1", &predicate).await?;
        let repository = reference.split('@').next().unwrap_or(reference);
        for made in &image.platforms {
            let name = components::image_name(made.platform.architecture());
            let reference = format!("{repository}@{}", made.digest);
            let list = files.path(&components::file(&name));
            self.add(&reference, "cyclonedx", &list).await?;
        }
        Ok(())
    }

    /// Adds a signed statement to an image.
    async fn add(&self, reference: &str, kind: &str, predicate: &Path) -> Result<(), Error> {
        let mut command = self.for_registry("attest");
        command.args(["--type", kind, "--predicate"]).arg(predicate);
        exec::output(command.arg(reference)).await?;
        Ok(())
    }

    /// A task of cosign that signs in a registry.
    fn for_registry(&self, task: &str) -> Command {
        let mut command = self.signing(task);
        if self.insecure {
            command.args(["--allow-http-registry", "--allow-insecure-registry"]);
        }
        command
    }
}
