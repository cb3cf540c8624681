//! What two revisions have differently.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{ObjectSetProbe, constants::LABEL_OBJECT_DEPLOYMENT};
use baton_engine::{ObjectKey, revision::Desired};
use baton_view::{
    chain::member::Revision,
    content::{Phase, RevisionContent},
};
use serde_json::{Value, json};

use super::{Pair, Section, clean::clean, fate::Fate};

/// All of a revision, or of a template, that is not its place in the chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Labels, without the one that names the deployment.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) content: RevisionContent,
    pub(crate) probes: Vec<ObjectSetProbe>,
    /// Seconds to stay available before it counts as succeeded.
    pub(crate) success_delay_seconds: i32,
    /// As whom its objects are written, if that is said.
    pub(crate) service_account_name: Option<String>,
}

impl Side {
    pub(crate) fn of_revision(revision: &Revision, content: RevisionContent) -> Self {
        let mut labels = revision.metadata.labels.clone().unwrap_or_default();
        labels.remove(LABEL_OBJECT_DEPLOYMENT);
        let spec = &revision.spec;
        Self {
            labels,
            content,
            probes: spec.availability_probes.clone().unwrap_or_default(),
            success_delay_seconds: spec.success_delay_seconds.unwrap_or_default(),
            service_account_name: spec.service_account_name.clone(),
        }
    }

    /// Slices that it names and that do not exist; empty when all of it is known.
    pub(crate) fn missing_slices(&self) -> Vec<String> {
        let phases = self.content.phases.iter();
        let names: BTreeSet<&String> = phases.flat_map(|phase| &phase.missing_slices).collect();
        names.into_iter().cloned().collect()
    }

    /// The objects with their phases. Of one that stands there twice, which no manager accepts, the last.
    fn objects(&self) -> Vec<Placed<'_>> {
        let placed: Vec<_> = self.content.placed().collect();
        let mut seen = BTreeSet::new();
        let placed = placed.into_iter().rev();
        let last = placed.filter(|(_, object)| seen.insert(&object.key));
        let mut objects: Vec<_> = last
            .map(|(phase, object)| Placed { phase, object })
            .collect();
        objects.reverse();
        objects
    }
}

#[derive(Clone, Copy, Debug)]
struct Placed<'a> {
    phase: &'a Phase,
    object: &'a Desired,
}

/// Compares two revisions. What is equal is left out, and empty means that nothing differs.
///
/// The first section is about the revision as a whole, if there is a difference: labels, probes, the
/// order of phases. Then come the objects of `to` in their order, and those that only `from` has.
/// Whether an object stands in a phase or in a slice of it makes no difference.
pub(crate) fn compare(from: &Side, to: &Side) -> Vec<Section> {
    fn index<'a>(objects: &[Placed<'a>]) -> BTreeMap<&'a ObjectKey, Placed<'a>> {
        objects.iter().map(|one| (&one.object.key, *one)).collect()
    }
    let (old, new) = (from.objects(), to.objects());
    let (old_by_key, new_by_key) = (index(&old), index(&new));
    let mut sections: Vec<Section> = settings(from, to).into_iter().collect();
    for placed in &new {
        let before = old_by_key.get(&placed.object.key);
        sections.extend(object(before.copied(), Some(*placed)));
    }
    for placed in &old {
        if !new_by_key.contains_key(&placed.object.key) {
            sections.extend(object(Some(*placed), None));
        }
    }
    sections
}

/// What revisions have differently besides objects: labels, probes, the order of phases.
pub(crate) fn settings(from: &Side, to: &Side) -> Option<Section> {
    let pair = Pair::new(Some(outline(from)), Some(outline(to)));
    if pair.is_same() {
        return None;
    }
    let section = Section::new("revision", "labels, phases and probes");
    Some(section.fate(Fate::Changed).pair(pair))
}

fn outline(side: &Side) -> Value {
    let phase = |phase: &Phase| match phase.class.as_str() {
        "" => phase.name.clone().into(),
        class => json!({ "name": phase.name, "class": class }),
    };
    let phases: Vec<Value> = side.content.phases.iter().map(phase).collect();
    let mut outline = json!({ "phases": phases });
    if !side.labels.is_empty() {
        outline["labels"] = json!(side.labels);
    }
    if !side.probes.is_empty() {
        outline["availabilityProbes"] = json!(side.probes);
    }
    if side.success_delay_seconds != 0 {
        outline["successDelaySeconds"] = side.success_delay_seconds.into();
    }
    if let Some(account) = &side.service_account_name {
        outline["serviceAccountName"] = account.as_str().into();
    }
    outline
}

fn object(from: Option<Placed<'_>>, to: Option<Placed<'_>>) -> Option<Section> {
    let Placed { phase, object } = to.or(from)?;
    let manifest = |placed: Option<Placed<'_>>| Some(clean(placed?.object.manifest.clone()));
    let pair = Pair::new(manifest(from), manifest(to));
    let notes = from.zip(to).map(|(from, to)| notes(from, to));
    let section = Section {
        notes: notes.unwrap_or_default(),
        ..Section::of(&object.gvk, &object.key, Some(&phase.name))
    };
    let section = match (from, to) {
        (None, _) => section.fate(Fate::Added),
        (_, None) => section.fate(Fate::Removed),
        _ if !pair.is_same() => section.fate(Fate::Changed),
        _ if !section.notes.is_empty() => section.fate(Fate::SameManifest),
        _ => return None,
    };
    Some(section.pair(pair))
}

/// How the treatment of an object differs.
fn notes(from: Placed<'_>, to: Placed<'_>) -> Vec<String> {
    let phase = |placed: Placed<'_>| vec![placed.phase.name.clone()];
    let protection = |placed: Placed<'_>| vec![format!("{:?}", placed.object.protection)];
    let mappings = |placed: Placed<'_>| {
        let mappings = placed.object.mappings.iter();
        mappings
            .map(|mapping| format!("{} as {}", mapping.source_type, mapping.destination_type))
            .collect()
    };
    let create_only = |placed: Placed<'_>| {
        let paths = placed.object.create_only.iter();
        paths.map(ToString::to_string).collect()
    };
    let texts: [(&str, [Vec<String>; 2]); 4] = [
        ("phase", [phase(from), phase(to)]),
        ("collisionProtection", [protection(from), protection(to)]),
        ("conditionMappings", [mappings(from), mappings(to)]),
        ("createOnlyFields", [create_only(from), create_only(to)]),
    ];
    let changed = texts.into_iter().filter(|(_, [from, to])| from != to);
    changed
        .map(|(name, [from, to])| format!("{name}: {} -> {}", list(&from), list(&to)))
        .collect()
}

fn list(texts: &[String]) -> String {
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::ObjectSetTemplateSpec;
    use baton_engine::object::Identity;
    use baton_engine::revision as engine;

    use super::*;
    use baton_view::content::Slices;

    fn side(text: &str) -> Side {
        let spec: ObjectSetTemplateSpec = serde_saphyr::from_str(text).unwrap();
        let revision = engine::Revision {
            identity: Identity {
                namespace: "shop".to_owned(),
                ..Identity::default()
            },
            number: text.len().try_into().unwrap(),
            ..engine::Revision::default()
        };
        let mut slices = Slices::default();
        slices.insert(
            serde_saphyr::from_str(
                "{metadata: {namespace: shop, name: slice}, objects: [{object: {apiVersion: apps/v1, kind: \
                     Deployment, metadata: {name: web}}}]}",
            )
            .unwrap(),
        );
        let content = slices.resolve(
            &revision,
            Some("shop"),
            spec.phases.as_deref().unwrap_or_default(),
        );
        Side {
            labels: BTreeMap::new(),
            content,
            probes: spec.availability_probes.unwrap_or_default(),
            success_delay_seconds: spec.success_delay_seconds.unwrap_or_default(),
            service_account_name: spec.service_account_name.clone(),
        }
    }

    /// One line per section: title, verdict, notes.
    fn lines(from: &Side, to: &Side) -> Vec<String> {
        let line = |section: Section| {
            let mut texts = vec![format!("{}: {}", section.title, section.fate)];
            texts.extend(section.notes);
            texts.join("; ")
        };
        compare(from, to).into_iter().map(line).collect()
    }

    const ONE: &str = "
phases:
- name: config
  objects:
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {a: b}}
  - object: {apiVersion: v1, kind: Secret, metadata: {name: web}, data: {a: b}}
- name: app
  objects:
  - object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}
";

    #[test]
    fn equal_revisions_have_no_sections() {
        assert_eq!(lines(&side(ONE), &side(ONE)), Vec::<String>::new());
        assert_eq!(lines(&Side::default(), &side("{}")), Vec::<String>::new());
        // A namespace that is written out, the defaults, and an object in a slice.
        let written = ONE
            .replace("{name: web}", "{name: web, namespace: shop}")
            .replace("  - object", "  - collisionProtection: Prevent\n    object");
        assert_eq!(lines(&side(ONE), &side(&written)), Vec::<String>::new());
        let (inline, _) = ONE
            .split_once("  objects:\n  - object: {apiVersion: apps/v1")
            .unwrap();
        let sliced = format!("{inline}  slices: [slice]\n");
        assert_eq!(lines(&side(ONE), &side(&sliced)), Vec::<String>::new());
        assert_eq!(side(ONE).missing_slices(), Vec::<String>::new());
        let lost = format!("{inline}  slices: [b, a, slice, b]\n");
        assert_eq!(side(&lost).missing_slices(), ["a", "b"]);
    }

    #[test]
    fn objects_are_compared_by_identity() {
        let two = "
phases:
- name: config
  objects:
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {a: c}}
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: new}}
- name: app
  objects:
  - object: {apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: web, namespace: shop}}
";
        assert_eq!(
            lines(&side(ONE), &side(two)),
            [
                "ConfigMap shop/web (phase config): changed",
                "ConfigMap shop/new (phase config): added",
                "Deployment.apps shop/web (phase app): changed",
                "Secret shop/web (phase config): removed",
            ]
        );
    }

    #[test]
    fn changes_of_phase_and_options_are_noted() {
        let two = "
phases:
- name: config
  objects:
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {a: b}}
    collisionProtection: IfNoController
    createOnlyFields: [.data.a, .data.b]
    conditionMappings: [{sourceType: Ready, destinationType: example.com/Ready}]
- name: app
  objects:
  - object: {apiVersion: v1, kind: Secret, metadata: {name: web}, data: {a: b}}
  - object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}
";
        assert_eq!(
            lines(&side(ONE), &side(two)),
            [
                "ConfigMap shop/web (phase config): same manifest; collisionProtection: Prevent -> IfNoController; \
                 conditionMappings: none -> Ready as example.com/Ready; createOnlyFields: none -> .data.a, .data.b",
                "Secret shop/web (phase app): same manifest; phase: config -> app",
            ]
        );
    }

    #[test]
    fn labels_phases_and_probes_are_compared_as_a_whole() {
        let two = format!("{ONE}successDelaySeconds: 3");
        let sections = compare(&side(ONE), &side(&two));
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].title, "labels, phases and probes");
        let after = sections[0].pair.as_ref().unwrap().after().unwrap();
        let expected: Value =
            serde_saphyr::from_str("{phases: [config, app], successDelaySeconds: 3}").unwrap();
        assert_eq!(*after, expected);
        let mut labelled = side(ONE);
        labelled.labels.insert("a".to_owned(), "b".to_owned());
        assert_eq!(lines(&side(ONE), &labelled).len(), 1);
        let classy = ONE.replace("- name: app", "- name: app\n  class: default");
        assert_eq!(
            lines(&side(ONE), &side(&classy)),
            ["labels, phases and probes: changed"]
        );
    }

    #[test]
    fn values_of_secrets_do_not_show() {
        let two = ONE.replace(
            "kind: Secret, metadata: {name: web}, data: {a: b}",
            "kind: Secret, metadata: {name: web}, data: {a: c}",
        );
        let sections = compare(&side(ONE), &side(&two));
        assert_eq!(sections.len(), 1);
        let pair = sections[0].pair.as_ref().unwrap();
        assert_eq!(pair.before().unwrap()["data"]["a"], "*** (before)");
        assert_eq!(pair.after().unwrap()["data"]["a"], "*** (after)");
    }
}
