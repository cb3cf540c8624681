//! The lists of components (SBOM) of the programs and of the image, in the form of `CycloneDX`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Error, Plan, VERSION, files, krew};
use crate::image::Image;
use crate::paths::Dirs;
use crate::tools::crates::{self, CYCLONEDX};
use crate::tools::{self, Tool};
use crate::{cargo, exec};

/// The version of the format, which both programs write and most others read.
const FORMAT: &str = "1.5";

/// The members of the workspace with programs, for which cargo-cyclonedx writes a list.
const MEMBERS: [&str; 6] = ["", "bench", "hack", "integration", "model", "plugin"];

/// The name of the file with a list.
pub(super) fn file(name: &str) -> String {
    format!("{name}_{VERSION}.cdx.json")
}

/// The lists by the names of what they describe: the programs and the image.
pub(super) async fn lists(
    dirs: &Dirs,
    plan: &Plan,
    image: &Image,
) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let [baton, plugin] = crates(dirs, plan).await?;
    let helm = match image.platforms.first() {
        Some((_, programs, _)) => modules(dirs, &programs.helm).await?,
        None => Value::Null,
    };
    let whole = of_image(plan, &image.digest, &[&baton, &helm]);
    let lists = [
        ("baton", baton),
        (krew::PROGRAM, plugin),
        ("baton-image", whole),
    ];
    let written = lists.map(|(name, list)| (name, format!("{list:#}\n").into_bytes()));
    Ok(written.into())
}

/// The crates of `baton` and of the plugin. The tool writes its files beside the manifests of all
/// members; they are removed.
async fn crates(dirs: &Dirs, plan: &Plan) -> Result<[Value; 2], Error> {
    let program = crates::installed(dirs, CYCLONEDX).await?;
    let mut command = Command::new(program);
    let cargo = cargo::command(dirs);
    command
        .args(["cyclonedx", "--describe", "binaries", "--format", "json"])
        .args(["--spec-version", FORMAT, "--no-build-deps"])
        // The programs of all platforms.
        .args(["--target", "all"])
        .env("CARGO", cargo.as_std().get_program())
        .env("SOURCE_DATE_EPOCH", plan.commit.time.to_string())
        .current_dir(&dirs.workspace);
    let made = exec::output(&mut command).await;
    let lists = [("", "baton"), ("plugin", krew::PROGRAM)].map(|(member, name)| {
        let path = dirs
            .workspace
            .join(member)
            .join(format!("{name}_bin.cdx.json"));
        (name, files::read(&path))
    });
    for member in MEMBERS {
        remove_lists(&dirs.workspace.join(member)).map_err(|source| Error::File {
            path: member.into(),
            source,
        })?;
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
async fn modules(dirs: &Dirs, helm: &Path) -> Result<Value, Error> {
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

/// The components of the image: the programs with theirs, and the certificates.
fn of_image(plan: &Plan, digest: &str, programs: &[&Value]) -> Value {
    let reference = format!("pkg:oci/baton@{digest}");
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let mut components = vec![json!({
        "type": "data",
        "bom-ref": "certificates",
        "name": "Certificate authorities of Mozilla (webpki-root-certs)",
        "licenses": [{ "license": { "id": "CDLA-Permissive-2.0" } }],
    })];
    let mut dependencies = Vec::new();
    let mut direct = vec![json!("certificates")];
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
                "name": "baton",
                "version": VERSION,
                "purl": reference,
                "licenses": [{ "license": { "id": env!("CARGO_PKG_LICENSE") } }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}
