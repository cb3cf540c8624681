//! Checking the objects of all phases before the first write.

use std::collections::{BTreeMap, BTreeSet};

use super::{Pass, PassResult, Position, Snapshot};
use crate::{
    Request,
    containers::Container,
    object::is_terminating,
    object_pass::{Need, ObjectPass, Problem},
    revision::{KindState, Phase, violations_of},
};

/// Which objects of a revision others of it are in: its namespaces, and its definitions of kinds.
#[derive(Clone)]
pub(super) struct Ahead {
    containers: BTreeMap<Container, Position>,
}

impl Ahead {
    /// `None` where nothing is to be looked at ahead: not asked for, or something is written already.
    pub fn of(snapshot: &Snapshot<'_>, objects: &[Vec<ObjectPass<'_>>]) -> Option<Self> {
        let revision = snapshot.revision;
        let has_begun = || objects.iter().flatten().any(ObjectPass::is_controlled);
        if !revision.checks_all_first || revision.is_paused() || has_begun() {
            return None;
        }
        Some(Self::all(snapshot))
    }

    /// The objects of all phases.
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

    /// The container that an earlier phase than that of an object has.
    fn earlier(&self, container: &Container, at: Position) -> Option<Position> {
        let found = self.containers.get(container).copied();
        found.filter(|container| container.phase < at.phase)
    }
}

impl Pass<'_> {
    /// The next checks, of objects of all phases side by side. When none are left it is over, and has ended the pass if
    /// anything is wrong.
    ///
    /// What a check of the first phase has found out counts; later phases are checked again when they are reached.
    pub(super) fn look_ahead(&mut self) -> Vec<(Position, Request)> {
        let Some(ahead) = self.ahead.take() else {
            return Vec::new();
        };
        let refused = self.all_violations(&ahead);
        if !refused.is_empty() {
            self.result = Some(PassResult::Preflight(refused));
            return Vec::new();
        }
        let there = self.there(&ahead);
        let mut checks = Vec::new();
        let mut problems: Vec<(Problem, Position, String)> = Vec::new();
        for (phase, objects) in self.objects.iter().enumerate() {
            for (object, pass) in objects.iter().enumerate() {
                let at = Position { phase, object };
                if !self.is_grounded(&ahead, &there, at) {
                    continue;
                }
                match pass.need() {
                    // A migration changes who owns what, which is for the phase itself.
                    Need::Check(Request::Migrate { .. })
                    | Need::Nothing
                    | Need::Wait(_)
                    | Need::Prepare(_)
                    | Need::Write(_) => {}
                    Need::Check(request) | Need::DryRun(request) => checks.push((at, request)),
                    Need::Blocked(Problem::Collision, text) => {
                        // One is told of, as ever.
                        if problems.iter().all(|(it, ..)| *it != Problem::Collision) {
                            problems.push((Problem::Collision, at, text));
                        }
                    }
                    Need::Blocked(problem, text) => {
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
        for pass in self.objects.iter_mut().skip(1).flatten() {
            pass.check_again();
        }
        Vec::new()
    }

    /// What is wrong with objects of any phase before the server is asked.
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

    /// The containers that exist as the revision wants them. The others, and all of delegated phases, are still to
    /// come: nothing can be said of what is in them before.
    fn there(&self, ahead: &Ahead) -> BTreeSet<Position> {
        let containers = ahead.containers.iter();
        let there = containers.filter(|(container, at)| {
            let pass = self.objects[at.phase].get(at.object);
            pass.is_some_and(|pass| match container {
                Container::Namespace(_) => pass.live().is_some_and(|it| !is_terminating(it)),
                Container::Definition { .. } => pass.is_as_wanted() || pass.need() == Need::Nothing,
            })
        });
        there.map(|(_, at)| *at).collect()
    }

    /// Whether all that an object is in is there, or none of this revision's business.
    fn is_grounded(&self, ahead: &Ahead, there: &BTreeSet<Position>, at: Position) -> bool {
        let phase = &self.snapshot.phases[at.phase];
        let namespace = Container::Namespace(phase.objects[at.object].key.namespace.clone());
        [namespace, definition(phase, at.object)].iter().all(|it| {
            let container = ahead.earlier(it, at);
            container.is_none_or(|container| there.contains(&container))
        })
    }
}

/// What defines the kind of an object.
fn definition(phase: &Phase, object: usize) -> Container {
    let key = &phase.objects[object].key;
    Container::Definition {
        group: key.group.clone(),
        kind: key.kind.clone(),
    }
}
