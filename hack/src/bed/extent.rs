//! Which servers a bed has.

use serde::{Deserialize, Serialize};

use super::processes::COMPONENTS;

/// Which servers a bed has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// All of them, with simulated nodes on which pods become ready.
    #[default]
    Full,
    /// etcd, kube-apiserver and kube-controller-manager: everything that stores, guards and collects
    /// objects. There is no node and nothing schedules, so a pod stays `Pending`. It takes about 120 MiB
    /// less of 530, and as long to start.
    ControlPlane,
}

impl Extent {
    /// The names of its servers.
    pub(super) fn components(self) -> &'static [&'static str] {
        match self {
            Self::Full => &COMPONENTS,
            Self::ControlPlane => &COMPONENTS[..3],
        }
    }

    /// The names of the servers that it does without.
    pub(super) fn absent(self) -> &'static [&'static str] {
        &COMPONENTS[self.components().len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_has_what_stores_guards_and_collects() {
        let kept = ["etcd", "kube-apiserver", "kube-controller-manager"];
        assert_eq!(Extent::ControlPlane.components(), kept);
        assert_eq!(
            Extent::ControlPlane.absent(),
            ["kube-scheduler", "kwok-controller"]
        );
        assert!(Extent::Full.absent().is_empty());
    }
}
