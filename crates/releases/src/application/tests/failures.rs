use baton_apis::{
    conditions::Reason,
    constants::shipper::{
        ANNOTATION_HIGHEST_OBSERVED_GENERATION, ANNOTATION_RELEASE_GENERATION,
        ANNOTATION_RELEASE_ITERATION,
    },
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fixtures::{World, environment, in_region, name_of};
use crate::application::error::{Refusal, SyncError};

fn annotate(world: &mut World, release: usize, key: &str, value: Option<&str>) {
    let annotations = world.releases[release].metadata.annotations.as_mut();
    let annotations = annotations.unwrap();
    match value {
        Some(value) => annotations.insert(key.into(), value.into()),
        None => annotations.remove(key),
    };
}

#[test]
fn an_unresolved_chart_is_reported_and_changes_nothing_else() {
    for (version, index, message, permanent) in [
        (
            "0.0.1",
            None,
            "failed to resolve chart version [name: \"simple\", version: \"0.0.1\", \
             repo: \"https://charts\"]: no chart name found",
            false,
        ),
        (
            ">5",
            Some("0.0.1"),
            "failed to resolve chart version [name: \"simple\", version: \">5\", \
             repo: \"https://charts\"]: no chart version found",
            false,
        ),
        (
            "latest",
            Some("0.0.1"),
            "broken shipper chart spec [name: \"simple\", version: \"latest\", \
             repo: \"https://charts\"]: improper constraint: latest",
            true,
        ),
    ] {
        let mut world = World::new(environment(version)).with(&[(in_region("a"), true)]);
        let index = index.map(|version| ("simple".to_owned(), vec![version.to_owned()]));
        world.index = index.into_iter().collect();
        let outcome = world.sync();
        let error = outcome.error.unwrap();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.is_permanent(), permanent);
        let reported = format!("RollingOut=False/ChartVersionResolutionFailed {message}");
        assert_eq!(world.conditions(), [reported]);
        assert_eq!(world.history(), [""; 0]);
        assert_eq!(outcome.events.len(), 1);
        assert_eq!(world.log[1..], ["status"], "{:?}", world.log);
        assert_eq!(world.application.spec.template.chart.version, version);
    }
}

#[test]
fn a_release_with_an_invalid_generation_is_reported() {
    let key = ANNOTATION_RELEASE_GENERATION;
    let name = name_of(&in_region("a"), 0);
    for (value, text) in [
        (
            None,
            format!("missing label \"{key}\" in release \"{name}\""),
        ),
        (
            Some("one"),
            format!(
                "invalid value for label \"{key}\" in release \"{name}\": \
                 strconv.Atoi: parsing \"one\": invalid syntax"
            ),
        ),
    ] {
        let two = [(in_region("a"), true), (in_region("b"), true)];
        let mut world = World::resolved(in_region("c")).with(&two);
        annotate(&mut world, 0, key, value);
        let outcome = world.sync();
        let error = outcome.error.unwrap();
        assert_eq!(error.to_string(), text);
        assert!(!error.is_permanent());
        assert_eq!(world.log, ["status"]);
        let reported = format!(
            "ValidHistory=False/{} {text}",
            Reason::BrokenReleaseGeneration
        );
        assert_eq!(world.conditions(), [reported]);

        // When the annotation is repaired, the sync succeeds.
        annotate(&mut world, 0, key, Some("0"));
        world.sync();
        assert_eq!(world.releases.len(), 3);
        assert_eq!(world.conditions()[4], "ValidHistory=True");
    }
}

/// The error does not depend on the order of the list of Releases.
#[test]
fn the_first_of_several_broken_releases_by_name_is_reported() {
    let two = [(in_region("a"), true), (in_region("b"), true)];
    let mut world = World::resolved(in_region("b")).with(&two);
    for index in [0, 1] {
        annotate(&mut world, index, ANNOTATION_RELEASE_GENERATION, None);
    }
    let error = world.clone().sync().error;
    assert!(error.is_some());
    world.releases.reverse();
    assert_eq!(world.sync().error, error);
}

#[test]
fn an_invalid_highest_generation_is_reported() {
    let key = ANNOTATION_HIGHEST_OBSERVED_GENERATION;
    let mut world = World::resolved(in_region("b")).with(&[(in_region("a"), true)]);
    world.annotate(key, "1.5");
    let outcome = world.sync();
    let text = format!(
        "error decoding annotation \"{key}\" in application \"app\": \
         strconv.Atoi: parsing \"1.5\": invalid syntax"
    );
    let error = outcome.error.unwrap();
    assert_eq!(error.to_string(), text);
    assert!(!error.is_permanent());
    let reason = Reason::BrokenApplicationObservedGeneration;
    let reported = format!("ValidHistory=False/{reason} {text}");
    assert_eq!(world.conditions(), ["Blocked=False".to_owned(), reported]);
    assert_eq!(world.log, ["status"]);
    assert_eq!(world.annotation(key), Some("1.5"));

    // Without the annotation, no generation counts as observed.
    world
        .application
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove(key);
    world.sync();
    assert_eq!(world.annotation(key), Some("1"));
}

/// Without a Release there is no number to compare the annotation with.
#[test]
fn an_invalid_highest_generation_does_not_prevent_the_first_release() {
    let mut world = World::new(environment("0.0.1"));
    world.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, "x");
    world.sync();
    assert_eq!(
        world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("0")
    );
}

#[test]
fn a_failed_creation_of_a_release_is_reported() {
    let refusal = |is_permanent| Refusal {
        message: "releases \"x\" is forbidden".into(),
        is_permanent,
    };
    let mut first = World::new(environment("0.0.1"));
    first.refusal = Some(refusal(true));
    let error = first.sync().error.unwrap();
    assert!(error.is_permanent());
    let text = r#"could not create a new release: "releases \"x\" is forbidden""#;
    assert_eq!(error.to_string(), text);
    assert_eq!(
        first.conditions(),
        [
            "Blocked=False".to_owned(),
            format!("ReleaseSynced=False/CreateReleaseFailed {text}")
        ]
    );
    assert_eq!(first.history(), [""; 0]);
    assert_eq!(
        first.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        None
    );

    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut later = World::resolved(in_region("c")).with(&two);
    later.refusal = Some(refusal(false));
    let outcome = later.sync();
    let error = outcome.error.unwrap();
    assert!(!error.is_permanent());
    let text = "releases \"x\" is forbidden";
    assert_eq!(error.to_string(), text);
    assert_eq!(
        later.conditions(),
        [
            "Blocked=False".to_owned(),
            format!("ReleaseSynced=False/CreateReleaseFailed {text}"),
            format!("RollingOut=False/CreateReleaseFailed {text}"),
        ]
    );
    assert_eq!(outcome.clean_up, super::super::history::CleanUp::default());
    assert_eq!(
        later.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION),
        Some("1")
    );

    later.refusal = None;
    later.sync();
    assert_eq!(later.releases.len(), 2, "the unfinished one is gone");
    assert_eq!(later.conditions()[2], "ReleaseSynced=True");
}

/// The version of a Release has to be available when it is created, even if it was resolved long
/// ago.
#[test]
fn a_version_missing_in_the_repository_is_not_released() {
    let mut world = World::resolved(in_region("b")).with(&[(in_region("a"), true)]);
    world.index.get_mut("simple").unwrap().clear();
    let error = world.sync().error.unwrap();
    assert!(
        matches!(error, SyncError::Create { first: false, .. }),
        "{error:?}"
    );
    let text = "failed to resolve chart version [name: \"simple\", version: \"0.0.1\", \
                repo: \"https://charts\"]: no chart version found";
    assert_eq!(error.to_string(), text);
    assert_eq!(world.releases.len(), 1);
    assert_eq!(
        world.conditions()[1],
        format!("ReleaseSynced=False/CreateReleaseFailed {text}")
    );
}

/// If the Release were created with the other version, it would differ from the template forever.
#[test]
fn a_release_has_the_exact_version_of_the_template() {
    let mut world = World::new(environment("=1.0.0"));
    world.index = [("simple".into(), vec!["1".into(), "1.5.0".into()])].into();
    world.sync();
    assert_eq!(world.application.spec.template.chart.version, "1");
    world.complete(0);
    world.application.spec.template.values = serde_json::from_str(r#"{"a":1}"#).unwrap();
    world.sync();
    assert_eq!(world.releases.len(), 2);
    assert_eq!(
        world.releases[1].spec.environment,
        world.application.spec.template
    );
    world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
}

/// An iteration that was edited by hand, or is out of order, does not prevent the next Release.
#[test]
fn invalid_iterations_do_not_prevent_the_next_name() {
    for (edited, expected) in [
        (None, 1),
        (Some("x"), 1),
        (Some("-5"), 1),
        (Some("6"), 7),
        (Some("9223372036854775807"), i64::MAX),
    ] {
        let two = [(in_region("a"), true), (in_region("b"), true)];
        let mut world = World::resolved(in_region("a")).with(&two);
        annotate(&mut world, 0, ANNOTATION_RELEASE_ITERATION, edited);
        world.sync();
        let name = name_of(&in_region("a"), expected);
        assert_eq!(world.releases[2].metadata.name, Some(name), "{edited:?}");
    }
    // The name is taken by a Release of another hash.
    let two = [(in_region("a"), true), (in_region("b"), true)];
    let mut world = World::resolved(in_region("c")).with(&two);
    world.releases[0].metadata.name = Some(name_of(&in_region("c"), 0));
    world.sync();
    assert_eq!(
        world.releases[2].metadata.name,
        Some(name_of(&in_region("c"), 1))
    );
}

/// The generation of the newest Release leaves no higher number: no Release is created until the
/// newest is deleted.
#[test]
fn no_release_is_created_after_the_highest_generation() {
    let key = ANNOTATION_RELEASE_GENERATION;
    let two = [(in_region("a"), true), (in_region("b"), true)];
    let mut world = World::resolved(in_region("c")).with(&two);
    annotate(&mut world, 1, key, Some("9223372036854775807"));
    for _ in 0..2 {
        let error = world.sync().error.unwrap();
        let name = name_of(&in_region("b"), 0);
        let text = format!(
            "release {name} has the number 9223372036854775807, and no higher number is possible. Delete it."
        );
        assert_eq!(error.to_string(), text);
        assert!(error.is_permanent());
        assert_eq!(world.releases.len(), 2);
        let reported = format!("ReleaseSynced=False/CreateReleaseFailed {text}");
        assert!(
            world.conditions().contains(&reported),
            "{:?}",
            world.conditions()
        );
    }
    // The deletion is an abort; then the next edit is rolled out.
    world.releases.pop();
    assert_eq!(world.sync().error, None);
    world.application.spec.template = in_region("c");
    assert_eq!(world.sync().error, None);
    assert_eq!(world.releases.len(), 2);
}

/// A webhook changes each Release before it is stored.
#[test]
fn releases_that_a_webhook_changes_are_created_with_growing_delays() {
    let mut world = World::resolved(in_region("a"));
    let mut made = 0;
    let mut sync = |world: &mut World| {
        let outcome = world.sync();
        if world.log.iter().any(|it| it.starts_with("create")) {
            made += 1;
            let newest = world.releases.last_mut().unwrap();
            newest.spec.environment = in_region("x");
            newest.metadata.creation_timestamp = Some(Time(world.now));
        }
        (made, outcome.error)
    };
    for expected in 1..=5 {
        assert_eq!(sync(&mut world), (expected, None));
    }
    let (made, error) = sync(&mut world);
    let text = error.unwrap();
    assert!(!text.is_permanent());
    assert!(
        text.to_string()
            .ends_with("the next one is created at 1970-01-01T00:00:11Z"),
        "{text}"
    );
    assert_eq!(made, 5);
    for _ in 0..86_400 / 60 {
        world.now += jiff::SignedDuration::from_mins(1);
        let (made, _) = sync(&mut world);
        assert!(made < 40);
    }
    // Another environment is rolled out at once.
    world.application.spec.template = in_region("b");
    world.sync();
    assert!(
        world.log.iter().any(|it| it.starts_with("create")),
        "{:?}",
        world.log
    );
}
