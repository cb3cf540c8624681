//! Errors of rules: those of compilation, and those of evaluation for an object.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::{ExecutionError, ParseError, ParseErrors, Value};
use thiserror::Error;

use crate::cel::MAX_RULE;
use crate::cel::ast;
use crate::cel::types::is_type_identifier;

/// The reason why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// The rule is longer than [`MAX_RULE`].
    #[error("longer than {MAX_RULE} bytes")]
    TooLong,
    /// The rule is nested too deeply to be evaluated.
    #[error("nested too deeply")]
    TooDeep,
    /// The text is not CEL.
    #[error("{0}")]
    Syntax(String),
    /// A name does not exist, or operands have wrong types.
    #[error("{0}")]
    Type(#[from] TypeError),
    /// A regular expression is invalid.
    #[error("{0}")]
    Pattern(#[from] RegexError),
    /// The result has another type, which is given.
    #[error("must evaluate to bool, but evaluates to {0}")]
    NotBool(String),
    /// Like [`Self::NotBool`]: the result is a field of the object, which may have any type.
    #[error("must evaluate to bool, but evaluates to dyn: compare the value, as in `... == true`")]
    Dynamic,
    /// The parser did not complete.
    #[error("cannot be parsed: {0}")]
    Aborted(#[from] Aborted),
}

/// An error in the types of a rule, with its position if known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", position.map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default())]
pub struct TypeError {
    /// Line and column, starting with 1.
    pub position: Option<(usize, usize)>,
    /// The message, as in Kubernetes' checker.
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

/// The reason why a rule has no result for an object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// The rule spent its budget, which bounds time and memory.
    #[error("the rule is too expensive for this object")]
    TooExpensive,
    /// The probes of the revision spent their common budget of the pass.
    #[error("the probes of this revision are too expensive for one pass")]
    PassTooExpensive,
    /// A field is missing, operands have wrong types, or a conversion fails. Values of the object
    /// are not shown.
    #[error("{0}")]
    Failed(String),
    /// The evaluator did not complete.
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

/// The reason why the parser or the evaluator did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Aborted {
    /// The code panicked, which is a bug.
    #[error("internal error")]
    Panicked,
    /// No thread could be started; the text is the error.
    #[error("no stack for a deep rule: {0}")]
    NoThread(String),
}

impl From<ParseErrors> for RuleError {
    /// Shows only the first errors, because later errors of the parser are mostly consequences.
    fn from(errors: ParseErrors) -> Self {
        const MAX_SHOWN: usize = 3;
        let too_deep = |error: &ParseError| error.msg.contains("Recursion limit");
        if errors.errors.iter().any(too_deep) {
            return Self::TooDeep;
        }
        let messages = errors.errors.iter().take(MAX_SHOWN).map(|error| {
            let message: String = error.msg.chars().take(200).collect();
            format!("{}:{}: {message}", error.pos.0, error.pos.1)
        });
        Self::Syntax(messages.collect::<Vec<_>>().join("; "))
    }
}

/// The messages of upstream, without the values that some errors contain.
///
/// Those may be large, and more people can read the conditions with the messages than the object. A
/// key counts as a value unless the rule itself names it.
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
        // Conversions quote the value that they cannot convert.
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
        // Errors about positions in strings quote values as well.
        ExecutionError::FunctionError { message, .. } => {
            const QUOTING: [&str; 2] = ["index out of range", "invalid substring range"];
            let quoting = QUOTING.into_iter().find(|text| message.starts_with(text));
            quoting.unwrap_or(message).to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        _ => "evaluation failed".to_owned(),
    }
}

/// True if the rule contains a key, as a field or as a string.
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
