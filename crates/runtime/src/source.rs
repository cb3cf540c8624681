//! Sources of changes, and the triggers that map a change to objects to reconcile.

use std::{hash::Hash, sync::Arc, time::Duration};

use parking_lot::RwLock;

use crate::queue::Queue;

/// A source of changes that wake controllers: a store, a watch, a connection.
///
/// # Caveats
/// Subscribers run one after the other on the thread that emits, so they must neither block nor
/// emit to the same source.
pub struct Source<E> {
    subscribers: RwLock<Vec<Subscriber<E>>>,
}

type Subscriber<E> = Box<dyn Fn(&E) + Send + Sync>;

impl<E> Default for Source<E> {
    fn default() -> Self {
        Self {
            subscribers: RwLock::default(),
        }
    }
}

impl<E> Source<E> {
    /// Calls `subscriber` with each change from now on.
    pub fn subscribe(&self, subscriber: impl Fn(&E) + Send + Sync + 'static) {
        self.subscribers.write().push(Box::new(subscriber));
    }

    /// Passes a change to all subscribers.
    pub fn emit(&self, change: &E) {
        for subscriber in self.subscribers.read().iter() {
            subscriber(change);
        }
    }
}

/// An object to reconcile because of a change, and the delay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake<K> {
    /// The object to reconcile.
    pub key: K,
    /// Time to wait for further changes, so that a burst of changes causes one pass.
    pub after: Duration,
}

impl<K> Wake<K> {
    /// Wakes the object as soon as possible.
    pub fn now(key: K) -> Self {
        Self {
            key,
            after: Duration::ZERO,
        }
    }

    /// Wakes the object after a delay, or earlier if another trigger does.
    pub fn after(delay: Duration, key: K) -> Self {
        Self { key, after: delay }
    }
}

impl<K: Clone + Eq + Ord + Hash + Send + 'static> Queue<K> {
    /// Adds the keys to which `trigger` maps each change of a source, until `controller` is
    /// dropped. A trigger gets the controller as its first argument: a reference of its own would
    /// keep the controller, and in most cases the source, alive forever.
    pub fn wake_on<E, T, I>(
        self: &Arc<Self>,
        source: &Source<E>,
        controller: &Arc<T>,
        trigger: impl Fn(&T, &E) -> I + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        I: IntoIterator<Item = Wake<K>>,
    {
        let (queue, controller) = (Arc::clone(self), Arc::downgrade(controller));
        source.subscribe(move |change| {
            if let Some(controller) = controller.upgrade() {
                for wake in trigger(&controller, change) {
                    queue.wake(wake);
                }
            }
        });
    }

    /// Adds the key of an object to reconcile, now or after the delay of `wake`.
    pub fn wake(&self, wake: Wake<K>) {
        if wake.after.is_zero() {
            self.add(wake.key);
        } else {
            self.add_after(wake.key, wake.after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_trigger_maps_each_change_to_keys() {
        let source = Source::default();
        let (queue, controller) = (Arc::new(Queue::default()), Arc::new(1));
        queue.wake_on(&source, &controller, |least, change: &u32| {
            (change > least).then(|| Wake::now(change * 10))
        });
        queue.wake_on(&source, &controller, |_, change| {
            [Wake::after(Duration::from_secs(3), change + 100)]
        });
        source.emit(&1);
        source.emit(&2);
        assert_eq!(queue.next().await.0, 20);
        assert_eq!(queue.next().await.0, 101);
        assert_eq!(queue.next().await.0, 102);
    }

    /// A controller refers to its sources, which refer to their triggers.
    #[tokio::test]
    async fn a_trigger_does_not_keep_its_controller() {
        struct Controller(Source<u32>);
        let (queue, controller) = (
            Arc::new(Queue::default()),
            Arc::new(Controller(Source::default())),
        );
        let gone = Arc::downgrade(&controller);
        queue.wake_on(&controller.0, &controller, |_, change| [Wake::now(*change)]);
        controller.0.emit(&1);
        assert_eq!(queue.next().await.0, 1);
        drop(controller);
        assert!(gone.upgrade().is_none());
    }
}
