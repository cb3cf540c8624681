//! What talks to an API server, and decides nothing: which requests are sent is up to `baton-engine`.

pub mod account;
pub mod answer;
pub mod apply;
pub mod backoff;
pub mod blockers;
pub mod client;
pub mod discovery;
pub mod error;
pub mod events;
pub mod fence;
pub mod informers;
mod key_locks;
pub mod kind_watch;
pub mod lease;
pub mod metadata;
mod metric_labels;
pub mod object;
pub mod path;
pub mod permits;
pub mod redact;
pub mod request_metrics;
pub mod store;
pub mod target;
pub mod turns;
pub mod user;
pub mod watch;
pub mod wire;
