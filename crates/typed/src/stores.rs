//! The stores of kinds on which the same decisions depend.

use std::sync::Arc;

use baton_kubernetes::collection::Extent;
use baton_runtime::{
    controller::ReconcileKey,
    queue::Queue,
    source::{Source, Wake},
};
use futures::future::{BoxFuture, FutureExt as _, join_all};
use kube::Client;
use tokio::{sync::Notify, task::JoinSet};

use crate::{key::Kind, store::Store};

/// A store of any kind.
trait AnyStore: Send + Sync {
    fn follow(self: Arc<Self>, client: Client, defined: Arc<Notify>) -> BoxFuture<'static, ()>;
    fn listed(&self) -> BoxFuture<'_, ()>;
    fn extent(&self) -> Extent;
    fn became_unknown(&self) -> &Source<()>;
}

impl<K: Kind> AnyStore for Store<K> {
    fn follow(self: Arc<Self>, client: Client, defined: Arc<Notify>) -> BoxFuture<'static, ()> {
        Self::follow(self, client, defined).boxed()
    }

    fn listed(&self) -> BoxFuture<'_, ()> {
        self.listed().boxed()
    }

    fn extent(&self) -> Extent {
        self.extent()
    }

    fn became_unknown(&self) -> &Source<()> {
        &self.lost
    }
}

/// The stores of several kinds.
#[derive(Clone, Default)]
pub struct Stores {
    /// Stores of kinds with a definition.
    defined: Vec<Arc<dyn AnyStore>>,
    others: Vec<Arc<dyn AnyStore>>,
}

impl Stores {
    /// Adds the store of a kind with a definition.
    pub fn defined<K: Kind>(&mut self, store: Store<K>) -> Arc<Store<K>> {
        let store = Arc::new(store);
        self.defined.push(Arc::clone(&store) as _);
        store
    }

    /// Adds a store that another component fills.
    pub fn other<K: Kind>(&mut self, store: Store<K>) -> Arc<Store<K>> {
        let store = Arc::new(store);
        self.others.push(Arc::clone(&store) as _);
        store
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn AnyStore>> {
        self.defined.iter().chain(&self.others)
    }

    /// Starts to watch the kinds with a definition. `defined` reports that definitions were added
    /// or removed.
    pub fn follow(&self, client: &Client, defined: &Arc<Notify>, tasks: &mut JoinSet<()>) {
        for store in &self.defined {
            tasks.spawn(Arc::clone(store).follow(client.clone(), Arc::clone(defined)));
        }
    }

    /// Resolves when the kinds with a definition were listed once, or their list has failed, for
    /// instance because the definition is not installed.
    pub async fn listed(&self) {
        join_all(self.defined.iter().map(|store| store.listed())).await;
    }

    /// The common extent of all stores: [`Extent::All`] if all of them are complete. Otherwise
    /// controllers must not create or delete objects.
    pub fn extent(&self) -> Extent {
        let extents = self.all().map(|store| store.extent());
        extents.fold(Extent::All, Extent::and)
    }

    /// Wakes the keys that `keys` returns when a store no longer contains all objects of its kind.
    pub fn wake_when_lost<K: ReconcileKey, C: Send + Sync + 'static>(
        &self,
        queue: &Arc<Queue<K>>,
        controller: &Arc<C>,
        keys: fn(&C) -> Vec<Wake<K>>,
    ) {
        for store in self.all() {
            queue.wake_on(store.became_unknown(), controller, move |controller, ()| {
                keys(controller)
            });
        }
    }
}
