//! Makes the picture of a chain from the objects that were read.

use baton_apis::{
    EndedOutcome, SiteEntry, WaitingForObject,
    conditions::{self, Reason},
    constants::{ANNOTATION_SITE, shipper::LABEL_RELEASE},
};
use baton_engine::{
    ObjectKey,
    delegated::names,
    object::{is_terminating, why_terminating},
    revision::Desired,
    workload,
};
use baton_probes::{Probes, Verdict, budget::Budget};
use serde_json::Value;

use super::{
    ChainPicture, DelegatePicture, DeploymentPicture, Health, ObjectPicture, OwnerPicture,
    PhasePicture, RevisionPicture,
};

use crate::{
    chain::{
        Chain,
        member::{Deployment, Revision, State},
    },
    children::{Children, LookupResult, Owner, compile, owner},
    content::{Contents, Phase, SERVED, is_served},
    delegates::{Delegate, DelegateState, Delegates},
};

/// Draws a chain. Revisions without content are drawn without phases.
pub fn picture(
    chain: &Chain,
    contents: &Contents,
    children: &Children,
    delegates: &Delegates,
) -> ChainPicture {
    let sources = Sources {
        chain,
        children,
        delegates,
    };
    let revisions = chain.newest_first().map(|revision| {
        let content = contents.get(revision.uid());
        let phases: Option<Vec<PhasePicture>> = content.map(|content| {
            let (probes, mut budget) = (compile(revision), Budget::default());
            let phases = content.phases.iter();
            phases
                .map(|phase| sources.phase(revision, phase, &probes, &mut budget))
                .collect()
        });
        let of = phases.iter().flatten();
        // The message of a delegated phase, which its controller reports, is not repeated.
        let about = about(revision).filter(|(_, reason)| {
            let shown = of.clone().filter(|phase| !phase.message.is_empty());
            let mut delegates = shown.filter_map(|phase| phase.delegate.as_ref());
            !delegates.any(|delegate| *reason == Some(&*delegate.reason))
        });
        RevisionPicture {
            kind: revision.kind.name.to_owned(),
            name: revision.name().to_owned(),
            revision: revision.number(),
            state: revision.state(),
            healthy: of.clone().map(|phase| phase.healthy).sum(),
            objects: of.map(|phase| phase.objects.len()).sum(),
            release: release(revision),
            version: version(revision),
            message: about.map_or(String::new(), |(message, _)| message.to_owned()),
            phases,
        }
    });
    ChainPicture {
        deployment: chain
            .deployment
            .as_ref()
            .map(|deployment| head(deployment, chain.current())),
        namespace: chain.namespace().map(str::to_owned),
        revisions: revisions.collect(),
    }
}

/// Name of the Release that a revision installs, by its label.
fn release(revision: &Revision) -> Option<String> {
    let labels = revision.metadata.labels.as_ref()?;
    labels.get(LABEL_RELEASE).cloned()
}

/// The version that a revision brings to a site, by its annotation.
fn version(revision: &Revision) -> Option<String> {
    let entry = revision.annotation(ANNOTATION_SITE)?;
    let entry: SiteEntry = serde_json::from_str(entry).ok()?;
    Some(entry.version)
}

fn head(deployment: &Deployment, current: Option<&Revision>) -> DeploymentPicture {
    let available = deployment.condition(conditions::AVAILABLE);
    let progressing = deployment.condition(conditions::PROGRESSING);
    let is_unavailable = current
        .and_then(|current| current.condition(conditions::AVAILABLE))
        .is_some_and(|available| available.status != "True");
    let message = match (progressing, available) {
        // The remaining text is the message of the revision, which is shown there, object by
        // object.
        (Some(progressing), _)
            if progressing.reason == Reason::LatestRevisionPendingSuccess && is_unavailable =>
        {
            "Latest Revision is Unavailable"
        }
        (Some(progressing), _) if progressing.reason != Reason::Idle => &progressing.message,
        (_, Some(available)) if available.status != "True" => &available.message,
        (None, None) => "no controller has reported on it yet",
        _ => "",
    };
    DeploymentPicture {
        kind: deployment.kind.name.to_owned(),
        name: deployment.name().to_owned(),
        available: Health::of_status(available.map(|condition| condition.status.as_str())),
        paused: deployment.spec.paused,
        deleting: deployment.is_deleting(),
        message: message.to_owned(),
        target: deployment.target().to_string(),
    }
}

/// The message about a revision as a whole, and the reason of its condition. Failing probes are
/// shown with their objects.
fn about(revision: &Revision) -> Option<(&str, Option<&str>)> {
    let condition = match revision.state() {
        State::NotReady | State::Paused => revision.condition(conditions::AVAILABLE),
        State::Archiving => revision.condition(conditions::ARCHIVED),
        State::Pending => return Some(("no controller has reported on it yet", None)),
        State::Available | State::Archived | State::Deleting => None,
    };
    condition
        .filter(|condition| condition.status != "True" && condition.reason != Reason::ProbeFailure)
        .map(|condition| (&*condition.message, Some(&*condition.reason)))
}

/// The sources of the picture of a phase.
struct Sources<'a> {
    chain: &'a Chain,
    children: &'a Children,
    delegates: &'a Delegates,
}

impl Sources<'_> {
    fn phase(
        &self,
        revision: &Revision,
        phase: &Phase,
        probes: &Result<Probes, String>,
        budget: &mut Budget,
    ) -> PhasePicture {
        let found = phase
            .is_delegated()
            .then(|| self.delegates.find(revision, &phase.name));
        let available = match found {
            Some(DelegateState::Own(delegate)) => delegate.available.as_ref(),
            _ => None,
        };
        let available = Health::of_status(available.map(|condition| condition.status.as_str()));
        let objects = phase.objects.iter();
        let objects: Vec<ObjectPicture> = if phase.is_here() {
            let drawn = objects.map(|object| self.object(revision, object, probes, budget));
            drawn.collect()
        } else {
            let drawn = objects.map(|object| {
                let owner = self.remote_owner(revision, object, phase, found);
                unread_object(object, owner, available)
            });
            drawn.collect()
        };
        let is_ready = |object: &&ObjectPicture| object.is_ready();
        let healthy = objects.iter().filter(is_ready).count();
        let shown_below = phase.is_here() && healthy < objects.len();
        let about = found.map(|found| about_delegate(revision, phase, found, shown_below));
        let texts = [about.unwrap_or_default(), missing_slices(phase)];
        PhasePicture {
            name: phase.name.clone(),
            class: phase.class.clone(),
            healthy,
            message: texts
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
            delegate: found.and_then(|found| delegate(found, available)),
            objects,
            hidden: 0,
        }
    }

    fn object(
        &self,
        revision: &Revision,
        object: &Desired,
        probes: &Result<Probes, String>,
        budget: &mut Budget,
    ) -> ObjectPicture {
        let key = &object.key;
        let reported = reported(revision, object);
        let (healthy, owner, message) = match self.children.find(key) {
            LookupResult::Missing => match revision.ended(key) {
                Some(end) => {
                    let is_failed = end.outcome == EndedOutcome::Failed;
                    let text = is_failed.then(|| "failed".to_owned());
                    let text = end.message.clone().or(text);
                    let is_fine = text.is_none();
                    let health = if is_fine { Health::True } else { Health::False };
                    (health, OwnerPicture::Ended, text.into_iter().collect())
                }
                None => (Health::False, OwnerPicture::Missing, Vec::new()),
            },
            LookupResult::Unreadable(why) => (
                Health::Unknown,
                OwnerPicture::Unknown,
                vec![why.to_string()],
            ),
            LookupResult::Live(live) => {
                let verdict = match probes {
                    Ok(probes) => probes.evaluate(budget, &key.group, &key.kind, live),
                    Err(error) => Verdict::Unknown(vec![error.clone()]),
                };
                let failed =
                    |messages: Vec<String>| vec![with_cause(reported, messages.join(", "))];
                let (mut healthy, mut messages) = match verdict {
                    Verdict::True => (Health::True, Vec::new()),
                    Verdict::False(messages) => (Health::False, failed(messages)),
                    Verdict::Unknown(messages) => (Health::Unknown, failed(messages)),
                };
                if is_terminating(live) {
                    // The manager waits for the deletion, also if the object reports that it is ready.
                    healthy = Health::False;
                    messages.insert(0, why_terminating(live));
                }
                if let Some(reported) = reported.filter(|_| is_pending_claim(key, live)) {
                    // No probe checks that the claim is bound.
                    healthy = Health::False;
                    messages = vec![reported.message.clone()];
                }
                (healthy, self.owner(revision, live), messages)
            }
        };
        identity(object, healthy, owner, message.join(", "))
    }

    /// The owner of an object that cannot be read from here, by the status of `ObjectSetPhases`.
    fn remote_owner(
        &self,
        revision: &Revision,
        object: &Desired,
        phase: &Phase,
        found: Option<DelegateState<'_>>,
    ) -> OwnerPicture {
        let key = &object.key;
        let own = match found {
            Some(DelegateState::Own(own)) if !own.holds(key) => Some(own),
            _ => None,
        };
        let other = own.and_then(|_| self.delegates.other_holder(key, revision, self.chain));
        match (own, other) {
            (_, Some(other)) => OwnerPicture::OtherRevision {
                revision: other.number(),
                name: other.name().to_owned(),
            },
            // Another object of the phase is reported, so this one is not controlled.
            (Some(own), None) if own.holds_any() => OwnerPicture::Unknown,
            _ => OwnerPicture::Delegated {
                class: phase.class.clone(),
            },
        }
    }

    fn owner(&self, revision: &Revision, live: &Value) -> OwnerPicture {
        match owner(live, self.chain, self.delegates) {
            Owner::Revision { name, number, .. } if name == revision.name() => {
                OwnerPicture::ThisRevision {
                    revision: number,
                    name,
                }
            }
            Owner::Revision { name, number, .. } => OwnerPicture::OtherRevision {
                revision: number,
                name,
            },
            Owner::Stranger { kind, name } => OwnerPicture::Stranger { kind, name },
            Owner::Nobody => OwnerPicture::Nobody,
        }
    }
}

/// The entry of `status.waitingFor` about an object of a revision.
fn reported<'r>(revision: &'r Revision, object: &Desired) -> Option<&'r WaitingForObject> {
    let key = &object.key;
    let mut waiting = revision.status.waiting_for.iter();
    waiting.find(|waiting| {
        let namespace = waiting.namespace.as_deref().unwrap_or_default();
        let names = (&*waiting.group, &*waiting.kind, namespace, &*waiting.name);
        names == (&*key.group, &*key.kind, &*key.namespace, &*key.name)
    })
}

fn is_pending_claim(key: &ObjectKey, live: &Value) -> bool {
    let is_claim = key.group.is_empty() && key.kind == "PersistentVolumeClaim";
    is_claim && live["status"]["phase"] != "Bound"
}

/// The message of the probes of an object, with the cause that the manager has reported.
fn with_cause(reported: Option<&WaitingForObject>, message: String) -> String {
    match reported.and_then(|reported| reported.cause.as_deref()) {
        Some(cause) => workload::with_reason(&message, cause),
        None => message,
    }
}

fn missing_slices(phase: &Phase) -> String {
    if phase.missing_slices.is_empty() {
        return String::new();
    }
    format!("missing slices: {}", phase.missing_slices.join(", "))
}

/// The picture of an object with its identity filled in.
fn identity(
    object: &Desired,
    healthy: Health,
    owner: OwnerPicture,
    message: String,
) -> ObjectPicture {
    ObjectPicture {
        group: object.key.group.clone(),
        kind: object.key.kind.clone(),
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        healthy,
        owner,
        message,
    }
}

/// The picture of an object that cannot be read from here. If the phase is available, the object is
/// healthy. If the phase is not, any of its objects may be the cause.
fn unread_object(object: &Desired, owner: OwnerPicture, available: Health) -> ObjectPicture {
    let healthy = match (available, &owner) {
        (Health::True, OwnerPicture::Delegated { .. } | OwnerPicture::OtherRevision { .. }) => {
            Health::True
        }
        _ => Health::Unknown,
    };
    identity(object, healthy, owner, String::new())
}

/// The message about the `ObjectSetPhase` of a phase. `shown_below` is true if unhealthy objects
/// are shown with their reasons.
fn about_delegate(
    revision: &Revision,
    phase: &Phase,
    found: DelegateState<'_>,
    shown_below: bool,
) -> String {
    let delegate = match found {
        DelegateState::Own(delegate) => delegate,
        DelegateState::Foreign(delegate) => {
            let Delegate {
                kind,
                name,
                controlled_by,
                ..
            } = delegate;
            return format!("{kind} {name} belongs to {controlled_by}");
        }
        // The `ObjectSetPhase` is deleted with the objects.
        DelegateState::Missing if revision.is_archived() => return String::new(),
        DelegateState::Missing => {
            let [name, _] = names(revision.name(), &phase.name);
            return format!("there is no {}Phase {name}", revision.kind.name);
        }
        DelegateState::Unreadable(why) => return why.to_owned(),
    };
    match &delegate.available {
        _ if delegate.is_deleting => {
            format!("{} {} is being deleted", delegate.kind, delegate.name)
        }
        None => {
            let text = format!("no controller has reported on {} yet", delegate.name);
            if is_served(&phase.class) {
                text
            } else {
                format!("{text}; {SERVED}")
            }
        }
        Some(condition) if condition.status == "True" => String::new(),
        Some(condition) if shown_below && condition.reason == Reason::ProbeFailure => String::new(),
        Some(condition) => condition.message.clone(),
    }
}

fn delegate(found: DelegateState<'_>, available: Health) -> Option<DelegatePicture> {
    let DelegateState::Own(delegate) = found else {
        return None;
    };
    let reason = delegate
        .available
        .as_ref()
        .map(|condition| &condition.reason);
    Some(DelegatePicture {
        kind: delegate.kind.clone(),
        name: delegate.name.clone(),
        available,
        reason: reason.cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use baton_engine::Gvk;
    use serde_json::json;

    use super::*;
    use crate::{chain::from_objects, content::Slices};

    const API: &str = "package-operator.run/v1alpha1";

    /// A revision with two config maps in a phase of this class.
    fn chain(class: &str) -> Chain {
        let object = |name: &str| {
            json!({"object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop"}}})
        };
        let set = json!({
            "apiVersion": API, "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
            "spec": {"revision": 1, "phases": [
                {"name": "a", "class": class, "objects": [object("x"), object("y")]},
            ]},
        });
        from_objects(Vec::new(), vec![set]).0.remove(0)
    }

    fn contents(chain: &Chain) -> Contents {
        let revision = &chain.revisions[0];
        [(
            revision.uid().to_owned(),
            Slices::default().content(revision),
        )]
        .into()
    }

    /// The `ObjectSetPhase`, controlled by the owner with this UID.
    fn delegate(controller: &str, status: &str, reason: &str) -> Value {
        json!({
            "apiVersion": API, "kind": "ObjectSetPhase",
            "metadata": {"name": "web-1-a", "namespace": "shop", "uid": "p1", "generation": 1, "ownerReferences": [
                {"apiVersion": API, "kind": "ObjectSet", "name": "some", "uid": controller, "controller": true},
            ]},
            "status": {"conditions": [{
                "type": "Available", "status": status, "reason": reason, "message": "in words",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        })
    }

    /// The picture of the phase: number of healthy objects, message, and health and owner of each
    /// object.
    fn phase(class: &str, delegate: Option<&Value>, live: &[&str]) -> (usize, String, Vec<String>) {
        let chain = chain(class);
        let contents = contents(&chain);
        let mut children = Children::default();
        for name in live {
            let object = json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [
                {"apiVersion": API, "kind": "ObjectSetPhase", "name": "web-1-a", "uid": "p1", "controller": true},
            ]}});
            children.insert(&Gvk::new("v1", "ConfigMap"), object);
        }
        let mut delegates = Delegates::default();
        if let Some(delegate) = delegate {
            delegates.insert(delegate);
        }
        let picture = picture(&chain, &contents, &children, &delegates);
        let phase = picture.revisions[0].phases.as_ref().unwrap()[0].clone();
        let objects = phase.objects.iter().map(|object| {
            let owner = match &object.owner {
                OwnerPicture::ThisRevision { .. } => "own",
                OwnerPicture::Missing => "missing",
                OwnerPicture::Ended => "ended",
                OwnerPicture::Delegated { .. } => "class",
                _ => "other",
            };
            format!("{} {owner}", object.healthy.as_str())
        });
        (phase.healthy, phase.message, objects.collect())
    }

    #[test]
    fn an_object_that_has_ended_is_not_missing() {
        for (outcome, message, expected) in [
            ("Complete", Value::Null, (1, "True ended", "")),
            ("Failed", Value::Null, (0, "False ended", "failed")),
            ("Failed", "in words".into(), (0, "False ended", "in words")),
        ] {
            let object = json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": "x", "namespace": "shop"}});
            let ended = json!({"group": "batch", "kind": "Job", "namespace": "shop", "name": "x",
                "outcome": outcome, "message": message});
            let set = json!({
                "apiVersion": API, "kind": "ObjectSet",
                "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
                "spec": {"revision": 1, "phases": [{"name": "a", "objects": [{"object": object}]}]},
                "status": {"ended": [ended]},
            });
            let chain = from_objects(Vec::new(), vec![set]).0.remove(0);
            let contents = contents(&chain);
            let (children, delegates) = (Children::default(), Delegates::default());
            let picture = picture(&chain, &contents, &children, &delegates);
            let phase = &picture.revisions[0].phases.as_ref().unwrap()[0];
            let object = &phase.objects[0];
            let owner = if object.owner == OwnerPicture::Ended {
                "ended"
            } else {
                "other"
            };
            let seen = format!("{} {owner}", object.healthy.as_str());
            assert_eq!((phase.healthy, &*seen, &*object.message), expected);
        }
    }

    #[test]
    fn a_hint_names_our_classes_if_a_phase_has_another_one() {
        let mut silent = delegate("u1", "False", "ProbeFailure");
        silent["status"] = json!({});
        let hint = "; Baton serves only the classes default and cluster.NAME";
        for (class, expected) in [("default", ""), ("cluster.eu", ""), ("elsewhere", hint)] {
            let (_, message, _) = phase(class, Some(&silent), &["x", "y"]);
            assert_eq!(
                message,
                format!("no controller has reported on web-1-a yet{expected}"),
                "{class}"
            );
        }
    }

    #[test]
    fn objects_of_the_class_default_are_judged_individually() {
        let failing = delegate("u1", "False", "ProbeFailure");
        let (healthy, message, objects) = phase("default", Some(&failing), &["x"]);
        assert_eq!((healthy, message.as_str()), (1, ""));
        assert_eq!(objects, ["True own", "False missing"]);
        // The objects do not show this.
        let (.., message, _) = phase("default", Some(&failing), &["x", "y"]);
        assert_eq!(message, "in words");
        let refused = delegate("u1", "False", "PreflightError");
        let (.., message, _) = phase("default", Some(&refused), &["x"]);
        assert_eq!(message, "in words");
    }

    /// The status of the revision counts in the same way: objects that it controls and does not
    /// wait for.
    #[test]
    fn foreign_and_terminating_objects_do_not_count_as_healthy() {
        let chain = chain("");
        let contents = contents(&chain);
        for (of_x, of_y, expected) in [
            (("u1", false), ("u1", false), 2),
            (("u1", false), ("stranger", false), 1),
            (("", false), ("u1", false), 1),
            (("u1", true), ("u1", false), 1),
        ] {
            let mut children = Children::default();
            for (name, (owner, deleting)) in [("x", of_x), ("y", of_y)] {
                let is_owned = !owner.is_empty();
                let mut object = json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [
                    {"apiVersion": API, "kind": "ObjectSet", "name": "some", "uid": owner, "controller": is_owned},
                ]}});
                if deleting {
                    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                children.insert(&Gvk::new("v1", "ConfigMap"), object);
            }
            let picture = picture(&chain, &contents, &children, &Delegates::default());
            assert_eq!(picture.revisions[0].healthy, expected, "{of_x:?} {of_y:?}");
        }
    }

    #[test]
    fn the_reason_of_the_manager_is_shown_while_its_probe_agrees() {
        let mut chain = chain("");
        let revision = &mut chain.revisions[0];
        revision.status.waiting_for = vec![WaitingForObject {
            kind: "ConfigMap".to_owned(),
            name: "x".to_owned(),
            namespace: Some("shop".to_owned()),
            cause: Some("pod x-1: unschedulable".to_owned()),
            ..WaitingForObject::default()
        }];
        let content = Slices::default().content(revision);
        let objects = &content.phases[0].objects;
        let text = |at: usize| with_cause(reported(revision, &objects[at]), "not ready".to_owned());
        assert_eq!(text(0), "not ready (pod x-1: unschedulable)");
        assert_eq!(text(1), "not ready");
    }

    #[test]
    fn a_revision_does_not_repeat_the_message_of_its_phase() {
        let mut chain = chain("cluster.north");
        let contents = contents(&chain);
        let mut delegates = Delegates::default();
        delegates.insert(&delegate("u1", "False", "PreflightError"));
        let available = |reason: &str| {
            let condition = json!([{
                "type": "Available", "status": "False", "reason": reason, "message": "of the revision",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            serde_json::from_value(condition).unwrap()
        };
        for (reason, expected) in [
            ("PreflightError", ""),
            ("CollisionDetected", "of the revision"),
        ] {
            chain.revisions[0].status.conditions = available(reason);
            let picture = picture(&chain, &contents, &Children::default(), &delegates);
            assert_eq!(picture.revisions[0].message, expected, "{reason}");
        }
    }

    /// The status of a phase names the objects that it controls. Another phase may control the
    /// others, or another owner.
    #[test]
    fn objects_in_other_clusters_belong_to_the_phase_that_controls_them() {
        let class = "cluster.north";
        let of = |name: &str| json!({"group": "", "kind": "ConfigMap", "name": name, "namespace": "shop", "version": ""});
        let mut own = delegate("u1", "True", "Available");
        for (controls, expected) in [
            (json!([of("x"), of("y")]), (2, ["True class", "True class"])),
            (json!([of("x")]), (1, ["True class", "Unknown other"])),
        ] {
            own["status"]["controllerOf"] = controls;
            let (healthy, _, objects) = phase(class, Some(&own), &[]);
            assert_eq!((healthy, [&*objects[0], &*objects[1]]), expected);
        }
    }

    #[test]
    fn an_object_in_another_cluster_is_shown_under_the_revision_that_took_it() {
        let set = |number: i64| {
            json!({
                "apiVersion": API, "kind": "ObjectSet",
                "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("u{number}")},
                "spec": {
                    "revision": number,
                    "previous": (1..number).map(|n| json!({"name": format!("web-{n}")})).collect::<Vec<_>>(),
                    "phases": [{"name": "a", "class": "cluster.north", "objects": [{"object": {
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"},
                    }}]}],
                },
            })
        };
        let chain = from_objects(Vec::new(), vec![set(1), set(2)]).0.remove(0);
        let mut delegates = Delegates::default();
        let old = delegate("u1", "True", "Available");
        let mut new = delegate("u2", "True", "Available");
        new["metadata"]["name"] = "web-2-a".into();
        new["status"]["controllerOf"] = json!([
            {"group": "", "kind": "ConfigMap", "name": "x", "namespace": "shop", "version": ""},
        ]);
        delegates.insert(&old);
        delegates.insert(&new);
        let contents = chain.revisions.iter().map(|revision| {
            let content = Slices::default().content(revision);
            (revision.uid().to_owned(), content)
        });
        let picture = picture(
            &chain,
            &contents.collect(),
            &Children::default(),
            &delegates,
        );
        let [two, one] = &*picture.revisions else {
            panic!("two revisions")
        };
        assert_eq!((two.healthy, one.healthy), (1, 0));
        let object = &one.phases.as_ref().unwrap()[0].objects[0];
        let (revision, name) = (Some(2), "web-2".to_owned());
        assert_eq!(object.owner, OwnerPicture::OtherRevision { revision, name });
    }

    #[test]
    fn objects_in_other_clusters_have_the_health_of_their_phase() {
        let class = "cluster.north";
        for (status, healthy, message, object) in [
            ("True", 2, "", "True class"),
            ("False", 0, "in words", "Unknown class"),
            ("Unknown", 0, "in words", "Unknown class"),
        ] {
            let delegate = delegate("u1", status, "ProbeFailure");
            let drawn = phase(class, Some(&delegate), &["x", "y"]);
            let objects = vec![object.to_owned(); 2];
            assert_eq!(drawn, (healthy, message.to_owned(), objects), "{status}");
        }
        let stranger = delegate("u2", "True", "Available");
        let (healthy, message, _) = phase(class, Some(&stranger), &[]);
        assert_eq!(
            (healthy, message.as_str()),
            (0, "ObjectSetPhase web-1-a belongs to ObjectSet/some")
        );
        let (.., message, _) = phase(class, None, &[]);
        assert_eq!(message, "there is no ObjectSetPhase web-1-a");
    }
}
