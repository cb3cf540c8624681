//! The manifests and the chart, with the image of the release.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use flate2::read::GzDecoder;
use tokio::process::Command;

use super::files::{self, pack};
use super::{Error, VERSION};
use crate::archive::Entry;
use crate::paths::Dirs;
use crate::{chart, exec, tools};

/// The image by its digest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image<'a> {
    pub(super) repository: &'a str,
    pub(super) digest: &'a str,
}

/// The manifests of an installation.
pub(super) async fn manifests(dirs: &Dirs, image: Option<Image<'_>>) -> Result<Vec<u8>, Error> {
    let values = image.map(|Image { repository, digest }| {
        [
            format!("image.repository={repository}"),
            format!("image.digest={digest}"),
        ]
    });
    let values: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
    Ok(chart::install(dirs, &values).await?.into_bytes())
}

/// The chart as helm packs it, with the image among the values. helm writes the present time into
/// the archive, which is replaced by the time of the commit.
pub(super) async fn chart(
    dirs: &Dirs,
    time: u64,
    image: Option<Image<'_>>,
) -> Result<Vec<u8>, Error> {
    let folder = dirs.workspace.join("target/chart");
    fs::create_dir_all(&folder).map_err(|source| Error::File {
        path: folder.clone(),
        source,
    })?;
    let mut command = Command::new(tools::helm(dirs).await?);
    command
        .arg("package")
        .arg(chart::folder(dirs))
        .arg("--destination")
        .arg(&folder);
    exec::output(&mut command).await?;
    let path = folder.join(format!("baton-{VERSION}.tgz"));
    let mut entries = unpacked(&path).map_err(|source| Error::File { path, source })?;
    if let Some(image) = image {
        let values = entries
            .iter_mut()
            .find(|(name, _)| name == "baton/values.yaml");
        if let Some((name, content)) = values {
            *content = pinned(name, content, image)?;
        }
    }
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, content)| Entry::File(name, 0o644, content))
        .collect();
    pack(&entries, time).map_err(|source| Error::File {
        path: folder,
        source,
    })
}

fn unpacked(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path)?));
    let mut entries = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        entries.push((name, content));
    }
    entries.sort();
    Ok(entries)
}

/// The values with the image.
fn pinned(name: &str, values: &[u8], image: Image<'_>) -> Result<Vec<u8>, Error> {
    let Image { repository, digest } = image;
    let mut text = String::from_utf8_lossy(values).into_owned();
    for (before, after) in [
        (
            "\n  repository: baton\n",
            format!("\n  repository: {repository}\n"),
        ),
        ("\n  digest: \"\"\n", format!("\n  digest: {digest}\n")),
    ] {
        if !text.contains(before) {
            return Err(Error::NoText {
                path: name.to_owned(),
                text: before.trim().to_owned(),
            });
        }
        text = text.replacen(before, &after, 1);
    }
    Ok(text.into_bytes())
}

/// Replaces the version of the workspace in a file of the sources.
pub(super) fn set_version(path: &Path, before: &str, after: &str) -> Result<(), Error> {
    let text = files::read(path)?;
    if !text.contains(before) {
        return Err(Error::NoText {
            path: path.display().to_string(),
            text: before.to_owned(),
        });
    }
    fs::write(path, text.replace(before, after)).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Image<'static> = Image {
        repository: "registry.example/team/baton",
        digest: "sha256:1",
    };

    #[test]
    fn the_values_of_the_chart_name_the_image() {
        let values = include_bytes!("../../../charts/baton/values.yaml");
        let text = pinned("values.yaml", values, IMAGE).unwrap();
        let values: serde_json::Value =
            serde_saphyr::from_str(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(values["image"]["repository"], IMAGE.repository);
        assert_eq!(values["image"]["digest"], IMAGE.digest);
    }

    #[test]
    fn values_without_a_place_for_the_image_are_an_error() {
        let error = pinned("values.yaml", b"image:\n  repository: baton\n", IMAGE);
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "values.yaml: `digest: \"\"` is missing");
    }
}
