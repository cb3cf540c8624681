//! Why a rule cannot be compiled, or has no result for an object.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::{ExecutionError, ParseError, ParseErrors, Value};
use thiserror::Error;

use crate::cel::MAX_RULE;
use crate::cel::ast;
use crate::cel::types::is_type_identifier;

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// More text than [`MAX_RULE`].
    #[error("longer than {MAX_RULE} bytes")]
    TooLong,
    /// More nesting than can be evaluated.
    #[error("nested too deeply")]
    TooDeep,
    /// Not CEL.
    #[error("{0}")]
    Syntax(String),
    /// A name that does not exist, or operands that do not fit.
    #[error("{0}")]
    Type(#[from] TypeError),
    /// An invalid regular expression.
    #[error("{0}")]
    Pattern(#[from] RegexError),
    /// The result has another type, which is named.
    #[error("must evaluate to bool, but evaluates to {0}")]
    NotBool(String),
    /// As [`Self::NotBool`]: a field of an object may be a bool or not.
    #[error("must evaluate to bool, but evaluates to dyn: compare the value, as in `... == true`")]
    Dynamic,
    /// The parser did not run to its end.
    #[error("cannot be parsed: {0}")]
    Aborted(#[from] Aborted),
}

/// What is wrong with the types of a rule, and where if that is known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", position.map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default())]
pub struct TypeError {
    /// Line and column, from 1.
    pub position: Option<(usize, usize)>,
    /// The message of Kubernetes' checker.
    pub message: String,
}

/// A regular expression that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid regular expression \"{pattern}\": {cause}")]
pub struct RegexError {
    /// The expression, shortened if it is long.
    pub pattern: String,
    /// The message of the parser of regular expressions.
    pub cause: String,
}

/// Why a rule has no result for an object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// The rule spent its budget, which bounds time and memory.
    #[error("the rule is too expensive for this object")]
    TooExpensive,
    /// The probes of the revision spent what they may cost together in a pass.
    #[error("the probes of this revision are too expensive for one pass")]
    PassTooExpensive,
    /// A missing field, operands that do not fit, a conversion that fails. Values of the object are not shown.
    #[error("{0}")]
    Failed(String),
    /// The evaluator did not run to its end.
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

/// Why the parser or the evaluator did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Aborted {
    /// A panic, which is a bug.
    #[error("internal error")]
    Panicked,
    /// No thread could be started.
    #[error("no stack for a deep rule: {0}")]
    NoThread(String),
}

impl From<ParseErrors> for RuleError {
    /// Shows the first errors: what the parser finds after them is mostly a consequence.
    fn from(errors: ParseErrors) -> Self {
        const SHOWN: usize = 3;
        let too_deep = |error: &ParseError| error.msg.contains("Recursion limit");
        if errors.errors.iter().any(too_deep) {
            return Self::TooDeep;
        }
        let messages = errors.errors.iter().take(SHOWN).map(|error| {
            let message: String = error.msg.chars().take(200).collect();
            format!("{}:{}: {message}", error.pos.0, error.pos.1)
        });
        Self::Syntax(messages.collect::<Vec<_>>().join("; "))
    }
}

/// The messages of upstream, without the values that some errors hold: those may be large, and the messages end up in
/// conditions that more people can read than the object. A key counts as a value unless the rule itself names it.
pub(crate) fn describe(error: &ExecutionError, rule: &IdedExpr) -> String {
    let types = |values: &[&Value]| {
        let names = values.iter().map(|value| value.type_of().to_string());
        format!("({})", names.collect::<Vec<_>>().join(", "))
    };
    match error {
        ExecutionError::NoSuchKey(key) if is_named(rule, key) => format!("no such key: {key}"),
        ExecutionError::NoSuchKey(key) => format!("no such key, of {} bytes", key.len()),
        ExecutionError::NoSuchOverload(overload) => {
            let arguments = overload.argument_types();
            let (receiver, arguments) = match arguments.split_first() {
                Some((receiver, rest)) if overload.is_member_function() => {
                    (format!("{receiver}."), rest)
                }
                _ => (String::new(), arguments),
            };
            let (function, arguments) = (overload.function(), arguments.join(", "));
            format!("no such overload: {receiver}{function}({arguments})")
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
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::UnsupportedIndex(index, of) => {
            format!("no such overload: index{}", types(&[of, index]))
        }
        ExecutionError::UnsupportedKeyType(key) => {
            format!("unsupported key type: {}", key.type_of())
        }
        // Conversions quote what they could not convert.
        ExecutionError::FunctionError { function, message }
            if is_type_identifier(function)
                || matches!(function.as_str(), "duration" | "timestamp") =>
        {
            match message.as_str() {
                "integer overflow" => message.clone(),
                _ => format!("type conversion error to {function}"),
            }
        }
        ExecutionError::FunctionError { function, .. } if function == "timezone" => {
            "invalid time zone".to_owned()
        }
        // So do positions in strings.
        ExecutionError::FunctionError { message, .. } => {
            const QUOTING: [&str; 2] = ["index out of range", "invalid substring range"];
            let known = QUOTING.into_iter().find(|text| message.starts_with(text));
            known.unwrap_or(message).to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        _ => "evaluation failed".to_owned(),
    }
}

/// Whether a key stands in the rule, as a field or as a string.
fn is_named(rule: &IdedExpr, key: &str) -> bool {
    let search = ast::visit(rule, &mut |node| {
        let found = match &node.expr {
            Expr::Select(select) => select.field == key,
            Expr::Literal(LiteralValue::String(text)) => text.inner() == key,
            _ => false,
        };
        if found { Err(()) } else { Ok(()) }
    });
    search.is_err()
}
