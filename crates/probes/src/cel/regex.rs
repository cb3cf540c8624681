//! Regular expressions of rules: `matches`, and `find` and `findAll` of the Kubernetes library.
//!
//! Constant patterns are compiled with the rule, as upstream, so that an invalid one is found
//! before the rule runs. They are charged for once in a pass, even if they have to be compiled
//! again. Other patterns are compiled and charged for each time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::common::types::{CelBool, CelString};
use cel::common::value::CowVal;
use cel::{Context, DeclarationError, ExecutionError};
use regex_automata::meta::Cache;

use crate::cel::arguments::{Value, limit, string_list, text, types};
use crate::cel::error::RegexError;
use crate::cel::meter::{Meter, add};
use crate::cel::programs::{self, Program, SIZE_LIMIT, compile_cost};
use crate::cel::strings::MAX_PARTS;

/// The constant patterns of a rule, with their compiled sizes.
#[derive(Clone, Debug, Default)]
pub struct Patterns(BTreeMap<String, usize>);

impl Patterns {
    pub fn add(&mut self, pattern: &str) -> Result<(), RegexError> {
        if !self.0.contains_key(pattern) {
            let program = programs::constant(pattern, SIZE_LIMIT - self.size())?;
            self.0.insert(pattern.to_owned(), program.size());
        }
        Ok(())
    }

    /// Size of all compiled patterns.
    pub fn size(&self) -> usize {
        self.0.values().sum()
    }
}

/// The patterns of one evaluation.
#[derive(Debug)]
pub struct Searches {
    constant: Arc<Patterns>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The constant patterns that are charged for, in this evaluation or before.
    programs: HashMap<String, Arc<Program>>,
    /// The states that searches have computed for these patterns.
    caches: HashMap<String, Cache>,
}

impl Searches {
    /// Prepares an evaluation in which the cost of `programs` is not charged again.
    pub fn new(constant: &Arc<Patterns>, programs: HashMap<String, Arc<Program>>) -> Self {
        let caches = HashMap::new();
        Self {
            constant: Arc::clone(constant),
            state: Mutex::new(State { programs, caches }),
        }
    }

    /// Returns the programs that are charged for by now.
    pub fn take_programs(&self) -> HashMap<String, Arc<Program>> {
        std::mem::take(&mut self.state().programs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a search with the program of a pattern. The cost of the program is charged here, and
    /// that of the search by the caller.
    fn run<T>(
        &self,
        pattern: &str,
        meter: &Meter,
        search: impl FnOnce(&Program, &mut Cache) -> Result<T, ExecutionError>,
    ) -> Result<T, ExecutionError> {
        // The pattern may be a value of the object, so the error must not contain it.
        let invalid = |error: RegexError| {
            let cause = format!("invalid regular expression: {}", error.cause);
            ExecutionError::function_error("matches", cause)
        };
        let Some(size) = self.constant.0.get(pattern) else {
            meter.charge(compile_cost(0) + pattern.len() as u64)?;
            let program = Program::compile(pattern, SIZE_LIMIT);
            let size = program.as_ref().map_or(SIZE_LIMIT, Program::size);
            meter.charge(compile_cost(size))?;
            let program = program.map_err(invalid)?;
            return search(&program, &mut program.cache());
        };
        let mut state = self.state();
        let State { programs, caches } = &mut *state;
        let program = if let Some(program) = programs.get(pattern) {
            Arc::clone(program)
        } else {
            meter.charge(compile_cost(*size))?;
            let program = programs::constant(pattern, SIZE_LIMIT).map_err(invalid)?;
            programs.insert(pattern.to_owned(), Arc::clone(&program));
            program
        };
        if !caches.contains_key(pattern) {
            caches.insert(pattern.to_owned(), program.cache());
        }
        match caches.get_mut(pattern) {
            Some(cache) => search(&program, cache),
            None => search(&program, &mut program.cache()),
        }
    }
}

/// The constant pattern of a call, if it has one.
pub fn constant_pattern(node: &IdedExpr) -> Option<&str> {
    let Expr::Call(call) = &node.expr else {
        return None;
    };
    if !has_pattern(&call.func_name) {
        return None;
    }
    let pattern = match &call.target {
        Some(_) => call.args.first(),
        None => call.args.get(1),
    };
    match &pattern?.expr {
        Expr::Literal(LiteralValue::String(pattern)) => Some(pattern.inner()),
        _ => None,
    }
}

pub fn has_pattern(function: &str) -> bool {
    matches!(function, "matches" | "find" | "findAll")
}

/// Adds the functions with an `@` before their names, and with the receiver as the first argument.
pub fn install(
    context: &mut Context<'_, '_>,
    searches: &Arc<Searches>,
    meter: &Arc<Meter>,
) -> Result<(), DeclarationError> {
    let functions: [(&str, Search); 3] = [
        ("matches", |program, cache, text, _, _| {
            Ok(CowVal::owned(CelBool::from(program.is_match(cache, text))))
        }),
        ("find", |program, cache, text, _, _| {
            let found = program.find(cache, text).unwrap_or_default();
            Ok(CowVal::owned(CelString::from(found.to_owned())))
        }),
        ("findAll", find_all),
    ];
    functions.into_iter().try_for_each(|(name, search)| {
        let (searches, meter) = (Arc::clone(searches), Arc::clone(meter));
        add(context, &format!("@{name}"), move |call| {
            let no_overload = || ExecutionError::no_such_overload(name, types(&call.args));
            let (Some(text), Some(pattern)) = (text(&call.args, 0), text(&call.args, 1)) else {
                return Err(no_overload());
            };
            let limit = limit(&call.args, 2).ok_or_else(no_overload)?;
            searches.run(pattern, &meter, |program, cache| {
                meter.charge(program.search_cost(text.len()))?;
                search(program, cache, text, limit, &meter)
            })
        })
    })
}

/// The arguments are the program, its cache, the text, the limit of results, and the meter for
/// further searches.
type Search = fn(&Program, &mut Cache, &str, usize, &Meter) -> Value<'static, 'static>;

fn find_all(
    program: &Program,
    cache: &mut Cache,
    text: &str,
    limit: usize,
    meter: &Meter,
) -> Value<'static, 'static> {
    let mut found = Vec::new();
    // The search ends early if enough results are found, or if an error occurs.
    let ended = program.find_all(cache, text, |part, rest| {
        if found.len() >= limit {
            return Err(Ok(()));
        }
        found.push(part);
        if found.len() > MAX_PARTS {
            let message = "too many matches";
            return Err(Err(ExecutionError::function_error("findAll", message)));
        }
        meter.charge(program.look_ahead_cost(rest)).map_err(Err)
    });
    ended.or_else(|ended| ended)?;
    Ok(CowVal::owned(string_list(found)))
}

#[cfg(test)]
mod tests {
    use cel::Env;
    use serde_json::json;

    use super::*;
    use crate::cel::testing::{check, hold, verdict};

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
            // empty matches, as in Go
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
                "refused: invalid regular expression \"a{1000}{1000}\": larger than 1048576 bytes \
                 when compiled, all patterns of a rule together",
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

    const TOO_EXPENSIVE: &str = "error: the rule is too expensive for this object";

    #[test]
    fn searches_cost_pattern_times_text() {
        let object = json!({
            "long": "a".repeat(500_000),
            "short": "a".repeat(2_000),
            "digits": "1 ".repeat(50_000),
            "pattern": "a[ab]{3000}c",
        });
        for (rule, expected) in [
            ("!self.long.matches('a[ab]{3000}c')", TOO_EXPENSIVE),
            ("self.long.find('a[ab]{3000}c') == ''", TOO_EXPENSIVE),
            ("self.long.findAll('a[ab]{3000}c') == []", TOO_EXPENSIVE),
            ("!self.long.matches(self.pattern)", TOO_EXPENSIVE),
            ("!self.short.matches('a[ab]{3000}c')", "true"),
            ("self.long.matches('^a+$')", "true"),
            // Each search may read the whole text before it finds its match.
            (
                "self.digits.findAll('.*[^0-9 ]|[0-9]').size() > 0",
                TOO_EXPENSIVE,
            ),
            ("self.digits.findAll('[0-9]').size() == 50000", "true"),
        ] {
            assert_eq!(verdict(rule, &object), expected, "{rule}");
        }
    }

    #[test]
    fn the_patterns_of_a_rule_are_limited_together() {
        let wide = |number: usize| {
            let calls = (0..number).map(|i| format!(r"self.a.matches('\\w{{2}}x{i}')"));
            calls.collect::<Vec<_>>().join(" || ")
        };
        let object = json!({"a": "--"});
        assert_eq!(verdict(&wide(5), &object), "false");
        let refused = verdict(&wide(100), &object);
        assert!(refused.contains("larger than 1048576 bytes"), "{refused}");
        // Equal patterns are compiled once.
        let same = vec![r"self.a.matches('\\w{2}x')"; 200].join(" || ");
        assert_eq!(verdict(&same, &object), "false");
    }

    #[test]
    fn long_patterns_of_objects_are_refused() {
        let object = json!({"text": "a", "pattern": "a".repeat(500_000)});
        assert_eq!(
            verdict("self.text.matches(self.pattern)", &object),
            "error: invalid regular expression: longer than 8192 bytes"
        );
    }
}
