//! Any text as a rule: it is refused, or ends within its cost, with the same result each time.

use crate::budget::Budget;
use crate::cel::error::{EvaluationError, RuleError};
use crate::cel::testing::{object, quotes, with_unique_values};
use crate::cel::{MAX_RULE, Rule};

/// Separates a rule from an object that replaces that of the tests.
const SEPARATOR: &str = "\n---\n";
/// Greatest length of an error about a rule, in bytes: types are shown in full, and may be nested
/// as deeply as the rule.
const LONGEST_ERROR: usize = 2 * MAX_RULE;

#[test]
fn rules_stay_within_their_limits_and_declared_types() {
    bolero::check!(name = "cel")
        .with_iterations(300)
        .for_each(|input: &[u8]| {
            if let Ok(text) = str::from_utf8(input) {
                check(text);
            }
        });
}

fn check(text: &str) {
    let (text, object) = match text.split_once(SEPARATOR) {
        Some((rule, object)) => (rule, serde_json::from_str(object).ok()),
        None => (text, None),
    };
    let object = object.unwrap_or_else(self::object);
    let rule = match Rule::compile(text) {
        Ok(rule) => rule,
        Err(error) => {
            assert!(!matches!(error, RuleError::Aborted(_)), "{error}");
            assert!(error.to_string().len() <= LONGEST_ERROR, "{error}");
            return;
        }
    };
    let run = |rule: &Rule, units: u64, object| {
        let mut budget = Budget::new(units);
        let result = rule.evaluate_within(&mut budget, object);
        if let Err(error) = &result {
            assert!(!matches!(error, EvaluationError::Aborted(_)), "{error}");
            assert!(error.to_string().len() <= LONGEST_ERROR, "{error}");
        }
        (result, units - budget.left())
    };
    let all = Budget::default().left();
    let (result, spent) = run(&rule, all, &object);
    assert_eq!(
        run(&rule, all, &object),
        (result.clone(), spent),
        "the same each time"
    );
    if result != Err(EvaluationError::TooExpensive) {
        assert_eq!(
            run(&rule, spent, &object).0,
            result,
            "it costs what it has spent"
        );
    }
    let less = run(&rule, spent / 2, &object).0;
    assert!(
        less == result || less == Err(EvaluationError::PassTooExpensive),
        "{less:?}, with all it may spend {result:?}"
    );
    negated(text, &result, |rule| run(rule, all, &object).0);
    // A condition must not quote values of the object, unless the rule contains them.
    if !quotes(text)
        && let (Err(error), _) = run(&rule, all, &with_unique_values(&object))
    {
        assert!(!quotes(&error.to_string()), "{error}");
    }
}

/// The negation of a rule is a rule with the opposite result.
fn negated(
    text: &str,
    result: &Result<bool, EvaluationError>,
    run: impl FnOnce(&Rule) -> Result<bool, EvaluationError>,
) {
    // The rule may end with a comment.
    match Rule::compile(&format!("!({text}\n)")) {
        Ok(rule) => match (result, run(&rule)) {
            (_, Err(EvaluationError::TooExpensive)) => {}
            (Ok(value), opposite) => assert_eq!(opposite, Ok(!value)),
            (Err(_), opposite) => assert!(opposite.is_err(), "{opposite:?}"),
        },
        Err(error) => assert!(
            matches!(error, RuleError::TooLong | RuleError::TooDeep),
            "{error}"
        ),
    }
}
