//! What a live object has otherwise than its revision wants.

use baton::engine::diff::{Difference, compare, owned_fields, with_create_only};
use baton::engine::object::{Identity, controller, is_terminating, owner_references, text};
use baton::engine::revision::Desired;
use serde_json::Value;

use super::clean::clean;
use super::project::{project, with_string_data_encoded};
use super::{Pair, Section, Tone};

/// What the manager would apply to an object that exists: fields that are left to others are not in
/// it, or hold their live values.
#[must_use]
pub fn body(desired: &Desired, live: &Value) -> Value {
    let mut body = desired.manifest.clone();
    with_create_only(&mut body, live, &desired.create_only);
    // Owners are the chain's own business. Those that the manager wrote stay as they are.
    let owned =
        owned_fields(live).and_then(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
    let is_owned = |reference: &&Value| {
        let marker = format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid"));
        owned.is_some_and(|owned| owned.get(marker).is_some())
    };
    let references: Vec<Value> = owner_references(live)
        .iter()
        .filter(is_owned)
        .cloned()
        .collect();
    if !references.is_empty() {
        body["metadata"]["ownerReferences"] = references.into();
    }
    body
}

/// Whether a dry run could tell more. Without one, a value that the server keeps in another form than
/// it was applied in looks different.
#[must_use]
pub fn is_unclear(desired: &Desired, live: &Value) -> bool {
    let body = body(desired, live);
    compare(&body, live) != Difference::None && section("", desired, &Identity::default(), Some(live), None).is_some_and(|section| section.pair.is_some_and(|pair| !pair.is_same()))
}

/// Compares an object in the cluster with what a revision wants of it. `dry_run` is the server's
/// answer to an apply of [`body`], if it was asked. `None` when there is no difference.
///
/// Only fields that the revision wants are looked at, and those that it, or the revision before it,
/// has applied and that are wanted no longer.
#[must_use]
pub fn section(
    phase: &str,
    desired: &Desired,
    revision: &Identity,
    live: Option<&Value>,
    dry_run: Option<&Value>,
) -> Option<Section> {
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    let Some(live) = live else {
        let pair = Pair::new(None, Some(clean(desired.manifest.clone())));
        let section = section.verdict(Tone::Removed, "not in the cluster");
        return Some(section.pair(pair));
    };
    let body = body(desired, live);
    if compare(&body, live) == Difference::None {
        return None;
    }
    let wanted = with_string_data_encoded(body);
    let after = dry_run.map_or_else(|| wanted.clone(), |answer| project(answer, &wanted));
    let pair = Pair::new(
        Some(clean(project(live, &wanted))),
        Some(clean(after)),
    );
    if pair.is_same() {
        return None;
    }
    let mut section = section.verdict(Tone::Changed, "different in the cluster");
    section.notes = notes(revision, live);
    Some(section.pair(pair))
}

/// What explains a difference.
fn notes(revision: &Identity, live: &Value) -> Vec<String> {
    let mut notes = Vec::new();
    match controller(live) {
        Some(owner) if revision.is(owner) => {}
        Some(owner) => notes.push(format!(
            "controlled by {} {}",
            text(owner, "kind"),
            text(owner, "name")
        )),
        None => notes.push("controlled by nobody".to_owned()),
    }
    if is_terminating(live) {
        notes.push("being deleted".to_owned());
    }
    notes
}
