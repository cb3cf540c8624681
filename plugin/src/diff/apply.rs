//! What a new revision would do with each of its objects, and with those of the revisions before it.
//!
//! The decisions are the engine's, as the manager makes them; the server's answers to dry runs tell
//! the rest. First [`request`] says what to send about an object, then [`evaluate`] what the answer means.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::{
    Gvk, ObjectKey,
    containers::{Container, Held},
    handover::{Adoption, Claim, Refusal, Sibling, Siblings, classify, decide_adoption},
    keep::is_kept,
    object::{controller, is_terminating, text},
    recreate::runs_once,
    redact::with_short_values,
    revision::{Desired, Revision as Next},
};
use baton_view::{chain::member::Revision, content::RevisionContent};
use serde_json::Value;

use super::{
    Pair, Section,
    clean::{clean, clean_live},
    fate::Fate,
    live::dry_run_body,
};

/// How many objects that are handed over unchanged are listed one by one.
const LISTED: usize = 20;

/// What is known of the revisions in the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainSiblings {
    by_uid: BTreeMap<String, Sibling>,
}

impl ChainSiblings {
    /// All revisions of a scope and namespace; `previous` are the names of those that the new one
    /// lists.
    pub(crate) fn new<'a>(
        revisions: impl IntoIterator<Item = &'a Revision>,
        previous: &BTreeSet<String>,
    ) -> Self {
        let mut by_uid = BTreeMap::new();
        for revision in revisions {
            let sibling = Sibling {
                name: revision.name().to_owned(),
                number: revision.number().unwrap_or_default(),
                is_previous: previous.contains(revision.name()),
                is_archived: revision.is_archived(),
            };
            for phase in &revision.status.remote_phases {
                by_uid.insert(phase.uid.clone(), sibling.clone());
            }
            by_uid.insert(revision.uid().to_owned(), sibling);
        }
        Self { by_uid }
    }

    /// Whether one of the listed previous revisions controls an object.
    pub(crate) fn controls(&self, live: &Value) -> bool {
        let uid = controller(live).map(|owner| text(owner, "uid"));
        let sibling = uid.and_then(|uid| self.by_uid.get(uid));
        sibling.is_some_and(|sibling| sibling.is_previous)
    }
}

impl Siblings for ChainSiblings {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        self.by_uid.get(uid).cloned()
    }

    fn taken_by_newer(&self, _: &ObjectKey) -> Option<Claim> {
        None
    }
}

/// What a new revision brings along that does not exist yet while it is asked about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bringing {
    kinds: BTreeMap<(String, String), Value>,
    namespaces: BTreeSet<String>,
}

impl Bringing {
    /// The kinds that its `CustomResourceDefinition`s define, and its namespaces.
    pub(crate) fn of(content: &RevisionContent) -> Self {
        let mut bringing = Self::default();
        for object in content.objects() {
            let at = |pointer| {
                let text = object.manifest.pointer(pointer).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            match (object.key.group.as_str(), object.key.kind.as_str()) {
                ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                    let kind = (at("/spec/group"), at("/spec/names/kind"));
                    bringing.kinds.insert(kind, object.manifest.clone());
                }
                ("", "Namespace") => {
                    bringing.namespaces.insert(object.key.name.clone());
                }
                _ => {}
            }
        }
        bringing
    }

    fn definition(&self, gvk: &Gvk) -> Option<&Value> {
        self.kinds.get(&(gvk.group.clone(), gvk.kind.clone()))
    }

    fn has_kind(&self, gvk: &Gvk) -> bool {
        self.definition(gvk).is_some()
    }

    /// Whether a refusal is for lack of a namespace that the revision makes. Servers say so before they look any
    /// further.
    pub(super) fn makes_namespace(&self, desired: &Desired, why: &str) -> bool {
        let namespace = &desired.key.namespace;
        let missing = format!("namespaces \"{namespace}\" not found");
        self.namespaces.contains(namespace) && why.contains(&missing)
    }

    /// Whether a refusal is about nothing but what the revision brings along first: a namespace, or fields that its
    /// definition of the kind has and the served one has not.
    fn explains(&self, desired: &Desired, why: &str) -> Option<&'static str> {
        if self.makes_namespace(desired, why) {
            return Some("not checked whole: its namespace is made by the revision");
        }
        let definition = self.definition(&desired.gvk)?;
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let version = versions
            .iter()
            .find(|it| text(it, "name") == desired.gvk.version)?;
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        let mut unknown = unknown_fields(why).peekable();
        unknown.peek()?;
        let are_known = unknown.all(|path| has_field(schema, path));
        are_known.then_some("not checked: its kind is changed by the revision")
    }
}

/// What a server says of a field that a kind does not have, behind its path.
const UNKNOWN_FIELD: &str = ": field not declared in schema";

/// The paths of the fields that a kind does not have, by a server's refusal.
fn unknown_fields(why: &str) -> impl Iterator<Item = &str> {
    let parts = why.split(UNKNOWN_FIELD);
    let count = parts.clone().count();
    let before = parts.take(count.saturating_sub(1));
    before.map(|text| text.rsplit(char::is_whitespace).next().unwrap_or_default())
}

/// Whether a schema has the field at a path such as `.spec.rules[0].host`.
fn has_field(schema: &Value, path: &str) -> bool {
    let mut keys = path.split(['.', '[']).filter(|key| !key.is_empty());
    let found = keys.try_fold(schema, |schema, key| {
        if key.ends_with(']') {
            return schema.get("items");
        }
        let field = schema.get("properties").and_then(|it| it.get(key));
        field.or_else(|| schema.get("additionalProperties"))
    });
    found.is_some()
}

/// A dry run to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// An unforced apply of an object that does not exist.
    Create(Value),
    /// A forced apply to one that does, in the state it was seen in.
    Apply(Value),
    /// None: this is how it is.
    Nothing(Section),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Response {
    /// The object as it would be.
    Object(Value),
    /// It would refuse, for this reason.
    Refused(String),
    /// It refuses the change of what is to be recreated, as one of immutable fields.
    Immutable,
    /// It does not serve the kind.
    NotServed,
}

/// What has to be asked about an object.
pub(crate) fn request(
    next: &Next,
    siblings: &ChainSiblings,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
) -> Request {
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    if let [first, ..] = desired.violations.as_slice() {
        return Request::Nothing(section.fate(Fate::Refused(first.clone())));
    }
    let Some(live) = live else {
        return Request::Create(desired.manifest.clone());
    };
    let situation = classify(next, siblings, live);
    match decide_adoption(next, desired, &situation, live) {
        Adoption::Keep | Adoption::Adopt(_) => Request::Apply(dry_run_body(desired, live)),
        Adoption::Leave(newer) => Request::Nothing(section.fate(Fate::Left(newer))),
        Adoption::Refuse(refusal) => {
            let owner = owner(live);
            Request::Nothing(section.fate(match refusal {
                Refusal::SameNumber => Fate::SameNumber(owner),
                Refusal::LeftBehind | Refusal::Protected => Fate::Protected {
                    owner,
                    protection: desired.protection,
                },
            }))
        }
    }
}

pub(crate) fn evaluate(
    siblings: &ChainSiblings,
    bringing: &Bringing,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
    answer: Response,
) -> Section {
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    let created = |section: Section, note: Option<&str>| {
        let pair = Pair::new(None, Some(clean(desired.manifest.clone())));
        let mut section = section.fate(Fate::Created).pair(pair);
        section.notes.extend(note.map(str::to_owned));
        section
    };
    match (live, answer) {
        (None, Response::Object(_)) => created(section, None),
        (None, Response::NotServed) if bringing.has_kind(&desired.gvk) => created(
            section,
            Some("not checked: its kind is defined by the revision"),
        ),
        (_, Response::NotServed) => {
            let gvk = &desired.gvk;
            let (version, kind) = (gvk.api_version(), &gvk.kind);
            section.fate(Fate::Refused(format!("{version} {kind} is not served")))
        }
        (_, Response::Immutable) => {
            let mut section = section.fate(Fate::Recreated);
            if runs_once(desired) {
                let note = "a content that an older revision has run is not run again";
                section.notes.push(note.to_owned());
            }
            section
        }
        (live, Response::Refused(why)) => {
            if let Some(note) = bringing.explains(desired, &why) {
                if live.is_none() {
                    return created(section, Some(note));
                }
                let mut section = section.fate(Fate::Changed);
                section.notes.push(note.to_owned());
                return section;
            }
            let why = with_short_values(&super::mask::redact(&why, &desired.manifest));
            section.fate(Fate::Refused(why))
        }
        (Some(live), Response::Object(answer)) => {
            let pair = Pair::new(Some(clean_live(live.clone())), Some(clean_live(answer)));
            let mut section = section.fate(match (siblings.controls(live), pair.is_same()) {
                (true, true) => Fate::HandedOver,
                (true, false) => Fate::Changed,
                (false, _) => Fate::TakenOver(owner(live)),
            });
            if is_terminating(live) {
                section.notes.push("being deleted now".to_owned());
            }
            section.pair(pair)
        }
    }
}

/// What becomes of an object that only older revisions want; nothing where it is not theirs. The new one wants `wants`.
pub(crate) fn left_behind(
    siblings: &ChainSiblings,
    wants: &BTreeSet<ObjectKey>,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
    when: &str,
) -> Option<Section> {
    let live = live.filter(|live| siblings.controls(live))?;
    let section = Section::of(&desired.gvk, &desired.key, Some(phase));
    if is_kept([&desired.manifest, live]) {
        return Some(section.fate(Fate::Kept(when.to_owned())));
    }
    let held = Container::of(&desired.gvk, &desired.manifest).map(|container| Held {
        container,
        key: desired.key.clone(),
        revision: controller(live).map_or_else(String::new, |by| text(by, "name").to_owned()),
    });
    if let Some(loss) = held.and_then(|held| held.loss(wants)) {
        return Some(section.fate(Fate::Refused(loss)));
    }
    let pair = Pair::new(Some(clean(desired.manifest.clone())), None);
    let section = section.fate(Fate::Deleted(when.to_owned()));
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
pub(crate) fn condense(mut sections: Vec<Section>) -> (Vec<Section>, Option<String>) {
    let is_unchanged = |section: &Section| section.fate == Fate::HandedOver;
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

#[cfg(test)]
mod tests {
    use baton_apis::{ObjectSetObject, ObjectSetTemplatePhase};
    use baton_engine::object::Identity;
    use baton_engine::revision::prepare;
    use serde_json::json;

    use super::super::Tone;
    use super::*;
    use baton_view::content::Phase;

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

    fn siblings() -> ChainSiblings {
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
        ChainSiblings::new(&revisions, &previous)
    }

    /// A live `ConfigMap` with the value `b`, by its controller ("" for none) and revision number.
    fn live(owner: &str, number: &str) -> Value {
        let mut live = yaml(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop, uid: u, resourceVersion: \
                 '1'}, data: {a: b}}",
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
        match request(
            &next(),
            &siblings(),
            "config",
            &desired(WEB, protection),
            live,
        ) {
            Request::Create(_) => "create".to_owned(),
            Request::Apply(body) => format!("apply to {}", body["metadata"]["uid"]),
            Request::Nothing(section) => section.fate.to_string(),
        }
    }

    #[test]
    fn requests_follow_the_handover_rules() {
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
                "collides: it exists, controlled by ObjectSet stranger; collisionProtection IfNoController leaves \
                     it alone",
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
        let Request::Nothing(section) = request(&next(), &siblings(), "config", &broken, None)
        else {
            panic!("a manifest without a name is asked about");
        };
        assert_eq!(
            section.fate.to_string(),
            "refused: Object must have a metadata.name."
        );
    }

    fn section_for(live: Option<&Value>, answer: Response) -> Section {
        let bringing = Bringing::default();
        evaluate(
            &siblings(),
            &bringing,
            "config",
            &desired(WEB, "None"),
            live,
            answer,
        )
    }

    #[test]
    fn responses_decide_the_verdict() {
        let owned = live("web-v2", "2");
        let mut same = live("new", "3");
        same["metadata"]["resourceVersion"] = "2".into();
        let mut changed = same.clone();
        changed["data"]["a"] = "c".into();
        for (live, answer, tone, verdict) in [
            (None, Response::Object(same.clone()), Tone::Added, "created"),
            (
                Some(owned.clone()),
                Response::Object(same.clone()),
                Tone::Same,
                "handed over unchanged",
            ),
            (
                Some(owned.clone()),
                Response::Object(changed),
                Tone::Changed,
                "changed",
            ),
            (
                Some(live("stranger", "")),
                Response::Object(same.clone()),
                Tone::Changed,
                "taken over from ObjectSet stranger",
            ),
            (
                Some(live("", "")),
                Response::Object(same),
                Tone::Changed,
                "taken over from nobody",
            ),
            (
                None,
                Response::Refused("exceeded quota".to_owned()),
                Tone::Bad,
                "refused: exceeded quota",
            ),
            (
                Some(owned.clone()),
                Response::Immutable,
                Tone::Changed,
                "deleted and created anew",
            ),
            (
                Some(owned.clone()),
                Response::Refused(
                    "spec: Invalid value: core.Spec{A:1, B:\"x\"}: field is immutable".to_owned(),
                ),
                Tone::Bad,
                "refused: spec: Invalid value: a value: field is immutable",
            ),
            (
                Some(owned),
                Response::NotServed,
                Tone::Bad,
                "refused: v1 ConfigMap is not served",
            ),
        ] {
            let section = section_for(live.as_ref(), answer);
            assert_eq!(
                (section.tone(), &*section.fate.to_string()),
                (tone, verdict)
            );
        }
    }

    #[test]
    fn what_the_revision_brings_along_is_not_missing() {
        let crd = desired(
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: \
                 {group: example.com, names: {kind: Thing}}}",
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
        let bringing = Bringing::of(&RevisionContent {
            phases: vec![phase],
        });
        let verdict = |manifest: &str, answer| {
            let desired = desired(manifest, "Prevent");
            let section = evaluate(&siblings(), &bringing, "app", &desired, None, answer);
            section.fate.to_string()
        };
        let thing = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}";
        let other = "{apiVersion: example.com/v1, kind: Other, metadata: {name: x}}";
        assert_eq!(verdict(thing, Response::NotServed), "created");
        assert_eq!(
            verdict(other, Response::NotServed),
            "refused: example.com/v1 Other is not served"
        );
        let inside = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: fresh}}";
        let refused = || Response::Refused("namespaces \"fresh\" not found".to_owned());
        assert_eq!(verdict(inside, refused()), "created");
        // What is wrong with it is told all the same.
        let invalid = || Response::Refused("metadata.name: must be lower case".to_owned());
        assert_eq!(
            verdict(inside, invalid()),
            "refused: metadata.name: must be lower case"
        );
        assert_eq!(
            verdict(WEB, refused()),
            "refused: namespaces \"fresh\" not found"
        );
    }

    #[test]
    fn a_field_that_the_revision_brings_along_is_not_missing() {
        let crd = desired(
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: \
                 {group: example.com, names: {kind: Thing}, versions: [{name: v1, schema: {openAPIV3Schema: \
                 {properties: {spec: {properties: {size: {type: integer}, rules: {items: {properties: {host: {}}}}, \
                 labels: {additionalProperties: {type: string}}}}}}}}]}}",
            "Prevent",
        );
        let phase = Phase {
            objects: vec![crd],
            ..Phase::default()
        };
        let bringing = Bringing::of(&RevisionContent {
            phases: vec![phase],
        });
        let thing = desired(
            "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}",
            "None",
        );
        let begin = "failed to create typed patch object (shop/x; example.com/v1, Kind=Thing)";
        let unknown = ": field not declared in schema";
        let stranger = live("", "");
        for (why, live, expected) in [
            (format!("{begin}: .spec.size{unknown}"), None, "created"),
            (
                format!("{begin}: .spec.size{unknown}"),
                Some(&stranger),
                "changed",
            ),
            (
                format!(
                    "{begin}: errors:\n  .spec.rules[0].host{unknown}\n  .spec.labels.a{unknown}"
                ),
                None,
                "created",
            ),
            (
                format!("{begin}: errors:\n  .spec.size{unknown}\n  .spec.seize{unknown}"),
                None,
                "refused",
            ),
            (
                format!("{begin}: .spec.size: expected numeric, got another kind"),
                None,
                "refused",
            ),
        ] {
            let answer = Response::Refused(why.clone());
            let section = evaluate(&siblings(), &bringing, "app", &thing, live, answer);
            let verdict = section.fate.to_string();
            assert!(verdict.starts_with(expected), "{why}: {verdict}");
        }
    }

    #[test]
    fn refusals_do_not_reveal_secrets() {
        let secret = desired(
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {pin: 123456}}",
            "Prevent",
        );
        let answer = Response::Refused("expected string, got 123456".to_owned());
        let section = evaluate(
            &siblings(),
            &Bringing::default(),
            "a",
            &secret,
            None,
            answer,
        );
        assert_eq!(
            section.fate.to_string(),
            "refused: expected string, got ***"
        );
    }

    #[test]
    fn objects_that_nobody_wants_any_more_are_deleted() {
        let check = |live: Option<&Value>| {
            let web = desired(WEB, "Prevent");
            let section = left_behind(&siblings(), &BTreeSet::new(), "old", &web, live, "later");
            section.map(|section| section.fate.to_string())
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
    fn objects_that_are_to_be_kept_are_not_deleted() {
        let mut kept = live("web-v1", "1");
        kept["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
        let section = left_behind(
            &siblings(),
            &BTreeSet::new(),
            "old",
            &desired(WEB, "Prevent"),
            Some(&kept),
            "later",
        );
        assert_eq!(
            section.unwrap().fate.to_string(),
            "kept, without an owner, later"
        );
    }

    #[test]
    fn a_namespace_with_objects_of_the_new_revision_is_refused() {
        let namespace = desired(
            "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
            "Prevent",
        );
        let web = desired(WEB, "Prevent");
        let live = live("web-v1", "1");
        let verdict = |wants: &[&Desired]| {
            let wants = wants.iter().map(|object| object.key.clone()).collect();
            let section = left_behind(&siblings(), &wants, "old", &namespace, Some(&live), "later");
            section.unwrap().fate.to_string()
        };
        assert_eq!(verdict(&[]), "deleted later");
        assert_eq!(
            verdict(&[&web]),
            "refused: Namespace shop is left out and would be deleted with revision web-v1, and with it ConfigMap \
             shop/web: keep it in the revision, or exempt it from deletion with the annotation baton.run/deletion=keep"
        );
    }

    #[test]
    fn many_unchanged_objects_are_not_listed() {
        let mut same = section_for(None, Response::NotServed).fate(Fate::HandedOver);
        same.pair = None;
        let other = section_for(None, Response::NotServed);
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
    fn a_summary_counts_verdicts() {
        let summary = |fates: &[Fate]| Fate::count(fates).to_string();
        assert_eq!(summary(&[]), "no objects");
        assert_eq!(
            summary(&[
                Fate::Deleted("later".to_owned()),
                Fate::HandedOver,
                Fate::Created,
                Fate::HandedOver,
                Fate::Left("web-v9".to_owned()),
                Fate::Kept("later".to_owned()),
            ]),
            "1 created, 2 handed over unchanged, 1 left alone, 1 kept, 1 deleted"
        );
    }
}
