//! Patches that promote a rollout or take it back.

use baton_apis::{Release, ReleaseEnvironment, constants::ANNOTATION_PAUSED};
use baton_releases::{
    application::{
        error::GenerationError,
        history::{History, HistoryEntry},
    },
    blocks::is_paused,
    hash::environment_hash,
    strategy::{achieved, steps},
};
use serde_json::{Value, json};

use super::{
    observed::Observed,
    state::{Reason, is_last, judge, judge_release, label_at},
};
use crate::rollout::Outcome;

/// The reason that nothing is written. Steps have the form of their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The Application was deleted, and Releases remain.
    Gone,
    /// The Application is being deleted.
    Deleting,
    /// The order of the Releases is unknown.
    Generation(GenerationError),
    /// There is no Release.
    NoRelease,
    /// These Releases have the same generation: the newest one is unknown.
    SameGeneration(String, String, i64),
    /// The first Release was named, but the second is the newest.
    NotNewest(String, String),
    /// The named Release is being deleted.
    ReleaseDeleting(String),
    /// The strategy of the Release has no steps.
    NoSteps(String),
    /// The Release has no step with this index; the first and the last step that it has.
    NoStep(String, i32, [String; 2]),
    /// The Release has achieved its last step, which is this one.
    AtTheEnd(String, String),
    /// The Release has not reached this wanted step, for this reason.
    NotAchieved(String, String, Reason),
    /// The Release would skip this step.
    Skipped(String, String),
    /// The Release to be deleted is complete.
    Complete(String),
    /// The Release to be deleted is the only one.
    OnlyOne(String),
    /// The first Release is the newest one. The second one before it never completed.
    BeforeIncomplete(String, String),
    /// No Release has this generation; the lowest and the highest existing ones, if any.
    NoGeneration(i64, Option<(i64, i64)>),
    /// Several Releases have this generation.
    Ambiguous(i64, Vec<String>),
    /// The Release to go back to never completed.
    NeverCompleted(String),
    /// No Release before the newest one has completed with another content.
    NothingEarlier,
}

/// The requested step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepChoice {
    /// The step after the wanted one.
    Next,
    /// The step with this index.
    Number(i32),
    /// The last step.
    Last,
}

/// A change of `spec.targetStep`, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Promotion {
    /// Name of the Release.
    pub release: String,
    /// Index of the wanted step.
    pub step: i32,
    /// The wanted step, as people read it.
    pub label: String,
    /// The patch; `None` if the Release wants this step already.
    pub patch: Option<Value>,
}

/// The newest Release, if a write to it is safe: the order is known, and the user named no other
/// Release.
fn newest<'h, 'a>(
    observed: &Observed,
    history: &'h History<'a>,
) -> Result<&'h HistoryEntry<'a>, Refusal> {
    let newest = history.newest().ok_or(Refusal::NoRelease)?;
    if let [.., before, last] = history.living()[..]
        && before.generation == last.generation
    {
        let [before, last] = [before, last].map(|member| member.name().to_owned());
        return Err(Refusal::SameGeneration(before, last, newest.generation));
    }
    if let Some(named) = &observed.named
        && named != newest.name()
    {
        let named_release = observed.release(named);
        if named_release.is_some_and(|it| it.metadata.deletion_timestamp.is_some()) {
            return Err(Refusal::ReleaseDeleting(named.clone()));
        }
        return Err(Refusal::NotNewest(named.clone(), newest.name().to_owned()));
    }
    Ok(newest)
}

/// The Releases in order, if their Application exists and is not being deleted.
fn history(observed: &Observed) -> Result<History<'_>, Refusal> {
    let application = observed.application.as_ref().ok_or(Refusal::Gone)?;
    match application.metadata.deletion_timestamp {
        Some(_) => Err(Refusal::Deleting),
        None => observed.history().map_err(Refusal::Generation),
    }
}

/// Decides about a promotion.
///
/// # Guarantees
/// Without `force`, no step is left before it is reached, and only [`StepChoice::Last`] skips
/// steps. Going back is always allowed.
///
/// # Errors
/// If there is nothing to promote, or the promotion is not safe.
pub fn promote(observed: &Observed, choice: StepChoice, force: bool) -> Result<Promotion, Refusal> {
    let history = history(observed)?;
    let newest = newest(observed, &history)?;
    let release: &Release = &newest.release;
    let target = release.spec.target_step;
    let step = chosen_step(observed, release, choice, force)?;
    let patch = (step != target).then(|| {
        json!([
            { "op": "test", "path": "/metadata/uid", "value": release.metadata.uid },
            { "op": "test", "path": "/spec/targetStep", "value": target },
            { "op": "replace", "path": "/spec/targetStep", "value": step },
        ])
    });
    Ok(Promotion {
        label: label_at(release, step),
        release: newest.name().to_owned(),
        step,
        patch,
    })
}

fn chosen_step(
    observed: &Observed,
    release: &Release,
    choice: StepChoice,
    force: bool,
) -> Result<i32, Refusal> {
    let name = release.metadata.name.clone().unwrap_or_default();
    let count = i32::try_from(steps(release).len()).unwrap_or(i32::MAX);
    if count == 0 {
        return Err(Refusal::NoSteps(name));
    }
    let label = |step| label_at(release, step);
    let target = release.spec.target_step;
    let is_achieved = achieved(release) == Some(target);
    let step = match choice {
        StepChoice::Number(step) => step,
        StepChoice::Last => count - 1,
        StepChoice::Next if is_last(release, target) && (is_achieved || force) => {
            return Err(Refusal::AtTheEnd(name, label(target)));
        }
        StepChoice::Next => target.saturating_add(1),
    };
    let is_next = choice == StepChoice::Next;
    if !force && !is_achieved && (is_next || (0..count).contains(&step) && step > target) {
        let why = judge_release(observed, release).reason;
        return Err(Refusal::NotAchieved(name, label(target), why));
    }
    if !(0..count).contains(&step) {
        return Err(Refusal::NoStep(name, step, [0, count - 1].map(label)));
    }
    if !force && step > target.saturating_add(1) && choice != StepChoice::Last {
        return Err(Refusal::Skipped(name, label(target + 1)));
    }
    if choice == StepChoice::Last && step == target && is_achieved {
        return Err(Refusal::AtTheEnd(name, label(step)));
    }
    Ok(step)
}

/// A Release to delete, and the Release before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Abort {
    /// Name of the Release.
    pub release: String,
    /// Name of the Release that the Application goes back to.
    pub back_to: String,
    /// Options of the deletion, with a precondition.
    pub options: Value,
}

/// Decides about an abort.
///
/// # Guarantees
/// The Release that remains as the newest one has completed. Without `force`, the deleted Release
/// has not.
///
/// # Errors
/// If there is nothing to abort, or the abort is not safe.
pub fn abort(observed: &Observed, force: bool) -> Result<Abort, Refusal> {
    let history = history(observed)?;
    let newest = newest(observed, &history)?;
    let name = newest.name().to_owned();
    let [.., before, _] = history.living()[..] else {
        return Err(Refusal::OnlyOne(name));
    };
    if !before.is_complete() {
        return Err(Refusal::BeforeIncomplete(name, before.name().to_owned()));
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

/// The merge patch that pauses or resumes the rollout of an Application; `None` if it is paused or
/// resumed already.
///
/// # Errors
/// If the Application is gone or being deleted.
pub fn pause(observed: &Observed, wanted: bool) -> Result<Option<Value>, Refusal> {
    let application = observed.application.as_ref().ok_or(Refusal::Gone)?;
    if application.metadata.deletion_timestamp.is_some() {
        return Err(Refusal::Deleting);
    }
    let value = if wanted { json!("true") } else { Value::Null };
    let patch = json!({ "metadata": { "annotations": { ANNOTATION_PAUSED: value } } });
    Ok((is_paused(application) != wanted).then_some(patch))
}

/// An older environment for the template.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollback {
    /// Name of the Release with the environment.
    pub release: String,
    /// Generation of the Release.
    pub generation: i64,
    /// The environment.
    pub environment: ReleaseEnvironment,
    /// The patch; `None` if the template has the environment already.
    pub patch: Option<Value>,
}

/// Decides about a rollback to the named Release, to a generation, or else to the newest Release
/// before the contender that completed with another content than the template.
///
/// # Errors
/// If the Release does not exist, or the rollback is not safe.
pub fn rollback(observed: &Observed, to: Option<i64>, force: bool) -> Result<Rollback, Refusal> {
    let history = history(observed)?;
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
    let name = chosen.name().to_owned();
    let is_same = chosen.hash() == template;
    if !chosen.is_complete() && !force && !is_same {
        return Err(Refusal::NeverCompleted(name));
    }
    let environment = &observed.release_object(&name)["spec"]["environment"];
    let application = observed.application.as_ref();
    let version = application.and_then(|it| it.metadata.resource_version.as_ref());
    let patch = (!is_same).then(|| {
        json!([
            { "op": "add", "path": "/metadata/resourceVersion", "value": version },
            { "op": "add", "path": "/spec/template", "value": environment },
        ])
    });
    Ok(Rollback {
        release: name,
        generation: chosen.generation,
        environment: chosen.release.spec.environment.clone(),
        patch,
    })
}

/// The Release with this generation.
///
/// # Errors
/// If there is none, or more than one.
pub fn of_generation<'h, 'a>(
    members: &'h [HistoryEntry<'a>],
    generation: i64,
) -> Result<&'h HistoryEntry<'a>, Refusal> {
    let found: Vec<_> = members
        .iter()
        .filter(|one| one.generation == generation)
        .collect();
    match found[..] {
        [only] => Ok(only),
        [] => {
            let ends = members.first().zip(members.last());
            let ends = ends.map(|(first, last)| (first.generation, last.generation));
            Err(Refusal::NoGeneration(generation, ends))
        }
        _ => {
            let names = found.iter().map(|one| one.name().to_owned());
            Err(Refusal::Ambiguous(generation, names.collect()))
        }
    }
}

/// The outcome of a rollout to a step: `Done` if the step is reached, and `None` while it is under
/// way.
pub fn step_outcome(observed: &Observed) -> Option<Outcome> {
    let verdict = judge(observed);
    match verdict.outcome {
        Outcome::Underway if verdict.waits_for_command() => Some(Outcome::Done),
        Outcome::Underway => None,
        outcome => Some(outcome),
    }
}
