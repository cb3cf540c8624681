//! Rewrites a rule so that its evaluation is bounded.
//!
//! The operands whose size determines the time of an operation, and the ranges of all macros, are
//! wrapped in calls that charge a [`Meter`](crate::cel::meter::Meter). All other operations cost
//! the same for every value.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use crate::cel::ast::count;
use crate::cel::builtins::{EACH, HAS, IN, LIVE, USE, UTC};
use crate::cel::regex::has_pattern;

/// Wraps the parts of a rule that an evaluation is charged for.
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
                // These operators copy the value that they return.
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
    let target = call.target.iter_mut().map(AsMut::as_mut);
    let operands = target.chain(&mut call.args);
    operands.for_each(if by_value { pay } else { instrument });
    if call.func_name == operators::IN {
        IN.clone_into(&mut call.func_name);
    }
    if has_pattern(&call.func_name) {
        call.func_name.insert(0, '@');
        let target = call.target.take().map(|target| *target);
        call.args.splice(0..0, target);
    }
}

fn instrument_loop(loops: &mut ComprehensionExpr) {
    let per_round = 1 + count(&loops.loop_cond) + count(&loops.loop_step);
    instrument(&mut loops.iter_range);
    instrument(&mut loops.loop_step);
    instrument(&mut loops.result);
    // `all` and `exists` continue after errors, also if the budget is spent. The other macros do
    // not; the evaluator recognises them by a condition that is a literal.
    if !matches!(loops.loop_cond.expr, Expr::Literal(_)) {
        wrap(&mut loops.loop_cond, LIVE);
    }
    let range = std::mem::take(&mut loops.iter_range);
    let per_round = literal(LiteralValue::Int(per_round.into()));
    loops.iter_range = call(EACH, vec![range, per_round]);
}

/// Instruments an operand and charges for its value, unless its size is fixed or it was charged for
/// when it was made.
fn pay(node: &mut IdedExpr) {
    instrument(node);
    let paid = match &node.expr {
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) | Expr::Comprehension(_) => true,
        // This is the accumulator of a macro: only the macro's own step uses it, and the evaluator
        // recognises that step by its form.
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
    let (func_name, target) = (name.to_owned(), None);
    let expr = Expr::Call(CallExpr {
        func_name,
        target,
        args,
    });
    IdedExpr { id: 0, expr }
}

fn literal(value: LiteralValue) -> IdedExpr {
    let expr = Expr::Literal(value);
    IdedExpr { id: 0, expr }
}

#[cfg(test)]
mod tests {
    use cel::Env;
    use serde_json::{Value, json};

    use super::*;
    use crate::cel::testing::verdict;

    const TOO_EXPENSIVE: &str = "error: the rule is too expensive for this object";

    /// Items like those in the status of a large object.
    fn items(number: usize) -> Vec<Value> {
        (0..number)
            .map(|i| json!({"name": format!("item-{i}"), "labels": {"app": "web"}, "ready": true}))
            .collect()
    }

    #[test]
    fn realistic_rules_stay_within_the_budget() {
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
    fn rules_that_need_too_much_time_or_memory_fail() {
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

    /// The evaluator appends in place if it recognises the steps of `map` and `filter`, and lets a
    /// later item decide if it recognises those of `all` and `exists`.
    #[test]
    fn instrumented_macros_keep_the_shape_of_their_steps() {
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
