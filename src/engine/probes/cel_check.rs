//! Decides the type of a parsed rule before it ever runs.
//!
//! # Guarantees
//! A rule that passes only names variables and functions that exist, and evaluates to a bool
//! or fails. Rules that upstream's checker refuses are refused; the exceptions are in
//! [`check`]'s caveats.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr, SourceInfo, operators,
};
use thiserror::Error;

use super::cel_functions::{Resolution, resolve};
use super::cel_types::{TYPE_IDENTIFIERS, Ty};

/// What is wrong with a rule, and where if that is known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", position.map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default())]
pub struct TypeError {
    /// Line and column, from 1.
    position: Option<(usize, usize)>,
    message: String,
}

/// Infers the type of a rule over `self`.
///
/// # Errors
/// The first undeclared name, call that no overload takes, or literal that mixes types.
///
/// # Caveats
/// More lenient than upstream in that optional syntax (`self.?a`) and `existsOne` are known;
/// stricter in that `int(duration)`, `duration(int)`, message types such as
/// `google.protobuf.Timestamp` and comparisons of timestamps with null are not.
pub fn check(rule: &IdedExpr, source: &SourceInfo) -> Result<Ty, TypeError> {
    Checker {
        source,
        scopes: vec![("self".to_owned(), Ty::Dyn)],
    }
    .infer(rule)
}

struct Checker<'s> {
    source: &'s SourceInfo,
    /// Variables in scope, innermost last.
    scopes: Vec<(String, Ty)>,
}

impl Checker<'_> {
    fn infer(&mut self, node: &IdedExpr) -> Result<Ty, TypeError> {
        match &node.expr {
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Ident(name) => self.ident(node, name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => Err(self.error(node, undeclared(&message.type_name))),
            Expr::Unspecified => Err(self.error(node, "empty expression".to_owned())),
        }
    }

    fn ident(&self, node: &IdedExpr, name: &str) -> Result<Ty, TypeError> {
        // A leading dot looks the name up outside all macros.
        let found = match name.strip_prefix('.') {
            Some(name) => self.scopes.iter().take(1).find(|(known, _)| known == name),
            None => self.scopes.iter().rev().find(|(known, _)| known == name),
        };
        match found {
            Some((_, ty)) => Ok(ty.clone()),
            None if TYPE_IDENTIFIERS.contains(&name) => Ok(Ty::Named("type")),
            None => Err(self.error(node, undeclared(name))),
        }
    }

    fn select(&mut self, node: &IdedExpr, select: &SelectExpr) -> Result<Ty, TypeError> {
        let operand = self.infer(&select.operand)?;
        let field = self.field(node, &operand)?;
        Ok(if select.test { Ty::BOOL } else { field })
    }

    fn field(&self, node: &IdedExpr, operand: &Ty) -> Result<Ty, TypeError> {
        match operand {
            Ty::Dyn | Ty::Free => Ok(Ty::Dyn),
            Ty::Map(_, value) => Ok((**value).clone()),
            Ty::Optional(value) => self.field(node, value).map(Ty::optional),
            other => Err(self.error(
                node,
                format!("type '{other}' does not support field selection"),
            )),
        }
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Result<Ty, TypeError> {
        // A name nobody declared is the mistake to report, before those in its arguments.
        let optional = matches!(
            call.func_name.as_str(),
            operators::OPT_SELECT | operators::OPT_INDEX
        );
        let member = call.target.is_some();
        if !optional && resolve(&call.func_name, member, &[]) == Resolution::Undeclared {
            return Err(self.error(node, undeclared(&call.func_name)));
        }
        let mut types = Vec::new();
        for operand in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
            types.push(self.infer(operand)?);
        }
        match (call.func_name.as_str(), types.as_mut_slice()) {
            (operators::OPT_SELECT, [operand, _]) => self.field(node, operand).map(Ty::optional),
            (operators::OPT_INDEX, [operand, index]) => {
                let operand = unwrap_optional(operand);
                self.overload(node, operators::INDEX, false, &[operand, index.clone()])
                    .map(Ty::optional)
            }
            (operators::INDEX, [Ty::Optional(operand), index]) => {
                let arguments = [(**operand).clone(), index.clone()];
                self.overload(node, operators::INDEX, false, &arguments)
                    .map(Ty::optional)
            }
            _ => self.overload(node, &call.func_name, member, &types),
        }
    }

    fn overload(
        &self,
        node: &IdedExpr,
        name: &str,
        member: bool,
        arguments: &[Ty],
    ) -> Result<Ty, TypeError> {
        match resolve(name, member, arguments) {
            Resolution::Result(ty) => Ok(ty),
            Resolution::Undeclared => Err(self.error(node, undeclared(name))),
            Resolution::NoOverload => {
                let list = |types: &[Ty]| {
                    let texts: Vec<String> = types.iter().map(ToString::to_string).collect();
                    format!("({})", texts.join(", "))
                };
                let applied = match arguments {
                    [receiver, rest @ ..] if member => format!("{receiver}.{}", list(rest)),
                    all => list(all),
                };
                Err(self.error(
                    node,
                    format!("found no matching overload for '{name}' applied to '{applied}'"),
                ))
            }
        }
    }

    fn list(&mut self, list: &ListExpr) -> Result<Ty, TypeError> {
        let mut element = Ty::Free;
        for (index, node) in list.elements.iter().enumerate() {
            let mut ty = self.infer(node)?;
            if list.optional_indices.contains(&index) {
                ty = unwrap_optional(&ty);
            }
            element = self.join_elements(node, &element, &ty)?;
        }
        Ok(Ty::list(element))
    }

    fn map(&mut self, map: &MapExpr) -> Result<Ty, TypeError> {
        let (mut key, mut value) = (Ty::Free, Ty::Free);
        for entry in &map.entries {
            // Message literals, the other kind of entry, are no map literals.
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let next_key = self.infer(&entry.key)?;
            key = self.join_elements(&entry.key, &key, &next_key)?;
            let mut next_value = self.infer(&entry.value)?;
            if entry.optional {
                next_value = unwrap_optional(&next_value);
            }
            value = self.join_elements(&entry.value, &value, &next_value)?;
        }
        Ok(Ty::map(key, value))
    }

    fn join_elements(&self, node: &IdedExpr, known: &Ty, next: &Ty) -> Result<Ty, TypeError> {
        known
            .join_elements(next)
            .ok_or_else(|| self.error(node, format!("expected type '{known}' but found '{next}'")))
    }

    /// What `all`, `exists`, `exists_one`, `map` and `filter` expand to.
    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Result<Ty, TypeError> {
        let range = self.infer(&loops.iter_range)?;
        let item = match range {
            Ty::Dyn | Ty::Free => Ty::Dyn,
            Ty::List(element) => *element,
            Ty::Map(key, _) => *key,
            other => {
                return Err(self.error(
                    &loops.iter_range,
                    format!(
                        "expression of type '{other}' cannot be range of a comprehension \
                         (must be list, map, or dynamic)"
                    ),
                ));
            }
        };
        let start = self.infer(&loops.accu_init)?;
        let outer = self.scopes.len();
        self.scopes.push((loops.accu_var.clone(), start));
        self.scopes.push((loops.iter_var.clone(), item));
        self.infer(&loops.loop_cond)?;
        // The empty list that `map` starts with takes the type of what is appended.
        let step = self.infer(&loops.loop_step)?;
        self.scopes.truncate(outer);
        self.scopes.push((loops.accu_var.clone(), step));
        let result = self.infer(&loops.result)?;
        self.scopes.truncate(outer);
        Ok(result)
    }

    fn error(&self, node: &IdedExpr, message: String) -> TypeError {
        let position = self.source.offset_for(node.id).map(|(start, _)| {
            // Offsets count characters.
            let before = self.source.source.chars().take(start as usize);
            before.fold((1, 1), |(line, column), c| match c {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            })
        });
        TypeError { position, message }
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}'")
}

fn unwrap_optional(ty: &Ty) -> Ty {
    match ty {
        Ty::Optional(value) => (**value).clone(),
        other => other.clone(),
    }
}

fn literal_type(literal: &LiteralValue) -> Ty {
    Ty::Named(match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    })
}
