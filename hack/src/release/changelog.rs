//! The sections of the changelog.

/// The heading of changes that no release has.
const UNRELEASED: &str = "## Unreleased\n";

/// The reason that the changelog has no section for a release.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    #[error("CHANGELOG.md has no section `## Unreleased`")]
    NoUnreleased,
    #[error(
        "CHANGELOG.md has no section for {0}: run `cargo dev release {0} --prepare`, and commit"
    )]
    NoSection(String),
    #[error("CHANGELOG.md has a section for {0} already")]
    Released(String),
    #[error("CHANGELOG.md has unreleased changes: give them to a version with `--prepare`")]
    Unreleased,
    #[error("CHANGELOG.md has no unreleased changes")]
    Nothing,
}

/// The changes of a version, as the notes of its release. Links to pages become links into the
/// repository at `source`.
///
/// # Errors
/// If the changelog has no section for the version, or changes that belong to no version. Those do
/// not matter if `any` is true.
pub(super) fn notes(
    changelog: &str,
    version: &str,
    source: &str,
    any: bool,
) -> Result<String, Error> {
    if !any && !unreleased(changelog)?.is_empty() {
        return Err(Error::Unreleased);
    }
    let section = section(changelog, &heading(version));
    let section = section.ok_or_else(|| Error::NoSection(version.to_owned()))?;
    // The heading has the date behind the version.
    let text = section.split_once('\n').map_or("", |(_, text)| text);
    let pages = format!("]({source}/blob/v{version}/docs/");
    let text = text.trim().replace("](docs/", &pages);
    Ok(format!("# Baton {version}\n\n{text}\n"))
}

/// Gives the unreleased changes to a version of this date.
///
/// # Errors
/// If there are none, or the version has a section.
pub(super) fn release(changelog: &str, version: &str, date: &str) -> Result<String, Error> {
    if section(changelog, &heading(version)).is_some() {
        return Err(Error::Released(version.to_owned()));
    }
    if unreleased(changelog)?.is_empty() {
        return Err(Error::Nothing);
    }
    let new = format!("{UNRELEASED}\n{}{date}\n", heading(version));
    Ok(changelog.replacen(UNRELEASED, &new, 1))
}

fn heading(version: &str) -> String {
    format!("## {version} - ")
}

fn unreleased(changelog: &str) -> Result<&str, Error> {
    let section = section(changelog, UNRELEASED).ok_or(Error::NoUnreleased)?;
    Ok(section.trim())
}

/// The text between a heading and the next one of the same level. The heading is at the start of a
/// line.
fn section<'a>(changelog: &'a str, heading: &str) -> Option<&'a str> {
    let line = format!("\n{heading}");
    let text = &changelog[changelog.find(&line)? + line.len()..];
    Some(text.split("\n## ").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "https://x";
    const CHANGELOG: &str = "# Changelog

## Unreleased

- New.

\
        ## 0.1.0 - 2026-11-26

### Added

- [Old](docs/a.md).
";

    #[test]
    fn unreleased_changes_become_those_of_a_version() {
        let released = release(CHANGELOG, "0.2.0", "2026-12-01").unwrap();
        let expected =
            "## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- New.\n\n## 0.1.0 - 2026-11-26\n";
        assert!(released.contains(expected), "{released}");
        assert_eq!(
            notes(&released, "0.2.0", SOURCE, false).unwrap(),
            "# Baton 0.2.0\n\n- New.\n"
        );
        let old = "# Baton 0.1.0\n\n### Added\n\n- [Old](https://x/blob/v0.1.0/docs/a.md).\n";
        assert_eq!(notes(&released, "0.1.0", SOURCE, false).unwrap(), old);
        assert_eq!(
            release(&released, "0.3.0", "2027-01-01"),
            Err(Error::Nothing)
        );
    }

    #[test]
    fn a_release_without_a_section_is_refused() {
        let refused = [
            (notes(CHANGELOG, "0.1.0", SOURCE, false), Error::Unreleased),
            (
                notes(CHANGELOG, "0.1", SOURCE, true),
                Error::NoSection("0.1".to_owned()),
            ),
            (
                release(CHANGELOG, "0.1.0", "2026-12-01"),
                Error::Released("0.1.0".to_owned()),
            ),
            (
                release("# Changelog\n", "0.1.0", "2026-12-01"),
                Error::NoUnreleased,
            ),
        ];
        for (result, error) in refused {
            assert_eq!(result, Err(error));
        }
        assert!(notes(CHANGELOG, "0.1.0", SOURCE, true).is_ok());
    }
}
