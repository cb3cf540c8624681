//! Fixtures of the integration tests: a real API server, the real manager, and builders for
//! manifests.
//!
//! ```ignore
//! let ns = TestNamespace::new(Scope::Namespaced).await;
//! ns.revision(1).phase("a", [configmap("cm")]).available().await;
//! ns.revision(2).phase("a", [configmap("cm").data("k", "v")]).available().await;
//! ns.reaches("v1", &[Is("InTransition", "True"), Controls(&[])]).await;
//! ```
//!
//! All tests of a process share one manager and run concurrently, so no test may depend on the
//! state of the rest of the cluster. Tests that count requests, or that end the manager, take an
//! [`Exclusive`](exclusive::Exclusive) bed instead, one test at a time.
//!
//! Revisions are written and read as JSON, not through the types of the manager itself: a test sees
//! the same as any other client. Texts that clients compare are spelled out where they are
//! compared.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a helper of tests fails the test by panicking, unless the server's refusal is wanted"
)]

pub mod agent;
pub mod application;
pub mod browser;
pub mod clock;
pub mod cluster;
pub mod deployment;
pub mod dump;
pub mod endpoint;
pub mod exclusive;
pub mod faults;
pub mod fleet;
pub mod forged;
pub mod guard;
pub mod hostile;
pub mod live;
pub mod manager;
pub mod manifest;
pub mod namespace;
mod network;
pub mod page;
pub mod picture;
pub mod plugin;
mod polls;
pub mod program;
pub mod proxy;
pub mod recording;
pub mod revision;
pub mod schema;
pub mod seed;
pub mod set;
pub mod shipper;
pub mod sites;
pub mod svg;
pub mod takeover;
pub mod tools;
pub mod tunnel;
pub mod unmanaged;
pub mod webhook;
mod work;

/// The items that nearly every test uses.
pub mod prelude {
    pub use crate::cluster::{Cluster, Refused};
    pub use crate::deployment::{TestDeployment, annotation, lifecycle, previous};
    pub use crate::live::{
        assert_managed_by, controller, has_manager, is_labelled, owner_names, owners,
        revision_annotation, uid,
    };
    pub use crate::manifest::{
        Entry, cel_probe, condition_probe, configmap, fields_equal, name_annotation_probe, object,
        secret, tool_definition,
    };
    pub use crate::namespace::{Scope, TestNamespace};
    pub use crate::recording::{Change, Recorded, Recording};
    pub use crate::revision::{
        Expectation::{self, Because, Controls, Is, No, Phase, Says},
        Revision,
    };
    pub use crate::{alternating_scopes, both_scopes};
    pub use serde_json::{Value, json};
    pub use std::time::Duration;
}

/// Runs each `async fn $name(scope: Scope)` of the module once per scope of revisions, as `$name::set` and
/// `$name::cluster_set`. For behaviour that depends on the scope: names, rights, places, definitions.
#[macro_export]
macro_rules! both_scopes {
    ($($(#[$attribute:meta])* $name:ident;)+) => {$(
        $(#[$attribute])*
        mod $name {
            #[tokio::test]
            async fn set() {
                super::$name($crate::namespace::Scope::Namespaced).await;
            }

            #[tokio::test]
            async fn cluster_set() {
                super::$name($crate::namespace::Scope::Cluster).await;
            }
        }
    )+};
}

/// As [`both_scopes`], for behaviour of the one implementation for both scopes: the first function runs in
/// a namespace, the second one in the cluster, and so on. The other half has `#[ignore]`, and runs with
/// `-- --include-ignored`.
#[macro_export]
macro_rules! alternating_scopes {
    () => {};
    ($(#[$attribute:meta])* $name:ident; $($rest:tt)*) => {
        $(#[$attribute])*
        mod $name {
            #[tokio::test]
            async fn set() {
                super::$name($crate::namespace::Scope::Namespaced).await;
            }

            #[tokio::test]
            #[ignore = "the other scope"]
            async fn cluster_set() {
                super::$name($crate::namespace::Scope::Cluster).await;
            }
        }
        $crate::alternating_scopes! { @cluster $($rest)* }
    };
    (@cluster) => {};
    (@cluster $(#[$attribute:meta])* $name:ident; $($rest:tt)*) => {
        $(#[$attribute])*
        mod $name {
            #[tokio::test]
            #[ignore = "the other scope"]
            async fn set() {
                super::$name($crate::namespace::Scope::Namespaced).await;
            }

            #[tokio::test]
            async fn cluster_set() {
                super::$name($crate::namespace::Scope::Cluster).await;
            }
        }
        $crate::alternating_scopes! { $($rest)* }
    };
}
