//! A revision as a client reads it, and the expectations that tests have of it.

use std::fmt;

use serde_json::Value;

/// An `ObjectSet` or `ClusterObjectSet` as the server returned it.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The whole object.
    pub json: Value,
}

impl Revision {
    /// Returns a condition of the status.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Value> {
        let conditions = self.json.pointer("/status/conditions")?.as_array()?;
        conditions
            .iter()
            .find(|condition| condition["type"] == type_)
    }

    /// Returns a field of a condition, or an empty text without the field.
    fn in_condition(&self, type_: &str, field: &str) -> &str {
        self.condition(type_)
            .and_then(|condition| condition[field].as_str())
            .unwrap_or_default()
    }

    /// Returns the message of a condition.
    #[must_use]
    pub fn message(&self, type_: &str) -> &str {
        self.in_condition(type_, "message")
    }

    /// Returns the objects in `status.controllerOf`, in order, as `Kind name` or `Kind.group name`.
    #[must_use]
    pub fn controller_of(&self) -> Vec<String> {
        let entries = self
            .json
            .pointer("/status/controllerOf")
            .and_then(Value::as_array);
        let text =
            |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let describe = |entry: &Value| match text(entry, "group") {
            group if group.is_empty() => {
                format!("{} {}", text(entry, "kind"), text(entry, "name"))
            }
            group => format!("{}.{group} {}", text(entry, "kind"), text(entry, "name")),
        };
        entries.into_iter().flatten().map(describe).collect()
    }

    /// Returns the number in `spec.revision`.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        self.json.pointer("/spec/revision")?.as_i64()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// Returns the UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.metadata("uid")
    }

    fn metadata(&self, field: &str) -> &str {
        self.json["metadata"][field].as_str().unwrap_or_default()
    }

    /// True if the revision satisfies all expectations.
    #[must_use]
    pub fn has(&self, wanted: &[Expectation<'_>]) -> bool {
        wanted.iter().all(|want| want.holds(self))
    }

    /// Fails unless the revision satisfies all expectations.
    pub fn assert(&self, wanted: &[Expectation<'_>]) {
        if let Some(want) = wanted.iter().find(|want| !want.holds(self)) {
            panic!(
                "{} was to have {want}, and has\n{}",
                self.name(),
                self.status()
            );
        }
    }

    /// Returns the status in a readable form.
    #[must_use]
    pub fn status(&self) -> String {
        serde_saphyr::to_string(&self.json["status"]).unwrap()
    }
}

/// An expectation of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation<'a> {
    /// A condition of this type has this status, and observes the current generation.
    Is(&'a str, &'a str),
    /// A condition of this type has this status and this reason, and observes the current
    /// generation.
    Because(&'a str, &'a str, &'a str),
    /// The message of the condition of this type contains this text.
    Says(&'a str, &'a str),
    /// There is no condition of this type.
    No(&'a str),
    /// `status.controllerOf` lists exactly these objects, in this order, as `Kind name` or
    /// `Kind.group name`.
    Controls(&'a [&'a str]),
    /// `status.phase` has this value.
    Phase(&'a str),
    /// `status.revision` has this value. For a deployment it is the number of the revision that its
    /// template requires.
    Revision(i64),
}

impl Expectation<'_> {
    fn holds(&self, revision: &Revision) -> bool {
        let current = |type_: &str| {
            revision.condition(type_).is_some_and(|condition| {
                condition["observedGeneration"] == revision.json["metadata"]["generation"]
            })
        };
        let field = |type_: &str, field: &str| revision.in_condition(type_, field).to_owned();
        match *self {
            Self::Is(type_, status) => field(type_, "status") == status && current(type_),
            Self::Because(type_, status, reason) => {
                field(type_, "status") == status
                    && field(type_, "reason") == reason
                    && current(type_)
            }
            Self::Says(type_, text) => field(type_, "message").contains(text),
            Self::No(type_) => revision.condition(type_).is_none(),
            Self::Controls(objects) => revision.controller_of() == objects,
            Self::Phase(phase) => {
                revision
                    .json
                    .pointer("/status/phase")
                    .and_then(Value::as_str)
                    == Some(phase)
            }
            Self::Revision(number) => revision.json["status"]["revision"] == number,
        }
    }
}

impl fmt::Display for Expectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(type_, status) => write!(f, "a current condition {type_}={status}"),
            Self::Because(type_, status, reason) => {
                write!(
                    f,
                    "a current condition {type_}={status} because of {reason}"
                )
            }
            Self::Says(type_, text) => write!(f, "a condition {type_} with {text:?}"),
            Self::No(type_) => write!(f, "no condition {type_}"),
            Self::Controls(objects) => write!(f, "control of exactly {objects:?}"),
            Self::Phase(phase) => write!(f, "the phase {phase}"),
            Self::Revision(number) => write!(f, "the revision {number} in its status"),
        }
    }
}
