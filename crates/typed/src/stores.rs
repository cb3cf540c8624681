//! The stores of several kinds that are decided by together.

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

/// A store, whatever its kind.
trait AnyStore: Send + Sync {
    fn follow(self: Arc<Self>, client: Client, defined: Arc<Notify>) -> BoxFuture<'static, ()>;
    fn listed(&self) -> BoxFuture<'_, ()>;
    fn extent(&self) -> Extent;
    fn lost(&self) -> &Source<()>;
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

    fn lost(&self) -> &Source<()> {
        &self.lost
    }
}

/// The stores of several kinds.
#[derive(Clone, Default)]
pub struct Stores {
    /// Those of kinds with a definition.
    defined: Vec<Arc<dyn AnyStore>>,
    others: Vec<Arc<dyn AnyStore>>,
}

impl Stores {
    /// Adds that of a kind with a definition.
    pub fn defined<K: Kind>(&mut self, store: Store<K>) -> Arc<Store<K>> {
        let store = Arc::new(store);
        self.defined.push(Arc::clone(&store) as _);
        store
    }

    /// Adds one that somebody else follows.
    pub fn other<K: Kind>(&mut self, store: Store<K>) -> Arc<Store<K>> {
        let store = Arc::new(store);
        self.others.push(Arc::clone(&store) as _);
        store
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn AnyStore>> {
        self.defined.iter().chain(&self.others)
    }

    /// Starts to follow the kinds with a definition. `defined` reports that definitions came or went.
    pub fn follow(&self, client: &Client, defined: &Arc<Notify>, tasks: &mut JoinSet<()>) {
        for store in &self.defined {
            tasks.spawn(Arc::clone(store).follow(client.clone(), Arc::clone(defined)));
        }
    }

    /// Resolves when the kinds with a definition were listed once, or could not be, as where it is not installed.
    pub async fn listed(&self) {
        join_all(self.defined.iter().map(|store| store.listed())).await;
    }

    /// How much is known of which objects there are. While it is not all, nothing is made or deleted.
    pub fn extent(&self) -> Extent {
        let extents = self.all().map(|store| store.extent());
        extents.fold(Extent::All, Extent::and)
    }

    /// Wakes keys when something is not known any more.
    pub fn wake_when_lost<K: ReconcileKey, C: Send + Sync + 'static>(
        &self,
        queue: &Arc<Queue<K>>,
        controller: &Arc<C>,
        keys: fn(&C) -> Vec<Wake<K>>,
    ) {
        for store in self.all() {
            queue.wake_on(store.lost(), controller, move |controller, ()| {
                keys(controller)
            });
        }
    }
}
