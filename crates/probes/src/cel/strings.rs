//! The strings extension of CEL, version 0.
//!
//! Most of it is `cel::extensions::strings`. Five functions of version 0.15 are unsuitable for
//! rules of users:
//! - `replace` and `join` build results of any size: two strings of 100 KiB make one of 10 GiB;
//! - `split` builds a list of any length;
//! - `indexOf` and `lastIndexOf` compare at every position, which is quadratic, and fail with an
//!   offset after the end, where Kubernetes returns -1.
//!
//! These are implemented here, with limits and linear searches. Positions count characters.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the evaluator calls all functions this way"
)]

use cel::common::functions::Function;
use cel::common::types::{CelInt, CelString, DYN_TYPE, Kind, STRING_TYPE, Type};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError, extensions};

use crate::cel::arguments::{Value, any, int, limit, no_member, string_list, text};

/// Greatest number of parts of a split string.
pub const MAX_PARTS: usize = 100_000;
/// Greatest length of a resulting string, in bytes.
const MAX_BYTES: usize = 1 << 20;

pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    // A call takes the first overload that accepts it. These are declared before those of the
    // crate, and parameters of any type make them different overloads.
    let ours: [(&str, Type, [usize; 2], Function); 5] = [
        ("indexOf", STRING_TYPE, [1, 2], index_of),
        ("lastIndexOf", STRING_TYPE, [1, 2], last_index_of),
        ("replace", STRING_TYPE, [2, 3], replace),
        ("split", STRING_TYPE, [1, 2], split),
        ("join", DYN_TYPE, [0, 1], join),
    ];
    for (name, receiver, arities, function) in ours {
        for arity in arities {
            let id = format!("bounded {name}/{arity}");
            let parameters = any(arity);
            env.add_member_overload(name, &id, receiver.to_owned(), parameters, function)?;
        }
    }
    env.add_extension(extensions::strings)
}

/// The arguments of a search: text, part and offset.
fn search<'a>(
    function: &str,
    arguments: &'a [CowVal<'_, '_>],
) -> Result<(&'a str, &'a str, Option<i64>), ExecutionError> {
    let offset = int(arguments, 2);
    let (Some(text), Some(part)) = (text(arguments, 0), text(arguments, 1)) else {
        return Err(no_member(function, arguments));
    };
    match offset {
        None if arguments.len() > 2 => Err(no_member(function, arguments)),
        Some(index) if index < 0 && !part.is_empty() => Err(ExecutionError::function_error(
            function,
            "index out of range",
        )),
        offset => Ok((text, part, offset)),
    }
}

/// The index of the character at which a match starts, or -1.
fn position<'b, 'v>(text: &str, byte: Option<usize>) -> CowVal<'b, 'v> {
    let before = byte.and_then(|byte| text.get(..byte));
    let characters = before.map(|before| i64::try_from(before.chars().count()).unwrap_or(i64::MAX));
    CowVal::owned(CelInt::from(characters.unwrap_or(-1)))
}

/// The byte at which a character starts.
fn byte_of(text: &str, character: i64) -> Option<usize> {
    let character = usize::try_from(character).ok()?;
    let (byte, _) = text.char_indices().nth(character)?;
    Some(byte)
}

fn index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let (text, part, offset) = search("indexOf", &arguments)?;
    let offset = offset.unwrap_or_default();
    if part.is_empty() {
        return Ok(CowVal::owned(CelInt::from(offset)));
    }
    let start = byte_of(text, offset);
    let byte = start.and_then(|start| Some(start + text.get(start..)?.find(part)?));
    Ok(position(text, byte))
}

fn last_index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let (text, part, offset) = search("lastIndexOf", &arguments)?;
    let end = match offset {
        None => Some(text.len()),
        Some(offset) if part.is_empty() => return Ok(CowVal::owned(CelInt::from(offset))),
        // A match that starts at the offset ends `part.len()` bytes later.
        Some(offset) => byte_of(text, offset)
            .map(|start| text.floor_char_boundary(start.saturating_add(part.len()))),
    };
    let byte = end.and_then(|end| text.get(..end)?.rfind(part));
    Ok(position(text, byte))
}

fn too_large(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "result too large")
}

fn replace<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let texts = [0, 1, 2].map(|index| text(&arguments, index));
    let ([Some(text), Some(from), Some(to)], Some(limit)) = (texts, limit(&arguments, 3)) else {
        return Err(no_member("replace", &arguments));
    };
    let found = text.matches(from).take(limit).count();
    if found.saturating_mul(to.len()).saturating_add(text.len()) > MAX_BYTES {
        return Err(too_large("replace"));
    }
    let replaced = text.replacen(from, to, limit);
    Ok(CowVal::owned(CelString::from(replaced)))
}

/// Splits a text by a separator. If the number of parts is limited, the last part is the rest; an
/// empty separator splits between characters.
fn split<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let texts = [0, 1].map(|index| text(&arguments, index));
    let ([Some(text), Some(separator)], Some(limit)) = (texts, limit(&arguments, 2)) else {
        return Err(no_member("split", &arguments));
    };
    // One part more than allowed is enough to detect the excess.
    let limit = limit.min(MAX_PARTS + 1);
    let parts: Vec<&str> = if separator.is_empty() {
        // Rust also finds an empty separator at both ends.
        let parts = text.splitn(limit + 1, separator);
        parts.filter(|part| !part.is_empty()).take(limit).collect()
    } else {
        text.splitn(limit, separator).collect()
    };
    if parts.len() > MAX_PARTS {
        return Err(ExecutionError::function_error("split", "too many parts"));
    }
    Ok(CowVal::owned(string_list(parts)))
}

fn join<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Value<'b, 'v> {
    let separator = match arguments.get(1) {
        None => Some(""),
        Some(_) => text(&arguments, 1),
    };
    let list = arguments.first();
    let list = list.filter(|list| list.get_type().kind() == Kind::List);
    let (Some(list), Some(separator)) = (list.and_then(|list| list.as_iterable()), separator)
    else {
        return Err(no_member("join", &arguments));
    };
    let (mut items, mut joined, mut first) = (list.iter(), String::new(), true);
    while let Some(item) = items.next() {
        let Some(text) = item.downcast_ref::<CelString>() else {
            let list = format!("list({})", item.get_type().name());
            return Err(ExecutionError::no_such_member_overload("join", vec![list]));
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

    use super::*;
    use crate::cel::testing::{check, hold, verdict};

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
            ("'abc'.charAt(4) == ''", "error: index out of range"),
            ("'abc'.charAt(-1) == ''", "error: index out of range"),
            ("'abc'.substring(4) == ''", "error: index out of range"),
            ("'abc'.substring(-1) == ''", "error: index out of range"),
            ("'abc'.substring(0, 4) == ''", "error: index out of range"),
            ("'abc'.substring(-1, 4) == ''", "error: index out of range"),
            (
                "'abc'.substring(2, 1) == ''",
                "error: invalid substring range",
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
            // with an offset
            "'abcabc'.indexOf('c', 2) == 2 && 'abcabc'.indexOf('c', 3) == 5",
            "'äöäö'.indexOf('ö', 2) == 3",
            "'abc'.indexOf('a', 1) == -1 && 'abc'.indexOf('c', 3) == -1",
            "'abcabc'.lastIndexOf('c', 5) == 5 && 'abcabc'.lastIndexOf('c', 4) == 2",
            "'abcabc'.lastIndexOf('bc', 4) == 4 && 'abcabc'.lastIndexOf('bc', 3) == 1",
            "'öäöä'.lastIndexOf('öä', 1) == 0 && 'öäöä'.lastIndexOf('öä', 2) == 2",
            "'abc'.lastIndexOf('c', 1) == -1",
            // a part that is longer than the rest, before a character of several bytes
            "'aö'.lastIndexOf('ab', 0) == -1 && 'aöb'.lastIndexOf('a', 0) == 0",
            // an offset after the end finds nothing, which is no error
            "'abc'.indexOf('c', 10) == -1 && 'abc'.lastIndexOf('c', 10) == -1",
            "'abc'.lastIndexOf('c', 3) == -1",
            // the empty string is found at every offset
            "'abc'.indexOf('', 2) == 2 && 'abc'.indexOf('', 5) == 5 && 'abc'.indexOf('', -1) == -1",
            "'abc'.lastIndexOf('', 2) == 2 && 'abc'.lastIndexOf('', 5) == 5",
        ]);
        check(&[
            ("'abc'.indexOf('c', -1) == 2", "error: index out of range"),
            (
                "'abc'.lastIndexOf('c', -1) == 2",
                "error: index out of range",
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
    fn split_takes_a_limit_and_join_a_separator() {
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
    fn operands_of_other_types_have_no_overload() {
        check(&[
            (
                "self.spec.text.indexOf(self.spec.replicas) == 0",
                "error: no such overload: string.indexOf(int)",
            ),
            (
                "self.spec.text.lastIndexOf('a', self.spec.ratio) == 0",
                "error: no such overload: string.lastIndexOf(string, double)",
            ),
            (
                "self.spec.text.replace('a', self.spec.none) == ''",
                "error: no such overload: string.replace(string, null_type)",
            ),
            (
                "self.spec.text.split(',', self.spec.text) == []",
                "error: no such overload: string.split(string, string)",
            ),
            (
                "self.spec.replicas.split(',') == []",
                "error: no such overload: int.split(string)",
            ),
            (
                "self.spec.join() == ''",
                "error: no such overload: map.join()",
            ),
            (
                "self.spec.words.join(self.spec.replicas) == ''",
                "error: no such overload: list.join(int)",
            ),
        ]);
    }

    #[test]
    fn results_are_bounded_in_size() {
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
        // A comparison at every position would take some 10^10 steps.
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
