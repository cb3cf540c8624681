//! Controllers: their declaration, and the workers that run them.

use std::{
    any::Any,
    fmt,
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use baton_engine::conditions::Requeue;
use futures::FutureExt as _;
use tokio::{sync::watch, task::JoinSet};
use tracing::{Instrument as _, Span, debug, error, warn};

use crate::{
    executor_turns::ExecutorTurns,
    memory::PassMemory,
    metrics::{ControllerMetrics, Metrics},
    outcomes::ReconcileOutcome,
    queue::{Lane, Queue},
};

/// The result of a reconcile, for the queue and the metrics.
pub type Reconciled = (ReconcileOutcome, Requeue);

/// The reason that a reconcile ended early. The object is requeued with a growing delay.
pub trait ReconcileError: std::error::Error + Send {
    /// True if the object has changed meanwhile. That is no failure: the next reconcile observes
    /// the change.
    fn is_change(&self) -> bool;

    /// The time after which an attempt may succeed; `None` if that is not known.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// Identifies an object that a controller reconciles.
pub trait ReconcileKey: Clone + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// The span of a reconcile, with kind, namespace and name of the object.
    fn span(&self) -> Span;

    /// The namespace for which the work is done; empty for cluster-scoped objects.
    fn namespace(&self) -> Arc<str>;
}

/// One control loop over one kind of objects, in both scopes.
///
/// The implementing type contains the state that only this controller needs.
pub trait Controller: Send + Sync + 'static {
    /// The label of the controller in metrics, in most cases its kind in lower case. Also the name
    /// under which it writes.
    const NAME: &'static str;

    /// Identifies the objects of the controller.
    type Key: ReconcileKey;

    /// The reason that a reconcile ends early.
    type Error: ReconcileError;

    /// Declares the triggers of the controller: maps the changes of its sources to keys, by
    /// [`Queue::wake_on`].
    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Self::Key>>);

    /// The cluster in which the work on an object is done; `None` if that is the manager's own.
    fn cluster(&self, _key: &Self::Key) -> Option<Arc<str>> {
        None
    }

    /// Limit in bytes of the memory that the values take which a reconcile parses; 0 (the default) if
    /// there are only a few.
    fn memory(&self, _key: &Self::Key) -> usize {
        0
    }

    /// The objects whose status has times that decisions depend on. They are reconciled when the time
    /// of day went back: the times are in the future then. None by default.
    fn timed(&self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// Brings one object closer to its desired state. `failures` is the number of its failed
    /// reconciles in a row.
    ///
    /// # Errors
    /// If a request failed for a reason that may pass. Errors in the object itself are reported in
    /// its status.
    fn reconcile(
        &self,
        key: &Self::Key,
        failures: u32,
    ) -> impl Future<Output = Result<Reconciled, Self::Error>> + Send;
}

/// Starts the work of a controller.
type Start = Box<dyn FnOnce(&mut JoinSet<()>, &watch::Sender<bool>) + Send>;

/// The resources that the passes of all controllers share.
#[derive(Clone)]
struct Shares {
    memory: PassMemory,
    turns: ExecutorTurns,
}

/// The controllers of a process.
pub struct Controllers {
    metrics: Metrics,
    shares: Shares,
    starts: Vec<Start>,
}

impl Controllers {
    /// Creates a set without controllers; those that are added count into `metrics`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            shares: Shares {
                memory: PassMemory::new(),
                turns: ExecutorTurns::default(),
            },
            starts: Vec::new(),
        }
    }

    /// Adds a controller that reconciles up to `workers` objects concurrently, and more if some are
    /// slow (see [`Queue`]). Its triggers fill the queue from now on; its work starts with
    /// [`Controllers::run`].
    #[must_use]
    pub fn with<C: Controller>(
        mut self,
        controller: C,
        queue: Arc<Queue<C::Key>>,
        workers: usize,
    ) -> Self {
        let controller = Arc::new(controller);
        // A weak reference, so that the queue does not keep its controller alive.
        let lanes = Arc::downgrade(&controller);
        let when_back = Arc::downgrade(&controller);
        queue.share(
            workers,
            move |key: &C::Key| Lane {
                namespace: key.namespace(),
                cluster: lanes.upgrade().and_then(|lanes| lanes.cluster(key)),
            },
            move || {
                let controller = when_back.upgrade();
                controller.map_or_else(Vec::new, |controller| controller.timed())
            },
        );
        controller.watches(&queue);
        let (metrics, shares) = (self.metrics.controller(C::NAME), self.shares.clone());
        self.starts.push(Box::new(move |tasks, closing| {
            let closing = closing.subscribe();
            tasks.spawn(work(controller, queue, (metrics, shares), closing));
        }));
        self
    }

    /// Runs the controllers until `stop` resolves; reconciles under way are finished first.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let (closing, _) = watch::channel(false);
        for start in self.starts {
            start(&mut tasks, &closing);
        }
        stop.await;
        closing.send_replace(true);
        while tasks.join_next().await.is_some() {}
    }
}

/// Starts a pass for each key of the queue. After `closing`, waits for the passes under way and
/// ends.
async fn work<C: Controller>(
    controller: Arc<C>,
    queue: Arc<Queue<C::Key>>,
    (metrics, shares): (ControllerMetrics, Shares),
    mut closing: watch::Receiver<bool>,
) {
    let mut passes = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = closing.changed() => break,
            Some(_) = passes.join_next() => {}
            (key, waited) = queue.next() => {
                metrics.waited(waited);
                let pass = Pass { key, queue: Arc::clone(&queue) };
                let (controller, metrics) = (Arc::clone(&controller), metrics.clone());
                let Shares { memory, turns } = shares.clone();
                passes.spawn(async move {
                    let namespace = pass.key.namespace();
                    let bytes = controller.memory(&pass.key);
                    let _share = memory.take(&namespace, bytes).await;
                    let reconciled = reconcile(&*controller, &pass.queue, &metrics, &pass.key);
                    turns.run(&namespace, reconciled).await;
                });
            }
        }
    }
    while passes.join_next().await.is_some() {}
}

/// A key that is worked on. It is given back when dropped, at any end of the pass.
struct Pass<K: ReconcileKey> {
    key: K,
    queue: Arc<Queue<K>>,
}

impl<K: ReconcileKey> Drop for Pass<K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

/// Runs one reconcile, with its log, its metrics, and the requeue policy.
///
/// A panic is a bug, and ends only the reconcile: the locks that are held meanwhile are those of
/// `parking_lot`, which stay usable, and the next reconcile makes up for writes that were not sent.
async fn reconcile<C: Controller>(
    controller: &C,
    queue: &Queue<C::Key>,
    metrics: &ControllerMetrics,
    key: &C::Key,
) {
    let started = Instant::now();
    let span = key.span();
    let failures = queue.failures(key);
    let reconciled = controller.reconcile(key, failures);
    let reconciled = AssertUnwindSafe(reconciled.instrument(span.clone()));
    let reconciled = reconciled.catch_unwind().await;
    let _entered = span.enter();
    let (outcome, requeue) = match reconciled {
        Ok(Ok(reconciled)) => reconciled,
        Err(panic) => {
            let cause = panic_text(&*panic);
            error!(
                cause,
                "reconcile panicked, requeued; this is a bug, please report it"
            );
            metrics.panicked();
            (ReconcileOutcome::Failed, Requeue::Backoff)
        }
        Ok(Err(error)) if error.is_change() => {
            debug!(%error, "the object has changed, requeued");
            (ReconcileOutcome::Conflict, Requeue::Backoff)
        }
        Ok(Err(error)) => {
            warn!(%error, "reconcile failed, requeued");
            let requeue = error.retry_after().map_or(Requeue::Backoff, Requeue::After);
            (ReconcileOutcome::Failed, requeue)
        }
    };
    metrics.reconciled(outcome, started.elapsed());
    metrics.set_queue_depth(queue.depth());
    debug!(outcome = outcome.as_str(), ?requeue, elapsed = ?started.elapsed(), "reconcile done");
    match requeue {
        Requeue::OnEvent => queue.forget(key),
        Requeue::After(delay) => {
            queue.forget(key);
            queue.add_after(key.clone(), delay);
        }
        Requeue::Backoff => queue.retry(key.clone()),
        Requeue::Refused => queue.refused(key.clone()),
    }
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use parking_lot::Mutex;
    use tokio::{sync::oneshot, time::Instant};

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Name(&'static str);

    impl ReconcileKey for Name {
        fn span(&self) -> Span {
            Span::none()
        }

        fn namespace(&self) -> Arc<str> {
            Arc::default()
        }
    }

    impl ReconcileError for Infallible {
        fn is_change(&self) -> bool {
            match *self {}
        }
    }

    /// Panics on `bad` while `left` is not 0. Records each key, its failures, and the time.
    struct Panics {
        left: Mutex<u32>,
        reconciled: Arc<Mutex<Vec<(Name, u32, Duration)>>>,
        start: Instant,
        done: Mutex<Option<oneshot::Sender<()>>>,
    }

    impl Controller for Panics {
        const NAME: &'static str = "panics";
        type Key = Name;
        type Error = Infallible;

        fn watches(self: &Arc<Self>, queue: &Arc<Queue<Name>>) {
            queue.add(Name("bad"));
            queue.add(Name("good"));
        }

        async fn reconcile(&self, key: &Name, failures: u32) -> Result<Reconciled, Infallible> {
            let reconciled = (key.clone(), failures, self.start.elapsed());
            self.reconciled.lock().push(reconciled);
            if key.0 == "bad" {
                let mut left = self.left.lock();
                if *left > 0 {
                    *left -= 1;
                    panic!("with the lock held");
                }
                self.done.lock().take().unwrap().send(()).unwrap();
            }
            Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_one_reconcile_and_is_counted_and_backed_off() {
        let metrics = Metrics::new();
        let (done, finished) = oneshot::channel();
        let reconciled = Arc::new(Mutex::new(Vec::new()));
        let controller = Panics {
            left: Mutex::new(3),
            reconciled: Arc::clone(&reconciled),
            start: Instant::now(),
            done: Mutex::new(Some(done)),
        };
        let queue = Arc::new(Queue::default());
        let controllers = Controllers::new(&metrics).with(controller, Arc::clone(&queue), 1);
        let ended = controllers.run(async { finished.await.unwrap() });
        tokio::time::timeout(Duration::from_mins(1), ended)
            .await
            .expect("the worker lives on and tries again");
        let reconciled = reconciled.lock().clone();
        let names: Vec<_> = reconciled
            .iter()
            .map(|(name, failures, _)| (name.0, *failures))
            .collect();
        let expected = [("bad", 0), ("good", 0), ("bad", 1), ("bad", 2), ("bad", 3)];
        assert_eq!(names, expected);
        assert!(
            reconciled[4].2 > reconciled[2].2,
            "the delay grows: {reconciled:?}"
        );
        assert_eq!(queue.failures(&Name("bad")), 0, "forgotten after a success");
        assert_eq!(
            metrics.series("baton_reconcile_panics_total"),
            [r#"baton_reconcile_panics_total{controller="panics"} 3"#]
        );
    }
}
