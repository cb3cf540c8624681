//! Sentences about the outcomes for objects in a comparison.

use baton_apis::constants::CLASS_CLUSTER_PREFIX;
use baton_view::{
    children::Owner,
    diff::outcome::{DiffOutcome, Group, RemovalTime, UnreadReason},
};

/// The outcome in words.
pub fn fate(fate: &DiffOutcome) -> String {
    match fate {
        DiffOutcome::Unchanged => "unchanged".to_owned(),
        DiffOutcome::Added => "added".to_owned(),
        DiffOutcome::Changed => "changed".to_owned(),
        DiffOutcome::Removed => "removed".to_owned(),
        DiffOutcome::SameManifest => "same manifest".to_owned(),
        DiffOutcome::Absent => "not in the cluster".to_owned(),
        DiffOutcome::Different => "different in the cluster".to_owned(),
        DiffOutcome::AsWanted => "as wanted, with fields of others".to_owned(),
        DiffOutcome::Created
        | DiffOutcome::Recreated
        | DiffOutcome::HandedOver
        | DiffOutcome::Adopted => group(fate.group()).to_owned(),
        DiffOutcome::TakenOver(Owner::Nobody) => "taken over, had no controller".to_owned(),
        DiffOutcome::TakenOver(owner) => format!("taken over from {}", controller(owner)),
        DiffOutcome::Restarted => "changed, and its pods are replaced".to_owned(),
        DiffOutcome::Left(newer) => format!("left to revision {newer}"),
        DiffOutcome::NotCompared(why) => format!("not compared: {}", unseen(why)),
        DiffOutcome::Kept(time) => format!("kept, without an owner, {}", when(time)),
        DiffOutcome::Deleted(time) => format!("deleted {}", when(time)),
        DiffOutcome::MaybeDeleted(time) => {
            format!("deleted {}, unless it is gone or to be kept", when(time))
        }
        DiffOutcome::SameNumber(owner) => {
            format!(
                "collides: {} has the same revision number",
                controller(owner)
            )
        }
        DiffOutcome::Protected { owner, protection } => format!(
            "collides: it exists, {}; collisionProtection {protection:?} does not allow a take-over",
            controlled(owner)
        ),
        DiffOutcome::Twice => "refused: it is in the revision already".to_owned(),
        DiffOutcome::NotServed(gvk) => {
            format!("refused: {} {} is not served", gvk.api_version(), gvk.kind)
        }
        DiffOutcome::NoSlices(names) => {
            format!("refused: there is no slice {}", names.join(", no slice "))
        }
        DiffOutcome::Refused(why) => format!("refused: {why}"),
        DiffOutcome::Invalid(why) => format!("the server would refuse that: {why}"),
        DiffOutcome::Unreadable(why) => format!("cannot be read: {why}"),
        DiffOutcome::NotRendered(release) => {
            format!("the manifests of release {release} do not exist yet, or no longer")
        }
        DiffOutcome::Revision(groups) if groups.is_empty() => "no objects".to_owned(),
        DiffOutcome::Revision(groups) => {
            let counts = groups.iter();
            let counts = counts.map(|(count, it)| format!("{count} {}", group(*it)));
            counts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn group(group: Group) -> &'static str {
    match group {
        Group::Created => "created",
        Group::Adopted => "taken over unchanged",
        Group::Changed => "changed",
        Group::Recreated => "deleted and created again",
        Group::HandedOver => "handed over unchanged",
        // Objects that newer revisions control.
        Group::Left => "left to newer revisions",
        Group::NotCompared => "not compared",
        Group::Kept => "kept",
        Group::Deleted => "deleted",
        Group::Refused => "refused",
    }
}

/// The control of an object in words: `controlled by ObjectSet web-v1`.
pub(super) fn controlled(owner: &Owner) -> String {
    match owner {
        Owner::Nobody => "without a controller".to_owned(),
        owner => format!("controlled by {}", controller(owner)),
    }
}

/// The controller of an object in words: `ObjectSet web-v1`.
fn controller(owner: &Owner) -> String {
    match owner {
        Owner::Stranger { kind, name } => format!("{kind} {name}"),
        Owner::Revision { name, .. } => format!("revision {name}"),
        Owner::Nobody => "no controller".to_owned(),
    }
}

fn when(when: &RemovalTime) -> String {
    match when {
        RemovalTime::Available(number) => format!("when revision {number} is available"),
        RemovalTime::Archived(Some(name)) => format!("when {name} is archived"),
        RemovalTime::Archived(None) => "when the revisions before are archived".to_owned(),
    }
}

/// The reason that an object was not read, and the option that helps.
pub(super) fn unseen(unseen: &UnreadReason) -> String {
    match unseen {
        UnreadReason::Class(class) => match class.strip_prefix(CLASS_CLUSTER_PREFIX) {
            Some(name) => format!("it is in cluster {name}; see --cluster-context"),
            None => format!("class {class} writes it"),
        },
        UnreadReason::Unreadable(why) => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::CollisionProtection::{IfNoController, Prevent};
    use baton_engine::Gvk;

    use super::*;

    #[test]
    fn verdicts() {
        let owner = |name: &str| Owner::Stranger {
            kind: "ObjectSet".to_owned(),
            name: name.to_owned(),
        };
        let protected = |owner, protection| DiffOutcome::Protected { owner, protection };
        for (verdict, expected) in [
            (DiffOutcome::Created, "created"),
            (DiffOutcome::HandedOver, "handed over unchanged"),
            (DiffOutcome::Recreated, "deleted and created again"),
            (
                DiffOutcome::Left("new-v4".to_owned()),
                "left to revision new-v4",
            ),
            (
                DiffOutcome::SameNumber(owner("twin-v3")),
                "collides: ObjectSet twin-v3 has the same revision number",
            ),
            (
                protected(Owner::Nobody, Prevent),
                "collides: it exists, without a controller; collisionProtection Prevent does not allow a take-over",
            ),
            (
                protected(owner("stranger"), IfNoController),
                "collides: it exists, controlled by ObjectSet stranger; collisionProtection IfNoController does not \
                 allow a take-over",
            ),
            (
                DiffOutcome::TakenOver(owner("stranger")),
                "taken over from ObjectSet stranger",
            ),
            (
                DiffOutcome::TakenOver(Owner::Nobody),
                "taken over, had no controller",
            ),
            (
                DiffOutcome::Refused("exceeded quota".to_owned()),
                "refused: exceeded quota",
            ),
            (
                DiffOutcome::NotServed(Gvk::new("v1", "ConfigMap")),
                "refused: v1 ConfigMap is not served",
            ),
            (
                DiffOutcome::NoSlices(vec!["a".to_owned(), "b".to_owned()]),
                "refused: there is no slice a, no slice b",
            ),
            (
                DiffOutcome::NotCompared(UnreadReason::Class("cluster.eu-1".to_owned())),
                "not compared: it is in cluster eu-1; see --cluster-context",
            ),
            (
                DiffOutcome::NotCompared(UnreadReason::Class("elsewhere".to_owned())),
                "not compared: class elsewhere writes it",
            ),
            (
                DiffOutcome::Deleted(RemovalTime::Available(8)),
                "deleted when revision 8 is available",
            ),
            (
                DiffOutcome::Kept(RemovalTime::Archived(None)),
                "kept, without an owner, when the revisions before are archived",
            ),
            (
                DiffOutcome::MaybeDeleted(RemovalTime::Archived(Some("web-a".to_owned()))),
                "deleted when web-a is archived, unless it is gone or to be kept",
            ),
            (DiffOutcome::Revision(Vec::new()), "no objects"),
            (
                DiffOutcome::Revision(vec![
                    (1, Group::Created),
                    (2, Group::HandedOver),
                    (1, Group::Left),
                    (1, Group::Kept),
                    (1, Group::Deleted),
                ]),
                "1 created, 2 handed over unchanged, 1 left to newer revisions, 1 kept, 1 deleted",
            ),
        ] {
            assert_eq!(fate(&verdict), expected);
        }
    }
}
