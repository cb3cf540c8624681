//! The differences of two Releases: environments and rendered manifests.

use std::collections::BTreeMap;

use baton_apis::{Release, ReleaseEnvironment, constants::shipper::LABEL_RELEASE_HASH};
use baton_engine::{
    Gvk, ObjectKey,
    object::{owner_references, text},
};
use serde_json::{Value, json};

use crate::{
    children::key_of,
    diff::{Pair, Section, Topic, clean::clean, note::ObjectNote, outcome::DiffOutcome},
    object::text_at,
};

/// Replaces the name of the Release in manifests, because most objects have it in their names.
const OWN_NAME: &str = "$(release)";
/// Replaces the hash of the environment of the Release in manifests.
const OWN_HASH: &str = "$(hash)";

/// The rendered manifests of Releases by name, or the reason that they cannot be read.
pub type Rendered = Result<BTreeMap<String, Vec<Value>>, String>;

/// The manifests in the slices that a Release owns, in the order of the numbers in the slice names.
pub fn of_slices(releases: &[&Release], mut slices: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    slices.sort_by_key(|slice| {
        let name = text_at(slice, "/metadata/name");
        let number = name.rsplit('-').next().and_then(|text| text.parse().ok());
        (number.unwrap_or(u64::MAX), name.to_owned())
    });
    let mut by_release: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for release in releases {
        let (Some(name), Some(uid)) = (&release.metadata.name, &release.metadata.uid) else {
            continue;
        };
        for slice in slices.iter_mut().filter(|slice| is_owned_by(slice, uid)) {
            let Value::Array(objects) = slice["objects"].take() else {
                continue;
            };
            let objects = objects.into_iter().map(|mut entry| entry["object"].take());
            by_release.entry(name.clone()).or_default().extend(objects);
        }
    }
    by_release
}

fn is_owned_by(slice: &Value, uid: &str) -> bool {
    let mut owners = owner_references(slice).iter();
    owners.any(|owner| text(owner, "uid") == uid)
}

/// The differences of two environments. Without `from`, all of `to` is new.
pub fn environment(from: Option<&ReleaseEnvironment>, to: &ReleaseEnvironment) -> Vec<Section> {
    let outline = |environment: &ReleaseEnvironment| {
        let mut outline = json!(environment);
        if let Some(fields) = outline.as_object_mut() {
            fields.remove("values");
        }
        outline
    };
    let values = |environment: &ReleaseEnvironment| {
        let values = environment.values.as_ref()?;
        // Values that are nested too deeply to be read are compared as text.
        let values = values.read().unwrap_or_else(|_| values.text().into());
        Some(values).filter(|values: &Value| !values.is_null())
    };
    let fate = if from.is_some() {
        DiffOutcome::Changed
    } else {
        DiffOutcome::Added
    };
    let parts = [
        (
            Topic::Environment,
            Pair::new(from.map(outline), Some(outline(to))),
        ),
        (Topic::Values, Pair::new(from.and_then(values), values(to))),
    ];
    let parts = parts.into_iter().filter(|(_, pair)| !pair.is_same());
    parts
        .map(|(topic, pair)| Section::new(topic).fate(fate.clone()).pair(pair))
        .collect()
}

/// The differences of the rendered manifests of two Releases; without `from`, all manifests are new.
/// The names of the Releases themselves are no difference.
pub fn manifests(from: Option<&Release>, to: &Release, rendered: &Rendered) -> Vec<Section> {
    let bad = |fate| vec![Section::new(Topic::Manifests).fate(fate)];
    let rendered = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return bad(DiffOutcome::Unreadable(why.clone())),
    };
    let sides = [from, Some(to)].map(|release| {
        let Some(release) = release else {
            return Ok(Vec::new());
        };
        let name = release.metadata.name.as_deref().unwrap_or_default();
        let objects = rendered.get(name).ok_or(name);
        objects.map(|objects| {
            let manifests = objects.iter().map(|object| Manifest::new(object, name));
            manifests.collect::<Vec<_>>()
        })
    });
    let [from, to] = match sides {
        [Ok(from), Ok(to)] => [from, to],
        [Err(name), _] | [_, Err(name)] => {
            return bad(DiffOutcome::NotRendered(name.to_owned()));
        }
    };
    let mut sections = Vec::new();
    for new in &to {
        let old = from.iter().find(|old| old.key == new.key);
        sections.extend(section(old, Some(new)));
    }
    for old in &from {
        if !to.iter().any(|new| new.key == old.key) {
            sections.extend(section(Some(old), None));
        }
    }
    sections
}

/// A rendered manifest of a Release, prepared for the comparison.
struct Manifest {
    gvk: Gvk,
    /// The key with [`OWN_NAME`] in the name, to find the same object in another Release.
    key: ObjectKey,
    /// The real key.
    named: ObjectKey,
    /// The manifest with [`OWN_NAME`] and [`OWN_HASH`].
    content: Value,
}

impl Manifest {
    fn new(object: &Value, release: &str) -> Self {
        let gvk = Gvk::new(text_at(object, "/apiVersion"), text_at(object, "/kind"));
        let mut content = clean(object.clone());
        neutralise(&mut content, release);
        let named = key_of(&gvk, object);
        Self {
            key: gvk.key(&named.namespace, text_at(&content, "/metadata/name")),
            named,
            gvk,
            content,
        }
    }
}

fn section(from: Option<&Manifest>, to: Option<&Manifest>) -> Option<Section> {
    let shown = to.or(from)?;
    let manifest = |side: Option<&Manifest>| side.map(|side| side.content.clone());
    let pair = Pair::new(manifest(from), manifest(to));
    if pair.is_same() {
        return None;
    }
    let was = from.filter(|from| from.named != shown.named);
    let section = Section::new(Topic::Object {
        gvk: shown.gvk.clone(),
        key: shown.named.clone(),
        phase: None,
    });
    let section = section.notes(was.map(|from| ObjectNote::Was(from.named.clone())));
    Some(section.fate(pair.fate()).pair(pair))
}

/// Replaces the texts that differ for each Release: its name, and the hash in labels.
fn neutralise(value: &mut Value, release: &str) {
    match value {
        Value::String(text) => {
            if let Some(changed) = without(text, release) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| neutralise(item, release)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if key == LABEL_RELEASE_HASH && field.is_string() {
                    *field = OWN_HASH.into();
                } else {
                    neutralise(field, release);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with [`OWN_NAME`] in the place of the Release name; `None` if the text does not contain
/// it.
///
/// The name is replaced only as a whole word, or as a part between hyphens and the like.
fn without(text: &str, release: &str) -> Option<String> {
    if release.is_empty() || !text.contains(release) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(release) {
        let end = at + release.len();
        let is_part = text[..at].ends_with(|letter: char| letter.is_alphanumeric())
            || text[end..].starts_with(|letter: char| letter.is_alphanumeric());
        if !is_part {
            out.push_str(&text[from..at]);
            out.push_str(OWN_NAME);
            from = end;
        }
    }
    out.push_str(&text[from..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_release_is_the_same_in_both() {
        for (text, expected) in [
            ("shop-a-0", Some("$(release)")),
            ("shop-a-0-web", Some("$(release)-web")),
            ("x.shop-a-0.y shop-a-0", Some("x.$(release).y $(release)")),
            ("shop-a-01", Some("shop-a-01")),
            ("myshop-a-0", Some("myshop-a-0")),
            ("other", None),
        ] {
            assert_eq!(without(text, "shop-a-0").as_deref(), expected, "{text}");
        }
        assert_eq!(without("text", ""), None);
    }
}
