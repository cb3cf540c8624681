//! The comparison of two schemas of a version.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Cause, FieldStep};

type Object = Map<String, Value>;

/// Number of nested schemas that are compared. A server refuses deeper ones.
const MAX_DEPTH: usize = 100;

/// The fields that a server keeps in every object, whatever its schema.
pub(super) const IMPLIED: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Keywords about which nothing is validated.
const TEXTS: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// The formats that admit all values of their types.
const FREE_FORMATS: [&str; 4] = ["int64", "float", "double", "password"];

/// The comparison of two schemas, with what it has found.
#[derive(Default)]
pub(super) struct Comparison {
    /// True if the old definition keeps unknown fields everywhere.
    pub was_open: bool,
    /// True if the new definition keeps unknown fields everywhere.
    pub is_open: bool,
    /// True if the field `status` is not compared.
    pub leaves_status: bool,
    pub losses: Vec<(Vec<FieldStep>, Cause)>,
    /// New validation rules.
    pub rules: Vec<(Vec<FieldStep>, String)>,
    /// The field that is being compared.
    pub path: Vec<FieldStep>,
}

/// The values that the type of a schema admits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type<'a> {
    Any,
    IntOrString,
    Of(&'a str),
}

impl Type<'_> {
    fn of(schema: Option<&Object>) -> Type<'_> {
        let Some(schema) = schema else {
            return Type::Any;
        };
        match schema.get("type").and_then(Value::as_str) {
            Some(name) => Type::Of(name),
            None if flag(schema, "x-kubernetes-int-or-string") => Type::IntOrString,
            None => Type::Any,
        }
    }

    /// True if every value of the other type has this type.
    fn includes(self, other: Self) -> bool {
        match (other, self) {
            (_, Type::Any) | (Type::Of("integer"), Type::Of("number")) => true,
            (Type::Of(name), Type::IntOrString) => matches!(name, "integer" | "string"),
            (other, own) => other == own,
        }
    }

    fn text(self) -> String {
        match self {
            Type::Any => "any".to_owned(),
            Type::IntOrString => "integer or string".to_owned(),
            Type::Of(name) => name.to_owned(),
        }
    }
}

/// The fields of an object that its schema does not name.
#[derive(Clone, Copy)]
enum Others<'a> {
    /// They are not stored.
    Pruned,
    /// They are stored, with any value.
    Kept,
    /// They are stored, with values of this schema.
    Of(&'a Object),
}

impl Comparison {
    /// Compares two schemas.
    pub fn run(&mut self, old: &Value, new: &Value) {
        if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
            self.compare(Some(old), new);
        }
    }

    fn lose(&mut self, cause: Cause) {
        self.losses.push((self.path.clone(), cause));
    }

    fn below(&mut self, step: FieldStep, old: Option<&Object>, new: &Object) {
        self.path.push(step);
        self.compare(old, new);
        self.path.pop();
    }

    /// Compares the schemas of a field; `old` is `None` if it had no schema and admitted all values.
    fn compare(&mut self, old: Option<&Object>, new: &Object) {
        if self.path.len() > MAX_DEPTH {
            if old != Some(new) {
                self.lose(Cause::TooDeep);
            }
            return;
        }
        let (was, is) = (Type::of(old), Type::of(Some(new)));
        if !is.includes(was) {
            self.lose(Cause::Type(was.text(), is.text()));
            return;
        }
        let none = Object::new();
        let before = old.unwrap_or(&none);
        if flag(before, "nullable") && !flag(new, "nullable") {
            self.lose(Cause::NotNullable);
        }
        for keyword in narrower(before, new) {
            self.lose(Cause::Narrower(keyword));
        }
        if let Some(default) = before.get("default")
            && new.get("default") != Some(default)
        {
            self.lose(Cause::Default(default.clone()));
        }
        self.compare_rules(before, new);
        self.compare_fields(old, new);
        if let Some(items) = new.get("items").and_then(Value::as_object) {
            let old_items = before.get("items").and_then(Value::as_object);
            self.below(FieldStep::Items, old_items, items);
        }
    }

    fn compare_fields(&mut self, old: Option<&Object>, new: &Object) {
        let none = Object::new();
        let before = old.unwrap_or(&none);
        let had = match old {
            None => Others::Kept,
            Some(old) => others(old, self.was_open),
        };
        let has = others(new, self.is_open);
        self.compare_old_fields(before, new, has);
        self.compare_new_fields(before, new, had);
        match (had, has) {
            (Others::Pruned, _) | (_, Others::Kept) => {}
            (Others::Kept, Others::Of(next)) => self.below(FieldStep::Values, None, next),
            (Others::Of(old), Others::Of(next)) => self.below(FieldStep::Values, Some(old), next),
            (_, Others::Pruned) => {
                let names = fields(new).into_iter().flatten().map(|(name, _)| name);
                let mut known: BTreeSet<String> = names.cloned().collect();
                if self.is_whole(new) {
                    known.extend(IMPLIED.map(str::to_owned));
                }
                self.lose(Cause::UnknownRemoved(known));
            }
        }
        self.compare_required(before, new);
    }

    /// True if the schema is that of a whole object.
    fn is_whole(&self, schema: &Object) -> bool {
        self.path.is_empty() || flag(schema, "x-kubernetes-embedded-resource")
    }

    /// True if a field is not compared.
    fn is_left(&self, schema: &Object, name: &str) -> bool {
        (self.is_whole(schema) && IMPLIED.contains(&name))
            || (self.path.is_empty() && self.leaves_status && name == "status")
    }

    /// Compares the fields of the old schema; `has` are the other fields of the new one.
    fn compare_old_fields(&mut self, old: &Object, new: &Object, has: Others<'_>) {
        for (name, field) in fields(old).into_iter().flatten() {
            let next = fields(new).and_then(|it| it.get(name));
            // A server refuses a schema that is no object.
            if self.is_left(new, name) || next.is_some_and(|next| !next.is_object()) {
                continue;
            }
            let step = FieldStep::Field(name.clone());
            match (next.and_then(Value::as_object), has) {
                (Some(next), _) | (None, Others::Of(next)) => {
                    self.below(step, field.as_object(), next);
                }
                (None, Others::Kept) => {}
                (None, Others::Pruned) => {
                    self.path.push(step);
                    self.lose(Cause::Removed(field.clone()));
                    self.path.pop();
                }
            }
        }
    }

    /// Compares the fields that only the new schema names; `had` are the other fields of the old
    /// one.
    fn compare_new_fields(&mut self, old: &Object, new: &Object, had: Others<'_>) {
        for (name, next) in fields(new).into_iter().flatten() {
            let is_known = fields(old).is_some_and(|it| it.contains_key(name));
            let Some(next) = next.as_object() else {
                continue;
            };
            if is_known || self.is_left(new, name) {
                continue;
            }
            let step = FieldStep::Field(name.clone());
            match had {
                Others::Pruned => {}
                Others::Kept => self.below(step, None, next),
                Others::Of(old) => self.below(step, Some(old), next),
            }
        }
    }

    fn compare_required(&mut self, old: &Object, new: &Object) {
        let required = |schema: &Object| -> BTreeSet<String> {
            let names = list(schema, "required").iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        for name in required(new).difference(&required(old)) {
            let field = fields(new).and_then(|it| it.get(name));
            let has_default = field.is_some_and(|field| field.get("default").is_some());
            if !has_default && !self.is_left(new, name) {
                self.lose(Cause::Required(name.clone()));
            }
        }
    }

    fn compare_rules(&mut self, old: &Object, new: &Object) {
        let keyword = "x-kubernetes-validations";
        let rule = |it: &Value| it.get("rule").and_then(Value::as_str).map(str::to_owned);
        let known: BTreeSet<String> = list(old, keyword).iter().filter_map(rule).collect();
        let added = list(new, keyword).iter().filter_map(rule);
        for rule in added.filter(|rule| !known.contains(rule)) {
            self.rules.push((self.path.clone(), rule));
        }
    }
}

/// The keywords by which a schema admits fewer values than the old one.
fn narrower<'a>(old: &'a Object, new: &'a Object) -> impl Iterator<Item = &'static str> {
    let mut found = Vec::new();
    let mut check = |keyword: &'static str, admits: fn(Option<&Value>, &Value) -> bool| {
        let next = new.get(keyword).filter(|it| !it.is_null());
        let next = next.filter(|next| old.get(keyword) != Some(next));
        if next.is_some_and(|next| !admits(old.get(keyword), next)) {
            found.push(keyword);
        }
    };
    check("enum", |old, new| {
        let values = |it: &Value| it.as_array().cloned().unwrap_or_default();
        let new = values(new);
        old.is_some_and(|old| values(old).iter().all(|value| new.contains(value)))
    });
    check("pattern", |_, _| false);
    check("format", |_, new| {
        new.as_str().is_some_and(|it| FREE_FORMATS.contains(&it))
    });
    check("minimum", |old, new| is_at_most(Some(new), old));
    for keyword in ["minLength", "minItems", "minProperties"] {
        check(keyword, |old, new| {
            new.as_u64() == Some(0) || is_at_most(Some(new), old)
        });
    }
    for keyword in ["maximum", "maxLength", "maxItems", "maxProperties"] {
        check(keyword, |old, new| is_at_most(old, Some(new)));
    }
    for keyword in ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems"] {
        check(keyword, |_, new| *new != Value::Bool(true));
    }
    check("x-kubernetes-embedded-resource", |_, new| {
        *new != Value::Bool(true)
    });
    check("multipleOf", |old, new| {
        match (old.and_then(Value::as_f64), new.as_f64()) {
            (Some(old), Some(new)) => new != 0.0 && (old / new).fract() == 0.0,
            (_, new) => new.is_none(),
        }
    });
    check("allOf", |old, new| {
        let known = plain_list(old);
        plain_list(Some(new)).iter().all(|it| known.contains(it))
    });
    check("anyOf", |old, new| {
        let (old, new) = (plain_list(old), plain_list(Some(new)));
        new.is_empty() || (!old.is_empty() && old.iter().all(|it| new.contains(it)))
    });
    for keyword in ["oneOf", "not"] {
        check(keyword, |old, new| old.map(plain) == Some(plain(new)));
    }
    found.into_iter()
}

/// True if both bounds exist and are in this order, or if the larger one cannot be read.
fn is_at_most(small: Option<&Value>, large: Option<&Value>) -> bool {
    let number = |it: Option<&Value>| it.and_then(Value::as_f64);
    match (number(small), number(large)) {
        (Some(small), Some(large)) => small <= large,
        _ => false,
    }
}

/// Alternatives without texts. The two types of `x-kubernetes-int-or-string` are left out, because
/// the type itself is compared.
fn plain_list(list: Option<&Value>) -> Vec<Value> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    let items: Vec<Value> = items.map(plain).collect();
    let types: BTreeSet<&str> = items
        .iter()
        .filter(|it| it.as_object().is_some_and(|it| it.len() == 1))
        .filter_map(|it| it.get("type")?.as_str())
        .collect();
    if items.len() == 2 && types == ["integer", "string"].into() {
        return Vec::new();
    }
    items
}

/// A schema without texts.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, value)| !TEXTS.contains(&name.as_str()) || !value.is_string());
            let kept = kept.map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn others(schema: &Object, is_open: bool) -> Others<'_> {
    match schema.get("additionalProperties") {
        Some(Value::Object(values)) => Others::Of(values),
        Some(Value::Bool(true)) => Others::Kept,
        _ if is_open || flag(schema, "x-kubernetes-preserve-unknown-fields") => Others::Kept,
        _ => Others::Pruned,
    }
}

fn fields(schema: &Object) -> Option<&Object> {
    schema.get("properties")?.as_object()
}

fn list<'a>(schema: &'a Object, field: &str) -> &'a [Value] {
    let found = schema.get(field).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

fn flag(schema: &Object, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

/// True if a value is what a server adds where a field is missing.
pub(super) fn is_default(schema: &Value, value: &Value) -> bool {
    let Some(default) = schema.get("default") else {
        return false;
    };
    if value == default {
        return true;
    }
    let (Some(value), Some(default)) = (value.as_object(), default.as_object()) else {
        return false;
    };
    value.iter().all(|(name, value)| {
        let field = schema.get("properties").and_then(|it| it.get(name));
        default.get(name) == Some(value) || field.is_some_and(|field| is_default(field, value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_a_default_if_each_part_is() {
        let schema = json!({ "default": { "a": 1 }, "properties": {
            "a": { "type": "integer" }, "b": { "default": "x" } } });
        for (value, expected) in [
            (json!({ "a": 1 }), true),
            (json!({ "a": 1, "b": "x" }), true),
            (json!({ "a": 1, "b": "y" }), false),
            (json!({ "a": 2 }), false),
            (json!("a"), false),
        ] {
            assert_eq!(is_default(&schema, &value), expected, "{value}");
        }
        assert!(!is_default(&json!({ "type": "string" }), &json!("x")));
    }
}
