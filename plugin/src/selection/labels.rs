//! The value of `-l`: a label selector.

use std::collections::BTreeSet;

use baton_engine::names::{is_label_value, is_subdomain};
use kube::core::{Expression, Selector};

/// Parses a selector in the syntax of kubectl: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`,
/// `!a`, separated by commas.
pub(crate) fn parse(text: &str) -> Result<Selector, String> {
    let mut parts = Vec::new();
    let (mut part, mut depth) = (String::new(), 0_usize);
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let expressions = parts.iter().map(|part| expression(part.trim()));
    expressions.collect()
}

fn expression(text: &str) -> Result<Expression, String> {
    let (key, expression) = if let Some(key) = text.strip_prefix('!') {
        let key = key.trim();
        (key, Expression::DoesNotExist(key.to_owned()))
    } else if let Some(open) = text.find('(') {
        of_set(text, open)?
    } else if let Some((key, value)) = text.split_once("!=") {
        let (key, value) = (key.trim(), checked(value)?);
        (key, Expression::NotEqual(key.to_owned(), value))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        let (key, value) = (key.trim(), checked(value)?);
        (key, Expression::Equal(key.to_owned(), value))
    } else {
        (text, Expression::Exists(text.to_owned()))
    };
    if is_key(key) {
        Ok(expression)
    } else {
        Err(format!("{key:?} is not the key of a label"))
    }
}

/// True for a name, with or without a domain and a slash before it.
fn is_key(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(is_subdomain)
}

/// Parses `key in (a,b)` or `key notin (a,b)`.
fn of_set(text: &str, open: usize) -> Result<(&str, Expression), String> {
    let malformed =
        || format!("{text:?} is not of the form KEY in (VALUE,...) or KEY notin (VALUE,...)");
    let (before, values) = text.split_at(open);
    let values = values
        .strip_prefix('(')
        .and_then(|values| values.strip_suffix(')'))
        .ok_or_else(malformed)?;
    let values: BTreeSet<String> = values.split(',').map(checked).collect::<Result<_, _>>()?;
    let mut words = before.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(key), Some("in"), None) => Ok((key, Expression::In(key.to_owned(), values))),
        (Some(key), Some("notin"), None) => Ok((key, Expression::NotIn(key.to_owned(), values))),
        _ => Err(malformed()),
    }
}

fn checked(value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() || is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("{value:?} is not the value of a label"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt as _;

    use super::*;

    #[test]
    fn selectors_are_those_of_kubectl() {
        for (text, labels, expected) in [
            ("app=web", "app=web", true),
            ("app==web", "app=web", true),
            ("app=web", "app=api", false),
            ("app=web", "", false),
            ("app!=web", "", true),
            ("app!=web", "app=web", false),
            ("app = web , tier=front", "app=web tier=front", true),
            ("app=web,tier=front", "app=web", false),
            ("app in (web, api)", "app=api", true),
            ("app in (web,api),tier", "app=api", false),
            ("app notin (web,api)", "app=db", true),
            ("app notin (web)", "", true),
            ("app notin (web)", "app=web", false),
            ("app", "app=", true),
            ("!app", "app=web", false),
            ("! app", "", true),
            ("app=", "app=", true),
            (
                "app.kubernetes.io/name=web",
                "app.kubernetes.io/name=web",
                true,
            ),
        ] {
            let labels: BTreeMap<String, String> = labels
                .split_whitespace()
                .filter_map(|label| label.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(
                parse(text).unwrap().matches(&labels),
                expected,
                "{text} of {labels:?}"
            );
        }
        for text in [
            "",
            "/a",
            "a/b/c",
            ",",
            "app=web,",
            "=web",
            "app=a b",
            "app in",
            "app in (a",
            "app of (a)",
            "in (a)",
            "app in (a) b",
            "a b",
            "app=(x)",
            "!",
            "app>1",
        ] {
            parse(text).unwrap_err();
        }
    }
}
