//! Claims whose storage class does not exist: the server takes them, and they stay pending without a word.

use std::collections::BTreeMap;

use baton_engine::{
    Answer, Gvk, ObjectKey, Request,
    object_pass::Live,
    revision::{Desired, Kinds, Phase},
};
use baton_kubernetes::blockers::Blocker;
use baton_records::record::RecordKind;

use super::executor::Executor;

impl<K: RecordKind> Executor<'_, K> {
    /// Notes with each claim that is not bound whether its class does not exist, and returns these classes: their
    /// appearance has to wake the owner.
    ///
    /// One read for each class, in passes where such a claim is not bound. What cannot be read, or may not be told,
    /// counts as there.
    pub(super) async fn note_missing_classes(
        &self,
        phases: &mut [Phase],
        kinds: &Kinds,
    ) -> Vec<Blocker> {
        let mut classes: BTreeMap<String, bool> = BTreeMap::new();
        for phase in phases {
            if phase.delegated.is_some() {
                continue;
            }
            for claim in &mut phase.objects {
                let Some(class) = class_of(claim).filter(|_| !self.is_bound(claim, kinds)) else {
                    continue;
                };
                let is_missing = match classes.get(&class) {
                    Some(is_missing) => *is_missing,
                    None => self.is_missing(&class).await,
                };
                claim.lacks =
                    is_missing.then(|| format!("storage class \"{class}\" does not exist"));
                classes.insert(class, is_missing);
            }
        }
        let missing = classes.into_iter().filter(|(_, is_missing)| *is_missing);
        missing
            .map(|(class, _)| {
                let (gvk, key) = storage_class(&class);
                Blocker { gvk, key }
            })
            .collect()
    }

    fn is_bound(&self, claim: &Desired, kinds: &Kinds) -> bool {
        match self.cached(kinds, claim).0 {
            Live::Present(live) => live["status"]["phase"] == "Bound",
            Live::Unread | Live::Uncached | Live::Gone => false,
        }
    }

    async fn is_missing(&self, class: &str) -> bool {
        let (gvk, key) = storage_class(class);
        if let Some(account) = &self.account
            && self.target.hides(account, &gvk, &key).await.is_some()
        {
            return false;
        }
        let answer = self.target.send(None, &gvk, &key, &Request::Get).await;
        answer == Answer::NotFound
    }
}

/// The class that a claim names. An empty name asks for a volume without one.
fn class_of(object: &Desired) -> Option<String> {
    let is_claim = object.key.group.is_empty() && object.key.kind == "PersistentVolumeClaim";
    let class = object.manifest["spec"]["storageClassName"].as_str();
    class
        .filter(|class| is_claim && !class.is_empty())
        .map(ToOwned::to_owned)
}

fn storage_class(name: &str) -> (Gvk, ObjectKey) {
    let gvk = Gvk::new("storage.k8s.io/v1", "StorageClass");
    let key = gvk.key("", name);
    (gvk, key)
}
