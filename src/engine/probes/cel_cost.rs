//! Keeps the evaluation of a rule bounded: the evaluator has no limits of its own.
//!
//! A rule is prepared once: the operands whose size decides how long an operation takes, and
//! the ranges of all macros, are wrapped in calls that charge a [`Meter`]. What is not wrapped
//! costs the same for every value. A rule that spends its budget fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use cel::common::types::{
    CelBool, CelBytes, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString, CelTimestamp,
};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use super::cel_ast::count;
use super::cel_regex;

/// Budget of one evaluation: about a tenth of a second, the bound Kubernetes sets for its own.
const BUDGET: u64 = 1_000_000;

/// Returns its argument after charging for its size.
const USE: &str = "@use";
/// Returns a range after charging for the rounds of the macro that loops over it.
const EACH: &str = "@each";
/// Returns its argument while there is budget left: ends loops that forgive errors.
const LIVE: &str = "@live";
/// Brings a timestamp to UTC: its getters show UTC upstream, whatever zone its text was in.
const UTC: &str = "@utc";
/// `has()`, which upstream answers with false for scalars and null.
const HAS: &str = "@has";
/// `in`, which upstream answers with false for what cannot be a key of a map.
const IN: &str = "@member";

/// What an evaluation has spent.
#[derive(Debug, Default)]
pub struct Meter {
    spent: AtomicU64,
}

impl Meter {
    /// Takes units from the budget.
    ///
    /// # Errors
    /// The budget is spent. Macros and logical operators may swallow the error, so the caller
    /// of the evaluation asks [`Self::exhausted`] as well.
    pub fn charge(&self, units: u64) -> Result<(), ExecutionError> {
        let before = self.spent.load(Ordering::Relaxed);
        let spent = before.saturating_add(units);
        self.spent.store(spent, Ordering::Relaxed);
        self.check()
    }

    fn check(&self) -> Result<(), ExecutionError> {
        if self.exhausted() {
            Err(ExecutionError::function_error("cost", EXHAUSTED))
        } else {
            Ok(())
        }
    }

    /// Whether the rule wanted more than its budget.
    pub fn exhausted(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > BUDGET
    }
}

/// What users read about a rule that spent its budget.
pub const EXHAUSTED: &str = "the rule is too expensive for this object";

/// A function of the evaluator that may hand back one of its arguments.
pub type Native = Box<
    dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError>
        + Send
        + Sync,
>;

/// Adds the functions that [`instrument`] calls.
///
/// # Errors
/// A name is taken, which the names' `@` rules out.
pub fn install(context: &mut Context<'_, '_>, meter: &Arc<Meter>) -> Result<(), DeclarationError> {
    let charged = Arc::clone(meter);
    let charge_use: Native = Box::new(move |call| {
        let [value] = arguments(call)?;
        // Weighing takes time itself.
        charged.check()?;
        charged.charge(weight(&*value))?;
        Ok(value)
    });
    context.add_function(USE, charge_use)?;

    let charged = Arc::clone(meter);
    let charge_each: Native = Box::new(move |call| {
        let [range, body] = arguments(call)?;
        charged.check()?;
        let per_round = body
            .downcast_ref::<CelInt>()
            .map_or(1, |cost| cost.inner().unsigned_abs());
        let rounds = range
            .as_sizer()
            .map_or(0, |sizer| sizer.size().inner().unsigned_abs());
        charged.charge(rounds.saturating_mul(per_round))?;
        charged.charge(weight(&*range))?;
        Ok(sorted_keys(&*range).unwrap_or(range))
    });
    context.add_function(EACH, charge_each)?;

    let charged = Arc::clone(meter);
    let live: Native = Box::new(move |call| {
        let [value] = arguments(call)?;
        charged.check().map(|()| value)
    });
    context.add_function(LIVE, live)?;

    let utc: Native = Box::new(|call| {
        let [value] = arguments(call)?;
        let timestamp = value.downcast_ref::<CelTimestamp>();
        let utc = timestamp.map(|timestamp| timestamp.inner().to_utc().fixed_offset());
        Ok(utc.map_or(value, |utc| CowVal::owned(CelTimestamp::from(utc))))
    });
    context.add_function(UTC, utc)?;

    let has: Native = Box::new(|call| {
        let [operand, field] = arguments(call)?;
        has_field(&*operand, &*field).map(|found| CowVal::owned(CelBool::from(found)))
    });
    context.add_function(HAS, has)?;

    let member: Native = Box::new(|call| {
        let [item, container] = arguments(call)?;
        let found = match container.as_container().map(|all| all.contains(&*item)) {
            Some(Ok(found)) => found,
            Some(Err(ExecutionError::UnsupportedKeyType(_))) => false,
            Some(Err(error)) => return Err(error),
            None => {
                let operands = [&item, &container];
                let types = operands.map(|operand| operand.get_type().name().to_owned());
                return Err(ExecutionError::no_such_overload("in", types.to_vec()));
            }
        };
        Ok(CowVal::owned(CelBool::from(found)))
    });
    context.add_function(IN, member)
}

/// The arguments, moved out: cloning one that the call owns would copy all of it.
fn arguments<'c, 'v, const N: usize>(
    call: &mut FunctionContext<'c, 'v>,
) -> Result<[CowVal<'c, 'v>; N], ExecutionError> {
    std::mem::take(&mut call.args)
        .try_into()
        .map_err(|all: Vec<_>| ExecutionError::invalid_argument_count(N, all.len()))
}

/// What a loop over a map sees, in an order that is the same each time: which of several errors
/// a rule ends with depends on it, and a message that changes makes a status that changes.
fn sorted_keys<'b, 'v>(range: &(dyn Val + 'v)) -> Option<CowVal<'b, 'v>> {
    let mut keys: Vec<&CelMapKey<'v>> = range.downcast_ref::<CelMap>()?.inner().keys().collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> = keys
        .into_iter()
        .map(|key| key.inner().clone_as_boxed())
        .collect();
    Some(CowVal::owned(CelList::from(keys)))
}

fn has_field(operand: &dyn Val, field: &dyn Val) -> Result<bool, ExecutionError> {
    if let Some(optional) = operand.downcast_ref::<CelOptional>() {
        return optional
            .inner()
            .map_or(Ok(false), |value| has_field(value, field));
    }
    match operand.as_indexer().map(|indexer| indexer.get(field)) {
        None | Some(Err(ExecutionError::NoSuchKey(_))) => Ok(false),
        Some(Ok(_)) => Ok(true),
        Some(Err(_)) => Err(ExecutionError::no_such_overload(
            "has",
            vec![operand.get_type().name().to_owned()],
        )),
    }
}

/// What it costs to copy, compare or walk a value.
fn weight(value: &dyn Val) -> u64 {
    const NODE: u64 = 2;
    let bytes = |len: usize| NODE + (len / 16) as u64;
    if let Some(text) = value.downcast_ref::<CelString>() {
        bytes(text.inner().len())
    } else if let Some(data) = value.downcast_ref::<CelBytes>() {
        bytes(data.inner().len())
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().iter().map(|item| weight(&**item)).sum::<u64>() + NODE
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        map.inner()
            .iter()
            .map(|(key, value)| weight(key.inner()) + weight(&**value))
            .sum::<u64>()
            + NODE
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        optional.inner().map_or(0, weight) + NODE
    } else {
        NODE
    }
}

/// Wraps what an evaluation pays for.
pub fn instrument(node: &mut IdedExpr) {
    match &mut node.expr {
        // The checker refuses messages.
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
        Expr::Select(select) => {
            instrument(&mut select.operand);
            if select.test {
                let operand = std::mem::take(&mut *select.operand);
                let field = literal(LiteralValue::String(select.field.clone().into()));
                *node = call(HAS, vec![operand, field]);
            }
        }
        Expr::Call(call) => {
            instrument_call(call);
            match call.func_name.as_str() {
                // These copy what they find.
                operators::OPT_SELECT | operators::OPT_INDEX => wrap(node, USE),
                "timestamp" => wrap(node, UTC),
                _ => {}
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(pay),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    pay(&mut entry.key);
                    pay(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(loops) => instrument_loop(loops),
    }
}

fn instrument_call(call: &mut CallExpr) {
    let by_value = !matches!(
        call.func_name.as_str(),
        operators::CONDITIONAL
            | operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE
            | operators::INDEX
            | operators::OPT_INDEX
            | operators::OPT_SELECT
    );
    let operands = call
        .target
        .iter_mut()
        .map(AsMut::as_mut)
        .chain(&mut call.args);
    operands.for_each(if by_value { pay } else { instrument });
    if call.func_name == operators::IN {
        IN.clone_into(&mut call.func_name);
    }
    if let Some(name) = cel_regex::metered_name(&call.func_name) {
        name.clone_into(&mut call.func_name);
        call.args
            .splice(0..0, call.target.take().map(|target| *target));
    }
}

fn instrument_loop(loops: &mut ComprehensionExpr) {
    let per_round = 1 + count(&loops.loop_cond) + count(&loops.loop_step);
    instrument(&mut loops.iter_range);
    instrument(&mut loops.loop_step);
    instrument(&mut loops.result);
    // `all` and `exists` go on after errors, also after one that says the budget is spent. The
    // other macros do not; their condition is a literal, by which the evaluator knows them.
    if !matches!(loops.loop_cond.expr, Expr::Literal(_)) {
        wrap(&mut loops.loop_cond, LIVE);
    }
    let range = std::mem::take(&mut loops.iter_range);
    loops.iter_range = call(
        EACH,
        vec![range, literal(LiteralValue::Int(per_round.into()))],
    );
}

/// Instruments an operand and charges for its value, unless its size is fixed or was paid for
/// when it was made.
fn pay(node: &mut IdedExpr) {
    instrument(node);
    let paid = match &node.expr {
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Comprehension(_) => true,
        // The accumulator of a macro: only the macro's own step touches it, and the evaluator
        // recognises that step by its shape.
        Expr::Ident(name) => name.starts_with('@'),
        Expr::Call(call) => matches!(
            call.func_name.as_str(),
            USE | UTC | HAS | IN | "size" | "type" | operators::EQUALS | operators::NOT_EQUALS
        ),
        _ => false,
    };
    if !paid {
        wrap(node, USE);
    }
}

fn wrap(node: &mut IdedExpr, function: &str) {
    let value = std::mem::take(node);
    *node = call(function, vec![value]);
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }),
    }
}

fn literal(value: LiteralValue) -> IdedExpr {
    IdedExpr {
        id: 0,
        expr: Expr::Literal(value),
    }
}

#[cfg(test)]
mod tests {
    use cel::Env;
    use serde_json::{Value, json};

    use super::super::testing::{check, hold, verdict};
    use super::*;

    const TOO_EXPENSIVE: &str = "error: the rule is too expensive for this object";

    /// Items like those in the status of a large object.
    fn items(number: usize) -> Vec<Value> {
        (0..number)
            .map(|i| json!({"name": format!("item-{i}"), "labels": {"app": "web"}, "ready": true}))
            .collect()
    }

    #[test]
    fn what_real_rules_do_is_affordable() {
        let object =
            json!({"items": items(5_000), "few": items(150), "text": "a".repeat(1_000_000)});
        for rule in [
            "self.items.all(i, i.ready && i.name.startsWith('item-'))",
            "self.items.filter(i, i.ready).map(i, i.name).size() == 5000",
            "self.items.exists_one(i, i.name == 'item-7')",
            "self.few.all(a, self.few.exists_one(b, a.name == b.name))",
            "self.items == self.items && self.items[7] in self.items",
            "self.text.contains('b') || self.text.matches('^a+$')",
            "(self.text + self.text).size() == 2000000",
        ] {
            assert_eq!(verdict(rule, &object), "true", "{rule}");
        }
    }

    #[test]
    fn what_would_take_too_long_or_too_much_memory_fails() {
        let object = json!({"items": items(500), "text": "a".repeat(1_000_000)});
        let digits = "[1,2,3,4,5,6,7,8,9]";
        let nested = |depth: usize| {
            let open = format!("{digits}.all(x,").repeat(depth);
            format!("{open}true{}", ")".repeat(depth))
        };
        let doubled = |start: &str, step: &str, times: usize| {
            format!(
                "[{start}]{}.size() > 0",
                format!(".map(x,{step})").repeat(times)
            )
        };
        for rule in [
            // time
            nested(8),
            "self.items.all(a, self.items.exists(b, a.name == b.name))".to_owned(),
            "self.items.all(a, !self.text.contains('b'))".to_owned(),
            "self.items.all(a, self.items == self.items)".to_owned(),
            "self.items.all(a, a in self.items)".to_owned(),
            "self.items.all(a, self.text.matches('^a+$'))".to_owned(),
            "self.items.all(a, self.?items.hasValue())".to_owned(),
            "self.items.all(a, size(self.text + 'b') > 0)".to_owned(),
            // memory
            doubled("self.items", "[x, x]", 30),
            doubled("self.items", "x + x", 30),
            doubled("self.items", "{'a': x, 'b': x}", 30),
            doubled("self.text", "x + x", 30),
            doubled("self.text.substring(0, 1000)", "x.replace('a', x)", 30),
            doubled("self.text.substring(0, 300000)", "[x, x, x].join()", 30),
            "self.items.map(a, self.items.map(b, self.items.map(c, [a, b, c]))).size() > 0"
                .to_owned(),
        ] {
            let verdict = verdict(&rule, &object);
            assert!(
                verdict == TOO_EXPENSIVE || verdict == "error: result too large",
                "{rule}: {verdict}"
            );
        }
        assert_eq!(verdict(&nested(5), &object), "true");
    }

    #[test]
    fn a_spent_budget_is_an_error_even_where_errors_are_swallowed() {
        let object = json!({"items": items(500)});
        let expensive = "self.items.all(a, self.items.exists(b, a.name == b.name))";
        for rule in [
            format!("{expensive} || true"),
            format!("[1, 2].exists(x, x == 2 || {expensive})"),
            format!("!(false && {expensive} && false) && !({expensive} && false)"),
        ] {
            assert_eq!(verdict(&rule, &object), TOO_EXPENSIVE, "{rule}");
        }
        assert_eq!(
            verdict(&format!("true || {expensive}"), &object),
            "true",
            "what is not evaluated is not charged"
        );
    }

    #[test]
    fn the_meter_remembers_what_was_wanted() {
        let meter = Meter::default();
        assert!(meter.charge(BUDGET).is_ok());
        assert!(!meter.exhausted());
        assert!(meter.charge(1).is_err());
        assert!(meter.exhausted());

        let meter = Meter::default();
        assert!(meter.charge(u64::MAX).is_err());
        assert!(meter.charge(u64::MAX).is_err());
        assert!(meter.exhausted(), "no overflow brings the budget back");
    }

    #[test]
    fn weights_grow_with_the_value() {
        let text = |len: usize| Box::new(CelString::from("a".repeat(len))) as Box<dyn Val>;
        let list = |items: Vec<Box<dyn Val>>| Box::new(CelList::from(items)) as Box<dyn Val>;
        for (value, expected) in [
            (Box::new(CelInt::from(1)) as Box<dyn Val>, 2),
            (text(0), 2),
            (text(15), 2),
            (text(1600), 102),
            (Box::new(CelBytes::from(vec![0; 1600])), 102),
            (list(vec![]), 2),
            (list(vec![text(0), text(16)]), 7),
            (list(vec![list(vec![text(0)])]), 6),
            (Box::new(CelOptional::of(text(16))), 5),
            (Box::new(CelOptional::none()), 2),
        ] {
            assert_eq!(weight(&*value), expected, "{value:?}");
        }
    }

    #[test]
    fn has_is_false_for_what_has_no_fields() {
        hold(&[
            "has(self.spec.paused) && !has(self.spec.other) && has(self.spec.none)",
            "!has(self.spec.replicas.x) && !has(self.spec.none.x) && !has(self.spec.image.x)",
            "has({'a': 1}.a) && !has({'a': 1}.b)",
            "has(self.?spec.paused) && !has(self.?other.paused) && !has(self.?spec.other)",
            "self.spec.items.exists_one(i, !has(i.value))",
        ]);
        check(&[
            ("has(self.other.field)", "error: no such key: other"),
            ("has(self.spec.other.field)", "error: no such key: other"),
            (
                "has(self.spec.items.name)",
                "error: no such overload: has(list)",
            ),
        ]);
    }

    #[test]
    fn nothing_but_keys_is_in_a_map() {
        hold(&[
            "'name' in self.metadata && !('other' in self.metadata)",
            "!(self.spec.none in self.metadata) && !(self.spec.items in self.metadata)",
            "!(1 in self.metadata) && 1 in {1: 'a'} && 1.0 in {dyn(1): 'a'}",
            "'b' in self.spec.words && 1 in self.spec.numbers && 1.0 in self.spec.numbers",
            "!(null in self.spec.numbers) && {'name': 'c'} in self.spec.items",
        ]);
        check(&[
            (
                "'x' in self.spec.none",
                "error: no such overload: in(string, null_type)",
            ),
            (
                "'x' in self.spec.image",
                "error: no such overload: in(string, string)",
            ),
        ]);
    }

    #[test]
    fn loops_over_maps_have_an_order() {
        let keys: Vec<String> = (0..26)
            .map(|i| format!("'{}'", char::from(b'a' + i)))
            .collect();
        let object: Value = (b'a'..=b'z')
            .rev()
            .map(|key| {
                (
                    char::from(key).to_string(),
                    json!({char::from(key).to_string(): 1}),
                )
            })
            .collect();
        let rule = format!("self.map(k, k) == [{}]", keys.join(", "));
        assert_eq!(verdict(&rule, &object), "true");
        // each key fails in its own way, and the last error is the one that stays
        assert_eq!(
            verdict(
                "self.all(k, self[k].missing == 1 || self[k + k] == 1)",
                &object
            ),
            "error: no such key: zz"
        );
        hold(&["{3: 'c', 1: 'a', 2: 'b'}.map(k, k) == [1, 2, 3]"]);
    }

    #[test]
    fn timestamps_are_shown_in_utc() {
        hold(&[
            "timestamp('2024-01-01T23:30:00-02:00').getDate() == 2",
            "timestamp('2024-01-01T23:30:00-02:00').getHours() == 1",
            "timestamp('2024-01-01T00:30:00+02:00').getFullYear() == 2023",
            "timestamp('2024-01-01T23:30:00-02:00') == timestamp('2024-01-02T01:30:00Z')",
            "(timestamp('2024-01-01T23:30:00-02:00') + duration('1h')).getHours() == 2",
            "timestamp('2024-01-01T23:30:00Z').getHours('Europe/Berlin') == 0",
            "timestamp('2024-01-01T23:30:00Z').getHours('-02:00') == 21",
            "timestamp(self.metadata.creationTimestamp).getMinutes() == 4",
        ]);
    }

    /// The evaluator appends in place where it recognises the steps of `map` and `filter`, and
    /// lets a later item decide where it recognises those of `all` and `exists`.
    #[test]
    fn the_steps_of_macros_keep_their_shape() {
        for (rule, accumulated) in [
            ("self.l.map(x, x.a)", "_+_"),
            ("self.l.filter(x, x.a)", "_?_:_"),
            ("self.l.map(x, x.b, x.a)", "_?_:_"),
            ("self.l.all(x, x.a)", "_&&_"),
            ("self.l.exists(x, x.a)", "_||_"),
        ] {
            let mut rule = Env::stdlib().parser().parse(rule).unwrap();
            instrument(&mut rule);
            let Expr::Comprehension(loops) = rule.expr else {
                panic!("{rule:?}");
            };
            let Expr::Call(step) = &loops.loop_step.expr else {
                panic!("{loops:?}");
            };
            assert_eq!(step.func_name, accumulated);
            let append = if accumulated == "_?_:_" {
                match &step.args[1].expr {
                    Expr::Call(append) => append,
                    other => panic!("{other:?}"),
                }
            } else {
                step
            };
            assert!(matches!(&append.args[0].expr, Expr::Ident(name) if name == "@result"));
            if append.func_name == "_+_" {
                assert!(matches!(&append.args[1].expr, Expr::List(_)));
            }
        }
    }
}
