//! The pinned versions, read from the `go.mod` files so that each is defined in one place.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::kubernetes::Kubernetes;

const CONTROLPLANE: &str = include_str!("../controlplane/go.mod");
const HELM: &str = include_str!("../helm/go.mod");
const IMAGES: &str = include_str!("../images/go.mod");
const KREW: &str = include_str!("../krew/go.mod");
const KWOK: &str = include_str!("../kwok/go.mod");
const PROMETHEUS: &str = include_str!("../prometheus/go.mod");
const RELEASE: &str = include_str!("../release/go.mod");
/// The sources of our own program, which are hashed to its version.
const HEALTH: [&str; 2] = [
    include_str!("../health/go.mod"),
    include_str!("../health/main.go"),
];

/// The versions of the bed's parts and of other tools in Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pins {
    /// `k8s.io/kubernetes`, for example `v1.36.3`.
    pub(crate) kubernetes: &'static str,
    /// The folder of the module that pins Kubernetes.
    pub(crate) module: &'static str,
    /// `go.etcd.io/etcd/server/v3`, for example `v3.6.8`.
    pub(crate) etcd: &'static str,
    /// `sigs.k8s.io/kwok`, for example `v0.8.0`.
    pub(crate) kwok: &'static str,
    /// `helm.sh/helm/v4`, for example `v4.3.1`.
    pub(crate) helm: &'static str,
    /// `github.com/google/go-containerregistry`, for example `v0.22.1`.
    pub(crate) crane: &'static str,
    /// `github.com/distribution/distribution/v3`, for example `v3.1.2`.
    pub(crate) registry: &'static str,
    /// `github.com/sigstore/cosign/v3`, for example `v3.1.3`.
    pub(crate) cosign: &'static str,
    /// `github.com/CycloneDX/cyclonedx-gomod`, for example `v1.10.0`.
    pub(crate) cyclonedx: &'static str,
    /// `sigs.k8s.io/krew`, for example `v0.4.3`.
    pub(crate) krew: &'static str,
    /// `hack/health`: a hash of its sources.
    pub(crate) health: String,
    /// `github.com/prometheus/prometheus`, for example `v0.316.0`, which is 3.16.0.
    pub(crate) prometheus: &'static str,
    /// The oldest version of Go that builds all of them.
    pub(crate) go: GoVersion,
}

/// The part of a Go version that the choice of a toolchain needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl GoVersion {
    /// Reads `1.26.0`, `go1.26.8`, `go1.27rc1` or `devel go1.28-abcdef`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
    /// Reads the module files that were in this directory when this crate was built. The control plane
    /// has a version of choice.
    pub(crate) fn read(kubernetes: Kubernetes) -> Self {
        let pin = |file, module| required(file, module).expect("the module file requires it");
        let files = [
            kubernetes.file,
            CONTROLPLANE,
            HELM,
            IMAGES,
            KREW,
            KWOK,
            RELEASE,
            HEALTH[0],
            PROMETHEUS,
        ];
        let go = files.map(|file| directive(file, "go").and_then(GoVersion::parse));
        Self {
            kubernetes: pin(kubernetes.file, "k8s.io/kubernetes"),
            module: kubernetes.module,
            etcd: pin(CONTROLPLANE, "go.etcd.io/etcd/server/v3"),
            kwok: pin(KWOK, "sigs.k8s.io/kwok"),
            helm: pin(HELM, "helm.sh/helm/v4"),
            crane: pin(IMAGES, "github.com/google/go-containerregistry"),
            registry: pin(IMAGES, "github.com/distribution/distribution/v3"),
            cosign: pin(RELEASE, "github.com/sigstore/cosign/v3"),
            cyclonedx: pin(RELEASE, "github.com/CycloneDX/cyclonedx-gomod"),
            krew: pin(KREW, "sigs.k8s.io/krew"),
            health: hash(HEALTH),
            prometheus: pin(PROMETHEUS, "github.com/prometheus/prometheus"),
            go: go
                .into_iter()
                .max()
                .flatten()
                .expect("module files have a `go` line"),
        }
    }
}

/// A hash that is stable as long as the same Rust toolchain builds this crate.
fn hash(texts: [&str; 2]) -> String {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The version of `module` in a `require` directive or block.
fn required<'a>(file: &'a str, module: &str) -> Option<&'a str> {
    file.lines().find_map(|line| {
        let mut fields = line
            .split_whitespace()
            .skip_while(|field| *field == "require");
        (fields.next()? == module).then(|| fields.next())?
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
        let pins = Pins::read(Kubernetes::default());
        for version in [
            pins.kubernetes,
            pins.etcd,
            pins.kwok,
            pins.helm,
            pins.crane,
            pins.registry,
            pins.cosign,
            pins.cyclonedx,
            pins.krew,
            pins.prometheus,
        ] {
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
        let file = "module m\n\ngo 1.26.0\n\nrequire a/b v1.2.3\n\n\
            require (\n\tc/d v2.0.0\n\ta/bc v9.9.9 // indirect\n)\n";
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
