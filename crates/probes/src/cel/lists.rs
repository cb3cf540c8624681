//! The Kubernetes CEL library for lists.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the evaluator calls all functions this way"
)]

use std::cmp::Ordering;

use cel::common::functions::Function;
use cel::common::types::{CelBool, CelInt, Kind, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use crate::cel::arguments::{Value, any};

pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    let functions: [(&str, usize, Function); 6] = [
        ("isSorted", 0, is_sorted),
        ("sum", 0, sum),
        ("min", 0, |list| extreme(&list, "min", Ordering::Less)),
        ("max", 0, |list| extreme(&list, "max", Ordering::Greater)),
        ("indexOf", 1, index_of),
        ("lastIndexOf", 1, last_index_of),
    ];
    for (name, arity, function) in functions {
        let id = format!("list.{name}");
        env.add_member_overload(name, &id, LIST_TYPE, any(arity), function)?;
    }
    Ok(())
}

/// The items of the list that is the receiver of a function.
fn items<'a, 'v>(
    arguments: &'a [CowVal<'_, 'v>],
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = arguments.first().and_then(|list| list.as_iterable());
    let list = list.ok_or_else(|| ExecutionError::invalid_argument_count(1, arguments.len()))?;
    let (mut iterator, mut items) = (list.iter(), Vec::new());
    while let Some(item) = iterator.next() {
        items.push(item);
    }
    Ok(items)
}

fn no_overload(function: &str, item: &dyn Val) -> ExecutionError {
    let list = format!("list({})", item.get_type().name());
    ExecutionError::no_such_member_overload(function, vec![list])
}

fn compare(a: &dyn Val, b: &dyn Val, function: &str) -> Result<Ordering, ExecutionError> {
    let order = a
        .as_comparer()
        .and_then(|comparer| comparer.compare(b).ok());
    order.ok_or_else(|| no_overload(function, b))
}

fn is_sorted<'b, 'v>(list: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let items = items(&list)?;
    let mut sorted = true;
    for (a, b) in items.iter().zip(items.iter().skip(1)) {
        sorted &= compare(*a, *b, "isSorted")?.is_le();
    }
    Ok(CowVal::owned(CelBool::from(sorted)))
}

/// The sum of no items is the int 0, because no item determines a type.
fn sum<'b, 'v>(list: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let mut sum: Option<Box<dyn Val + 'v>> = None;
    for item in items(&list)? {
        let kind = item.get_type().kind();
        let summable = matches!(kind, Kind::Int | Kind::UInt | Kind::Double | Kind::Duration);
        let next = match &sum {
            _ if !summable => return Err(no_overload("sum", item)),
            None => item.clone_as_boxed(),
            Some(sum) => {
                let adder = sum.as_adder().ok_or_else(|| no_overload("sum", item))?;
                adder.add(item)?.into_owned()
            }
        };
        sum = Some(next);
    }
    Ok(sum.map_or_else(|| CowVal::owned(CelInt::from(0)), CowVal::Owned))
}

/// The first item that no other item exceeds in the direction.
fn extreme<'b, 'v>(list: &[CowVal<'b, 'v>], function: &str, better: Ordering) -> Value<'b, 'v> {
    let mut items = items(list)?.into_iter();
    let Some(mut best) = items.next() else {
        let message = format!("{function} called on empty list");
        return Err(ExecutionError::function_error(function, message));
    };
    for item in items {
        if compare(best, item, function)? == better.reverse() {
            best = item;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn position<'b, 'v>(found: Option<usize>) -> CowVal<'b, 'v> {
    let index = found.and_then(|index| i64::try_from(index).ok());
    CowVal::owned(CelInt::from(index.unwrap_or(-1)))
}

fn index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let equal = |item: &&dyn Val| {
        arguments
            .get(1)
            .is_some_and(|wanted| item.equals(&**wanted))
    };
    Ok(position(items(&arguments)?.iter().position(equal)))
}

fn last_index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let equal = |item: &&dyn Val| {
        arguments
            .get(1)
            .is_some_and(|wanted| item.equals(&**wanted))
    };
    Ok(position(items(&arguments)?.iter().rposition(equal)))
}

#[cfg(test)]
mod tests {
    use crate::cel::testing::{check, hold};

    #[test]
    fn is_sorted_compares_all_neighbours() {
        hold(&[
            "[1, 2, 3].isSorted() && [1, 1].isSorted() && ![2, 1].isSorted()",
            "[].isSorted() && [1].isSorted()",
            "['a', 'b'].isSorted() && !['b', 'a'].isSorted()",
            "[1.5, 2.5].isSorted() && [false, true].isSorted() && ![true, false].isSorted()",
            "[duration('1s'), duration('1m')].isSorted() && [b'a', b'b'].isSorted()",
            "[timestamp('2024-01-01T00:00:00Z'), timestamp('2024-01-02T00:00:00Z')].isSorted()",
            "!self.spec.numbers.isSorted() && self.spec.floats.isSorted()",
            "!self.spec.words.isSorted()",
            "self.spec.items.map(i, i.name).isSorted()",
        ]);
        check(&[
            (
                "self.spec.mixed.isSorted()",
                "error: no such overload: list(string).isSorted()",
            ),
            (
                "self.spec.items.isSorted()",
                "error: no such overload: list(map).isSorted()",
            ),
            (
                "self.spec.isSorted()",
                "error: no such overload: map.isSorted()",
            ),
            (
                "[[1]].isSorted()",
                "refused: 1:15: found no matching overload for 'isSorted' applied to \
                 'list(list(int)).()'",
            ),
        ]);
    }

    #[test]
    fn sum_adds_numbers_and_durations() {
        hold(&[
            "[1, 2, 3].sum() == 6 && [1u, 2u].sum() == 3u && [1.5, 1.0].sum() == 2.5",
            "[duration('1m'), duration('1s')].sum() == duration('61s')",
            "[].sum() == 0 && [1].sum() == 1",
            "self.spec.numbers.sum() == 6 && self.spec.floats.sum() == 2.0",
            "self.spec.items.filter(i, has(i.value)).map(i, i.value).sum() == self.status.replicas",
        ]);
        check(&[
            (
                "self.spec.words.sum() == 'bab'",
                "error: no such overload: list(string).sum()",
            ),
            (
                "self.spec.mixed.sum() == 1",
                "error: no such overload: list(string).sum()",
            ),
            (
                "[9223372036854775807, 1].sum() > 0",
                "error: integer overflow",
            ),
            (
                "['a'].sum() == 'a'",
                "refused: 1:10: found no matching overload for 'sum' applied to \
                 'list(string).()'",
            ),
        ]);
    }

    #[test]
    fn min_and_max_order_all_items() {
        hold(&[
            "[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3",
            "['b', 'a'].min() == 'a' && ['b', 'a'].max() == 'b'",
            "[1.5, -1.5].min() == -1.5 && [true, false].max()",
            "[duration('1m'), duration('1s')].min() == duration('1s')",
            "self.spec.numbers.max() == 3 && self.spec.words.min() == 'a'",
            "[self.spec.replicas, self.spec.ratio].min() == 1.5",
            "self.spec.items.map(i, i.name).max() == 'c'",
        ]);
        check(&[
            ("[].min() == 1", "error: min called on empty list"),
            (
                "self.spec.items.filter(i, false).map(i, i.value).max() == 1",
                "error: max called on empty list",
            ),
            (
                "self.spec.mixed.max() == 1",
                "error: no such overload: list(string).max()",
            ),
            (
                "[null].max() == null",
                "refused: 1:11: found no matching overload for 'max' applied to \
                 'list(null).()'",
            ),
        ]);
    }

    #[test]
    fn index_of_finds_equal_items() {
        hold(&[
            "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2",
            "[1].indexOf(3) == -1 && [].lastIndexOf(3) == -1",
            "[[1], [2]].indexOf([2]) == 1",
            "self.spec.words.indexOf('b') == 0 && self.spec.words.lastIndexOf('b') == 2",
            "self.spec.numbers.indexOf(2.0) == 2 && self.spec.mixed.indexOf('a') == 1",
            "self.spec.items.indexOf({'name': 'c'}) == 2",
            // strings have the function of the strings library
            "self.spec.text.indexOf('c') == 2",
        ]);
    }
}
