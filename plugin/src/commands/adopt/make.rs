//! The deployment that `adopt` makes of the objects.

use baton_apis::{CollisionProtection, constants::ANNOTATION_FORMER_MANAGERS};
use baton_cluster::{Cluster, MAX_CONCURRENT};
use baton_terminal::output::report;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::args::{AdoptArgs, ResultArgs};
use crate::{
    adopt::{
        ObjectToAdopt,
        content::{content, recorded},
        dry_run::{Values, choose_content},
        live::Adoptable,
        managers::{former, to_name, writers},
    },
    error::Error,
    pack::{
        self, Options, Packed,
        manifest::Collected,
        probes::ProbeOptions,
        scope::{ScopeOptions, Scopes},
        source_location::SourceLocation,
    },
};

/// An object with its content in the revision.
struct Settled {
    location: SourceLocation,
    object: Value,
    notes: Vec<String>,
}

/// Makes the deployment. Returns remarks for the user besides.
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
        .buffered(MAX_CONCURRENT)
        .try_collect()
        .await?;
    let mut collected = Collected {
        no_hooks: true,
        ..Collected::default()
    };
    for settled in settled {
        settled.notes.iter().for_each(note);
        collected.take_value(&settled.location, settled.object, &[]);
    }
    let packed = pack::pack(collected, &options(args, scopes, title));
    let packed = packed.map_err(|errors| Error::Usage(errors.to_string()))?;
    packed.notes.iter().for_each(note);
    Ok(packed)
}

async fn one(
    cluster: &Cluster,
    member: &ObjectToAdopt,
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
    let (mut object, note) = choose_content(cluster, member, live, &content, values).await?;
    name_former(&mut object, live, &former);
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
            "{} is taken as it is in the cluster, because there is no record of its wanted content; {others} also keep \
             its fields, unless --field-manager names them",
            member.title()
        ));
    }
    Ok(Settled {
        location: member.location.clone(),
        object,
        notes,
    })
}

/// Annotates an object with those former managers that own fields of it and are not standard ones:
/// its content was computed with them. Other objects may have fields that these managers have to
/// keep.
fn name_former(object: &mut Value, live: &Value, former: &[String]) {
    let names: Vec<&str> = to_name(live, former).map(String::as_str).collect();
    if !names.is_empty() {
        object["metadata"]["annotations"][ANNOTATION_FORMER_MANAGERS] = names.join(",").into();
    }
}

fn options(args: &AdoptArgs, scopes: Scopes, title: &str) -> Options {
    let result = &args.result;
    let cause = result.change_cause.clone();
    Options {
        scope: ScopeOptions {
            site: false,
            cluster: result.cluster,
            namespace: None,
            scopes,
        },
        phase_order: result.phase_order.clone(),
        collision_protection: CollisionProtection::IfNoController,
        probes: ProbeOptions {
            no_defaults: result.no_probes,
            wanted: result.probe.clone(),
        },
        service_account_name: result.service_account.clone(),
        change_cause: cause.or_else(|| Some(format!("adopted: {title}"))),
        ..Options::named(args.name.clone())
    }
}

/// All problems in one error, so that the user can solve them at once.
fn refuse(errors: &[String]) -> Error {
    Error::Impossible(match errors {
        [error] => error.clone(),
        errors => format!(
            "nothing can be adopted, because of {} errors:\n  {}",
            errors.len(),
            errors.join("\n  ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn former_managers_are_named_on_the_object_that_they_have_written() {
        let written = |managers: &[&str]| {
            let entries = managers
                .iter()
                .map(|name| json!({"manager": name, "operation": "Update"}));
            json!({"metadata": {"managedFields": entries.collect::<Vec<_>>()}})
        };
        let chosen = ["mine".to_owned()];
        for (managers, has_record, expected) in [
            (
                &["kubectl-edit", "mine"][..],
                false,
                Some("kubectl-edit,mine"),
            ),
            // The content was computed without the edits, which stay.
            (&["kubectl-client-side-apply", "kubectl-edit"], true, None),
            (&["helm"], true, None),
        ] {
            let live = written(managers);
            let mut object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
            name_former(&mut object, &live, &former(&live, &chosen, has_record));
            let annotation = object.pointer("/metadata/annotations/baton.run~1former-managers");
            assert_eq!(annotation.and_then(Value::as_str), expected, "{managers:?}");
        }
    }

    #[test]
    fn all_faults_are_reported() {
        let faults = [
            "a is being deleted".to_owned(),
            "b does not exist".to_owned(),
        ];
        assert_eq!(refuse(&faults[..1]).to_string(), faults[0]);
        assert_eq!(
            refuse(&faults).to_string(),
            "nothing can be adopted, because of 2 errors:\n  a is being deleted\n  b does not exist"
        );
    }
}
