//! The objects of an owner in a cluster: the cached ones, and the requests about them.

use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    object_pass::{AppliedFingerprints, Live},
    pass::Position,
    revision::{Desired, KindState, Kinds, Phase},
};
use baton_kubernetes::{account::Account, target::Target};
use futures::{StreamExt as _, stream};

/// A cluster, from the view of an owner of objects.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a> {
    pub target: &'a Target,
    /// The account that writes the objects; `None` for the controller's own.
    pub account: Option<&'a Account>,
    /// The state of their kinds.
    pub kinds: &'a Kinds,
}

impl Objects<'_> {
    /// The cached state of a wanted object. There is none for a kind that is not served and
    /// therefore not watched.
    pub(super) fn cached(&self, desired: &Desired) -> (Live, Option<AppliedFingerprints>) {
        let Some(state @ KindState::Served { .. }) = self.kinds.get(&desired.gvk) else {
            return (Live::Uncached, None);
        };
        let (gvk, key) = (state.through(&desired.gvk), &desired.key);
        let stored = self.target.get(&gvk, &key.namespace, &key.name);
        match stored {
            None => self.ended(&gvk, desired).unwrap_or((Live::Uncached, None)),
            Some(stored) => match stored.parse() {
                Ok(live) => (Live::Present(live), stored.settled),
                Err(_) => (Live::Unread, None),
            },
        }
    }

    /// The last state of an object that has ended and is gone.
    fn ended(&self, gvk: &Gvk, desired: &Desired) -> Option<(Live, Option<AppliedFingerprints>)> {
        let key = &desired.key;
        let last = self.target.ended(gvk, &key.namespace, &key.name)?;
        Some((Live::Ended(last.parse().ok()?), last.settled))
    }

    /// True if the account may read an object, so that its content may be reported.
    pub(super) async fn may_read(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        match self.account {
            Some(account) => self.target.hides(account, gvk, key).await.is_none(),
            None => true,
        }
    }

    /// Sends requests concurrently.
    pub(super) async fn send(
        &self,
        phases: &[Phase],
        requests: Vec<(Position, Request)>,
    ) -> Vec<(Position, Request, Answer)> {
        let width = requests.len().max(1);
        stream::iter(requests)
            .map(|(at, request)| async move {
                let Desired { gvk, key, .. } = at.of(phases);
                // The versions differ only in a teardown.
                let state = self.kinds.get(gvk);
                let gvk = state.map_or_else(|| gvk.clone(), |state| state.through(gvk));
                let sent = self.target.send(self.account, &gvk, key, &request);
                let answer = sent.await;
                (at, request, answer)
            })
            .buffer_unordered(width)
            .collect()
            .await
    }
}
