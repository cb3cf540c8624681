//! The objects of an owner in a cluster: what the watches know of them, and the requests about them.

use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    object_pass::{Live, Settled},
    pass::Position,
    revision::{Desired, KindState, Kinds, Phase},
};
use baton_kubernetes::{account::Account, target::Target};
use futures::{StreamExt as _, stream};

/// A cluster as an owner of objects sees it.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a> {
    pub target: &'a Target,
    /// As whom they are written, if not as ourselves.
    pub account: Option<&'a Account>,
    /// Their kinds, as far as they are known.
    pub kinds: &'a Kinds,
}

impl Objects<'_> {
    /// What the watches know of a wanted object. A kind that is not watched, because it is not served, has none.
    pub(super) fn cached(&self, desired: &Desired) -> (Live, Option<Settled>) {
        let Some(state @ KindState::Served { .. }) = self.kinds.get(&desired.gvk) else {
            return (Live::Uncached, None);
        };
        let (gvk, key) = (state.through(&desired.gvk), &desired.key);
        let stored = self.target.get(&gvk, &key.namespace, &key.name);
        match stored {
            None => (Live::Uncached, None),
            Some(stored) => match stored.parse() {
                Ok(live) => (Live::Present(live), stored.settled),
                Err(_) => (Live::Unread, None),
            },
        }
    }

    /// Whether the account may read an object, so that what the manager reads of it may be reported.
    pub(super) async fn may_read(&self, gvk: &Gvk, key: &ObjectKey) -> bool {
        match self.account {
            Some(account) => self.target.hides(account, gvk, key).await.is_none(),
            None => true,
        }
    }

    /// Sends requests side by side.
    pub(super) async fn send(
        &self,
        phases: &[Phase],
        requests: Vec<(Position, Request)>,
    ) -> Vec<(Position, Request, Answer)> {
        let width = requests.len().max(1);
        stream::iter(requests)
            .map(|(at, request)| async move {
                let Desired { gvk, key, .. } = at.of(phases);
                // Only a teardown asks for objects in another version than that of their manifests.
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
