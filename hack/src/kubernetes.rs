//! The versions of Kubernetes that the control plane of a test can have.

use std::fmt;
use std::str::FromStr;

/// The variable that selects another version than the default, for the processes of a test run.
pub const VARIABLE: &str = "BATON_KUBERNETES";

/// A minor version of Kubernetes, with the Go module that pins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kubernetes {
    minor: &'static str,
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
}

/// All versions, the oldest first.
const ALL: [Kubernetes; 5] = [
    Kubernetes {
        minor: "1.33",
        module: "controlplane-1.33",
        file: include_str!("../controlplane-1.33/go.mod"),
    },
    Kubernetes {
        minor: "1.34",
        module: "controlplane-1.34",
        file: include_str!("../controlplane-1.34/go.mod"),
    },
    Kubernetes {
        minor: "1.35",
        module: "controlplane-1.35",
        file: include_str!("../controlplane-1.35/go.mod"),
    },
    DEFAULT,
    Kubernetes {
        minor: "1.37",
        module: "controlplane-1.37",
        file: include_str!("../controlplane-1.37/go.mod"),
    },
];

const DEFAULT: Kubernetes = Kubernetes {
    minor: "1.36",
    module: "controlplane",
    file: include_str!("../controlplane/go.mod"),
};

impl Default for Kubernetes {
    fn default() -> Self {
        DEFAULT
    }
}

impl fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.minor)
    }
}

/// There is no such version.
#[derive(Debug, thiserror::Error)]
#[error("there is no control plane of Kubernetes {wanted}; there is {}", ALL.map(|it| it.minor).join(", "))]
pub struct UnknownVersion {
    wanted: String,
}

impl FromStr for Kubernetes {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let mut all = ALL.into_iter();
        all.find(|it| it.minor == text)
            .ok_or_else(|| UnknownVersion {
                wanted: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_a_module_of_its_own() {
        for version in ALL {
            assert_eq!(version.to_string().parse::<Kubernetes>().unwrap(), version);
            let required = format!("k8s.io/kubernetes v{version}.");
            assert!(version.file.contains(&required), "{version}");
        }
        let error = "1.20".parse::<Kubernetes>().unwrap_err().to_string();
        assert!(error.contains("there is 1.33, 1.34"), "{error}");
    }
}
