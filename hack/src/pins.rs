//! The pinned versions, read from the `go.mod` files so that each stands in one place.

const CONTROLPLANE: &str = include_str!("../controlplane/go.mod");
const KWOK: &str = include_str!("../kwok/go.mod");

/// Why a pin cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module file does not require the module.
    #[error("the go.mod file of {module} requires no version of it")]
    Missing {
        /// The Go module.
        module: &'static str,
    },
    /// The module files do not state which Go they need.
    #[error("the go.mod files have no `go` line")]
    NoGo,
}

/// The versions that the bed is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    /// `k8s.io/kubernetes`, for example `v1.36.3`.
    pub kubernetes: &'static str,
    /// `go.etcd.io/etcd/server/v3`, for example `v3.6.8`.
    pub etcd: &'static str,
    /// `sigs.k8s.io/kwok`, for example `v0.8.0`.
    pub kwok: &'static str,
    /// The oldest Go that builds all of them.
    pub go: GoVersion,
}

/// A version of Go, as far as the choice of a toolchain needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl GoVersion {
    /// Reads `1.26.0`, `go1.26.8`, `go1.27rc1` or `devel go1.28-abcdef`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let start = text.find("go1.").map_or(0, |at| at + 2);
        let mut numbers = text[start..].split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl std::fmt::Display for GoVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Pins {
    /// Reads the module files that were beside this crate when it was built.
    ///
    /// # Errors
    ///
    /// When a module file does not require what it is there for.
    pub fn read() -> Result<Self, Error> {
        let pin = |file, module| required(file, module).ok_or(Error::Missing { module });
        let go = [CONTROLPLANE, KWOK]
            .into_iter()
            .map(|file| directive(file, "go").and_then(GoVersion::parse));
        Ok(Self {
            kubernetes: pin(CONTROLPLANE, "k8s.io/kubernetes")?,
            etcd: pin(CONTROLPLANE, "go.etcd.io/etcd/server/v3")?,
            kwok: pin(KWOK, "sigs.k8s.io/kwok")?,
            go: go.max().flatten().ok_or(Error::NoGo)?,
        })
    }
}

/// The version of `module` in a `require` directive or block.
fn required<'a>(file: &'a str, module: &str) -> Option<&'a str> {
    file.lines().find_map(|line| {
        let mut words = line
            .split_whitespace()
            .skip_while(|word| *word == "require");
        (words.next()? == module).then(|| words.next())?
    })
}

/// The value of a directive of one line.
fn directive<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_files_pin_every_tool() {
        let pins = Pins::read().unwrap();
        for version in [pins.kubernetes, pins.etcd, pins.kwok] {
            assert!(version.starts_with('v'), "{version}");
        }
        assert!(
            pins.go
                >= GoVersion {
                    major: 1,
                    minor: 26
                },
            "{}",
            pins.go
        );
    }

    #[test]
    fn requirements_are_found_in_both_forms() {
        let file = "module m\n\ngo 1.26.0\n\nrequire a/b v1.2.3\n\nrequire (\n\tc/d v2.0.0\n\ta/bc v9.9.9 // indirect\n)\n";
        assert_eq!(required(file, "a/b"), Some("v1.2.3"));
        assert_eq!(required(file, "c/d"), Some("v2.0.0"));
        assert_eq!(required(file, "c/x"), None);
        assert_eq!(directive(file, "go"), Some("1.26.0"));
    }

    #[test]
    fn go_versions_are_ordered_by_number() {
        let minor = |text| GoVersion::parse(text).map(|version| version.minor);
        assert_eq!(minor("go1.26.8"), Some(26));
        assert_eq!(minor("1.26.0"), Some(26));
        assert_eq!(minor("go1.27rc1"), Some(27));
        assert_eq!(minor("devel go1.28-abc"), Some(28));
        assert_eq!(minor("gccgo"), None);
        assert!(GoVersion::parse("go1.9") < GoVersion::parse("go1.26"));
    }
}
