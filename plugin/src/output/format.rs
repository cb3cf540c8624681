//! Objects, times and names as kubectl prints them.

use std::time::Duration;

use baton_view::object::text_at;
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// How objects are printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As the server has them, as JSON.
    Json,
    /// As the server has them, as YAML.
    Yaml,
    /// `KIND.GROUP/NAME`, one per line: what other commands take.
    Name,
}

/// How one value is printed for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
}

/// Objects for programs. `single` prints a lone object as itself; otherwise JSON and YAML wrap them in a
/// `List`, as kubectl does.
pub(crate) fn objects(format: Format, objects: &[Value], single: bool) -> String {
    let form = match format {
        Format::Name => return objects.iter().map(|object| name(object) + "\n").collect(),
        Format::Json => DocumentFormat::Json,
        Format::Yaml => DocumentFormat::Yaml,
    };
    match objects {
        [object] if single => document(form, object),
        _ => document(
            form,
            &json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects }),
        ),
    }
}

/// A value as one JSON or YAML document.
pub(crate) fn document(form: DocumentFormat, value: &Value) -> String {
    let text = match form {
        DocumentFormat::Yaml => serde_saphyr::to_string(value).ok(),
        DocumentFormat::Json => None,
    };
    // JSON is YAML, should the other writer refuse something.
    let mut text = text.unwrap_or_else(|| format!("{value:#}"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// `kind.group/name`, or `kind/name` for the core group.
pub(crate) fn name(object: &Value) -> String {
    let kind = text_at(object, "/kind").to_lowercase();
    let name = text_at(object, "/metadata/name");
    match text_at(object, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// The first few of a list, and how many more there are: `a, b and 3 more`.
pub(crate) fn first(texts: &[String], few: usize) -> String {
    let shown = texts.get(..few).unwrap_or(texts).join(", ");
    match texts.len().saturating_sub(few) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// How long ago something was, as kubectl prints it: `12s`, `3m5s`, `12m`, `5h`, `2d`. Never negative.
pub(crate) fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        None => "<unknown>".to_owned(),
        Some(then) => {
            let elapsed = now.duration_since(then);
            duration(Duration::try_from(elapsed).unwrap_or_default())
        }
    }
}

/// A time as kubectl prints it, with two or three significant digits.
pub(crate) fn duration(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let seconds = time.as_secs();
    // The whole part in one unit, and what is left in the next one, left out when it is zero.
    let pair = |unit: u64, letter: char, next: u64, small: char| {
        let (whole, rest) = (seconds / unit, seconds % unit / next);
        if rest == 0 {
            format!("{whole}{letter}")
        } else {
            format!("{whole}{letter}{rest}{small}")
        }
    };
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=599 => pair(MINUTE, 'm', 1, 's'),
        600..=10_799 => format!("{}m", seconds / MINUTE),
        10_800..=28_799 => pair(HOUR, 'h', MINUTE, 'm'),
        28_800..=172_799 => format!("{}h", seconds / HOUR),
        172_800..=691_199 => pair(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_shortened() {
        let texts = ["a", "b", "c"].map(str::to_owned);
        for (count, few, expected) in [
            (0, 2, ""),
            (1, 2, "a"),
            (2, 2, "a, b"),
            (3, 2, "a, b and 1 more"),
            (3, 1, "a and 2 more"),
        ] {
            assert_eq!(first(&texts[..count], few), expected);
        }
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        const DAY: u64 = 86_400;
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 7200, "3d2h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (800 * DAY, "2y70d"),
            (3000 * DAY, "8y"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), expected);
        }
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(Timestamp::from_second(990).ok(), now), "10s");
        // Clocks differ.
        assert_eq!(age(Timestamp::from_second(1_001).ok(), now), "0s");
    }

    #[test]
    fn objects_are_printed_for_programs() {
        let web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let both = [web.clone(), map];
        assert_eq!(
            objects(Format::Name, &both, false),
            "deployment.apps/web\nconfigmap/a\n"
        );
        assert_eq!(
            objects(Format::Yaml, &both[..1], true),
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"
        );
        let list: Value = serde_json::from_str(&objects(Format::Json, &both, false)).unwrap();
        assert_eq!((&list["kind"], &list["items"][0]), (&json!("List"), &web));
        let list: Value = serde_json::from_str(&objects(Format::Json, &[], true)).unwrap();
        assert_eq!(list["items"], json!([]));
    }
}
