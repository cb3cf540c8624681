//! Refusals to steer a rollout over sites.

use std::fmt::Display;

use baton_view::sites::{record::Records, steer::Refusal};

use crate::output::format::first;

/// The number of versions that a message names.
const MAX_NAMED: usize = 10;

/// A refusal about the named object.
pub fn refused(name: &impl Display, refusal: &Refusal) -> String {
    let text = match refusal {
        Refusal::Deleting => "it is being deleted",
        Refusal::NothingEarlier { version } => &format!(
            "no version was rolled out before {version}; choose one that `kubectl baton history` lists with \
             --to-version VERSION"
        ),
        Refusal::Paused => {
            "it is paused, so nothing would be brought to sites: resume it first, or change its version now with \
             --force"
        }
        Refusal::NoRollout => "there is no rollout yet",
        Refusal::Complete { rollout, version } => &format!(
            "there is nothing to abort: rollout {rollout} has brought version {version} to all sites that can be \
             reached; `kubectl baton rollback` goes back"
        ),
    };
    format!("{name}: {text}")
}

/// The message about a version without a record.
pub fn not_kept(version: &str, records: &Records) -> String {
    let versions = records.versions().into_iter();
    let versions: Vec<String> = versions.map(|record| record.version.clone()).collect();
    let kept = match versions.as_slice() {
        [] => "none is".to_owned(),
        [only] => format!("there is {only}"),
        all => format!("there are {}", first(all, MAX_NAMED)),
    };
    format!("version {version} is not kept; {kept}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_error_lists_the_kept_versions() {
        let record = |number: i64, version: &str| json!({ "revision": number, "data": { "version": version } });
        for (records, text) in [
            (vec![], "none is"),
            (vec![record(1, "1.0.0")], "there is 1.0.0"),
            (
                vec![record(1, "1.0.0"), record(2, "1.1.0")],
                "there are 1.1.0, 1.0.0",
            ),
        ] {
            let message = not_kept("9.9", &Records::from_objects(records));
            assert_eq!(message, format!("version 9.9 is not kept; {text}"));
        }
    }
}
