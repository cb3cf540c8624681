//! Whose a live object is, and what that means for a revision that wants it (contract 2.7).

use baton_apis::{CollisionProtection, constants::LABEL_PACKAGE};
use serde_json::Value;

use super::{
    ObjectKey,
    object::{is_controller, owner_references, revision_number, text},
    revision::{Delivery, Desired, Revision},
};

/// A revision of the same kind and namespace that exists, found by a uid in an owner reference:
/// its own, or that of one of its delegated phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kin {
    /// Its name.
    pub name: String,
    /// Its number, 0 if it has none yet.
    pub number: i64,
    /// Whether the asking revision lists it as previous.
    pub is_previous: bool,
    /// Whether it is archived: it keeps nothing for itself any more.
    pub is_archived: bool,
}

/// What a revision knows about the others.
pub trait Lineage: Send + Sync {
    /// The existing revision behind a uid, unless it is the asking one itself.
    fn kin(&self, uid: &str) -> Option<Kin>;

    /// The newer, active sibling that contains an object and had taken it over before the
    /// object vanished (improvement 5): it and nobody else makes the object again.
    fn taken_by_newer(&self, key: &ObjectKey) -> Option<String>;
}

/// Whose a live object is, as seen by one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The revision controls it.
    Ours,
    /// A known revision with a higher number took it.
    Newer(Kin),
    /// A listed previous revision controls it.
    Previous(Kin),
    /// A known revision that is not listed as previous controls it.
    Unrelated(Kin),
    /// Somebody who is no known revision controls it.
    Foreign,
    /// It has no controller, because the revision that wrote it last is gone, and this revision
    /// or a listed previous one is still among its owners. Deletion in the foreground can leave
    /// that behind: garbage collection takes the deleted owner out instead of handing back.
    Abandoned,
    /// It has no controller.
    Unowned,
}

/// What a revision may do with a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it as wanted.
    Keep,
    /// Take it over from the named revision, or from nobody in particular.
    Adopt(Option<String>),
    /// Leave it to the named newer revision.
    Leave(String),
    /// It may not be taken; the text ends the message of the collision.
    Refuse(String),
}

/// Names the situation of a live object.
///
/// # Guarantees
/// The revision annotation counts only when its controller is a revision that exists: a number
/// left behind on an object that nobody controls, or that somebody else controls, says nothing
/// (improvement 8).
#[must_use]
pub fn classify(revision: &Revision, lineage: &dyn Lineage, live: &Value) -> Situation {
    // An object can have two: one in its own cluster, and one elsewhere.
    let mut controllers = owner_references(live).iter().filter(|r| is_controller(r));
    if controllers
        .clone()
        .any(|reference| revision.identity.is(reference))
    {
        return Situation::Ours;
    }
    let Some(reference) = controllers.next() else {
        return if is_abandoned(revision, lineage, live) {
            Situation::Abandoned
        } else {
            Situation::Unowned
        };
    };
    let uid = reference
        .get("uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match lineage.kin(uid) {
        None => Situation::Foreign,
        Some(kin) if !kin.is_archived && revision_number(live) > revision.number => {
            Situation::Newer(kin)
        }
        Some(kin) if kin.is_previous => Situation::Previous(kin),
        Some(kin) => Situation::Unrelated(kin),
    }
}

/// Whether the revision that wrote an object without a controller last is gone, and left it to this
/// one or to one before it. An object whose last writer is still among its owners is none: somebody
/// cleared the flag, and that is a collision (contract 2.13).
fn is_abandoned(revision: &Revision, lineage: &dyn Lineage, live: &Value) -> bool {
    let writer = revision_number(live);
    let mut is_heir = false;
    for reference in owner_references(live) {
        if revision.identity.is(reference) {
            is_heir = true;
        } else if let Some(kin) = lineage.kin(text(reference, "uid")) {
            if kin.number == writer {
                return false;
            }
            is_heir |= kin.is_previous;
        }
    }
    is_heir && writer != 0 && writer != revision.number
}

/// The rows of contract 2.7 in their order.
///
/// # Caveats
/// Row 4 (`None` adopts from anybody) has one exception: an object controlled by another existing
/// revision under the same number stays with it. Both would adopt it in turn for ever otherwise.
#[must_use]
pub fn judge(
    revision: &Revision,
    desired: &Desired,
    situation: &Situation,
    live: &Value,
) -> Verdict {
    let protection = if revision.force_adoption || is_own_package(desired) {
        CollisionProtection::None
    } else {
        desired.protection
    };
    let same_number = revision_number(live) == revision.number;
    // Objects that a revision left behind are not for delegated phases (contract 6.4).
    let is_left_behind = revision.delivery != Delivery::InProcess && revision_number(live) != 0;
    match (situation, protection) {
        (Situation::Unowned, _) if is_left_behind => {
            Verdict::Refuse(format!("{} was left behind by a revision", named(desired)))
        }
        (Situation::Ours, _) => Verdict::Keep,
        (Situation::Newer(kin), _) => Verdict::Leave(kin.name.clone()),
        (Situation::Previous(_) | Situation::Unrelated(_), CollisionProtection::None)
        | (Situation::Previous(_), _)
            if same_number =>
        {
            Verdict::Refuse(format!("revision collision on {}", named(desired)))
        }
        (Situation::Previous(kin), _) | (Situation::Unrelated(kin), CollisionProtection::None) => {
            Verdict::Adopt(Some(kin.name.clone()))
        }
        (Situation::Abandoned, _)
        | (Situation::Foreign | Situation::Unowned, CollisionProtection::None)
        | (Situation::Unowned, CollisionProtection::IfNoController) => Verdict::Adopt(None),
        (Situation::Unrelated(_) | Situation::Foreign | Situation::Unowned, _) => Verdict::Refuse(
            format!("object {} not owned by previous revision", named(desired)),
        ),
    }
}

/// Objects of the package manager's own package are always adopted (contract 2.7, row 3).
fn is_own_package(desired: &Desired) -> bool {
    desired
        .manifest
        .pointer("/metadata/labels")
        .is_some_and(|labels| text(labels, LABEL_PACKAGE) == "package-operator")
}

fn named(desired: &Desired) -> String {
    format!(
        "{} {}/{}",
        desired.gvk, desired.key.namespace, desired.key.name
    )
}

/// The whole message of a collision (contract 2.9).
#[must_use]
pub fn collision_message(desired: &Desired, refusal: &str) -> String {
    format!(
        "object {}/{} kind:{}: refusing adoption, {refusal}",
        desired.written_namespace, desired.key.name, desired.key.kind
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::{object::Identity, revision::prepare};

    struct Family;

    impl Lineage for Family {
        fn kin(&self, uid: &str) -> Option<Kin> {
            let kin = |name: &str, number, is_previous, is_archived| {
                Some(Kin {
                    name: name.to_owned(),
                    number,
                    is_previous,
                    is_archived,
                })
            };
            match uid {
                "previous" => kin("v1", 1, true, false),
                "newer" => kin("v3", 3, false, false),
                "archived" => kin("v4", 4, false, true),
                "unrelated" => kin("other", 1, false, false),
                _ => None,
            }
        }

        fn taken_by_newer(&self, _: &ObjectKey) -> Option<String> {
            None
        }
    }

    fn revision() -> Revision {
        Revision {
            identity: Identity {
                kind: "ObjectSet".into(),
                namespace: "ns".into(),
                name: "v2".into(),
                uid: "me".into(),
                is_remote: false,
            },
            number: 2,
            ..Revision::default()
        }
    }

    /// A live object by the uid of its controller ("" for none) and its revision annotation.
    fn live(controller: &str, number: &str) -> Value {
        let mut object = json!({"metadata": {"name": "cm", "annotations": {
            "package-operator.run/revision": number}}});
        if !controller.is_empty() {
            let name = if controller == "me" { "v2" } else { "somebody" };
            object["metadata"]["ownerReferences"] = json!([
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "plain"},
                {"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": name,
                 "uid": controller, "controller": true},
            ]);
        }
        object
    }

    fn check(controller: &str, number: &str, protection: CollisionProtection, expected: &Verdict) {
        let revision = revision();
        let entry = baton_apis::ObjectSetObject {
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}}),
            collision_protection: protection,
            ..baton_apis::ObjectSetObject::default()
        };
        let phases = prepare(
            &revision,
            vec![baton_apis::ObjectSetTemplatePhase {
                objects: vec![entry],
                ..baton_apis::ObjectSetTemplatePhase::default()
            }],
        );
        let live = live(controller, number);
        let situation = classify(&revision, &Family, &live);
        let verdict = judge(&revision, &phases[0].objects[0], &situation, &live);
        assert_eq!(
            verdict, *expected,
            "{controller:?} {number:?} {protection:?}: {situation:?}"
        );
    }

    /// The decision table of contract 2.7, one line per live object, one column per protection.
    #[test]
    fn adoption() {
        use CollisionProtection::{IfNoController, None as Unprotected, Prevent};
        let adopt = || Verdict::Adopt(None);
        let from = |name: &str| Verdict::Adopt(Some(name.into()));
        let leave = |name: &str| Verdict::Leave(name.into());
        let foreign = || {
            Verdict::Refuse(
                "object /v1, Kind=ConfigMap ns/cm not owned by previous revision".into(),
            )
        };
        let equal = || Verdict::Refuse("revision collision on /v1, Kind=ConfigMap ns/cm".into());
        let keep = || Verdict::Keep;
        let table = [
            ("me", "2", [keep(), keep(), keep()]),
            ("me", "1", [keep(), keep(), keep()]),
            // The annotation does not make somebody else of us.
            ("me", "9", [keep(), keep(), keep()]),
            ("previous", "1", [from("v1"), from("v1"), from("v1")]),
            ("previous", "", [from("v1"), from("v1"), from("v1")]),
            ("previous", "2", [equal(), equal(), equal()]),
            ("previous", "3", [leave("v1"), leave("v1"), leave("v1")]),
            ("newer", "3", [leave("v3"), leave("v3"), leave("v3")]),
            // An archived revision keeps nothing from anybody.
            ("archived", "4", [foreign(), foreign(), from("v4")]),
            ("unrelated", "1", [foreign(), foreign(), from("other")]),
            // Both would take it in turn.
            ("unrelated", "2", [foreign(), foreign(), equal()]),
            ("stranger", "", [foreign(), foreign(), adopt()]),
            // Improvement 8: a stale number on somebody else's or nobody's object says nothing.
            ("stranger", "9", [foreign(), foreign(), adopt()]),
            ("", "", [foreign(), adopt(), adopt()]),
            ("", "9", [foreign(), adopt(), adopt()]),
            ("", "2", [foreign(), adopt(), adopt()]),
        ];
        for (controller, number, verdicts) in &table {
            for (protection, verdict) in [Prevent, IfNoController, Unprotected]
                .into_iter()
                .zip(verdicts)
            {
                check(controller, number, protection, verdict);
            }
        }
    }

    /// What a revision that is gone left to this one, and what only looks like it.
    #[test]
    fn inheritance() {
        let heir = |uids: &[&str], number: &str| {
            let mut object = live("", number);
            let references: Vec<_> = uids
                .iter()
                .map(|uid| {
                    let name = if *uid == "me" { "v2" } else { "somebody" };
                    json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
                        "name": name, "uid": uid, "controller": false})
                })
                .collect();
            object["metadata"]["ownerReferences"] = references.into();
            classify(&revision(), &Family, &object)
        };
        assert_eq!(heir(&["me"], "3"), Situation::Abandoned);
        assert_eq!(heir(&["previous"], "7"), Situation::Abandoned);
        // The flag of the last writer was cleared: ours, or that of another one that exists.
        assert_eq!(heir(&["me"], "2"), Situation::Unowned);
        assert_eq!(heir(&["me", "newer"], "3"), Situation::Unowned);
        assert_eq!(heir(&["previous"], "1"), Situation::Unowned);
        // Nobody of the family ever owned it, or nobody of it ever wrote it.
        assert_eq!(heir(&["stranger"], "3"), Situation::Unowned);
        assert_eq!(heir(&["me"], ""), Situation::Unowned);
    }

    #[test]
    fn force_adoption_takes_everything_but_newer_revisions() {
        let mut revision = revision();
        revision.force_adoption = true;
        let entry = baton_apis::ObjectSetObject {
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}}),
            ..baton_apis::ObjectSetObject::default()
        };
        let phase = baton_apis::ObjectSetTemplatePhase {
            objects: vec![entry],
            ..Default::default()
        };
        let phases = prepare(&revision, vec![phase]);
        let judged = |live: &Value| {
            let situation = classify(&revision, &Family, live);
            judge(&revision, &phases[0].objects[0], &situation, live)
        };
        assert_eq!(judged(&live("stranger", "")), Verdict::Adopt(None));
        assert_eq!(judged(&live("newer", "3")), Verdict::Leave("v3".into()));
    }
}
