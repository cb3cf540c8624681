//! Regular expressions of rules: `matches`, and `find` and `findAll` of the Kubernetes library.
//!
//! Constant patterns are compiled with the rule, as upstream does, so that a bad one is found
//! before it runs. Other patterns are compiled each time and charged for it.

use std::collections::HashMap;
use std::sync::Arc;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelBool, CelInt, CelList, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};
use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::cel_cost::{Meter, Native};
use super::cel_strings::MAX_PARTS;

/// Largest compiled pattern; what Kubernetes names, versions and addresses need is far below.
const SIZE_LIMIT: usize = 1 << 20;
/// What compiling a pattern costs besides its length.
const COMPILE_COST: u64 = 2_000;

/// A pattern that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid regular expression \"{pattern}\": {cause}")]
pub struct RegexError {
    pattern: String,
    cause: String,
}

/// The constant patterns of a rule.
#[derive(Clone, Debug, Default)]
pub struct Patterns(HashMap<String, Regex>);

impl Patterns {
    /// Compiles a pattern found in the rule.
    ///
    /// # Errors
    /// It is no regular expression, or too large a one.
    pub fn add(&mut self, pattern: &str) -> Result<(), RegexError> {
        let regex = compile(pattern)?;
        self.0.insert(pattern.to_owned(), regex);
        Ok(())
    }

    fn get(&self, pattern: &str, meter: &Meter) -> Result<Regex, ExecutionError> {
        if let Some(regex) = self.0.get(pattern) {
            return Ok(regex.clone());
        }
        meter.charge(COMPILE_COST + pattern.len() as u64)?;
        compile(pattern).map_err(|error| ExecutionError::function_error("matches", error))
    }
}

fn compile(pattern: &str) -> Result<Regex, RegexError> {
    RegexBuilder::new(pattern)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| RegexError {
            pattern: shorten(pattern),
            // The parser's text shows the pattern over several lines; the last one says why.
            cause: error
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned(),
        })
}

fn shorten(pattern: &str) -> String {
    pattern.chars().take(100).collect()
}

/// The constant pattern of a call, if it is one that has a pattern.
pub fn constant_pattern(node: &IdedExpr) -> Option<&str> {
    let Expr::Call(call) = &node.expr else {
        return None;
    };
    metered_name(&call.func_name)?;
    let pattern = match &call.target {
        Some(_) => call.args.first(),
        None => call.args.get(1),
    };
    match &pattern?.expr {
        Expr::Literal(LiteralValue::String(pattern)) => Some(pattern.inner()),
        _ => None,
    }
}

/// The function that stands in for one with a pattern, receiver first.
pub fn metered_name(function: &str) -> Option<&'static str> {
    match function {
        "matches" => Some("@matches"),
        "find" => Some("@find"),
        "findAll" => Some("@findAll"),
        _ => None,
    }
}

/// Adds the functions under their [`metered_name`].
///
/// # Errors
/// A name is taken, which the names' `@` rules out.
pub fn install(
    context: &mut Context<'_, '_>,
    patterns: &Arc<Patterns>,
    meter: &Arc<Meter>,
) -> Result<(), DeclarationError> {
    let search = Search {
        patterns: Arc::clone(patterns),
        meter: Arc::clone(meter),
    };
    let (matches, find, find_all) = (search.clone(), search.clone(), search);
    let matches: Native = Box::new(move |call| {
        let (text, regex) = matches.arguments(call, "matches")?;
        Ok(CowVal::owned(CelBool::from(regex.is_match(text))))
    });
    context.add_function("@matches", matches)?;

    let find: Native = Box::new(move |call| {
        let (text, regex) = find.arguments(call, "find")?;
        let found = regex.find(text).map_or("", |found| found.as_str());
        Ok(CowVal::owned(CelString::from(found.to_owned())))
    });
    context.add_function("@find", find)?;

    let find_all: Native = Box::new(move |call| {
        let (text, regex) = find_all.arguments(call, "findAll")?;
        // A negative limit is none.
        let limit = match call.args.get(2).map(|limit| limit.downcast_ref::<CelInt>()) {
            None => usize::MAX,
            Some(Some(limit)) => usize::try_from(*limit.inner()).unwrap_or(usize::MAX),
            Some(None) => return Err(no_overload(call, "findAll")),
        };
        let found: Vec<Box<dyn Val>> = regex
            .find_iter(text)
            .take(limit.min(MAX_PARTS + 1))
            .map(|found| Box::new(CelString::from(found.as_str().to_owned())) as Box<dyn Val>)
            .collect();
        if found.len() > MAX_PARTS {
            return Err(ExecutionError::function_error(
                "findAll",
                "too many matches",
            ));
        }
        Ok(CowVal::owned(CelList::from(found)))
    });
    context.add_function("@findAll", find_all)
}

#[derive(Clone)]
struct Search {
    patterns: Arc<Patterns>,
    meter: Arc<Meter>,
}

impl Search {
    fn arguments<'a>(
        &self,
        call: &'a FunctionContext<'_, '_>,
        name: &str,
    ) -> Result<(&'a str, Regex), ExecutionError> {
        let text = |index: usize| {
            let value = call.args.get(index)?.downcast_ref::<CelString>()?;
            Some(value.inner())
        };
        match (text(0), text(1)) {
            (Some(text), Some(pattern)) => {
                self.meter.charge(text.len() as u64 / 8)?;
                Ok((text, self.patterns.get(pattern, &self.meter)?))
            }
            _ => Err(no_overload(call, name)),
        }
    }
}

fn no_overload(call: &FunctionContext<'_, '_>, name: &str) -> ExecutionError {
    let types = call.args.iter();
    let types = types.map(|argument| argument.get_type().name().to_owned());
    ExecutionError::no_such_overload(name, types.collect())
}
