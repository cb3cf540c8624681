use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// An object of about `size` bytes of JSON.
fn object(number: u32, size: usize, content: u32) -> Entry {
    let key = ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "shop".to_owned(),
        name: format!("settings-{number}"),
    };
    let data = format!("{content:08x}").repeat(size / 8);
    let value = json!({"object": {"metadata": {"name": key.name}, "data": {"text": data}}});
    Entry::new(key, value)
}

fn sliced(entries: Vec<Entry>, limit: usize) -> Vec<Slice> {
    match split(vec![entries], limit).remove(0) {
        Packing::Sliced(slices) => slices,
        Packing::Inline(entries) => vec![entries],
    }
}

fn names(entries: Vec<Entry>, limit: usize) -> BTreeSet<String> {
    let slices = sliced(entries, limit);
    slices.iter().map(|slice| name("shop", slice)).collect()
}

fn size(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.size).sum()
}

#[test]
fn content_that_fits_is_not_cut() {
    let phases = || {
        vec![
            vec![object(1, 1000, 0)],
            vec![object(2, 1000, 0), object(3, 1000, 0)],
        ]
    };
    let total = phases().iter().map(|phase| size(phase)).sum();
    let inline: Vec<_> = phases().into_iter().map(Packing::Inline).collect();
    assert_eq!(split(phases(), total), inline);
    let cut = split(phases(), total - 1);
    assert!(
        cut.iter()
            .all(|content| matches!(content, Packing::Sliced(slices) if slices.len() == 1))
    );
}

#[test]
fn small_phases_are_not_cut_unless_they_are_too_many() {
    let small = || vec![object(0, 100, 0)];
    let big = || {
        (1..20)
            .map(|number| object(number, 1000, 0))
            .collect::<Vec<_>>()
    };
    let cut_small = |count| {
        let mut phases = vec![big()];
        phases.extend((0..count).map(|_| small()));
        let contents = split(phases, 8 * 1024);
        assert!(matches!(contents[0], Packing::Sliced(_)));
        matches!(contents[1], Packing::Sliced(_))
    };
    assert!(!cut_small(1));
    assert!(cut_small(100));
}

#[test]
fn an_object_that_exceeds_the_limit_is_alone() {
    let entries = vec![object(1, 100, 0), object(2, 5000, 0), object(3, 100, 0)];
    let slices = sliced(entries, 1024);
    let big: Vec<_> = slices.iter().filter(|slice| size(slice) > 1024).collect();
    assert_eq!(big.len(), 1);
    assert_eq!(big[0].len(), 1);
}

/// Slices in clusters have these names. With other names, all of them would be replaced by equal
/// ones.
#[test]
fn names_never_change() {
    let entries = (0..6).map(|number| object(number, 400, number)).collect();
    let names: Vec<_> = sliced(entries, 1024)
        .iter()
        .map(|slice| (name("shop", slice), slice.len()))
        .collect();
    insta::assert_debug_snapshot!(names);
}

#[test]
fn slices_are_reasonably_full() {
    for (objects, limit) in [(1000, 64 * 1024), (300, 128 * 1024), (1500, 256 * 1024)] {
        let entries: Vec<_> = (0..objects).map(|number| object(number, 2000, 0)).collect();
        let fewest = size(&entries).div_ceil(limit);
        let slices = sliced(entries, limit).len();
        assert!(
            slices <= 2 * fewest,
            "{objects}: {slices} instead of {fewest}"
        );
    }
}

/// A change of the objects of a phase.
#[derive(Clone, Debug)]
enum Edit {
    Change(usize),
    Grow(usize),
    Remove(usize),
    Add(u32),
}

fn edits() -> impl Strategy<Value = Edit> {
    let index = 0..1000_usize;
    prop_oneof![
        index.clone().prop_map(Edit::Change),
        index.clone().prop_map(Edit::Grow),
        index.prop_map(Edit::Remove),
        (5000..9000_u32).prop_map(Edit::Add),
    ]
}

fn phases() -> impl Strategy<Value = Vec<Entry>> {
    let sizes = prop_oneof![8 => 100..800_usize, 1 => 800..3000_usize];
    prop::collection::vec((sizes, any::<u32>()), 40..200).prop_map(|objects| {
        let objects = (0..).zip(objects);
        objects
            .map(|(number, (size, content))| object(number, size, content))
            .collect()
    })
}

fn edited(entries: &[Entry], edit: &Edit) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    let count = entries.len();
    let number = |entry: &Entry| entry.key.name.rsplit_once('-').unwrap().1.parse().unwrap();
    match edit {
        Edit::Change(index) => {
            let entry = &mut entries[index % count];
            *entry = object(number(entry), entry.size, 0xedd1);
        }
        Edit::Grow(index) => {
            let entry = &mut entries[index % count];
            *entry = object(number(entry), entry.size * 2, 0xedd1);
        }
        Edit::Remove(index) => {
            entries.remove(index % count);
        }
        Edit::Add(number) => entries.push(object(*number, 400, 1)),
    }
    entries
}

const LIMIT: usize = 8 * 1024;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// No object is lost, and no slice is too large.
    #[test]
    fn slices_contain_all_objects(entries in phases(), limit in 500..20_000_usize) {
        let slices = sliced(entries.clone(), limit);
        let keys = |entries: &[Entry]| entries.iter().map(|entry| entry.key.clone()).collect::<BTreeSet<_>>();
        prop_assert_eq!(slices.iter().map(Vec::len).sum::<usize>(), entries.len());
        prop_assert_eq!(keys(&slices.concat()), keys(&entries));
        for slice in &slices {
            prop_assert!(slice.len() == 1 || size(slice) <= limit);
        }
    }

    /// The order of the input does not matter.
    #[test]
    fn the_order_of_objects_does_not_change_the_slices(entries in phases(), seed in any::<u64>()) {
        let mut shuffled = entries.clone();
        let mut state = seed | 1;
        shuffled.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state
        });
        prop_assert_eq!(sliced(entries, LIMIT), sliced(shuffled, LIMIT));
    }

    /// An edit replaces one slice by several, if it overflows, or several by one, if they fit into
    /// one.
    #[test]
    fn an_edit_changes_few_slices(entries in phases(), edit in edits()) {
        let before = names(entries.clone(), LIMIT);
        let after = names(edited(&entries, &edit), LIMIT);
        let gone = before.difference(&after).count();
        let new = after.difference(&before).count();
        prop_assert!(gone <= 1 || new <= 1, "{edit:?}: {gone} gone, {new} new of {}", after.len());
    }

    /// An edit that keeps the size changes exactly one slice.
    #[test]
    fn an_edit_of_the_same_size_changes_one_slice(entries in phases(), index in 0..1000_usize) {
        let mut changed = entries.clone();
        let index = index % changed.len();
        let entry = changed[index].clone();
        changed[index].value["object"]["metadata"]["name"] = "x".repeat(entry.key.name.len()).into();
        let before = names(entries, LIMIT);
        let after = names(changed, LIMIT);
        prop_assert_eq!(before.difference(&after).count(), 1);
        prop_assert_eq!(after.difference(&before).count(), 1);
    }
}
