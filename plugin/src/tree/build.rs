//! From what was read to the picture.

use std::collections::BTreeMap;

use baton::engine::{
    object::is_terminating,
    probes::{Probes, Verdict},
    revision::Desired,
};
use baton_apis::conditions::{self, reasons};
use serde_json::Value;

use super::{
    ChainPicture, DeploymentPicture, Health, ObjectPicture, OwnerPicture, PhasePicture,
    RevisionPicture,
};
use crate::{
    chain::{Chain, Deployment, Revision, State},
    children::{Children, Found, Owner, compile, owner},
    content::{Content, Phase, Slices},
};

/// What revisions want, and their probes, kept by UID: neither ever changes.
#[derive(Debug, Default)]
pub struct Catalogue {
    known: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    content: Content,
    probes: Result<Probes, String>,
}

impl Catalogue {
    /// Adds a revision, or replaces what is known of it.
    pub fn add(&mut self, revision: &Revision, slices: &Slices) {
        let known = Known {
            content: slices.content(revision),
            probes: compile(revision),
        };
        self.known.insert(revision.uid().to_owned(), known);
    }

    /// Whether all is known of a revision: it was added, and its slices had been found.
    #[must_use]
    pub fn is_complete(&self, revision: &Revision) -> bool {
        let phases = self.content(revision).map(|content| &content.phases);
        phases.is_some_and(|phases| phases.iter().all(|phase| phase.missing_slices.is_empty()))
    }

    /// What a revision wants, if it was added.
    #[must_use]
    pub fn content(&self, revision: &Revision) -> Option<&Content> {
        Some(&self.known.get(revision.uid())?.content)
    }

    /// Forgets revisions for which the predicate is false.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.known.retain(|uid, _| keep(uid));
    }
}

/// The `ObjectSetPhases` that stand for delegated phases, by namespace and name.
pub type PhaseObjects = BTreeMap<(String, String), Value>;

/// Makes the picture of a chain. Revisions that are not in the catalogue are drawn without phases.
#[must_use]
pub fn picture(
    chain: &Chain,
    catalogue: &Catalogue,
    children: &Children,
    phases: &PhaseObjects,
) -> ChainPicture {
    let revisions = chain.newest_first().map(|revision| {
        let known = catalogue.known.get(revision.uid());
        let phases: Option<Vec<PhasePicture>> = known.map(|known| {
            let drawn = known.content.phases.iter().map(|phase| {
                if phase.is_delegated() {
                    delegated(revision, phase, phases)
                } else {
                    in_process(chain, revision, phase, known, children)
                }
            });
            drawn.collect()
        });
        let of = phases.iter().flatten();
        RevisionPicture {
            kind: revision.kind.name().to_owned(),
            name: revision.name().to_owned(),
            revision: revision.number(),
            state: revision.state().word(),
            healthy: of.clone().map(|phase| phase.healthy).sum(),
            objects: of.map(|phase| phase.objects.len()).sum(),
            message: about(revision),
            phases,
        }
    });
    ChainPicture {
        deployment: chain.deployment.as_ref().map(head),
        namespace: chain.namespace().map(str::to_owned),
        revisions: revisions.collect(),
    }
}

/// How the message of `Progressing` begins while the current revision is not available.
const UNAVAILABLE: &str = "Latest Revision is Unavailable";

fn head(deployment: &Deployment) -> DeploymentPicture {
    let available = deployment.condition(conditions::AVAILABLE);
    let progressing = deployment.condition(conditions::PROGRESSING);
    let message = match (progressing, available) {
        // What follows is the message of the revision, which is told there, object by object.
        (Some(progressing), _) if progressing.message.starts_with(UNAVAILABLE) => UNAVAILABLE,
        (Some(progressing), _) if progressing.reason != reasons::IDLE => &progressing.message,
        (_, Some(available)) if available.status != "True" => &available.message,
        (None, None) => "nobody has reported on it yet",
        _ => "",
    };
    DeploymentPicture {
        kind: deployment.kind.name().to_owned(),
        name: deployment.name().to_owned(),
        available: Health::of_status(available.map(|condition| condition.status.as_str())),
        paused: deployment.spec.paused,
        deleting: deployment.is_deleting(),
        message: message.to_owned(),
        target: deployment.target().to_string(),
    }
}

/// What concerns a revision as a whole. Failing probes are told with their objects.
fn about(revision: &Revision) -> String {
    let condition = match revision.state() {
        State::NotReady | State::Paused => revision.condition(conditions::AVAILABLE),
        State::Archiving => revision.condition(conditions::ARCHIVED),
        State::Pending => return "nobody has reported on it yet".to_owned(),
        State::Available | State::Archived | State::Deleting => None,
    };
    condition
        .filter(|condition| {
            condition.status != "True" && condition.reason != reasons::PROBE_FAILURE
        })
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

fn in_process(
    chain: &Chain,
    revision: &Revision,
    phase: &Phase,
    known: &Known,
    children: &Children,
) -> PhasePicture {
    let objects: Vec<ObjectPicture> = phase
        .objects
        .iter()
        .map(|object| draw(chain, revision, object, &known.probes, children))
        .collect();
    PhasePicture {
        name: phase.name.clone(),
        class: String::new(),
        healthy: objects
            .iter()
            .filter(|object| object.healthy == Health::True)
            .count(),
        message: missing_slices(phase),
        objects,
    }
}

fn missing_slices(phase: &Phase) -> String {
    if phase.missing_slices.is_empty() {
        return String::new();
    }
    format!("missing slices: {}", phase.missing_slices.join(", "))
}

fn draw(
    chain: &Chain,
    revision: &Revision,
    object: &Desired,
    probes: &Result<Probes, String>,
    children: &Children,
) -> ObjectPicture {
    let key = &object.key;
    let (healthy, owner, message) = match children.find(key) {
        Found::Missing => (Health::False, OwnerPicture::Missing, Vec::new()),
        Found::Unreadable(why) => (Health::Unknown, OwnerPicture::Unknown, vec![why.to_owned()]),
        Found::Live(live) => {
            let verdict = match probes {
                Ok(probes) => probes.evaluate(&key.group, &key.kind, live),
                Err(error) => Verdict::Unknown(vec![error.clone()]),
            };
            let (healthy, mut messages) = match verdict {
                Verdict::True => (Health::True, Vec::new()),
                Verdict::False(messages) => (Health::False, messages),
                Verdict::Unknown(messages) => (Health::Unknown, messages),
            };
            if is_terminating(live) {
                messages.insert(0, "being deleted".to_owned());
            }
            let owner = match owner(live, chain) {
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
            };
            (healthy, owner, messages)
        }
    };
    identity(object, healthy, owner, message.join(", "))
}

/// The picture of an object of which all but the identity is given.
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

/// A phase that another controller runs: what its `ObjectSetPhase` reports is all that is known of it.
fn delegated(revision: &Revision, phase: &Phase, phases: &PhaseObjects) -> PhasePicture {
    let name = format!("{}-{}", revision.name(), phase.name);
    let place = (
        revision.namespace().unwrap_or_default().to_owned(),
        name.clone(),
    );
    let object = phases.get(&place);
    let available = object.and_then(|object| {
        let conditions = object.pointer("/status/conditions")?.as_array()?;
        conditions
            .iter()
            .find(|condition| condition["type"] == conditions::AVAILABLE)
    });
    let text = |field: &str| available.and_then(|condition| condition[field].as_str());
    let healthy = Health::of_status(text("status"));
    let message = match (object, available) {
        (None, _) => format!("there is no {}Phase {name}", revision.kind.name()),
        (Some(_), None) => format!("nobody has reported on {name} yet"),
        (Some(_), Some(_)) if healthy == Health::True => String::new(),
        (Some(_), Some(_)) => text("message").unwrap_or_default().to_owned(),
    };
    let objects: Vec<ObjectPicture> = phase
        .objects
        .iter()
        .map(|object| {
            let owner = OwnerPicture::Delegated {
                class: phase.class.clone(),
            };
            identity(object, healthy, owner, String::new())
        })
        .collect();
    PhasePicture {
        name: phase.name.clone(),
        class: phase.class.clone(),
        healthy: if healthy == Health::True {
            objects.len()
        } else {
            0
        },
        message: [message, missing_slices(phase)]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
        objects,
    }
}
