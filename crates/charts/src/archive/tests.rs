use std::collections::BTreeMap;

use proptest::prelude::*;

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
            left_out: Vec::new(),
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

/// Aliases stand for a hundred times the text.
#[test]
fn a_description_that_expands_is_refused() {
    use std::fmt::Write as _;
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..7 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{list}]").unwrap();
    }
    let metadata = format!("name: a\nversion: '1'\n{bomb}");
    let refused = error(&[file("a/Chart.yaml", metadata.as_bytes())]);
    assert!(refused.ends_with(" bytes of memory"), "{refused}");
}

#[test]
fn archives_that_exceed_the_limits_are_refused() {
    let zeros = vec![0; 2 << 20];
    let big = [file("a/Chart.yaml", CHART), file("a/zeros", &zeros)];
    assert_eq!(check(&big), Err(Error::TooBig(1 << 20)));
    // More bytes behind the end of the archive.
    let mut trailing = pack(&[file("a/Chart.yaml", CHART)]);
    let mut more = GzEncoder::new(Vec::new(), Compression::best());
    Write::write_all(&mut more, &zeros).unwrap();
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

/// The files of an archive, archives of dependencies included.
fn unpacked(packed: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(packed));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if is_dependency(&path) {
            for (inner, content) in unpacked(&content) {
                files.insert(format!("{path}/{inner}"), content);
            }
        } else {
            files.insert(path, content);
        }
    }
    files
}

#[test]
fn helm_gets_the_files_that_were_read() {
    let long = format!("a/templates/{}/b.yaml", "x".repeat(80));
    let sub = pack(&[file("s/Chart.yaml", CHART), file("s/a", b"content")]);
    let packed = pack(&[
        ("a/", EntryType::Directory, b""),
        file("a/Chart.yaml", CHART),
        file(&long, b"a: b"),
        file("a/charts/s-1.tgz", &sub),
        file("a/empty", b""),
    ]);
    let mut copy = Vec::new();
    rewrite(packed.as_slice(), &limits(), &mut copy).unwrap();
    let expected = [
        ("a/Chart.yaml", CHART),
        ("a/charts/s-1.tgz/s/Chart.yaml", CHART),
        ("a/charts/s-1.tgz/s/a", b"content"),
        ("a/empty", b""),
        (&*long, b"a: b"),
    ];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.to_owned()));
    assert_eq!(unpacked(&copy), BTreeMap::from(expected));
    let mut again = Vec::new();
    rewrite(copy.as_slice(), &limits(), &mut again).unwrap();
    assert_eq!(again, copy, "a copy is its own copy");
}

/// Helm gets each schema as it was read, or not at all.
#[test]
fn schemas_with_external_references_are_left_out() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for (schema, expected) in [
        (
            r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#,
            Ok(Some(
                r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            )),
        ),
        (
            r#"{"$schema": "https://json-schema.org/draft/2020-12/schema"}"#,
            Ok(Some(
                r#"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"#,
            )),
        ),
        (
            r##"{"properties": {"a": {"$ref": "#/definitions/b"}}}"##,
            Ok(Some(r##"{"properties":{"a":{"$ref":"#/definitions/b"}}}"##)),
        ),
        (
            r#"{"description": "see http://example.com"}"#,
            Ok(Some(r#"{"description":"see http://example.com"}"#)),
        ),
        ("\u{feff}{}", Ok(Some("{}"))),
        // A program may read the first of two keys.
        (
            r##"{"$ref": "http://127.0.0.1/a", "$ref": "#"}"##,
            Ok(Some(r##"{"$ref":"#"}"##)),
        ),
        (r#"{"$schema": "http://json-schema.org.evil/a"}"#, Ok(None)),
        (r#"{"$schema": "http://json-schema.org/evil"}"#, Ok(None)),
        (r#"{"$schema": "file:///etc/passwd"}"#, Ok(None)),
        (r#"{"allOf": [{"$ref": "http://127.0.0.1/a"}]}"#, Ok(None)),
        ("\u{feff}{\"$ref\": \"file:///etc/passwd\"}", Ok(None)),
        (r#"{"$id": "file:///etc/", "$ref": "passwd"}"#, Ok(None)),
        (r#"{"$dynamicRef": "other"}"#, Ok(None)),
        ("no schema", Err(())),
        (r#"{"a": 1e999, "$ref": "http://127.0.0.1/a"}"#, Err(())),
        (r#"{"a": "\ud800", "$ref": "http://127.0.0.1/a"}"#, Err(())),
        (&deep, Err(())),
    ] {
        let sub = pack(&[
            file("s/Chart.yaml", CHART),
            file("s/values.schema.json", schema.as_bytes()),
        ]);
        let chart = file("a/Chart.yaml", CHART);
        for (item, path) in [
            (
                file("a/values.schema.json", schema.as_bytes()),
                "a/values.schema.json",
            ),
            (
                file("a/charts/sub/values.schema.json", schema.as_bytes()),
                "a/charts/sub/values.schema.json",
            ),
            (
                file("a/charts/s-1.tgz", &sub),
                "a/charts/s-1.tgz/s/values.schema.json",
            ),
        ] {
            let mut copy = Vec::new();
            let found = rewrite(pack(&[chart, item]).as_slice(), &limits(), &mut copy);
            let Ok(expected) = expected else {
                assert!(matches!(found, Err(Error::Schema(..))), "{schema}");
                continue;
            };
            let written = unpacked(&copy).remove(path);
            let written = written.map(|it| String::from_utf8(it).unwrap());
            assert_eq!(written.as_deref(), expected);
            assert_eq!(found.unwrap().left_out.is_empty(), expected.is_some());
        }
    }
    // A file of this name elsewhere is no schema.
    let other = file("a/files/values.schema.json", b"no schema");
    check(&[file("a/Chart.yaml", CHART), other]).unwrap();
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        inspect(bytes.as_slice(), &limits()).unwrap_err();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        Write::write_all(&mut packed, &bytes).unwrap();
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

/// A full disk is no fault of the archive, which would be removed.
#[test]
fn a_failed_write_is_distinguished_from_a_bad_archive() {
    struct Full(io::ErrorKind);
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let packed = pack(&[]);
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::FileTooLarge] {
        let found = rewrite(packed.as_slice(), &limits(), Full(kind));
        assert!(matches!(found, Err(Error::Write(_))), "{found:?}");
    }
}
