//! Availability probes for Kubernetes objects: conditions, equal fields, and CEL with the Kubernetes libraries.
//!
//! Probes are compiled once and evaluated for each object. The crate depends only on its arguments:
//! it has no client, no runtime and no clock. [`cel`] can be used without probes.
//!
//! ```
//! use baton_apis::ObjectSetProbe;
//! use baton_probes::{Probes, Verdict, budget::Budget};
//! use serde_json::json;
//!
//! let specs: Vec<ObjectSetProbe> = serde_json::from_value(json!([{
//!     "selector": {"kind": {"group": "apps", "kind": "Deployment"}},
//!     "probes": [
//!         {"condition": {"type": "Available", "status": "True"}},
//!         {"cel": {"rule": "self.status.replicas == self.spec.replicas", "message": "too few replicas"}},
//!     ],
//! }]))?;
//! let probes = Probes::compile(&specs)?;
//!
//! let mut deployment = json!({
//!     "metadata": {"generation": 1},
//!     "spec": {"replicas": 2},
//!     "status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]},
//! });
//! let mut budget = Budget::default();
//! let verdict = probes.evaluate(&mut budget, "apps", "Deployment", &deployment);
//! assert_eq!(verdict, Verdict::False(vec!["too few replicas".to_owned()]));
//!
//! deployment["status"]["replicas"] = json!(2);
//! assert_eq!(probes.evaluate(&mut budget, "apps", "Deployment", &deployment), Verdict::True);
//!
//! // A status of an older generation decides nothing.
//! deployment["metadata"]["generation"] = json!(2);
//! deployment["status"]["observedGeneration"] = json!(1);
//! let verdict = probes.evaluate(&mut budget, "apps", "Deployment", &deployment);
//! assert_eq!(verdict, Verdict::Unknown(vec![".status outdated".to_owned()]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Observable behaviour: `docs/contract/probes.md`.

pub mod budget;
pub mod cel;
mod fields;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod scenarios;
pub mod selector;
pub mod shape;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use baton_apis::{ObjectSetProbe, Probe, conditions::MAX_MESSAGE_LENGTH};
use serde_json::Value;
use thiserror::Error;

use crate::budget::Budget;
use crate::cel::Rule;
use crate::cel::error::{EvaluationError, RuleError};
use crate::fields::{Condition, FieldsEqual, status_outdated};
use crate::selector::{Selector, SelectorError};

/// Greatest length of all CEL rules of a revision, in bytes. Time of parsing and memory grow in
/// proportion to it.
const MAX_RULES: usize = 64 * 1024;
/// Greatest size of all compiled regular expressions of a revision, in bytes; compiling as much
/// takes some 100 ms.
const MAX_PATTERNS: usize = 4 << 20;
/// Cost of a check that is no rule, or of finding that none selects an object.
const CHECK: u64 = 2;

/// Compiled probes; clones share them.
///
/// # Guarantees
/// Evaluation does no I/O and is bounded in time and memory. It reads and copies only those parts
/// of an object that the probes for it need.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    entries: Arc<[Entry]>,
}

#[derive(Debug)]
struct Entry {
    selector: Selector,
    checks: Vec<Check>,
}

#[derive(Debug)]
enum Check {
    Condition(Condition),
    FieldsEqual(FieldsEqual),
    Cel { rule: Rule, message: String },
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    True,
    False(String),
    Unknown(String),
}

/// The result of all probes that select an object, with messages in the order of the probes.
///
/// Unknown takes precedence over false, and only the messages of the result that takes precedence
/// are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All pass, or none selects the object.
    True,
    /// At least one probe failed, and every probe had a result.
    False(Vec<String>),
    /// At least one probe had no result: a field is missing, or is about an older generation of the
    /// object.
    Unknown(Vec<String>),
}

/// The error of a probe that cannot be evaluated, with its position in the spec.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("availabilityProbes[{entry}]{}: {cause}", probe.map(|probe| format!(".probes[{probe}]")).unwrap_or_default())]
pub struct CompileError {
    /// Index of the entry.
    pub entry: usize,
    /// Index of the probe in the entry; `None` if its selector is the cause.
    pub probe: Option<usize>,
    /// The cause of the error.
    pub cause: CompileErrorCause,
}

/// The cause of a compile error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileErrorCause {
    /// The entry's label selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The probe checks nothing.
    #[error("one of condition, fieldsEqual and cel must be set")]
    Empty,
    /// The probe has several checks.
    #[error("only one of condition, fieldsEqual and cel may be set, not {}", .0.join(" and "))]
    Several(Vec<&'static str>),
    /// The rules are longer than a revision may have.
    #[error("cel: all rules together are longer than {MAX_RULES} bytes")]
    RulesTooLong,
    /// The regular expressions are larger than a revision may have.
    #[error(
        "cel: the regular expressions of all rules are larger than {MAX_PATTERNS} bytes when compiled"
    )]
    PatternsTooLarge,
    /// A path of `fieldsEqual` is invalid.
    #[error("fieldsEqual: {0}")]
    Path(#[from] PathError),
    /// A CEL rule is invalid.
    #[error("cel: rule \"{rule}\": {error}")]
    Rule {
        /// The rule, shortened if it is long.
        rule: String,
        /// The error in the rule.
        error: RuleError,
    },
}

/// A path with an empty key, which no object can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{0}\" is not a field path: map keys separated by single dots are")]
pub struct PathError(pub String);

impl Probes {
    /// Compiles all probes, or none.
    ///
    /// # Errors
    /// Returns the first probe that cannot be evaluated: it has an invalid label selector, path or
    /// rule, or does not have exactly one check. Also returns an error if all rules together are
    /// too large.
    pub fn compile(specs: &[ObjectSetProbe]) -> Result<Self, CompileError> {
        let mut room = RuleBudget {
            rules: MAX_RULES,
            patterns: MAX_PATTERNS,
        };
        let entries = specs.iter().enumerate().map(|(entry, spec)| {
            let error = |probe, cause| CompileError {
                entry,
                probe,
                cause,
            };
            let selector =
                Selector::compile(&spec.selector).map_err(|cause| error(None, cause.into()))?;
            let checks = spec.probes.iter().enumerate().map(|(probe, spec)| {
                Check::compile(spec, &mut room).map_err(|cause| error(Some(probe), cause))
            });
            let checks = checks.collect::<Result<_, _>>()?;
            Ok(Entry { selector, checks })
        });
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// True if an entry may select objects of a kind, possibly depending on their labels.
    pub fn concern(&self, group: &str, kind: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.selector.is_about(group, kind))
    }

    /// Evaluates all entries that select the object, which is given with its `metadata` and
    /// `status`.
    ///
    /// The object's version does not matter, so its group and kind are separate arguments. `budget`
    /// is that of the pass: after it is spent, no probe has a result.
    pub fn evaluate(
        &self,
        budget: &mut Budget,
        group: &str,
        kind: &str,
        object: &Value,
    ) -> Verdict {
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for entry in self.entries.iter() {
            if !budget.spend(CHECK) {
                unknown.push(EvaluationError::PassTooExpensive.to_string());
                break;
            }
            if !entry.selector.matches(group, kind, object) {
                continue;
            }
            // An outdated status is not about the present generation, so no probe can have a
            // result.
            if status_outdated(object) {
                unknown.push(".status outdated".to_owned());
                continue;
            }
            for check in &entry.checks {
                match check.evaluate(budget, object) {
                    Outcome::True => {}
                    Outcome::False(message) => failed.push(message),
                    Outcome::Unknown(message) => unknown.push(message),
                }
            }
        }
        if !unknown.is_empty() {
            Verdict::Unknown(unknown)
        } else if !failed.is_empty() {
            Verdict::False(failed)
        } else {
            Verdict::True
        }
    }
}

/// The remaining room for the rules of a revision.
struct RuleBudget {
    /// Bytes of text.
    rules: usize,
    /// Bytes of compiled patterns.
    patterns: usize,
}

impl RuleBudget {
    fn compile(&mut self, rule: &str) -> Result<Rule, CompileErrorCause> {
        let left = self.rules.checked_sub(rule.len());
        self.rules = left.ok_or(CompileErrorCause::RulesTooLong)?;
        let rule = Rule::compile(rule).map_err(|error| CompileErrorCause::Rule {
            rule: shorten(rule),
            error,
        })?;
        let left = self.patterns.checked_sub(rule.patterns_size());
        self.patterns = left.ok_or(CompileErrorCause::PatternsTooLarge)?;
        Ok(rule)
    }
}

impl Check {
    fn compile(spec: &Probe, room: &mut RuleBudget) -> Result<Self, CompileErrorCause> {
        let Probe {
            condition,
            fields_equal,
            cel,
        } = spec;
        match (condition, fields_equal, cel) {
            (Some(condition), None, None) => Ok(Self::Condition(Condition(condition.clone()))),
            (None, Some(fields), None) => Ok(Self::FieldsEqual(FieldsEqual::compile(fields)?)),
            (None, None, Some(cel)) => Ok(Self::Cel {
                rule: room.compile(&cel.rule)?,
                message: bounded(&cel.message).to_owned(),
            }),
            (None, None, None) => Err(CompileErrorCause::Empty),
            _ => {
                let kinds = [
                    condition.as_ref().map(|_| "condition"),
                    fields_equal.as_ref().map(|_| "fieldsEqual"),
                    cel.as_ref().map(|_| "cel"),
                ];
                let set = kinds.into_iter().flatten().collect();
                Err(CompileErrorCause::Several(set))
            }
        }
    }

    fn evaluate(&self, budget: &mut Budget, object: &Value) -> Outcome {
        match self {
            Self::Condition(condition) => condition.evaluate(budget, object),
            Self::FieldsEqual(fields) => fields.evaluate(budget, object),
            Self::Cel { rule, message } => match rule.evaluate_within(budget, object) {
                Ok(true) => Outcome::True,
                Ok(false) => Outcome::False(message.clone()),
                Err(error) => Outcome::Unknown(format!("CEL program failed: {error}")),
            },
        }
    }
}

/// Cuts a message, because it is copied for each object that fails, and no condition shows more of
/// it.
fn bounded(message: &str) -> &str {
    let end = message.floor_char_boundary(MAX_MESSAGE_LENGTH);
    message.get(..end).unwrap_or_default()
}

/// Cuts a rule for an error message, because conditions need their space for more than a long rule.
fn shorten(rule: &str) -> String {
    const MAX: usize = 200;
    match rule.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}...", rule.get(..end).unwrap_or_default()),
        None => rule.to_owned(),
    }
}
