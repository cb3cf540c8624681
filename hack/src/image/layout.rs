//! The OCI image layout, and an archive for `docker load` and `kind load image-archive`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::layer::{Layer, USER};
use super::programs::Platform;
use super::{Error, NAME};
use crate::archive::{self, Entry, sha256};
use crate::commit::Commit;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn labels(commit: &Commit) -> Value {
    json!({
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": "A revision manager for Kubernetes",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.revision": commit.revision(),
        "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    })
}

/// A folder with the images of all platforms.
pub(super) struct Layout<'a> {
    folder: PathBuf,
    commit: &'a Commit,
}

/// The image of a platform, as its place in an index.
#[derive(Clone, Debug)]
pub(super) struct Image {
    descriptor: Value,
    config: Value,
    layers: Vec<Value>,
}

impl<'a> Layout<'a> {
    /// Creates the folder `layout` in another one. Earlier content is removed.
    pub(super) fn create(parent: &Path, commit: &'a Commit) -> Result<Self, Error> {
        let folder = parent.join("layout");
        let failed = |source| Error::File {
            path: folder.clone(),
            source,
        };
        archive::empty_folder(&folder)
            .and_then(|()| fs::create_dir_all(folder.join("blobs/sha256")))
            .map_err(failed)?;
        let layout = Self { folder, commit };
        layout.write(
            "oci-layout",
            &bytes(&json!({ "imageLayoutVersion": "1.0.0" })),
        )?;
        Ok(layout)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, content).map_err(|source| Error::File { path, source })
    }

    /// Stores a blob, and returns its descriptor.
    fn blob(&self, media_type: &str, content: &[u8]) -> Result<Value, Error> {
        let hash = sha256(content);
        self.write(&format!("blobs/sha256/{hash}"), content)?;
        Ok(json!({
            "mediaType": media_type, "digest": format!("sha256:{hash}"), "size": content.len(),
        }))
    }

    /// Adds the image of a platform.
    pub(super) fn add(&self, platform: Platform, layers: &[Layer]) -> Result<Image, Error> {
        let created = self.commit.timestamp();
        let hashes = layers
            .iter()
            .map(|layer| format!("sha256:{}", sha256(&layer.archive)));
        let config = json!({
            "created": created,
            "os": "linux",
            "architecture": platform.architecture(),
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": ["/usr/bin/baton"],
                "Env": [
                    "PATH=/usr/bin",
                    "HELM_BIN=/usr/bin/helm",
                    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                ],
                "WorkingDir": "/",
                "Labels": labels(self.commit),
            },
            "rootfs": { "type": "layers", "diff_ids": hashes.collect::<Vec<_>>() },
            "history": layers.iter().map(|_| json!({ "created": created })).collect::<Vec<_>>(),
        });
        let config = self.blob(CONFIG, &bytes(&config))?;
        let layers: Result<Vec<Value>, Error> = layers
            .iter()
            .map(|layer| self.blob(LAYER, &layer.packed))
            .collect();
        let layers = layers?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
            "annotations": labels(self.commit),
        });
        let mut descriptor = self.blob(MANIFEST, &bytes(&manifest))?;
        descriptor["platform"] = json!({ "os": "linux", "architecture": platform.architecture() });
        Ok(Image {
            descriptor,
            config,
            layers,
        })
    }

    /// Writes an archive with the image of one platform beside the layout. It is in both forms: that
    /// of the layout, and that of `docker save`.
    pub(super) fn archive(&self, platform: Platform, image: &Image) -> Result<PathBuf, Error> {
        let name = format!("{NAME}-{VERSION}-linux-{}.tar", platform.architecture());
        let path = self.folder.with_file_name(name);
        let docker = json!([{
            "Config": blob_path(&image.config),
            "RepoTags": [format!("{NAME}:{VERSION}")],
            "Layers": image.layers.iter().map(blob_path).collect::<Vec<_>>(),
        }]);
        let mut files = vec![
            ("oci-layout".to_owned(), self.read("oci-layout")?),
            ("index.json".to_owned(), bytes(&index(&[image.named()]))),
            ("manifest.json".to_owned(), bytes(&docker)),
        ];
        let blobs = image
            .layers
            .iter()
            .chain([&image.config, &image.descriptor]);
        for blob in blobs.map(blob_path) {
            let content = self.read(&blob)?;
            files.push((blob, content));
        }
        let files = files.iter();
        let entries: Vec<_> = files
            .map(|(name, content)| Entry::File(name, 0o644, content))
            .collect();
        let written =
            archive::tar(&entries, self.commit.time).and_then(|content| fs::write(&path, content));
        written.map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.folder.join(name);
        fs::read(&path).map_err(|source| Error::File { path, source })
    }

    /// Writes the index of all images, and returns its digest.
    pub(super) fn finish(&self, images: &[Image]) -> Result<String, Error> {
        let images: Vec<_> = images
            .iter()
            .map(|image| image.descriptor.clone())
            .collect();
        let index = bytes(&index(&images));
        self.write("index.json", &index)?;
        Ok(format!("sha256:{}", sha256(&index)))
    }
}

impl Image {
    /// The digest of its manifest.
    pub(super) fn digest(&self) -> String {
        digest(&self.descriptor)
    }

    /// The digests of its layers.
    pub(super) fn layers(&self) -> Vec<String> {
        self.layers.iter().map(digest).collect()
    }

    /// The place of the image in an index, with its name for a runtime.
    fn named(&self) -> Value {
        let mut descriptor = self.descriptor.clone();
        descriptor["annotations"] = json!({
            "io.containerd.image.name": format!("docker.io/library/{NAME}:{VERSION}"),
            "org.opencontainers.image.ref.name": VERSION,
        });
        descriptor
    }
}

fn index(images: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": images })
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn digest(descriptor: &Value) -> String {
    descriptor["digest"].as_str().unwrap_or_default().to_owned()
}

fn blob_path(descriptor: &Value) -> String {
    format!("blobs/{}", digest(descriptor).replace(':', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(content: &[u8]) -> Layer {
        Layer {
            packed: content.to_vec(),
            archive: content.to_vec(),
        }
    }

    fn made(parent: &Path) -> (String, Vec<u8>) {
        let commit = Commit {
            hash: "abc".to_owned(),
            changes: String::new(),
            time: 1_700_000_000,
        };
        let layout = Layout::create(parent, &commit).unwrap();
        let image = layout
            .add(Platform::Amd64, &[layer(b"one"), layer(b"two")])
            .unwrap();
        let archive = layout.archive(Platform::Amd64, &image).unwrap();
        (layout.finish(&[image]).unwrap(), fs::read(archive).unwrap())
    }

    #[test]
    fn the_same_files_result_in_the_same_image() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = folders.each_ref().map(|folder| made(folder.path()));
        assert_eq!(first, second);
        // A second image in the same folder leaves nothing of the first one.
        assert_eq!(made(folders[0].path()), first);
    }

    #[test]
    fn every_digest_of_the_layout_is_that_of_a_blob() {
        let folder = tempfile::tempdir().unwrap();
        made(folder.path());
        let layout = folder.path().join("layout");
        let read = |name: &str| -> Value {
            serde_json::from_slice(&fs::read(layout.join(name)).unwrap()).unwrap()
        };
        let check = |descriptor: &Value| {
            let path = blob_path(descriptor);
            let content = fs::read(layout.join(&path)).unwrap();
            assert_eq!(descriptor["size"], content.len());
            assert_eq!(path, format!("blobs/sha256/{}", sha256(&content)));
            path
        };
        let index = read("index.json");
        let manifest = read(&check(&index["manifests"][0]));
        let config = read(&check(&manifest["config"]));
        assert_eq!(
            manifest["layers"]
                .as_array()
                .unwrap()
                .iter()
                .map(check)
                .count(),
            2
        );
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            format!("sha256:{}", sha256(b"one"))
        );
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    }
}
