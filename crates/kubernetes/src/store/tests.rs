//! The rules of freshness, as tables of events and the resulting states and reports.

use baton_apis::constants::LABEL_CACHE;
use serde_json::{json, value::RawValue};

use super::*;

fn object(name: &str, uid: &str, version: u64, labelled: bool) -> Box<RawValue> {
    let label = if labelled { LABEL_CACHE } else { "other" };
    let text = json!({"metadata": {
        "name": name, "namespace": "n", "uid": uid, "labels": {label: "True"},
        "resourceVersion": version.to_string(),
        "ownerReferences": [{
            "apiVersion": "g/v1", "kind": "K", "name": "o", "uid": format!("owner-{version}"),
        }],
    }});
    RawValue::from_string(text.to_string()).unwrap()
}

type Reports = Arc<Mutex<Vec<ObjectChange>>>;

/// Accepts the owners of children, but not foreign ones.
fn is_owner() -> IsOwner {
    Arc::new(|uid| uid.starts_with("owner-"))
}

fn unlimited() -> Arc<Budget> {
    Budget::new(usize::MAX)
}

/// A cluster sends objects with an owner of ours without an end. They take no more than the budget,
/// and all of it is returned when they are gone.
#[test]
fn objects_beyond_the_budget_are_stored_without_text_or_not_at_all() {
    let budget = Budget::new(100_000);
    let gvk = Arc::new(Gvk::new("v1", "ConfigMap"));
    let store = Store::new(gvk, (is_owner(), Arc::clone(&budget)), |_| {});
    store.on_event(&Event::ListStarted);
    for number in 0..2_000_u64 {
        let text = json!({
            "metadata": {
                "name": format!("a{number}"), "namespace": "n", "uid": format!("u{number}"),
                "resourceVersion": (number + 1).to_string(), "labels": {LABEL_CACHE: "True"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "owner-1"}],
            },
            "data": {"k": "x".repeat(3_000)},
        });
        let object = RawValue::from_string(text.to_string()).unwrap();
        store.on_event(&Event::Listed(&object));
    }
    assert!(store.is_over_budget());
    assert!(store.len() < 60, "{}", store.len());
    let text = |number: u64| {
        store
            .get("n", &format!("a{number}"))
            .map(|it| it.body.is_some())
    };
    assert_eq!((text(0), text(1_999)), (Some(true), None));
    assert!((0..2_000).any(|number| text(number) == Some(false)));
    assert!(budget.charge(1_000).is_none());
    store.on_event(&Event::Unserved);
    assert!(budget.charge(100_000).is_some());
    store.on_event(&Event::ListStarted);
    assert!(!store.is_over_budget());
}

fn store() -> (Arc<Store>, Reports) {
    let reports = Reports::default();
    let sink = Arc::clone(&reports);
    let gvk = Arc::new(Gvk::new("v1", "ConfigMap"));
    let store = Store::new(gvk, (is_owner(), unlimited()), move |change| {
        sink.lock().push(change);
    });
    (Arc::new(store), reports)
}

/// Cases with a title that ends in a colon, and steps separated by semicolons.
fn cases(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut cases: Vec<(&str, String)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_suffix(':') {
            cases.push((title, String::new()));
        } else {
            let steps = &mut cases.last_mut().unwrap().1;
            steps.push_str(line);
            steps.push(' ');
        }
    }
    let split = |steps: String| {
        steps
            .split(';')
            .map(|step| step.trim().to_owned())
            .collect()
    };
    cases
        .into_iter()
        .map(|(title, steps)| (title, split(steps)))
        .collect()
}

/// Runs the steps of a case. An object is written `name/uid@version`.
///
/// - `list`, `listed`, `end`, `upsert`, `deleted`, `bookmark`, `unserved`: the events of the watch
/// - `written`, `unlabelled`, `delete`: a write of ours, answered at once
/// - `begin`: a write is sent; `answer`, `answer-unlabelled`, `answer-gone`, `answer-lost`: the end
///   of the oldest one
/// - `read`, `read-gone`: the answer to a live read
/// - `settle`: the caller notes fingerprints
/// - `sees`: the expected objects, sorted, one with fingerprints marked with `!`
/// - `reports`: the owners reported since the last such step, by the `w`atch or by `u`s
fn check(title: &str, steps: &[String]) {
    let (store, reports) = store();
    let mut pending = Vec::new();
    for step in steps {
        let (verb, rest) = step.split_once(' ').unwrap_or((step.as_str(), ""));
        let (id, version) = rest.split_once('@').unwrap_or((rest, rest));
        let (name, uid) = id.split_once('/').unwrap_or((id, ""));
        let version = version.parse().unwrap_or_default();
        let raw = object(name, uid, version, !verb.ends_with("unlabelled"));
        match verb {
            "list" => store.on_event(&Event::ListStarted),
            "listed" => store.on_event(&Event::Listed(&raw)),
            "end" => store.on_event(&Event::ListDone {
                resource_version: version,
            }),
            "upsert" => store.on_event(&Event::Upsert(&raw)),
            "deleted" => store.on_event(&Event::Deleted(&raw)),
            "bookmark" => store.on_event(&Event::Bookmark(version)),
            "unserved" => store.on_event(&Event::Unserved),
            "written" | "unlabelled" => store.begin_write("n", name).written(raw.get()).unwrap(),
            "delete" => store.begin_write("n", name).gone(uid),
            "begin" => pending.push(store.begin_write("n", name)),
            "answer" | "answer-unlabelled" => pending.remove(0).written(raw.get()).unwrap(),
            "answer-gone" => pending.remove(0).gone(rest),
            "answer-lost" => drop(pending.remove(0)),
            "read" => store.insert_read(raw.get()).unwrap(),
            "read-gone" => store.read_gone("n", name, uid),
            "settle" => store.set_fingerprints("n", name, (1, 2)),
            "sees" => assert_eq!(current_objects(&store), rest, "{title}: {step}"),
            "reports" => assert_eq!(reported(&reports), rest, "{title}: {step}"),
            _ => panic!("{title}: {step}"),
        }
        let sizes = store.table.lock().sizes();
        // An entry too many is dropped when the watch passes it; with one too few the object would
        // stay forever.
        assert!(sizes.unconfirmed >= sizes.written, "{title}: {step}");
    }
}

fn current_objects(store: &Store) -> String {
    let mut lines = Vec::new();
    for name in ["a", "b", "c"] {
        if let Some(state) = store.get("n", name) {
            let mark = if state.settled.is_some() { "!" } else { "" };
            lines.push(format!("{name}@{}{mark}", state.resource_version));
        }
    }
    assert_eq!(store.len(), lines.len());
    lines.join(" ")
}

fn reported(reports: &Reports) -> String {
    let reported = std::mem::take(&mut *reports.lock());
    let by = |source| if source == Source::Watch { "w" } else { "u" };
    let texts = reported
        .iter()
        .map(|change| format!("{}:{}", change.key.name, by(change.source)));
    texts.collect::<Vec<_>>().join(" ")
}

/// Runs each case on a store whose list at version 10 contained `a` at version 5.
fn check_after_list(text: &str) {
    let listed = ["list", "listed a/1@5", "end 10", "sees a@5", "reports"].map(str::to_owned);
    for (title, steps) in cases(text) {
        check(title, &[listed.as_slice(), steps.as_slice()].concat());
    }
}

#[test]
fn answers_and_events() {
    check_after_list(
        "
        changes are seen and reported:
            upsert a/1@11; upsert b/2@12; sees a@11 b@12; reports a:w b:w; deleted a/1@13;
            sees b@12; reports a:w
        what is observed again is not reported:
            upsert a/1@11; reports a:w; upsert a/1@11; reports
        a write is seen at once and its echo is silent:
            written a/1@12; sees a@12; reports a:u; upsert a/1@12; sees a@12; reports;
            bookmark 20; sees a@12; reports
        an older event does not hide a write:
            written a/1@12; reports a:u; upsert a/1@11; sees a@12; reports; upsert a/1@12;
            sees a@12; reports
        a newer event replaces a write:
            written a/1@12; upsert a/1@13; sees a@13; reports a:u a:w
        a late answer is dropped:
            upsert a/1@13; reports a:w; written a/1@12; sees a@13; reports
        a late answer does not revive a deleted object:
            upsert a/1@12; deleted a/1@13; sees; reports a:w a:w; written a/1@12; sees;
            reports
        a late answer does not revive an object that a bookmark has passed:
            deleted a/1@11; bookmark 20; written b/2@15; sees; reports a:w
        an answer goes when the watch passes it silently:
            written b/2@12; sees a@5 b@12; bookmark 12; sees a@5; reports b:u b:w
        an answer goes when the watch passes it with another object's event:
            written b/2@12; upsert a/1@13; sees a@13; reports b:u a:w b:w
        a deletion of an earlier life does not remove a new one:
            written a/9@14; reports a:u; deleted a/1@13; sees a@14; reports; upsert a/9@14;
            sees a@14; reports
        the newest of several writes is seen:
            written a/1@14; written a/1@12; sees a@14; reports a:u; written a/1@15; upsert
            a/1@14; sees a@15; reports a:u; upsert a/1@15; bookmark 30; sees a@15; reports
        what was deleted here stays away although the watch lags:
            delete a/1; sees; reports a:u; upsert a/1@12; sees; written a/1@12; sees;
            reports; deleted a/1@13; sees; reports; upsert a/2@14; sees a@14; reports a:w
        a deletion here does not touch a later life:
            upsert a/2@14; delete a/1; sees a@14; reports a:w
        a written object that is deleted here stays away:
            written b/2@12; delete b/2; sees a@5; upsert b/2@12; deleted b/2@13; sees a@5;
            reports b:u b:u
        ",
    );
}

#[test]
fn lists_replace_older_objects_and_keep_newer_answers() {
    check_after_list(
        "
        a list removes what it does not contain:
            upsert b/2@11; reports b:w; list; listed b/2@11; end 20; sees b@11; reports a:w
        a list keeps answers that are newer than it:
            written c/3@15; list; written b/2@21; reports c:u b:u; listed a/1@5; end 20;
            sees a@5 b@21; reports c:w; upsert b/2@21; sees a@5 b@21; reports
        a list does not hide an answer that is newer than its object:
            list; written a/1@21; reports a:u; listed a/1@5; sees a@21; end 20; sees a@21;
            reports
        a list that starts again forgets its first half:
            upsert b/2@11; reports b:w; list; listed a/1@5; listed b/2@11; list; listed
            b/2@11; end 20; sees b@11; reports a:w
        a list that began before a deletion here does not revive:
            list; delete a/1; listed a/1@5; end 10; sees; deleted a/1@12; sees; reports a:u
        a restored cluster starts from its list:
            upsert a/1@50; written b/2@60; written a/1@55; reports a:w b:u a:u; list; listed
            a/1@7; end 8; sees a@7; reports a:w b:w; written a/1@9; sees a@9; upsert a/1@9;
            sees a@9; reports a:u
        a list older than an answer before it is that of a restored cluster:
            written a/1@21; written b/2@22; reports a:u b:u; list; listed a/1@5; end 20;
            sees a@5; reports a:w b:w
        a restored cluster brings back what was deleted here:
            delete a/1; reports a:u; list; listed a/1@5; sees a@5; end 8; sees a@5; reports
            a:w
        a kind that goes takes its objects along:
            written b/2@12; reports b:u; unserved; sees
        a kind that comes back is reported:
            unserved; reports a:w; list; listed a/2@30; end 31; sees a@30; reports a:w
        ",
    );
}

#[test]
fn watch_events_while_a_write_is_under_way() {
    check_after_list(
        "
        an echo before the answer is our doing:
            begin a; upsert a/1@11; sees a@11; reports; answer a/1@11; sees a@11; reports
            a:u
        a change before the write is part of the answer:
            begin a; upsert a/1@11; answer a/1@12; sees a@12; reports a:u; upsert a/1@12;
            reports
        a change after the write is not:
            begin a; upsert a/1@11; upsert a/1@12; reports; answer a/1@11; sees a@12;
            reports a:w
        a change of another object is reported at once:
            begin a; upsert b/2@11; reports b:w; answer a/1@12; reports a:u
        a deletion observed before its answer is our doing:
            begin a; deleted a/1@11; sees; reports; answer-gone 1; reports a:u
        a deleted object that came back is news:
            begin a; deleted a/1@11; upsert a/2@12; reports; answer-gone 1; sees a@12;
            reports a:w
        a failed write reports nothing:
            begin a; answer-lost; reports; begin a; upsert a/1@11; answer-lost; sees a@11;
            reports a:w
        of two writes the one whose echo it was decides:
            begin a; begin a; upsert a/1@11; answer-lost; reports; answer a/1@11; reports
            a:u; begin a; begin a; upsert a/1@12; answer a/1@12; reports a:u; answer-lost;
            reports
        a read is no write:
            read a/1@11; sees a@11; reports a:w; upsert a/1@11; reports; read-gone a/1;
            sees; reports a:w; deleted a/1@12; reports
        ",
    );
}

#[test]
fn children_need_the_label_and_settled_marks_end_with_the_object() {
    check_after_list(
        "
        a written object without the label is no child any more:
            unlabelled a/1@12; sees; reports a:u; deleted a/1@12; sees; reports
        a written object without the label never was a child:
            unlabelled b/2@12; sees a@5; reports
        a departure observed before the answer is our doing:
            begin a; deleted a/1@12; reports; answer-unlabelled a/1@12; sees; reports a:u
        a late answer without the label says nothing:
            upsert a/1@13; unlabelled a/1@12; sees a@13; reports a:w
        what is settled outlives changes of the object:
            settle a; sees a@5!; upsert a/1@11; sees a@11!; written a/1@12; sees a@12!;
            upsert a/1@12; bookmark 13; sees a@12!; list; listed a/1@12; end 20; sees a@12!
        what is settled does not outlive the object:
            settle a; upsert a/2@12; sees a@12; settle b; sees a@12
        versions that are no integers leave it to the watch:
            upsert b/2@0; sees a@5 b@0; reports b:w; upsert b/2@0; reports b:w; written
            b/2@0; sees a@5 b@0; reports
        ",
    );
}

#[test]
fn writes_before_the_first_list() {
    for (title, steps) in cases(
        "
        confirmed by the list:
            list; written a/1@5; sees a@5; reports a:u; listed a/1@5; end 6; sees a@5;
            reports
        not in the list:
            list; written a/1@5; reports a:u; end 6; sees; reports a:w
        newer than the list:
            list; written a/1@7; end 6; sees a@7; upsert a/1@7; sees a@7; reports a:u
        ",
    ) {
        check(title, &steps);
    }
}

#[test]
fn changes_in_the_first_list_are_reported_on_request() {
    let (silent, _) = store();
    let reports = Reports::default();
    let sink = Arc::clone(&reports);
    let store = Store::new(
        Arc::clone(&silent.gvk),
        (is_owner(), unlimited()),
        move |change| {
            sink.lock().push(change);
        },
    );
    let store = store.reporting_first_list();
    store.on_event(&Event::ListStarted);
    store.on_event(&Event::Listed(&object("a", "1", 2, true)));
    assert_eq!(reported(&reports), "a:w");
}

#[test]
fn only_the_version_of_a_foreign_object_is_cached() {
    let stranger = |version: u64| {
        let text = object("a", "1", version, true).get().to_owned();
        RawValue::from_string(text.replace("owner-", "stranger-")).unwrap()
    };
    let (store, _) = store();
    let is_whole = || store.get("n", "a").unwrap().parse().is_ok();
    store.on_event(&Event::ListStarted);
    store.on_event(&Event::Listed(&stranger(2)));
    store.on_event(&Event::ListDone {
        resource_version: 5,
    });
    assert!(!is_whole());
    assert!(store.get("n", "a").unwrap().owners.is_empty());
    store.on_event(&Event::Upsert(&stranger(6)));
    assert!(!is_whole());
    store.insert_read(stranger(7).get()).unwrap();
    assert!(!is_whole());
    assert_eq!(store.get("n", "a").unwrap().resource_version, 7);
    store.on_event(&Event::Upsert(&object("a", "1", 10, true)));
    assert!(is_whole());
    store.on_event(&Event::Upsert(&stranger(11)));
    assert!(!is_whole());
}

#[test]
fn changes_name_owners_of_before_and_after() {
    let (store, reports) = store();
    store.on_event(&Event::ListStarted);
    store.on_event(&Event::ListDone {
        resource_version: 1,
    });
    store.on_event(&Event::Upsert(&object("a", "1", 2, true)));
    store.on_event(&Event::Upsert(&object("a", "1", 3, true)));
    store.on_event(&Event::Deleted(&object("a", "1", 4, true)));
    let owners: Vec<Vec<String>> = reports
        .lock()
        .iter()
        .map(|change| {
            change
                .owners
                .iter()
                .map(|owner| owner.uid.to_string())
                .collect()
        })
        .collect();
    assert_eq!(
        owners,
        [vec!["owner-2"], vec!["owner-3", "owner-2"], vec!["owner-3"]]
    );
    let key = reports.lock()[0].key.to_string();
    assert_eq!(key, "ConfigMap n/a");
}

#[test]
fn a_change_reports_the_controller_after_it() {
    let state = |owners: &[(&str, bool)]| {
        let owners = owners.iter().map(|(uid, controller)| Owner {
            group: "g".into(),
            kind: "K".into(),
            name: (*uid).into(),
            uid: (*uid).into(),
            controller: *controller,
        });
        Arc::new(Stored {
            body: Some("{}".into()),
            uid: "1".into(),
            resource_version: 1,
            owners: owners.collect(),
            charge: None,
            settled: None,
        })
    };
    let one = state(&[("r1", true)]);
    let both = state(&[("r1", false), ("r2", true)]);
    let two = state(&[("r2", true)]);
    let table = [
        (None, Some(&one), "r1+"),
        (Some(&one), Some(&both), "r1 r2+"),
        (Some(&both), Some(&two), "r2+ r1"),
        (Some(&one), Some(&two), "r2+ r1"),
        (Some(&both), None, "r1 r2+"),
    ];
    for (before, after, expected) in table {
        let reported: Vec<String> = table::owners(before, after)
            .iter()
            .map(|owner| format!("{}{}", owner.uid, if owner.controller { "+" } else { "" }))
            .collect();
        assert_eq!(reported.join(" "), expected);
    }
}

#[test]
fn deletions_are_forgotten_after_their_event_or_the_next_list() {
    let (store, _) = store();
    store.on_event(&Event::ListStarted);
    store.on_event(&Event::ListDone {
        resource_version: 1,
    });
    store.on_event(&Event::Upsert(&object("a", "1", 2, true)));
    store.on_event(&Event::Upsert(&object("b", "2", 3, true)));
    store.read_gone("n", "a", "1");
    store.read_gone("n", "b", "2");
    store.read_gone("n", "unknown", "3");
    assert_eq!(store.table.lock().sizes().deleted, 2);
    store.on_event(&Event::Deleted(&object("a", "1", 4, true)));
    assert_eq!(store.table.lock().sizes().deleted, 1);
    store.on_event(&Event::ListStarted);
    assert_eq!(store.table.lock().sizes().deleted, 1);
    store.on_event(&Event::ListDone {
        resource_version: 9,
    });
    assert_eq!(store.table.lock().sizes().deleted, 0);
}

#[test]
fn an_unreadable_object_is_skipped() {
    let (store, reports) = store();
    let bad = RawValue::from_string("[1]".to_owned()).unwrap();
    store.on_event(&Event::Upsert(&bad));
    store.on_event(&Event::Deleted(&bad));
    store.on_event(&Event::Listed(&bad));
    assert!(store.insert_read("[1]").is_err());
    assert!(store.begin_write("n", "a").written("[1]").is_err());
    assert_eq!(store.table.lock().sizes().pending, 0);
    assert!(store.is_empty());
    assert!(reports.lock().is_empty());
}

/// A Job with this condition, which a ttl deletes after its end.
fn job(name: &str, uid: &str, version: u64, condition: &str) -> Box<RawValue> {
    let text = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": uid, "labels": {LABEL_CACHE: "True"},
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "g/v1", "kind": "K", "name": "o", "uid": "owner-1"}],
        },
        "spec": {"ttlSecondsAfterFinished": 0},
        "status": {"conditions": [{"type": condition, "status": "True"}]},
    });
    RawValue::from_string(text.to_string()).unwrap()
}

fn jobs() -> Store {
    Store::new(
        Arc::new(Gvk::new("batch/v1", "Job")),
        (is_owner(), unlimited()),
        move |_| {},
    )
}

/// The UID of the last state of a Job that is gone and had ended.
fn ended(store: &Store, name: &str) -> Option<String> {
    assert!(store.get("n", name).is_none());
    store
        .ended("n", name)
        .map(|last| last.uid.as_ref().to_owned())
}

/// A pass may begin as soon as the object is gone, before any report of the change.
#[test]
fn the_last_state_of_an_object_is_stored_if_it_had_ended() {
    let store = jobs();
    for (version, condition, expected) in [
        (10, "Complete", Some("1".to_owned())),
        (20, "Failed", Some("2".to_owned())),
        // An object that was deleted before its end replaces the earlier one of its name.
        (30, "Suspended", None),
    ] {
        let uid = (version / 10).to_string();
        let object = job("a", &uid, version, condition);
        store.on_event(&Event::Upsert(&object));
        let gone = job("a", &uid, version + 1, condition);
        store.on_event(&Event::Deleted(&gone));
        assert_eq!(ended(&store, "a"), expected, "{condition}");
    }
    // An object that a list does not contain any more.
    store.on_event(&Event::Upsert(&job("a", "4", 40, "Complete")));
    store.on_event(&Event::ListStarted);
    store.on_event(&Event::ListDone {
        resource_version: 50,
    });
    assert_eq!(ended(&store, "a").as_deref(), Some("4"));
    assert_eq!(ended(&store, "b"), None);
}

/// A pass may store the fingerprints of an object that ended and was deleted during the pass.
#[test]
fn fingerprints_of_an_ended_object_are_stored() {
    let store = jobs();
    store.on_event(&Event::Upsert(&job("a", "1", 10, "Complete")));
    store.on_event(&Event::Deleted(&job("a", "1", 11, "Complete")));
    store.set_fingerprints("n", "a", (1, 2));
    let last = store.ended("n", "a").unwrap();
    assert_eq!(last.settled, Some((1, 2)));
}

#[test]
fn the_number_of_stored_ends_is_limited() {
    let store = jobs();
    for number in 0..1_001 {
        let (name, version) = (number.to_string(), 10 + 2 * number);
        store.on_event(&Event::Upsert(&job(&name, &name, version, "Complete")));
        store.on_event(&Event::Deleted(&job(&name, &name, version + 1, "Complete")));
    }
    assert_eq!(ended(&store, "0"), None);
    assert!(ended(&store, "1").is_some() && ended(&store, "1000").is_some());
}
