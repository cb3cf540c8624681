//! Rules in CEL over a live object (contract sections 1.3 and 2.10).
//!
//! # Guarantees
//! - A rule that compiles names only what exists and evaluates to a bool or fails.
//! - Evaluation is bounded in time and memory, and neither a rule nor an object makes the
//!   process panic or overflow its stack.
//! - Only the parts of the object that a rule reads are converted.
//!
//! # Caveats
//! Patterns are those of the `regex` crate: unlike upstream, `\d`, `\w`, `\s` and `\b` know
//! Unicode.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::IdedExpr;
use cel::common::types::CelBool;
use cel::{Context, Env, ExecutionError, ParseError, ParseErrors, Value as CelValue};
use serde_json::Value;
use thiserror::Error;

use super::cel_check::{TypeError, check};
use super::cel_cost::{self, EXHAUSTED, Meter};
use super::cel_object::Need;
use super::cel_regex::{self, Patterns, RegexError};
use super::cel_types::Ty;
use super::{cel_ast, cel_strings, kubernetes};

/// Longest rule in bytes; Kubernetes' own rules stay below a tenth of it.
const MAX_RULE: usize = 8 * 1024;
/// Deepest expression; upstream's parser has the same limit.
const MAX_DEPTH: usize = 250;
/// Deepest expression that is evaluated on the stack of the caller.
///
/// The evaluator needs some 4 KiB per level, in a debug build twenty times as much.
const SHALLOW: usize = 24;
/// Stack for what is deeper, and for the parser: enough for the longest rule in a debug build.
/// Only the pages in use take memory.
const STACK: usize = 64 << 20;

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// More text than a rule needs.
    #[error("longer than {MAX_RULE} bytes")]
    TooLong,
    /// More nesting than a rule needs.
    #[error("nested too deeply")]
    TooDeep,
    /// Not CEL.
    #[error("{0}")]
    Syntax(String),
    /// A name that does not exist, or operands that do not fit.
    #[error("{0}")]
    Type(#[from] TypeError),
    /// A pattern that is none.
    #[error("{0}")]
    Pattern(#[from] RegexError),
    /// An answer is yes or no.
    #[error("must evaluate to bool, but evaluates to {0}")]
    NotBool(String),
    /// As [`Self::NotBool`]: nothing says that a field of an object is a bool.
    #[error("must evaluate to bool, but evaluates to dyn: compare the value, as in `... == true`")]
    Dynamic,
    /// The parser gave up, or there was no stack for it.
    #[error("cannot be parsed: {0}")]
    Aborted(String),
}

/// A rule that is ready to run.
#[derive(Clone, Debug)]
pub struct Rule {
    expression: IdedExpr,
    depth: usize,
    need: Need,
    patterns: Arc<Patterns>,
}

/// The functions of all rules, declared once.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // The last of two equal keys counts, as upstream.
    env.set_error_on_duplicate_map_keys(false);
    cel_strings::extension(&mut env)
        .and_then(|()| kubernetes::extension(&mut env))
        .expect("the extensions declare each function once, as every test of this file shows");
    Arc::new(env)
});

impl Rule {
    /// Parses, checks and prepares a rule.
    ///
    /// This costs up to some 100 µs, most of it in the parser: callers keep what they compile.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn compile(rule: &str) -> Result<Self, RuleError> {
        if rule.len() > MAX_RULE {
            return Err(RuleError::TooLong);
        }
        // The parser recurses deeper than the evaluator, also where a rule is only long.
        on_large_stack(|| Self::compile_here(rule))
            .unwrap_or_else(|cause| Err(RuleError::Aborted(cause.to_string())))
    }

    fn compile_here(rule: &str) -> Result<Self, RuleError> {
        let (mut expression, source) = ENVIRONMENT
            .parser()
            .parse_with_source_info(rule)
            .map_err(|errors| syntax_error(&errors))?;
        if cel_ast::depth(&expression) > MAX_DEPTH {
            return Err(RuleError::TooDeep);
        }
        match check(&expression, &source)? {
            Ty::BOOL => {}
            Ty::Dyn | Ty::Free => return Err(RuleError::Dynamic),
            other => return Err(RuleError::NotBool(other.to_string())),
        }
        let need = Need::of(&expression);
        let mut patterns = Patterns::default();
        cel_ast::visit(&expression, &mut |node| {
            cel_regex::constant_pattern(node).map_or(Ok(()), |pattern| patterns.add(pattern))
        })?;
        cel_cost::instrument(&mut expression);
        Ok(Self {
            depth: cel_ast::depth(&expression),
            expression,
            need,
            patterns: Arc::new(patterns),
        })
    }

    /// Whether the object satisfies the rule.
    ///
    /// # Errors
    /// Why that cannot be said: a missing field, operands that do not fit, a spent budget.
    pub fn evaluate(&self, object: &Value) -> Result<bool, String> {
        let aborted = |cause: Aborted| Err(cause.to_string());
        if self.depth > SHALLOW {
            return on_large_stack(|| self.evaluate_here(object)).unwrap_or_else(aborted);
        }
        catch_unwind(AssertUnwindSafe(|| self.evaluate_here(object)))
            .unwrap_or_else(|_| aborted(Aborted::Panicked))
    }

    fn evaluate_here(&self, object: &Value) -> Result<bool, String> {
        let meter = Arc::new(Meter::default());
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_as_val("self", self.need.convert(object));
        cel_cost::install(&mut context, &meter)
            .and_then(|()| cel_regex::install(&mut context, &self.patterns, &meter))
            .map_err(|error| error.to_string())?;
        let result = CelValue::resolve_val(&self.expression, &context);
        if meter.exhausted() {
            return Err(EXHAUSTED.to_owned());
        }
        let value = result.map_err(|error| describe(&error))?;
        match value.downcast_ref::<CelBool>() {
            Some(value) => Ok(*value.inner()),
            None => Err(format!("no such overload: {}", value.get_type().name())),
        }
    }
}

/// The first errors tell the cause; what the parser finds after them is mostly an echo.
fn syntax_error(errors: &ParseErrors) -> RuleError {
    const SHOWN: usize = 3;
    let too_deep = |error: &ParseError| error.msg.contains("Recursion limit");
    if errors.errors.iter().any(too_deep) {
        return RuleError::TooDeep;
    }
    let messages: Vec<String> = errors
        .errors
        .iter()
        .take(SHOWN)
        .map(|error| {
            let message: String = error.msg.chars().take(200).collect();
            format!("{}:{}: {message}", error.pos.0, error.pos.1)
        })
        .collect();
    RuleError::Syntax(messages.join("; "))
}

/// Why something did not run to its end.
#[derive(Debug, Error)]
enum Aborted {
    #[error("internal error")]
    Panicked,
    #[error("no stack for a deep rule: {0}")]
    NoThread(#[from] std::io::Error),
}

/// Runs something whose recursion the stacks of our callers are too small for.
///
/// An overflow would end the process, and there is no asking how much is left.
fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, Aborted> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, run)?;
        thread.join().map_err(|_| Aborted::Panicked)
    })
}

/// The evaluator's errors in upstream's words, and without the values that some of them hold:
/// those may be large, and they end up in conditions that more people can read than the object.
fn describe(error: &ExecutionError) -> String {
    let types = |values: &[&CelValue]| {
        let names: Vec<String> = values
            .iter()
            .map(|value| value.type_of().to_string())
            .collect();
        format!("({})", names.join(", "))
    };
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload(overload) => {
            let arguments = overload.argument_types();
            match (overload.is_member_function(), arguments.split_first()) {
                (true, Some((receiver, rest))) => format!(
                    "no such overload: {receiver}.{}({})",
                    overload.function(),
                    rest.join(", ")
                ),
                _ => format!(
                    "no such overload: {}({})",
                    overload.function(),
                    arguments.join(", ")
                ),
            }
        }
        ExecutionError::UnsupportedBinaryOperator(operator, a, b) => {
            format!("no such overload: {operator}{}", types(&[a, b]))
        }
        ExecutionError::ValuesNotComparable(a, b) => {
            format!("no such overload: compare{}", types(&[a, b]))
        }
        ExecutionError::UnexpectedType { got, want } => {
            format!("no such overload: {got} is no {want}")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::UnsupportedIndex(index, of) => {
            format!("no such overload: index{}", types(&[of, index]))
        }
        ExecutionError::UnsupportedKeyType(key) => {
            format!("unsupported key type: {}", key.type_of())
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string().chars().take(200).collect(),
    }
}
