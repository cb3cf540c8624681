//! The lists of components (SBOM) of the programs and of the image, in the form of `CycloneDX`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Error, Plan, VERSION, files, krew};
use crate::image::OfPlatform;
use crate::paths::Dirs;
use crate::tools::crates::{self, CYCLONEDX};
use crate::tools::{self, Tool};
use crate::{cargo, exec};

/// The version of the format, which both programs write and most others read.
const FORMAT: &str = "1.5";

/// The members of the workspace with programs, for which cargo-cyclonedx writes a list.
const MEMBERS: [&str; 7] = [
    "",
    "bench",
    "crates/headlamp",
    "hack",
    "integration",
    "model",
    "plugin",
];

/// The layers of the image, in their order.
const LAYERS: [&str; 3] = ["files and certificates", "helm", "baton"];

/// The name of the file with a list.
pub(super) fn file(name: &str) -> String {
    format!("{name}.cdx.json")
}

/// The name of the archive of an image, without its ending.
pub(super) fn image_name(architecture: &str) -> String {
    format!("baton_{VERSION}_image_linux_{architecture}")
}

/// The crates of `baton` and of the plugin for a target of Rust. The tool writes its files beside the
/// manifests of all members; they are removed.
pub(super) async fn crates(dirs: &Dirs, plan: &Plan, target: &str) -> Result<[Value; 2], Error> {
    let program = crates::installed(dirs, CYCLONEDX).await?;
    let mut command = Command::new(program);
    let cargo = cargo::command(dirs);
    command
        .args(["cyclonedx", "--describe", "binaries", "--format", "json"])
        .args(["--spec-version", FORMAT, "--no-build-deps"])
        .args(["--target", target])
        .env("CARGO", cargo.as_std().get_program())
        .env("SOURCE_DATE_EPOCH", plan.commit.time.to_string())
        .current_dir(&dirs.workspace);
    let made = exec::output(&mut command).await;
    let lists = [("", "baton"), ("plugin", krew::PROGRAM)].map(|(member, name)| {
        let folder = dirs.workspace.join(member);
        (
            name,
            files::read(&folder.join(format!("{name}_bin.cdx.json"))),
        )
    });
    for member in MEMBERS {
        let path = dirs.workspace.join(member);
        remove_lists(&path).map_err(|source| Error::File { path, source })?;
    }
    made?;
    let [baton, plugin] = lists.map(|(name, text)| parse(name, &without_paths(&text?, dirs)));
    Ok([baton?, plugin?])
}

fn remove_lists(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with("_bin.cdx.json") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Replaces the folder of the workspace, as the compiler does in programs.
fn without_paths(text: &str, dirs: &Dirs) -> String {
    text.replace(&dirs.workspace.display().to_string(), "/baton")
}

/// The Go modules of helm.
pub(super) async fn modules(dirs: &Dirs, helm: &Path) -> Result<Value, Error> {
    let program = tools::path(Tool::Cyclonedx, dirs).await?;
    let mut command = Command::new(program);
    command
        .args(["bin", "-json", "-noserial", "-notimestamp", "-std"])
        .args(["-output-version", FORMAT])
        .arg(helm);
    parse("helm", &exec::output(&mut command).await?)
}

fn parse(name: &str, text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| Error::Components(name.to_owned(), error))
}

/// The components of the image of a platform: its layers, the certificates, and the programs with
/// their components.
pub(super) fn of_image(plan: &Plan, image: &OfPlatform, programs: [&Value; 2]) -> Value {
    let reference = format!("pkg:oci/baton@{}", image.digest);
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let mut components = vec![json!({
        "type": "data",
        "bom-ref": "certificates",
        "name": "Certificate authorities of Mozilla (webpki-root-certs)",
        "licenses": [{ "license": { "id": "CDLA-Permissive-2.0" } }],
    })];
    let layers = image.layers.iter().zip(LAYERS);
    components.extend(layers.map(|(digest, name)| {
        json!({
            "type": "file",
            "bom-ref": digest,
            "name": format!("layer: {name}"),
            "hashes": [{ "alg": "SHA-256", "content": digest.trim_start_matches("sha256:") }],
        })
    }));
    let mut dependencies = Vec::new();
    let mut direct = vec![json!("certificates")];
    direct.extend(image.layers.iter().map(|digest| json!(digest)));
    for program in programs {
        let component = &program["metadata"]["component"];
        direct.push(component["bom-ref"].clone());
        components.push(component.clone());
        components.extend(list(program, "components"));
        dependencies.extend(list(program, "dependencies"));
    }
    dependencies.push(json!({ "ref": reference, "dependsOn": direct }));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": FORMAT,
        "version": 1,
        "metadata": {
            "timestamp": plan.commit.timestamp(),
            "component": {
                "type": "container",
                "bom-ref": reference,
                "name": format!("baton for linux/{}", image.platform.architecture()),
                "version": VERSION,
                "purl": reference,
                "licenses": [{ "license": { "id": env!("CARGO_PKG_LICENSE") } }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}
