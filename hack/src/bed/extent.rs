//! The sets of servers that a bed can have.

use serde::{Deserialize, Serialize};

use super::processes::COMPONENTS;

/// The set of servers of a bed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// All servers, with simulated nodes on which pods become ready.
    #[default]
    Full,
    /// Only etcd, kube-apiserver and kube-controller-manager, which are enough to store, validate
    /// and garbage collect objects.
    ///
    /// There are no nodes and no scheduler, so a pod stays `Pending`. The bed needs about 410 MiB
    /// instead of 530 MiB, and the same time to start.
    ControlPlane,
}

impl Extent {
    /// The names of the servers.
    pub(super) fn components(self) -> &'static [&'static str] {
        match self {
            Self::Full => &COMPONENTS,
            Self::ControlPlane => &COMPONENTS[..3],
        }
    }

    /// The names of the servers that are left out.
    pub(super) fn absent(self) -> &'static [&'static str] {
        &COMPONENTS[self.components().len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_has_no_scheduler_and_no_kwok_controller() {
        let kept = ["etcd", "kube-apiserver", "kube-controller-manager"];
        assert_eq!(Extent::ControlPlane.components(), kept);
        assert_eq!(
            Extent::ControlPlane.absent(),
            ["kube-scheduler", "kwok-controller"]
        );
        assert!(Extent::Full.absent().is_empty());
    }
}
