//! Shared fixtures of the tests: a revision of ConfigMaps and its siblings, live objects, and
//! servers. Manifests go through the production parser.

pub mod delegation;

use baton_apis::ObjectSetStatus;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    Answer, Gvk, ObjectKey, Request,
    definitions::Affected,
    diff::legacy::{migrated, needs_migration},
    handover::{Claim, Relation, Sibling, Siblings},
    object::Identity,
    object_pass::Live,
    pass::{Outcome, Pass, Position, Snapshot, Step},
    revision::{KindScope, KindState, Kinds, Phase, Revision, prepare},
    teardown::{Teardown, TeardownOutcome},
};
use baton_probes::Probes;

pub fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Revision `v2` of a chain, with the uid `me`.
pub fn revision() -> Revision {
    Revision {
        identity: Identity {
            kind: "ObjectSet".into(),
            namespace: "ns".into(),
            name: "v2".into(),
            uid: "me".into(),
            is_remote: false,
            hub: String::new(),
            chain: String::new(),
        },
        number: 2,
        generation: 7,
        ..Revision::default()
    }
}

/// The existing siblings, by their uids. Revision `v3` has taken the object `taken`.
pub struct Family;

impl Siblings for Family {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        let (name, number, relation, is_archived) = match uid {
            "previous" => ("v1", 1, Relation::Previous, false),
            "newer" => ("v3", 3, Relation::SameChain, false),
            "archived" => ("v4", 4, Relation::SameChain, true),
            "unrelated" => ("other", 1, Relation::OtherChain, false),
            "unknown" => ("gap", 3, Relation::Unknown, false),
            _ => return None,
        };
        Some(Sibling {
            name: name.to_owned(),
            number,
            relation,
            is_archived,
        })
    }

    fn exists(&self, uid: &str) -> bool {
        self.sibling(uid).is_some()
    }

    fn taken_by_newer(&self, key: &ObjectKey) -> Option<Claim> {
        (key.name == "taken").then(|| Claim::of("v3"))
    }
}

pub fn kinds() -> Kinds {
    Kinds::from([
        (
            Gvk::new("v1", "ConfigMap"),
            KindState::served(KindScope::Namespaced),
        ),
        (
            Gvk::new("v1", "Namespace"),
            KindState::served(KindScope::Cluster),
        ),
        (
            Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            KindState::served(KindScope::Cluster),
        ),
        (
            Gvk::new("batch/v1", "Job"),
            KindState::served(KindScope::Namespaced),
        ),
    ])
}

/// A phase of objects that are given as YAML.
pub fn phase(revision: &Revision, name: &str, objects: &[&str]) -> Phase {
    let objects: Vec<_> = objects
        .iter()
        .map(|object| format!("- object: {object}"))
        .collect();
    let text = format!("name: {name}\nobjects:\n{}", objects.join("\n"));
    prepare(revision, vec![yaml(&text)]).remove(0)
}

/// Phases `p1`, `p2` and so on, of ConfigMaps by their names.
pub fn phases(revision: &Revision, names: &[&[&str]]) -> Vec<Phase> {
    let object = |name: &&str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{k: v}}}}")
    };
    let phase = |(index, names): (usize, &&[&str])| {
        let objects: Vec<_> = names.iter().map(object).collect();
        let objects: Vec<_> = objects.iter().map(String::as_str).collect();
        phase(revision, &format!("p{}", index + 1), &objects)
    };
    names.iter().enumerate().map(phase).collect()
}

pub fn probes(rule: &str) -> Probes {
    let text =
        format!("[{{selector: {{kind: {{group: '', kind: ConfigMap}}}}, probes: [{rule}]}}]");
    let entries: Vec<_> = yaml(&text);
    Probes::compile(&entries).expect("probes compile")
}

pub fn no_probes() -> Probes {
    Probes::compile(&[]).expect("no probes compile")
}

/// A live ConfigMap `ns/a` by the number in its annotation and the uids of its owners, with a star
/// after that of the controller.
pub fn live(number: &str, owners: &str) -> Value {
    let references: Vec<_> = owners.split_whitespace().map(reference).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "a", "namespace": "ns", "uid": "uid-a", "resourceVersion": "41",
        "annotations": {"package-operator.run/revision": number},
        "ownerReferences": references,
    }, "data": {"k": "old"}})
}

fn reference(owner: &str) -> Value {
    let uid = owner.trim_end_matches('*');
    let (name, kind) = match uid {
        "me" => ("v2", "ObjectSet"),
        "previous" => ("v1", "ObjectSet"),
        "cluster" => ("wide", "ClusterObjectSet"),
        _ => ("somebody", "ObjectSet"),
    };
    let group = match uid {
        "stranger" => "example.com",
        _ => "package-operator.run",
    };
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "name": name, "uid": uid, "controller": owner.ends_with('*')})
}

pub fn at_version(mut live: Value, version: &str) -> Value {
    live["metadata"]["resourceVersion"] = version.into();
    live
}

pub fn terminating(mut live: Value) -> Value {
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    live
}

pub fn managed_by(mut live: Value, manager: &str, operation: &str) -> Value {
    live["metadata"]["managedFields"] = json!([{"manager": manager, "operation": operation}]);
    live
}

/// The answer of a server to an apply.
pub fn written(body: &Value, version: &str) -> Value {
    let mut live = body.clone();
    live["metadata"]["uid"] = format!("uid-{}", body["metadata"]["name"]).into();
    at_version(live, version)
}

/// The letter of a request: `d` dry run of a create, `D` of an apply, `M` of a merge patch, `c` create, `A` apply, `m`
/// migrate, `g` get, `r` release, `h` hand over, `x` delete, `X` delete to create again, `t` take
/// back, `f` find an affected object.
pub fn letter(request: &Request) -> char {
    match request {
        Request::Get => 'g',
        Request::DryRunCreate(_) => 'd',
        Request::DryRunApply(_) => 'D',
        Request::DryRunMerge(_) => 'M',
        Request::FindAffected(_) => 'f',
        Request::Create(_) => 'c',
        Request::Apply(_) => 'A',
        Request::Migrate { .. } => 'm',
        Request::TakeBack => 't',
        Request::Release { .. } => 'r',
        Request::HandOver(_) => 'h',
        Request::Delete(_) => 'x',
        Request::DeleteForRecreation(_) => 'X',
    }
}

pub type Server<'a> = &'a mut dyn FnMut(&str, &Request) -> Answer;

/// A server that accepts everything.
pub fn accept_all(_: &str, request: &Request) -> Answer {
    match request {
        Request::DryRunCreate(body) | Request::Create(body) => Answer::Created(written(body, "2")),
        Request::DryRunApply(body) | Request::Apply(body) => Answer::Object(written(body, "2")),
        Request::FindAffected(_) => Answer::Affected(Affected::Nothing),
        Request::Get
        | Request::DryRunMerge(_)
        | Request::Migrate { .. }
        | Request::TakeBack
        | Request::Delete(_)
        | Request::DeleteForRecreation(_) => Answer::NotFound,
        Request::Release { .. } | Request::HandOver(_) => Answer::Object(json!({"metadata": {}})),
    }
}

/// Runs a pass to its end: the letters of its steps, and the outcome.
pub fn run(
    revision: &Revision,
    names: &[&[&str]],
    probes: &Probes,
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, Outcome) {
    run_phases(revision, &phases(revision, names), probes, live, server)
}

/// Like [`run`], over these phases.
pub fn run_phases(
    revision: &Revision,
    phases: &[Phase],
    probes: &Probes,
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, Outcome) {
    let kinds = kinds();
    let snapshot = snapshot(revision, phases, probes, &kinds);
    let pass = Pass::new(snapshot, |at| (live(name(phases, at)), None));
    run_pass(pass, phases, server)
}

/// Like [`run`], for a pass that only checks.
pub fn run_check(
    revision: &Revision,
    names: &[&[&str]],
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, Outcome) {
    let (kinds, probes) = (kinds(), no_probes());
    let phases = &phases(revision, names);
    let snapshot = snapshot(revision, phases, &probes, &kinds);
    let pass = Pass::check(snapshot, |at| (live(name(phases, at)), None));
    run_pass(pass, phases, server)
}

fn snapshot<'a>(
    revision: &'a Revision,
    phases: &'a [Phase],
    probes: &'a Probes,
    kinds: &'a Kinds,
) -> Snapshot<'a> {
    Snapshot {
        revision,
        phases,
        probes,
        kinds,
        siblings: &Family,
    }
}

fn name(phases: &[Phase], at: Position) -> &str {
    &phases[at.phase].objects[at.object].key.name
}

fn run_pass(mut pass: Pass<'_>, phases: &[Phase], server: Server<'_>) -> (String, Outcome) {
    let mut steps = Vec::new();
    while let Step::Send(requests) = pass.step() {
        let letters = requests.iter().map(|(_, request)| letter(request));
        steps.push(letters.collect::<String>());
        for (at, request) in requests {
            pass.answer(at, &request, server(name(phases, at), &request));
        }
    }
    (steps.join(" "), pass.outcome())
}

/// Runs a pass over the object `a`.
pub fn run_one(live: &Live, server: Server<'_>) -> (String, Outcome) {
    run(
        &revision(),
        &[&["a"]],
        &no_probes(),
        |_| live.clone(),
        server,
    )
}

/// Runs a teardown to its end: the letters of its steps with the names of objects, and the outcome.
pub fn tear_down(
    names: &[&[&str]],
    live: impl Fn(&str) -> Live,
    server: Server<'_>,
) -> (String, TeardownOutcome) {
    let revision = revision();
    let phases = phases(&revision, names);
    let kinds = kinds();
    let name = |at: Position| phases[at.phase].objects[at.object].key.name.as_str();
    let mut teardown = Teardown::new(&revision, &phases, &kinds, |at| live(name(at)));
    let mut steps = Vec::new();
    while let Step::Send(requests) = teardown.step() {
        let letters = requests
            .iter()
            .map(|(at, request)| format!("{}{}", letter(request), name(*at)));
        steps.push(letters.collect::<Vec<_>>().join(","));
        for (at, request) in requests {
            teardown.answer(at, &request, server(name(at), &request));
        }
    }
    (steps.join(" "), teardown.outcome())
}

/// An object that Package Operator wrote by an update, with this content; if `surplus`, the update
/// also owns an unwanted field.
pub fn posted(uid: &str, number: &str, content: &str, surplus: bool) -> Value {
    let mut live = live(number, &format!("{uid}*"));
    live["metadata"]["labels"] = json!({"package-operator.run/cache": "True"});
    live["data"]["k"] = content.into();
    let mut fields = json!({
        "f:metadata": {
            "f:annotations": {".": {}, "f:package-operator.run/revision": {}},
            "f:labels": {".": {}, "f:package-operator.run/cache": {}},
            "f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"{uid}\"}}"): {}},
        },
        "f:data": {".": {}, "f:k": {}},
    });
    if surplus {
        live["data"]["old"] = "1".into();
        fields["f:data"]["f:old"] = json!({});
    }
    live["metadata"]["managedFields"] = json!([
        {"manager": "package-operator", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields},
    ]);
    live["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    live
}

/// A server with the object of [`posted`]: `before` and `after` are true if it accepts the content
/// before and after the migration of its fields.
pub fn server_of_posted(
    live: &Value,
    before: bool,
    after: bool,
) -> impl FnMut(&str, &Request) -> Answer + use<> {
    let mut live = live.clone();
    move |name, request| match request {
        Request::Migrate {
            live: precondition, ..
        } if name == "a" => {
            assert_eq!(precondition.resource_version, "41");
            live["metadata"]["managedFields"] =
                migrated(&live, &[]).expect("legacy entries").into();
            live["metadata"]["resourceVersion"] = "42".into();
            Answer::Object(live.clone())
        }
        Request::DryRunApply(body) | Request::Apply(body) if name == "a" => {
            let is_migrated = !needs_migration(&live, &[]);
            assert_eq!(
                body["metadata"]["resourceVersion"],
                live["metadata"]["resourceVersion"]
            );
            if !(if is_migrated { after } else { before }) {
                return Answer::Refused("is invalid".into());
            }
            let mut answer = live.clone();
            for field in ["data", "metadata"] {
                for (key, value) in body[field].as_object().expect("a map") {
                    answer[field][key] = value.clone();
                }
            }
            Answer::Object(answer)
        }
        _ => accept_all(name, request),
    }
}

/// The conditions of a status, one line each.
pub fn conditions(status: &ObjectSetStatus) -> Vec<String> {
    let special = status.conditions.iter();
    special
        .filter(|condition| !baton_apis::conditions::GENERAL.contains(&&*condition.type_))
        .map(|c| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}
