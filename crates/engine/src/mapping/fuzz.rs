//! Conditions from any reports of objects and controllers: the copies fit into a status, and the
//! server accepts them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use baton_apis::conditions::{AVAILABLE, MAX_MESSAGE_LENGTH, Reason};
use jiff::Timestamp;
use regex::Regex;

use super::*;
use crate::condition_list::Conditions;

/// Greatest size of the types, reasons and messages of all mapped conditions.
const MAX_BYTES: usize = 10 * 1024;
/// Greatest lengths of a reason and a type in the API.
const LONGEST_REASON: usize = 1024;
const LONGEST_TYPE: usize = 316;

/// The pattern of the API conventions:
/// <https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Condition>.
static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    let text = concat!(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    );
    Regex::new(text).expect("a pattern")
});
static REASON: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$").expect("a pattern"));

#[test]
fn mapped_conditions_are_valid_in_a_status() {
    bolero::check!(name = "mapping")
        .with_iterations(300)
        .for_each(|input: &[u8]| {
            if let Ok(input) = serde_json::from_slice(input) {
                check(&input);
            }
        });
}

/// An input has `objects`, each with its `mappings` and `live`; the `conditions` of a phase object;
/// the `previous` conditions of the revision; and a number of repetitions for the texts.
fn check(input: &Value) {
    let repeat = input["repeat"].as_u64().unwrap_or(1).min(10_000);
    let mut found = Vec::new();
    for object in input["objects"].as_array().into_iter().flatten() {
        let Ok(mappings) = serde_json::from_value::<Vec<_>>(object["mappings"].clone()) else {
            continue;
        };
        let mappings: Vec<ConditionMapping> = mappings;
        // Other mappings are refused before the first write.
        let mappings: Vec<_> = mappings
            .into_iter()
            .filter(|mapping| is_mapped(&mapping.destination_type))
            .collect();
        found.extend(mapped(&mappings, &object["live"]));
    }
    // The server has validated these conditions.
    let generation = input["generation"].as_i64().unwrap_or(1);
    let [conditions, previous] = ["conditions", "previous"].map(|field| {
        let conditions = serde_json::from_value(input[field].clone());
        let conditions: Vec<Condition> = conditions.unwrap_or_default();
        unique(conditions)
    });
    found.extend(handed_up(&conditions, generation));
    for condition in &mut found {
        condition.message = repeated(&condition.message, repeat);
    }
    let types: BTreeSet<_> = found.iter().map(|mapped| mapped.type_.clone()).collect();

    let mut list = Conditions::new(&previous, generation, Timestamp::UNIX_EPOCH);
    list.set(AVAILABLE, "False", Reason::ProbeFailure, "not yet");
    list.map(found.clone());
    let written = list.into_list();

    let available = written.iter().filter(|c| c.type_ == AVAILABLE);
    let available: Vec<_> = available.map(|c| (&*c.status, &*c.message)).collect();
    assert_eq!(
        available,
        [("False", "not yet")],
        "our own ones stay: {written:?}"
    );
    let mut size = 0;
    for condition in &written {
        assert!(is_acceptable(condition), "{condition:?}");
        if condition.type_.contains('/') {
            assert!(
                types.contains(&condition.type_),
                "no mapping produced it: {condition:?}"
            );
            size += condition.type_.len() + condition.reason.len() + condition.message.len();
        }
    }
    assert!(size <= MAX_BYTES, "{size}");
    assert_eq!(unique(written.clone()), written, "each type is there once");
    // The same conditions again change nothing.
    let mut again = Conditions::new(&written, generation, Timestamp::MAX);
    again.map(found);
    assert_eq!(again.into_list(), written);
}

/// True if preflight and the schema accept a mapping to this type.
fn is_mapped(type_: &str) -> bool {
    type_.contains('/') && is_condition_type(type_)
}

fn is_acceptable(condition: &Condition) -> bool {
    condition.type_.len() <= LONGEST_TYPE
        && TYPE.is_match(&condition.type_)
        && condition.reason.len() <= LONGEST_REASON
        && REASON.is_match(&condition.reason)
        && ["True", "False", "Unknown"].contains(&&*condition.status)
        && condition.message.len() <= MAX_MESSAGE_LENGTH
}

/// The conditions that a server accepts in a status.
fn unique(mut conditions: Vec<Condition>) -> Vec<Condition> {
    let mut types = BTreeSet::new();
    conditions
        .retain(|condition| is_acceptable(condition) && types.insert(condition.type_.clone()));
    conditions
}

fn repeated(text: &str, times: u64) -> String {
    let times = usize::try_from(times).unwrap_or_default();
    text.repeat(times.min(100_000 / text.len().max(1)).max(1))
}
