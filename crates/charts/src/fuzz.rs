//! Any response of a repository is either accepted or refused with an error, and an accepted response
//! is harmless.

use std::{
    io::{Read as _, Write as _},
    path::{Component, Path},
};

use flate2::{Compression, write::GzEncoder};

use serde_json::Value;

use crate::{
    Limits,
    archive::{identity, inspect},
    index::Index,
    manifests,
};

/// The text that stands for `Q` in an input: a value that no message may contain.
const SECRET: &str = "Xyzzy4711";

/// Greatest length of a message in bytes, without the name of a template.
const MAX_MESSAGE: usize = 1000;

#[test]
fn accepted_archives_stay_in_their_folder() {
    bolero::check!(name = "archive")
        .with_iterations(300)
        .for_each(check_archive);
}

#[test]
fn indexes_are_read_or_refused_with_a_one_line_error() {
    bolero::check!(name = "index")
        .with_iterations(300)
        .for_each(check_index);
}

#[test]
fn metadata_of_charts_is_read_as_other_yaml_or_refused() {
    bolero::check!(name = "chart")
        .with_iterations(300)
        .for_each(check_metadata);
}

#[test]
fn renderings_are_read_as_other_yaml_or_refused() {
    bolero::check!(name = "rendering")
        .with_iterations(300)
        .for_each(check_rendering);
}

/// The input is an uncompressed archive, because random bytes are hardly ever a compressed one.
fn check_archive(input: &[u8]) {
    let limits = Limits {
        unpacked: 1 << 16,
        packed: 1 << 16,
        files: 50,
        ..Limits::default()
    };
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(input).unwrap();
    let packed = packed.finish().unwrap();
    let Ok(inspection) = inspect(packed.as_slice(), &limits) else {
        return;
    };
    assert!(!inspection.name.is_empty() && !inspection.version.is_empty());
    assert!(input.len() <= 1 << 16);
    let mut archive = tar::Archive::new(input);
    let mut metadata = 0;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let kind = entry.header().entry_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_pax_global_extensions());
        let path = entry.path().unwrap().into_owned();
        if kind.is_file() {
            assert!(is_inside(&path), "{}", path.display());
            metadata += usize::from(
                path.iter().skip_while(|part| *part == ".").count() == 2
                    && path.ends_with("Chart.yaml"),
            );
        }
        entry.read_to_end(&mut Vec::new()).unwrap();
    }
    assert_eq!(metadata, 1);
}

fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Fails if a message has several lines, or is too long, or quotes the secret.
fn assert_public(message: &str) {
    assert!(!message.contains(['\n', '\r']), "{message:?}");
    assert!(message.len() < MAX_MESSAGE, "{message:?}");
    assert!(!message.contains(SECRET), "{message:?}");
}

/// The input is a `Chart.yaml`.
fn check_metadata(input: &[u8]) {
    let input = String::from_utf8_lossy(input).replace('Q', SECRET);
    match identity(input.as_bytes()) {
        Ok((name, version)) => {
            assert!(!name.is_empty() && !version.is_empty());
            let read = baton_yaml::read(&input).swap_remove(0).unwrap().value;
            for (field, found) in [("name", name), ("version", version)] {
                let field = &read[field];
                let text = field
                    .as_str()
                    .map_or_else(|| field.to_string(), str::to_owned);
                assert_eq!(found, text);
            }
        }
        Err(error) => assert_public(&error.to_string()),
    }
}

/// The input is the output of helm.
fn check_rendering(input: &[u8]) {
    const MOST: usize = 1 << 20;
    let Ok(input) = str::from_utf8(input) else {
        return;
    };
    // Names of templates may be quoted.
    let lines = input.split_inclusive('\n').map(|line| {
        if line.starts_with("# Source: ") {
            line.to_owned()
        } else {
            line.replace('Q', SECRET)
        }
    });
    let printed: String = lines.collect();
    match manifests::read(&printed, MOST) {
        Ok((objects, bytes)) => {
            assert!(bytes <= MOST, "{bytes}");
            let size: usize = objects.iter().map(size).sum();
            assert!(size <= bytes, "{size} bytes, counted as {bytes}");
            if !printed.contains("# Source: ") {
                let read = baton_yaml::read(&printed).into_iter();
                let read = read.map(|document| document.unwrap().value);
                assert_eq!(objects, read.flat_map(manifests::flat).collect::<Vec<_>>());
            }
        }
        Err(why) => {
            let quoted = printed
                .lines()
                .filter_map(|line| line.strip_prefix("# Source: "));
            let longest = quoted.max_by_key(|name| name.len()).unwrap_or_default();
            assert!(why.starts_with("could not decode manifest: "), "{why}");
            if longest.len() < MAX_MESSAGE / 2 {
                assert_public(&why);
            }
        }
    }
}

/// Bytes that the content of a value takes at least.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items
            .iter()
            .map(|item| size_of::<Value>() + size(item))
            .sum(),
        Value::Object(entries) => {
            let entries = entries.iter();
            entries
                .map(|(key, value)| size_of::<(String, Value)>() + key.len() + size(value))
                .sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The input is tried as an index.
fn check_index(input: &[u8]) {
    match Index::parse(input, 1 << 20) {
        Ok(index) => {
            let kept = serde_json::to_vec(&index).unwrap();
            assert_eq!(serde_json::from_slice::<Index>(&kept).unwrap(), index);
            for (name, entries) in &index.charts {
                assert_eq!(index.versions(name).unwrap().len(), entries.len());
            }
        }
        Err(why) => {
            assert!(why.starts_with("failed to load index file: "), "{why}");
            assert!(
                !why.contains('\n') && why.len() < 1000 + input.len(),
                "{why}"
            );
        }
    }
}
