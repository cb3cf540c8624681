//! What to write to steer a rollout. Everything here is pure.

use baton_apis::Release;
use baton_releases::{
    application::{
        error::GenerationError,
        history::{History, Member},
    },
    hash::environment_hash,
};
use baton_view::rollout::Outcome;
use serde_json::{Value, json};
use thiserror::Error;

use super::{
    read::Observed,
    state::{achieved, is_last, judge_release, label_at, steps},
};

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("it does not exist any more; its releases are left")]
    Gone,
    #[error("it is being deleted")]
    Deleting,
    /// The order of the Releases is unknown.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    #[error("there is no release yet")]
    NoRelease,
    /// Nobody can tell which of two Releases is the newest.
    #[error("releases {0} and {1} both have generation {2}; which is the newer one is a guess")]
    Twins(String, String, i64),
    /// A Release was named that is not the newest.
    #[error("release {named} is not the newest; that is {newest}")]
    NotNewest { named: String, newest: String },
    #[error("release {0} is being deleted")]
    ReleaseDeleting(String),
    #[error("the strategy of release {0} has no steps")]
    NoSteps(String),
    #[error("there is no step {step}; release {release} has {steps}")]
    NoStep {
        release: String,
        step: i32,
        steps: String,
    },
    #[error("there is nothing to promote: release {release} has achieved its last step, {step}")]
    AtTheEnd { release: String, step: String },
    #[error(
        "step {step} of release {release} is not achieved: it {why}; --force goes on nevertheless"
    )]
    NotAchieved {
        release: String,
        step: String,
        why: String,
    },
    #[error(
        "step {between} of release {release} comes before; --force leaves it out, as --full does"
    )]
    Skipped { release: String, between: String },
    #[error(
        "there is nothing to abort: release {0} is complete, and deleting it would take away its pods at once; use \
         `kubectl baton rollback`, or --force"
    )]
    Complete(String),
    #[error(
        "there is nothing to go back to: release {0} is the only one. Deleting it would make the same one again, at \
         its first step"
    )]
    OnlyOne(String),
    #[error(
        "release {newest} would be followed by {before}, which never completed; there is nothing to go back to"
    )]
    BeforeIncomplete { newest: String, before: String },
    #[error("there is no release of generation {0}; {1}")]
    NoGeneration(i64, String),
    #[error("release {0} never completed; --force goes back to it nevertheless")]
    NeverCompleted(String),
    #[error(
        "no earlier release has completed with another content; --to-revision NUMBER chooses one"
    )]
    NothingEarlier,
    #[error("several releases have generation {0}: {1}; name one of them as rel/NAME")]
    Ambiguous(i64, String),
}

/// Which step is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepChoice {
    Next,
    Number(i32),
    Last,
}

/// A change of `spec.targetStep`, or none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Promotion {
    pub(crate) release: String,
    pub(crate) step: i32,
    /// As people read it.
    pub(crate) label: String,
    /// `None` where it is at that step already.
    pub(crate) patch: Option<Value>,
}

/// The newest Release, if writing about it is safe: the order is known, and it is the one that was named.
fn newest<'h, 'a>(
    observed: &Observed,
    history: &'h History<'a>,
) -> Result<&'h Member<'a>, Refusal> {
    let newest = history.newest().ok_or(Refusal::NoRelease)?;
    if let [.., before, last] = history.living()[..]
        && before.generation == last.generation
    {
        let names = [before.name().to_owned(), last.name().to_owned()];
        let [before, last] = names;
        return Err(Refusal::Twins(before, last, newest.generation));
    }
    if let Some(named) = &observed.named
        && named != newest.name()
    {
        let named_release = observed.release(named);
        if named_release.is_some_and(|it| it.metadata.deletion_timestamp.is_some()) {
            return Err(Refusal::ReleaseDeleting(named.clone()));
        }
        return Err(Refusal::NotNewest {
            named: named.clone(),
            newest: newest.name().to_owned(),
        });
    }
    Ok(newest)
}

/// Whether the Application is there to act on what is written.
fn alive(observed: &Observed) -> Result<(), Refusal> {
    let application = observed.application.as_ref().ok_or(Refusal::Gone)?;
    match application.metadata.deletion_timestamp {
        Some(_) => Err(Refusal::Deleting),
        None => Ok(()),
    }
}

/// Decides about a promotion.
///
/// # Guarantees
/// Without `force` no step is left before it was achieved, and none is left out but by [`StepChoice::Last`]. Going back
/// is always allowed.
pub(crate) fn promote(
    observed: &Observed,
    choice: StepChoice,
    force: bool,
) -> Result<Promotion, Refusal> {
    alive(observed)?;
    let history = observed.history()?;
    let newest = newest(observed, &history)?;
    let name = newest.name().to_owned();
    let release: &Release = &newest.release;
    let count = i32::try_from(steps(release).len()).unwrap_or(i32::MAX);
    if count == 0 {
        return Err(Refusal::NoSteps(name));
    }
    let (target, reached) = (release.spec.target_step, achieved(release));
    let not_achieved = |step: i32| Refusal::NotAchieved {
        release: name.clone(),
        step: label_at(release, step),
        why: judge_release(observed, release).message,
    };
    let step = match choice {
        StepChoice::Number(step) => step,
        StepChoice::Last => count - 1,
        StepChoice::Next if reached == Some(target) || force => {
            if is_last(release, target) {
                return Err(Refusal::AtTheEnd {
                    release: name,
                    step: label_at(release, target),
                });
            }
            target.saturating_add(1)
        }
        StepChoice::Next => return Err(not_achieved(target)),
    };
    if !(0..count).contains(&step) {
        return Err(Refusal::NoStep {
            release: name,
            step,
            steps: match count {
                1 => format!("step {} only", label_at(release, 0)),
                _ => format!(
                    "steps {} to {}",
                    label_at(release, 0),
                    label_at(release, count - 1)
                ),
            },
        });
    }
    if step > target && !force {
        if reached != Some(target) {
            return Err(not_achieved(target));
        }
        if step > target + 1 && choice != StepChoice::Last {
            return Err(Refusal::Skipped {
                between: label_at(release, target + 1),
                release: name,
            });
        }
    }
    if choice == StepChoice::Last && step == target && reached == Some(step) {
        return Err(Refusal::AtTheEnd {
            release: name,
            step: label_at(release, step),
        });
    }
    let patch = (step != target).then(|| {
        json!([
            { "op": "test", "path": "/metadata/uid", "value": release.metadata.uid },
            { "op": "test", "path": "/spec/targetStep", "value": target },
            { "op": "replace", "path": "/spec/targetStep", "value": step },
        ])
    });
    Ok(Promotion {
        label: label_at(release, step),
        release: name,
        step,
        patch,
    })
}

/// A Release to be deleted, and what follows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Abort {
    pub(crate) release: String,
    /// The Release that the Application goes back to.
    pub(crate) back_to: String,
    /// Options of the deletion, with its precondition.
    pub(crate) options: Value,
}

/// Decides about an abort.
///
/// # Guarantees
/// The Release that remains as the newest has completed, and without `force` what is deleted has not.
pub(crate) fn abort(observed: &Observed, force: bool) -> Result<Abort, Refusal> {
    alive(observed)?;
    let history = observed.history()?;
    let newest = newest(observed, &history)?;
    let name = newest.name().to_owned();
    let [.., before, _] = history.living()[..] else {
        return Err(Refusal::OnlyOne(name));
    };
    if !before.is_complete() {
        return Err(Refusal::BeforeIncomplete {
            newest: name,
            before: before.name().to_owned(),
        });
    }
    if newest.is_complete() && !force {
        return Err(Refusal::Complete(name));
    }
    Ok(Abort {
        release: name,
        back_to: before.name().to_owned(),
        options: json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": newest.release.metadata.uid },
        }),
    })
}

/// An older environment for the template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Return {
    /// The Release whose environment it is.
    pub(crate) release: String,
    pub(crate) generation: i64,
    /// Hash of the environment, by which the next Release is known.
    pub(crate) hash: String,
    /// `None` where the template has it already.
    pub(crate) patch: Option<Value>,
}

/// Decides about a rollback: to the Release that was named, to that of a generation, or else to the newest completed
/// one before the contender that has another content than the template.
pub(crate) fn rollback(
    observed: &Observed,
    to: Option<i64>,
    force: bool,
) -> Result<Return, Refusal> {
    alive(observed)?;
    let history = observed.history()?;
    let members = history.members();
    let template = observed
        .template()
        .map(environment_hash)
        .unwrap_or_default();
    let chosen = match (to, &observed.named) {
        (Some(generation), _) => of_generation(members, generation)?,
        (None, Some(name)) => {
            let mut members = members.iter();
            let found = members.find(|member| member.name() == name);
            found.ok_or(Refusal::NoRelease)?
        }
        (None, None) => {
            let (_, earlier) = members.split_last().ok_or(Refusal::NoRelease)?;
            let mut earlier = earlier.iter().rev();
            let found = earlier.find(|one| one.is_complete() && one.hash() != template);
            found.ok_or(Refusal::NothingEarlier)?
        }
    };
    let hash = chosen.hash();
    let name = chosen.name().to_owned();
    let is_same = hash == template;
    if !chosen.is_complete() && !force && !is_same {
        return Err(Refusal::NeverCompleted(name));
    }
    let environment = &observed.release_object(&name)["spec"]["environment"];
    let version = &observed.object["metadata"]["resourceVersion"];
    let patch = (!is_same).then(|| {
        json!([
            { "op": "add", "path": "/metadata/resourceVersion", "value": version },
            { "op": "add", "path": "/spec/template", "value": environment },
        ])
    });
    Ok(Return {
        release: name,
        generation: chosen.generation,
        hash,
        patch,
    })
}

/// The Release of a generation.
pub(crate) fn of_generation<'h, 'a>(
    members: &'h [Member<'a>],
    generation: i64,
) -> Result<&'h Member<'a>, Refusal> {
    let mut found = members.iter().filter(|one| one.generation == generation);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(first), Some(second)) => {
            let others = found.map(|one| format!(", {}", one.name()));
            let names = format!(
                "{}, {}{}",
                first.name(),
                second.name(),
                others.collect::<String>()
            );
            Err(Refusal::Ambiguous(generation, names))
        }
        (None, _) => Err(Refusal::NoGeneration(generation, there_are(members))),
    }
}

fn there_are(members: &[Member<'_>]) -> String {
    match members {
        [] => "there is no release yet".to_owned(),
        [only] => format!("there is only {}", only.generation),
        [first, .., last] => format!("there are {} to {}", first.generation, last.generation),
    }
}

/// Whether a rollout towards a step has got where it was sent to: the step was reached, or more cannot be expected.
pub(crate) fn has_arrived(observed: &Observed) -> Option<Outcome> {
    let verdict = super::state::judge(observed);
    match verdict.outcome {
        Outcome::Underway if verdict.waits_for_command => Some(Outcome::Done),
        Outcome::Underway => None,
        outcome => Some(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::{
        fixtures::{
            application, at_step, complete, environment, mid_rollout, named, observed, release,
        },
        target::{AppKind, AppTarget},
    };

    /// A rollout whose newest Release is sent to a step and has achieved one.
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
            kind: AppKind::Release,
            name: name.to_owned(),
        }
    }

    #[test]
    fn steps_are_taken_one_by_one() {
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
            // On its way back.
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
            // Somebody else sent it beyond its end.
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
                    assert!(refusal.to_string().contains(text), "{case}: {refusal}");
                }
                (promotion, expected) => panic!("{case}: {promotion:?}, not {expected:?}"),
            }
        }
    }

    /// What each command says of a state in which it is not clear what to do.
    fn refusals(objects: &[Value], target: &AppTarget) -> [Option<String>; 3] {
        let observed = named(objects, target);
        [
            promote(&observed, StepChoice::Next, false).err(),
            abort(&observed, false).err(),
            rollback(&observed, None, false).err(),
        ]
        .map(|refusal| refusal.map(|refusal| refusal.to_string()))
    }

    #[test]
    fn nothing_is_written_where_it_is_not_clear_to_what() {
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
            all("it does not exist any more; its releases are left")
        );
        // Without a generation.
        objects[1]["metadata"]["annotations"] = json!({});
        let missing =
            "missing label \"shipper.booking.com/release.generation\" in release \"shop-old-0\"";
        assert_eq!(refusals(&objects, &app), all(missing));
        // With the same one.
        let mut objects = at(0, Some(0));
        let annotations = &mut objects[1]["metadata"]["annotations"];
        annotations["shipper.booking.com/release.generation"] = "1".into();
        let [promote, abort, _] = refusals(&objects, &app);
        for refused in [promote, abort] {
            assert!(refused.unwrap().contains("both have generation 1"));
        }
        let refused = rollback(&observed(&objects), Some(1), false).unwrap_err();
        assert!(matches!(refused, Refusal::Ambiguous(1, _)), "{refused}");
        // A Release that is not the newest.
        let objects = at(0, Some(0));
        let [promote, abort, _] = refusals(&objects, &rel("shop-old-0"));
        let not_newest = "release shop-old-0 is not the newest; that is shop-new-0";
        assert_eq!(promote.as_deref(), Some(not_newest));
        assert_eq!(abort.as_deref(), Some(not_newest));
        // Without steps.
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
        // It counts as gone.
        let refused = super::abort(&observed(&objects), false).unwrap_err();
        assert_eq!(refused, Refusal::OnlyOne("shop-old-0".to_owned()));
    }

    #[test]
    fn an_abort_needs_something_to_go_back_to() {
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
        let refused = Refusal::BeforeIncomplete {
            newest: name(),
            before: "shop-old-0".to_owned(),
        };
        assert_eq!(aborted(&objects, true), Err(refused));
    }

    #[test]
    fn a_rollback_goes_to_the_newest_completed_one_of_another_content() {
        let went = |objects: &[Value], to, force, target: &AppTarget| {
            let back = rollback(&named(objects, target), to, force);
            back.map(|back| (back.release, back.patch.is_some()))
                .map_err(|refusal| refusal.to_string())
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
        // Not `a`, which has the content of `d`.
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
        // The template was changed by hand to what `c` has.
        objects[0]["spec"]["template"] = third;
        assert_eq!(went(&objects, None, false, &app), to("shop-a-0", true));
        assert_eq!(
            went(&objects[..2], None, false, &app).unwrap_err(),
            "no earlier release has completed with another content; --to-revision NUMBER chooses one"
        );
    }

    #[test]
    fn a_rollback_is_one_write_on_what_was_read() {
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
