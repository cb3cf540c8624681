//! Any response of a repository is either accepted or refused with an error, and an accepted response
//! is harmless.

use std::{
    io::{Read as _, Write as _},
    path::{Component, Path},
};

use flate2::{Compression, write::GzEncoder};

use crate::{Limits, archive::inspect, index::Index, manifests};

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

/// The input is tried as an index and as the output of helm.
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
    if let Ok(text) = str::from_utf8(input) {
        let _ = manifests::read(text, 1 << 20);
    }
}
