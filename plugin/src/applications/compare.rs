//! What two Releases have differently: environments and rendered manifests.

use std::collections::BTreeMap;

use baton_apis::{
    Release, ReleaseEnvironment,
    constants::shipper::{LABEL_RELEASE, LABEL_RELEASE_HASH},
    kinds,
};
use baton_engine::{Gvk, ObjectKey, names::is_label_value};
use baton_view::{lists::ListQuery, object::text_at};
use serde_json::{Value, json};

use crate::{
    connect::Cluster,
    diff::{Pair, Section, clean::clean, describe, fate::Fate},
};

/// Stands for the name of the Release in what is compared: it is in the names of most objects.
const OWN_NAME: &str = "$(release)";
/// Stands for the hash of its environment.
const OWN_HASH: &str = "$(hash)";

/// The rendered manifests of Releases, by name, or why they cannot be read.
type Rendered = Result<BTreeMap<String, Vec<Value>>, String>;

/// Reads the slices of Releases.
pub(super) async fn rendered(cluster: &Cluster, releases: &[&Release]) -> Rendered {
    let names = releases
        .iter()
        .filter_map(|release| release.metadata.name.as_deref());
    // Nothing can be labelled with another.
    let names: Vec<&str> = names.filter(|name| is_label_value(name)).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let path = kinds::OBJECT_SLICE.path(Some(&cluster.namespace));
    let query = ListQuery::labelled(format!("{LABEL_RELEASE} in ({})", names.join(",")));
    let slices = cluster.list_at(&path, &query).await;
    let slices = slices.map_err(|error| error.to_string())?;
    Ok(of_slices(releases, slices))
}

/// The manifests of Releases from slices: those that a Release owns, in the order of the numbers in their names.
fn of_slices(releases: &[&Release], mut slices: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
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
    let owners = slice["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["uid"] == uid)
}

/// The differences of two Releases.
pub(crate) async fn releases(cluster: &Cluster, from: &Release, to: &Release) -> Vec<Section> {
    let mut sections = environment(Some(&from.spec.environment), &to.spec.environment);
    let rendered = rendered(cluster, &[from, to]).await;
    sections.extend(manifests(from, to, &rendered));
    sections
}

/// The differences of two environments; without the first one, the second is new.
pub(super) fn environment(
    from: Option<&ReleaseEnvironment>,
    to: &ReleaseEnvironment,
) -> Vec<Section> {
    let outline = |environment: &ReleaseEnvironment| {
        let mut outline = json!(environment);
        if let Some(fields) = outline.as_object_mut() {
            fields.remove("values");
        }
        outline
    };
    let values = |environment: &ReleaseEnvironment| {
        let values = environment.values.clone();
        values.filter(|values| !values.is_null())
    };
    let fate = if from.is_some() {
        Fate::Changed
    } else {
        Fate::Added
    };
    let parts = [
        (
            Section::new("environment", "chart, clusters and strategy"),
            Pair::new(from.map(outline), Some(outline(to))),
        ),
        (
            Section::new("values", "values"),
            Pair::new(from.and_then(values), values(to)),
        ),
    ];
    let parts = parts.into_iter().filter(|(_, pair)| !pair.is_same());
    parts
        .map(|(section, pair)| section.fate(fate.clone()).pair(pair))
        .collect()
}

/// The differences of the manifests of two Releases, the name of each Release being taken for the same.
pub(super) fn manifests(from: &Release, to: &Release, rendered: &Rendered) -> Vec<Section> {
    let bad = |fate| vec![Section::new("manifests", "rendered manifests").fate(fate)];
    let rendered = match rendered {
        Ok(rendered) => rendered,
        Err(why) => return bad(Fate::Unreadable(why.clone())),
    };
    let sides = [from, to].map(|release| {
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
            return bad(Fate::NotRendered(name.to_owned()));
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

/// A manifest of a Release.
struct Manifest {
    gvk: Gvk,
    /// With [`OWN_NAME`] in the name.
    key: ObjectKey,
    /// As it is called.
    name: String,
    /// With [`OWN_NAME`] and [`OWN_HASH`].
    content: Value,
}

impl Manifest {
    fn new(object: &Value, release: &str) -> Self {
        let gvk = Gvk::new(text_at(object, "/apiVersion"), text_at(object, "/kind"));
        let mut manifest = clean(object.clone());
        neutralise(&mut manifest, release);
        let key = ObjectKey {
            group: gvk.group.clone(),
            kind: gvk.kind.clone(),
            namespace: text_at(object, "/metadata/namespace").to_owned(),
            name: text_at(&manifest, "/metadata/name").to_owned(),
        };
        Self {
            gvk,
            key,
            name: text_at(object, "/metadata/name").to_owned(),
            content: manifest,
        }
    }

    fn named(&self) -> ObjectKey {
        ObjectKey {
            name: self.name.clone(),
            ..self.key.clone()
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
    let mut section = Section::of(&shown.gvk, &shown.named(), None);
    if let (Some(from), Some(to)) = (from, to)
        && from.name != to.name
    {
        section = section.note(format!(
            "in the first release it is {}",
            describe(&from.named())
        ));
    }
    let section = match (from, to) {
        (None, _) => section.fate(Fate::Added),
        (_, None) => section.fate(Fate::Removed),
        _ => section.fate(Fate::Changed),
    };
    Some(section.pair(pair))
}

/// Replaces what is another in each Release: its name, and the hash in labels.
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

/// A text with another word for the name of a Release, where that stands by itself or as a part between hyphens and the
/// like. `None` where it does not.
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
    use crate::{
        applications::fixtures::{mid_rollout, observed},
        diff::render::{Labels, render},
        output::Output,
    };

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

    fn slice(name: &str, owner: &str, objects: &[Value]) -> Value {
        let objects: Vec<Value> = objects
            .iter()
            .map(|object| json!({ "object": object }))
            .collect();
        json!({
            "metadata": { "name": name, "ownerReferences": [{ "uid": owner }] },
            "objects": objects,
        })
    }

    fn config(release: &str, name: &str, data: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": { "shipper-release": release, "shipper-release-hash": release },
            },
            "data": { "key": data },
        })
    }

    fn secret(value: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "password" }, "stringData": { "password": value },
        })
    }

    #[test]
    fn two_releases_are_compared() {
        let observed = observed(&mid_rollout());
        let from = observed.release("shop-old-0").unwrap();
        let to = observed.release("shop-new-0").unwrap();
        let slices = vec![
            slice(
                "shop-new-0-10",
                "u-new",
                &[config("shop-new-0", "added", "x")],
            ),
            slice(
                "shop-old-0-0",
                "u-old",
                &[
                    config("shop-old-0", "shop-old-0-same", "of shop-old-0"),
                    config("shop-old-0", "shop-old-0-other", "before"),
                    config("shop-old-0", "gone", "x"),
                    secret("hunter1"),
                ],
            ),
            slice(
                "shop-new-0-2",
                "u-new",
                &[
                    config("shop-new-0", "shop-new-0-same", "of shop-new-0"),
                    config("shop-new-0", "shop-new-0-other", "after"),
                    secret("hunter2"),
                ],
            ),
            // Of a release of the same name that is gone.
            slice(
                "shop-new-0-0",
                "u-gone",
                &[config("shop-new-0", "stale", "x")],
            ),
        ];
        let rendered = Ok(of_slices(&[from, to], slices));
        let mut sections = environment(Some(&from.spec.environment), &to.spec.environment);
        sections.extend(manifests(from, to, &rendered));
        let labels = Labels::new("shop-old-0", "shop-new-0");
        let text = render(&sections, &labels, Output::plain());
        assert!(!text.contains("hunter"), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn manifests_that_are_not_there_are_missed() {
        let observed = observed(&mid_rollout());
        let from = observed.release("shop-old-0").unwrap();
        let to = observed.release("shop-new-0").unwrap();
        let slices = vec![slice("shop-old-0-0", "u-old", &[secret("a")])];
        let rendered = Ok(of_slices(&[from, to], slices));
        let sections = manifests(from, to, &rendered);
        assert_eq!(sections.len(), 1);
        assert_eq!(
            sections[0].fate.to_string(),
            "those of release shop-new-0 are not there (yet)"
        );
        assert!(sections[0].differs());
    }
}
