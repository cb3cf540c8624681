//! Baton: a revision manager for Kubernetes.
//!
//! A revision (ObjectSet, ClusterObjectSet) is an immutable list of phases of objects. Newer
//! revisions take objects over from older ones; what nobody needs any more is archived.
//!
//! - [`engine`] decides, and does nothing else: no I/O, no clock.
//! - [`cluster`] talks to an API server, and decides nothing.
//! - [`controllers`] lead the conversation between the two, one pass over a revision at a time.
//! - [`agent`] connects the controllers of another cluster to the manager's.
//! - [`clusters`] joins other clusters to the manager's own, as a command and not as a part of the
//!   manager.
//! - [`run`] puts the process together; [`cli`] and [`telemetry`] are its surface.

pub mod agent;
pub mod cli;
pub mod cluster;
pub mod clusters;
pub mod controllers;
pub mod engine;
pub mod run;
pub mod telemetry;
