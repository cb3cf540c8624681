//! Changes of deployments and revisions.

use std::time::Duration;

use baton_cluster::Cluster;
use baton_pages::{action::Action, subject::ChainSubject};
use baton_steering::{
    Error,
    abandoning::abandon,
    pausing::switched,
    rollback::apply::{RollbackOptions, forecast, roll_back},
    version::SpecVersion,
};
use tokio::time::timeout;

use super::{Fields, Preview, is_forced, needs_no_pause, number_in, switch, unknown};
use crate::subject::within;

/// The longest wait for the revision that a rollback leads to.
const SETTLED: Duration = Duration::from_secs(10);

pub(super) async fn preview(
    cluster: &Cluster,
    action: Action,
    subject: &ChainSubject,
    fields: &Fields,
) -> Result<Preview, Error> {
    let (cluster, target) = (within(subject, cluster), &subject.target);
    match action {
        Action::Pause | Action::Resume => {
            let (_, is_changed) = switched(&cluster, target, switch(action), true).await?;
            if !is_changed {
                return Err(needs_no_pause(action, target));
            }
            let line = match action {
                Action::Pause if subject.kind.is_deployment() => {
                    "It makes no revision, and its revisions write and delete nothing, until it is resumed."
                }
                Action::Pause => "It writes and deletes nothing until it is resumed.",
                _ => "Its rollout goes on, and its objects are repaired again.",
            };
            Ok(Preview {
                lines: vec![line.to_owned()],
                ..Preview::default()
            })
        }
        Action::Rollback => {
            let wanted = options(fields, None)?;
            let found = forecast(&cluster, target, &wanted).await?;
            let Some((revision, number)) = found.revision else {
                let why = format!("{target} has the content of this revision already");
                return Err(Error::Impossible(why));
            };
            // The server checks the write, and the rights to it.
            let dry = RollbackOptions {
                dry_run: true,
                ..wanted
            };
            roll_back(&cluster, target, &dry).await?;
            let mut state = Fields::new();
            if let Some(number) = number {
                state.insert("to".to_owned(), number.to_string());
            }
            if let Some(version) = found.version {
                let generation = version.generation.unwrap_or_default();
                state.insert("of".to_owned(), version.uid);
                state.insert("spec".to_owned(), generation.to_string());
            }
            Ok(Preview {
                lines: vec![format!(
                    "The content of {revision} becomes the next revision, with the effects below."
                )],
                sections: found.sections,
                state,
                ..Preview::default()
            })
        }
        Action::Abandon => {
            let name = abandon(&cluster, target, true).await?;
            Ok(Preview {
                lines: vec![format!(
                    "{name} stops to wait for objects whose deletion the API server refuses. They stay in the \
                     cluster, and nothing deletes them any more."
                )],
                ..Preview::default()
            })
        }
        Action::Promote | Action::Abort | Action::Redeploy => Err(unknown(action, target)),
    }
}

pub(super) async fn perform(
    cluster: &Cluster,
    action: Action,
    subject: &ChainSubject,
    fields: &Fields,
) -> Result<(), Error> {
    let (cluster, target) = (within(subject, cluster), &subject.target);
    match action {
        Action::Pause | Action::Resume => {
            switched(&cluster, target, switch(action), false).await?;
        }
        Action::Rollback => {
            let only = match (fields.get("of"), number_in(fields, "spec")?) {
                (Some(uid), generation) => Some(SpecVersion {
                    uid: uid.clone(),
                    generation,
                }),
                _ => None,
            };
            let done = roll_back(&cluster, target, &options(fields, only)?).await?;
            // The change cause is for the next revision only. Without a manager, there is none yet.
            let settled = timeout(SETTLED, done.settle_soon(&cluster, target)).await;
            if let Ok(Err(error)) = settled {
                cluster.warn(&format!("the change cause stays on {target}: {error}"));
            }
        }
        Action::Abandon => {
            abandon(&cluster, target, false).await?;
        }
        Action::Promote | Action::Abort | Action::Redeploy => return Err(unknown(action, target)),
    }
    Ok(())
}

fn options(fields: &Fields, only: Option<SpecVersion>) -> Result<RollbackOptions, Error> {
    Ok(RollbackOptions {
        to_revision: number_in(fields, "to")?,
        force: is_forced(fields),
        name: None,
        dry_run: false,
        only,
    })
}
