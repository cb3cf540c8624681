//! The answer to a question by watches: read once, and given again after every change.

use baton_view::lists::{ListRequest, Need, NoAnswer, Question};

use super::Follow;
use crate::{
    cluster::{
        lists::{once, warn},
        watches::Watches,
    },
    connect::Cluster,
    error::Error,
};

/// Follows the answer to a question.
pub(crate) struct Follower<Q: Question> {
    question: Q,
    watches: Watches,
    /// The lists without which there is no answer.
    required: Vec<ListRequest>,
    last: Q::Answer,
    /// True if the last answer is of what the watches know.
    is_current: bool,
}

impl<Q: Question> Follower<Q> {
    /// Reads it once, then starts watching. What was read is in [`Follow::last`].
    ///
    /// # Errors
    /// Those of [`once`]: a watch would retry where an error has to be reported.
    pub(crate) async fn start(cluster: &Cluster, question: Q) -> Result<Self, Error> {
        Ok(Self {
            last: once(cluster, &question).await?,
            watches: Watches::trimmed(cluster, Q::trim),
            required: Vec::new(),
            is_current: false,
            question,
        })
    }

    /// The last answer, to be kept.
    pub(crate) fn into_last(self) -> Q::Answer {
        self.last
    }
}

impl<Q: Question> Follow for Follower<Q> {
    type Seen = Q::Answer;

    fn last(&self) -> &Q::Answer {
        &self.last
    }

    /// While a required list cannot be watched, or what it is about cannot be parsed, the last answer stays.
    async fn next(&mut self) -> bool {
        loop {
            if self.is_current || !self.watches.is_complete() {
                self.watches.changed().await;
                self.is_current = false;
            }
            let answer = self.question.answer(&self.watches.lists);
            let asked = self.watches.lists.take_asked();
            asked.warnings.iter().for_each(|text| warn(text));
            let required = asked.lists.iter();
            let required = required.filter(|(_, need)| **need == Need::Required);
            self.required = required.map(|(request, _)| request.clone()).collect();
            let wanted = asked.lists.into_keys();
            if matches!(answer, Err(NoAnswer::Unread)) {
                // What else it needs shows when these are there: what it needed before goes on.
                self.watches.add(wanted);
                continue;
            }
            self.is_current = true;
            if self.trouble().is_some() {
                return true;
            }
            self.watches.set(wanted);
            match answer {
                Ok(answer) => self.last = answer,
                Err(NoAnswer::Missing(_)) => return false,
                Err(_) => {}
            }
            return true;
        }
    }

    fn trouble(&self) -> Option<&str> {
        let mut required = self.required.iter();
        required.find_map(|request| self.watches.trouble(request))
    }
}
