//! Requests of passes about phase objects, and the answers.

use super::{
    Alarm, Delegation, Dialogue, Dialogues, PhaseAnswer, Progress, TalkId, View,
    translate::delegation_answer,
};

impl Dialogues {
    /// The request of a pass about its phase object.
    #[must_use]
    pub fn delegation(&self, id: TalkId) -> Option<&Delegation> {
        let delegation = self.dialogue(id).delegation.as_ref();
        delegation.map(|(_, delegation)| delegation)
    }

    /// The state of a pass after an answer about the phase object.
    ///
    /// # Panics
    /// If the pass has no such request.
    pub fn answer_delegation(
        &mut self,
        id: TalkId,
        said: PhaseAnswer,
        view: View,
    ) -> (TalkId, Option<Alarm>) {
        if let Some(cached) = self.phase_answers.get(&(id, said, view)) {
            return *cached;
        }
        let talk = self.dialogue(id);
        let (prepared, mut progress) = (talk.prepared, talk.progress.clone());
        let (phase, _) = talk.delegation.clone().expect("it was asked");
        prepared.siblings.see(view);
        let answer = delegation_answer(&self.world, prepared.set, said);
        match &mut progress {
            Progress::Pass(pass) => pass.answer_delegation(phase, answer),
            Progress::Teardown(teardown) => teardown.answer_delegation(phase, answer),
        }
        let next = self.go_on(Dialogue {
            prepared,
            progress,
            pending: Vec::new(),
            delegation: None,
        });
        self.phase_answers.insert((id, said, view), next);
        next
    }
}
