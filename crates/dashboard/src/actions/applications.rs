//! Changes of Applications.

use baton_cluster::Cluster;
use baton_pages::action::Action;
use baton_steering::{Error, releases};
use baton_text::diff::Labels;
use baton_view::applications::{
    compare::environment,
    observed::Observed,
    steer::{Promotion, StepChoice},
    target::AppTarget,
};

use super::{Fields, Preview, is_forced, needs_no_pause, number_in, shown, unknown};

pub(super) async fn preview(
    cluster: &Cluster,
    action: Action,
    target: &AppTarget,
    fields: &Fields,
) -> Result<Preview, Error> {
    match action {
        Action::Pause | Action::Resume => {
            let is_paused = action == Action::Pause;
            if !releases::pause(cluster, target, is_paused, true).await? {
                return Err(needs_no_pause(action, target));
            }
            let line = if is_paused {
                "It makes no Release, and its Releases keep their pods and their traffic, until it is resumed."
            } else {
                "Its rollout goes on."
            };
            Ok(Preview {
                lines: vec![line.to_owned()],
                ..Preview::default()
            })
        }
        Action::Promote => {
            let observed = releases::read(cluster, target).await?;
            let choice = number_in(fields, "step")?.map_or(StepChoice::Next, StepChoice::Number);
            let force = is_forced(fields);
            let promotion = releases::promote(cluster, &observed, choice, force, true).await?;
            let Promotion {
                release,
                step,
                label,
                patch,
            } = promotion;
            let from = step_of(&observed, &release);
            if patch.is_none() {
                let why = format!("release {release} is sent to step {label} already");
                return Err(Error::Impossible(why));
            }
            Ok(Preview {
                lines: vec![format!("Release {release} goes to step {label}.")],
                state: Fields::from([
                    ("release".to_owned(), release),
                    ("from".to_owned(), from),
                    ("step".to_owned(), step.to_string()),
                ]),
                ..Preview::default()
            })
        }
        Action::Abort => {
            let observed = releases::read(cluster, target).await?;
            let abort = releases::plan_abort(&observed, is_forced(fields))?;
            releases::abort(cluster, &abort, true).await?;
            Ok(Preview {
                lines: releases::effects(&observed, &abort),
                state: Fields::from([("release".to_owned(), abort.release)]),
                ..Preview::default()
            })
        }
        Action::Rollback => {
            let observed = releases::read(cluster, target).await?;
            let to = number_in(fields, "to")?;
            let force = is_forced(fields);
            let rolled = releases::roll_back(cluster, target, to, force, None, true);
            let (_, found) = rolled.await?;
            let (release, generation) = (&found.release, found.generation);
            if found.patch.is_none() {
                let why = format!("{target} has the environment of release {release} already");
                return Err(Error::Impossible(why));
            }
            Ok(Preview {
                lines: vec![format!(
                    "The environment of release {release} (generation {generation}) becomes the template, and a new \
                     Release rolls it out in all clusters. The differences are below."
                )],
                sections: environment(observed.template(), &found.environment),
                labels: Some(Labels::new("template", release)),
                state: Fields::from([("to".to_owned(), generation.to_string())]),
            })
        }
        Action::Redeploy | Action::Abandon => Err(unknown(action, target)),
    }
}

pub(super) async fn perform(
    cluster: &Cluster,
    action: Action,
    target: &AppTarget,
    fields: &Fields,
) -> Result<(), Error> {
    match action {
        Action::Pause | Action::Resume => {
            releases::pause(cluster, target, action == Action::Pause, false).await?;
        }
        Action::Promote => {
            let observed = of_preview(cluster, target, fields).await?;
            let release = fields
                .get("release")
                .map(String::as_str)
                .unwrap_or_default();
            if fields.get("from") != Some(&step_of(&observed, release)) {
                return Err(Error::Impossible(format!(
                    "release {release} is sent to another step than before; look at the effects again"
                )));
            }
            let choice = number_in(fields, "step")?.map_or(StepChoice::Next, StepChoice::Number);
            releases::promote(cluster, &observed, choice, is_forced(fields), false).await?;
        }
        Action::Abort => {
            let observed = of_preview(cluster, target, fields).await?;
            let abort = releases::plan_abort(&observed, is_forced(fields))?;
            releases::abort(cluster, &abort, false).await?;
        }
        Action::Rollback => {
            let to = number_in(fields, "to")?;
            let (only, force) = (shown(fields)?, is_forced(fields));
            releases::roll_back(cluster, target, to, force, Some(&only), false).await?;
        }
        Action::Redeploy | Action::Abandon => return Err(unknown(action, target)),
    }
    Ok(())
}

/// The Application, with the Release of the preview, which has to be its newest one still.
async fn of_preview(
    cluster: &Cluster,
    target: &AppTarget,
    fields: &Fields,
) -> Result<Observed, Error> {
    let mut observed = releases::read(cluster, target).await?;
    observed.named = fields.get("release").cloned();
    Ok(observed)
}

/// The step that a Release is sent to, as text.
fn step_of(observed: &Observed, release: &str) -> String {
    let release = observed.release(release);
    release.map_or_else(String::new, |release| release.spec.target_step.to_string())
}
