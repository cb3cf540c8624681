//! Limits that the schemas set on user input.
//!
//! They exclude sizes that nobody needs, because the server would include these sizes when it
//! estimates the cost of a rule or accepts a write. Strings are counted in characters.
//!
//! The limits are far beyond all known use, because objects beyond a limit cannot be created.
//! Existing objects stay valid: an update passes if it does not change the value.

/// The number of a revision or a rollout. Larger integers are inexact in JSON.
pub const NUMBER: i64 = (1 << 53) - 1;
/// A CEL rule. Longer rules cannot be compiled.
pub const RULE: usize = 8 * 1024;
/// A dotted path of a probe, or of a field in `createOnlyFields`.
pub const PATH: usize = 4096;
/// The type of a condition, as API servers limit it.
pub const CONDITION_TYPE: usize = 316;
/// The status that a probe requires of a condition.
pub const CONDITION_STATUS: usize = 63;
/// An API group.
pub const GROUP: usize = 253;
/// A kind.
pub const KIND: usize = 63;
/// Entries of `availabilityProbes`, and probes of an entry.
pub const PROBES: usize = 1000;
/// Conditions that are mapped from an object.
pub const MAPPINGS: usize = 100;
/// Entries of `createOnlyFields` of an object.
pub const CREATE_ONLY_FIELDS: usize = 1000;
/// The name of a chart.
pub const CHART_NAME: usize = 1024;
/// The version of a chart, or a range of versions.
pub const CHART_VERSION: usize = 1024;
/// A URL.
pub const URL: usize = 8 * 1024;
/// Regions of a release.
pub const REGIONS: usize = 1000;
/// Required capabilities.
pub const CAPABILITIES: usize = 1000;
/// Clusters of a release. The status of a target with more of them could not be stored.
pub const CLUSTERS: usize = 1000;
/// Steps of a strategy.
pub const STEPS: usize = 1000;
/// Expressions of a selector of sites or namespaces.
pub const SELECTOR_EXPRESSIONS: usize = 64;
/// Values of such an expression.
pub const SELECTOR_VALUES: usize = 1000;
/// Labels of a selector of sites or namespaces.
pub const SELECTOR_LABELS: usize = 64;
/// Upgrade windows.
pub const WINDOWS: usize = 50;
/// The cron expression of an upgrade window.
pub const CRON: usize = 256;
/// The name of a time zone.
pub const TIME_ZONE: usize = 64;
/// A duration.
pub const DURATION: usize = 32;
/// Services with an upgrade method of their own.
pub const SERVICES: usize = 1000;
/// An expression over the labels of sites.
pub const EXPRESSION: usize = 4096;
