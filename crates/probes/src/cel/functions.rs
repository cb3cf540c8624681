//! The functions that a rule may call, and the selection of their overloads.
//!
//! The evaluator selects functions by the values at hand. Upstream refuses a rule of a wrong type
//! when it is compiled. For that the functions are declared here, as they are there: the standard
//! library, strings version 0 and the Kubernetes libraries for URLs, regular expressions and lists.
//! A rule cannot call other functions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::cel::types::Ty;

/// The functions that a rule may call. A leading dot marks member functions, whose first parameter
/// is the receiver.
///
/// A line with alternatives in braces declares one overload for each, in which `$` is the
/// alternative. Capital letters stand for any type. Operators are functions with the names that the
/// parser gives them; `@not_strictly_false` is part of the expansion of macros.
const DECLARATIONS: &str = "
_?_:_(bool, A, A) -> A
_&&_(bool, bool) -> bool
_||_(bool, bool) -> bool
!_(bool) -> bool
@not_strictly_false(bool) -> bool
_{==|!=}_(A, A) -> bool
_<_({bool|int|uint|double|string|bytes|duration|timestamp}, $) -> bool
_<=_({bool|int|uint|double|string|bytes|duration|timestamp}, $) -> bool
_>_({bool|int|uint|double|string|bytes|duration|timestamp}, $) -> bool
_>=_({bool|int|uint|double|string|bytes|duration|timestamp}, $) -> bool
@in(A, {list(A)|map(A, B)}) -> bool
_[_](list(A), int) -> A
_[_](map(A, B), A) -> B

_+_({int|uint|double|string|bytes|list(A)|duration}, $) -> $
_+_(timestamp, duration) -> timestamp
_+_(duration, timestamp) -> timestamp
_-_({int|uint|double|duration}, $) -> $
_-_(timestamp, duration) -> timestamp
_-_(timestamp, timestamp) -> duration
_{*|/}_(int, int) -> int
_{*|/}_(uint, uint) -> uint
_{*|/}_(double, double) -> double
_%_({int|uint}, $) -> $
-_({int|double}) -> $

type(A) -> type
dyn(A) -> dyn
bool({bool|string}) -> bool
int({int|uint|double|string|timestamp}) -> int
uint({uint|int|double|string}) -> uint
double({double|int|uint|string}) -> double
string({string|bool|int|uint|double|bytes|timestamp|duration}) -> string
bytes({bytes|string}) -> bytes
duration({duration|string}) -> duration
timestamp({timestamp|string|int}) -> timestamp

size({string|bytes|list(A)|map(A, B)}) -> int
.size({string|bytes|list(A)|map(A, B)}) -> int

.{contains|startsWith|endsWith|matches}(string, string) -> bool
matches(string, string) -> bool
.charAt(string, int) -> string
.{indexOf|lastIndexOf}(string, string) -> int
.{indexOf|lastIndexOf}(string, string, int) -> int
.{lowerAscii|upperAscii|trim}(string) -> string
.replace(string, string, string) -> string
.replace(string, string, string, int) -> string
.split(string, string) -> list(string)
.split(string, string, int) -> list(string)
.substring(string, int) -> string
.substring(string, int, int) -> string
.join(list(string)) -> string
.join(list(string), string) -> string

.find(string, string) -> string
.findAll(string, string) -> list(string)
.findAll(string, string, int) -> list(string)

.{indexOf|lastIndexOf}(list(A), A) -> int
.isSorted(list({bool|int|uint|double|string|bytes|duration|timestamp})) -> bool
.min(list({bool|int|uint|double|string|bytes|duration|timestamp})) -> $
.max(list({bool|int|uint|double|string|bytes|duration|timestamp})) -> $
.sum(list({int|uint|double|duration})) -> $

url(string) -> kubernetes.URL
isURL(string) -> bool
.{getScheme|getHost|getHostname|getPort|getEscapedPath}(kubernetes.URL) -> string
.getQuery(kubernetes.URL) -> map(string, list(string))

.{getFullYear|getMonth|getDayOfYear|getDayOfMonth|getDate|getDayOfWeek}(timestamp) -> int
.{getFullYear|getMonth|getDayOfYear|getDayOfMonth|getDate|getDayOfWeek}(timestamp, string) -> int
.{getHours|getMinutes|getSeconds|getMilliseconds}(timestamp) -> int
.{getHours|getMinutes|getSeconds|getMilliseconds}(timestamp, string) -> int
.{getHours|getMinutes|getSeconds|getMilliseconds}(duration) -> int

.hasValue(optional(A)) -> bool
.value(optional(A)) -> A
.orValue(optional(A), A) -> A
.or(optional(A), optional(A)) -> optional(A)
";

/// The types without parameters.
const NAMES: &str = "bool int uint double string bytes null duration timestamp type kubernetes.URL";

/// One signature of a function; a member function has its receiver as the first parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    pub member: bool,
    pub parameters: Vec<Ty>,
    pub result: Ty,
}

/// The result of a call of the name with these arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution {
    Undeclared,
    NoOverload,
    Result(Ty),
}

/// All overloads by function name.
pub static FUNCTIONS: LazyLock<BTreeMap<String, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
    let lines = DECLARATIONS.lines().filter(|line| !line.is_empty());
    for line in lines.flat_map(alternatives) {
        let (name, overload) =
            declaration(&line).expect("a test reads every declaration of this file");
        functions.entry(name).or_default().push(overload);
    }
    functions
});

/// Finds the overloads that accept these types.
///
/// `dyn` fits every parameter; if that leaves several overloads with different results, the result
/// is `dyn` too.
pub fn resolve(name: &str, member: bool, arguments: &[Ty]) -> Resolution {
    let Some(overloads) = FUNCTIONS.get(name) else {
        return Resolution::Undeclared;
    };
    let overloads = overloads
        .iter()
        .filter(|overload| overload.member == member);
    let mut results = overloads.filter_map(|overload| overload.result_for(arguments));
    match results.next() {
        None => Resolution::NoOverload,
        Some(first) if results.all(|other| other == first) => Resolution::Result(first),
        Some(_) => Resolution::Result(Ty::Dyn),
    }
}

impl Overload {
    fn result_for(&self, arguments: &[Ty]) -> Option<Ty> {
        if self.parameters.len() != arguments.len() {
            return None;
        }
        let mut bound = BTreeMap::new();
        let mut pairs = self.parameters.iter().zip(arguments);
        pairs
            .all(|(parameter, argument)| accepts(parameter, argument, &mut bound))
            .then(|| substitute(&self.result, &bound))
    }
}

fn accepts(parameter: &Ty, argument: &Ty, bound: &mut BTreeMap<char, Ty>) -> bool {
    match (parameter, argument) {
        (Ty::Param(name), argument) => {
            let joined = match bound.get(name) {
                Some(earlier) => earlier.join(argument),
                None => Some(argument.clone()),
            };
            joined.map(|ty| bound.insert(*name, ty)).is_some()
        }
        (_, Ty::Dyn | Ty::Free) => true,
        (Ty::List(parameter), Ty::List(argument))
        | (Ty::Optional(parameter), Ty::Optional(argument)) => accepts(parameter, argument, bound),
        (Ty::Map(key, value), Ty::Map(other_key, other_value)) => {
            accepts(key, other_key, bound) && accepts(value, other_value, bound)
        }
        (parameter, argument) => parameter == argument,
    }
}

fn substitute(ty: &Ty, bound: &BTreeMap<char, Ty>) -> Ty {
    match ty {
        Ty::Param(name) => bound.get(name).cloned().unwrap_or(Ty::Dyn),
        Ty::List(element) => Ty::list(substitute(element, bound)),
        Ty::Map(key, value) => Ty::map(substitute(key, bound), substitute(value, bound)),
        Ty::Optional(value) => Ty::optional(substitute(value, bound)),
        ty => ty.clone(),
    }
}

/// The lines that a line with alternatives stands for.
fn alternatives(line: &str) -> Vec<String> {
    let Some((start, after)) = line.split_once('}') else {
        return vec![line.to_owned()];
    };
    let (before, group) = start.split_once('{').unwrap_or_default();
    let line = |one: &str| format!("{before}{one}{}", after.replace('$', one));
    group.split('|').map(line).collect()
}

/// Reads one line of [`DECLARATIONS`].
fn declaration(line: &str) -> Option<(String, Overload)> {
    let (call, result) = line.split_once(" -> ")?;
    let (name, parameters) = call.strip_suffix(')')?.split_once('(')?;
    let overload = Overload {
        member: name.starts_with('.'),
        parameters: split(parameters).map(ty).collect::<Option<_>>()?,
        result: ty(result)?,
    };
    Some((name.trim_start_matches('.').to_owned(), overload))
}

/// Splits at the commas outside of parentheses.
fn split(arguments: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    arguments
        .split(move |c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        })
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
}

fn ty(text: &str) -> Option<Ty> {
    if let Some((name, rest)) = text.split_once('(') {
        let mut parameters = split(rest.strip_suffix(')')?).map(ty);
        let (first, second) = (parameters.next()??, parameters.next());
        return match (name, second) {
            ("list", None) => Some(Ty::list(first)),
            ("optional", None) => Some(Ty::optional(first)),
            ("map", Some(value)) => Some(Ty::map(first, value?)),
            _ => None,
        };
    }
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(name @ 'A'..='Z'), None) => Some(Ty::Param(name)),
        _ if text == "dyn" => Some(Ty::Dyn),
        _ => NAMES.split(' ').find(|name| *name == text).map(Ty::Named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::testing::declared;

    fn read(text: &str) -> Ty {
        ty(text).unwrap()
    }

    #[test]
    fn declarations_read_as_written() {
        for (line, name, member, parameters, result) in [
            (
                "size(string) -> int",
                "size",
                false,
                vec![Ty::Named("string")],
                Ty::Named("int"),
            ),
            (
                ".isSorted(list(int)) -> bool",
                "isSorted",
                true,
                vec![Ty::list(Ty::Named("int"))],
                Ty::BOOL,
            ),
            (
                "_[_](map(A, list(B)), A) -> list(B)",
                "_[_]",
                false,
                vec![
                    Ty::map(Ty::Param('A'), Ty::list(Ty::Param('B'))),
                    Ty::Param('A'),
                ],
                Ty::list(Ty::Param('B')),
            ),
            ("now() -> dyn", "now", false, vec![], Ty::Dyn),
            (
                ".value(optional(A)) -> A",
                "value",
                true,
                vec![Ty::optional(Ty::Param('A'))],
                Ty::Param('A'),
            ),
        ] {
            let overload = Overload {
                member,
                parameters,
                result,
            };
            assert_eq!(
                declaration(line),
                Some((name.to_owned(), overload)),
                "{line}"
            );
        }
    }

    #[test]
    fn each_alternative_of_a_declaration_becomes_a_line() {
        for (line, lines) in [
            ("_||_(bool, bool) -> bool", vec!["_||_(bool, bool) -> bool"]),
            (
                "-_({int|double}) -> $",
                vec!["-_(int) -> int", "-_(double) -> double"],
            ),
            (
                ".{f|g}(int) -> bool",
                vec![".f(int) -> bool", ".g(int) -> bool"],
            ),
        ] {
            assert_eq!(alternatives(line), lines, "{line}");
        }
    }

    #[test]
    fn mistakes_in_declarations_are_found() {
        for line in [
            "",
            "size(string)",
            "size string -> int",
            "size(text) -> int",
            "size(string) -> number",
            "size(list) -> int",
            "size(list(int, int)) -> int",
            "size(map(int)) -> int",
            "size(set(int)) -> int",
        ] {
            assert_eq!(declaration(line), None, "{line}");
        }
    }

    #[test]
    fn every_declaration_reads_and_none_repeats() {
        let all = declared();
        assert!(all.len() > 150, "{}", all.len());
        for (index, (name, member, parameters, _)) in all.iter().enumerate() {
            let repeated =
                all[index + 1..]
                    .iter()
                    .any(|(other, other_member, other_parameters, _)| {
                        (name, member, parameters) == (other, other_member, other_parameters)
                    });
            assert!(!repeated, "{name} {parameters:?}");
        }
    }

    #[test]
    fn calls_take_the_overload_that_fits() {
        for (name, member, arguments, result) in [
            ("_+_", false, vec!["int", "int"], "int"),
            ("_+_", false, vec!["string", "string"], "string"),
            ("_+_", false, vec!["timestamp", "duration"], "timestamp"),
            ("_-_", false, vec!["timestamp", "timestamp"], "duration"),
            ("_+_", false, vec!["list(int)", "list(int)"], "list(int)"),
            ("_<_", false, vec!["timestamp", "timestamp"], "bool"),
            ("_==_", false, vec!["list(int)", "list(int)"], "bool"),
            ("_?_:_", false, vec!["bool", "int", "int"], "int"),
            ("_[_]", false, vec!["list(string)", "int"], "string"),
            ("_[_]", false, vec!["map(string, int)", "string"], "int"),
            ("@in", false, vec!["int", "list(int)"], "bool"),
            ("@in", false, vec!["string", "map(string, int)"], "bool"),
            ("size", false, vec!["map(string, int)"], "int"),
            ("size", true, vec!["string"], "int"),
            ("getHours", true, vec!["timestamp", "string"], "int"),
            ("getHours", true, vec!["duration"], "int"),
            ("sum", true, vec!["list(duration)"], "duration"),
            ("min", true, vec!["list(timestamp)"], "timestamp"),
            ("indexOf", true, vec!["list(list(int))", "list(int)"], "int"),
            ("orValue", true, vec!["optional(int)", "int"], "int"),
            (
                "or",
                true,
                vec!["optional(int)", "optional(int)"],
                "optional(int)",
            ),
        ] {
            let types: Vec<Ty> = arguments.iter().map(|text| read(text)).collect();
            assert_eq!(
                resolve(name, member, &types),
                Resolution::Result(read(result)),
                "{name} {arguments:?}"
            );
        }
    }

    #[test]
    fn dyn_fits_everywhere() {
        for (name, member, arguments, result) in [
            // one overload is left
            ("_+_", false, vec!["dyn", "int"], "int"),
            ("sum", true, vec!["list(int)"], "int"),
            // all remaining overloads have the same result
            ("_<_", false, vec!["dyn", "dyn"], "bool"),
            ("indexOf", true, vec!["dyn", "string"], "int"),
            ("size", true, vec!["dyn"], "int"),
            // the remaining overloads have different results
            ("_+_", false, vec!["dyn", "dyn"], "dyn"),
            ("_-_", false, vec!["timestamp", "dyn"], "dyn"),
            ("sum", true, vec!["dyn"], "dyn"),
            ("max", true, vec!["list(dyn)"], "dyn"),
            // the result is that of a parameter
            ("_?_:_", false, vec!["bool", "int", "dyn"], "dyn"),
            ("_?_:_", false, vec!["dyn", "int", "int"], "int"),
            ("_[_]", false, vec!["dyn", "string"], "dyn"),
            ("_+_", false, vec!["list(int)", "list(dyn)"], "list(dyn)"),
            ("orValue", true, vec!["optional(dyn)", "int"], "dyn"),
        ] {
            let types: Vec<Ty> = arguments.iter().map(|text| read(text)).collect();
            assert_eq!(
                resolve(name, member, &types),
                Resolution::Result(read(result)),
                "{name} {arguments:?}"
            );
        }
    }

    #[test]
    fn calls_without_a_matching_overload_are_refused() {
        for (name, member, arguments) in [
            ("_+_", false, vec!["int", "double"]),
            ("_+_", false, vec!["int"]),
            ("_<_", false, vec!["int", "double"]),
            ("_<_", false, vec!["list(int)", "list(int)"]),
            ("_==_", false, vec!["int", "string"]),
            ("_==_", false, vec!["list(int)", "list(string)"]),
            ("_%_", false, vec!["double", "double"]),
            ("_?_:_", false, vec!["bool", "int", "string"]),
            ("_?_:_", false, vec!["int", "int", "int"]),
            ("_[_]", false, vec!["list(int)", "string"]),
            ("@in", false, vec!["int", "list(string)"]),
            ("!_", false, vec!["int"]),
            ("-_", false, vec!["uint"]),
            ("isSorted", true, vec!["list(list(int))"]),
            ("sum", true, vec!["list(string)"]),
            // a function called as a member, or the reverse
            ("startsWith", false, vec!["string", "string"]),
            ("int", true, vec!["string"]),
        ] {
            let types: Vec<Ty> = arguments.iter().map(|text| read(text)).collect();
            assert_eq!(
                resolve(name, member, &types),
                Resolution::NoOverload,
                "{name} {arguments:?}"
            );
        }
    }

    #[test]
    fn functions_of_other_libraries_are_undeclared() {
        for name in [
            "format", "reverse", "quote", "distinct", "sort", "slice", "flatten", "now", "max2",
            "quantity", "ip", "cidr", "semver", "optMap",
        ] {
            for member in [true, false] {
                assert_eq!(resolve(name, member, &[Ty::Dyn]), Resolution::Undeclared);
            }
        }
    }
}
