//! Messages whose form is not known, about objects that are known.

use std::collections::BTreeSet;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::{Map, Value};

use super::without_parts;

/// The texts after which an admission webhook or policy speaks.
const DENIALS: [&str; 2] = ["denied the request: ", "denied request: "];

/// The texts after which the message of a rule of a definition follows.
const RULES: [&str; 3] = ["Invalid value: ", "Forbidden: ", "Required value: "];

/// Length in bytes of the shortest value that is removed. Shorter ones are parts of many words.
const SHORTEST: usize = 4;

/// Number of values up to which a message is searched for them. Otherwise it is not quoted.
const MOST_VALUES: usize = 4_000;

/// The text that replaces a value.
const REPLACEMENT: &str = "[value]";

/// A message of a server about these objects, without their values.
///
/// Texts of admission webhooks, of admission policies and of rules have no form. If one of the
/// objects is or contains a Secret, the text of a webhook or policy is not quoted. Otherwise the
/// values of the objects are removed: as they are, with escapes, in base64 and out of base64, in
/// upper and lower case, and each line of them. The message before that text stays as it is.
///
/// # Caveats
/// Values of less than four bytes stay, and so does everything else that a policy computes from
/// values of other objects than Secrets.
pub fn about(message: &str, objects: &[&Value]) -> String {
    let start = |markers: &[&str]| {
        let ends = markers
            .iter()
            .filter_map(|marker| Some(message.find(marker)? + marker.len()));
        ends.min()
    };
    let (denial, rule) = (start(&DENIALS), start(&RULES));
    let Some(at) = denial.into_iter().chain(rule).min() else {
        return message.to_owned();
    };
    let (before, text) = message.split_at(at);
    let mut values = Values::default();
    for object in objects {
        values.collect(object);
    }
    let is_too_much = values.texts.len() > MOST_VALUES;
    let hidden = match denial {
        Some(denial) if values.has_secret => Some((denial, " of a Secret")),
        _ => is_too_much.then_some((at, "")),
    };
    match hidden {
        Some((at, whose)) => {
            let (before, text) = message.split_at(at);
            let length = text.len();
            format!(
                "{before}a text of {length} bytes, not shown because it may contain values{whose}"
            )
        }
        None => format!("{before}{}", values.removed_from(text, denial.is_some())),
    }
}

/// The values of objects, in lower case.
#[derive(Default)]
struct Values {
    texts: BTreeSet<String>,
    names: BTreeSet<String>,
    has_secret: bool,
}

impl Values {
    /// Collects the texts and numbers of a value, except kinds and names of objects.
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(map) if map.contains_key("apiVersion") && map.contains_key("kind") => {
                self.collect_object(map);
            }
            Value::Object(map) => self.collect_fields(map),
            Value::Array(list) => list.iter().for_each(|value| self.collect(value)),
            Value::String(text) => self.add(text),
            Value::Number(number) => self.add(&number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Texts of the field `type` are words of the API, such as `Recreate`, and part of its messages.
    fn collect_fields(&mut self, map: &Map<String, Value>) {
        for (key, value) in map {
            if key != "type" || !value.is_string() {
                self.collect(value);
            }
        }
    }

    fn collect_object(&mut self, object: &Map<String, Value>) {
        self.has_secret |= object["kind"] == "Secret" && object["apiVersion"] == "v1";
        for (key, value) in object {
            match key.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" => {
                    for key in ["name", "namespace"] {
                        let name = value[key].as_str().map(str::to_ascii_lowercase);
                        self.names.extend(name);
                    }
                    self.collect(&value["annotations"]);
                }
                _ => self.collect(value),
            }
        }
    }

    fn add(&mut self, text: &str) {
        if self.texts.len() > MOST_VALUES {
            return;
        }
        self.add_forms(text);
        if let Ok(decoded) = BASE64_STANDARD.decode(text.trim())
            && let Ok(decoded) = String::from_utf8(decoded)
        {
            self.add_forms(&decoded);
        }
    }

    fn add_forms(&mut self, text: &str) {
        let trimmed = text.trim();
        if trimmed.len() < SHORTEST || ["true", "false"].contains(&trimmed) {
            return;
        }
        let escaped = Value::from(trimmed).to_string();
        let forms = [
            escaped[1..escaped.len() - 1].to_owned(),
            // The end of a text in base64 depends on the text after it.
            BASE64_STANDARD_NO_PAD.encode(text),
            BASE64_URL_SAFE_NO_PAD.encode(text),
        ];
        // A message may quote one line.
        let lines = trimmed.lines().map(str::trim).map(str::to_owned);
        let forms = forms.into_iter().chain(lines);
        let forms = forms.filter(|form| form.len() >= SHORTEST);
        self.texts
            .extend(forms.map(|form| form.to_ascii_lowercase()));
    }

    /// A text without the values. With `everywhere`, also within words; otherwise paths of fields
    /// stay, even if one of their keys is a value as well.
    fn removed_from(&self, text: &str, everywhere: bool) -> String {
        let lower = text.to_ascii_lowercase();
        let mut hidden = vec![false; text.len()];
        for value in self.texts.difference(&self.names) {
            for (at, _) in lower.match_indices(value.as_str()) {
                let end = at + value.len();
                let is_key = lower[..at].ends_with(['.', '[', '/'])
                    || lower[end..].starts_with(['.', '[', ':', '/']);
                if everywhere || !is_key {
                    hidden[at..end].fill(true);
                }
            }
        }
        without_parts(text, &hidden, REPLACEMENT)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
                          denied request: ";

    #[test]
    fn values_of_the_object_are_removed_from_texts_of_policies() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
            "data": {
                "password": "Hunter2", "encoded": "c2VzYW1lIG9wZW4=", "odd": "a\"b\\c", "home": "shop",
                "file": "first\nsecond: line\n", "pin": 123_456, "short": "on", "request": "request",
            },
        });
        for (text, expected) in [
            ("not on a Friday", "not on a Friday"),
            ("hunter2 is weak", "[value] is weak"),
            ("password=HUNTER2!", "password=[value]!"),
            ("got SHVudGVyMg== there", "got [value]== there"),
            ("'sesame open'", "'[value]'"),
            (r#"got "a\"b\\c""#, r#"got "[value]""#),
            ("line second: line", "line [value]"),
            ("pin 123456 is on for shop", "pin [value] is on for shop"),
        ] {
            assert_eq!(
                about(&format!("{POLICY}{text}"), &[&object]),
                format!("{POLICY}{expected}")
            );
        }
        // Other messages have known forms.
        let other = "the request has hunter2";
        assert_eq!(about(other, &[&object]), other);
        let rule =
            "[spec.request: Invalid value: \"object\": no hunter2, spec.request: Invalid value: b]";
        let expected =
            "[spec.request: Invalid value: \"object\": no [value], spec.request: Invalid value: b]";
        assert_eq!(about(rule, &[&object]), expected);
    }

    #[test]
    fn texts_about_secrets_are_not_quoted() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "aHVudGVyMg=="}});
        let outer =
            json!({"apiVersion": "x/v1", "kind": "X", "spec": {"objects": [{"object": secret}]}});
        for object in [&secret, &outer] {
            let text = about(&format!("{POLICY}2retnuh"), &[object]);
            let shown = "a text of 7 bytes, not shown because it may contain values of a Secret";
            assert_eq!(text, format!("{POLICY}{shown}"));
        }
        let rule = "data[k]: Invalid value: a string of 7 bytes: hunter2 is weak";
        let expected = "data[k]: Invalid value: a string of 7 bytes: [value] is weak";
        assert_eq!(about(rule, &[&secret]), expected);
    }

    #[test]
    fn a_text_about_too_many_values_is_not_quoted() {
        let many: Vec<_> = (0..MOST_VALUES)
            .map(|number| format!("value-{number}"))
            .collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": many});
        let text = about(&format!("{POLICY}value-3999"), &[&object]);
        let shown = "a text of 10 bytes, not shown because it may contain values";
        assert_eq!(text, format!("{POLICY}{shown}"));
    }
}
