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
use super::cel_types::{TYPE_IDENTIFIERS, Ty};
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
        // Conversions quote what they could not convert.
        ExecutionError::FunctionError { function, message }
            if TYPE_IDENTIFIERS.contains(&function.as_str())
                || matches!(function.as_str(), "duration" | "timestamp") =>
        {
            match message.as_str() {
                "integer overflow" => message.clone(),
                _ => format!("type conversion error to {function}"),
            }
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        _ => "evaluation failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cel_functions::declared;
    use super::super::testing::{check, hold, object, verdict};
    use super::*;

    #[test]
    fn rules_as_users_write_them() {
        hold(&[
            "self.status.replicas == self.spec.replicas",
            "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            "!self.status.conditions.exists(c, c.type == 'Degraded' && c.status == 'True')",
            "has(self.status.phase) && self.status.phase in ['Running', 'Succeeded']",
            "!has(self.status.failures) || self.status.failures == 0",
            "self.metadata.labels['app.kubernetes.io/name'] == 'web'",
            "'tier' in self.metadata.labels && self.metadata.labels.tier == 'front'",
            "self.spec.paused ? self.status.replicas == 0 : self.status.replicas > 0",
            "self.spec.paused == false && self.spec.none == null",
            "self.spec.items.filter(i, has(i.value)).all(i, i.value > 0)",
            "self.spec.items.map(i, i.name) == ['a', 'b', 'c']",
            "self.spec.image.split('/')[1].startsWith('web:') && self.spec.image.contains(':5000')",
            "timestamp(self.metadata.creationTimestamp) < timestamp('2025-01-01T00:00:00Z')",
            "timestamp('2024-01-03T03:04:05Z') - timestamp(self.metadata.creationTimestamp) == duration('24h')",
            "string(self.spec.replicas) + ' replicas' == '3 replicas' && int('3') == self.spec.replicas",
            "size(self.spec.items) == 3 && self.spec.image.size() > 10 && size(self.metadata) == 4",
            "self.kind == 'Thing' && self.apiVersion == 'v1'",
            "// a comment\nself.kind == 'Thing'",
        ]);
        check(&[
            ("self.spec.replicas == 4", "false"),
            ("self.status.phase == 'Failed'", "false"),
        ]);
    }

    #[test]
    fn numbers_compare_across_types() {
        hold(&[
            "self.spec.replicas == 3 && self.spec.replicas == 3.0 && self.spec.whole == 2",
            "self.spec.ratio > 1 && self.spec.ratio < self.spec.whole && self.spec.replicas > 2.5",
            "self.spec.replicas + 1 == 4 && self.spec.ratio * 2.0 == 3.0 && self.spec.replicas / 2 == 1",
            "self.spec.huge > 9223372036854775807 && type(self.spec.huge) == double",
            "type(self.spec.replicas) == int && type(self.spec.whole) == double",
        ]);
        check(&[
            // an int and a double do not add up
            (
                "self.spec.ratio + 1 == 2",
                "error: no such overload: add(float, int)",
            ),
            (
                "self.spec.replicas * 1.0 == 3.0",
                "error: no such overload: mul(int, float)",
            ),
        ]);
    }

    #[test]
    fn optional_fields_need_no_has() {
        hold(&[
            "self.?status.?phase.orValue('') == 'Running'",
            "self.status.?failures.orValue(0) == 0",
            "!self.?other.?field.hasValue() && self.?spec.?none.hasValue()",
            "self.metadata.labels[?'tier'].value() == 'front'",
            "self.?other.or(self.?status).phase.value() == 'Running'",
            "[?self.?other, ?self.?kind] == ['Thing']",
            "self.spec.items[?7].?name.orValue('none') == 'none'",
        ]);
    }

    #[test]
    fn rules_must_yield_a_bool() {
        let dynamic = "refused: must evaluate to bool, but evaluates to dyn: compare the value, as in `... == true`";
        check(&[
            ("self", dynamic),
            ("self.spec.paused", dynamic),
            ("self.spec['paused']", dynamic),
            ("!!self.spec.paused", dynamic),
            ("dyn(true)", dynamic),
            ("true ? true : self.spec.paused", dynamic),
            ("self.?spec.?paused.orValue(false)", dynamic),
            ("1", "refused: must evaluate to bool, but evaluates to int"),
            (
                "'true'",
                "refused: must evaluate to bool, but evaluates to string",
            ),
            (
                "null",
                "refused: must evaluate to bool, but evaluates to null",
            ),
            (
                "bool",
                "refused: must evaluate to bool, but evaluates to type",
            ),
            (
                "[true]",
                "refused: must evaluate to bool, but evaluates to list(bool)",
            ),
            (
                "[]",
                "refused: must evaluate to bool, but evaluates to list(dyn)",
            ),
            (
                "self.?spec",
                "refused: must evaluate to bool, but evaluates to optional(dyn)",
            ),
            (
                "size(self.spec.items)",
                "refused: must evaluate to bool, but evaluates to int",
            ),
            ("self.spec.paused == true", "false"),
            ("bool('true')", "true"),
        ]);
    }

    #[test]
    fn what_is_no_cel_names_the_place() {
        let object = object();
        for (rule, start) in [
            ("", "refused: 1:1: Syntax error: mismatched input '<EOF>'"),
            (
                "1 +",
                "refused: 1:4: Syntax error: mismatched input '<EOF>'",
            ),
            (
                "self.a = 1",
                "refused: 1:8: Syntax error: token recognition error at: '= '",
            ),
            (
                "self.a == 'x",
                "refused: 1:11: Syntax error: token recognition error at: ''x'",
            ),
            ("self.a ==\n (1", "refused: 2:4: Syntax error: "),
            ("has(self)", "refused: 1:5: invalid argument to has() macro"),
            (
                "self.a.all(b.c, true)",
                "refused: 1:13: argument must be a simple name",
            ),
            ("self.`a-b` == 1", "refused: 1:5: unsupported syntax: '`'"),
            ("if == 1", "refused: "),
            ("self.a == 99999999999999999999", "refused: "),
            ("'\\q' == self.a", "refused: "),
            ("\0", "refused: 1:1: Syntax error: token recognition error"),
            ("self.ä == 1", "refused: "),
        ] {
            let found = verdict(rule, &object);
            assert!(found.starts_with(start), "{rule:?}: {found}");
            assert!(!found.contains("internal error"), "{rule:?}: {found}");
        }
        let junk = verdict(&"a b ".repeat(1_000), &object);
        assert!(junk.len() < 700, "{junk}");
    }

    #[test]
    fn errors_say_what_is_missing_or_does_not_fit() {
        check(&[
            ("self.other == 1", "error: no such key: other"),
            ("self.status.other.more == 1", "error: no such key: other"),
            ("has(self.other.field)", "error: no such key: other"),
            ("self.metadata.labels['x'] == ''", "error: no such key: x"),
            (
                "self.spec.items[3].name == ''",
                "error: index out of bounds: 3",
            ),
            (
                "self.spec.items[-1].name == ''",
                "error: index out of bounds: -1",
            ),
            (
                "self.spec.replicas.x == 1",
                "error: no such overload: _._(int, string)",
            ),
            (
                "self.spec.none.x == 1",
                "error: no such overload: _._(null_type, string)",
            ),
            (
                "self.spec.items.name == ''",
                "error: no such overload: _._(list, string)",
            ),
            (
                "self.spec.items['a'] == 1",
                "error: no such overload: _[_](list, string)",
            ),
            ("self.spec.replicas / 0 == 1", "error: division by zero"),
            ("self.spec.replicas % 0 == 1", "error: modulus by zero"),
            (
                "self.spec.replicas + 9223372036854775807 > 0",
                "error: integer overflow",
            ),
            (
                "self.spec.image + 1 == 2",
                "error: no such overload: add(string, int)",
            ),
            (
                "self.spec.image - 1 == 2",
                "error: no such overload: sub(string, int)",
            ),
            (
                "self.spec.image < 1",
                "error: no such overload: _<_(string, int)",
            ),
            (
                "-self.spec.image == 1",
                "error: no such overload: -_(string)",
            ),
            ("!self.spec.image", "error: no such overload: !_(string)"),
            (
                "self.spec.image && true",
                "error: no such overload: _&&_(string, bool)",
            ),
            (
                "true && self.spec.image",
                "error: no such overload: _&&_(bool, string)",
            ),
            (
                "self.spec.image ? true : false",
                "error: no such overload: string is no bool",
            ),
            (
                "self.spec.words.all(w, w)",
                "error: no such overload: _&&_(bool, string)",
            ),
            (
                "self.spec.image.all(c, true)",
                "error: no such overload: string is no iterable",
            ),
            (
                "size(self.spec.replicas) == 1",
                "error: no such overload: size(int)",
            ),
            (
                "self.spec.replicas.size() == 1",
                "error: no such overload: int.size()",
            ),
            (
                "self.spec.replicas.startsWith('x')",
                "error: no such overload: int.startsWith(string)",
            ),
            (
                "timestamp(self.spec.image) == timestamp(0)",
                "error: type conversion error to timestamp",
            ),
            (
                "{self.spec.none: 1} == {}",
                "error: unsupported key type: null",
            ),
            (
                "self.?other.value() == 1",
                "error: optional.none() dereference",
            ),
        ]);
    }

    #[test]
    fn errors_do_not_show_values() {
        let object = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg", "list": ["aHVudGVyMg"]}, "n": 1});
        for rule in [
            "self.data.password + 1 == 2",
            "self.data.password < 1",
            "self.n < self.data.list",
            "self.data.list + self.n == []",
            "self.n[self.data.password] == 1",
            "{self.data.list: 1} == {}",
            "[self.data.password][self.data.password] == ''",
            "self.data.list.all(x, x)",
            "self.data.password ? true : false",
            "timestamp(self.data.password) == timestamp(0)",
            "duration(self.data.password) == duration('1s')",
            "int(self.data.password) == 1",
            "bool(self.data.password)",
            "self.data.list.sum() == 1",
            "[self.data.list][0.5 < 1.0 ? 7 : 0] == []",
        ] {
            let found = verdict(rule, &object);
            assert!(found.starts_with("error: "), "{rule}: {found}");
            assert!(
                !found.contains("hunter") && !found.contains("aHVu"),
                "{rule}: {found}"
            );
        }
    }

    #[test]
    fn logical_operators_forgive_errors_that_do_not_matter() {
        hold(&[
            "true || self.other == 1",
            "self.other == 1 || true",
            "!(false && self.other == 1) && !(self.other == 1 && false)",
            "self.spec.items.exists(i, i.value == 2)",
            "!self.spec.items.all(i, i.value == 2)",
            "self.spec.none == null || self.spec.none.x == 1",
        ]);
        check(&[
            ("self.other == 1 || false", "error: no such key: other"),
            ("self.other == 1 && true", "error: no such key: other"),
            (
                "self.spec.items.all(i, i.value > 0)",
                "error: no such key: value",
            ),
            (
                "self.spec.items.exists(i, i.value == 9)",
                "error: no such key: value",
            ),
            (
                "self.spec.items.exists_one(i, i.value == 1)",
                "error: no such key: value",
            ),
        ]);
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        hold(&["{'a': 1, 'a': 2} == {'a': 2} && {'a': 1, 'a': 2}.size() == 1"]);
    }

    /// Calls every function with a value of each of its types, so that none is declared that
    /// the evaluator does not have.
    #[test]
    fn every_declared_function_exists() {
        let sample = |ty: &Ty| -> String {
            let text = ty.to_string().replace(['A', 'B'], "int");
            match text.as_str() {
                "bool" => "true",
                "int" => "1",
                "uint" => "1u",
                "double" => "1.5",
                "string" => "'1'",
                "bytes" => "b'1'",
                "duration" => "duration('1s')",
                "timestamp" => "timestamp('2024-01-01T00:00:00Z')",
                "kubernetes.URL" => "url('/')",
                "list(int)" => "[1]",
                "list(uint)" => "[1u]",
                "list(double)" => "[1.5]",
                "list(bool)" => "[true]",
                "list(string)" => "['1']",
                "list(bytes)" => "[b'1']",
                "list(duration)" => "[duration('1s')]",
                "list(timestamp)" => "[timestamp('2024-01-01T00:00:00Z')]",
                "map(int, int)" => "{1: 1}",
                "optional(int)" => "{'a': 1}.?a",
                other => panic!("no sample of {other}"),
            }
            .to_owned()
        };
        for (name, member, parameters, result) in declared() {
            let mut arguments: Vec<String> = parameters.iter().map(sample).collect();
            // Conversions from strings want a string of theirs.
            if arguments == ["'1'"] {
                let text = match name {
                    "bool" => "'true'",
                    "timestamp" => "'2024-01-01T00:00:00Z'",
                    "duration" => "'1s'",
                    "url" => "'/'",
                    _ => "'1'",
                };
                text.clone_into(&mut arguments[0]);
            }
            // A second string of a timestamp's getter is a time zone.
            if parameters.first() == Some(&Ty::Named("timestamp"))
                && parameters.get(1) == Some(&Ty::Named("string"))
            {
                arguments[1] = "'UTC'".to_owned();
            }
            // The only index of the list samples.
            if name == "_[_]" && arguments == ["[1]", "1"] {
                arguments[1] = "0".to_owned();
            }
            let call = match (name, arguments.as_slice()) {
                ("@not_strictly_false", _) => continue,
                ("@in", [item, list]) => format!("({item} in {list})"),
                ("_[_]", [list, index]) => format!("{list}[{index}]"),
                ("_?_:_", [condition, yes, no]) => format!("({condition} ? {yes} : {no})"),
                (operator, [a, b]) if operator.starts_with('_') => {
                    format!("({a} {} {b})", operator.trim_matches('_'))
                }
                (operator, [a]) if operator.ends_with('_') => {
                    format!("({}{a})", operator.trim_matches('_'))
                }
                (name, [receiver, rest @ ..]) if member => {
                    format!("{receiver}.{name}({})", rest.join(", "))
                }
                (name, all) => format!("{name}({})", all.join(", ")),
            };
            // Its runtime type is the declared one.
            let expected = match result.to_string().replace('A', "int").as_str() {
                "bool" => "bool",
                "int" => "int",
                "uint" => "uint",
                "double" => "double",
                "string" => "string",
                "bytes" => "bytes",
                list if list.starts_with("list") => "list",
                map if map.starts_with("map") => "map",
                "duration" => "type(duration('1s'))",
                "timestamp" => "type(timestamp(0))",
                "kubernetes.URL" => "type(url('/'))",
                "type" => "type(int)",
                "optional(int)" => "type({}.?a)",
                _ => "int",
            };
            let rule = format!("type({call}) == {expected}");
            assert_eq!(verdict(&rule, &json!({})), "true", "{rule}");
        }
    }

    #[test]
    fn long_and_deep_rules_are_refused_and_never_overflow_the_stack() {
        let object = object();
        let too_deep = "refused: nested too deeply";
        for (rule, expected) in [
            (
                format!("true{}", " ".repeat(MAX_RULE)),
                "refused: longer than 8192 bytes",
            ),
            (format!("true{}", " ".repeat(MAX_RULE - 4)), "true"),
            (format!("{}1 == 1", "1+".repeat(4_000)), too_deep),
            (format!("{}1 == 201", "1+".repeat(200)), "true"),
            (
                format!("{}1{} == 1", "(".repeat(4_000), ")".repeat(4_000)),
                too_deep,
            ),
            (
                format!("{}1{} == 1", "(".repeat(80), ")".repeat(80)),
                "true",
            ),
            ("(".repeat(8_000), too_deep),
            (
                format!("{}1{} == []", "[".repeat(4_000), "]".repeat(4_000)),
                too_deep,
            ),
            (format!("self{} == 1", ".a".repeat(4_000)), too_deep),
            (
                format!("self{} == 1", ".a".repeat(200)),
                "error: no such key: a",
            ),
            (format!("{}true", "!".repeat(8_000)), "true"),
            (
                format!("{}true{}", "!(".repeat(2_500), ")".repeat(2_500)),
                too_deep,
            ),
            (format!("{}true{}", "!(".repeat(80), ")".repeat(80)), "true"),
            (format!("{}true", "true==".repeat(1_300)), too_deep),
            (format!("{}true", "true&&".repeat(1_300)), "true"),
            (format!("{}true", "true?true:".repeat(700)), too_deep),
            (format!("{}true", "true?true:".repeat(80)), "true"),
            (
                format!("{}true{}", "[1].all(x,".repeat(740), ")".repeat(740)),
                too_deep,
            ),
            (
                format!("{}true{}", "[1].all(x,".repeat(60), ")".repeat(60)),
                "true",
            ),
            (
                format!("[1]{}.size() == 1", ".map(x,x)".repeat(880)),
                too_deep,
            ),
            (format!("[1]{}.size() == 1", ".map(x,x)".repeat(90)), "true"),
            (format!("[{}1].size() == 4001", "1,".repeat(4_000)), "true"),
        ] {
            let found = verdict(&rule, &object);
            let shown: String = rule.chars().take(40).collect();
            assert_eq!(found, expected, "{shown}");
        }
    }

    #[test]
    fn a_panic_ends_with_the_rule() {
        let quiet = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let panicked: Result<(), Aborted> = on_large_stack(|| panic!("a bug"));
        std::panic::set_hook(quiet);
        assert_eq!(panicked.unwrap_err().to_string(), "internal error");
        assert!(matches!(on_large_stack(|| 7), Ok(7)));
    }

    #[test]
    fn extreme_values_do_not_panic() {
        let object = json!({"big": i64::MAX, "small": i64::MIN, "huge": 1e308, "text": "x"});
        for rule in [
            "-self.small == 0",
            "self.small / -1 == 0",
            "self.small % -1 == 0",
            "self.small * self.small == 0",
            "int(self.huge) == 0",
            "uint(-1) == 0u",
            "uint(self.small) == 0u",
            "timestamp(self.big) == timestamp(0)",
            "timestamp('9999-12-31T23:59:59Z') + duration('24h') == timestamp(0)",
            "timestamp('0001-01-01T00:00:00Z') - duration('24h') == timestamp(0)",
            "duration('9223372036s') + duration('9223372036s') == duration('0s')",
            "duration('-9223372036.854775808s') - duration('1s') == duration('0s')",
            "duration('99999999999999h') == duration('0s')",
            "self.text.substring(self.big) == ''",
            "self.text.charAt(self.small) == ''",
            "self.text.substring(self.small, self.big) == ''",
            "self.text.lastIndexOf('x', self.small) == 0",
            "[1][self.big] == 1",
            "[1][self.huge] == 1",
        ] {
            let found = verdict(rule, &object);
            assert!(found.starts_with("error: "), "{rule}: {found}");
            assert!(!found.contains("internal error"), "{rule}: {found}");
        }
        for rule in [
            "self.huge * 10.0 > self.huge",
            "self.text.split('', self.big).size() == 1",
            "self.text.replace('x', 'y', self.big) == 'y'",
            "self.text.findAll('x', self.small) == ['x']",
            "self.text.indexOf('x', self.big) == -1",
        ] {
            assert_eq!(verdict(rule, &object), "true", "{rule}");
        }
    }
}
