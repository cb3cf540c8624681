//! Checks of the objects of all phases before the first write.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pass, PassResult, Position, Snapshot};
use crate::{
    Request,
    containers::Container,
    object::is_terminating,
    object_pass::{NextAction, ObjectPass, Problem},
    revision::{KindState, Phase, violations_of},
};

/// The containers of a revision that may contain its other objects: namespaces and definitions of
/// kinds.
#[derive(Clone)]
pub(super) struct Ahead {
    containers: BTreeMap<Container, Position>,
}

impl Ahead {
    /// Returns `None` if no checks ahead are wanted, or if the revision already controls an object.
    pub fn of(snapshot: &Snapshot<'_>, objects: &[Vec<ObjectPass<'_>>]) -> Option<Self> {
        let revision = snapshot.revision;
        let has_begun = || objects.iter().flatten().any(ObjectPass::is_controlled);
        if !revision.checks_all_first || revision.is_paused() || has_begun() {
            return None;
        }
        Some(Self::all(snapshot))
    }

    /// Collects the containers of all phases.
    pub fn all(snapshot: &Snapshot<'_>) -> Self {
        let mut containers = BTreeMap::new();
        for (phase, content) in snapshot.phases.iter().enumerate() {
            for (object, desired) in content.objects.iter().enumerate() {
                if let Some(container) = Container::of(&desired.gvk, &desired.manifest) {
                    let at = Position { phase, object };
                    containers.entry(container).or_insert(at);
                }
            }
        }
        Self { containers }
    }

    /// Returns the position of a container if its phase precedes that of the object.
    fn earlier(&self, container: &Container, at: Position) -> Option<Position> {
        let found = self.containers.get(container).copied();
        found.filter(|container| container.phase < at.phase)
    }
}

impl Pass<'_> {
    /// Returns the next checks, of objects of all phases concurrently. If none is left, the checks
    /// are over, and the pass has ended if one failed.
    ///
    /// The results for the first phase stay valid; objects of later phases are checked again with
    /// their phase.
    pub(super) fn look_ahead(&mut self) -> Vec<(Position, Request)> {
        let Some(ahead) = self.ahead.take() else {
            return Vec::new();
        };
        let refused = self.all_violations(&ahead);
        if !refused.is_empty() {
            self.result = Some(PassResult::Preflight(refused));
            return Vec::new();
        }
        let there = self.ready_containers(&ahead);
        let mut checks = Vec::new();
        let mut problems: Vec<(Problem, Position, String)> = Vec::new();
        for (phase, objects) in self.objects.iter().enumerate() {
            for (object, pass) in objects.iter().enumerate() {
                let at = Position { phase, object };
                if self.held.contains_key(&at) || !self.is_grounded(&ahead, &there, at) {
                    continue;
                }
                match pass.next_action() {
                    // A migration changes ownership, which is left to the phase.
                    NextAction::Check(Request::Migrate { .. })
                    | NextAction::Nothing
                    | NextAction::Wait(_)
                    | NextAction::Prepare(_)
                    | NextAction::Write(_) => {}
                    NextAction::Check(request) | NextAction::DryRun(request) => {
                        checks.push((at, request));
                    }
                    NextAction::Blocked(Problem::Collision, text) => {
                        // Only the first collision is reported, as in a phase.
                        if problems.iter().all(|(it, ..)| *it != Problem::Collision) {
                            problems.push((Problem::Collision, at, text));
                        }
                    }
                    NextAction::Blocked(problem, text) => {
                        let position = pass.desired.position(&self.snapshot.phases[phase].name);
                        problems.push((problem, at, format!("{position}: {text}")));
                    }
                }
            }
        }
        if !checks.is_empty() {
            self.ahead = Some(ahead);
            return checks;
        }
        self.fail(problems);
        if self.result.is_none() {
            self.result = self.unchecked();
        }
        for pass in self.objects.iter_mut().skip(1).flatten() {
            pass.check_again();
        }
        Vec::new()
    }

    /// The violations of all phases that are found without a request.
    fn all_violations(&self, ahead: &Ahead) -> Vec<String> {
        let (revision, kinds) = (self.snapshot.revision, self.snapshot.kinds);
        let mut found = Vec::new();
        for (phase, content) in self.snapshot.phases.iter().enumerate() {
            for (object, desired) in content.own_objects().iter().enumerate() {
                let definition = definition(content, object);
                let comes = ahead.earlier(&definition, Position { phase, object });
                let state = kinds.get(&desired.gvk);
                let is_served = state.is_some_and(KindState::is_served_as_named);
                let texts = if comes.is_some() && !is_served {
                    desired.violations.clone()
                } else {
                    violations_of(revision, desired, kinds)
                };
                let position = desired.position(&content.name);
                found.extend(texts.into_iter().map(|text| format!("{position}: {text}")));
            }
        }
        found
    }

    /// The containers that are ready for objects: namespaces that exist and are not being deleted,
    /// and definitions that need no change.
    ///
    /// The others, and those of delegated phases, are created during the pass, so their objects
    /// cannot be checked before.
    fn ready_containers(&self, ahead: &Ahead) -> BTreeSet<Position> {
        let containers = ahead.containers.iter();
        let there = containers.filter(|(container, at)| {
            let pass = self.objects[at.phase].get(at.object);
            pass.is_some_and(|pass| match container {
                Container::Namespace(_) => pass.live().is_some_and(|it| !is_terminating(it)),
                Container::Definition { .. } => {
                    pass.is_as_wanted() || pass.next_action() == NextAction::Nothing
                }
            })
        });
        there.map(|(_, at)| *at).collect()
    }

    /// True if each container of an object is ready, or is not created by an earlier phase of this
    /// revision.
    fn is_grounded(&self, ahead: &Ahead, there: &BTreeSet<Position>, at: Position) -> bool {
        let phase = &self.snapshot.phases[at.phase];
        let namespace = Container::Namespace(phase.objects[at.object].key.namespace.clone());
        [namespace, definition(phase, at.object)].iter().all(|it| {
            let container = ahead.earlier(it, at);
            container.is_none_or(|container| there.contains(&container))
        })
    }
}

/// The definition of an object's kind, as a container.
fn definition(phase: &Phase, object: usize) -> Container {
    let key = &phase.objects[object].key;
    Container::Definition {
        group: key.group.clone(),
        kind: key.kind.clone(),
    }
}
