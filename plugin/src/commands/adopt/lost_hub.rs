//! `adopt --from-hub`: objects in other clusters whose owners belong to a hub that does not exist any
//! more.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    conditions::{AVAILABLE, Reason},
    constants::{
        ANNOTATION_LOST_HUBS, CLASS_CLUSTER_PREFIX, LABEL_OBJECT_DEPLOYMENT, LABEL_PHASE_CLASS,
        LABEL_SITE_DEPLOYMENT, shipper::LABEL_APP,
    },
    kinds::{CLUSTER_OBJECT_SET_PHASE, Kind, OBJECT_SET_PHASE},
};
use baton_cluster::{Cluster, Write};
use baton_engine::owners::lost_hubs;
use baton_kubernetes::wire::MediaType;
use baton_terminal::output::{Print as _, report};
use baton_view::{chain::kind::ChainKind, lists::ListQuery};
use serde_json::{Value, json};

use super::{AdoptArgs, Exit};
use crate::{
    args::GlobalArgs,
    error::Error,
    subject::{Subject, SubjectKind},
};

/// The deployment that gets the permission.
struct Receiver {
    /// Its name, as users type it.
    title: String,
    /// URL path.
    path: String,
    /// Kind of its phase objects.
    phases: &'static Kind,
    /// Label with its name on phase objects.
    label: String,
}

/// An object that another owner controls, as a phase object reports it.
#[derive(Debug, PartialEq, Eq)]
struct Collision<'a> {
    /// Kind, namespace and name.
    object: String,
    /// The owner, with its hub or its UID; empty if the report names none.
    owner: &'a str,
}

/// Shows the objects that a deployment cannot take over yet, and with `--apply` permits it.
pub(super) async fn run(args: &AdoptArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let receiver = receiver(&args.name, args.result.cluster, &cluster)?;
    let Some(live) = cluster.metadata_at(&receiver.path).await? else {
        return Err(Error::NotFound(format!("{} not found", receiver.title)));
    };
    let before = &live["metadata"]["annotations"][ANNOTATION_LOST_HUBS];
    let mut uids = lost_hubs(before.as_str().unwrap_or_default());
    let named: BTreeSet<_> = args.from_hub.iter().cloned().collect();
    let is_new = !named.is_subset(&uids);
    uids.extend(named);
    let query = ListQuery {
        labels: Some(receiver.label.clone()),
        ..ListQuery::default()
    };
    let path = receiver.phases.path(Some(&cluster.namespace));
    let phases = cluster.list_at(&path, &query).await?;
    for line in preview(&phases, &uids) {
        output.print(&line)?;
    }
    let value = uids.into_iter().collect::<Vec<_>>().join(",");
    let annotation = format!("{ANNOTATION_LOST_HUBS}={value}");
    if !is_new {
        report(&format!(
            "{} has the permission already: {annotation}",
            receiver.title
        ));
        return Ok(Exit::Fine);
    }
    if !args.apply {
        report(&format!(
            "nothing was changed; --apply annotates {} with {annotation}. Make sure that the hub does not exist any \
             more: if it does, both hubs claim the same objects",
            receiver.title
        ));
        return Ok(Exit::Fine);
    }
    let body = json!({ "metadata": { "annotations": { ANNOTATION_LOST_HUBS: value } } });
    let write = Write::new(MediaType::MergePatch, false);
    cluster.write(&receiver.path, write, &body).await?;
    output.print(&format!("{} annotated with {annotation}", receiver.title))?;
    Ok(Exit::Fine)
}

/// Finds the deployment that the words of a user name.
fn receiver(name: &str, is_cluster_wide: bool, cluster: &Cluster) -> Result<Receiver, Error> {
    let allowed = [
        SubjectKind::Chain,
        SubjectKind::SiteDeployment,
        SubjectKind::Application,
    ];
    let namespace = Some(cluster.namespace.as_str());
    let subject = Subject::parse(&[name.to_owned()], &allowed)?;
    let receiver = |title: String, path, phases, label, name: &str| Receiver {
        title,
        path,
        phases,
        label: format!("{label}={name}"),
    };
    match subject {
        Subject::SiteDeployment(target) => Ok(receiver(
            target.to_string(),
            target.path(&cluster.namespace),
            &OBJECT_SET_PHASE,
            LABEL_SITE_DEPLOYMENT,
            &target.name,
        )),
        Subject::Application(target) if !target.is_release() => Ok(receiver(
            format!("app/{}", target.name),
            target.kind.path_of(namespace, &target.name),
            &OBJECT_SET_PHASE,
            LABEL_APP,
            &target.name,
        )),
        Subject::Chain(target) => {
            let kind = target.kind.unwrap_or(if is_cluster_wide {
                ChainKind::ClusterObjectDeployment
            } else {
                ChainKind::ObjectDeployment
            });
            if !kind.is_deployment() {
                return Err(no_deployment(name));
            }
            let phases = if kind.is_namespaced {
                &OBJECT_SET_PHASE
            } else {
                &CLUSTER_OBJECT_SET_PHASE
            };
            let path = kind.path_of(namespace, &target.name);
            let label = LABEL_OBJECT_DEPLOYMENT;
            Ok(receiver(name.to_owned(), path, phases, label, &target.name))
        }
        _ => Err(no_deployment(name)),
    }
}

fn no_deployment(name: &str) -> Error {
    Error::Usage(format!(
        "{name}: --from-hub needs a deployment: od/NAME, cod/NAME, sitedeploy/NAME or app/NAME"
    ))
}

/// The lines of the preview: the reported collisions by cluster, and the clusters without any.
fn preview(phases: &[Value], uids: &BTreeSet<String>) -> Vec<String> {
    let mut clusters: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for phase in phases {
        let class = phase["metadata"]["labels"][LABEL_PHASE_CLASS].as_str();
        let Some(name) = class.and_then(|class| class.strip_prefix(CLASS_CLUSTER_PREFIX)) else {
            continue;
        };
        let lines = clusters.entry(name).or_default();
        let conditions = phase["status"]["conditions"].as_array();
        let is_collision = |it: &&Value| {
            it["type"] == AVAILABLE && it["reason"] == Reason::CollisionDetected.as_str()
        };
        let condition = conditions.and_then(|all| all.iter().find(is_collision));
        let message = condition.and_then(|it| it["message"].as_str());
        for collision in collisions(message.unwrap_or_default()) {
            let Collision { object, owner } = collision;
            let is_named = owner
                .rsplit(' ')
                .next()
                .is_some_and(|uid| uids.contains(uid));
            lines.push(match owner {
                "" => format!("  {object}: refused, no owner of another hub"),
                owner if is_named => format!("  {object}: taken over from {owner}"),
                owner => format!("  {object}: refused, controlled by {owner}"),
            });
        }
    }
    let mut lines = Vec::new();
    let mut quiet = Vec::new();
    for (name, mut objects) in clusters {
        if objects.is_empty() {
            quiet.push(name);
            continue;
        }
        objects.sort();
        objects.dedup();
        lines.push(format!("Cluster {name}:"));
        lines.append(&mut objects);
    }
    if !quiet.is_empty() {
        lines.push(format!("no collision reported: {}", quiet.join(", ")));
    }
    lines.push(
        "An object is taken over if all of its owners belong to these hubs, also in clusters that get the deployment \
         later."
            .to_owned(),
    );
    lines
}

/// The objects in the message of a condition about collisions.
fn collisions(message: &str) -> Vec<Collision<'_>> {
    const REFUSED: &str = ": refusing adoption, ";
    let mut starts: Vec<(usize, usize)> = Vec::new();
    for (at, _) in message.match_indices(REFUSED) {
        starts.extend(message[..at].rfind("object ").map(|start| (start, at)));
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start);
    let ends: Vec<_> = ends.chain([message.len()]).collect();
    let entries = starts.iter().zip(ends).map(|((start, at), end)| {
        let head = &message[start + "object ".len()..*at];
        let (name, kind) = head.split_once(" kind:").unwrap_or((head, ""));
        let tail = message[*at..end].split_once(", controlled by ");
        Collision {
            object: format!("{kind} {}", name.trim_start_matches('/')),
            owner: tail.map_or("", |(_, owner)| owner.trim_end_matches([',', ' '])),
        }
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "object shop/a kind:ConfigMap: refusing adoption, object /v1, Kind=ConfigMap shop/a not owned \
         by previous revision, controlled by ObjectSetPhase shop/web-1-p of hub old\
         object /b kind:Secret: refusing adoption, object /v1, Kind=Secret shop/b not owned by previous revision, \
         controlled by ObjectSetPhase shop/web-1-p with uid u\
         object shop/c kind:Secret: refusing adoption, object /v1, Kind=Secret shop/c was left behind by a revision";

    #[test]
    fn the_objects_of_a_message_are_found() {
        let collision = |object: &str, owner| Collision {
            object: object.to_owned(),
            owner,
        };
        assert_eq!(
            collisions(BOTH),
            [
                collision("ConfigMap shop/a", "ObjectSetPhase shop/web-1-p of hub old"),
                collision("Secret b", "ObjectSetPhase shop/web-1-p with uid u"),
                collision("Secret shop/c", ""),
            ]
        );
        assert_eq!(collisions(""), []);
    }

    #[test]
    fn the_preview_names_objects_by_cluster() {
        let phase = |class: &str, reason: &str, message: &str| {
            json!({
                "metadata": { "labels": { LABEL_PHASE_CLASS: class } },
                "status": { "conditions": [
                    { "type": "Available", "reason": reason, "message": message },
                ]},
            })
        };
        let phases = [
            phase("cluster.b", "CollisionDetected", BOTH),
            phase("cluster.a", "Queued", ""),
            phase("default", "CollisionDetected", BOTH),
        ];
        let lines = preview(&phases, &BTreeSet::from(["old".to_owned()]));
        assert_eq!(
            lines[..5],
            [
                "Cluster b:",
                "  ConfigMap shop/a: taken over from ObjectSetPhase shop/web-1-p of hub old",
                "  Secret b: refused, controlled by ObjectSetPhase shop/web-1-p with uid u",
                "  Secret shop/c: refused, no owner of another hub",
                "no collision reported: a",
            ]
        );
    }
}
