//! The actions of foreign controllers on the phase objects of their classes.

use super::{
    Action, Life, OBJECTS, Record, Reported, State, System, World, bit, facts::gone, small,
};
use crate::world::UserAction;

/// An action of a foreign controller on a phase object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignAction {
    /// Add the finalizer.
    Hold,
    /// Remove the finalizer; the object is gone.
    Release,
    /// Report this; `Nothing` is a report on an earlier generation.
    Report(Reported),
    /// Report if the phase is paused.
    Pause,
}

impl System {
    /// The phase objects of foreign controllers.
    fn foreign_phases(&self, state: &State) -> impl Iterator<Item = (usize, Record)> {
        let actors = self.world.actors();
        let foreign = actors.filter(|actor| self.world.is_foreign(*actor));
        let phases = foreign.map(|actor| (actor, state.sets[actor].record));
        phases.filter(|(_, record)| record.exists())
    }

    /// The actions that foreign controllers may take next.
    pub(super) fn acts_of_foreigners(&self, state: &State, actions: &mut Vec<Action>) {
        let powers = &self.world.powers;
        for (actor, record) in self.foreign_phases(state) {
            let mut may = |deed| actions.push(Action::Foreign(small(actor), deed));
            match record.life {
                Life::Alive if !record.is_held => may(ForeignAction::Hold),
                Life::Deleting => may(ForeignAction::Release),
                _ => {}
            }
            // An earlier generation exists only if the object was paused or resumed.
            let is_edited = powers.contains(&UserAction::Pause(World::revision(actor)));
            let earlier = is_edited.then_some(Reported::Nothing);
            [Reported::Available, Reported::Not]
                .into_iter()
                .chain(earlier)
                .filter(|report| *report != record.status.reported)
                .for_each(|report| may(ForeignAction::Report(report)));
            if record.status.pauses != record.paused {
                may(ForeignAction::Pause);
            }
        }
    }

    pub(super) fn foreign(&self, state: &mut State, actor: usize, deed: ForeignAction) {
        let revision = World::revision(actor);
        let record = &mut state.sets[actor].record;
        match deed {
            ForeignAction::Hold => record.is_held = true,
            ForeignAction::Release => *record = gone(),
            ForeignAction::Pause => record.status.pauses = record.paused,
            ForeignAction::Report(reported) => {
                record.status.reported = reported;
                let delivered = (0..OBJECTS)
                    .filter(|object| self.world.is_elsewhere(revision, *object))
                    .fold(0, |bits, object| bits | bit(object));
                match reported {
                    // The objects in an earlier report stay.
                    Reported::Nothing => {}
                    Reported::Available => record.status.controls = delivered,
                    Reported::Not => record.status.controls = 0,
                }
            }
        }
    }

    /// Carries out all pending actions of foreign controllers.
    pub(crate) fn serve_foreign_phases(&self, state: &mut State) {
        let phases: Vec<_> = self.foreign_phases(state).collect();
        for (actor, record) in phases {
            let deeds: &[ForeignAction] = match record.life {
                Life::Deleting => &[ForeignAction::Release],
                _ => &[
                    ForeignAction::Hold,
                    ForeignAction::Report(Reported::Available),
                    ForeignAction::Pause,
                ],
            };
            for deed in deeds {
                self.foreign(state, actor, *deed);
            }
        }
    }

    /// True if this world has foreign controllers.
    pub(crate) fn has_foreigners(&self) -> bool {
        let mut actors = self.world.actors();
        actors.any(|actor| self.world.is_foreign(actor))
    }

    /// True if a revision cannot end before a foreign controller releases its phase object.
    #[must_use]
    pub fn is_kept_waiting(&self, state: &State, revision: usize) -> bool {
        let phase = World::phase_of(revision);
        self.world.is_foreign(phase) && state.sets[phase].record.life == Life::Deleting
    }
}
