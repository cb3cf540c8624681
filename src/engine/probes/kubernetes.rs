//! The Kubernetes CEL libraries for lists and URLs; the one for regular expressions is in
//! `cel_regex`, because it shares its patterns with `matches`.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the evaluator calls all functions this way"
)]

use std::any::Any;
use std::cmp::Ordering;
use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelInt, CelList, CelMap, CelMapKey, CelString, DYN_TYPE, Kind, LIST_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::url::Url;

/// Declares both libraries.
///
/// # Errors
/// One of their names exists already.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload(
        "isSorted",
        "list.isSorted()",
        LIST_TYPE,
        vec![],
        |arguments| {
            let mut sorted = true;
            let mut previous: Option<&dyn Val> = None;
            for_each(&arguments, |item| {
                let order = previous.map(|previous| compare(previous, item, "isSorted"));
                sorted &= order.transpose()? != Some(Ordering::Greater);
                previous = Some(item);
                Ok(())
            })?;
            Ok(CowVal::owned(CelBool::from(sorted)))
        },
    )?;
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list.min()", LIST_TYPE, vec![], |arguments| {
        extreme(&arguments, "min", Ordering::Less)
    })?;
    env.add_member_overload("max", "list.max()", LIST_TYPE, vec![], |arguments| {
        extreme(&arguments, "max", Ordering::Greater)
    })?;
    env.add_member_overload(
        "indexOf",
        "list.indexOf(dyn)",
        LIST_TYPE,
        vec![DYN_TYPE],
        |arguments| Ok(position(&positions(&arguments)?, <[i64]>::first)),
    )?;
    env.add_member_overload(
        "lastIndexOf",
        "list.lastIndexOf(dyn)",
        LIST_TYPE,
        vec![DYN_TYPE],
        |arguments| Ok(position(&positions(&arguments)?, <[i64]>::last)),
    )?;

    env.add_type(URL_TYPE.to_owned())?;
    add_overload!(env, fn url: (CelString) -> Result<CelUrl>)?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    add_member_overload!(env, fn get_scheme: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_host: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_hostname: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_port: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_escaped_path: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_query: (CelUrl) -> CelMap)
}

/// Visits the items of the list that a function was called on.
fn for_each<'a, 'v>(
    arguments: &'a [CowVal<'_, 'v>],
    mut visit: impl FnMut(&'a (dyn Val + 'v)) -> Result<(), ExecutionError>,
) -> Result<(), ExecutionError> {
    let mut items = arguments
        .first()
        .and_then(|list| list.as_iterable())
        .ok_or_else(|| ExecutionError::invalid_argument_count(1, arguments.len()))?
        .iter();
    while let Some(item) = items.next() {
        visit(item)?;
    }
    Ok(())
}

fn no_overload(function: &str, item: &dyn Val) -> ExecutionError {
    let list = format!("list({})", item.get_type().name());
    ExecutionError::no_such_member_overload(function, vec![list])
}

fn compare(a: &dyn Val, b: &dyn Val, function: &str) -> Result<Ordering, ExecutionError> {
    a.as_comparer()
        .and_then(|comparer| comparer.compare(b).ok())
        .ok_or_else(|| no_overload(function, b))
}

/// The sum of no items is the int 0: there is no item to take a type from.
fn sum<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let mut sum: Option<Box<dyn Val + 'v>> = None;
    for_each(&arguments, |item| {
        let summable = matches!(
            item.get_type().kind(),
            Kind::Int | Kind::UInt | Kind::Double | Kind::Duration
        );
        let next = match &sum {
            _ if !summable => return Err(no_overload("sum", item)),
            None => item.clone_as_boxed(),
            Some(sum) => sum
                .as_adder()
                .ok_or_else(|| no_overload("sum", item))?
                .add(item)?
                .into_owned(),
        };
        sum = Some(next);
        Ok(())
    })?;
    Ok(sum.map_or_else(|| CowVal::owned(CelInt::from(0)), CowVal::Owned))
}

/// The first of the items that none exceeds in the direction.
fn extreme<'b, 'v>(
    arguments: &[CowVal<'b, 'v>],
    function: &str,
    better: Ordering,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let mut best: Option<&(dyn Val + 'v)> = None;
    for_each(arguments, |item| {
        let order = best.map(|best| compare(item, best, function)).transpose()?;
        if order.is_none_or(|order| order == better) {
            best = Some(item);
        }
        Ok(())
    })?;
    best.map(|best| CowVal::Owned(best.clone_as_boxed()))
        .ok_or_else(|| {
            ExecutionError::function_error(function, format!("{function} called on empty list"))
        })
}

/// Where the list holds the item.
fn positions(arguments: &[CowVal<'_, '_>]) -> Result<Vec<i64>, ExecutionError> {
    let wanted = arguments
        .get(1)
        .ok_or_else(|| ExecutionError::invalid_argument_count(2, arguments.len()))?;
    let mut index = 0;
    let mut found = Vec::new();
    for_each(arguments, |item| {
        if item.equals(&**wanted) {
            found.push(index);
        }
        index += 1;
        Ok(())
    })?;
    Ok(found)
}

fn position<'b, 'v>(
    found: &[i64],
    pick: impl for<'f> Fn(&'f [i64]) -> Option<&'f i64>,
) -> CowVal<'b, 'v> {
    CowVal::owned(CelInt::from(pick(found).copied().unwrap_or(-1)))
}

static URL_TYPE: Type = Type::new_unspecified_type("kubernetes.URL");

/// A URL as a CEL value: opaque but for its getters, and equal by its parts.
#[derive(Clone, Debug)]
struct CelUrl(Url);

impl StaticVal for CelUrl {}

impl Val for CelUrl {
    fn get_type(&self) -> &Type {
        &URL_TYPE
    }

    fn cel_type() -> &'static Type {
        &URL_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other
            .downcast_ref::<Self>()
            .is_some_and(|other| self.0 == other.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

fn url(text: &CelString<'_>) -> Result<CelUrl, ExecutionError> {
    Url::parse(text).map(CelUrl).map_err(|cause| {
        ExecutionError::function_error(
            "url",
            format!("URL parse error during conversion from string: {cause}"),
        )
    })
}

fn is_url(text: &CelString<'_>) -> CelBool {
    Url::is_valid(text).into()
}

fn get_scheme(url: &CelUrl) -> CelString<'static> {
    url.0.scheme().to_owned().into()
}

fn get_host(url: &CelUrl) -> CelString<'static> {
    url.0.host().to_owned().into()
}

fn get_hostname(url: &CelUrl) -> CelString<'static> {
    url.0.hostname().to_owned().into()
}

fn get_port(url: &CelUrl) -> CelString<'static> {
    url.0.port().to_owned().into()
}

fn get_escaped_path(url: &CelUrl) -> CelString<'static> {
    url.0.escaped_path().to_owned().into()
}

fn get_query(url: &CelUrl) -> CelMap<'static> {
    let entries: HashMap<CelMapKey<'static>, Box<dyn Val>> = url
        .0
        .query()
        .into_iter()
        .map(|(key, values)| {
            let values: Vec<Box<dyn Val>> = values
                .into_iter()
                .map(|value| Box::new(CelString::from(value)) as Box<dyn Val>)
                .collect();
            let values: Box<dyn Val> = Box::new(CelList::from(values));
            (CelMapKey::from(key), values)
        })
        .collect();
    CelMap::from(entries)
}
