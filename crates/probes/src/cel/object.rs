//! Converts the parts of the live object that a rule reads.

use std::collections::{BTreeMap, HashMap};

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use serde_json::Value;

use crate::cel::ast::children;

/// The part of a value that a rule can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFields {
    All,
    Fields(BTreeMap<String, ReadFields>),
}

impl ReadFields {
    /// The part of `self` that a rule needs.
    ///
    /// A path of constant keys needs the value at its end; any other use needs the whole value.
    pub fn of(rule: &IdedExpr) -> Self {
        let mut need = Self::Fields(BTreeMap::new());
        need.visit(rule, false);
        need
    }

    fn visit(&mut self, node: &IdedExpr, shadowed: bool) {
        let mut path = Vec::new();
        if let Some(root) = root(node, &mut path) {
            if root == ".self" || (root == "self" && !shadowed) {
                path.reverse();
                self.add(&path);
            }
            return;
        }
        let Expr::Comprehension(loops) = &node.expr else {
            for child in children(node) {
                self.visit(child, shadowed);
            }
            return;
        };
        self.visit(&loops.iter_range, shadowed);
        self.visit(&loops.accu_init, shadowed);
        let inner = shadowed || loops.iter_var == "self";
        for part in [&loops.loop_cond, &loops.loop_step, &loops.result] {
            self.visit(part, inner);
        }
    }

    fn add(&mut self, path: &[&str]) {
        match (self, path) {
            (Self::All, _) => {}
            (need, []) => *need = Self::All,
            (Self::Fields(fields), [key, rest @ ..]) => fields
                .entry((*key).to_owned())
                .or_insert_with(|| Self::Fields(BTreeMap::new()))
                .add(rest),
        }
    }

    /// Converts the needed part of an object to a CEL value that borrows its strings.
    ///
    /// Integers become `int`; other numbers, and integers that are too large, become `double`.
    pub fn convert<'o>(&self, value: &'o Value) -> Box<dyn Val + 'o> {
        match value {
            Value::Null => Box::new(CelNull),
            Value::Bool(value) => Box::new(CelBool::from(*value)),
            Value::Number(number) => match number.as_i64() {
                Some(int) => Box::new(CelInt::from(int)),
                None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
            },
            Value::String(text) => Box::new(CelString::from(text.as_str())),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| Self::All.convert(item)).collect();
                Box::new(CelList::from(items))
            }
            Value::Object(object) => match self {
                Self::All => map(object.iter().map(|(key, value)| (key, self.convert(value)))),
                Self::Fields(fields) => map(fields.iter().filter_map(|(key, need)| {
                    let (key, value) = object.get_key_value(key)?;
                    Some((key, need.convert(value)))
                })),
            },
        }
    }
}

fn map<'o>(entries: impl Iterator<Item = (&'o String, Box<dyn Val + 'o>)>) -> Box<dyn Val + 'o> {
    let entries = entries.map(|(key, value)| (CelMapKey::from(key.as_str()), value));
    Box::new(CelMap::from(entries.collect::<HashMap<_, _>>()))
}

/// The variable at the root of a path of constant keys; the keys are added in reverse order.
fn root<'e>(node: &'e IdedExpr, path: &mut Vec<&'e str>) -> Option<&'e str> {
    match &node.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => {
            path.push(&select.field);
            root(&select.operand, path)
        }
        Expr::Call(call) if call.target.is_none() => {
            let (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [operand, key]) =
                (call.func_name.as_str(), call.args.as_slice())
            else {
                return None;
            };
            let Expr::Literal(LiteralValue::String(key)) = &key.expr else {
                return None;
            };
            path.push(key.inner());
            root(operand, path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cel::Env;
    use cel::Value as CelValue;
    use serde_json::json;

    use super::*;

    fn read_fields(rule: &str) -> ReadFields {
        ReadFields::of(&Env::stdlib().parser().parse(rule).unwrap())
    }

    /// Shows a need as JSON: `true` for the whole value.
    fn show(need: &ReadFields) -> Value {
        match need {
            ReadFields::All => json!(true),
            ReadFields::Fields(fields) => fields
                .iter()
                .map(|(key, need)| (key.clone(), show(need)))
                .collect(),
        }
    }

    #[test]
    fn rules_need_the_ends_of_their_paths() {
        for (rule, expected) in [
            ("true", json!({})),
            ("self.a == 1", json!({"a": true})),
            ("self.a.b == self.a.c", json!({"a": {"b": true, "c": true}})),
            (
                "self.status.replicas == self.spec.replicas",
                json!({"status": {"replicas": true}, "spec": {"replicas": true}}),
            ),
            // the use that needs more counts, in either order
            ("self.a == self.a.b", json!({"a": true})),
            ("self.a.b == self.a", json!({"a": true})),
            ("has(self.a.b) && self.a.b > 1", json!({"a": {"b": true}})),
            ("self['a']['b'] == 1", json!({"a": {"b": true}})),
            ("self.?a.b.hasValue()", json!({"a": {"b": true}})),
            ("self[?'a'].?b.hasValue()", json!({"a": {"b": true}})),
            (".self.a == 1", json!({"a": true})),
            // the value of an index is not analysed
            ("self.a[0].b == 1", json!({"a": true})),
            ("self.a[self.b] == 1", json!({"a": true, "b": true})),
            ("self.a.b.size() == 1", json!({"a": {"b": true}})),
            ("self.a.startsWith(self.b)", json!({"a": true, "b": true})),
            ("[self.a, self.b] == []", json!({"a": true, "b": true})),
            ("{self.a: self.b} == {}", json!({"a": true, "b": true})),
            ("T{a: self.b} == 1", json!({"b": true})),
            (
                "(self.x ? self.a : self.b).c == 1",
                json!({"x": true, "a": true, "b": true}),
            ),
            (
                "self.l.all(x, x.a == self.b)",
                json!({"l": true, "b": true}),
            ),
            // the whole object
            ("self == {}", json!(true)),
            ("'a' in self", json!(true)),
            ("self[self.a] == 1", json!(true)),
            ("self.exists(k, k == 'a')", json!(true)),
            ("dyn(self).a == 1", json!(true)),
            // a macro's variable hides self
            ("self.l.all(self, self.a == 1)", json!({"l": true})),
            (
                "self.l.all(self, .self.a == 1)",
                json!({"l": true, "a": true}),
            ),
            (
                "self.l.map(self, self) == self.m",
                json!({"l": true, "m": true}),
            ),
        ] {
            assert_eq!(show(&read_fields(rule)), expected, "{rule}");
        }
    }

    fn convert_for(rule: &str, object: &Value) -> Value {
        let value = read_fields(rule).convert(object);
        CelValue::try_from(&*value).unwrap().json().unwrap()
    }

    #[test]
    fn only_needed_fields_are_converted() {
        let object = json!({
            "metadata": {"name": "x", "managedFields": [1, 2, 3]},
            "spec": {"replicas": 1, "list": [{"a": 1}]},
            "status": "odd",
        });
        for (rule, expected) in [
            ("true", json!({})),
            (
                "self.metadata.name == 'x'",
                json!({"metadata": {"name": "x"}}),
            ),
            (
                "self.spec.list == []",
                json!({"spec": {"list": [{"a": 1}]}}),
            ),
            // absent fields are absent after the conversion, but their parents are present
            ("has(self.spec.other)", json!({"spec": {}})),
            ("has(self.other.x)", json!({})),
            // a path ends at a value that is no map
            ("self.status.replicas == 1", json!({"status": "odd"})),
            (
                "self.spec.list.x == 1",
                json!({"spec": {"list": [{"a": 1}]}}),
            ),
        ] {
            assert_eq!(convert_for(rule, &object), expected, "{rule}");
        }
        assert_eq!(convert_for("self == {}", &object), object);
    }

    #[test]
    fn json_types_become_cel_types() {
        for (value, ty) in [
            (json!(null), "null_type"),
            (json!(true), "bool"),
            (json!(1), "int"),
            (json!(-1), "int"),
            (json!(i64::MAX), "int"),
            (json!(i64::MIN), "int"),
            (json!(u64::MAX), "double"),
            (json!(1.0), "double"),
            (json!("a"), "string"),
            (json!([1]), "list"),
            (json!({"a": 1}), "map"),
        ] {
            assert_eq!(
                ReadFields::All.convert(&value).get_type().name(),
                ty,
                "{value}"
            );
        }
    }

    #[test]
    fn strings_are_borrowed() {
        let object = json!({"metadata": {"name": "a long name"}});
        let text = object.pointer("/metadata/name").unwrap().as_str().unwrap();
        let value = ReadFields::All.convert(&object);
        let map = value.downcast_ref::<CelMap>().unwrap();
        let metadata = map.inner().values().next().unwrap();
        let metadata = metadata.downcast_ref::<CelMap>().unwrap();
        let name = metadata.inner().values().next().unwrap();
        let name = name.downcast_ref::<CelString>().unwrap();
        assert!(std::ptr::eq(name.inner(), text));
    }
}
