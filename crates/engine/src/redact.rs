//! The one place that decides which parts of the errors of other programs may be quoted.
//!
//! Errors are copied into conditions, events and logs, which more people may read than the objects
//! that the errors are about. Texts contain paths, names, kinds, lengths, rules and constant texts,
//! but no values of objects, of Secrets, or of charts. Metrics have no label with a text.
//!
//! - API server, validation, typed patches and parsers: [`without_values`]. The forms are known, so
//!   each value is replaced by its kind and length.
//! - API server, admission webhooks and policies, messages of rules: [`about`]. For Secrets the text
//!   is not quoted; otherwise the values of the objects in the request are removed.
//! - Servers that repeat the credentials of a request: [`without_credentials`], for all errors that
//!   clients read; the caller is `baton_kubernetes::credentials`.
//! - Parsers of this program: [`parse_error`]. URLs: [`shown_url`].
//! - Helm, templates and schemas of values: [`excerpt::Excerpt`]. Only texts that the chart or helm
//!   contains are quoted; the caller is `baton_charts::secrecy`.
//! - CEL, and probes that compare fields: `baton_probes` describes values by their kind and length.
//! - YAML: `baton_yaml` quotes no content. Chart repositories: `baton_charts` quotes no body.
//! - The plugin, for the user who reads the objects: [`with_short_values`].

mod about;
mod credentials;
pub mod excerpt;

use std::borrow::Cow;

use baton_probes::shape::Shape;
use serde_json::Value;

pub use self::{about::about, credentials::without_credentials};
use crate::texts::shorten;

/// The texts that precede a value, up to its quote if it has one: types of errors of Kubernetes'
/// validation, and parsers, those of Baton included.
const VALUE_FOLLOWS: [&str; 13] = [
    "Invalid value: ",
    "Unsupported value: ",
    "Duplicate value: ",
    "Not found: ",
    "parsing time \"",
    "parsing \"",
    "invalid type: string \"",
    "invalid value: string \"",
    "integer `",
    "floating point `",
    "boolean `",
    "character `",
    "unknown variant `",
];

/// The types that the validation of custom resources names in the place of a value.
const TYPES: [&str; 7] = [
    "\"object\"",
    "\"array\"",
    "\"string\"",
    "\"integer\"",
    "\"number\"",
    "\"boolean\"",
    "\"null\"",
];

/// Keys of lists whose values are names, in paths such as `.spec.ports[port=80,protocol="TCP"]`.
const NAMING_KEYS: [&str; 8] = [
    "name",
    "type",
    "protocol",
    "topologyKey",
    "mountPath",
    "devicePath",
    "ip",
    "uid",
];

/// Greatest length of a value that is shown, in bytes.
const READABLE: usize = 100;

/// A message without the values that it quotes; the kind and length of each value stay.
pub fn without_values(message: &str) -> String {
    let message = without_keys(message);
    rewritten(&message, without_value, |_| false)
}

/// A message whose paths contain no texts of keys of lists, except names.
fn without_keys(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("=\"") {
        let (before, value) = rest.split_at(at + 1);
        out.push_str(before);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric();
        let key = before.bytes().rev().skip(1).take_while(is_part).count();
        let (start, key) = before[..at].split_at(at - key);
        let (value, after) = value.split_at(end_of_value(value));
        if start.ends_with(['[', ',']) && !NAMING_KEYS.contains(&key) {
            out.push_str(&without_value(value));
        } else {
            out.push_str(value);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Limit of the length of the error of a parser, in bytes.
const MAX_PARSE_ERROR: usize = 300;

/// The error of a parser of JSON, without the values that it quotes.
pub fn parse_error(error: &serde_json::Error) -> String {
    let mut text = without_values(&error.to_string());
    shorten(&mut text, MAX_PARSE_ERROR);
    text
}

/// A URL without its user, password and query, any of which may be a secret.
pub fn shown_url(url: &str) -> Cow<'_, str> {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rfind('@').map(|at| &authority[at..]);
    let (path, query) = path
        .split_once('?')
        .map_or((path, ""), |(path, _)| (path, "?…"));
    if host.is_none() && query.is_empty() {
        return Cow::Borrowed(url);
    }
    let user = if host.is_some() { "…" } else { "" };
    Cow::Owned(format!(
        "{scheme}{user}{}{path}{query}",
        host.unwrap_or(authority)
    ))
}

/// A text with `replacement` for each part whose bytes are hidden.
fn without_parts(text: &str, hidden: &[bool], replacement: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut was_hidden = false;
    for (at, character) in text.char_indices() {
        if !hidden[at] {
            shown.push(character);
        } else if !was_hidden {
            shown.push_str(replacement);
        }
        was_hidden = hidden[at];
    }
    shown
}

/// A message with only those values that people can read: long ones, and structures, which a server
/// prints in the notation of Go, are replaced by their kind.
pub fn with_short_values(message: &str) -> String {
    let is_short = |value: &str| value.len() <= READABLE && !value.contains('{');
    let shown = |value: &str| {
        if is_short(value) {
            value.to_owned()
        } else {
            without_value(value)
        }
    };
    rewritten(message, shown, is_short)
}

/// Replaces the values of a message by `shown`; a last value after `got` is replaced unless `stays`
/// is true for it.
fn rewritten(
    message: &str,
    shown: impl Fn(&str) -> String,
    stays: impl Fn(&str) -> bool,
) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    loop {
        let next = VALUE_FOLLOWS
            .iter()
            .filter_map(|marker| {
                Some((
                    rest.find(marker)?,
                    marker.trim_end_matches(['"', '`']).len(),
                ))
            })
            .min();
        let Some((at, length)) = next else { break };
        let (before, value) = rest.split_at(at + length);
        out.push_str(before);
        let (value, after) = value.split_at(end_of_value(value));
        out.push_str(&shown(value));
        rest = after;
    }
    // This value is the last part of its message; its end cannot be recognised by its content.
    match rest.find(", got ") {
        Some(at)
            if rest
                .get(..at)
                .is_some_and(|text| text.contains("expected "))
                && !rest.get(at..).is_some_and(&stays) =>
        {
            let (before, _) = rest.split_at(at);
            out.push_str(before);
            out.push_str(", got another kind");
        }
        _ => out.push_str(rest),
    }
    out
}

/// The position at which a value ends: a quoted value ends with its quote, any other before `: ` or
/// `, ` outside of brackets, or at the bracket that closes the whole list of errors.
fn end_of_value(text: &str) -> usize {
    if let Some(quoted) = text.strip_prefix('`') {
        return quoted.find('`').map_or(text.len(), |at| at + 2);
    }
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => {
                quoted = !quoted;
                if !quoted && depth == 0 && text.starts_with('"') {
                    return at + 1;
                }
            }
            _ if quoted => {}
            '{' | '[' | '(' => depth += 1,
            '}' | ')' | ']' if depth == 0 => return at,
            '}' | ')' | ']' => depth -= 1,
            ':' | ','
                if depth == 0 && text.get(at + 1..).is_none_or(|rest| rest.starts_with(' ')) =>
            {
                return at;
            }
            _ => {}
        }
    }
    text.len()
}

fn without_value(value: &str) -> String {
    if TYPES.contains(&value) {
        return value.to_owned();
    }
    match serde_json::from_str::<Value>(value) {
        Ok(value) => Shape(&value).to_string(),
        // The text is a string with Go's escapes, or a structure in the notation of Go.
        Err(_) => "a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_answer_is_not_quoted() {
        for (text, expected) in [
            ("x".repeat(1 << 20), ""),
            ("hunter2".to_owned(), "invalid type"),
        ] {
            let error = serde_json::from_str::<Vec<u8>>(&format!("\"{text}\"")).unwrap_err();
            let problem = parse_error(&error);
            assert!(
                problem.contains(expected) && !problem.contains(&text),
                "{problem}"
            );
            assert!(problem.len() <= MAX_PARSE_ERROR);
        }
    }

    #[test]
    fn short_plain_values_are_shown_and_others_are_redacted() {
        let long = format!("a: Invalid value: \"{}\": too long", "x".repeat(200));
        for (message, expected) in [
            (
                r#"metadata.name: Invalid value: "Bad_Name": must be lower case"#,
                r#"metadata.name: Invalid value: "Bad_Name": must be lower case"#,
            ),
            (
                r#"spec: Invalid value: core.Spec{A:1, B:"x"}: field is immutable"#,
                "spec: Invalid value: a value: field is immutable",
            ),
            (&*long, "a: Invalid value: a string of 200 bytes: too long"),
            (
                ".pin: expected string, got 31337",
                ".pin: expected string, got 31337",
            ),
            (
                ".pin: expected string, got &value.valueUnstructured{Value:31337}",
                ".pin: expected string, got another kind",
            ),
        ] {
            assert_eq!(with_short_values(message), expected);
        }
    }

    #[test]
    fn urls_are_shown_without_their_secrets() {
        for (url, expected) in [
            (
                "https://charts.example.com/a",
                "https://charts.example.com/a",
            ),
            (
                "https://me:hunter2@charts.example.com:8/a",
                "https://…@charts.example.com:8/a",
            ),
            ("oci://hunter2@a@b/c?token=hunter2#x", "oci://…@b/c?…"),
            ("https://a?hunter2/b@c", "https://a?…"),
            ("me:hunter2@a", "…@a"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), expected, "{url}");
        }
    }

    #[test]
    fn values_are_replaced_by_their_kind_and_length() {
        for (message, expected) in [
            (
                r#"Secret "s" is invalid: data[k]: Invalid value: "hunter2": must be short"#,
                r#"Secret "s" is invalid: data[k]: Invalid value: a string of 7 bytes: must be short"#,
            ),
            (
                r#"[a: Invalid value: -31337: must be >= 0, c: Duplicate value: {"a":"x, y","b":[1]}]"#,
                "[a: Invalid value: an integer: must be >= 0, c: Duplicate value: a map of 2 keys]",
            ),
            (
                r#"a: Unsupported value: "hun\"ter: 2": supported values: "A", "B""#,
                r#"a: Unsupported value: a string of 10 bytes: supported values: "A", "B""#,
            ),
            (
                r#"spec.l: Invalid value: map[string]string{"a":"hunter2: x, y"}: does not match"#,
                "spec.l: Invalid value: a value: does not match",
            ),
            (
                r#"spec.l: Invalid value: core.Spec{A:(*int)(nil), B:[]string{"hunter2"}}"#,
                "spec.l: Invalid value: a value",
            ),
            // For a wrong type, and for rules of custom resources, the server names the type.
            (
                r#"spec: Invalid value: "object": phases is immutable"#,
                r#"spec: Invalid value: "object": phases is immutable"#,
            ),
            (
                r#"spec.n: Invalid value: "hun\x00ter2": no"#,
                "spec.n: Invalid value: a value: no",
            ),
            (
                "failed to create typed patch object (a/b; /v1, Kind=Secret): .stringData.pin: expected string, \
                 got &value.valueUnstructured{Value:31337}",
                "failed to create typed patch object (a/b; /v1, Kind=Secret): .stringData.pin: expected string, \
                 got another kind",
            ),
            (
                r#"strconv.ParseInt: parsing "hunter2": invalid syntax"#,
                "strconv.ParseInt: parsing a string of 7 bytes: invalid syntax",
            ),
            (
                r#"parsing time "hunter2" as "2006": cannot parse"#,
                r#"parsing time a string of 7 bytes as "2006": cannot parse"#,
            ),
            // Keys of lists.
            (
                ".spec.ports[port=\"hunter2\",protocol=\"TCP\"].port: expected numeric (int or float), got \
                 &value.valueUnstructured{Value:\"hunter2\"}",
                ".spec.ports[port=a string of 7 bytes,protocol=\"TCP\"].port: expected numeric (int or float), \
                 got another kind",
            ),
            (
                ".metadata.finalizers[=\"hun]ter2\"]: .a[name=\"web\"] x=\"y\", \u{e4}[\u{e4}=\"z\"",
                ".metadata.finalizers[=a string of 8 bytes]: .a[name=\"web\"] x=\"y\", \u{e4}[\u{e4}=\"z\"",
            ),
            // Parsers of this program.
            (
                "invalid type: integer `31337`, expected a string at line 1 column 9",
                "invalid type: integer a value, expected a string at line 1 column 9",
            ),
            (
                "unknown variant `hunter2`, expected `Retain` or `Delete`",
                "unknown variant a value, expected `Retain` or `Delete`",
            ),
            // A value without an end reaches to the end of the message.
            (r#"a: Invalid value: "hunter2"#, "a: Invalid value: a value"),
            (r#"configmaps "a" not found"#, r#"configmaps "a" not found"#),
            ("", ""),
        ] {
            assert_eq!(without_values(message), expected);
        }
    }
}
