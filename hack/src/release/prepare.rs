//! Sets the version in the sources.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::{Error, VERSION, changelog, files};
use crate::paths::Dirs;
use crate::{cargo, exec};

/// The places of the version: a file, and the text with `@` for the version.
const PLACES: [(&str, &str); 9] = [
    ("Cargo.toml", "[workspace.package]\nversion = \"@\""),
    ("charts/baton/Chart.yaml", "\nversion: @\nappVersion: @\n"),
    ("README.md", "baton:@`"),
    ("README.md", "baton-@-linux"),
    ("docs/operate/install.md", "baton:@"),
    ("docs/operate/install.md", "baton-@-linux"),
    ("docs/operate/install.md", "baton-@.tgz"),
    ("docs/operate/install.md", "baton_@_image"),
    ("hack/src/image.rs", "baton:@"),
];

/// Sets the version in the sources, and gives the unreleased changes of the changelog to it.
///
/// # Errors
/// Before anything is written, if the version is not later, if the changelog has no unreleased
/// changes or changes of this version, or if a place has changed.
pub(super) async fn run(dirs: &Dirs, version: &semver::Version) -> Result<(), Error> {
    let is_later = VERSION.parse().is_ok_and(|current| *version > current);
    if !is_later {
        return Err(Error::NotLater(version.clone()));
    }
    let version = version.to_string();
    let path = dirs.workspace.join("CHANGELOG.md");
    let date = Timestamp::now().strftime("%F").to_string();
    let released = changelog::release(&files::read(&path)?, &version, &date)?;
    let mut contents = BTreeMap::from([(path, released)]);
    for (file, text) in PLACES {
        let path = dirs.workspace.join(file);
        let content = match contents.remove(&path) {
            Some(content) => content,
            None => files::read(&path)?,
        };
        let [before, after] = [VERSION, &version].map(|version| text.replace('@', version));
        if !content.contains(&before) {
            return Err(Error::NoText {
                path: file.to_owned(),
                text: before,
            });
        }
        contents.insert(path, content.replace(&before, &after));
    }
    for (path, content) in contents {
        files::write(&path, content.as_bytes())?;
    }
    // Each crate has the version in the lock file.
    let mut update = cargo::command(dirs);
    exec::output(update.args(["update", "--workspace"])).await?;
    println!(
        "The version is {version} now. Next: `cargo dev generate`, `cargo dev check`, and a commit."
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_version_is_in_all_its_places() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (file, text) in PLACES {
            let content = files::read(&workspace.join(file)).unwrap();
            let text = text.replace('@', VERSION);
            assert!(content.contains(&text), "{file} does not contain {text:?}");
        }
    }
}
