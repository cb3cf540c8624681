//! Functions that replace parts of a rule: some charge for a part, others have the result of
//! upstream.

use std::sync::Arc;

use cel::common::traits::Sizer;
use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelTimestamp};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use crate::cel::arguments::types;
use crate::cel::meter::{Meter, add, weight};

/// Returns its argument after charging for its size.
pub const USE: &str = "@use";
/// Returns a range after charging for the rounds of the macro that loops over it.
pub const EACH: &str = "@each";
/// Returns its argument while budget is left: ends loops that ignore errors.
pub const LIVE: &str = "@live";
/// Converts a timestamp to UTC: upstream, its getters return UTC for any time zone of its text.
pub const UTC: &str = "@utc";
/// `has()`, which is false upstream for scalars and null.
pub const HAS: &str = "@has";
/// `in`, which is false upstream for a value that cannot be a key of a map.
pub const IN: &str = "@member";

pub fn install(context: &mut Context<'_, '_>, meter: &Arc<Meter>) -> Result<(), DeclarationError> {
    let charged = Arc::clone(meter);
    add(context, USE, move |call| {
        let [value] = arguments(call)?;
        // Computing the weight takes time itself.
        charged.check()?;
        charged.charge(weight(&*value))?;
        Ok(value)
    })?;

    let charged = Arc::clone(meter);
    add(context, EACH, move |call| {
        let [range, body] = arguments(call)?;
        charged.check()?;
        let cost = body.downcast_ref::<CelInt>();
        let per_round = cost.map_or(1, |cost| cost.inner().unsigned_abs());
        let size = range.as_sizer().map(Sizer::size);
        let rounds = size.map_or(0, |size| size.inner().unsigned_abs());
        charged.charge(rounds.saturating_mul(per_round))?;
        charged.charge(weight(&*range))?;
        Ok(sorted_keys(&*range).unwrap_or(range))
    })?;

    let charged = Arc::clone(meter);
    add(context, LIVE, move |call| {
        let [value] = arguments(call)?;
        charged.check().map(|()| value)
    })?;

    add(context, UTC, |call| {
        let [value] = arguments(call)?;
        let timestamp = value.downcast_ref::<CelTimestamp>();
        let utc = timestamp.map(|timestamp| timestamp.inner().to_utc().fixed_offset());
        Ok(utc.map_or(value, |utc| CowVal::owned(CelTimestamp::from(utc))))
    })?;

    add(context, HAS, |call| {
        let [operand, field] = arguments(call)?;
        has_field(&*operand, &*field).map(|found| CowVal::owned(CelBool::from(found)))
    })?;

    add(context, IN, |call| {
        let [item, container] = arguments(call)?;
        let found = match container.as_container().map(|all| all.contains(&*item)) {
            Some(Ok(found)) => found,
            Some(Err(ExecutionError::UnsupportedKeyType(_))) => false,
            Some(Err(error)) => return Err(error),
            None => {
                let types = types(&[item, container]);
                return Err(ExecutionError::no_such_overload("in", types));
            }
        };
        Ok(CowVal::owned(CelBool::from(found)))
    })
}

/// Moves the arguments out of the call, because cloning an argument that the call owns would copy
/// all of it.
fn arguments<'c, 'v, const N: usize>(
    call: &mut FunctionContext<'c, 'v>,
) -> Result<[CowVal<'c, 'v>; N], ExecutionError> {
    std::mem::take(&mut call.args)
        .try_into()
        .map_err(|all: Vec<_>| ExecutionError::invalid_argument_count(N, all.len()))
}

/// Returns the keys of a map for a loop, in an order that is the same each time. The order
/// determines which of several errors a rule ends with, and a changing message would change the
/// status.
fn sorted_keys<'b, 'v>(range: &(dyn Val + 'v)) -> Option<CowVal<'b, 'v>> {
    let mut keys: Vec<&CelMapKey<'v>> = range.downcast_ref::<CelMap>()?.inner().keys().collect();
    keys.sort();
    let keys = keys.into_iter().map(|key| key.inner().clone_as_boxed());
    Some(CowVal::owned(CelList::from(keys.collect::<Vec<_>>())))
}

fn has_field(operand: &dyn Val, field: &dyn Val) -> Result<bool, ExecutionError> {
    if let Some(optional) = operand.downcast_ref::<CelOptional>() {
        let value = optional.inner();
        return value.map_or(Ok(false), |value| has_field(value, field));
    }
    match operand.as_indexer().map(|indexer| indexer.get(field)) {
        None | Some(Err(ExecutionError::NoSuchKey(_))) => Ok(false),
        Some(Ok(_)) => Ok(true),
        Some(Err(_)) => {
            let name = operand.get_type().name().to_owned();
            Err(ExecutionError::no_such_overload("has", vec![name]))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::cel::testing::{check, hold, verdict};

    #[test]
    fn has_is_false_for_values_without_fields() {
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
    fn only_keys_are_in_a_map() {
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
        // each key fails in its own way, and the last error is returned
        assert_eq!(
            verdict(
                "self.all(k, self[k].missing == 1 || self[k == 'z' ? 'last' : 'other'] == 1)",
                &object
            ),
            "error: no such key: last"
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
}
