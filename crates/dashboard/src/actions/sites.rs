//! Changes of deployments to sites.

use baton_cluster::Cluster;
use baton_pages::action::Action;
use baton_steering::{Error, sites};
use baton_view::sites::{steer::Abort, target::SiteTarget};
use k8s_openapi::jiff::Timestamp;

use super::{Fields, Preview, is_forced, needs_no_pause, number_in, shown, unknown};

pub(super) async fn preview(
    cluster: &Cluster,
    action: Action,
    target: &SiteTarget,
    fields: &Fields,
) -> Result<Preview, Error> {
    let with = |line: String, state: Fields| Preview {
        lines: vec![line],
        state,
        ..Preview::default()
    };
    match action {
        Action::Pause | Action::Resume => {
            let is_paused = action == Action::Pause;
            if !sites::pause(cluster, target, is_paused, true).await? {
                return Err(needs_no_pause(action, target));
            }
            let line = if is_paused {
                "No further site gets a version until it is resumed. Sites that have a revision continue with it."
            } else {
                "Its rollout goes on."
            };
            Ok(with(line.to_owned(), Fields::new()))
        }
        Action::Abort => {
            let abort = sites::abort(cluster, target, None, true).await?;
            let line = format!(
                "No further site gets version {} (rollout {}), and queued revisions of it are removed. Sites that \
                 have it keep it.",
                abort.version, abort.rollout
            );
            already(target, &abort)?;
            let rollout = abort.rollout.to_string();
            Ok(with(line, Fields::from([("rollout".to_owned(), rollout)])))
        }
        Action::Redeploy => {
            sites::redeploy(cluster, target, Timestamp::now(), true).await?;
            let line = "Sites that match now get its version. The objects of sites that do not match any more are \
                        deleted.";
            Ok(with(line.to_owned(), Fields::new()))
        }
        Action::Rollback => {
            let version = version(fields);
            let force = is_forced(fields);
            let found = sites::roll_back(cluster, target, version, force, None, true).await?;
            if found.patch.is_none() {
                let why = format!(
                    "the spec of {target} names version {} already",
                    found.version
                );
                return Err(Error::Impossible(why));
            }
            let mut line = format!("Version {} goes to all sites, in waves.", found.version);
            if found.followed {
                line.push_str(" It does not follow new versions any more.");
            }
            Ok(with(
                line,
                Fields::from([("version".to_owned(), found.version)]),
            ))
        }
        Action::Promote | Action::Abandon => Err(unknown(action, target)),
    }
}

pub(super) async fn perform(
    cluster: &Cluster,
    action: Action,
    target: &SiteTarget,
    fields: &Fields,
) -> Result<(), Error> {
    match action {
        Action::Pause | Action::Resume => {
            sites::pause(cluster, target, action == Action::Pause, false).await?;
        }
        Action::Abort => {
            let rollout = number_in(fields, "rollout")?;
            let missing = || Error::Usage("the form does not have the rollout".to_owned());
            let rollout = rollout.ok_or_else(missing)?;
            already(
                target,
                &sites::abort(cluster, target, Some(rollout), false).await?,
            )?;
        }
        Action::Redeploy => sites::redeploy(cluster, target, Timestamp::now(), false).await?,
        Action::Rollback => {
            let version = version(fields);
            let (only, force) = (shown(fields)?, is_forced(fields));
            sites::roll_back(cluster, target, version, force, Some(&only), false).await?;
        }
        Action::Promote | Action::Abandon => return Err(unknown(action, target)),
    }
    Ok(())
}

/// The version in a field; the previous one without it.
fn version(fields: &Fields) -> Option<&str> {
    let version = fields.get("version").map(String::as_str);
    version.filter(|version| !version.is_empty())
}

fn already(target: &SiteTarget, abort: &Abort) -> Result<(), Error> {
    match abort.patch {
        Some(_) => Ok(()),
        None => Err(Error::Impossible(format!(
            "the rollout {} of {target} is aborted already",
            abort.rollout
        ))),
    }
}
