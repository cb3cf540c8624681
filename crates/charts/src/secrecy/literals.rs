//! Constant texts of a template.

/// Calls a function with all constant texts of at least two words: lines of literals, their parts
/// between the verbs of a format, and lines of the text outside of actions.
pub fn visit(template: &str, mut visit: impl FnMut(&str)) {
    let mut rest = template;
    while let Some((text, action)) = rest.split_once("{{") {
        lines(text, &mut visit);
        rest = literals(action, &mut visit);
    }
    lines(rest, &mut visit);
}

/// Visits the literals of an action, up to its end. Returns the text after it.
fn literals<'t>(action: &'t str, visit: &mut impl FnMut(&str)) -> &'t str {
    let mut rest = action;
    loop {
        let Some(at) = rest.find(['"', '`', '}', '/']) else {
            return "";
        };
        let (before, from) = rest.split_at(at);
        if let Some(after) = from.strip_prefix("}}") {
            return after;
        }
        if let Some(comment) = from.strip_prefix("/*")
            && let Some((_, after)) = comment.split_once("*/")
        {
            rest = after;
            continue;
        }
        let inner = &from[1..];
        rest = if from.starts_with('`')
            && let Some((raw, after)) = inner.split_once('`')
        {
            parts(raw, visit);
            after
        } else if from.starts_with('"')
            && !before.ends_with('\'')
            && let Some(end) = end_of_literal(inner)
        {
            parts(&unescaped(&inner[..end]), visit);
            &inner[end + 1..]
        } else {
            inner
        };
    }
}

/// The position of the quote that ends a literal.
fn end_of_literal(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let is_end = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        is_end.then_some(at)
    })
}

/// A literal without its escapes. Unusual escapes stay, so that such a text is not found.
fn unescaped(literal: &str) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut characters = literal.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            (other, false) => text.push(other),
        }
    }
    text
}

/// Visits the lines of the parts of a format between its verbs.
fn parts(format: &str, visit: &mut impl FnMut(&str)) {
    let mut start = 0;
    let mut from = 0;
    while let Some(at) = format[from..].find('%').map(|at| from + at) {
        let flags = |byte: &u8| byte.is_ascii_digit() || b"+-# .[]*".contains(byte);
        let verb = at + 1 + format[at + 1..].bytes().take_while(flags).count();
        from = at + 1;
        if let Some(letter) = format[verb..].chars().next()
            && (letter.is_ascii_alphabetic() || letter == '%')
        {
            lines(&format[start..at], visit);
            (start, from) = (verb + 1, verb + 1);
        }
    }
    lines(&format[start..], visit);
}

fn lines(text: &str, visit: &mut impl FnMut(&str)) {
    for line in text.lines().map(str::trim) {
        if line.split_whitespace().nth(1).is_some() {
            visit(line);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn constant_texts_of_templates_are_found() {
        let template = r#"a: plain text
{{- fail (printf "%q is \"too\" short: %5.2f for 100%% of\nall users" .x) -}}
{{/* "not this" }} */}}word {{ required `raw text` .a }} {{ .b | default "one" }}
last line"#;
        let mut found = Vec::new();
        super::visit(template, |text| found.push(text.to_owned()));
        let expected = [
            "a: plain text",
            "is \"too\" short:",
            "for 100",
            "all users",
            "raw text",
            "last line",
        ];
        assert_eq!(found, expected);
        for odd in [
            "{{",
            "{{ \"",
            "{{ ` }}",
            "}}",
            "{{ \"a b\\",
            "{{ printf \"a b %",
            "{{/* a b",
        ] {
            super::visit(odd, |_| {});
        }
    }
}
