//! What a new revision would do with each of its objects, and with those of the revisions before it.
//!
//! The decisions are the engine's, as the manager makes them; the server's answers to dry runs tell
//! the rest. First [`ask`] says what to send about an object, then [`tell`] what the answer means.

use std::collections::{BTreeMap, BTreeSet};

use baton::engine::handover::{Kin, Lineage, Verdict, classify, judge};
use baton::engine::object::{controller, is_terminating, text};
use baton::engine::revision::{Desired, Revision as Next};
use baton::engine::{Gvk, ObjectKey};
use serde_json::Value;

use super::clean::{clean, clean_live};
use super::live::dry_run_body;
use super::{Pair, Section, Tone};
use crate::chain::Revision;
use crate::content::Content;

/// What becomes of an object that only changes hands.
const UNCHANGED: &str = "handed over unchanged";
/// How the verdict about objects of other clusters begins.
const NOT_COMPARED: &str = "not compared";

/// How many of those are listed one by one.
const LISTED: usize = 20;

/// What is known of the revisions in the same place.
#[derive(Clone, Debug, Default)]
pub struct Family {
    by_uid: BTreeMap<String, Kin>,
}

impl Family {
    /// All revisions of a scope and namespace; `previous` are the names of those that the new one
    /// lists.
    #[must_use]
    pub fn new<'a>(
        revisions: impl IntoIterator<Item = &'a Revision>,
        previous: &BTreeSet<String>,
    ) -> Self {
        let mut by_uid = BTreeMap::new();
        for revision in revisions {
            let kin = Kin {
                name: revision.name().to_owned(),
                number: revision.number().unwrap_or_default(),
                is_previous: previous.contains(revision.name()),
                is_archived: revision.is_archived(),
            };
            for phase in &revision.status.remote_phases {
                by_uid.insert(phase.uid.clone(), kin.clone());
            }
            by_uid.insert(revision.uid().to_owned(), kin);
        }
        Self { by_uid }
    }

    /// Whether one of the listed previous revisions controls an object.
    #[must_use]
    pub fn controls(&self, live: &Value) -> bool {
        let uid = controller(live).map(|owner| text(owner, "uid"));
        let kin = uid.and_then(|uid| self.by_uid.get(uid));
        kin.is_some_and(|kin| kin.is_previous)
    }
}

impl Lineage for Family {
    fn kin(&self, uid: &str) -> Option<Kin> {
        self.by_uid.get(uid).cloned()
    }

    fn taken_by_newer(&self, _: &ObjectKey) -> Option<String> {
        None
    }
}

/// What a new revision brings along that does not exist yet while it is asked about.
#[derive(Clone, Debug, Default)]
pub struct Bringing {
    kinds: BTreeSet<(String, String)>,
    namespaces: BTreeSet<String>,
}

impl Bringing {
    /// The kinds that its `CustomResourceDefinition`s define, and its namespaces.
    #[must_use]
    pub fn of(content: &Content) -> Self {
        let mut bringing = Self::default();
        for object in content.objects() {
            let at = |pointer| {
                let text = object.manifest.pointer(pointer).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            match (object.key.group.as_str(), object.key.kind.as_str()) {
                ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                    let kind = (at("/spec/group"), at("/spec/names/kind"));
                    bringing.kinds.insert(kind);
                }
                ("", "Namespace") => {
                    bringing.namespaces.insert(object.key.name.clone());
                }
                _ => {}
            }
        }
        bringing
    }

    fn has_kind(&self, gvk: &Gvk) -> bool {
        self.kinds.contains(&(gvk.group.clone(), gvk.kind.clone()))
    }
}

/// A dry run to be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// An unforced apply of an object that does not exist.
    Create(Value),
    /// A forced apply to one that does, in the state it was seen in.
    Apply(Value),
    /// None: this is how it is.
    Nothing(Section),
}

/// What the server said.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object as it would be.
    Object(Value),
    /// It would refuse, for this reason.
    Refused(String),
    /// It does not serve the kind.
    NotServed,
}

/// What has to be asked about an object.
#[must_use]
pub fn ask(
    next: &Next,
    family: &Family,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
) -> Ask {
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    if let [first, ..] = desired.violations.as_slice() {
        return Ask::Nothing(section.verdict(Tone::Bad, format!("refused: {first}")));
    }
    let Some(live) = live else {
        return Ask::Create(desired.manifest.clone());
    };
    let situation = classify(next, family, live);
    match judge(next, desired, &situation, live) {
        Verdict::Keep | Verdict::Adopt(_) => Ask::Apply(dry_run_body(desired, live)),
        Verdict::Leave(newer) => {
            Ask::Nothing(section.verdict(Tone::Same, format!("left to revision {newer}")))
        }
        Verdict::Refuse(refusal) => {
            let verdict = if refusal.starts_with("revision collision") {
                format!("collides: {} has the same revision number", owner(live))
            } else {
                format!(
                    "collides: it exists, controlled by {}; collisionProtection {:?} leaves it alone",
                    owner(live),
                    desired.protection
                )
            };
            Ask::Nothing(section.verdict(Tone::Bad, verdict))
        }
    }
}

/// What an answer means.
#[must_use]
pub fn tell(
    family: &Family,
    bringing: &Bringing,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
    answer: Answer,
) -> Section {
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    let created = |section: Section, note: Option<&str>| {
        let pair = Pair::new(None, Some(clean(desired.manifest.clone())));
        let mut section = section.verdict(Tone::Added, "created").pair(pair);
        section.notes.extend(note.map(str::to_owned));
        section
    };
    let namespace = &desired.key.namespace;
    match (live, answer) {
        (None, Answer::Object(_)) => created(section, None),
        (None, Answer::NotServed) if bringing.has_kind(&desired.gvk) => created(
            section,
            Some("not checked: its kind is defined by the revision"),
        ),
        (None, Answer::Refused(_)) if bringing.namespaces.contains(namespace) => created(
            section,
            Some("not checked: its namespace is made by the revision"),
        ),
        (_, Answer::NotServed) => {
            let gvk = &desired.gvk;
            let (version, kind) = (gvk.api_version(), &gvk.kind);
            section.verdict(
                Tone::Bad,
                format!("refused: {version} {kind} is not served"),
            )
        }
        (_, Answer::Refused(why)) => {
            let why = super::mask::redact(&why, &desired.manifest);
            section.verdict(Tone::Bad, format!("refused: {why}"))
        }
        (Some(live), Answer::Object(answer)) => {
            let pair = Pair::new(Some(clean_live(live.clone())), Some(clean_live(answer)));
            let mut section = match (family.controls(live), pair.is_same()) {
                (true, true) => section.verdict(Tone::Same, UNCHANGED),
                (true, false) => section.verdict(Tone::Changed, "changed"),
                (false, _) => {
                    let verdict = format!("taken over from {}", owner(live));
                    section.verdict(Tone::Changed, verdict)
                }
            };
            if is_terminating(live) {
                section.notes.push("being deleted now".to_owned());
            }
            section.pair(pair)
        }
    }
}

/// What becomes of an object that only older revisions want; nothing where it is not theirs.
#[must_use]
pub fn left_behind(
    family: &Family,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
    when: &str,
) -> Option<Section> {
    live.filter(|live| family.controls(live))?;
    let pair = Pair::new(Some(clean(desired.manifest.clone())), None);
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    let section = section.verdict(Tone::Removed, format!("deleted {when}"));
    Some(section.pair(pair))
}

/// `ObjectSet web-v1`, or `nobody`.
fn owner(live: &Value) -> String {
    controller(live).map_or_else(
        || "nobody".to_owned(),
        |owner| format!("{} {}", text(owner, "kind"), text(owner, "name")),
    )
}

/// Leaves out the objects that are handed over unchanged when they are many, and says so.
#[must_use]
pub fn condense(mut sections: Vec<Section>) -> (Vec<Section>, Option<String>) {
    let is_unchanged = |section: &Section| section.verdict == UNCHANGED;
    let count = sections
        .iter()
        .filter(|section| is_unchanged(section))
        .count();
    if count <= LISTED {
        return (sections, None);
    }
    sections.retain(|section| !is_unchanged(section));
    let note = format!("the {count} objects that are handed over unchanged are not listed");
    (sections, Some(note))
}

/// How many objects meet which fate, as in `2 created, 1 changed, 3 handed over unchanged`.
#[must_use]
pub fn summary(sections: &[Section]) -> String {
    let word = |section: &Section| match section.tone {
        Tone::Added => "created",
        Tone::Changed => "changed",
        Tone::Same if section.verdict == UNCHANGED => UNCHANGED,
        Tone::Removed => "deleted",
        Tone::Bad => "refused",
        Tone::Same if section.verdict.starts_with(NOT_COMPARED) => NOT_COMPARED,
        // Those of newer revisions.
        Tone::Same => "left alone",
    };
    let order = [
        "created",
        "changed",
        UNCHANGED,
        "left alone",
        NOT_COMPARED,
        "deleted",
        "refused",
    ];
    let counts = order.into_iter().filter_map(|fate| {
        let count = sections
            .iter()
            .filter(|section| word(section) == fate)
            .count();
        (count > 0).then(|| format!("{count} {fate}"))
    });
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() {
        "no objects".to_owned()
    } else {
        counts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use baton::engine::object::Identity;
    use baton::engine::revision::prepare;
    use baton_apis::{ObjectSetObject, ObjectSetTemplatePhase};
    use serde_json::json;

    use super::*;
    use crate::content::Phase;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn next() -> Next {
        Next {
            identity: Identity {
                kind: "ObjectSet".to_owned(),
                namespace: "shop".to_owned(),
                ..Identity::default()
            },
            number: 3,
            ..Next::default()
        }
    }

    fn desired(manifest: &str, protection: &str) -> Desired {
        let entry: ObjectSetObject = serde_json::from_value(json!({
            "object": yaml(manifest), "collisionProtection": protection,
        }))
        .unwrap();
        let phase = ObjectSetTemplatePhase {
            objects: vec![entry],
            ..ObjectSetTemplatePhase::default()
        };
        prepare(&next(), vec![phase]).remove(0).objects.remove(0)
    }

    fn family() -> Family {
        let set = |name: &str, number: i64| {
            let object = json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                "metadata": {"name": name, "uid": name, "namespace": "shop"},
                "spec": {"revision": number},
                "status": {"remotePhases": [{"name": "p", "uid": format!("{name}-phase")}]},
            });
            Revision::parse(object).unwrap()
        };
        let revisions = [
            set("web-v1", 1),
            set("web-v2", 2),
            set("twin-v3", 3),
            set("new-v4", 4),
        ];
        let previous = ["web-v1", "web-v2", "twin-v3"].map(str::to_owned).into();
        Family::new(&revisions, &previous)
    }

    /// A live `ConfigMap` with the value `b`, by its controller ("" for none) and revision number.
    fn live(owner: &str, number: &str) -> Value {
        let mut live = yaml(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop, uid: u, resourceVersion: '1'}, data: {a: b}}",
        );
        live["metadata"]["annotations"] = json!({"package-operator.run/revision": number});
        if !owner.is_empty() {
            live["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": owner,
                "uid": owner, "controller": true,
            }]);
        }
        live
    }

    const WEB: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {a: b}}";

    /// What is asked, or said at once.
    fn asked(live: Option<&Value>, protection: &str) -> String {
        match ask(
            &next(),
            &family(),
            "config",
            &desired(WEB, protection),
            live,
        ) {
            Ask::Create(_) => "create".to_owned(),
            Ask::Apply(body) => format!("apply to {}", body["metadata"]["uid"]),
            Ask::Nothing(section) => section.verdict,
        }
    }

    #[test]
    fn what_is_asked() {
        assert_eq!(asked(None, "Prevent"), "create");
        for (owner, number, protection, expected) in [
            ("web-v2", "2", "Prevent", "apply to \"u\""),
            ("web-v1-phase", "1", "Prevent", "apply to \"u\""),
            ("new-v4", "4", "Prevent", "left to revision new-v4"),
            (
                "twin-v3",
                "3",
                "Prevent",
                "collides: ObjectSet twin-v3 has the same revision number",
            ),
            (
                "",
                "",
                "Prevent",
                "collides: it exists, controlled by nobody; collisionProtection Prevent leaves it alone",
            ),
            ("", "", "IfNoController", "apply to \"u\""),
            (
                "stranger",
                "",
                "IfNoController",
                "collides: it exists, controlled by ObjectSet stranger; collisionProtection IfNoController leaves it alone",
            ),
            ("stranger", "", "None", "apply to \"u\""),
        ] {
            assert_eq!(
                asked(Some(&live(owner, number)), protection),
                expected,
                "{owner}"
            );
        }
        let broken = desired("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "Prevent");
        let Ask::Nothing(section) = ask(&next(), &family(), "config", &broken, None) else {
            panic!("a manifest without a name is asked about");
        };
        assert_eq!(
            section.verdict,
            "refused: Object must have a metadata.name."
        );
    }

    fn told(live: Option<&Value>, answer: Answer) -> Section {
        let bringing = Bringing::default();
        tell(
            &family(),
            &bringing,
            "config",
            &desired(WEB, "None"),
            live,
            answer,
        )
    }

    #[test]
    fn what_answers_mean() {
        let owned = live("web-v2", "2");
        let mut same = live("new", "3");
        same["metadata"]["resourceVersion"] = "2".into();
        let mut changed = same.clone();
        changed["data"]["a"] = "c".into();
        for (live, answer, tone, verdict) in [
            (None, Answer::Object(same.clone()), Tone::Added, "created"),
            (
                Some(owned.clone()),
                Answer::Object(same.clone()),
                Tone::Same,
                "handed over unchanged",
            ),
            (
                Some(owned.clone()),
                Answer::Object(changed),
                Tone::Changed,
                "changed",
            ),
            (
                Some(live("stranger", "")),
                Answer::Object(same.clone()),
                Tone::Changed,
                "taken over from ObjectSet stranger",
            ),
            (
                Some(live("", "")),
                Answer::Object(same),
                Tone::Changed,
                "taken over from nobody",
            ),
            (
                None,
                Answer::Refused("exceeded quota".to_owned()),
                Tone::Bad,
                "refused: exceeded quota",
            ),
            (
                Some(owned),
                Answer::NotServed,
                Tone::Bad,
                "refused: v1 ConfigMap is not served",
            ),
        ] {
            let section = told(live.as_ref(), answer);
            assert_eq!((section.tone, section.verdict.as_str()), (tone, verdict));
        }
    }

    #[test]
    fn what_the_revision_brings_along_is_not_missing() {
        let crd = desired(
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: example.com, names: {kind: Thing}}}",
            "Prevent",
        );
        let namespace = desired(
            "{apiVersion: v1, kind: Namespace, metadata: {name: fresh}}",
            "Prevent",
        );
        let phase = Phase {
            objects: vec![crd, namespace],
            ..Phase::default()
        };
        let bringing = Bringing::of(&Content {
            phases: vec![phase],
        });
        let tell = |manifest: &str, answer| {
            let desired = desired(manifest, "Prevent");
            tell(&family(), &bringing, "app", &desired, None, answer).verdict
        };
        let thing = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}";
        let other = "{apiVersion: example.com/v1, kind: Other, metadata: {name: x}}";
        assert_eq!(tell(thing, Answer::NotServed), "created");
        assert_eq!(
            tell(other, Answer::NotServed),
            "refused: example.com/v1 Other is not served"
        );
        let inside = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: fresh}}";
        let refused = || Answer::Refused("namespaces \"fresh\" not found".to_owned());
        assert_eq!(tell(inside, refused()), "created");
        assert_eq!(
            tell(WEB, refused()),
            "refused: namespaces \"fresh\" not found"
        );
    }

    #[test]
    fn refusals_do_not_tell_secrets() {
        let secret = desired(
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {pin: 123456}}",
            "Prevent",
        );
        let answer = Answer::Refused("expected string, got 123456".to_owned());
        let section = tell(&family(), &Bringing::default(), "a", &secret, None, answer);
        assert_eq!(section.verdict, "refused: expected string, got ***");
    }

    #[test]
    fn what_is_left_behind() {
        let check = |live: Option<&Value>| {
            let section = left_behind(&family(), "old", &desired(WEB, "Prevent"), live, "later");
            section.map(|section| section.verdict)
        };
        assert_eq!(
            check(Some(&live("web-v1", "1"))),
            Some("deleted later".to_owned())
        );
        // Released, taken by somebody else, gone already.
        assert_eq!(check(Some(&live("", "1"))), None);
        assert_eq!(check(Some(&live("stranger", "1"))), None);
        assert_eq!(check(None), None);
    }

    #[test]
    fn many_unchanged_objects_are_not_listed() {
        let mut same = told(None, Answer::NotServed).verdict(Tone::Same, UNCHANGED);
        same.pair = None;
        let other = told(None, Answer::NotServed);
        let mut few = vec![same.clone(); LISTED];
        few.push(other.clone());
        assert_eq!(condense(few.clone()), (few.clone(), None));
        few.push(same);
        let (left, note) = condense(few);
        assert_eq!(left, [other]);
        let expected = "the 21 objects that are handed over unchanged are not listed";
        assert_eq!(note.unwrap(), expected);
    }

    #[test]
    fn summaries() {
        let section = |(tone, verdict)| told(None, Answer::NotServed).verdict(tone, verdict);
        assert_eq!(summary(&[]), "no objects");
        let fates = [
            (Tone::Removed, "deleted later"),
            (Tone::Same, UNCHANGED),
            (Tone::Added, "created"),
            (Tone::Same, UNCHANGED),
            (Tone::Same, "left to revision web-v9"),
        ];
        assert_eq!(
            summary(&fates.map(section)),
            "1 created, 2 handed over unchanged, 1 left alone, 1 deleted"
        );
    }
}
