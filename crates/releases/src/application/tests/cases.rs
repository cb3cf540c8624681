use baton_apis::{
    ReleaseEnvironment,
    conditions::EventReason,
    constants::shipper::{
        ANNOTATION_BLOCK_OVERRIDE, ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW,
        ANNOTATION_CHART_VERSION_RESOLVED, ANNOTATION_HIGHEST_OBSERVED_GENERATION,
        ANNOTATION_RELEASE_GENERATION, ANNOTATION_RELEASE_ITERATION, LABEL_APP, LABEL_RELEASE,
        LABEL_RELEASE_HASH,
    },
};
use baton_engine::rollout_blocks::Blocks;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::fixtures::{World, environment, in_region, name_of};
use crate::{
    application::{Answers, Observed, Step, decide},
    event::Event,
    hash::environment_hash,
};

const CONDITIONS_CHANGED: EventReason = EventReason::ApplicationConditionChanged;

/// The conditions of a successful sync; `rolling_out` is the condition `RollingOut`.
fn well(rolling_out: &str) -> Vec<String> {
    let rolling_out = format!("RollingOut={rolling_out}");
    [
        "Aborting=False",
        "Blocked=False",
        "ReleaseSynced=True",
        &rolling_out,
        "ValidHistory=True",
    ]
    .map(String::from)
    .into()
}

/// A label or annotation of the last Release.
fn label(world: &World, key: &str) -> String {
    let labels = world.releases.last().unwrap().metadata.labels.clone();
    labels.unwrap()[key].clone()
}

fn annotation(world: &World, key: &str) -> String {
    let annotations = world.releases.last().unwrap().metadata.annotations.clone();
    annotations.unwrap()[key].clone()
}

#[test]
fn the_first_release_is_created() {
    let mut world = World::new(environment("0.0.1"));
    let outcome = world.sync();
    let hash = environment_hash(&environment("0.0.1"));
    let name = format!("app-{hash}-0");

    assert_eq!(
        world.log,
        [
            "resolve 0.0.1",
            &format!("create {name}"),
            "update",
            "status"
        ]
    );
    assert_eq!(outcome.error, None);
    let release = &world.releases[0];
    assert_eq!(release.metadata.name.as_deref(), Some(name.as_str()));
    assert_eq!(release.metadata.namespace.as_deref(), Some("ns"));
    assert_eq!(label(&world, LABEL_APP), "app");
    assert_eq!(label(&world, LABEL_RELEASE), name);
    assert_eq!(label(&world, LABEL_RELEASE_HASH), hash);
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_GENERATION), "0");
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_ITERATION), "0");
    assert_eq!(annotation(&world, ANNOTATION_BLOCK_OVERRIDE), "");
    assert_eq!(release.spec.target_step, 0);
    assert_eq!(release.spec.environment, environment("0.0.1"));
    assert_eq!(release.status, None);
    let owner = OwnerReference {
        api_version: "shipper.booking.com/v1alpha1".into(),
        kind: "Application".into(),
        name: "app".into(),
        uid: "app-uid".into(),
        controller: None,
        block_owner_deletion: None,
    };
    assert_eq!(release.metadata.owner_references, Some(vec![owner]));

    assert_eq!(world.history(), [name.as_str()]);
    let text = format!("True/ Rolling out initial release \"{name}\"");
    assert_eq!(world.conditions(), well(&text));
    for (key, expected) in [
        (ANNOTATION_HIGHEST_OBSERVED_GENERATION, Some("0")),
        (ANNOTATION_CHART_NAME, Some("simple")),
        (ANNOTATION_CHART_VERSION_RAW, Some("0.0.1")),
        (ANNOTATION_CHART_VERSION_RESOLVED, Some("0.0.1")),
        (ANNOTATION_BLOCK_OVERRIDE, None),
    ] {
        assert_eq!(world.annotation(key), expected, "{key}");
    }
    let wrap_up = format!(
        "[] -> [Aborting False], [] -> [ValidHistory True], [] -> [ReleaseSynced True], \
         [] -> [RollingOut True Rolling out initial release \"{name}\"]"
    );
    assert_eq!(
        outcome.events,
        [
            Event::normal(CONDITIONS_CHANGED, wrap_up),
            Event::normal(CONDITIONS_CHANGED, "[] -> [Blocked False]"),
        ]
    );

    let again = world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
    assert!(again.events.is_empty(), "{:?}", again.events);
}

#[test]
fn a_range_of_versions_is_replaced_by_the_version() {
    let mut world = World::new(environment("~0.0.0"));
    world.sync();
    let name = name_of(&environment("0.0.1"), 0);
    assert_eq!(
        world.log[..2],
        ["resolve ~0.0.0", &format!("create {name}")]
    );
    assert_eq!(world.application.spec.template, environment("0.0.1"));
    assert_eq!(world.releases[0].spec.environment, environment("0.0.1"));
    assert_eq!(
        world.annotation(ANNOTATION_CHART_VERSION_RAW),
        Some("~0.0.0")
    );
    assert_eq!(
        world.annotation(ANNOTATION_CHART_VERSION_RESOLVED),
        Some("0.0.1")
    );

    // A version that is published later changes nothing.
    world.index.get_mut("simple").unwrap().push("0.0.2".into());
    world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn an_overridden_block_is_reported() {
    let mut world = World::new(environment("0.0.1"));
    world.blocks.in_force = ["ns/freeze".into()].into();
    world.annotate(ANNOTATION_BLOCK_OVERRIDE, "ns/freeze,,ns/freeze");
    let outcome = world.sync();
    assert_eq!(
        world.annotation(ANNOTATION_BLOCK_OVERRIDE),
        Some("ns/freeze")
    );
    assert_eq!(annotation(&world, ANNOTATION_BLOCK_OVERRIDE), "ns/freeze");
    let reported = Event::normal(EventReason::RolloutBlockOverridden, "ns/freeze");
    assert_eq!(outcome.events[0], reported);
    assert_eq!(outcome.events.len(), 3);
    // The event is recorded on every sync.
    assert_eq!(world.sync().events, [reported]);
}

#[test]
fn no_release_is_created_under_a_block() {
    let mut world = World::new(environment("~0.0.0"));
    world.blocks.in_force = ["ns/freeze".into()].into();
    let outcome = world.sync();
    assert_eq!(world.log, ["resolve ~0.0.0", "update", "status"]);
    assert_eq!(outcome.error, None);
    assert_eq!(world.application.spec.template, environment("0.0.1"));
    assert_eq!(
        world.conditions(),
        [
            "Aborting=False",
            "Blocked=True/RolloutsBlocked rollout block(s) with name(s) \"ns/freeze\" exist",
            "ReleaseSynced=True",
            "RollingOut=Unknown/ no contender release found for application \"app\"",
            "ValidHistory=True",
        ]
    );
    let reported = Event::warning(EventReason::RolloutBlocked, "ns/freeze");
    assert_eq!(outcome.events[0], reported);
    assert_eq!(world.sync().events, [reported]);

    world.blocks.in_force.clear();
    let outcome = world.sync();
    assert_eq!(world.releases.len(), 1);
    let unblocked = &outcome.events.last().unwrap().message;
    assert!(unblocked.ends_with("[Blocked False]"), "{unblocked}");
}

#[test]
fn an_override_of_a_missing_block_blocks_the_rollout() {
    let mut world = World::new(environment("0.0.1"));
    world.annotate(ANNOTATION_BLOCK_OVERRIDE, "ns/freeze");
    world.sync();
    let blocked =
        "Blocked=True/RolloutsBlocked rollout block with name \"ns/freeze\" does not exist";
    assert_eq!(world.conditions()[1], blocked);
    assert_eq!(world.releases.len(), 0);
}

/// There is neither a clean-up nor an abort, and the status keeps its history.
#[test]
fn nothing_is_deleted_or_aborted_under_a_block() {
    let three = [0, 1, 2].map(|number| (in_region(&number.to_string()), number != 1));
    let mut world = World::resolved(in_region("new")).with(&three);
    world.application.spec.revision_history_limit = Some(1);
    world.blocks.in_force = ["ns/freeze".into()].into();
    world.sync();
    assert_eq!(world.log, ["status"]);
    assert_eq!(world.history(), [""; 0]);
    let active = format!(
        "RollingOut=False/ Release \"{}\" is active",
        name_of(&in_region("2"), 0)
    );
    assert_eq!(world.conditions()[3], active);

    world.releases.pop();
    world.sync();
    assert_eq!(world.application.spec.template, in_region("new"));
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("2")
    );
}

#[test]
fn completed_releases_beyond_the_limit_are_deleted_oldest_first() {
    let names = [0, 1, 2].map(|number| name_of(&in_region(&number.to_string()), 0));
    for (limit, deleted) in [(1, 1), (2, 0), (0, 1), (-5, 1), (20, 0)] {
        let three = [0, 1, 2].map(|number| (in_region(&number.to_string()), true));
        let mut world = World::resolved(in_region("2")).with(&three);
        world.application.spec.revision_history_limit = Some(limit);
        let outcome = world.sync();
        assert_eq!(outcome.clean_up.surplus, names[..deleted], "{limit}");
        assert!(outcome.clean_up.unfinished.is_empty());
        assert_eq!(world.history(), names, "before the clean-up");
        assert_eq!(
            world.conditions(),
            well(&format!("False/ Release \"{}\" is active", names[2]))
        );
        world.sync();
        assert_eq!(world.history(), names[deleted..]);
    }
}

#[test]
fn the_limit_is_corrected() {
    for (limit, expected) in [
        (None, 20),
        (Some(i32::MIN), 1),
        (Some(0), 1),
        (Some(1), 1),
        (Some(1000), 1000),
        (Some(1001), 1000),
    ] {
        let mut world = World::new(environment("0.0.1"));
        world.application.spec.revision_history_limit = limit;
        world.sync();
        assert_eq!(
            world.application.spec.revision_history_limit,
            Some(expected)
        );
    }
}

#[test]
fn a_changed_template_is_the_next_release() {
    let mut world = World::resolved(in_region("b")).with(&[(in_region("a"), true)]);
    world.sync();
    let (old, new) = (name_of(&in_region("a"), 0), name_of(&in_region("b"), 0));
    assert_eq!(
        world.log,
        [
            "resolve 0.0.1",
            &format!("create {new}"),
            "update",
            "status"
        ]
    );
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_GENERATION), "1");
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_ITERATION), "0");
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("1")
    );
    let text = format!("True/ Transitioning from \"{old}\" to \"{new}\"");
    assert_eq!(world.conditions(), well(&text));
    assert_eq!(world.history(), [old, new]);
}

#[test]
fn the_incumbent_is_the_newest_completed_release() {
    let same = [(in_region("a"), true), (in_region("a"), true)];
    let mut world = World::resolved(in_region("b")).with(&same);
    world.sync();
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_GENERATION), "2");
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_ITERATION), "0");
    let (old, new) = (name_of(&in_region("a"), 1), name_of(&in_region("b"), 0));
    let text = format!("True/ Transitioning from \"{old}\" to \"{new}\"");
    assert_eq!(world.conditions(), well(&text));
}

/// The process ended after it created the Release and before it updated the Application, and the
/// repository is empty since.
#[test]
fn a_release_is_recorded_even_if_its_version_is_not_found() {
    let mut template = in_region("b");
    template.chart.version = "0.0.2".into();
    let mut world =
        World::resolved(in_region("a")).with(&[(in_region("a"), true), (template.clone(), false)]);
    world.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, "0");
    world.application.spec.template = template;
    world.index.clear();
    let outcome = world.sync();
    assert!(outcome.error.is_some());
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("1")
    );
}

#[test]
fn the_template_is_reverted_when_a_release_is_deleted() {
    let mut template = in_region("b");
    template.chart.version = "0.0.2".into();
    let mut world = World::resolved(template).with(&[(in_region("a"), true)]);
    world.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, "1");
    world.annotate(ANNOTATION_CHART_VERSION_RAW, "~0.0.0");
    let outcome = world.sync();
    let name = name_of(&in_region("a"), 0);
    assert_eq!(world.log, ["list", "update", "status"]);
    assert_eq!(world.application.spec.template, in_region("a"));
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("0")
    );
    assert_eq!(
        world.annotation(ANNOTATION_CHART_VERSION_RAW),
        Some("~0.0.0")
    );
    assert_eq!(
        world.annotation(ANNOTATION_CHART_VERSION_RESOLVED),
        Some("0.0.1")
    );
    let aborting =
        format!("Aborting=True/ abort in progress, returning state to release \"{name}\"");
    assert_eq!(
        world.conditions(),
        [aborting.as_str(), "Blocked=False", "RollingOut=True"]
    );
    assert_eq!(outcome.events.len(), 1);
    assert_eq!(world.history(), [name.as_str()]);

    // The next sync has nothing to correct.
    world.sync();
    assert_eq!(world.log, ["status"]);
    assert_eq!(
        world.conditions(),
        well(&format!("False/ Release \"{name}\" is active"))
    );
}

/// A cache that lacks the Release of the last sync must not undo an edit.
#[test]
fn a_release_that_the_cache_lacks_is_not_taken_for_deleted() {
    for existing in [vec![(in_region("a"), true)], vec![]] {
        let mut world = World::resolved(in_region("b")).with(&existing);
        world.sync();
        let mut stale = world.clone();
        let all = stale.releases.clone();
        stale.releases.pop();
        let observed = |releases, listed| {
            decide(&Observed {
                application: &world.application,
                releases,
                blocks: &Blocks::default(),
                answers: &Answers {
                    listed,
                    ..Answers::default()
                },
                now: world.now,
            })
        };
        assert_eq!(observed(&stale.releases, false), Step::List);
        let Step::Finish(outcome) = observed(&all, true) else {
            panic!("nothing else was to be asked");
        };
        assert_eq!(outcome.application, world.application);
    }
}

#[test]
fn a_rollout_in_progress_is_not_changed() {
    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut world = World::resolved(in_region("b")).with(&two);
    world.releases[1].spec.target_step = 1;
    world.sync();
    assert_eq!(world.log, ["status"]);
    let (old, new) = (name_of(&in_region("a"), 0), name_of(&in_region("b"), 0));
    let text = format!("True/ Transitioning from \"{old}\" to \"{new}\"");
    assert_eq!(world.conditions(), well(&text));
}

/// The unfinished former contender is deleted at once.
#[test]
fn an_edit_in_mid_rollout_replaces_the_contender() {
    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut world = World::resolved(in_region("c")).with(&two);
    let outcome = world.sync();
    let [a, b, c] = ["a", "b", "c"].map(|name| name_of(&in_region(name), 0));
    assert_eq!(outcome.clean_up.unfinished, [b.as_str()]);
    assert!(outcome.clean_up.surplus.is_empty());
    assert_eq!(world.history(), [a.as_str(), &b, &c]);
    let text = format!("True/ Transitioning from \"{a}\" to \"{c}\"");
    assert_eq!(world.conditions(), well(&text));
}

/// The only Release is deleted.
#[test]
fn the_only_release_is_recreated_under_its_name() {
    let mut world = World::new(environment("0.0.1"));
    world.sync();
    let first = world.releases.clone();
    world.releases.clear();
    world.sync();
    assert_eq!(world.releases, first);
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("0")
    );
}

#[test]
fn generations_are_used_again_after_an_abort() {
    let one = [(in_region("a"), true)];
    let mut world = World::resolved(in_region("b")).with(&one);
    world.sync();
    world.releases.pop();
    world.sync();
    world.application.spec.template = in_region("c");
    world.sync();
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_GENERATION), "1");
    assert_eq!(world.releases.len(), 2);
}

/// A rollback restores an older environment in the template. The Release of that environment may
/// still exist.
#[test]
fn a_rollback_creates_a_new_release() {
    let two = [(in_region("a"), true), (in_region("b"), true)];
    let mut world = World::resolved(in_region("a")).with(&two);
    world.sync();
    let name = name_of(&in_region("a"), 1);
    assert_eq!(world.releases[2].metadata.name, Some(name));
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_ITERATION), "1");
    assert_eq!(annotation(&world, ANNOTATION_RELEASE_GENERATION), "2");
}

/// The process ended between the creation of the Release and the update of the Application.
#[test]
fn an_unrecorded_release_is_recorded() {
    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut world = World::resolved(in_region("b")).with(&two);
    world.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, "0");
    world.sync();
    assert_eq!(world.log, ["update", "status"]);
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("1")
    );
}

#[test]
fn a_release_has_the_labels_of_its_application_except_reserved_ones() {
    let mut world = World::new(environment("0.0.1"));
    let labels = [
        ("team", "a"),
        ("enable-helm-release-workaround", "true"),
        (LABEL_APP, "other"),
        (LABEL_RELEASE, "other"),
        (LABEL_RELEASE_HASH, "other"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    world.application.metadata.labels = Some(labels.into());
    world.sync();
    let name = name_of(&environment("0.0.1"), 0);
    for (key, expected) in [
        ("team", "a"),
        ("enable-helm-release-workaround", "true"),
        (LABEL_APP, "app"),
        (LABEL_RELEASE, &name),
        (LABEL_RELEASE_HASH, &environment_hash(&environment("0.0.1"))),
    ] {
        assert_eq!(label(&world, key), expected, "{key}");
    }
}

#[test]
fn values_may_be_left_out() {
    let with = |values| ReleaseEnvironment {
        values,
        ..environment("0.0.1")
    };
    let mut world = World::resolved(with(None)).with(&[(with(None), true)]);
    world.sync();
    assert_eq!(world.log, ["status"]);
    world.application.spec.template = with(Some(json!(null).into()));
    world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
    world.application.spec.template = with(Some(json!({}).into()));
    world.sync();
    assert_eq!(world.releases.len(), 2);
}

#[test]
fn an_application_in_deletion_is_not_changed() {
    let mut world = World::new(environment("~0.0.0")).with(&[(in_region("a"), true)]);
    world.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, "5");
    world.application.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now),
    );
    let outcome = world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
    assert!(outcome.events.is_empty());
}

/// Another request to delete the Release would change nothing.
#[test]
fn a_release_in_deletion_is_not_deleted_again() {
    let four = [("a", true), ("b", true), ("c", false), ("d", true)];
    let four = four.map(|(name, complete)| (in_region(name), complete));
    let mut world = World::resolved(in_region("d")).with(&four);
    world.application.spec.revision_history_limit = Some(1);
    for index in [0, 2] {
        world.releases[index].metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now),
        );
    }
    assert_eq!(
        world.sync().clean_up,
        super::super::history::CleanUp::default()
    );
}
