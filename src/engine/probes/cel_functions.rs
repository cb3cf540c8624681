//! The functions a rule may call, and which of their overloads a call takes.
//!
//! The evaluator finds functions by the values it meets. Upstream refuses a rule of the wrong
//! type when it is compiled, so the declarations live here, as they do there: the standard
//! library, strings version 0 and the Kubernetes libraries for URLs, regular expressions and
//! lists (contract section 1.3). What is not declared here cannot be called.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::cel_types::Ty;

/// What a rule may call: one overload per line, a leading dot marks the member functions, whose
/// first parameter is the receiver.
///
/// Capital letters stand for any type. Operators are functions under the names the parser
/// gives them; `@not_strictly_false` appears in what macros expand to.
const DECLARATIONS: &str = "
_?_:_(bool, A, A) -> A
_&&_(bool, bool) -> bool
_||_(bool, bool) -> bool
!_(bool) -> bool
@not_strictly_false(bool) -> bool
_==_(A, A) -> bool
_!=_(A, A) -> bool
@in(A, list(A)) -> bool
@in(A, map(A, B)) -> bool
_[_](list(A), int) -> A
_[_](map(A, B), A) -> B

_+_(int, int) -> int
_+_(uint, uint) -> uint
_+_(double, double) -> double
_+_(string, string) -> string
_+_(bytes, bytes) -> bytes
_+_(list(A), list(A)) -> list(A)
_+_(duration, duration) -> duration
_+_(timestamp, duration) -> timestamp
_+_(duration, timestamp) -> timestamp
_-_(int, int) -> int
_-_(uint, uint) -> uint
_-_(double, double) -> double
_-_(duration, duration) -> duration
_-_(timestamp, duration) -> timestamp
_-_(timestamp, timestamp) -> duration
_*_(int, int) -> int
_*_(uint, uint) -> uint
_*_(double, double) -> double
_/_(int, int) -> int
_/_(uint, uint) -> uint
_/_(double, double) -> double
_%_(int, int) -> int
_%_(uint, uint) -> uint
-_(int) -> int
-_(double) -> double

type(A) -> type
dyn(A) -> dyn
bool(bool) -> bool
bool(string) -> bool
int(int) -> int
int(uint) -> int
int(double) -> int
int(string) -> int
int(timestamp) -> int
uint(uint) -> uint
uint(int) -> uint
uint(double) -> uint
uint(string) -> uint
double(double) -> double
double(int) -> double
double(uint) -> double
double(string) -> double
string(string) -> string
string(bool) -> string
string(int) -> string
string(uint) -> string
string(double) -> string
string(bytes) -> string
string(timestamp) -> string
string(duration) -> string
bytes(bytes) -> bytes
bytes(string) -> bytes
duration(duration) -> duration
duration(string) -> duration
timestamp(timestamp) -> timestamp
timestamp(string) -> timestamp
timestamp(int) -> timestamp

size(string) -> int
size(bytes) -> int
size(list(A)) -> int
size(map(A, B)) -> int
.size(string) -> int
.size(bytes) -> int
.size(list(A)) -> int
.size(map(A, B)) -> int

.contains(string, string) -> bool
.startsWith(string, string) -> bool
.endsWith(string, string) -> bool
.matches(string, string) -> bool
matches(string, string) -> bool
.charAt(string, int) -> string
.indexOf(string, string) -> int
.indexOf(string, string, int) -> int
.lastIndexOf(string, string) -> int
.lastIndexOf(string, string, int) -> int
.lowerAscii(string) -> string
.upperAscii(string) -> string
.trim(string) -> string
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

.indexOf(list(A), A) -> int
.lastIndexOf(list(A), A) -> int
.sum(list(int)) -> int
.sum(list(uint)) -> uint
.sum(list(double)) -> double
.sum(list(duration)) -> duration

url(string) -> kubernetes.URL
isURL(string) -> bool
.getScheme(kubernetes.URL) -> string
.getHost(kubernetes.URL) -> string
.getHostname(kubernetes.URL) -> string
.getPort(kubernetes.URL) -> string
.getEscapedPath(kubernetes.URL) -> string
.getQuery(kubernetes.URL) -> map(string, list(string))

.getHours(duration) -> int
.getMinutes(duration) -> int
.getSeconds(duration) -> int
.getMilliseconds(duration) -> int

.hasValue(optional(A)) -> bool
.value(optional(A)) -> A
.orValue(optional(A), A) -> A
.or(optional(A), optional(A)) -> optional(A)
";

/// Types that have an order, and so `<` and `list(T).min()`.
const ORDERED: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];

/// Getters of a timestamp, in UTC or in the zone given.
const TIMESTAMP_GETTERS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

/// One way to call a function; a member function has its receiver as first parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Overload {
    member: bool,
    parameters: Vec<Ty>,
    result: Ty,
}

/// All overloads by function name.
type Functions = BTreeMap<String, Vec<Overload>>;

/// What a call of the name with these arguments yields.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution {
    /// No function has the name.
    Undeclared,
    /// None of its overloads takes the arguments.
    NoOverload,
    /// The type of the result.
    Result(Ty),
}

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
    let mut lines: Vec<String> = DECLARATIONS.lines().map(str::to_owned).collect();
    for ty in ORDERED {
        for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
            lines.push(format!("{operator}({ty}, {ty}) -> bool"));
        }
        lines.push(format!(".isSorted(list({ty})) -> bool"));
        lines.push(format!(".min(list({ty})) -> {ty}"));
        lines.push(format!(".max(list({ty})) -> {ty}"));
    }
    for getter in TIMESTAMP_GETTERS {
        lines.push(format!(".{getter}(timestamp) -> int"));
        lines.push(format!(".{getter}(timestamp, string) -> int"));
    }
    let mut functions = Functions::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let (name, overload) =
            declaration(line).expect("a test reads every declaration of this file");
        functions.entry(name).or_default().push(overload);
    }
    functions
});

/// Finds the overloads that take these types.
///
/// `dyn` fits everywhere; when that leaves several overloads with different results, the
/// result is `dyn` too.
pub fn resolve(name: &str, member: bool, arguments: &[Ty]) -> Resolution {
    let Some(overloads) = FUNCTIONS.get(name) else {
        return Resolution::Undeclared;
    };
    let mut results = overloads
        .iter()
        .filter(|overload| overload.member == member)
        .filter_map(|overload| overload.result_for(arguments));
    let Some(first) = results.next() else {
        return Resolution::NoOverload;
    };
    Resolution::Result(if results.all(|other| other == first) {
        first
    } else {
        Ty::Dyn
    })
}

impl Overload {
    fn result_for(&self, arguments: &[Ty]) -> Option<Ty> {
        if self.parameters.len() != arguments.len() {
            return None;
        }
        let mut bound = BTreeMap::new();
        self.parameters
            .iter()
            .zip(arguments)
            .all(|(parameter, argument)| accepts(parameter, argument, &mut bound))
            .then(|| substitute(&self.result, &bound))
    }
}

fn accepts(parameter: &Ty, argument: &Ty, bound: &mut BTreeMap<char, Ty>) -> bool {
    match (parameter, argument) {
        (Ty::Param(name), argument) => {
            let joined = match bound.get(name) {
                Some(known) => known.join(argument),
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

/// Reads one line of [`DECLARATIONS`].
fn declaration(line: &str) -> Option<(String, Overload)> {
    let (call, result) = line.split_once(" -> ")?;
    let (name, parameters) = call.strip_suffix(')')?.split_once('(')?;
    let member = name.starts_with('.');
    Some((
        name.trim_start_matches('.').to_owned(),
        Overload {
            member,
            parameters: split(parameters).map(ty).collect::<Option<_>>()?,
            result: ty(result)?,
        },
    ))
}

/// Splits at the commas that are in no parentheses.
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

/// The names of [`Ty::Named`].
const NAMES: [&str; 11] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "null",
    "duration",
    "timestamp",
    "type",
    "kubernetes.URL",
];

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
        _ => NAMES
            .iter()
            .find(|name| **name == text)
            .map(|name| Ty::Named(name)),
    }
}

/// All declarations as `(name, member, parameters, result)`, for tests of what implements them.
#[cfg(test)]
pub fn declared() -> Vec<(&'static str, bool, &'static [Ty], &'static Ty)> {
    FUNCTIONS
        .iter()
        .flat_map(|(name, overloads)| overloads.iter().map(move |overload| (name, overload)))
        .map(|(name, overload)| {
            let parameters = overload.parameters.as_slice();
            (name.as_str(), overload.member, parameters, &overload.result)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // all that are left agree
            ("_<_", false, vec!["dyn", "dyn"], "bool"),
            ("indexOf", true, vec!["dyn", "string"], "int"),
            ("size", true, vec!["dyn"], "int"),
            // they do not
            ("_+_", false, vec!["dyn", "dyn"], "dyn"),
            ("_-_", false, vec!["timestamp", "dyn"], "dyn"),
            ("sum", true, vec!["dyn"], "dyn"),
            ("max", true, vec!["list(dyn)"], "dyn"),
            // through a parameter
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
    fn other_calls_are_refused() {
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
            // the other way to call it
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
