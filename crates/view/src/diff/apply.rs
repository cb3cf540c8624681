//! The outcomes of the objects of a new revision, and of the objects of its predecessors.
//!
//! The engine decides as it does in the manager; the rest follows from the server's answers to dry
//! runs. [`request`] creates the dry run of an object, [`evaluate`] makes a section of the answer.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::{
    Gvk, ObjectKey,
    containers::{Container, ManagedContainer},
    handover::{Adoption, Claim, Refusal, Relation, Sibling, Siblings, classify, decide_adoption},
    keep::is_kept,
    object::{controller, is_terminating, text},
    recreate::runs_once,
    redact::with_short_values,
    revision::{Desired, Revision as Next},
};
use serde_json::Value;

use super::{
    Pair, Section,
    clean::{clean, clean_live},
    live::dry_run_body,
    note::ObjectNote,
    outcome::{DiffOutcome, RemovalTime},
};
use crate::{
    chain::Chain, children::owner_outside_chain, content::RevisionContent, object::text_at,
};

/// Maximum number of objects handed over unchanged that are listed one by one.
const LISTED: usize = 20;

/// The revisions in the same scope and namespace.
#[derive(Clone, Debug, Default)]
pub struct ChainSiblings {
    by_uid: BTreeMap<String, Sibling>,
}

impl ChainSiblings {
    /// All revisions of a chain, each as a previous revision of the new one.
    #[must_use]
    pub fn of(chain: &Chain) -> Self {
        let names = chain.revisions.iter().map(|it| it.name().to_owned());
        Self::new([chain], &names.collect())
    }

    /// The revisions of the chains of a scope and namespace. `previous` contains the names of the
    /// previous revisions of the new one.
    pub fn new<'a>(
        chains: impl IntoIterator<Item = &'a Chain>,
        previous: &BTreeSet<String>,
    ) -> Self {
        let mut by_uid = BTreeMap::new();
        for Chain { revisions, .. } in chains {
            let is_own = revisions.iter().any(|it| previous.contains(it.name()));
            for revision in revisions {
                let sibling = Sibling {
                    name: revision.name().to_owned(),
                    number: revision.number().unwrap_or_default(),
                    relation: match is_own {
                        true if previous.contains(revision.name()) => Relation::Previous,
                        true => Relation::SameChain,
                        false => Relation::OtherChain,
                    },
                    is_archived: revision.is_archived(),
                };
                for phase in &revision.status.remote_phases {
                    by_uid.insert(phase.uid.clone(), sibling.clone());
                }
                by_uid.insert(revision.uid().to_owned(), sibling);
            }
        }
        Self { by_uid }
    }

    /// True if a previous revision controls the object.
    pub fn controls(&self, live: &Value) -> bool {
        let uid = controller(live).map(|owner| text(owner, "uid"));
        let sibling = uid.and_then(|uid| self.by_uid.get(uid));
        sibling.is_some_and(|sibling| sibling.relation == Relation::Previous)
    }
}

impl Siblings for ChainSiblings {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        self.by_uid.get(uid).cloned()
    }

    fn exists(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    fn taken_by_newer(&self, _: &ObjectKey) -> Option<Claim> {
        None
    }
}

/// The kinds and namespaces that a new revision defines.
#[derive(Clone, Debug, Default)]
pub struct NewContainers {
    kinds: BTreeMap<(String, String), Value>,
    namespaces: BTreeSet<String>,
}

impl NewContainers {
    /// The kinds of the `CustomResourceDefinition`s in the content, and its namespaces.
    #[must_use]
    pub fn of(content: &RevisionContent) -> Self {
        let mut bringing = Self::default();
        for object in content.objects() {
            let at = |pointer| text_at(&object.manifest, pointer).to_owned();
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

    /// True if a refusal is caused by the lack of a namespace that the revision creates.
    ///
    /// Servers check the namespace first, so the object itself is not validated then.
    pub fn makes_namespace(&self, desired: &Desired, why: &str) -> bool {
        let namespace = &desired.key.namespace;
        let missing = format!("namespaces \"{namespace}\" not found");
        self.namespaces.contains(namespace) && why.contains(&missing)
    }

    /// The note for a refusal whose only cause is an object of the revision that is not applied yet.
    ///
    /// The cause is a missing namespace, or fields that the revision's definition of the kind has
    /// and the served definition lacks.
    fn explains(&self, desired: &Desired, why: &str) -> Option<ObjectNote> {
        if self.makes_namespace(desired, why) {
            return Some(ObjectNote::NamespaceIsNew);
        }
        let definition = self.definition(&desired.gvk)?;
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let mut versions = versions.iter();
        let version = versions.find(|it| text(it, "name") == desired.gvk.version)?;
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        let mut unknown = unknown_fields(why).peekable();
        unknown.peek()?;
        let are_known = unknown.all(|path| has_field(schema, path));
        are_known.then_some(ObjectNote::KindChanges)
    }
}

/// The words after the path of an unknown field in the message of a server.
const UNKNOWN_FIELD: &str = ": field not declared in schema";

/// The paths of the unknown fields in the message of a refusal.
fn unknown_fields(why: &str) -> impl Iterator<Item = &str> {
    let parts = why.split(UNKNOWN_FIELD);
    let count = parts.clone().count();
    let before = parts.take(count.saturating_sub(1));
    before.map(|text| text.rsplit(char::is_whitespace).next().unwrap_or_default())
}

/// True if a schema has the field at a path such as `.spec.rules[0].host`.
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

/// The answer of the server to a dry run.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// The object after the write.
    Object(Value),
    /// The server would refuse the object, for this reason.
    Refused(String),
    /// The server refuses to change immutable fields of an object that is to be recreated.
    Immutable,
    /// The server does not serve the kind.
    NotServed,
}

/// The body of the dry run of an object.
///
/// The dry run of a live object is forced, and succeeds only in the present state of the object.
///
/// # Errors
/// The outcome, if it is decided without a dry run.
pub fn request(
    next: &Next,
    siblings: &ChainSiblings,
    desired: &Desired,
    live: Option<&Value>,
) -> Result<Value, DiffOutcome> {
    if let [first, ..] = desired.violations.as_slice() {
        return Err(DiffOutcome::Refused(first.clone()));
    }
    let Some(live) = live else {
        return Ok(desired.manifest.clone());
    };
    let situation = classify(next, siblings, live);
    match decide_adoption(next, desired, &situation, live) {
        Adoption::Keep | Adoption::Adopt(_) => Ok(dry_run_body(desired, live)),
        Adoption::Leave(newer) => Err(DiffOutcome::Left(newer)),
        Adoption::Refuse(Refusal::SameNumber) => {
            Err(DiffOutcome::SameNumber(owner_outside_chain(live)))
        }
        Adoption::Refuse(Refusal::LeftBehind | Refusal::Protected) => Err(DiffOutcome::Protected {
            owner: owner_outside_chain(live),
            protection: desired.protection,
        }),
    }
}

/// The section of an object that follows from the answer to its dry run.
pub fn evaluate(
    siblings: &ChainSiblings,
    bringing: &NewContainers,
    phase: &str,
    desired: &Desired,
    live: Option<&Value>,
    answer: Response,
) -> Section {
    let section = Section::of(desired, phase);
    let created = |section: Section, note: Option<ObjectNote>| {
        let pair = Pair::new(None, Some(clean(desired.manifest.clone())));
        section.fate(DiffOutcome::Created).pair(pair).notes(note)
    };
    match (live, answer) {
        (None, Response::Object(_)) => created(section, None),
        (None, Response::NotServed) if bringing.definition(&desired.gvk).is_some() => {
            created(section, Some(ObjectNote::KindIsNew))
        }
        (_, Response::NotServed) => section.fate(DiffOutcome::NotServed(desired.gvk.clone())),
        (_, Response::Immutable) => {
            let note = runs_once(desired).then_some(ObjectNote::RunsOnce);
            section.fate(DiffOutcome::Recreated).notes(note)
        }
        (live, Response::Refused(why)) => match (bringing.explains(desired, &why), live) {
            (Some(note), None) => created(section, Some(note)),
            (Some(note), Some(_)) => section.fate(DiffOutcome::Changed).notes([note]),
            (None, _) => {
                let why = with_short_values(&super::mask::redact(&why, &desired.manifest));
                section.fate(DiffOutcome::Refused(why))
            }
        },
        (Some(live), Response::Object(answer)) => {
            let pair = Pair::new(Some(clean_live(live.clone())), Some(clean_live(answer)));
            let fate = match (siblings.controls(live), pair.is_same()) {
                (true, true) => DiffOutcome::HandedOver,
                (true, false) => DiffOutcome::Changed,
                (false, _) => DiffOutcome::TakenOver(owner_outside_chain(live)),
            };
            let note = is_terminating(live).then_some(ObjectNote::DeletedNow);
            section.fate(fate).notes(note).pair(pair)
        }
    }
}

/// The outcome of an object that only older revisions want; `None` if no previous revision controls
/// it.
///
/// `wants` are the objects that the new revision wants.
pub fn left_behind(
    siblings: &ChainSiblings,
    wants: &BTreeSet<ObjectKey>,
    phase: &str,
    desired: &Desired,
    live: &Value,
    when: &RemovalTime,
) -> Option<Section> {
    if !siblings.controls(live) {
        return None;
    }
    let section = Section::of(desired, phase);
    if is_kept([&desired.manifest, live]) {
        return Some(section.fate(DiffOutcome::Kept(when.clone())));
    }
    let held = Container::of(&desired.gvk, &desired.manifest).map(|container| ManagedContainer {
        container,
        key: desired.key.clone(),
        revision: controller(live).map_or_else(String::new, |by| text(by, "name").to_owned()),
    });
    if let Some(loss) = held.and_then(|held| held.loss(wants)) {
        return Some(section.fate(DiffOutcome::Refused(loss)));
    }
    let pair = Pair::new(Some(clean(desired.manifest.clone())), None);
    Some(section.fate(DiffOutcome::Deleted(when.clone())).pair(pair))
}

/// Leaves out the objects that are handed over unchanged if there are many, with a note.
pub fn without_unchanged(mut sections: Vec<Section>) -> (Vec<Section>, Option<ObjectNote>) {
    let is_unchanged = |section: &&Section| section.outcome == DiffOutcome::HandedOver;
    let count = sections.iter().filter(is_unchanged).count();
    if count <= LISTED {
        return (sections, None);
    }
    sections.retain(|section| !is_unchanged(&section));
    (sections, Some(ObjectNote::NotListed(count)))
}

#[cfg(test)]
mod tests {
    use baton_apis::{CollisionProtection, ObjectSetObject, ObjectSetTemplatePhase};
    use baton_engine::object::Identity;
    use baton_engine::revision::prepare;
    use serde_json::json;

    use super::*;
    use crate::chain::member::Revision;
    use crate::{children::Owner, content::Phase, diff::outcome::Group};

    const LATER: RemovalTime = RemovalTime::Available(3);

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
        let chain = Chain {
            revisions: revisions.into(),
            ..Chain::default()
        };
        ChainSiblings::new([&chain], &previous)
    }

    /// A live `ConfigMap` with the value `b`, the name of its controller ("" for none) and its
    /// revision number.
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

    fn owner(name: &str) -> Owner {
        Owner::Stranger {
            kind: "ObjectSet".to_owned(),
            name: name.to_owned(),
        }
    }

    /// The request, or the outcome if there is none.
    fn dry_run_request(live: Option<&Value>, protection: &str) -> Result<String, DiffOutcome> {
        let body = request(&next(), &siblings(), &desired(WEB, protection), live)?;
        Ok(match live {
            None => "create".to_owned(),
            Some(_) => format!("apply to {}", body["metadata"]["uid"]),
        })
    }

    #[test]
    fn requests_follow_the_handover_rules() {
        assert_eq!(dry_run_request(None, "Prevent"), Ok("create".to_owned()));
        let applied = || Ok("apply to \"u\"".to_owned());
        let protected = |owner, protection| Err(DiffOutcome::Protected { owner, protection });
        for (name, number, protection, expected) in [
            ("web-v2", "2", "Prevent", applied()),
            ("web-v1-phase", "1", "Prevent", applied()),
            (
                "new-v4",
                "4",
                "Prevent",
                Err(DiffOutcome::Left("new-v4".to_owned())),
            ),
            (
                "twin-v3",
                "3",
                "Prevent",
                Err(DiffOutcome::SameNumber(owner("twin-v3"))),
            ),
            (
                "",
                "",
                "Prevent",
                protected(Owner::Nobody, CollisionProtection::Prevent),
            ),
            ("", "", "IfNoController", applied()),
            (
                "stranger",
                "",
                "IfNoController",
                protected(owner("stranger"), CollisionProtection::IfNoController),
            ),
            ("stranger", "", "None", applied()),
        ] {
            assert_eq!(
                dry_run_request(Some(&live(name, number)), protection),
                expected,
                "{name}"
            );
        }
        let broken = desired("{apiVersion: v1, kind: ConfigMap, metadata: {}}", "Prevent");
        assert_eq!(
            request(&next(), &siblings(), &broken, None),
            Err(refused("Object must have a metadata.name."))
        );
    }

    fn refused(why: &str) -> DiffOutcome {
        DiffOutcome::Refused(why.to_owned())
    }

    fn section_for(live: Option<&Value>, answer: Response) -> Section {
        let bringing = NewContainers::default();
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
        for (live, answer, group, fate) in [
            (
                None,
                Response::Object(same.clone()),
                Group::Created,
                DiffOutcome::Created,
            ),
            (
                Some(owned.clone()),
                Response::Object(same.clone()),
                Group::HandedOver,
                DiffOutcome::HandedOver,
            ),
            (
                Some(owned.clone()),
                Response::Object(changed),
                Group::Changed,
                DiffOutcome::Changed,
            ),
            (
                Some(live("stranger", "")),
                Response::Object(same.clone()),
                Group::Changed,
                DiffOutcome::TakenOver(owner("stranger")),
            ),
            (
                Some(live("", "")),
                Response::Object(same),
                Group::Changed,
                DiffOutcome::TakenOver(Owner::Nobody),
            ),
            (
                None,
                Response::Refused("exceeded quota".to_owned()),
                Group::Refused,
                refused("exceeded quota"),
            ),
            (
                Some(owned.clone()),
                Response::Immutable,
                Group::Recreated,
                DiffOutcome::Recreated,
            ),
            (
                Some(owned.clone()),
                Response::Refused(
                    "spec: Invalid value: core.Spec{A:1, B:\"x\"}: field is immutable".to_owned(),
                ),
                Group::Refused,
                refused("spec: Invalid value: a value: field is immutable"),
            ),
            (
                Some(owned),
                Response::NotServed,
                Group::Refused,
                DiffOutcome::NotServed(Gvk::new("v1", "ConfigMap")),
            ),
        ] {
            let section = section_for(live.as_ref(), answer);
            assert_eq!((section.outcome.group(), section.outcome), (group, fate));
        }
    }

    #[test]
    fn kinds_and_namespaces_of_the_revision_are_not_missing() {
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
        let bringing = NewContainers::of(&RevisionContent {
            phases: vec![phase],
        });
        let verdict = |manifest: &str, answer| {
            let desired = desired(manifest, "Prevent");
            evaluate(&siblings(), &bringing, "app", &desired, None, answer).outcome
        };
        let thing = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}";
        let other = "{apiVersion: example.com/v1, kind: Other, metadata: {name: x}}";
        assert_eq!(verdict(thing, Response::NotServed), DiffOutcome::Created);
        assert_eq!(
            verdict(other, Response::NotServed),
            DiffOutcome::NotServed(Gvk::new("example.com/v1", "Other"))
        );
        let inside = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: fresh}}";
        let missing = "namespaces \"fresh\" not found";
        let answer = || Response::Refused(missing.to_owned());
        assert_eq!(verdict(inside, answer()), DiffOutcome::Created);
        // An invalid object is refused even in a new namespace.
        let invalid = "metadata.name: must be lower case";
        let answered = verdict(inside, Response::Refused(invalid.to_owned()));
        assert_eq!(answered, refused(invalid));
        assert_eq!(verdict(WEB, answer()), refused(missing));
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
        let bringing = NewContainers::of(&RevisionContent {
            phases: vec![phase],
        });
        let thing = desired(
            "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}",
            "None",
        );
        let begin = "failed to create typed patch object (shop/x; example.com/v1, Kind=Thing)";
        let unknown = ": field not declared in schema";
        let foreign = live("", "");
        let size = format!("{begin}: .spec.size{unknown}");
        let schemaless =
            format!("{begin}: errors:\n  .spec.rules[0].host{unknown}\n  .spec.labels.a{unknown}");
        let misspelt = format!("{begin}: errors:\n  .spec.size{unknown}\n  .spec.seize{unknown}");
        let other = format!("{begin}: .spec.size: expected numeric, got another kind");
        for (why, live, expected) in [
            (&size, None, DiffOutcome::Created),
            (&size, Some(&foreign), DiffOutcome::Changed),
            (&schemaless, None, DiffOutcome::Created),
            (&misspelt, None, refused(&misspelt)),
            (&other, None, refused(&other)),
        ] {
            let answer = Response::Refused(why.clone());
            let section = evaluate(&siblings(), &bringing, "app", &thing, live, answer);
            assert_eq!(section.outcome, expected, "{why}");
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
            &NewContainers::default(),
            "a",
            &secret,
            None,
            answer,
        );
        assert_eq!(section.outcome, refused("expected string, got ***"));
    }

    #[test]
    fn objects_that_nobody_wants_any_more_are_deleted() {
        let check = |live: &Value| {
            let web = desired(WEB, "Prevent");
            let section = left_behind(&siblings(), &BTreeSet::new(), "old", &web, live, &LATER);
            section.map(|section| section.outcome)
        };
        assert_eq!(
            check(&live("web-v1", "1")),
            Some(DiffOutcome::Deleted(LATER))
        );
        // Released, or controlled by a foreign owner.
        assert_eq!(check(&live("", "1")), None);
        assert_eq!(check(&live("stranger", "1")), None);
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
            &kept,
            &LATER,
        );
        assert_eq!(section.unwrap().outcome, DiffOutcome::Kept(LATER));
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
            let section = left_behind(&siblings(), &wants, "old", &namespace, &live, &LATER);
            section.unwrap().outcome
        };
        assert_eq!(verdict(&[]), DiffOutcome::Deleted(LATER));
        let loss = refused(
            "Namespace shop is left out and would be deleted with revision web-v1, and with it ConfigMap \
             shop/web: keep it in the revision, or exempt it from deletion with the annotation baton.run/deletion=keep",
        );
        assert_eq!(verdict(&[&web]), loss);
    }

    #[test]
    fn many_unchanged_objects_are_not_listed() {
        let mut same = section_for(None, Response::NotServed).fate(DiffOutcome::HandedOver);
        same.pair = None;
        let other = section_for(None, Response::NotServed);
        let mut few = vec![same.clone(); LISTED];
        few.push(other.clone());
        assert_eq!(without_unchanged(few.clone()), (few.clone(), None));
        few.push(same);
        let (left, note) = without_unchanged(few);
        assert_eq!(left, [other]);
        assert_eq!(note.unwrap(), ObjectNote::NotListed(21));
    }

    #[test]
    fn a_summary_counts_verdicts() {
        assert_eq!(DiffOutcome::count([]), DiffOutcome::Revision(Vec::new()));
        let fates = [
            DiffOutcome::Deleted(LATER),
            DiffOutcome::HandedOver,
            DiffOutcome::Created,
            DiffOutcome::HandedOver,
            DiffOutcome::Left("web-v9".to_owned()),
            DiffOutcome::Kept(LATER),
        ];
        let groups = vec![
            (1, Group::Created),
            (2, Group::HandedOver),
            (1, Group::Left),
            (1, Group::Kept),
            (1, Group::Deleted),
        ];
        assert_eq!(
            DiffOutcome::count(fates.iter().map(DiffOutcome::group)),
            DiffOutcome::Revision(groups)
        );
    }
}
