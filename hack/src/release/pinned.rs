//! The manifests and the chart, with the image of the release.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;

use super::{Error, VERSION};
use crate::paths::Dirs;
use crate::{archive, chart, exec};

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
    archive::empty_folder(&folder).map_err(|source| Error::File {
        path: folder.clone(),
        source,
    })?;
    let mut command = chart::helm(dirs, "package").await?;
    exec::output(command.arg("--destination").arg(&folder)).await?;
    let path = folder.join(format!("baton-{VERSION}.tgz"));
    let failed = |source| Error::File {
        path: path.clone(),
        source,
    };
    let mut files = unpacked(&path).map_err(failed)?;
    let values = "baton/values.yaml";
    if let (Some(image), Some(content)) = (image, files.get_mut(values)) {
        *content = pinned(values, content, image)?;
    }
    let files = files
        .iter()
        .map(|(name, content)| (name.clone(), content.as_slice()));
    archive::packed(files, time, Compression::best()).map_err(failed)
}

fn unpacked(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path)?));
    let mut entries = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        entries.insert(name, content);
    }
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
