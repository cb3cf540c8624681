//! The settings of an inventory.

use std::time::Duration;

/// The Secrets with the credentials of clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSecrets<'a> {
    /// Namespace of the Secrets.
    pub namespace: &'a str,
    /// True if each Secret has to name the server that its credentials are for.
    pub is_strict: bool,
}

/// The settings of an [`Inventory`](super::Inventory).
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The Secrets of clusters.
    pub secrets: ClusterSecrets<'a>,
    /// True if only the oldest of the Clusters with one UID is used.
    pub requires_unique: bool,
    /// Period in which agents report.
    pub heartbeat: Duration,
}
