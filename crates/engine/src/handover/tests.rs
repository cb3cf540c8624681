//! Decisions about live objects, for every combination of the inputs.

mod forgotten;
mod lost_hubs;
mod shipper;

use baton_apis::{
    CollisionProtection::{IfNoController, None as Unprotected, Prevent},
    constants::LABEL_PACKAGE,
};
use serde_json::json;

use super::*;
use crate::tests::fixtures::{self, Family, live, revision};

const PROTECTIONS: [CollisionProtection; 3] = [Prevent, IfNoController, Unprotected];

fn desired(revision: &Revision, protection: CollisionProtection, label: &str) -> Desired {
    let object = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: cm, namespace: ns, labels: {label}}}}}"
    );
    let mut phase = fixtures::phase(revision, "p", &[&object]);
    phase.objects[0].protection = protection;
    phase.objects.remove(0)
}

/// A short form of a decision.
fn show(adoption: &Adoption) -> String {
    match adoption {
        Adoption::Keep => "keep".to_owned(),
        Adoption::Adopt(None) => "adopt".to_owned(),
        Adoption::Adopt(Some(name)) => format!("from {name}"),
        Adoption::Leave(name) => format!("leave {name}"),
        Adoption::Refuse(Refusal::SameNumber) => "equal".to_owned(),
        Adoption::Refuse(Refusal::LeftBehind) => "orphan".to_owned(),
        Adoption::Refuse(Refusal::Protected) => "foreign".to_owned(),
    }
}

/// Every owner of an object, with every relevant number for revision 2, by the collision
/// protections `Prevent`, `IfNoController` and `None`.
const ADOPTION: [(&str, &str, [&str; 3]); 42] = [
    ("plain me*", "", ["keep", "keep", "keep"]),
    ("plain me*", "1", ["keep", "keep", "keep"]),
    ("plain me*", "2", ["keep", "keep", "keep"]),
    // The annotation does not make another revision the owner.
    ("plain me*", "9", ["keep", "keep", "keep"]),
    ("plain previous*", "", ["from v1", "from v1", "from v1"]),
    ("plain previous*", "1", ["from v1", "from v1", "from v1"]),
    // The number is forged: it is above that of the controller.
    ("plain previous*", "2", ["from v1", "from v1", "from v1"]),
    ("plain previous*", "3", ["from v1", "from v1", "from v1"]),
    ("plain previous*", "9", ["from v1", "from v1", "from v1"]),
    ("plain newer*", "", ["foreign", "foreign", "from v3"]),
    ("plain newer*", "1", ["foreign", "foreign", "from v3"]),
    ("plain newer*", "2", ["foreign", "foreign", "equal"]),
    ("plain newer*", "3", ["leave v3", "leave v3", "leave v3"]),
    ("plain newer*", "9", ["leave v3", "leave v3", "leave v3"]),
    // An archived revision does not protect its objects.
    ("plain archived*", "", ["foreign", "foreign", "from v4"]),
    ("plain archived*", "1", ["foreign", "foreign", "from v4"]),
    ("plain archived*", "2", ["foreign", "foreign", "equal"]),
    ("plain archived*", "4", ["foreign", "foreign", "from v4"]),
    ("plain unrelated*", "", ["foreign", "foreign", "from other"]),
    (
        "plain unrelated*",
        "1",
        ["foreign", "foreign", "from other"],
    ),
    // Numbers of another chain do not count.
    (
        "plain unrelated*",
        "2",
        ["foreign", "foreign", "from other"],
    ),
    (
        "plain unrelated*",
        "3",
        ["foreign", "foreign", "from other"],
    ),
    // Otherwise both revisions would take the object in turn.
    ("me unrelated*", "1", ["foreign", "foreign", "foreign"]),
    ("me unrelated*", "3", ["foreign", "foreign", "foreign"]),
    ("me cluster*", "1", ["foreign", "foreign", "foreign"]),
    ("plain cluster*", "3", ["foreign", "foreign", "adopt"]),
    ("me stranger*", "1", ["foreign", "foreign", "adopt"]),
    // A revision behind a gap is of the same chain if the object was handed over before.
    ("me unknown*", "3", ["leave gap", "leave gap", "leave gap"]),
    ("plain unknown*", "3", ["foreign", "foreign", "from gap"]),
    ("plain stranger*", "", ["foreign", "foreign", "adopt"]),
    // A stale number on an object without a sibling as its controller does not count.
    ("plain stranger*", "1", ["foreign", "foreign", "adopt"]),
    ("plain stranger*", "2", ["foreign", "foreign", "adopt"]),
    ("plain stranger*", "9", ["foreign", "foreign", "adopt"]),
    ("", "", ["foreign", "adopt", "adopt"]),
    ("", "1", ["foreign", "adopt", "adopt"]),
    ("", "2", ["foreign", "adopt", "adopt"]),
    ("", "9", ["foreign", "adopt", "adopt"]),
    ("plain", "", ["foreign", "adopt", "adopt"]),
    ("plain", "9", ["foreign", "adopt", "adopt"]),
    // The last writer is gone.
    ("me", "3", ["adopt", "adopt", "adopt"]),
    ("previous", "7", ["adopt", "adopt", "adopt"]),
    // The last writer has only lost the controller flag.
    ("previous", "1", ["foreign", "adopt", "adopt"]),
];

#[test]
fn adoption_by_owner_number_protection_force_package_and_delivery() {
    for (owners, number, row) in ADOPTION {
        for (protection, expected) in PROTECTIONS.into_iter().zip(row) {
            for force_adoption in [false, true] {
                for label in ["package-operator", "other"] {
                    for delivery in [Delivery::InProcess, Delivery::Delegated, Delivery::Remote] {
                        let revision = Revision {
                            force_adoption,
                            delivery,
                            ..revision()
                        };
                        let label = format!("{{{LABEL_PACKAGE}: {label}}}");
                        let desired = desired(&revision, protection, &label);
                        let live = live(number, owners);
                        let situation = classify(&revision, &Family, &live);
                        let is_free = force_adoption || label.contains("operator}");
                        let expected = match () {
                            // A delegated phase does not take an object that a revision has
                            // orphaned.
                            () if delivery != Delivery::InProcess
                                && situation == Situation::Unowned
                                && !number.is_empty() =>
                            {
                                "orphan"
                            }
                            () if is_free => row[2],
                            () => expected,
                        };
                        let adoption = decide_adoption(&revision, &desired, &situation, &live);
                        assert_eq!(
                            show(&adoption),
                            expected,
                            "{owners:?} {number:?} {protection:?} {force_adoption} {label} {delivery:?}"
                        );
                    }
                }
            }
        }
    }
}

/// Owners without the controller flag that inherit an object (`A`), by the number of its last
/// writer.
#[test]
fn an_object_is_abandoned_if_its_last_writer_is_gone_and_an_heir_exists() {
    const NUMBERS: [&str; 6] = ["", "x", "1", "2", "3", "7"];
    for (owners, row) in [
        //                      "" x 1 2 3 7
        ("", ". . . . . ."),
        ("me", ". . A . A A"),
        // The flag of the last writer was cleared: the writer is this revision, or another that
        // exists.
        ("previous", ". . . . A A"),
        ("newer", ". . . . . ."),
        ("me previous", ". . . . A A"),
        ("me newer", ". . A . . A"),
        ("previous newer", ". . . . . A"),
        ("me previous newer", ". . . . . A"),
    ] {
        for stranger in ["", "stranger", "stranger plain"] {
            let expected = row.split_whitespace();
            for (number, expected) in NUMBERS.into_iter().zip(expected) {
                for owners in [
                    format!("{stranger} {owners}"),
                    format!("{owners} {stranger}"),
                ] {
                    let situation = classify(&revision(), &Family, &live(number, &owners));
                    let expected = match expected {
                        "A" => Situation::Abandoned,
                        _ => Situation::Unowned,
                    };
                    assert_eq!(situation, expected, "{owners:?} {number:?}");
                }
            }
        }
    }
}

/// An owner counts as this revision only with its group, kind, name and uid.
#[test]
fn a_reference_that_resembles_the_revision_is_a_stranger() {
    for (field, value) in [
        ("apiVersion", "example.com/v1"),
        ("apiVersion", "v1"),
        ("kind", "ClusterObjectSet"),
        ("name", "v22"),
        ("uid", "other"),
    ] {
        let mut live = live("2", "me*");
        live["metadata"]["ownerReferences"][0][field] = json!(value);
        let situation = classify(&revision(), &Family, &live);
        assert_eq!(situation, Situation::Foreign, "{field}: {value}");
    }
    let mut live = live("2", "me*");
    live["metadata"]["ownerReferences"][0]["apiVersion"] = json!("package-operator.run/v2");
    assert_eq!(classify(&revision(), &Family, &live), Situation::Ours);
}

/// An object can have one controller in its own cluster and one in another.
#[test]
fn an_object_with_two_controllers_is_ours_if_one_of_them_is() {
    for owners in ["me* stranger*", "stranger* me*", "newer* me*"] {
        assert_eq!(
            classify(&revision(), &Family, &live("3", owners)),
            Situation::Ours
        );
    }
}

#[test]
fn a_collision_names_the_object_as_its_manifest_does() {
    let desired = desired(&revision(), Prevent, "{}");
    for (refusal, why) in [
        (
            Refusal::LeftBehind,
            "/v1, Kind=ConfigMap ns/cm was left behind by a revision",
        ),
        (
            Refusal::SameNumber,
            "revision collision on /v1, Kind=ConfigMap ns/cm",
        ),
        (
            Refusal::Protected,
            "object /v1, Kind=ConfigMap ns/cm not owned by previous revision",
        ),
    ] {
        for (owners, by) in [
            ("", ""),
            ("stranger*", ""),
            ("previous", ""),
            ("previous*", ", controlled by ObjectSet v1"),
            ("me cluster*", ", controlled by ClusterObjectSet wide"),
        ] {
            assert_eq!(
                collision_message(
                    &revision(),
                    &Family,
                    (&desired, refusal),
                    &live("1", owners)
                ),
                format!("object ns/cm kind:ConfigMap: refusing adoption, {why}{by}")
            );
        }
    }
}

#[test]
fn an_owner_in_another_cluster_is_named_with_its_namespace() {
    let mut live = live("1", "unrelated*");
    live["metadata"]["ownerReferences"][0]["namespace"] = "shop".into();
    let message = collision_message(
        &revision(),
        &Family,
        (&desired(&revision(), Prevent, "{}"), Refusal::Protected),
        &live,
    );
    assert!(
        message.ends_with(", controlled by ObjectSet shop/somebody"),
        "{message}"
    );
}

/// Every situation by the number on the object, the protection, and the delivery of the phase.
///
/// `K` keep, `A` adopt without a sibling's name, `S` adopt from the sibling, `L` leave to the
/// sibling, and the refusals: `=` the same number, `o` orphaned, `-` not owned.
#[test]
fn adoption_by_situation_number_and_protection() {
    let sibling_of = |relation| Sibling {
        name: "sib".to_owned(),
        number: 3,
        relation,
        is_archived: false,
    };
    let sibling = || sibling_of(Relation::SameChain);
    for (situation, protections, in_process, delegated) in [
        // Columns: the numbers "", x, 0, 1, 2 and 3.
        (Situation::Ours, &PROTECTIONS[..], "KKKKKK", "KKKKKK"),
        (
            Situation::Newer(sibling()),
            &PROTECTIONS,
            "LLLLLL",
            "LLLLLL",
        ),
        (
            Situation::Previous(sibling()),
            &PROTECTIONS,
            "SSSS=S",
            "SSSS=S",
        ),
        (
            Situation::Unrelated(sibling()),
            &PROTECTIONS[..2],
            "------",
            "------",
        ),
        (
            Situation::Unrelated(sibling()),
            &[Unprotected],
            "SSSS=S",
            "SSSS=S",
        ),
        (
            Situation::Unrelated(sibling_of(Relation::OtherChain)),
            &[Unprotected],
            "SSSSSS",
            "SSSSSS",
        ),
        (Situation::Foreign, &PROTECTIONS[..2], "------", "------"),
        (Situation::Foreign, &[Unprotected], "AAAAAA", "AAAAAA"),
        (Situation::Abandoned, &PROTECTIONS, "AAAAAA", "AAAAAA"),
        (Situation::Unowned, &[Prevent], "------", "---ooo"),
        (Situation::Unowned, &PROTECTIONS[1..], "AAAAAA", "AAAooo"),
    ] {
        for (delivery, row) in [
            (Delivery::InProcess, in_process),
            (Delivery::Delegated, delegated),
            (Delivery::Remote, delegated),
        ] {
            let revision = Revision {
                delivery,
                ..revision()
            };
            for protection in protections {
                let desired = desired(&revision, *protection, "{}");
                for (number, expected) in ["", "x", "0", "1", "2", "3"].into_iter().zip(row.chars())
                {
                    let adoption =
                        decide_adoption(&revision, &desired, &situation, &live(number, ""));
                    let shown = match &*show(&adoption) {
                        "keep" => 'K',
                        "adopt" => 'A',
                        "from sib" => 'S',
                        "leave sib" => 'L',
                        "equal" => '=',
                        "orphan" => 'o',
                        "foreign" => '-',
                        other => panic!("{other}"),
                    };
                    let case = format!("{situation:?} {protection:?} {delivery:?} {number:?}");
                    assert_eq!(shown, expected, "{case}");
                }
            }
        }
    }
}

/// Siblings that consist of the one in the table.
struct Only(Sibling);

impl Siblings for Only {
    fn sibling(&self, uid: &str) -> Option<Sibling> {
        (uid == "it").then(|| self.0.clone())
    }

    fn exists(&self, uid: &str) -> bool {
        uid == "it"
    }

    fn taken_by_newer(&self, _: &ObjectKey) -> Option<Claim> {
        panic!("nothing has vanished")
    }
}

/// The situation with a sibling as the controller, for revision 2: `n` newer, `p` previous, `u`
/// unrelated.
///
/// Within a chain, the number on the object decides, up to that of the sibling, and an archived
/// sibling is never newer.
#[test]
fn the_number_on_the_object_decides_if_a_sibling_is_newer() {
    for (relation, is_archived, row) in [
        //             "" x -1 1 2 3 9
        (Relation::SameChain, false, "u u u u u n n"),
        (Relation::SameChain, true, "u u u u u u u"),
        (Relation::Previous, false, "p p p p p n n"),
        (Relation::Previous, true, "p p p p p p p"),
        (Relation::Unknown, false, "u u u u u u u"),
        (Relation::OtherChain, false, "u u u u u u u"),
    ] {
        for number in [0, 1, 2, 3] {
            let sibling = Sibling {
                name: "sib".to_owned(),
                number,
                relation,
                is_archived,
            };
            for (annotation, expected) in ["", "x", "-1", "1", "2", "3", "9"]
                .into_iter()
                .zip(row.split(' '))
            {
                let situation = classify(
                    &revision(),
                    &Only(sibling.clone()),
                    &live(annotation, "pod it*"),
                );
                // A number above that of the controller is forged.
                let is_forged = [1, 2].contains(&number);
                let expected = match expected {
                    "n" if !is_forged => Situation::Newer(sibling.clone()),
                    "n" if relation == Relation::SameChain => Situation::Unrelated(sibling.clone()),
                    "p" | "n" => Situation::Previous(sibling.clone()),
                    _ => Situation::Unrelated(sibling.clone()),
                };
                assert_eq!(situation, expected, "{annotation:?}");
            }
        }
    }
}

/// An object without owners, annotations or metadata has no owner.
#[test]
fn an_object_without_owners_is_unowned() {
    for live in [
        json!({}),
        json!({"metadata": {}}),
        json!({"metadata": {"ownerReferences": []}}),
        json!({"metadata": {"ownerReferences": null, "annotations": null}}),
        json!({"metadata": {"annotations": {"package-operator.run/revision": "1"}}}),
    ] {
        assert_eq!(
            classify(&revision(), &Family, &live),
            Situation::Unowned,
            "{live}"
        );
    }
    let nameless = json!({"metadata": {"ownerReferences": [{"controller": true}]}});
    assert_eq!(
        classify(&revision(), &Family, &nameless),
        Situation::Foreign
    );
}

/// Only the exact name of the package lifts the protection.
#[test]
fn only_the_exact_package_name_lifts_the_protection() {
    for (label, expected) in [
        ("package-operator", "adopt"),
        ("package-operators", "foreign"),
        ("package-operator-x", "foreign"),
        ("operator", "foreign"),
        ("''", "foreign"),
    ] {
        let desired = desired(
            &revision(),
            Prevent,
            &format!("{{{LABEL_PACKAGE}: {label}}}"),
        );
        let adoption = decide_adoption(&revision(), &desired, &Situation::Unowned, &live("", ""));
        assert_eq!(show(&adoption), expected, "{label}");
    }
}

/// The message begins with the namespace in the manifest, and names the object's namespace at the
/// end.
#[test]
fn a_refusal_names_the_namespace_of_the_object() {
    for (manifest, expected) in [
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}}",
            "object /cm kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap ns/cm not owned by \
            previous revision",
        ),
        (
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: ns}}",
            "object ns/web kind:Deployment: refusing adoption, object apps/v1, Kind=Deployment ns/web not owned by \
            previous revision",
        ),
    ] {
        let desired = fixtures::phase(&revision(), "p", &[manifest])
            .objects
            .remove(0);
        let live = live("", "stranger*");
        let adoption = decide_adoption(&revision(), &desired, &Situation::Foreign, &live);
        let Adoption::Refuse(refusal) = adoption else {
            panic!("{adoption:?}")
        };
        assert_eq!(
            collision_message(&revision(), &Family, (&desired, refusal), &live),
            expected
        );
    }
}
