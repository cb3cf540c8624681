//! Declaration and reading of function arguments, and lists as results.

use cel::ExecutionError;
use cel::common::types::{CelInt, CelList, CelString, DYN_TYPE, Type};
use cel::common::value::{CowVal, Val};

/// The result of a function, which may be one of its arguments.
pub type Value<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Parameters of any type.
pub fn any(number: usize) -> Vec<Type> {
    (0..number).map(|_| DYN_TYPE).collect()
}

pub fn text<'a>(arguments: &'a [CowVal<'_, '_>], index: usize) -> Option<&'a str> {
    let value = arguments.get(index)?.downcast_ref::<CelString>()?;
    Some(value.inner())
}

pub fn int(arguments: &[CowVal<'_, '_>], index: usize) -> Option<i64> {
    let value = arguments.get(index)?.downcast_ref::<CelInt>()?;
    Some(*value.inner())
}

/// The limit at an index; a missing or negative one is no limit. `None` if it is no integer.
pub fn limit(arguments: &[CowVal<'_, '_>], index: usize) -> Option<usize> {
    if index == arguments.len() {
        return Some(usize::MAX);
    }
    let limit = int(arguments, index)?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}

pub fn types(arguments: &[CowVal<'_, '_>]) -> Vec<String> {
    let types = arguments.iter().map(|argument| argument.get_type().name());
    types.map(str::to_owned).collect()
}

pub fn no_member(function: &str, arguments: &[CowVal<'_, '_>]) -> ExecutionError {
    ExecutionError::no_such_member_overload(function, types(arguments))
}

pub fn string_list<T: Into<String>>(items: impl IntoIterator<Item = T>) -> CelList<'static> {
    let items = items.into_iter().map(|item| {
        let text: String = item.into();
        Box::new(CelString::from(text)) as Box<dyn Val>
    });
    CelList::from(items.collect::<Vec<_>>())
}
