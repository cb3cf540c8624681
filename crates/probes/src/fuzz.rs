//! Properties of any probes and objects: an evaluation ends within its budget, and messages quote
//! only values that everybody may read.

use baton_apis::ObjectSetProbe;
use serde_json::Value;

use crate::cel::error::EvaluationError;
use crate::cel::testing::{quotes, with_unique_values};
use crate::{Probes, Verdict, budget::Budget};

/// Greatest length of a message about a probe, in bytes, besides the text of the probe.
const MAX_BESIDES: usize = 300;

#[test]
fn probes_are_bounded_and_quote_nothing() {
    bolero::check!(name = "probes")
        .with_iterations(300)
        .for_each(|input: &[u8]| {
            if let Ok(input) = serde_json::from_slice(input) {
                check(&input);
            }
        });
}

/// Checks the properties on an input, which has `probes`, and the `group`, `kind` and `object` to
/// evaluate them on.
fn check(input: &Value) {
    let Ok(specs) = serde_json::from_value::<Vec<ObjectSetProbe>>(input["probes"].clone()) else {
        return;
    };
    let text = input["probes"].to_string();
    let Ok(probes) = Probes::compile(&specs) else {
        return;
    };
    let is = |field: &str| input[field].as_str().unwrap_or_default();
    let (group, kind, object) = (is("group"), is("kind"), &input["object"]);
    let run = |units: u64, object: &Value| {
        let mut budget = Budget::new(units);
        let verdict = probes.evaluate(&mut budget, group, kind, object);
        (verdict, units - budget.left())
    };
    let all = Budget::default().left();
    let (verdict, spent) = run(all, object);
    assert_eq!(
        run(all, object),
        (verdict.clone(), spent),
        "the same each time"
    );
    if !probes.concern(group, kind) {
        assert_eq!(verdict, Verdict::True);
    }
    let count: usize = specs.iter().map(|spec| spec.probes.len() + 1).sum();
    assert!(
        messages(&verdict).concat().len() <= text.len() + count * MAX_BESIDES,
        "no longer than the probes, whatever the object: {verdict:?}"
    );
    let (less, _) = run(spent / 2, object);
    let spent_all = EvaluationError::PassTooExpensive.to_string();
    let gave_up = messages(&less)
        .iter()
        .any(|message| message.contains(&spent_all));
    assert!(
        less == verdict || gave_up,
        "{less:?}, with all it may spend {verdict:?}"
    );
    if !quotes(&text) {
        let (verdict, _) = run(all, &with_unique_values(object));
        assert!(!quotes(&messages(&verdict).concat()), "{verdict:?}");
    }
}

fn messages(verdict: &Verdict) -> &[String] {
    match verdict {
        Verdict::True => &[],
        Verdict::False(messages) | Verdict::Unknown(messages) => messages,
    }
}
