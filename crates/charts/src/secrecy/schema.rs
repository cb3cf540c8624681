//! Errors of schemas of values: paths and rules are public, values are not.

use baton_engine::redact::excerpt::Excerpt;

/// Phrases of rules that follow a value, or stand alone.
const PHRASES: [&str; 11] = [
    "values don't meet the specifications of the schema(s) in the following chart(s):",
    "validation failed",
    "none matched",
    "is not valid",
    "does not match pattern",
    "minimum:",
    "maximum:",
    "exclusiveMinimum:",
    "exclusiveMaximum:",
    "multipleOf:",
    "false schema",
];

/// Starts of rules that contain no values but names of fields, types, lengths, and texts of the
/// schema.
const WHOLE: [&str; 14] = [
    "missing property ",
    "missing properties ",
    "additional properties ",
    "value must be ",
    "minLength: ",
    "maxLength: ",
    "minItems: ",
    "maxItems: ",
    "minProperties: ",
    "maxProperties: ",
    "got null, want ",
    "got string, want ",
    "got number, want ",
    "got boolean, want ",
];

/// Starts of rules about maps and lists, which contain types only.
const TYPES: [&str; 3] = [
    "got object, want ",
    "got array, want ",
    "got integer, want ",
];

/// Names of rules that fail as a whole.
const RULES: [&str; 8] = [
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "const",
    "contains",
    "propertyNames",
    "if",
];

/// Shows the public parts of the errors of schemas.
pub fn show(excerpt: &mut Excerpt<'_>) {
    for phrase in PHRASES {
        excerpt.show_text(phrase);
    }
    let mut start = 0;
    for line in excerpt.message().split_inclusive('\n') {
        show_line(excerpt, start, line.trim_end());
        start += line.len();
    }
}

fn show_line(excerpt: &mut Excerpt<'_>, start: usize, line: &str) {
    let indent = line.len() - line.trim_start().len();
    let Some(path) = line[indent..].strip_prefix("- at '") else {
        return;
    };
    let Some(end) = end_of_path(path) else {
        return;
    };
    let rule = line.len() - path.len() + end + "': ".len();
    excerpt.show(start + indent..start + rule);
    let text = &line[rule..];
    let is_whole = |starts: &[&str]| starts.iter().any(|begin| text.starts_with(begin));
    let is_rule = |name: &&str| text.starts_with(&format!("'{name}' failed"));
    if is_whole(&WHOLE) || is_whole(&TYPES) || RULES.iter().any(is_rule) {
        excerpt.show(start + rule..start + line.len());
    }
    // The pattern is the last part, and the limit of a number as well.
    for last in [" does not match pattern ", ", want "] {
        if let Some(at) = text.rfind(last) {
            excerpt.show(start + rule + at..start + line.len());
        }
    }
}

/// The position of the quote that ends a path; quotes within it are escaped.
fn end_of_path(path: &str) -> Option<usize> {
    let ends = path.match_indices("': ").map(|(at, _)| at);
    ends.into_iter().find(|at| !path[..*at].ends_with('\\'))
}
