//! Rules in CEL over a live object, with the libraries that Kubernetes adds to the language.
//!
//! A rule reads the object as `self`. It may call the standard library, the strings extension (version 0), and the
//! Kubernetes libraries for URLs, regular expressions and lists.
//!
//! ```
//! use baton_probes::cel::Rule;
//! use serde_json::json;
//!
//! let rule = Rule::compile("url(self.spec.address).getPort() == '8443'")?;
//! let object = json!({"spec": {"address": "https://example.com:8443/"}});
//! assert_eq!(rule.evaluate(&object), Ok(true));
//! # Ok::<(), baton_probes::cel::error::RuleError>(())
//! ```
//!
//! # Guarantees
//! - A rule that compiles uses only names that exist, and evaluates to a bool or fails.
//! - Evaluation and compilation are bounded in time and memory. The compiled regular expressions of
//!   all rules are bounded in memory; those that were not used recently are compiled again. Neither
//!   a rule nor an object makes the process panic or overflow its stack.
//! - Only the parts of the object that a rule reads are converted.
//!
//! # Caveats
//! - Patterns are those of the `regex` crate: unlike in Kubernetes, `\d`, `\w`, `\s` and `\b`
//!   include Unicode.
//! - URLs are those of the `url` crate. Unlike Go it refuses ports above 65535, lists of hosts,
//!   zones of IPv6 addresses and `*`, accepts a fragment after the host, and resolves dots in
//!   paths.
//! - Deeply nested rules are compiled and evaluated on a thread of their own, and the call blocks
//!   until it ends.

pub mod error;

mod arguments;
mod ast;
mod builtins;
mod check;
mod cost;
mod functions;
#[cfg(test)]
mod fuzz;
mod lists;
mod meter;
mod object;
pub(crate) mod programs;
mod regex;
mod strings;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod types;
#[cfg(test)]
mod upstream;
mod urls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::IdedExpr;
use cel::common::types::CelBool;
use cel::{Context, Env, Value as CelValue};
use serde_json::Value;

use crate::budget::Budget;
use crate::cel::check::check;
use crate::cel::error::{Aborted, EvaluationError, RuleError, describe};
use crate::cel::meter::{Meter, weight};
use crate::cel::object::ReadFields;
use crate::cel::regex::{Patterns, Searches};
use crate::cel::types::Ty;

/// Greatest length of a rule, in bytes; Kubernetes' own rules have less than a tenth of it.
pub const MAX_RULE: usize = baton_apis::limits::RULE;
/// Greatest depth of an expression; upstream's parser has the same limit.
const MAX_DEPTH: usize = 250;
/// Greatest depth of an expression that is evaluated on the stack of the caller.
///
/// The evaluator needs some 4 KiB per level, in a debug build twenty times as much.
const SHALLOW: usize = 24;
/// Stack for deeper expressions, and for the parser: enough for the longest rule in a debug build.
/// Only pages in use take memory.
const STACK: usize = 64 << 20;
/// Cost of every evaluation: its functions have to be registered.
const SET_UP: u64 = 50;
/// Additional cost of a thread.
const THREAD: u64 = 500;

/// A rule that is ready to run.
#[derive(Clone, Debug)]
pub struct Rule {
    expression: IdedExpr,
    depth: usize,
    fields: ReadFields,
    patterns: Arc<Patterns>,
}

/// The functions of all rules, declared once.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // The last of several equal keys counts, as upstream.
    env.set_error_on_duplicate_map_keys(false);
    env.add_extension(strings::extension)
        .and_then(|()| env.add_extension(lists::extension))
        .and_then(|()| env.add_extension(urls::extension))
        .expect("the extensions declare each function once, as every test of a rule shows");
    Arc::new(env)
});

impl Rule {
    /// Parses, checks and prepares a rule.
    ///
    /// The cost is up to some 100 µs, most of it in the parser, so callers cache compiled rules.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn compile(rule: &str) -> Result<Self, RuleError> {
        if rule.len() > MAX_RULE {
            return Err(RuleError::TooLong);
        }
        // The parser recurses deeper than the evaluator, even if a rule is long but not nested.
        on_large_stack(|| Self::compile_here(rule)).unwrap_or_else(|cause| Err(cause.into()))
    }

    fn compile_here(rule: &str) -> Result<Self, RuleError> {
        let (mut expression, source) = ENVIRONMENT.parser().parse_with_source_info(rule)?;
        if ast::depth(&expression) > MAX_DEPTH {
            return Err(RuleError::TooDeep);
        }
        match check(&expression, &source)? {
            Ty::BOOL => {}
            Ty::Dyn | Ty::Free => return Err(RuleError::Dynamic),
            other => return Err(RuleError::NotBool(other.to_string())),
        }
        let need = ReadFields::of(&expression);
        let mut patterns = Patterns::default();
        ast::visit(&expression, &mut |node| {
            regex::constant_pattern(node).map_or(Ok(()), |pattern| patterns.add(pattern))
        })?;
        cost::instrument(&mut expression);
        Ok(Self {
            depth: ast::depth(&expression),
            expression,
            fields: need,
            patterns: Arc::new(patterns),
        })
    }

    /// Size of the rule's compiled regular expressions, in bytes.
    pub(crate) fn patterns_size(&self) -> usize {
        self.patterns.size()
    }

    /// Returns true if the object satisfies the rule.
    ///
    /// # Errors
    /// If the rule has no result: a field is missing, operands have wrong types, or the budget is
    /// spent.
    pub fn evaluate(&self, object: &Value) -> Result<bool, EvaluationError> {
        self.evaluate_within(&mut Budget::default(), object)
    }

    /// Like [`Self::evaluate`], with a budget that all rules of a revision share in a pass.
    ///
    /// # Errors
    /// Like [`Self::evaluate`], or if the shared budget is spent.
    pub fn evaluate_within(
        &self,
        budget: &mut Budget,
        object: &Value,
    ) -> Result<bool, EvaluationError> {
        let is_deep = self.depth > SHALLOW;
        if !budget.spend(SET_UP + if is_deep { THREAD } else { 0 }) {
            return Err(EvaluationError::PassTooExpensive);
        }
        let meter = Arc::new(Meter::new(budget.left()));
        let programs = std::mem::take(&mut budget.programs);
        let searches = Arc::new(Searches::new(&self.patterns, programs));
        let result = if is_deep {
            on_large_stack(|| self.evaluate_here(object, &meter, &searches))
                .unwrap_or_else(|cause| Err(cause.into()))
        } else {
            let run = || self.evaluate_here(object, &meter, &searches);
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Aborted::Panicked.into()))
        };
        budget.programs = searches.take_programs();
        budget.spend(meter.spent());
        result
    }

    fn evaluate_here(
        &self,
        object: &Value,
        meter: &Arc<Meter>,
        searches: &Arc<Searches>,
    ) -> Result<bool, EvaluationError> {
        let exhausted = || {
            if meter.is_of_pass() {
                EvaluationError::PassTooExpensive
            } else {
                EvaluationError::TooExpensive
            }
        };
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        let object = self.fields.convert(object);
        meter.charge(weight(&*object)).map_err(|_| exhausted())?;
        context.add_variable_as_val("self", object);
        builtins::install(&mut context, meter)
            .and_then(|()| regex::install(&mut context, searches, meter))
            .map_err(|error| EvaluationError::Failed(error.to_string()))?;
        let result = CelValue::resolve_val(&self.expression, &context);
        if meter.exhausted() {
            return Err(exhausted());
        }
        let value =
            result.map_err(|error| EvaluationError::Failed(describe(&error, &self.expression)))?;
        let result = value.downcast_ref::<CelBool>().map(|value| *value.inner());
        result.ok_or_else(|| {
            let name = value.get_type().name();
            EvaluationError::Failed(format!("no such overload: {name}"))
        })
    }
}

/// Runs a function whose recursion may overflow the stack of the caller.
///
/// An overflow would end the process, and the remaining stack cannot be queried.
fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, Aborted> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, run);
        let thread = thread.map_err(|error| Aborted::NoThread(error.to_string()))?;
        thread.join().map_err(|_| Aborted::Panicked)
    })
}
