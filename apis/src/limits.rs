//! Bounds that the schemas put on what people write: what nobody needs, and what the server would otherwise have to
//! expect when it estimates the cost of a rule or takes a write. Strings are counted in characters.
//!
//! They are far beyond what was met, as what exceeds them cannot be created any more. What was there before stays: an
//! update that leaves it as it is passes.

/// A CEL rule. Longer ones cannot be compiled.
pub const RULE: usize = 8 * 1024;
/// A dotted path of a probe, or of a field that is left to others.
pub const PATH: usize = 4096;
/// The type of a condition, as API servers have it.
pub const CONDITION_TYPE: usize = 316;
/// The status that a condition is to have.
pub const CONDITION_STATUS: usize = 63;
/// An API group.
pub const GROUP: usize = 253;
/// A kind.
pub const KIND: usize = 63;
/// Entries of `availabilityProbes`, and probes of an entry.
pub const PROBES: usize = 1000;
/// Conditions that are mapped from an object.
pub const MAPPINGS: usize = 100;
/// Fields of an object that are left to others.
pub const CREATE_ONLY_FIELDS: usize = 1000;
/// The name of a chart.
pub const CHART_NAME: usize = 1024;
/// The version of a chart, or a range of versions.
pub const CHART_VERSION: usize = 1024;
/// A URL.
pub const URL: usize = 8 * 1024;
/// Regions of a release.
pub const REGIONS: usize = 1000;
/// Capabilities that are asked for.
pub const CAPABILITIES: usize = 1000;
/// Clusters of a release.
pub const CLUSTERS: usize = 10_000;
/// Steps of a strategy.
pub const STEPS: usize = 1000;
/// Upgrade windows.
pub const WINDOWS: usize = 50;
/// When an upgrade window opens.
pub const CRON: usize = 256;
/// The name of a time zone.
pub const TIME_ZONE: usize = 64;
/// A duration.
pub const DURATION: usize = 32;
/// Services that say how they are upgraded.
pub const SERVICES: usize = 1000;
/// An expression over the labels of sites.
pub const EXPRESSION: usize = 4096;
