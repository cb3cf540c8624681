//! Infers the type of a parsed rule, like upstream's checker.
//!
//! It is more lenient in that it accepts optional syntax (`self.?a`) and `existsOne`. It is
//! stricter in that it refuses `int(duration)`, `duration(int)`, message types such as
//! `google.protobuf.Timestamp`, and comparisons of timestamps with null.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
    SelectExpr, SourceInfo, operators,
};

use crate::cel::error::TypeError;
use crate::cel::functions::{Resolution, resolve};
use crate::cel::types::{Ty, is_type_identifier};

/// Returns an error for the first undeclared name, call without a matching overload, or literal of
/// mixed types.
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
        // A name with a leading dot is looked up outside of all macros.
        let found = match name.strip_prefix('.') {
            Some(name) => self
                .scopes
                .iter()
                .take(1)
                .find(|(declared, _)| declared == name),
            None => self
                .scopes
                .iter()
                .rev()
                .find(|(declared, _)| declared == name),
        };
        match found {
            Some((_, ty)) => Ok(ty.clone()),
            None if is_type_identifier(name) => Ok(Ty::Named("type")),
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
            other => {
                let message = format!("type '{other}' does not support field selection");
                Err(self.error(node, message))
            }
        }
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Result<Ty, TypeError> {
        // An undeclared name is reported first, before errors in its arguments.
        let (name, member) = (call.func_name.as_str(), call.target.is_some());
        let optional = matches!(name, operators::OPT_SELECT | operators::OPT_INDEX);
        if !optional && resolve(name, member, &[]) == Resolution::Undeclared {
            return Err(self.error(node, undeclared(name)));
        }
        let mut types = Vec::new();
        for operand in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
            types.push(self.infer(operand)?);
        }
        match (name, types.as_slice()) {
            (operators::OPT_SELECT, [operand, _]) => self.field(node, operand).map(Ty::optional),
            (operators::OPT_INDEX, [operand, index])
            | (operators::INDEX, [operand @ Ty::Optional(_), index]) => {
                let operand = unwrap_optional(operand);
                let arguments = [operand, index.clone()];
                let found = self.overload(node, operators::INDEX, false, &arguments);
                found.map(Ty::optional)
            }
            _ => self.overload(node, name, member, &types),
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
                let message =
                    format!("found no matching overload for '{name}' applied to '{applied}'");
                Err(self.error(node, message))
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
            // Message literals have the other kind of entry, and are no map literals.
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

    fn join_elements(&self, node: &IdedExpr, expected: &Ty, next: &Ty) -> Result<Ty, TypeError> {
        expected.join_elements(next).ok_or_else(|| {
            self.error(
                node,
                format!("expected type '{expected}' but found '{next}'"),
            )
        })
    }

    /// Infers the type of the expansion of `all`, `exists`, `exists_one`, `map` and `filter`.
    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Result<Ty, TypeError> {
        let range = self.infer(&loops.iter_range)?;
        let item = match range {
            Ty::Dyn | Ty::Free => Ty::Dyn,
            Ty::List(element) => *element,
            Ty::Map(key, _) => *key,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension \
                     (must be list, map, or dynamic)"
                );
                return Err(self.error(&loops.iter_range, message));
            }
        };
        let start = self.infer(&loops.accu_init)?;
        let outer = self.scopes.len();
        self.scopes.push((loops.accu_var.clone(), start));
        self.scopes.push((loops.iter_var.clone(), item));
        self.infer(&loops.loop_cond)?;
        // The empty list with which `map` starts has the type of the appended elements.
        let step = self.infer(&loops.loop_step)?;
        self.scopes.truncate(outer);
        self.scopes.push((loops.accu_var.clone(), step));
        let result = self.infer(&loops.result)?;
        self.scopes.truncate(outer);
        Ok(result)
    }

    fn error(&self, node: &IdedExpr, message: String) -> TypeError {
        let position = self.source.offset_for(node.id).map(|(start, _)| {
            let before = self.source.source.get(..start as usize).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let line = 1 + before.matches('\n').count();
            (line, 1 + before[line_start..].chars().count())
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

#[cfg(test)]
mod tests {
    use cel::Env;

    use super::*;

    fn parse(rule: &str) -> (IdedExpr, SourceInfo) {
        let parser = Env::stdlib().parser();
        parser.parse_with_source_info(rule).unwrap()
    }

    fn infer(rule: &str) -> Result<Ty, TypeError> {
        let (expression, source) = parse(rule);
        check(&expression, &source)
    }

    /// The expected error is the text, with or without its position.
    fn refused(rules: &[(&str, &str)]) {
        for (rule, message) in rules {
            let text = infer(rule).unwrap_err().to_string();
            let place = text.strip_suffix(message);
            assert!(
                place.is_some_and(|place| place.is_empty() || place.ends_with(": ")),
                "{rule}: {text}"
            );
        }
    }

    #[test]
    fn expressions_have_static_types() {
        for (rule, ty) in [
            // literals
            ("true", "bool"),
            ("1", "int"),
            ("1u", "uint"),
            ("1.0", "double"),
            ("'a'", "string"),
            ("b'a'", "bytes"),
            ("null", "null"),
            ("[]", "list(dyn)"),
            ("[1, 2]", "list(int)"),
            ("[[], [1]]", "list(list(int))"),
            ("{}", "map(dyn, dyn)"),
            ("{'a': 1}", "map(string, int)"),
            ("{1: ['a'], 2: []}", "map(int, list(string))"),
            ("[self.a, self.b]", "list(dyn)"),
            ("int", "type"),
            ("null_type", "type"),
            // self
            ("self", "dyn"),
            (".self", "dyn"),
            ("self.a.b", "dyn"),
            ("self['a'][0].b", "dyn"),
            ("has(self.a)", "bool"),
            ("self.?a", "optional(dyn)"),
            ("self.?a.b", "optional(dyn)"),
            ("self.?a.?b[0]", "optional(dyn)"),
            ("self[?'a']", "optional(dyn)"),
            ("self.?a.orValue(1)", "dyn"),
            ("self.?a.hasValue()", "bool"),
            ("has(self.?a.b)", "bool"),
            // operators
            ("self.a == 1", "bool"),
            ("self.a + 1", "int"),
            ("self.a + self.b", "dyn"),
            ("self.a && self.b", "bool"),
            ("!self.a", "bool"),
            ("-1.5", "double"),
            ("self.a ? 1 : 2", "int"),
            ("self.a ? 1 : self.b", "dyn"),
            ("1 in [1]", "bool"),
            ("'a' in self.m", "bool"),
            ("[1][0]", "int"),
            ("{'a': 1.5}['a']", "double"),
            ("{'a': 1.5}.a", "double"),
            ("{'a': 1.5}.?a", "optional(double)"),
            ("[1][?0]", "optional(int)"),
            ("[?self.?a, self.b]", "list(dyn)"),
            ("{?'a': self.?a}", "map(string, dyn)"),
            // functions
            ("size(self.a)", "int"),
            ("self.a.size()", "int"),
            ("dyn(1)", "dyn"),
            ("type(1)", "type"),
            ("timestamp(self.t) - timestamp(self.u)", "duration"),
            ("self.a.split(',')", "list(string)"),
            ("url(self.a)", "kubernetes.URL"),
            ("url(self.a).getQuery()['x']", "list(string)"),
            // macros
            ("self.l.all(x, x > 1)", "bool"),
            ("self.l.all(x, x)", "bool"),
            ("self.l.exists(x, self.m.exists(y, x == y))", "bool"),
            ("self.l.exists_one(x, x == 1)", "bool"),
            ("self.l.map(x, x.a)", "list(dyn)"),
            ("self.l.map(x, 1)", "list(int)"),
            ("[1].map(x, x)", "list(int)"),
            ("[1].map(x, [x])", "list(list(int))"),
            ("['a'].map(x, x.size())", "list(int)"),
            ("{'a': 1}.map(k, k)", "list(string)"),
            ("[1].filter(x, x > 0)", "list(int)"),
            ("[1].map(x, x > 0, x * 2).sum()", "int"),
            ("[].all(x, x.y)", "bool"),
            // a macro's variable hides self, but not from a leading dot
            ("[1].map(self, self)", "list(int)"),
            ("[1].map(self, .self)", "list(dyn)"),
        ] {
            let found = infer(rule).map(|ty| ty.to_string());
            assert_eq!(found.as_deref(), Ok(ty), "{rule}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        refused(&[
            ("foo", "1:1: undeclared reference to 'foo'"),
            ("self.a == foo.b", "1:11: undeclared reference to 'foo'"),
            (".foo == 1", "1:2: undeclared reference to '.foo'"),
            ("foo(1)", "undeclared reference to 'foo'"),
            ("foo(bar)", "undeclared reference to 'foo'"),
            ("self.a.foo()", "undeclared reference to 'foo'"),
            ("self.foo(bar)", "undeclared reference to 'foo'"),
            ("math.greatest(1, 2)", "undeclared reference to 'greatest'"),
            ("optional.of(1)", "undeclared reference to 'of'"),
            ("self.x.format([1])", "undeclared reference to 'format'"),
            ("Pod{name: 'x'}", "undeclared reference to 'Pod'"),
            ("[1].map(x, x) == [x]", "undeclared reference to 'x'"),
        ]);
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        refused(&[
            (
                "1 == 'a'",
                "found no matching overload for '_==_' applied to '(int, string)'",
            ),
            (
                "1 < 1.5",
                "found no matching overload for '_<_' applied to '(int, double)'",
            ),
            (
                "'a' + 1",
                "found no matching overload for '_+_' applied to '(string, int)'",
            ),
            (
                "!1",
                "found no matching overload for '!_' applied to '(int)'",
            ),
            (
                "1 in ['a']",
                "found no matching overload for '@in' applied to '(int, list(string))'",
            ),
            (
                "self.a ? 1 : 'a'",
                "found no matching overload for '_?_:_' applied to '(dyn, int, string)'",
            ),
            (
                "'1'.int()",
                "found no matching overload for 'int' applied to 'string.()'",
            ),
            (
                "[1].indexOf('a')",
                "found no matching overload for 'indexOf' applied to 'list(int).(string)'",
            ),
            (
                "size(1)",
                "found no matching overload for 'size' applied to '(int)'",
            ),
            (
                "self.?a == 1",
                "found no matching overload for '_==_' applied to '(optional(dyn), int)'",
            ),
        ]);
    }

    #[test]
    fn mixed_literals_and_wrong_fields_are_refused() {
        refused(&[
            ("1.foo", "type 'int' does not support field selection"),
            (
                "has('a'.b)",
                "type 'string' does not support field selection",
            ),
            (
                "[1].foo == 1",
                "type 'list(int)' does not support field selection",
            ),
            ("'a'.?b", "type 'string' does not support field selection"),
            (
                "1[?0]",
                "found no matching overload for '_[_]' applied to '(int, int)'",
            ),
            ("[1, 'a']", "expected type 'int' but found 'string'"),
            ("[1, self.a]", "expected type 'int' but found 'dyn'"),
            (
                "[[1], ['a']]",
                "expected type 'list(int)' but found 'list(string)'",
            ),
            ("{'a': 1, 2: 2}", "expected type 'string' but found 'int'"),
            (
                "{'a': 1, 'b': 'x'}",
                "expected type 'int' but found 'string'",
            ),
            (
                "1.all(x, true)",
                "expression of type 'int' cannot be range of a comprehension \
                 (must be list, map, or dynamic)",
            ),
            (
                "[1].all(x, 1)",
                "found no matching overload for '_&&_' applied to '(bool, int)'",
            ),
            (
                "[1].filter(x, 'a')",
                "found no matching overload for '_?_:_' applied to '(string, list(int), list(dyn))'",
            ),
            (
                "[1].map(x, x).all(y, y == 'a')",
                "found no matching overload for '_==_' applied to '(int, string)'",
            ),
        ]);
    }

    #[test]
    fn places_count_lines_and_characters() {
        for (rule, place) in [
            ("foo == 1", "1:1: "),
            ("1 == foo", "1:6: "),
            ("'ä' == foo", "1:8: "),
            ("true &&\n  foo", "2:3: "),
            ("true &&\n\n foo", "3:2: "),
        ] {
            let text = infer(rule).unwrap_err().to_string();
            assert_eq!(text, format!("{place}undeclared reference to 'foo'"));
        }
    }

    #[test]
    fn variables_of_macros_end_with_them() {
        for rule in [
            "[1].all(x, true) && x == 1",
            "[1].map(x, x).all(y, x == 1)",
            "[x].all(x, true)",
        ] {
            let text = infer(rule).unwrap_err().to_string();
            assert!(
                text.ends_with("undeclared reference to 'x'"),
                "{rule}: {text}"
            );
        }
    }
}
