//! Releases that are being deleted, and stay for a while because their pods serve.

use baton_apis::constants::shipper::{
    ANNOTATION_HIGHEST_OBSERVED_GENERATION, ANNOTATION_RELEASE_GENERATION, FINALIZER_SERVING,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fixtures::{World, environment, in_region, name_of};

impl World {
    fn delete(&mut self, index: usize) {
        self.releases[index].metadata.deletion_timestamp = Some(Time(self.now));
    }
}

#[test]
fn a_release_in_deletion_counts_as_deleted() {
    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut world = World::resolved(in_region("b")).with(&two);
    world.delete(1);
    world.sync();
    assert_eq!(world.application.spec.template, in_region("a"));
    assert_eq!(world.history(), [name_of(&in_region("a"), 0)]);
    let highest = world.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION);
    assert_eq!(highest, Some("0"));
    world.sync();
    assert_eq!(world.log, ["status"], "the abort is over");
}

#[test]
fn the_name_of_a_release_in_deletion_is_not_reused() {
    let two = [(in_region("a"), true), (in_region("b"), false)];
    let mut world = World::resolved(in_region("b")).with(&two);
    world.delete(1);
    world.sync();
    world.application.spec.template = in_region("b");
    world.sync();
    let [first, again] = [("a", 0), ("b", 1)].map(|(name, of)| name_of(&in_region(name), of));
    assert_eq!(world.history(), [first, again]);
    let metadata = &world.releases[2].metadata;
    let annotations = metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[ANNOTATION_RELEASE_GENERATION], "1");
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    assert_eq!(finalizers, [FINALIZER_SERVING]);
}

/// The next Release gets the name of the one that is being deleted.
#[test]
fn the_only_release_is_not_replaced_before_it_is_gone() {
    let template = environment("0.0.1");
    let one = [(template.clone(), false)];
    let mut world = World::resolved(template).with(&one);
    world.sync();
    world.delete(0);
    world.sync();
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn a_complete_only_release_in_deletion_is_replaced_at_once() {
    let template = environment("0.0.1");
    let one = [(template.clone(), true)];
    let mut world = World::resolved(template.clone()).with(&one);
    world.delete(0);
    world.sync();
    assert_eq!(world.history(), [name_of(&template, 1)]);
}

#[test]
fn no_release_is_deleted_twice() {
    let three = ["a", "b", "c"].map(|name| (in_region(name), true));
    let mut world = World::resolved(in_region("c")).with(&three);
    world.application.spec.revision_history_limit = Some(1);
    world.delete(0);
    let outcome = world.sync();
    assert!(outcome.clean_up.surplus.is_empty(), "{outcome:?}");
}
