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
        // The pattern is a value of the object: it is not for everyone who reads the error.
        compile(pattern).map_err(|error| {
            let cause = format!("invalid regular expression: {}", error.cause);
            ExecutionError::function_error("matches", cause)
        })
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

#[cfg(test)]
mod tests {
    use cel::Env;
    use serde_json::json;

    use super::super::testing::{check, hold, verdict};
    use super::*;

    #[test]
    fn matches_anywhere_unless_anchored() {
        hold(&[
            "'foobar'.matches('o+b') && matches('foobar', 'o+b')",
            "!'foobar'.matches('^o+b') && 'foobar'.matches('^foo.*r$')",
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "self.spec.image.matches(':v[0-9]+[.][0-9]+$')",
            "''.matches('') && 'a\\nb'.matches('(?s)a.b') && !'a\\nb'.matches('a.b')",
            "'ABC'.matches('(?i)abc')",
        ]);
    }

    #[test]
    fn find_yields_the_first_match() {
        hold(&[
            "'abc 123'.find('[0-9]+') == '123' && 'abc 123'.find('xyz') == ''",
            "'abc 123'.find('[0-9]*') == ''",
            "self.spec.image.find('v[0-9]+') == 'v1'",
        ]);
    }

    #[test]
    fn find_all_takes_a_limit() {
        hold(&[
            "'123 abc 456'.findAll('[0-9]+') == ['123', '456']",
            "'123 abc 456'.findAll('[0-9]+', 1) == ['123']",
            "'123 abc 456'.findAll('[0-9]+', 0) == []",
            "'123 abc 456'.findAll('[0-9]+', -1).size() == 2",
            "'123 abc 456'.findAll('xyz') == []",
            // empty matches, as Go finds them
            "'abc'.findAll('') == ['', '', '', '']",
            "'baaac'.findAll('a*') == ['', 'aaa', '']",
        ]);
        check(&[(
            "'123'.findAll('1', self.spec.ratio) == []",
            "error: no such overload: findAll(string, string, double)",
        )]);
        let object = json!({"text": "a".repeat(MAX_PARTS + 1), "less": "a".repeat(MAX_PARTS)});
        for (rule, expected) in [
            ("self.less.findAll('a').size() == 100000", "true"),
            (
                "self.text.findAll('a').size() > 0",
                "error: too many matches",
            ),
            ("self.text.findAll('a', 5).size() == 5", "true"),
        ] {
            assert_eq!(verdict(rule, &object), expected, "{rule}");
        }
    }

    #[test]
    fn patterns_may_come_from_the_object() {
        let object = json!({"text": "abc", "pattern": "^a.c$", "bad": "[", "number": 1});
        for (rule, expected) in [
            ("self.text.matches(self.pattern)", "true"),
            ("matches(self.text, self.pattern)", "true"),
            ("self.text.find(self.pattern) == 'abc'", "true"),
            ("self.text.findAll(self.pattern) == ['abc']", "true"),
            ("['^b', 'c$'].exists(p, self.text.matches(p))", "true"),
            (
                "self.text.matches(self.bad)",
                "error: invalid regular expression: unclosed character class",
            ),
            (
                "self.text.find(self.bad) == ''",
                "error: invalid regular expression: unclosed character class",
            ),
            (
                "self.number.matches('1')",
                "error: no such overload: matches(int, string)",
            ),
            (
                "self.text.matches(self.number)",
                "error: no such overload: matches(string, int)",
            ),
        ] {
            assert_eq!(verdict(rule, &object), expected, "{rule}");
        }
    }

    #[test]
    fn bad_constant_patterns_are_found_early() {
        check(&[
            (
                "self.metadata.name.matches('[')",
                "refused: invalid regular expression \"[\": unclosed character class",
            ),
            (
                "matches(self.metadata.name, '(a')",
                "refused: invalid regular expression \"(a\": unclosed group",
            ),
            (
                "self.metadata.name.find('a**?+{') == ''",
                "refused: invalid regular expression \"a**?+{\": unclosed counted repetition",
            ),
            (
                "self.spec.words.all(w, w.findAll('(?<!a)b') == [])",
                "refused: invalid regular expression \"(?<!a)b\": look-around, including look-ahead \
                 and look-behind, is not supported",
            ),
            (
                "self.metadata.name.matches('a{1000}{1000}')",
                "refused: invalid regular expression \"a{1000}{1000}\": Compiled regex exceeds \
                 size limit of 1048576 bytes.",
            ),
        ]);
        let long = format!("self.a.matches('[{}')", "a".repeat(500));
        let refused = verdict(&long, &json!({}));
        assert!(refused.len() < 200, "{refused}");
    }

    #[test]
    fn constant_patterns_are_recognised() {
        for (rule, pattern) in [
            ("self.a.matches('x')", Some("x")),
            ("matches(self.a, 'x')", Some("x")),
            ("self.a.find('x')", Some("x")),
            ("self.a.findAll('x', 1)", Some("x")),
            ("self.a.matches(self.b)", None),
            ("matches('x', self.b)", None),
            ("self.a.contains('x')", None),
            ("self.matches", None),
            ("'x'", None),
        ] {
            let expression = Env::stdlib().parser().parse(rule).unwrap();
            assert_eq!(constant_pattern(&expression), pattern, "{rule}");
        }
    }

    #[test]
    fn patterns_that_are_compiled_each_time_cost_more() {
        let object = json!({
            "words": vec!["a"; 2_000],
            "pattern": "^a$",
        });
        assert_eq!(
            verdict("self.words.all(w, w.matches('^a$'))", &object),
            "true"
        );
        assert_eq!(
            verdict("self.words.all(w, w.matches(self.pattern))", &object),
            "error: the rule is too expensive for this object"
        );
    }
}
