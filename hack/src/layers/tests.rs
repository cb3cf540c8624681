use super::*;

const TEST_LAYERS: &[&[&str]] = &[
    &["crates/low", "crates/other"],
    &["src"],
    &["src/high"],
    &["src/main"],
];

fn found(files: &[(&str, &str)], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let sources = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    violations(&sources.collect(), TEST_LAYERS, exceptions)
}

#[test]
fn the_workspace_keeps_its_layers() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    if let Err(error) = check(workspace) {
        panic!("{error}");
    }
}

#[test]
fn imports_point_down() {
    let up = "src/low.rs: it uses src/high.rs, which is above it";
    let check = |text: &str, expected: &[&str]| {
        let files = [
            ("src/main.rs", "mod low;"),
            ("src/low.rs", text),
            ("src/high.rs", ""),
            ("src/high/a.rs", ""),
        ];
        assert_eq!(found(&files, &[]), expected, "{text}");
    };
    check("use crate::high::Thing;", &[up]);
    check(
        "pub(crate) use super::{\n    high::{self as top, Thing},\n};",
        &[up],
    );
    check("fn f() { crate::high::make() }", &[up]);
    check(
        "use crate::high::a::Thing;",
        &["src/low.rs: it uses src/high/a.rs, which is above it"],
    );
    check(
        "use crate::main_thing;",
        &["src/low.rs: it uses src/main.rs, which is above it"],
    );
    check("// crate::high\nuse std::high;\nuse baton_low::Thing;", &[]);
    check(
        "#[cfg(test)]\nmod tests {\n    use crate::high::Thing;\n}",
        &[],
    );
    let files = [
        ("src/low.rs", "#[cfg(test)]\nmod tests;"),
        ("src/low/tests.rs", "use crate::high::Thing;"),
        ("src/high.rs", "use crate::low;"),
    ];
    assert!(found(&files, &[]).is_empty(), "tests may use everything");
}

#[test]
fn crates_follow_the_order_of_layers() {
    let files = [
        ("crates/low/src/a.rs", "use baton_other::Thing;"),
        ("crates/other/src/lib.rs", ""),
    ];
    let expected = ["crates/low/src/a.rs: it uses crates/other, which is above it"];
    assert_eq!(found(&files, &[]), expected, "they are in the same layer");
    let files = [("crates/unknown/src/lib.rs", "")];
    let expected = ["crates/unknown/src/lib.rs: it is in no layer of hack/src/layers.rs"];
    assert_eq!(found(&files, &[]), expected);
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let circle = |from: &str, to: &str| {
        format!("src/{from}.rs: it uses src/{to}.rs, and is used by it, perhaps through others")
    };
    let three = [
        ("src/main.rs", ""),
        ("src/a.rs", "use crate::b::B;"),
        ("src/b.rs", "use super::c;"),
        ("src/c.rs", "use crate::{a::A};"),
        ("src/d.rs", "use crate::a::A;"),
    ];
    assert_eq!(
        found(&three, &[]),
        [circle("a", "b"), circle("b", "c"), circle("c", "a")]
    );
    let folder = [
        ("src/a.rs", "mod b;\nuse self::b::B;"),
        ("src/a/b.rs", "use super::A;\nuse crate::a::c::C;"),
        ("src/a/c.rs", "use super::A;"),
        ("src/main.rs", "use crate::a::A;"),
    ];
    assert!(
        found(&folder, &[]).is_empty(),
        "a folder's file and the files in the folder are one unit"
    );
    let siblings = [
        ("src/main.rs", ""),
        ("src/a.rs", ""),
        ("src/a/b.rs", "use super::c::C;"),
        ("src/a/c.rs", "use crate::a::{A, b::B};"),
    ];
    assert_eq!(
        found(&siblings, &[]),
        [circle("a/b", "a/c"), circle("a/c", "a/b")]
    );
}

#[test]
fn an_exception_without_an_import_is_an_error() {
    let mut files = [
        ("src/a.rs", "use crate::b::B;\nuse crate::high::Thing;"),
        ("src/b.rs", "use crate::a::A;"),
        ("src/high.rs", ""),
        ("src/main.rs", ""),
    ];
    let (circle, up) = (
        ("src/a.rs", "src/b.rs", ""),
        ("src/a.rs", "src/high.rs", ""),
    );
    assert!(found(&files, &[circle, up]).is_empty());
    assert_eq!(found(&files, &[up]).len(), 2, "both ways of the circle");
    let gone = ("src/b.rs", "src/high.rs", "");
    let fine = ("src/high.rs", "src/a.rs", "");
    let expected = |from: &str, to: &str| {
        format!("src/{from}.rs: it may use src/{to}.rs, take that out of hack/src/layers.rs")
    };
    assert_eq!(found(&files, &[circle, up, gone]), [expected("b", "high")]);
    files[2].1 = "use crate::a::A;";
    files[0].1 = "use crate::b::B;";
    assert_eq!(found(&files, &[circle, fine]), [expected("high", "a")]);
}
