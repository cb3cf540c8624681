//! The deployment that `adopt` makes of the objects.

use baton_apis::CollisionProtection;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::args::{AdoptArgs, ResultArgs};
use crate::{
    adopt::{
        Member,
        content::{content, recorded},
        dry_run::{Values, settle},
        live::Adoptable,
        managers::{former, to_name, writers},
    },
    connect::{Cluster, SIDE_BY_SIDE},
    error::Error,
    output::report,
    pack::{
        self, Form, Options, Packed,
        manifest::Collected,
        probes::ProbeOptions,
        scope::{ScopeOptions, Scopes},
        source_location::SourceLocation,
    },
};

/// Bytes of JSON beyond which objects go into slices, as for `pack`.
const SLICE_LIMIT: usize = 1024 * 1024;

/// An object as the revision is to have it.
struct Settled {
    place: SourceLocation,
    object: Value,
    notes: Vec<String>,
    /// Managers that its take-over has to name.
    managers: Vec<String>,
}

/// Makes the deployment, and tells what a person should know about it.
pub(super) async fn deployment(
    args: &AdoptArgs,
    cluster: &Cluster,
    adoptable: Adoptable,
    title: &str,
) -> Result<Packed, Error> {
    let Adoptable {
        members,
        scopes,
        notes,
        errors,
    } = adoptable;
    if !errors.is_empty() {
        return Err(refuse(&errors));
    }
    let note = |text: &String| report(&format!("note: {text}"));
    notes.iter().for_each(note);
    let result = &args.result;
    let settled = members
        .iter()
        .map(|(member, live)| one(cluster, member, live, result));
    let settled: Vec<Settled> = stream::iter(settled)
        .buffered(SIDE_BY_SIDE)
        .try_collect()
        .await?;
    let mut collected = Collected {
        no_hooks: true,
        ..Collected::default()
    };
    let mut managers = result.field_manager.clone();
    for settled in settled {
        settled.notes.iter().for_each(note);
        managers.extend(settled.managers);
        collected.take_value(&settled.place, settled.object, &[]);
    }
    managers.sort();
    managers.dedup();
    let packed = pack::pack(collected, &options(args, scopes, managers, title));
    let packed = packed.map_err(|errors| Error::Usage(errors.to_string()))?;
    packed.notes.iter().for_each(note);
    Ok(packed)
}

async fn one(
    cluster: &Cluster,
    member: &Member,
    live: &Value,
    result: &ResultArgs,
) -> Result<Settled, Error> {
    let values = if result.recorded {
        Values::Recorded
    } else {
        Values::Live
    };
    let wanted = member.wanted.clone().or_else(|| recorded(live));
    let former = former(live, &result.field_manager, wanted.is_some());
    let content = content(live, wanted, &former);
    let (object, note) = settle(cluster, member, live, &content, values).await?;
    let mut notes: Vec<String> = note.into_iter().collect();
    let writers = writers(live);
    let is_former = |writer: &&str| former.iter().any(|name| name == writer);
    if content.wanted.is_none() && !writers.iter().any(is_former) {
        let others: Vec<_> = writers.into_iter().collect();
        let others = if others.is_empty() {
            "others".to_owned()
        } else {
            others.join(", ")
        };
        notes.push(format!(
            "{} is taken as it is, as nobody knows what was wanted; its fields stay those of {others} too, unless \
             --field-manager names them",
            member.title()
        ));
    }
    Ok(Settled {
        place: member.place.clone(),
        object,
        notes,
        managers: to_name(live, &former).cloned().collect(),
    })
}

fn options(args: &AdoptArgs, scopes: Scopes, former_managers: Vec<String>, title: &str) -> Options {
    let result = &args.result;
    let cause = result.change_cause.clone();
    Options {
        name: args.name.clone(),
        form: Form::Deployment {
            revision_history_limit: None,
            progress_deadline_seconds: None,
        },
        scope: ScopeOptions {
            cluster: result.cluster,
            namespace: None,
            scopes,
        },
        phase_order: result.phase_order.clone(),
        collision_protection: CollisionProtection::IfNoController,
        former_managers,
        probes: ProbeOptions {
            no_defaults: result.no_probes,
            wanted: result.probe.clone(),
        },
        service_account_name: result.service_account.clone(),
        success_delay_seconds: None,
        change_cause: cause.or_else(|| Some(format!("adopted: {title}"))),
        slice_limit: SLICE_LIMIT,
    }
}

/// All that stands in the way, so that it can be dealt with at once.
fn refuse(errors: &[String]) -> Error {
    Error::Impossible(match errors {
        [error] => error.clone(),
        errors => format!(
            "nothing can be adopted, there are {} faults:\n  {}",
            errors.len(),
            errors.join("\n  ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_told() {
        let faults = [
            "a is being deleted".to_owned(),
            "b does not exist".to_owned(),
        ];
        assert_eq!(refuse(&faults[..1]).to_string(), faults[0]);
        assert_eq!(
            refuse(&faults).to_string(),
            "nothing can be adopted, there are 2 faults:\n  a is being deleted\n  b does not exist"
        );
    }
}
