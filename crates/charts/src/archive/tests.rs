use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tar::{Builder, Header};

use super::*;

const CHART: &[u8] = b"apiVersion: v2\nname: nginx\nversion: 0.0.1\n";

/// An entry of an archive: path, type, content.
type Item<'a> = (&'a str, EntryType, &'a [u8]);

fn file<'a>(path: &'a str, content: &'a [u8]) -> Item<'a> {
    (path, EntryType::Regular, content)
}

fn pack(items: &[Item<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, kind, content) in items {
        let mut header = Header::new_gnu();
        // `set_path` would refuse the paths of an adversary.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn limits() -> Limits {
    Limits {
        unpacked: 1 << 20,
        packed: 1 << 18,
        files: 20,
        ..Limits::default()
    }
}

fn check(items: &[Item<'_>]) -> Result<Inspection, Error> {
    inspect(pack(items).as_slice(), &limits())
}

fn error(items: &[Item<'_>]) -> String {
    check(items).unwrap_err().to_string()
}

#[test]
fn a_chart_has_a_name_and_a_version() {
    let found = check(&[
        ("nginx/", EntryType::Directory, b""),
        file("nginx/Chart.yaml", CHART),
        file("nginx/templates/a.yaml", b"a: {{ b }}"),
        file(
            "nginx/charts/sub/Chart.yaml",
            b"name: sub\nversion: 9.9.9\n",
        ),
    ]);
    assert_eq!(
        found.unwrap(),
        Inspection {
            name: "nginx".into(),
            version: "0.0.1".into(),
            local_schemas: true,
        }
    );
    let found = check(&[file("./nginx/Chart.yaml", b"name: a\nversion: 1.5\n")]);
    assert_eq!(found.unwrap().version, "1.5");
}

#[test]
fn paths_that_lead_out_of_the_chart_are_refused() {
    for path in [
        "/etc/passwd",
        "../a",
        "nginx/../../a",
        "nginx/..",
        "..",
        "nginx//a",
        "nginx/./a",
        "nginx\\..\\a",
        "C:/a",
    ] {
        let expected = format!("{path:?} is not a path within a chart");
        let items = [file("nginx/Chart.yaml", CHART), file(path, b"")];
        assert_eq!(error(&items), expected);
    }
}

#[test]
fn entries_other_than_files_and_folders_are_refused() {
    for (kind, name) in [
        (EntryType::Symlink, "symbolic link"),
        (EntryType::Link, "hard link"),
        (EntryType::Char, "device"),
        (EntryType::Block, "device"),
        (EntryType::Fifo, "pipe"),
        (EntryType::Continuous, "special file of an unknown type"),
    ] {
        let items = [file("nginx/Chart.yaml", CHART), ("nginx/a", kind, b"")];
        let expected =
            format!("\"nginx/a\" is a {name}; a chart may contain only files and folders");
        assert_eq!(error(&items), expected);
    }
}

#[test]
fn an_archive_contains_exactly_one_chart() {
    for (items, expected) in [
        (&[][..], "Chart.yaml file is missing"),
        (&[file("nginx/a", b"")], "Chart.yaml file is missing"),
        (&[file("Chart.yaml", CHART)], "Chart.yaml file is missing"),
        (
            &[file("a/Chart.yaml", CHART), file("b/Chart.yaml", CHART)],
            "the archive has files in \"a\" and in \"b\"; a chart must be one folder",
        ),
        (
            &[
                file("a/Chart.yaml", CHART),
                file("a/Chart.yaml", b"name: b"),
            ],
            "\"a/Chart.yaml\" is in the archive twice",
        ),
        (
            &[file("a/Chart.yaml", b"name: a")],
            "cannot load Chart.yaml: chart.metadata.version is required",
        ),
        (
            &[file("a/Chart.yaml", b"version: '1'")],
            "cannot load Chart.yaml: chart.metadata.name is required",
        ),
        (
            &[file("a/Chart.yaml", b"- a")],
            "cannot load Chart.yaml: chart.metadata.name is required",
        ),
    ] {
        assert_eq!(error(items), expected);
    }
    assert!(error(&[file("a/Chart.yaml", b"a: [")]).starts_with("cannot load Chart.yaml: line "));
    assert!(error(&[file("a/Chart.yaml", b"\xff")]).starts_with("cannot load Chart.yaml: "));
}

#[test]
fn archives_that_exceed_the_limits_are_refused() {
    let zeros = vec![0; 2 << 20];
    let big = [file("a/Chart.yaml", CHART), file("a/zeros", &zeros)];
    assert_eq!(check(&big), Err(Error::TooBig(1 << 20)));
    // More bytes behind the end of the archive.
    let mut trailing = pack(&[file("a/Chart.yaml", CHART)]);
    let mut more = GzEncoder::new(Vec::new(), Compression::best());
    io::Write::write_all(&mut more, &zeros).unwrap();
    trailing.extend(more.finish().unwrap());
    assert_eq!(
        inspect(trailing.as_slice(), &limits()),
        Err(Error::TooBig(1 << 20))
    );
    let paths: Vec<_> = (0..30).map(|number| format!("a/{number}")).collect();
    let many: Vec<_> = paths.iter().map(|path| file(path, b"")).collect();
    assert_eq!(check(&many), Err(Error::TooMany(20)));
}

#[test]
fn archives_of_dependencies_are_checked_too() {
    let bad = pack(&[("sub/a", EntryType::Symlink, b"")]);
    let items = [file("a/Chart.yaml", CHART), file("a/charts/sub.tgz", &bad)];
    assert!(matches!(check(&items), Err(Error::Kind(..))));
    // The unpacked bytes of all dependencies count together.
    let zeros = vec![0; 400 << 10];
    let sub = pack(&[file("sub/Chart.yaml", CHART), file("sub/zeros", &zeros)]);
    let names: Vec<_> = (0..3)
        .map(|number| format!("a/charts/{number}.tgz"))
        .collect();
    let subs = names.iter().map(|name| file(name, &sub));
    let items: Vec<_> = [file("a/Chart.yaml", CHART)]
        .into_iter()
        .chain(subs)
        .collect();
    assert_eq!(check(&items), Err(Error::TooBig(1 << 20)));
    check(&items[..3]).unwrap();
    let mut nested = pack(&[file("a/Chart.yaml", CHART)]);
    for _ in 0..=MAX_DEPTH {
        nested = pack(&[file("a/Chart.yaml", CHART), file("a/charts/a.tgz", &nested)]);
    }
    assert_eq!(inspect(nested.as_slice(), &limits()), Err(Error::Nested));
}

#[test]
fn schemas_with_external_references_are_detected() {
    for (schema, local) in [
        (
            r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#,
            true,
        ),
        (
            r#"{"$schema": "https://json-schema.org/draft/2020-12/schema"}"#,
            true,
        ),
        (
            r##"{"properties": {"a": {"$ref": "#/definitions/b"}}}"##,
            true,
        ),
        (r#"{"description": "see http://example.com"}"#, true),
        ("no schema", true),
        (r#"{"$schema": "http://json-schema.org.evil/a"}"#, false),
        (r#"{"$schema": "file:///etc/passwd"}"#, false),
        (r#"{"allOf": [{"$ref": "http://127.0.0.1/a"}]}"#, false),
        (r#"{"$id": "file:///etc/", "$ref": "passwd"}"#, false),
        (r#"{"$dynamicRef": "other"}"#, false),
    ] {
        let schema = schema.as_bytes();
        for path in ["a/values.schema.json", "a/charts/sub/values.schema.json"] {
            let found = check(&[file("a/Chart.yaml", CHART), file(path, schema)]).unwrap();
            assert_eq!(
                found.local_schemas,
                local,
                "{}",
                String::from_utf8_lossy(schema)
            );
        }
        let sub = pack(&[
            file("s/Chart.yaml", CHART),
            file("s/values.schema.json", schema),
        ]);
        let items = [file("a/Chart.yaml", CHART), file("a/charts/s-1.tgz", &sub)];
        assert_eq!(check(&items).unwrap().local_schemas, local);
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        inspect(bytes.as_slice(), &limits()).unwrap_err();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::Write::write_all(&mut packed, &bytes).unwrap();
        inspect(packed.finish().unwrap().as_slice(), &limits()).unwrap_err();
    }

    #[test]
    fn a_damaged_archive_causes_no_panic(at in 0usize..200, byte in any::<u8>(), end in 0usize..200) {
        let mut bytes = pack(&[file("nginx/Chart.yaml", CHART), file("nginx/a", b"b")]);
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        bytes.truncate(bytes.len() - end.min(bytes.len()));
        let _ = inspect(bytes.as_slice(), &limits());
    }
}
