//! Hands the live object to CEL, and no more of it than the rule reads.

use std::collections::{BTreeMap, HashMap};

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use serde_json::Value;

use super::cel_ast::children;

/// Which part of a value a rule can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Everything below.
    All,
    /// These fields.
    Fields(BTreeMap<String, Need>),
}

impl Need {
    /// What a rule needs of `self`.
    ///
    /// A path of constant keys needs what is at its end; any other mention needs everything.
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

    /// The needed part of an object as a CEL value that borrows its strings.
    ///
    /// Integers become `int`; numbers that are none, or too large for one, become `double`.
    pub fn convert<'o>(&self, value: &'o Value) -> Box<dyn Val + 'o> {
        let (Self::Fields(fields), Value::Object(object)) = (self, value) else {
            return convert(value);
        };
        let entries: HashMap<CelMapKey<'o>, Box<dyn Val + 'o>> = fields
            .iter()
            .filter_map(|(key, need)| {
                let (key, value) = object.get_key_value(key)?;
                Some((CelMapKey::from(key.as_str()), need.convert(value)))
            })
            .collect();
        Box::new(CelMap::from(entries))
    }
}

/// The variable at the root of a path of constant keys, which are pushed last key first.
fn root<'e>(node: &'e IdedExpr, path: &mut Vec<&'e str>) -> Option<&'e str> {
    match &node.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => {
            path.push(&select.field);
            root(&select.operand, path)
        }
        Expr::Call(CallExpr {
            func_name,
            target: None,
            args,
        }) => match (func_name.as_str(), args.as_slice()) {
            (
                operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT,
                [
                    operand,
                    IdedExpr {
                        expr: Expr::Literal(LiteralValue::String(key)),
                        ..
                    },
                ],
            ) => {
                path.push(key.inner());
                root(operand, path)
            }
            _ => None,
        },
        _ => None,
    }
}

fn convert<'o>(value: &'o Value) -> Box<dyn Val + 'o> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Box::new(CelInt::from(int)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => {
            Box::new(CelList::from(items.iter().map(convert).collect::<Vec<_>>()))
        }
        Value::Object(object) => {
            let entries: HashMap<CelMapKey<'o>, Box<dyn Val + 'o>> = object
                .iter()
                .map(|(key, value)| (CelMapKey::from(key.as_str()), convert(value)))
                .collect();
            Box::new(CelMap::from(entries))
        }
    }
}
