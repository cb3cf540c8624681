//! The strings extension of CEL in version 0, as upstream's evaluator has it.
//!
//! The CEL crate has a strings extension too. This one differs where that one differs from
//! upstream (offsets behind the end), takes linear time, and refuses results out of proportion.
//! Positions count characters.
#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::needless_pass_by_value,
    reason = "the evaluator calls all functions this way"
)]

use cel::common::types::{CelInt, CelList, CelString, LIST_TYPE, STRING_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload};

/// Most parts a string is taken apart into.
pub const MAX_PARTS: usize = 100_000;
/// Most bytes a string grows to.
const MAX_BYTES: usize = 1 << 20;

/// Declares the functions.
///
/// # Errors
/// One of them exists already.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_member_overload!(env, fn char_at: (CelString, CelInt) -> Result<CelString>)?;
    add_member_overload!(env, fn index_of: (CelString, CelString) -> CelInt)?;
    add_member_overload!(env, fn index_of_from: (CelString, CelString, CelInt) -> Result<CelInt>,
        name = "indexOf")?;
    add_member_overload!(env, fn last_index_of: (CelString, CelString) -> CelInt)?;
    add_member_overload!(env, fn last_index_of_from: (CelString, CelString, CelInt) -> Result<CelInt>,
        name = "lastIndexOf")?;
    add_member_overload!(env, fn lower_ascii: (CelString) -> CelString)?;
    add_member_overload!(env, fn upper_ascii: (CelString) -> CelString)?;
    add_member_overload!(env, fn trim: (CelString) -> CelString)?;
    add_member_overload!(env, fn replace: (CelString, CelString, CelString) -> Result<CelString>)?;
    add_member_overload!(env, fn replace_n: (CelString, CelString, CelString, CelInt) -> Result<CelString>,
        name = "replace")?;
    add_member_overload!(env, fn split: (CelString, CelString) -> Result<CelList>)?;
    add_member_overload!(env, fn split_n: (CelString, CelString, CelInt) -> Result<CelList>,
        name = "split")?;
    add_member_overload!(env, fn substring: (CelString, CelInt) -> Result<CelString>)?;
    add_member_overload!(env, fn substring_to: (CelString, CelInt, CelInt) -> Result<CelString>,
        name = "substring")?;
    // By hand: the macro asks for a concrete receiver, and `join` takes any list.
    env.add_member_overload("join", "list.join()", LIST_TYPE, vec![], join)?;
    env.add_member_overload(
        "join",
        "list.join(string)",
        LIST_TYPE,
        vec![STRING_TYPE],
        join,
    )
}

fn out_of_range(function: &str, index: i64) -> ExecutionError {
    ExecutionError::function_error(function, format!("index out of range: {index}"))
}

/// The byte at which the character with this number starts; the end counts as a character.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()])
        .nth(index)
}

fn chars(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at(text: &CelString<'_>, index: &CelInt) -> Result<CelString<'static>, ExecutionError> {
    let index = *index.inner();
    let start = byte_of(text, index).ok_or_else(|| out_of_range("charAt", index))?;
    let found: String = text.chars_from(start).take(1).collect();
    Ok(found.into())
}

/// Iterates over the characters behind a byte that starts one.
trait CharsFrom {
    fn chars_from(&self, byte: usize) -> std::str::Chars<'_>;
}

impl CharsFrom for str {
    fn chars_from(&self, byte: usize) -> std::str::Chars<'_> {
        self.get(byte..).unwrap_or_default().chars()
    }
}

fn index_of(text: &CelString<'_>, part: &CelString<'_>) -> CelInt {
    text.find(part.inner())
        .map_or(-1, |byte| chars(text.get(..byte).unwrap_or_default()))
        .into()
}

fn index_of_from(
    text: &CelString<'_>,
    part: &CelString<'_>,
    offset: &CelInt,
) -> Result<CelInt, ExecutionError> {
    let offset = *offset.inner();
    if part.is_empty() {
        return Ok(offset.into());
    }
    if offset < 0 {
        return Err(out_of_range("indexOf", offset));
    }
    let rest = byte_of(text, offset).and_then(|byte| text.get(byte..));
    let found = rest.and_then(|rest| rest.get(..rest.find(part.inner())?));
    Ok(found.map_or(-1, |before| offset + chars(before)).into())
}

fn last_index_of(text: &CelString<'_>, part: &CelString<'_>) -> CelInt {
    text.rfind(part.inner())
        .map_or(-1, |byte| chars(text.get(..byte).unwrap_or_default()))
        .into()
}

fn last_index_of_from(
    text: &CelString<'_>,
    part: &CelString<'_>,
    offset: &CelInt,
) -> Result<CelInt, ExecutionError> {
    let offset = *offset.inner();
    if part.is_empty() {
        return Ok(offset.into());
    }
    if offset < 0 {
        return Err(out_of_range("lastIndexOf", offset));
    }
    if offset >= chars(text) {
        return Ok((-1).into());
    }
    // A match that starts at the offset ends within the length of the part behind it.
    let start = byte_of(text, offset).unwrap_or_default();
    let end = text.floor_char_boundary(start.saturating_add(part.len()));
    let before = text.get(..end).unwrap_or_default();
    let found = before
        .rfind(part.inner())
        .and_then(|byte| before.get(..byte));
    Ok(found.map_or(-1, chars).into())
}

fn lower_ascii(text: &CelString<'_>) -> CelString<'static> {
    text.to_ascii_lowercase().into()
}

fn upper_ascii(text: &CelString<'_>) -> CelString<'static> {
    text.to_ascii_uppercase().into()
}

fn trim(text: &CelString<'_>) -> CelString<'static> {
    text.inner().trim().to_owned().into()
}

fn replace(
    text: &CelString<'_>,
    from: &CelString<'_>,
    to: &CelString<'_>,
) -> Result<CelString<'static>, ExecutionError> {
    replace_n(text, from, to, &CelInt::from(-1))
}

/// A negative number replaces all.
fn replace_n(
    text: &CelString<'_>,
    from: &CelString<'_>,
    to: &CelString<'_>,
    number: &CelInt,
) -> Result<CelString<'static>, ExecutionError> {
    let number = usize::try_from(*number.inner()).unwrap_or(usize::MAX);
    let found = text.matches(from.inner()).take(number).count();
    let bytes = found.saturating_mul(to.len()).saturating_add(text.len());
    if bytes > MAX_BYTES {
        return Err(too_large("replace"));
    }
    Ok(text.replacen(from.inner(), to.inner(), number).into())
}

fn too_large(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "result too large")
}

fn split(
    text: &CelString<'_>,
    separator: &CelString<'_>,
) -> Result<CelList<'static>, ExecutionError> {
    split_n(text, separator, &CelInt::from(-1))
}

/// At most so many parts, of which the last is the rest; a negative number means all. An empty
/// separator splits between characters.
fn split_n(
    text: &CelString<'_>,
    separator: &CelString<'_>,
    number: &CelInt,
) -> Result<CelList<'static>, ExecutionError> {
    let number = usize::try_from(*number.inner()).unwrap_or(usize::MAX);
    // One part too many is enough to know.
    let limit = number.min(MAX_PARTS + 1);
    let parts: Vec<&str> = if number == 0 || (separator.is_empty() && text.is_empty()) {
        Vec::new()
    } else if separator.is_empty() {
        let starts = text.char_indices().map(|(byte, _)| byte).take(limit);
        let starts: Vec<usize> = starts.collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts
            .iter()
            .zip(ends)
            .filter_map(|(start, end)| text.get(*start..end))
            .collect()
    } else {
        text.splitn(limit, separator.inner()).collect()
    };
    if parts.len() > MAX_PARTS {
        return Err(ExecutionError::function_error("split", "too many parts"));
    }
    let parts: Vec<Box<dyn Val>> = parts
        .into_iter()
        .map(|part| Box::new(CelString::from(part.to_owned())) as Box<dyn Val>)
        .collect();
    Ok(parts.into())
}

fn substring(text: &CelString<'_>, start: &CelInt) -> Result<CelString<'static>, ExecutionError> {
    let start = *start.inner();
    let byte = byte_of(text, start).ok_or_else(|| out_of_range("substring", start))?;
    Ok(text.get(byte..).unwrap_or_default().to_owned().into())
}

fn substring_to(
    text: &CelString<'_>,
    start: &CelInt,
    end: &CelInt,
) -> Result<CelString<'static>, ExecutionError> {
    let (start, end) = (*start.inner(), *end.inner());
    if start > end {
        return Err(ExecutionError::function_error(
            "substring",
            format!("invalid substring range. start: {start}, end: {end}"),
        ));
    }
    let from = byte_of(text, start).ok_or_else(|| out_of_range("substring", start))?;
    let to = byte_of(text, end).ok_or_else(|| out_of_range("substring", end))?;
    Ok(text.get(from..to).unwrap_or_default().to_owned().into())
}

fn join<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let separator = arguments
        .get(1)
        .and_then(|separator| separator.downcast_ref::<CelString>())
        .map_or("", CelString::inner);
    let mut items = arguments
        .first()
        .and_then(|list| list.as_iterable())
        .ok_or_else(|| ExecutionError::invalid_argument_count(1, arguments.len()))?
        .iter();
    let mut joined = String::new();
    let mut first = true;
    while let Some(item) = items.next() {
        let Some(text) = item.downcast_ref::<CelString>() else {
            let name = item.get_type().name().to_owned();
            return Err(ExecutionError::no_such_member_overload(
                "join",
                vec![format!("list({name})")],
            ));
        };
        if joined.len() + separator.len() + text.len() > MAX_BYTES {
            return Err(too_large("join"));
        }
        if !first {
            joined.push_str(separator);
        }
        first = false;
        joined.push_str(text);
    }
    Ok(CowVal::owned(CelString::from(joined)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check, hold, verdict};
    use super::*;

    #[test]
    fn strings_are_taken_apart_by_character() {
        hold(&[
            "'abc'.charAt(0) == 'a' && 'abc'.charAt(2) == 'c'",
            "'äöü'.charAt(1) == 'ö'",
            "'abc'.charAt(3) == ''",
            "''.charAt(0) == ''",
            "'abc'.substring(1) == 'bc' && 'abc'.substring(3) == ''",
            "'abc'.substring(1, 2) == 'b' && 'abc'.substring(1, 1) == ''",
            "'abc'.substring(0, 3) == 'abc' && 'abc'.substring(3, 3) == ''",
            "'äöü'.substring(1) == 'öü' && 'äöü'.substring(0, 2) == 'äö'",
            "self.spec.text.substring(1) == 'bc'",
        ]);
        check(&[
            ("'abc'.charAt(4) == ''", "error: index out of range: 4"),
            ("'abc'.charAt(-1) == ''", "error: index out of range: -1"),
            ("'abc'.substring(4) == ''", "error: index out of range: 4"),
            ("'abc'.substring(-1) == ''", "error: index out of range: -1"),
            (
                "'abc'.substring(0, 4) == ''",
                "error: index out of range: 4",
            ),
            (
                "'abc'.substring(-1, 4) == ''",
                "error: index out of range: -1",
            ),
            (
                "'abc'.substring(2, 1) == ''",
                "error: invalid substring range. start: 2, end: 1",
            ),
        ]);
    }

    #[test]
    fn positions_count_characters() {
        hold(&[
            "'abcabc'.indexOf('c') == 2 && 'abcabc'.lastIndexOf('c') == 5",
            "'äöüä'.indexOf('ü') == 2 && 'äöüä'.lastIndexOf('ä') == 3",
            "'abc'.indexOf('x') == -1 && 'abc'.lastIndexOf('x') == -1",
            "'abc'.indexOf('abcd') == -1 && 'abc'.lastIndexOf('abcd') == -1",
            "'abc'.indexOf('') == 0 && 'äbc'.lastIndexOf('') == 3 && ''.lastIndexOf('') == 0",
            // from an offset
            "'abcabc'.indexOf('c', 2) == 2 && 'abcabc'.indexOf('c', 3) == 5",
            "'äöäö'.indexOf('ö', 2) == 3",
            "'abc'.indexOf('a', 1) == -1 && 'abc'.indexOf('c', 3) == -1",
            "'abcabc'.lastIndexOf('c', 5) == 5 && 'abcabc'.lastIndexOf('c', 4) == 2",
            "'abcabc'.lastIndexOf('bc', 4) == 4 && 'abcabc'.lastIndexOf('bc', 3) == 1",
            "'öäöä'.lastIndexOf('öä', 1) == 0 && 'öäöä'.lastIndexOf('öä', 2) == 2",
            "'abc'.lastIndexOf('c', 1) == -1",
            // a part that is longer than what is left, next to a longer character
            "'aö'.lastIndexOf('ab', 0) == -1 && 'aöb'.lastIndexOf('a', 0) == 0",
            // behind the end nothing is found, which is no error
            "'abc'.indexOf('c', 10) == -1 && 'abc'.lastIndexOf('c', 10) == -1",
            "'abc'.lastIndexOf('c', 3) == -1",
            // the empty string is found wherever one looks
            "'abc'.indexOf('', 2) == 2 && 'abc'.indexOf('', 5) == 5 && 'abc'.indexOf('', -1) == -1",
            "'abc'.lastIndexOf('', 2) == 2 && 'abc'.lastIndexOf('', 5) == 5",
        ]);
        check(&[
            (
                "'abc'.indexOf('c', -1) == 2",
                "error: index out of range: -1",
            ),
            (
                "'abc'.lastIndexOf('c', -1) == 2",
                "error: index out of range: -1",
            ),
        ]);
    }

    #[test]
    fn letters_change_case_in_ascii_only() {
        hold(&[
            "'TacoCÄt'.lowerAscii() == 'tacocÄt'",
            "'tacocät'.upperAscii() == 'TACOCäT'",
        ]);
    }

    #[test]
    fn trim_takes_all_white_space() {
        hold(&[
            "' \\t\\n a b \\r\\u00a0\\u2003'.trim() == 'a b'",
            "''.trim() == '' && '  '.trim() == ''",
        ]);
    }

    #[test]
    fn replace_takes_a_limit() {
        hold(&[
            "'hello hello'.replace('he', 'we') == 'wello wello'",
            "'hello hello'.replace('he', 'we', -1) == 'wello wello'",
            "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
            "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
            "'ab'.replace('', '-') == '-a-b-' && 'ab'.replace('', '-', 2) == '-a-b'",
            "'aaa'.replace('a', '') == ''",
        ]);
    }

    #[test]
    fn split_and_join() {
        hold(&[
            "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', -1).size() == 3",
            "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'a,b,c'.split(',', 1) == ['a,b,c']",
            "'a,b,c'.split(',', 0) == [] && 'a,b'.split(',', 9) == ['a', 'b']",
            "''.split(',') == [''] && ','.split(',') == ['', '']",
            "'äöü'.split('') == ['ä', 'ö', 'ü'] && 'äöü'.split('', 2) == ['ä', 'öü']",
            "''.split('') == [] && 'abc'.split('', 0) == [] && 'abc'.split('', 9).size() == 3",
            "['a', 'b'].join() == 'ab' && ['a', 'b'].join(', ') == 'a, b'",
            "['', '', 'a'].join('-') == '--a' && [].join('-') == '' && ['a'].join('-') == 'a'",
            "self.spec.words.join() == 'bab'",
            "'a.b.c'.split('.').join('/') == 'a/b/c'",
        ]);
        check(&[(
            "self.spec.mixed.join() == ''",
            "error: no such overload: list(int).join()",
        )]);
    }

    #[test]
    fn results_keep_in_proportion() {
        let object =
            json!({"text": "a".repeat(MAX_PARTS + 1), "less": "a".repeat(MAX_PARTS), "a": "a"});
        for (rule, expected) in [
            ("self.less.split('').size() == 100000", "true"),
            ("self.text.split('').size() > 0", "error: too many parts"),
            ("self.text.split('a').size() > 0", "error: too many parts"),
            ("self.text.split('a', 3).size() == 3", "true"),
            (
                "self.less.replace('a', 'aaaaaaaaa').size() == 900000",
                "true",
            ),
            (
                "self.less.replace('a', 'aaaaaaaaaa').size() > 0",
                "error: result too large",
            ),
            (
                "self.less.replace('', self.less) == ''",
                "error: result too large",
            ),
            ("self.less.replace('a', 'aaaaaaaaaa', 9).size() > 0", "true"),
            (
                "[self.less, self.less, self.a].join(self.less).size() == 400001",
                "true",
            ),
            (
                "['', '', '', '', '', '', '', '', '', '', '', ''].join(self.less) == ''",
                "error: result too large",
            ),
        ] {
            assert_eq!(verdict(rule, &object), expected, "{rule}");
        }
    }

    #[test]
    fn long_searches_take_linear_time() {
        // Compared character by character, this would take some 10^10 steps.
        let object = json!({
            "text": "a".repeat(400_000),
            "part": format!("{}b", "a".repeat(100_000)),
        });
        for rule in [
            "self.text.indexOf(self.part) == -1",
            "self.text.lastIndexOf(self.part) == -1",
            "self.text.indexOf(self.part, 1) == -1",
            "self.text.lastIndexOf(self.part, 399999) == -1",
            "self.text.split(self.part).size() == 1",
            "self.text.replace(self.part, '') == self.text",
        ] {
            assert_eq!(verdict(rule, &object), "true", "{rule}");
        }
    }
}
