//! Static types of CEL expressions.

use std::fmt;

/// The static type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    /// The static type of `self` and its parts, whose real types are known only at evaluation.
    Dyn,
    /// The type of the elements of an empty literal. It fits into the type that the context
    /// requires.
    Free,
    /// A type with a name and no parameters.
    Named(&'static str),
    List(Box<Ty>),
    Map(Box<Ty>, Box<Ty>),
    Optional(Box<Ty>),
    /// A placeholder for any type in the declaration of a function.
    Param(char),
}

/// Identifiers that stand for a type, as in `type(self.x) == int`.
const TYPE_IDENTIFIERS: &str = "bool bytes double int list map null_type string type uint";

pub fn is_type_identifier(name: &str) -> bool {
    TYPE_IDENTIFIERS
        .split(' ')
        .any(|identifier| identifier == name)
}

impl Ty {
    pub const BOOL: Self = Self::Named("bool");

    pub fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// The type of an optional with this content. An optional type is returned as it is, because
    /// evaluation flattens an optional of an optional.
    pub fn optional(value: Self) -> Self {
        match value {
            Self::Optional(_) => value,
            value => Self::Optional(Box::new(value)),
        }
    }

    /// The type into which both types fit; `None` if there is none.
    pub fn join(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            (Self::Free, other) | (other, Self::Free) => other.clone(),
            (Self::List(a), Self::List(b)) => Self::list(a.join(b)?),
            (Self::Map(k, v), Self::Map(l, w)) => Self::map(k.join(l)?, v.join(w)?),
            (Self::Optional(a), Self::Optional(b)) => Self::optional(a.join(b)?),
            (a, b) if a == b => a.clone(),
            _ => return None,
        })
    }

    /// The type of the elements of a literal after one more: `self` is the type so far, `other`
    /// that of the new element. `None` if the literal is refused.
    ///
    /// All elements have one type. As upstream, `dyn` is a type of its own here: a literal cannot
    /// mix `1` with `self.x`.
    pub fn join_elements(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Dyn, Self::Dyn | Self::Free) | (Self::Free, Self::Dyn) => Some(Self::Dyn),
            (Self::Dyn, _) | (_, Self::Dyn) => None,
            (a, b) => a.join(b),
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Free => f.write_str("dyn"),
            Self::Named(name) => f.write_str(name),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(value) => write!(f, "optional({value})"),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRING: Ty = Ty::Named("string");
    const INT: Ty = Ty::Named("int");

    #[test]
    fn types_read_as_upstream_writes_them() {
        for (ty, text) in [
            (Ty::Dyn, "dyn"),
            (Ty::Free, "dyn"),
            (Ty::BOOL, "bool"),
            (Ty::Named("kubernetes.URL"), "kubernetes.URL"),
            (Ty::list(INT), "list(int)"),
            (Ty::list(Ty::list(Ty::Free)), "list(list(dyn))"),
            (Ty::map(STRING, Ty::list(INT)), "map(string, list(int))"),
            (Ty::optional(Ty::Dyn), "optional(dyn)"),
            (Ty::Param('A'), "A"),
        ] {
            assert_eq!(ty.to_string(), text);
        }
    }

    #[test]
    fn nested_optionals_are_flattened() {
        assert_eq!(Ty::optional(Ty::optional(INT)), Ty::optional(INT));
    }

    #[test]
    fn types_join_where_both_fit() {
        for (a, b, joined) in [
            (INT, INT, Some(INT)),
            (INT, STRING, None),
            (INT, Ty::Dyn, Some(Ty::Dyn)),
            (INT, Ty::Free, Some(INT)),
            (Ty::Dyn, Ty::Free, Some(Ty::Dyn)),
            (Ty::Free, Ty::Free, Some(Ty::Free)),
            (Ty::list(Ty::Free), Ty::list(INT), Some(Ty::list(INT))),
            (Ty::list(INT), Ty::list(Ty::Dyn), Some(Ty::list(Ty::Dyn))),
            (Ty::list(INT), Ty::list(STRING), None),
            (Ty::list(INT), INT, None),
            (Ty::list(INT), Ty::Dyn, Some(Ty::Dyn)),
            (
                Ty::map(STRING, Ty::Free),
                Ty::map(STRING, INT),
                Some(Ty::map(STRING, INT)),
            ),
            (Ty::map(STRING, INT), Ty::map(INT, INT), None),
            (Ty::map(STRING, INT), Ty::list(INT), None),
            (
                Ty::optional(Ty::Dyn),
                Ty::optional(INT),
                Some(Ty::optional(Ty::Dyn)),
            ),
            (Ty::optional(INT), INT, None),
        ] {
            assert_eq!(a.join(&b), joined, "{a} and {b}");
            assert_eq!(b.join(&a), joined, "{b} and {a}");
        }
    }

    #[test]
    fn literals_do_not_mix_known_and_unknown_types() {
        for (a, b, joined) in [
            (Ty::Dyn, Ty::Dyn, Some(Ty::Dyn)),
            (Ty::Free, Ty::Dyn, Some(Ty::Dyn)),
            (Ty::Free, INT, Some(INT)),
            (INT, INT, Some(INT)),
            (INT, Ty::Dyn, None),
            (INT, STRING, None),
            (Ty::list(Ty::Free), Ty::list(INT), Some(Ty::list(INT))),
        ] {
            assert_eq!(a.join_elements(&b), joined, "{a} and {b}");
            assert_eq!(b.join_elements(&a), joined, "{b} and {a}");
        }
    }
}
