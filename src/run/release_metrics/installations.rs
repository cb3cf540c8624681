//! The time until a Release is installed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use baton_apis::{
    Application, ConditionStatus, Release, conditions::shipper::CONTENDER_ACHIEVED_INSTALLATION,
    constants::shipper::LABEL_APP, metrics::TIME_TO_INSTALLATION,
};
use baton_runtime::clock::Clock;
use baton_typed::store::Change;
use jiff::Timestamp;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use prometheus_client::{metrics::histogram::Histogram, registry::Registry};

use super::elapsed;
use crate::controllers::releases::Stores;

/// Bucket bounds, in seconds.
const INSTALLATIONS: [f64; 8] = [0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];
/// Edits older than this are dropped and not measured.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Registers the histogram, and starts to measure.
pub(super) fn register(registry: &mut Registry, stores: &Stores, clock: &Clock) {
    let seconds = Histogram::new(INSTALLATIONS);
    let family = TIME_TO_INSTALLATION;
    registry.register(family.name, family.help, seconds.clone());
    let watch = Arc::new(Installations::new(seconds, clock.clone()));
    let on_application = Arc::clone(&watch);
    let changes = &stores.applications.changes;
    changes.subscribe(move |change| on_application.application(change));
    let changes = &stores.releases.changes;
    changes.subscribe(move |change| watch.release(change));
}

/// Times of the last edit of Applications whose newest Release is not installed yet, by namespace
/// and name.
pub(super) struct Installations {
    seconds: Histogram,
    clock: Clock,
    edited: Mutex<HashMap<(String, String), Timestamp>>,
}

impl Installations {
    /// Starts without edits; times are observed in `seconds`.
    pub(super) fn new(seconds: Histogram, clock: Clock) -> Self {
        Self {
            seconds,
            clock,
            edited: Mutex::default(),
        }
    }

    pub(super) fn application(&self, change: &Change<Application>) {
        let Some(new) = &change.new else {
            return;
        };
        let key = (new.namespace().unwrap_or_default(), new.name_any());
        let now = self.clock.now();
        let mut edited = self.edited.lock();
        edited.retain(|_, since| elapsed(*since, now) < MAX_AGE.as_secs_f64());
        match &change.old {
            Some(old) if old.spec.template != new.spec.template => {
                edited.insert(key, now);
            }
            // An Application with a history existed before this process.
            None if new
                .status
                .as_ref()
                .is_none_or(|status| status.history.is_empty()) =>
            {
                let created = new.creation_timestamp().map_or(now, |created| created.0);
                edited.insert(key, created);
            }
            _ => {}
        }
    }

    pub(super) fn release(&self, change: &Change<Release>) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            return;
        };
        if new.spec.target_step != 0 || is_installed(old) || !is_installed(new) {
            return;
        }
        let namespace = new.namespace().unwrap_or_default();
        let application = new.labels().get(LABEL_APP).cloned().unwrap_or_default();
        let since = self.edited.lock().remove(&(namespace, application));
        if let Some(since) = since {
            self.seconds.observe(elapsed(since, self.clock.now()));
        }
    }
}

fn is_installed(release: &Release) -> bool {
    let strategy = release.status.as_ref().and_then(|it| it.strategy.as_ref());
    let conditions = strategy.map(|strategy| strategy.conditions.as_slice());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| {
        condition.type_ == CONTENDER_ACHIEVED_INSTALLATION
            && condition.status == ConditionStatus::True
    })
}
