use baton_engine::revision::Reach;
use serde_json::{Value, json};

use super::*;

fn raw(object: &Value) -> Box<RawValue> {
    RawValue::from_string(object.to_string()).unwrap()
}

fn assignment(name: &str, namespaces: &Value, clusters: &Value) -> Box<RawValue> {
    raw(&json!({
        "metadata": { "name": name },
        "spec": { "namespaces": namespaces, "clusters": clusters },
    }))
}

fn namespace(name: &str, team: &str) -> Box<RawValue> {
    raw(&json!({ "metadata": { "name": name, "labels": { "team": team } } }))
}

const DONE: Event<'_> = Event::ListDone {
    resource_version: 1,
};

fn decide(cache: &AssignmentCache, namespace: &str) -> Decision {
    let (name, labels) = ("edge", &Labels::new());
    cache.decide(namespace, Subject { name, labels }, false)
}

fn of_team_a() -> Box<RawValue> {
    let namespaces = json!({ "selector": { "matchLabels": { "team": "a" } } });
    assignment("a", &namespaces, &json!({ "names": ["edge"] }))
}

fn own_namespace_only() -> Decision {
    Decision::Allowed(Reach::default())
}

fn unreadable(kind: &str, before: Option<Reach>) -> Decision {
    let message = format!(
        "Cannot check whether Namespace \"shop\" may deliver into Cluster \"edge\": {kind} cannot be listed: no right"
    );
    Decision::Unreadable { before, message }
}

/// Changes as letters: `n` a namespace, `a` an assignment of `edge`, `o` one of another cluster,
/// `*` everything.
fn letters(changes: &[AssignmentChange]) -> String {
    let (name, labels) = ("edge", &Labels::new());
    let letter = |change: &AssignmentChange| match change {
        AssignmentChange::Namespace(_) => 'n',
        AssignmentChange::Everything => '*',
        AssignmentChange::Assignment(_) if change.concerns("", Subject { name, labels }) => 'a',
        AssignmentChange::Assignment(_) => 'o',
    };
    changes.iter().map(letter).collect()
}

#[test]
fn nothing_is_decided_before_all_assignments_are_known() {
    let mut cache = AssignmentCache::default();
    assert_eq!(decide(&cache, "shop"), Decision::Unknown);
    assert!(!cache.is_settled());
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&Event::Listed(&of_team_a()));
    assert_eq!(decide(&cache, "shop"), Decision::Unknown);
    // The labels of the namespace are not known yet.
    assert_eq!(letters(&cache.assignment_event(&DONE)), "*");
    assert_eq!(decide(&cache, "shop"), Decision::Unknown);
    assert!(!cache.is_settled());
    cache.namespace_event(&Event::ListStarted);
    cache.namespace_event(&Event::Listed(&namespace("shop", "a")));
    cache.namespace_event(&Event::Listed(&namespace("other", "b")));
    assert_eq!(letters(&cache.namespace_event(&DONE)), "*");
    assert!(cache.is_settled());
    assert_eq!(decide(&cache, "shop"), own_namespace_only());
    assert!(matches!(decide(&cache, "other"), Decision::Refused(_)));
    // A new namespace, whose labels are not observed yet: a selector could match without them.
    assert_eq!(decide(&cache, "new"), Decision::Unknown);
}

#[test]
fn labels_of_namespaces_are_needed_only_by_selectors() {
    let mut cache = AssignmentCache::default();
    let elsewhere = assignment(
        "a",
        &json!({ "selector": {} }),
        &json!({ "names": ["other"] }),
    );
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&Event::Listed(&elsewhere));
    cache.assignment_event(&DONE);
    assert!(cache.needs_namespace_labels());
    assert_eq!(decide(&cache, "shop"), own_namespace_only());
}

#[test]
fn assignments_stay_in_force_while_the_lists_cannot_be_read() {
    let mut cache = AssignmentCache::default();
    let failed = Event::Failed("no right");
    assert_eq!(letters(&cache.assignment_event(&failed)), "*");
    assert!(cache.is_settled());
    assert_eq!(decide(&cache, "shop"), unreadable("SiteAssignments", None));
    let unread = "SiteAssignments cannot be listed: no right";
    assert_eq!(cache.unreadable().as_deref(), Some(unread));
    assert_eq!(letters(&cache.assignment_event(&failed)), "");
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&Event::Listed(&of_team_a()));
    assert_eq!(letters(&cache.assignment_event(&DONE)), "*");
    cache.namespace_event(&failed);
    assert_eq!(decide(&cache, "shop"), unreadable("Namespaces", None));
    let unread = "Namespaces cannot be listed: no right";
    assert_eq!(cache.unreadable().as_deref(), Some(unread));
    cache.namespace_event(&Event::ListStarted);
    cache.namespace_event(&Event::Listed(&namespace("shop", "a")));
    cache.namespace_event(&DONE);
    for event in [&failed, &Event::Bookmark(7)] {
        assert_eq!(letters(&cache.assignment_event(event)), "");
        assert_eq!(letters(&cache.namespace_event(event)), "");
        assert_eq!(decide(&cache, "shop"), own_namespace_only());
    }
}

/// Without their definition there can be no assignments.
#[test]
fn there_are_no_assignments_without_their_definition() {
    let mut cache = AssignmentCache::default();
    cache.assignment_event(&Event::Unserved);
    assert_eq!(decide(&cache, "shop"), own_namespace_only());
    let edge = Subject {
        name: "edge",
        labels: &Labels::new(),
    };
    assert!(matches!(
        cache.decide("shop", edge, true),
        Decision::Refused(_)
    ));
}

#[test]
fn only_changes_that_affect_decisions_are_reported() {
    let mut cache = AssignmentCache::default();
    cache.assignment_event(&DONE);
    cache.namespace_event(&DONE);
    let all = json!({ "selector": {} });
    let of = |clusters| assignment("a", &all, &clusters);
    let (edge, other) = (json!({ "names": ["edge"] }), json!({ "names": ["other"] }));
    for (object, expected) in [
        (of(other.clone()), "o"),
        (of(other.clone()), ""),
        // The state before or after the change selects the cluster.
        (of(edge.clone()), "a"),
        (of(other), "a"),
        (of(edge), "a"),
    ] {
        let changes = cache.assignment_event(&Event::Upsert(&object));
        assert_eq!(letters(&changes), expected, "{object}");
    }
    let deleted = of(json!({}));
    assert_eq!(
        letters(&cache.assignment_event(&Event::Deleted(&deleted))),
        "a"
    );
    assert_eq!(
        letters(&cache.assignment_event(&Event::Deleted(&deleted))),
        ""
    );
    for (object, expected) in [
        (namespace("shop", "a"), "n"),
        (namespace("shop", "a"), ""),
        (namespace("shop", "b"), "n"),
    ] {
        let changes = cache.namespace_event(&Event::Upsert(&object));
        assert_eq!(letters(&changes), expected, "{object}");
    }
    // A new list shows the objects that were deleted meanwhile.
    cache.namespace_event(&Event::ListStarted);
    assert_eq!(letters(&cache.namespace_event(&DONE)), "n");
}

/// A kind that is served again, or can be listed again, may have other objects than before.
#[test]
fn no_new_delivery_is_allowed_while_the_list_fails() {
    let failed = Event::Failed("no right");
    for closes_by_labels in [false, true] {
        let mut cache = AssignmentCache::default();
        cache.assignment_event(&Event::ListStarted);
        if closes_by_labels {
            cache.assignment_event(&Event::Listed(&of_team_a()));
        }
        cache.assignment_event(&DONE);
        cache.namespace_event(&Event::ListStarted);
        cache.namespace_event(&Event::Listed(&namespace("shop", "a")));
        cache.namespace_event(&DONE);
        assert_eq!(decide(&cache, "shop"), own_namespace_only());
        // A watch that breaks continues where it was.
        cache.assignment_event(&failed);
        cache.namespace_event(&failed);
        assert_eq!(decide(&cache, "shop"), own_namespace_only());
        let before = Some(Reach::default());
        let kind = if closes_by_labels {
            cache.namespace_event(&Event::ListStarted);
            assert_eq!(decide(&cache, "shop"), own_namespace_only());
            assert_eq!(letters(&cache.namespace_event(&failed)), "*");
            "Namespaces"
        } else {
            cache.assignment_event(&Event::ListStarted);
            assert_eq!(decide(&cache, "shop"), own_namespace_only());
            assert_eq!(letters(&cache.assignment_event(&failed)), "*");
            "SiteAssignments"
        };
        assert_eq!(decide(&cache, "shop"), unreadable(kind, before));
    }
}

/// Every server has Namespaces: if a server does not serve them, their labels are unknown.
#[test]
fn namespaces_that_are_not_served_are_unknown() {
    let mut cache = AssignmentCache::default();
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&Event::Listed(&of_team_a()));
    cache.assignment_event(&DONE);
    cache.namespace_event(&Event::ListStarted);
    cache.namespace_event(&Event::Listed(&namespace("shop", "a")));
    cache.namespace_event(&DONE);
    cache.namespace_event(&Event::Unserved);
    let decision = decide(&cache, "shop");
    let is_unreadable = matches!(&decision, Decision::Unreadable { before, .. } if *before == Some(Reach::default()));
    assert!(is_unreadable, "{decision:?}");
}

/// An unknown decision is no refusal: a placement would give up its sites.
#[test]
fn a_first_list_that_fails_refuses_nothing() {
    let failed = Event::Failed("no right");
    let mut cache = AssignmentCache::default();
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&failed);
    assert_eq!(decide(&cache, "shop"), unreadable("SiteAssignments", None));
    let mut cache = AssignmentCache::default();
    cache.assignment_event(&Event::ListStarted);
    cache.assignment_event(&Event::Listed(&of_team_a()));
    cache.assignment_event(&DONE);
    cache.namespace_event(&Event::ListStarted);
    cache.namespace_event(&failed);
    assert_eq!(decide(&cache, "shop"), unreadable("Namespaces", None));
}
