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
    CelBool, CelBytes, CelInt, CelList, CelMap, CelOptional, CelString, CelTimestamp,
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
        let before = self.spent.fetch_add(units.min(BUDGET), Ordering::Relaxed);
        if before.saturating_add(units) > BUDGET {
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
        charged.charge(weight(&*value))?;
        Ok(value)
    });
    context.add_function(USE, charge_use)?;

    let charged = Arc::clone(meter);
    let charge_each: Native = Box::new(move |call| {
        let [range, body] = arguments(call)?;
        let per_round = body
            .downcast_ref::<CelInt>()
            .map_or(1, |cost| cost.inner().unsigned_abs());
        let rounds = range
            .as_sizer()
            .map_or(0, |sizer| sizer.size().inner().unsigned_abs());
        charged.charge(rounds.saturating_mul(per_round))?;
        charged.charge(weight(&*range))?;
        Ok(range)
    });
    context.add_function(EACH, charge_each)?;

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
