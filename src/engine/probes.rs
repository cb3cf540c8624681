//! Probes: whether a live object is what its revision waits for (contract section 2.10).
//!
//! Compile once, evaluate per object: [`Probes`] is cheap to clone, and the probes of a revision
//! never change.
//!
//! A verdict has three values. False means that a probe compared and the object is not there
//! yet; unknown means that the probe could not be decided, because something is missing or
//! describes an older generation of the object. Unknown wins over false, and only the messages
//! of the winner are shown.

mod cel_ast;
mod cel_check;
mod cel_cost;
mod cel_functions;
mod cel_object;
mod cel_regex;
mod cel_strings;
mod cel_types;
mod fields;
mod kubernetes;
mod rule;
mod selector;
#[cfg(test)]
mod testing;
mod url;

use std::sync::Arc;

use baton_apis::{ObjectSetProbe, Probe};
use serde_json::Value;
use thiserror::Error;

pub use fields::PathError;
use fields::{Condition, FieldsEqual, status_outdated};
use rule::Rule;
pub use rule::RuleError;
use selector::Selector;
pub use selector::SelectorError;

/// Compiled probes of a revision.
///
/// # Guarantees
/// Evaluation does no I/O, is bounded in time, and neither reads nor copies more of an object
/// than the probes that select it ask for.
#[derive(Clone, Debug)]
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

/// What one probe says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    True,
    False(String),
    Unknown(String),
}

/// What all probes that select an object say, with their messages in the order of the probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All pass, or none selects the object.
    True,
    /// At least one fails and all could be decided.
    False(Vec<String>),
    /// At least one could not be decided.
    Unknown(Vec<String>),
}

/// Probes that cannot be evaluated, named as in the spec; the revision has a `PreflightError`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("availabilityProbes[{entry}]{}: {cause}", probe.map(|probe| format!(".probes[{probe}]")).unwrap_or_default())]
pub struct CompileError {
    /// Index of the entry.
    pub entry: usize,
    /// Index of the probe in the entry, unless its selector is to blame.
    pub probe: Option<usize>,
    /// What is wrong.
    pub cause: CompileErrorCause,
}

/// What is wrong with a probe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileErrorCause {
    /// The entry's label selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A probe that checks nothing.
    #[error("one of condition, fieldsEqual and cel must be set")]
    Empty,
    /// Upstream would take the first of them and ignore the others.
    #[error("only one of condition, fieldsEqual and cel may be set, not {}", .0.join(" and "))]
    Several(Vec<&'static str>),
    /// A path of `fieldsEqual`.
    #[error("fieldsEqual: {0}")]
    Path(#[from] PathError),
    /// A CEL rule.
    #[error("cel: rule \"{rule}\": {error}")]
    Rule {
        /// The rule, shortened if it is long.
        rule: String,
        /// What is wrong with it.
        error: RuleError,
    },
}

impl Probes {
    /// Compiles the probes of a revision.
    ///
    /// # Errors
    /// The first probe that cannot be evaluated: an invalid label selector, path or rule, or a
    /// probe that sets not exactly one of its kinds (contract section 1.3).
    pub fn compile(specs: &[ObjectSetProbe]) -> Result<Self, CompileError> {
        specs
            .iter()
            .enumerate()
            .map(|(index, spec)| Entry::compile(index, spec))
            .collect::<Result<_, _>>()
            .map(|entries| Self { entries })
    }

    /// What the entries that select the object say about it.
    ///
    /// Group and kind are given apart; the version plays no part. `object` is the live object
    /// with its `metadata` and `status`.
    #[must_use]
    pub fn evaluate(&self, group: &str, kind: &str, object: &Value) -> Verdict {
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        for entry in self.entries.iter() {
            if !entry.selector.matches(group, kind, object) {
                continue;
            }
            // An outdated status says nothing about this generation: no point in looking.
            if status_outdated(object) {
                unknown.push(".status outdated".to_owned());
                continue;
            }
            for check in &entry.checks {
                match check.evaluate(object) {
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

impl Entry {
    fn compile(index: usize, spec: &ObjectSetProbe) -> Result<Self, CompileError> {
        let error = |probe, cause| CompileError {
            entry: index,
            probe,
            cause,
        };
        let selector =
            Selector::compile(&spec.selector).map_err(|cause| error(None, cause.into()))?;
        let checks = spec
            .probes
            .iter()
            .enumerate()
            .map(|(probe, spec)| Check::compile(spec).map_err(|cause| error(Some(probe), cause)))
            .collect::<Result<_, _>>()?;
        Ok(Self { selector, checks })
    }
}

impl Check {
    fn compile(spec: &Probe) -> Result<Self, CompileErrorCause> {
        let Probe {
            condition,
            fields_equal,
            cel,
        } = spec;
        match (condition, fields_equal, cel) {
            (Some(condition), None, None) => Ok(Self::Condition(Condition::compile(condition))),
            (None, Some(fields), None) => Ok(Self::FieldsEqual(FieldsEqual::compile(fields)?)),
            (None, None, Some(cel)) => match Rule::compile(&cel.rule) {
                Ok(rule) => Ok(Self::Cel {
                    rule,
                    message: cel.message.clone(),
                }),
                Err(error) => Err(CompileErrorCause::Rule {
                    rule: shorten(&cel.rule),
                    error,
                }),
            },
            (None, None, None) => Err(CompileErrorCause::Empty),
            _ => Err(CompileErrorCause::Several(
                [
                    condition.as_ref().map(|_| "condition"),
                    fields_equal.as_ref().map(|_| "fieldsEqual"),
                    cel.as_ref().map(|_| "cel"),
                ]
                .into_iter()
                .flatten()
                .collect(),
            )),
        }
    }

    fn evaluate(&self, object: &Value) -> Outcome {
        match self {
            Self::Condition(condition) => condition.evaluate(object),
            Self::FieldsEqual(fields) => fields.evaluate(object),
            Self::Cel { rule, message } => match rule.evaluate(object) {
                Ok(true) => Outcome::True,
                Ok(false) => Outcome::False(message.clone()),
                Err(error) => Outcome::Unknown(format!("CEL program failed: {error}")),
            },
        }
    }
}

/// Conditions show errors, and have better uses for their space than a long rule.
fn shorten(rule: &str) -> String {
    const MAX: usize = 200;
    match rule.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}...", rule.get(..end).unwrap_or_default()),
        None => rule.to_owned(),
    }
}
