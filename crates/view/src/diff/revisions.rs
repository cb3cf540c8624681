//! The differences of two revisions.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{ObjectSetProbe, constants::LABEL_OBJECT_DEPLOYMENT};
use baton_engine::{ObjectKey, revision::Desired};
use serde_json::{Value, json};

use super::{Pair, Section, Topic, clean::clean, note::ObjectNote, outcome::DiffOutcome};
use crate::{
    chain::member::Revision,
    content::{Phase, RevisionContent},
};

/// The content and settings of a revision or of a template, without its place in the chain.
#[derive(Clone, Debug, Default)]
pub struct RevisionSide {
    /// Labels, without the label with the name of the deployment.
    pub labels: BTreeMap<String, String>,
    /// Phases with their objects.
    pub content: RevisionContent,
    /// Availability probes.
    pub probes: Vec<ObjectSetProbe>,
    /// Seconds that the revision stays available before it counts as succeeded.
    pub success_delay_seconds: i32,
    /// The service account that writes the objects, if one is set.
    pub service_account_name: Option<String>,
}

impl RevisionSide {
    /// The side of a revision with its content.
    #[must_use]
    pub fn of_revision(revision: &Revision, content: RevisionContent) -> Self {
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

    /// Slices that the revision names and that do not exist; empty if the content is complete.
    pub fn missing_slices(&self) -> Vec<String> {
        let phases = self.content.phases.iter();
        let names: BTreeSet<&String> = phases.flat_map(|phase| &phase.missing_slices).collect();
        names.into_iter().cloned().collect()
    }

    /// The objects with their phases. Of duplicates, which no manager accepts, only the last one.
    fn objects(&self) -> Vec<PhasedObject<'_>> {
        let placed: Vec<_> = self.content.placed().collect();
        let mut keys = BTreeSet::new();
        let last = placed.into_iter().rev();
        let last = last.filter(|(_, object)| keys.insert(&object.key));
        let mut objects: Vec<_> = last.collect();
        objects.reverse();
        objects
    }
}

/// An object with its phase.
type PhasedObject<'a> = (&'a Phase, &'a Desired);

/// Compares two revisions. Equal objects are left out; the result is empty if nothing differs.
///
/// The first section is about the revision as a whole, if its [`settings`] differ. The objects of
/// `to` follow in their order, then the objects that only `from` has. Objects in slices are
/// compared like objects in the phase itself.
pub fn compare(from: &RevisionSide, to: &RevisionSide) -> Vec<Section> {
    fn index<'a>(objects: &[PhasedObject<'a>]) -> BTreeMap<&'a ObjectKey, PhasedObject<'a>> {
        objects.iter().map(|one| (&one.1.key, *one)).collect()
    }
    let (old, new) = (from.objects(), to.objects());
    let (old_by_key, new_by_key) = (index(&old), index(&new));
    let mut sections: Vec<Section> = settings(from, to).into_iter().collect();
    for placed in &new {
        let before = old_by_key.get(&placed.1.key);
        sections.extend(object(before.copied(), Some(*placed)));
    }
    for placed in &old {
        if !new_by_key.contains_key(&placed.1.key) {
            sections.extend(object(Some(*placed), None));
        }
    }
    sections
}

/// The differences in settings: labels, phases, probes, success delay and service account.
pub fn settings(from: &RevisionSide, to: &RevisionSide) -> Option<Section> {
    Section::of_change(Topic::Settings, outline(from), outline(to))
}

fn outline(side: &RevisionSide) -> Value {
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

fn object(from: Option<PhasedObject<'_>>, to: Option<PhasedObject<'_>>) -> Option<Section> {
    let (phase, object) = to.or(from)?;
    let manifest = |placed: Option<PhasedObject<'_>>| Some(clean(placed?.1.manifest.clone()));
    let pair = Pair::new(manifest(from), manifest(to));
    let notes = from.zip(to).map(|(from, to)| notes(from, to));
    let notes = notes.unwrap_or_default();
    let fate = match pair.fate() {
        DiffOutcome::Unchanged if notes.is_empty() => return None,
        DiffOutcome::Unchanged => DiffOutcome::SameManifest,
        fate => fate,
    };
    let section = Section::of(object, &phase.name).notes(notes);
    Some(section.fate(fate).pair(pair))
}

/// The differences in the treatment of an object, such as its phase.
fn notes(from: PhasedObject<'_>, to: PhasedObject<'_>) -> Vec<ObjectNote> {
    let phase = |(phase, _): PhasedObject<'_>| vec![phase.name.clone()];
    let protection = |(_, object): PhasedObject<'_>| vec![format!("{:?}", object.protection)];
    let mappings = |(_, object): PhasedObject<'_>| {
        let mappings = object.mappings.iter();
        mappings
            .map(|mapping| format!("{} as {}", mapping.source_type, mapping.destination_type))
            .collect()
    };
    let create_only = |(_, object): PhasedObject<'_>| {
        let paths = object.create_only.iter();
        paths.map(ToString::to_string).collect()
    };
    let settings: [(&str, [Vec<String>; 2]); 4] = [
        ("phase", [phase(from), phase(to)]),
        ("collisionProtection", [protection(from), protection(to)]),
        ("conditionMappings", [mappings(from), mappings(to)]),
        ("createOnlyFields", [create_only(from), create_only(to)]),
    ];
    let changed = settings.into_iter().filter(|(_, [from, to])| from != to);
    changed
        .map(|(field, [from, to])| ObjectNote::Changed { field, from, to })
        .collect()
}

#[cfg(test)]
mod tests {
    use baton_apis::ObjectSetTemplateSpec;
    use baton_engine::object::Identity;
    use baton_engine::revision as engine;

    use super::*;
    use crate::content::Slices;

    fn side(text: &str) -> RevisionSide {
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
        RevisionSide {
            labels: BTreeMap::new(),
            content,
            probes: spec.availability_probes.unwrap_or_default(),
            success_delay_seconds: spec.success_delay_seconds.unwrap_or_default(),
            service_account_name: spec.service_account_name.clone(),
        }
    }

    /// One line per section: object, phase, outcome, notes.
    fn lines(from: &RevisionSide, to: &RevisionSide) -> Vec<String> {
        let line = |section: Section| {
            let topic = match section.topic {
                Topic::Object { key, phase, .. } => format!("{key} ({})", phase.unwrap()),
                topic => format!("{topic:?}"),
            };
            let mut texts = vec![format!("{topic}: {:?}", section.outcome)];
            texts.extend(section.notes.into_iter().map(|note| match note {
                ObjectNote::Changed { field, from, to } => format!("{field}: {from:?} -> {to:?}"),
                note => format!("{note:?}"),
            }));
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
        assert_eq!(
            lines(&RevisionSide::default(), &side("{}")),
            Vec::<String>::new()
        );
        // An explicit namespace, explicit defaults, and an object in a slice.
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
                "ConfigMap shop/web (config): Changed",
                "ConfigMap shop/new (config): Added",
                "Deployment.apps shop/web (app): Changed",
                "Secret shop/web (config): Removed",
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
                "ConfigMap shop/web (config): SameManifest; collisionProtection: [\"Prevent\"] -> \
                 [\"IfNoController\"]; conditionMappings: [] -> [\"Ready as example.com/Ready\"]; createOnlyFields: \
                 [] -> [\".data.a\", \".data.b\"]",
                "Secret shop/web (app): SameManifest; phase: [\"config\"] -> [\"app\"]",
            ]
        );
    }

    #[test]
    fn labels_phases_and_probes_are_compared_as_a_whole() {
        let two = format!("{ONE}successDelaySeconds: 3");
        let sections = compare(&side(ONE), &side(&two));
        assert_eq!(sections.len(), 1);
        assert_eq!(sections[0].topic, Topic::Settings);
        let after = sections[0].pair.as_ref().unwrap().after().unwrap();
        let expected: Value =
            serde_saphyr::from_str("{phases: [config, app], successDelaySeconds: 3}").unwrap();
        assert_eq!(*after, expected);
        let mut labelled = side(ONE);
        labelled.labels.insert("a".to_owned(), "b".to_owned());
        assert_eq!(lines(&side(ONE), &labelled).len(), 1);
        let classy = ONE.replace("- name: app", "- name: app\n  class: default");
        assert_eq!(lines(&side(ONE), &side(&classy)), ["Settings: Changed"]);
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
