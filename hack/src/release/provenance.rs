//! The provenance of the files: an in-toto statement with the predicate of SLSA.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Command;

use super::files::{self, Files};
use super::{Error, Plan, VERSION};
use crate::archive::sha256;
use crate::exec;
use crate::paths::Dirs;

/// The files that pin what a release is built from.
const PINS: [&str; 3] = ["Cargo.lock", "hack/helm/go.sum", "hack/release/go.sum"];

/// The provenance of a release.
pub(super) struct Provenance {
    predicate: Value,
    subjects: Vec<Value>,
}

/// The present time as text.
pub(super) fn now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

impl Provenance {
    /// The provenance of the files so far and of the image.
    pub(super) async fn new(
        dirs: &Dirs,
        plan: &Plan,
        files: &Files,
        digest: &str,
        started: &str,
    ) -> Result<Self, Error> {
        let repository = env!("CARGO_PKG_REPOSITORY");
        let mut sources = vec![json!({
            "uri": format!("git+{repository}"),
            "digest": { "gitCommit": plan.commit.revision() },
        })];
        for name in PINS {
            let content = files::bytes(&dirs.workspace.join(name))?;
            sources.push(json!({ "name": name, "digest": { "sha256": sha256(&content) } }));
        }
        let [rust, go] = [("rustc", "--version"), ("go", "version")];
        let compilers = [version(rust).await?, version(go).await?];
        let platforms = plan.platforms.iter();
        let platforms: Vec<_> = platforms
            .map(|it| format!("linux/{}", it.architecture()))
            .collect();
        let predicate = json!({
            "buildDefinition": {
                "buildType": format!("{repository}/build-types/cargo-dev-release/v1"),
                "externalParameters": {
                    "version": VERSION,
                    "platforms": platforms,
                    "image": plan.tagged(),
                },
                "internalParameters": { "compilers": compilers },
                "resolvedDependencies": sources,
            },
            "runDetails": {
                "builder": { "id": plan.builder },
                "metadata": { "startedOn": started, "finishedOn": now() },
            },
        });
        let hashes = files.hashes().iter();
        let mut subjects: Vec<_> = hashes
            .map(|(name, hash)| json!({ "name": name, "digest": { "sha256": hash } }))
            .collect();
        let digest = digest.trim_start_matches("sha256:");
        let image = plan.image.as_deref().unwrap_or("baton");
        subjects.push(json!({ "name": image, "digest": { "sha256": digest } }));
        Ok(Self {
            predicate,
            subjects,
        })
    }

    /// The statement about all files.
    pub(super) fn statement(&self) -> String {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": self.subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": self.predicate,
        });
        format!("{statement:#}\n")
    }

    /// The predicate alone.
    pub(super) fn predicate(&self) -> String {
        format!("{:#}\n", self.predicate)
    }
}

async fn version((program, argument): (&str, &str)) -> Result<String, Error> {
    let text = exec::output(Command::new(program).arg(argument)).await?;
    Ok(text.trim().to_owned())
}
