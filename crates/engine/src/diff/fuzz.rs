//! Random writes of several managers: an apply changes no object that compares as equal, and after
//! an apply there is no difference.
//!
//! The server is a model of server-side apply over one schema, see [`server`]. It follows the
//! documentation of the merge and shares no code with the tested modules.

mod server;

use serde_json::{Value, json};

use super::legacy::{migrated, needs_migration};
use super::*;
use crate::tests::draw::Draw;

use server::{Manager, Server, draw_config, has_empty, normal, schema};

/// The writers: we, another manager that applies, a manager that updates, and an earlier release of
/// ours.
const MANAGERS: [Manager; 4] = [
    (FIELD_MANAGER, "Apply"),
    ("other", "Apply"),
    ("kubectl-edit", "Update"),
    ("package-operator-manager", "Update"),
];
const OURS: Manager = MANAGERS[0];
const LEGACY: Manager = MANAGERS[3];

/// Paths that do not lead into an atomic value, as that has one owner only.
const PATHS: [&str; 6] = [
    ".spec.replicas",
    ".spec.labels",
    ".spec.labels.a",
    ".spec.items",
    ".spec.set",
    ".spec.nested",
];

#[test]
fn an_apply_settles_all_differences() {
    bolero::check!(name = "diff")
        .with_iterations(3_000)
        .for_each(|input: &[u8]| check(&mut Draw(input)));
}

fn check(draw: &mut Draw<'_>) {
    let mut server = Server::new();
    let mut last = None;
    for _ in 0..draw.below(6) {
        let manager = draw.of(&MANAGERS);
        if draw.below(8) == 0 {
            server.lose(draw.below(usize::MAX));
        } else {
            let config = draw_config(draw);
            server.apply(manager, &config);
            last = Some(config).filter(|_| manager == OURS).or(last);
        }
    }
    // The last configuration again, or another one.
    let wanted = match last {
        Some(config) if draw.flag() => config,
        _ => draw_config(draw),
    };
    unite_legacy(&mut server);
    settles(&server, &wanted);
    leaves_paths_to_others(&server, &wanted, draw);
}

/// A migration makes the fields of earlier releases ours, and no other fields.
fn unite_legacy(server: &mut Server) {
    let live = server.live();
    let entries = migrated(&live, &[]);
    assert_eq!(needs_migration(&live, &[]), entries.is_some(), "{live}");
    let Some(entries) = entries else { return };
    server.unite(LEGACY, OURS);
    let mut expected = server.live();
    expected["metadata"]["managedFields"]
        .as_array_mut()
        .expect("entries")
        .sort_by_key(Value::to_string);
    let mut found = live;
    let mut entries = entries;
    entries.sort_by_key(Value::to_string);
    found["metadata"]["managedFields"] = entries.into();
    assert_eq!(found, expected);
    assert!(!needs_migration(&found, &[]), "once is enough: {found}");
}

fn settles(server: &Server, wanted: &Value) {
    let before = server.live();
    let difference = compare(wanted, &before);
    let mut applied = server.clone();
    applied.apply(OURS, wanted);
    let after = applied.live();
    if difference == Difference::None {
        let meaning = |object: &Value| {
            let mut object = normal(object);
            strip(&mut object);
            object
        };
        assert_eq!(
            meaning(&after),
            meaning(&before),
            "{wanted} is compared as equal"
        );
    }
    // The caller settles these by fingerprints: for a map or list without content, the server
    // records nothing, or an entry that may be atomic.
    if !has_empty(wanted, &schema()) {
        assert_eq!(
            compare(wanted, &after),
            Difference::None,
            "{wanted} in {after}"
        );
    }
    assert_eq!(
        live_fingerprint(&before) == live_fingerprint(&after),
        server.owned_part(OURS) == applied.owned_part(OURS),
        "the fingerprint changes with what we own: {before} {after}"
    );
}

/// An apply that leaves some paths to others changes nothing at these paths.
fn leaves_paths_to_others(server: &Server, wanted: &Value, draw: &mut Draw<'_>) {
    let text = draw.of(&PATHS);
    let path = FieldPath::parse(text).expect("a path");
    let live = server.live();
    let mut body = wanted.clone();
    with_create_only(&mut body, &live, std::slice::from_ref(&path));
    let mut applied = server.clone();
    applied.apply(OURS, &body);
    let at = |object: &Value| {
        let normal = normal(object);
        let found = path.0.iter().try_fold(&normal, |value, key| value.get(key));
        found.cloned()
    };
    let after = applied.live();
    // A list without items has no owner, and a map without keys counts as atomic: an empty value
    // may be removed.
    if at(&live).is_some_and(|value| holds_nothing(&value)) {
        return;
    }
    assert_eq!(
        at(&after),
        at(&live),
        "{text} of {wanted}, applied as {body}, in {live}"
    );
    let rest = |object: &Value| {
        let mut object = object.clone();
        remove(&mut object, &path.0);
        strip(&mut object);
        object
    };
    assert_eq!(
        rest(&body),
        rest(wanted),
        "{text}: nothing else of the body changes"
    );
}

/// Removes maps and lists without content, whose presence makes no difference.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(strip);
            map.retain(|_, value| *value != json!({}) && *value != json!([]));
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// True if a value contains a list or map without content.
fn holds_nothing(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_nothing),
        Value::Object(map) => map.is_empty() || map.values().any(holds_nothing),
        _ => false,
    }
}
