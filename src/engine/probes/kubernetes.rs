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
        let order = best.map(|best| compare(best, item, function)).transpose()?;
        if order.is_none_or(|order| order == better.reverse()) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check, hold, object, verdict};
    use super::*;

    #[test]
    fn sorted_lists() {
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
    fn sums() {
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
    fn smallest_and_largest() {
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
    fn positions_in_lists() {
        hold(&[
            "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2",
            "[1].indexOf(3) == -1 && [].lastIndexOf(3) == -1",
            "[[1], [2]].indexOf([2]) == 1",
            "self.spec.words.indexOf('b') == 0 && self.spec.words.lastIndexOf('b') == 2",
            "self.spec.numbers.indexOf(2.0) == 2 && self.spec.mixed.indexOf('a') == 1",
            "self.spec.items.indexOf({'name': 'c'}) == 2",
            // of strings, by the strings library
            "self.spec.text.indexOf('c') == 2",
        ]);
    }

    #[test]
    fn urls() {
        hold(&[
            "isURL('https://example.com:80/') && isURL('/path') && isURL(self.status.url)",
            "!isURL('../path') && !isURL('https://a:b:c/') && !isURL('')",
            "url(self.status.url).getScheme() == 'https'",
            "url(self.status.url).getHost() == 'example.com:8443'",
            "url(self.status.url).getHostname() == 'example.com'",
            "url(self.status.url).getPort() == '8443'",
            "url(self.status.url).getEscapedPath() == '/a%20b'",
            "url(self.status.url).getQuery() == {'x': ['1', '2']}",
            "url('/path').getQuery() == {} && url('/path').getScheme() == ''",
            "url('https://[::1]:80/').getHostname() == '::1'",
            "url('/a b') == url('/a%20b') && url('/a') != url('/b')",
            "[url('/a'), url('/b')].exists(u, u.getEscapedPath() == '/b')",
            "[url('/a')].indexOf(url('/a')) == 0 && url('/a') in [url('/a')]",
        ]);
        check(&[
            (
                "url('https://a:b:c/').getHost() == ''",
                "error: URL parse error during conversion from string: invalid port \":b:c\" after host",
            ),
            (
                "url(self.metadata.name).getHost() == ''",
                "error: URL parse error during conversion from string: invalid URI for request",
            ),
            (
                "url(self.spec.replicas).getHost() == ''",
                "error: no such overload: url(int)",
            ),
            (
                "'/path'.getHost() == ''",
                "refused: 1:16: found no matching overload for 'getHost' applied to 'string.()'",
            ),
            (
                "url('/path') == '/path'",
                "refused: 1:14: found no matching overload for '_==_' applied to \
                 '(kubernetes.URL, string)'",
            ),
            (
                "url('/path').host == ''",
                "refused: 1:13: type 'kubernetes.URL' does not support field selection",
            ),
            (
                "dyn(url('/path')).host == ''",
                "error: no such overload: _._(kubernetes.URL, string)",
            ),
        ]);
    }

    #[test]
    fn urls_are_values_of_their_own_type() {
        assert_eq!(
            verdict(
                "type(url('/a')) == type(url('/b')) && type(url('/a')) != string",
                &object()
            ),
            "true"
        );
        let url = CelUrl(Url::parse("/a").unwrap());
        assert!(url.clone_as_boxed().equals(&url));
        assert!(!url.equals(&CelString::from("/a")));
        assert_eq!(CelUrl::cel_type(), url.get_type());
        assert_eq!(
            verdict("url(self.u).getQuery().size() == 2", &json!({"u": "/?a&b"})),
            "true"
        );
    }
}
