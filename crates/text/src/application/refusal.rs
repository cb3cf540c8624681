//! Sentences for refusals to steer a rollout.

use baton_view::applications::{observed::Observed, steer::Refusal};

use super::verdict::reason;

/// A refusal, with the name of the Application.
pub fn refused(observed: &Observed, refusal: &Refusal) -> String {
    format!("{}: {}", observed.target(), sentence(refusal))
}

fn sentence(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Gone => "it does not exist any more, only its releases do".to_owned(),
        Refusal::Deleting => "it is being deleted".to_owned(),
        Refusal::Generation(error) => error.to_string(),
        Refusal::NoRelease => "there is no release yet".to_owned(),
        Refusal::SameGeneration(first, second, generation) => format!(
            "releases {first} and {second} both have generation {generation}; it is unknown which one is newer"
        ),
        Refusal::NotNewest(named, newest) => {
            format!("release {named} is not the newest; that is {newest}")
        }
        Refusal::ReleaseDeleting(name) => format!("release {name} is being deleted"),
        Refusal::NoSteps(name) => format!("the strategy of release {name} has no steps"),
        Refusal::NoStep(name, step, [first, last]) if first == last => {
            format!("there is no step {step}; release {name} has step {first} only")
        }
        Refusal::NoStep(name, step, [first, last]) => {
            format!("there is no step {step}; release {name} has steps {first} to {last}")
        }
        Refusal::AtTheEnd(name, step) => format!(
            "there is nothing to promote: release {name} has achieved its last step, {step}"
        ),
        Refusal::NotAchieved(name, step, why) => format!(
            "step {step} of release {name} is not achieved: it {}; --force continues anyway",
            reason(why)
        ),
        Refusal::Skipped(name, between) => format!(
            "step {between} of release {name} comes before; --force or --full skips it"
        ),
        Refusal::Complete(name) => format!(
            "there is nothing to abort: release {name} is complete, and its deletion would remove its pods at once; \
             use `kubectl baton rollback`, or --force"
        ),
        Refusal::OnlyOne(name) => format!(
            "there is nothing to go back to: release {name} is the only one. If it were deleted, the same release \
             would be created again, at its first step"
        ),
        Refusal::BeforeIncomplete(newest, before) => format!(
            "there is nothing to go back to: release {before}, the one before {newest}, never completed"
        ),
        Refusal::NoGeneration(number, ends) => {
            format!("there is no release of generation {number}; {}", there(*ends))
        }
        Refusal::Ambiguous(generation, names) => format!(
            "several releases have generation {generation}: {}; name one of them as rel/NAME",
            names.join(", ")
        ),
        Refusal::NeverCompleted(name) => {
            format!("release {name} never completed; --force goes back to it anyway")
        }
        Refusal::NothingEarlier => {
            "no earlier release has completed with another content; --to-revision NUMBER chooses one"
                .to_owned()
        }
    }
}

/// The lowest and the highest existing generation.
fn there(ends: Option<(i64, i64)>) -> String {
    match ends {
        None => "there is no release yet".to_owned(),
        Some((first, last)) if first == last => format!("there is only {first}"),
        Some((first, last)) => format!("there are {first} to {last}"),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::kinds;
    use baton_view::applications::{
        steer::{self, StepChoice, abort, promote, rollback},
        target::AppTarget,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::application::fixtures::{
        application, at_step, complete, environment, mid_rollout, named, observed, release,
    };

    /// A rollout with this wanted step and this reached step of the newest Release.
    fn at(target: i64, achieved: Option<i64>) -> Vec<Value> {
        let (old, new) = (environment("1.0.0", 6), environment("1.1.0", 6));
        let status = achieved.map_or_else(|| json!({}), |step| at_step(step, "some"));
        vec![
            application(&new),
            release("old", 0, 2, &old, &complete()),
            release("new", 1, target, &new, &status),
        ]
    }

    fn rel(name: &str) -> AppTarget {
        AppTarget {
            kind: &kinds::RELEASE,
            name: name.to_owned(),
        }
    }

    #[test]
    fn steps_are_promoted_one_at_a_time() {
        use StepChoice::{Last, Next, Number};
        let nowhere = "there is no step";
        let pending = "is not achieved: it";
        let ended = "there is nothing to promote: release shop-new-0 has achieved its last step, 2 (full on)";
        for (target, achieved, choice, force, expected) in [
            (0, Some(0), Next, false, Ok(Some(1))),
            (1, Some(1), Next, false, Ok(Some(2))),
            (2, Some(2), Next, false, Err(ended)),
            (0, None, Next, false, Err(pending)),
            (1, Some(0), Next, false, Err(pending)),
            // The rollout goes back.
            (0, Some(1), Next, false, Err(pending)),
            (1, Some(0), Next, true, Ok(Some(2))),
            (2, Some(1), Next, true, Err("there is nothing to promote")),
            (0, Some(0), Number(1), false, Ok(Some(1))),
            (1, Some(1), Number(1), false, Ok(None)),
            (
                0,
                Some(0),
                Number(2),
                false,
                Err("step 1 (50/50) of release shop-new-0 comes before"),
            ),
            (0, Some(0), Number(2), true, Ok(Some(2))),
            (0, None, Number(1), false, Err(pending)),
            (0, None, Number(1), true, Ok(Some(1))),
            (1, Some(0), Number(0), false, Ok(Some(0))),
            (2, Some(2), Number(0), false, Ok(Some(0))),
            (
                0,
                Some(0),
                Number(3),
                true,
                Err("steps 0 (staging) to 2 (full on)"),
            ),
            (0, Some(0), Number(i32::MAX), false, Err(nowhere)),
            (0, Some(0), Last, false, Ok(Some(2))),
            (1, Some(0), Last, false, Err(pending)),
            (1, Some(0), Last, true, Ok(Some(2))),
            (2, Some(1), Last, false, Ok(None)),
            (2, Some(2), Last, false, Err(ended)),
            // The wanted step was set beyond the end.
            (i64::from(i32::MAX), Some(2), Next, true, Err(nowhere)),
        ] {
            let case = format!("{target} {achieved:?} {choice:?} {force}");
            let promotion = promote(&observed(&at(target, achieved)), choice, force);
            match (promotion, expected) {
                (Ok(promotion), Ok(step)) => {
                    let written = promotion
                        .patch
                        .as_ref()
                        .map(|patch| patch[2]["value"].clone());
                    assert_eq!(written, step.map(Value::from), "{case}");
                    let tested = promotion
                        .patch
                        .as_ref()
                        .map(|patch| patch[1]["value"].clone());
                    assert_eq!(tested, step.map(|_| target.into()), "{case}");
                }
                (Err(refusal), Err(text)) => {
                    assert!(sentence(&refusal).contains(text), "{case}: {refusal:?}");
                }
                (promotion, expected) => panic!("{case}: {promotion:?}, not {expected:?}"),
            }
        }
    }

    /// The answers of the commands to an ambiguous state.
    fn refusals(objects: &[Value], target: &AppTarget) -> [Option<String>; 3] {
        let observed = named(objects, target);
        [
            promote(&observed, StepChoice::Next, false).err(),
            abort(&observed, false).err(),
            rollback(&observed, None, false).err(),
        ]
        .map(|refusal| refusal.map(|refusal| sentence(&refusal)))
    }

    #[test]
    fn an_ambiguous_or_incomplete_target_is_refused() {
        let app = AppTarget::application("shop");
        let all = |text: &str| {
            [
                Some(text.to_owned()),
                Some(text.to_owned()),
                Some(text.to_owned()),
            ]
        };
        let mut objects = at(0, Some(0));
        assert_eq!(refusals(&objects, &app), [None, None, None]);
        assert_eq!(
            refusals(&objects[..1], &app),
            all("there is no release yet")
        );
        assert_eq!(
            refusals(&objects[1..], &app),
            all("it does not exist any more, only its releases do")
        );
        // A Release has no generation.
        objects[1]["metadata"]["annotations"] = json!({});
        let missing =
            "missing label \"shipper.booking.com/release.generation\" in release \"shop-old-0\"";
        assert_eq!(refusals(&objects, &app), all(missing));
        // Two Releases have the same generation.
        let mut objects = at(0, Some(0));
        let annotations = &mut objects[1]["metadata"]["annotations"];
        annotations["shipper.booking.com/release.generation"] = "1".into();
        let [promote, abort, _] = refusals(&objects, &app);
        for refused in [promote, abort] {
            assert!(refused.unwrap().contains("both have generation 1"));
        }
        let refused = rollback(&observed(&objects), Some(1), false).unwrap_err();
        assert!(matches!(refused, Refusal::Ambiguous(1, _)), "{refused:?}");
        // The Release is not the newest.
        let objects = at(0, Some(0));
        let [promote, abort, _] = refusals(&objects, &rel("shop-old-0"));
        let not_newest = "release shop-old-0 is not the newest; that is shop-new-0";
        assert_eq!(promote.as_deref(), Some(not_newest));
        assert_eq!(abort.as_deref(), Some(not_newest));
        // The strategy has no steps.
        let mut objects = at(0, None);
        objects[2]["spec"]["environment"]["strategy"] = json!({ "steps": [] });
        let [promote, ..] = refusals(&objects, &app);
        assert_eq!(
            promote.as_deref(),
            Some("the strategy of release shop-new-0 has no steps")
        );
        let mut objects = at(0, Some(0));
        objects[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(refusals(&objects, &app), all("it is being deleted"));
        let mut objects = at(0, Some(0));
        objects[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let [promote, abort, _] = refusals(&objects, &rel("shop-new-0"));
        let deleting = "release shop-new-0 is being deleted";
        assert_eq!(promote.as_deref(), Some(deleting));
        assert_eq!(abort.as_deref(), Some(deleting));
        // A Release that is being deleted does not count.
        let refused = steer::abort(&observed(&objects), false).unwrap_err();
        assert_eq!(refused, Refusal::OnlyOne("shop-old-0".to_owned()));
    }

    #[test]
    fn an_abort_requires_an_earlier_release() {
        let aborted = |objects: &[Value], force| {
            let abort = abort(&observed(objects), force);
            abort.map(|abort| {
                (
                    abort.release,
                    abort.back_to,
                    abort.options["preconditions"].clone(),
                )
            })
        };
        let both = (
            "shop-new-0".to_owned(),
            "shop-old-0".to_owned(),
            json!({ "uid": "u-new" }),
        );
        let mut objects = at(0, Some(0));
        assert_eq!(aborted(&objects, false), Ok(both.clone()));
        let only = [objects[0].clone(), objects[2].clone()];
        let name = || "shop-new-0".to_owned();
        assert_eq!(aborted(&only, true), Err(Refusal::OnlyOne(name())));
        objects[2]["status"] = complete();
        assert_eq!(aborted(&objects, false), Err(Refusal::Complete(name())));
        assert_eq!(aborted(&objects, true), Ok(both));
        objects[1]["status"] = json!({});
        let refused = Refusal::BeforeIncomplete(name(), "shop-old-0".to_owned());
        assert_eq!(aborted(&objects, true), Err(refused));
    }

    #[test]
    fn a_rollback_selects_the_newest_completed_release_that_differs() {
        let went = |objects: &[Value], to, force, target: &AppTarget| {
            let back = rollback(&named(objects, target), to, force);
            back.map(|back| (back.release, back.patch.is_some()))
                .map_err(|refusal| sentence(&refusal))
        };
        let app = AppTarget::application("shop");
        let to = |name: &str, writes| Ok((name.to_owned(), writes));
        let (first, second, third) = (
            environment("1.0.0", 6),
            environment("1.0.0", 7),
            environment("1.0.0", 8),
        );
        let mut objects = vec![
            application(&first),
            release("a", 3, 2, &first, &complete()),
            release("b", 4, 2, &second, &json!({})),
            release("c", 7, 2, &third, &complete()),
            release("d", 8, 0, &first, &json!({})),
        ];
        // `a` is not chosen, as it has the same content as `d`.
        assert_eq!(went(&objects, None, false, &app), to("shop-c-0", true));
        assert_eq!(went(&objects, Some(3), false, &app), to("shop-a-0", false));
        assert_eq!(went(&objects, Some(7), false, &app), to("shop-c-0", true));
        let refused = went(&objects, Some(4), false, &app).unwrap_err();
        assert!(refused.contains("never completed"), "{refused}");
        assert_eq!(went(&objects, Some(4), true, &app), to("shop-b-0", true));
        assert_eq!(
            went(&objects, Some(5), true, &app).unwrap_err(),
            "there is no release of generation 5; there are 3 to 8"
        );
        assert_eq!(
            went(&objects, None, true, &rel("shop-b-0")),
            to("shop-b-0", true)
        );
        // The template was changed by hand to the content of `c`.
        objects[0]["spec"]["template"] = third;
        assert_eq!(went(&objects, None, false, &app), to("shop-a-0", true));
        assert_eq!(
            went(&objects[..2], None, false, &app).unwrap_err(),
            "no earlier release has completed with another content; --to-revision NUMBER chooses one"
        );
    }

    #[test]
    fn a_rollback_is_one_patch_of_the_observed_version() {
        let back = rollback(&observed(&mid_rollout()), None, false).unwrap();
        assert_eq!(
            back.patch,
            Some(json!([
                { "op": "add", "path": "/metadata/resourceVersion", "value": "7" },
                { "op": "add", "path": "/spec/template", "value": environment("1.0.0", 6) },
            ]))
        );
    }
}
