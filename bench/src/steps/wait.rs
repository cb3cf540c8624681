//! Waiting for the states of objects.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_hack::manager::Manager;
use tokio::time::Instant;

use crate::error::Error;
use crate::watch::{Object, ObjectEvent, Watch};

/// The wanted state of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedState {
    Available,
    ControlsNothing,
    Gone,
    Connected,
    Lost,
}

impl ExpectedState {
    /// The reason that an object is not in this state; `None` if it is.
    fn unmet(self, object: Option<&Object>) -> Option<String> {
        let is_met = object.map_or(self == Self::Gone, |object| match self {
            Self::Available => object.is_true("Available"),
            Self::ControlsNothing => object.status.controller_of.is_empty(),
            Self::Gone => false,
            Self::Connected => object.is_true("Connected"),
            Self::Lost => object
                .condition("Connected")
                .is_some_and(|connected| connected.status == "False"),
        });
        let connected = object.and_then(|object| object.condition("Connected"));
        (!is_met).then(|| match connected {
            Some(connected) => format!("{}: {}", connected.reason, connected.message),
            None => format!("not {self:?}"),
        })
    }
}

/// The objects to wait for, and those that were observed in the wanted state.
struct Waiting {
    /// By name, with the last observed state.
    wanted: BTreeMap<String, (ExpectedState, String)>,
    met: BTreeMap<String, Instant>,
}

impl Waiting {
    fn new(wanted: BTreeMap<String, ExpectedState>) -> Self {
        let unseen = |(name, wanted)| (name, (wanted, format!("not {wanted:?}")));
        Self {
            wanted: wanted.into_iter().map(unseen).collect(),
            met: BTreeMap::new(),
        }
    }

    fn take(&mut self, ObjectEvent { name, at, object }: ObjectEvent) {
        let Some((wanted, last)) = self.wanted.get_mut(&name) else {
            return;
        };
        if let Some(unmet) = wanted.unmet(object.as_ref()) {
            *last = unmet;
        } else {
            self.wanted.remove(&name);
            self.met.insert(name, at);
        }
    }
}

/// Waits until each object was observed in its wanted state, and returns the times.
pub(super) async fn until_met(
    manager: &mut Manager,
    watch: &mut Watch,
    what: &str,
    wanted: BTreeMap<String, ExpectedState>,
    limit: Duration,
) -> Result<BTreeMap<String, Instant>, Error> {
    let all = wanted.len();
    let mut waiting = Waiting::new(wanted);
    let looking = async {
        while !waiting.wanted.is_empty() {
            let Some(sight) = watch.next().await else {
                return;
            };
            waiting.take(sight);
        }
    };
    let looked = manager.until(what, limit, looking).await;
    looked.map_err(|error| {
        let some = waiting.wanted.iter().take(3);
        let some: Vec<String> = some
            .map(|(name, (_, last))| format!("{name}: {last}"))
            .collect();
        let missing = format!(
            "{} of {all} missing: {}",
            waiting.wanted.len(),
            some.join("; ")
        );
        error.with_detail(&missing)
    })?;
    Ok(waiting.met)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(status: &Value) -> Object {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "status": status})).unwrap()
    }

    #[test]
    fn an_expected_state_is_recorded_once() {
        let start = Instant::now();
        let mut waiting = Waiting::new(BTreeMap::from([
            ("new".to_owned(), ExpectedState::Available),
            ("old".to_owned(), ExpectedState::ControlsNothing),
            ("gone".to_owned(), ExpectedState::Gone),
        ]));
        let state = |available: bool, controls: usize| {
            let status = if available { "True" } else { "False" };
            let available = json!({"type": "Available", "status": status});
            let controls = vec![json!({"kind": "ConfigMap"}); controls];
            Some(object(
                &json!({"conditions": [available], "controllerOf": controls}),
            ))
        };
        let sights = [
            ("new", state(false, 1)),
            ("old", state(true, 1)),
            ("gone", state(true, 0)),
            ("stranger", None),
            ("new", state(true, 5)),
            ("new", state(true, 6)),
            ("old", state(true, 0)),
            ("gone", None),
        ];
        for (second, (name, object)) in (0..).zip(sights) {
            waiting.take(ObjectEvent {
                name: name.to_owned(),
                at: start + Duration::from_secs(second),
                object,
            });
        }
        assert!(waiting.wanted.is_empty());
        let met = waiting.met.values();
        let seconds: Vec<u64> = met.map(|at| (*at - start).as_secs()).collect();
        assert_eq!(seconds, [7, 4, 6], "gone, new, old");
    }

    #[test]
    fn an_unmet_cluster_reports_why_it_is_not_connected() {
        let unmet = |status: &Value| ExpectedState::Connected.unmet(Some(&object(status)));
        let connected = |status: &str, reason: &str, message: &str| {
            json!({"conditions": [
                {"type": "Audited", "status": "True", "reason": "Yes", "message": ""},
                {"type": "Connected", "status": status, "reason": reason, "message": message},
            ]})
        };
        assert_eq!(unmet(&connected("True", "Connected", "")), None);
        assert_eq!(
            unmet(&connected("False", "Unreachable", "refused")).unwrap(),
            "Unreachable: refused"
        );
        assert_eq!(unmet(&json!({})).unwrap(), "not Connected");
    }
}
