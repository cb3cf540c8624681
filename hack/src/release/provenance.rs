//! The provenance of the files: an in-toto statement with the predicate of SLSA.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Command;

use super::files::{self, Files};
use super::{Error, Plan, VERSION};
use crate::archive::sha256;
use crate::exec;
use crate::paths::Dirs;

/// The files with the pinned inputs of a release.
const PINS: [&str; 3] = ["Cargo.lock", "hack/helm/go.sum", "hack/release/go.sum"];

/// The provenance of a release.
pub(super) struct Provenance {
    predicate: Value,
    subjects: Vec<Value>,
}

/// The start of a run, and its compilers.
pub(super) struct Run {
    started: String,
    compilers: [String; 2],
}

impl Run {
    pub(super) async fn start() -> Result<Self, Error> {
        Ok(Self {
            started: now(),
            compilers: [
                version("rustc", "--version").await?,
                version("go", "version").await?,
            ],
        })
    }
}

fn now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

impl Provenance {
    /// The provenance of the files so far and of the image. Plugins that were built elsewhere are
    /// among its inputs.
    pub(super) fn new(
        dirs: &Dirs,
        plan: &Plan,
        files: &Files,
        digest: &str,
        run: &Run,
    ) -> Result<Self, Error> {
        let mut inputs = vec![json!({
            "uri": format!("git+{}", plan.source),
            "digest": { "gitCommit": plan.commit.revision() },
        })];
        let pinned = PINS.map(|name| (name.to_owned(), dirs.workspace.join(name)));
        let plugins = plan.plugins.iter();
        let plugins = plugins.map(|it| (format!("plugin {}", it.platform()), it.file.clone()));
        for (name, path) in pinned.into_iter().chain(plugins) {
            let hash = sha256(&files::bytes(&path)?);
            inputs.push(json!({ "name": name, "digest": { "sha256": hash } }));
        }
        let platforms = plan.platforms.iter();
        let platforms: Vec<_> = platforms
            .map(|it| format!("linux/{}", it.architecture()))
            .collect();
        let repository = env!("CARGO_PKG_REPOSITORY");
        let predicate = json!({
            "buildDefinition": {
                "buildType": format!("{repository}/build-types/cargo-dev-release/v1"),
                "externalParameters": {
                    "version": VERSION,
                    "platforms": platforms,
                    "image": plan.tagged(),
                    "downloadUrl": plan.download_url,
                    "source": plan.source,
                },
                "internalParameters": { "compilers": run.compilers },
                "resolvedDependencies": inputs,
            },
            "runDetails": {
                "builder": { "id": plan.builder },
                "metadata": { "startedOn": run.started, "finishedOn": now() },
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

async fn version(program: &str, argument: &str) -> Result<String, Error> {
    let text = exec::output(Command::new(program).arg(argument)).await?;
    Ok(text.trim().to_owned())
}
