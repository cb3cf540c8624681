mod clocks;
mod properties;
mod texts;

use baton_apis::SiteApplication;
use jiff::{Timestamp, ToSpan};

use super::*;

/// A window as `cron | duration | zone`; without a zone in UTC.
fn window(text: &str) -> UpgradeWindow {
    let mut parts = text.split('|').map(|part| part.trim().to_owned());
    UpgradeWindow {
        cron: parts.next().unwrap(),
        duration: parts.next().unwrap(),
        time_zone: parts.next(),
    }
}

fn windows(texts: &[&str]) -> Windows {
    let list: Vec<UpgradeWindow> = texts.iter().map(|text| window(text)).collect();
    Windows::compile(&list).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The spans within `[from, until)` in which the windows are open, in steps of a minute.
fn open_spans(windows: &Windows, from: &str, until: &str) -> Vec<(String, String)> {
    let mut spans = Vec::new();
    let mut opened = None;
    let mut now = at(from);
    while now <= at(until) {
        match (windows.is_open(now) && now < at(until), opened) {
            (true, None) => opened = Some(now),
            (false, Some(since)) => {
                spans.push((since.to_string(), now.to_string()));
                opened = None;
            }
            _ => {}
        }
        now += 1.minute();
    }
    spans
}

fn check_spans(texts: &[&str], from: &str, until: &str, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(from, until)| ((*from).to_owned(), (*until).to_owned()))
        .collect();
    assert_eq!(
        open_spans(&windows(texts), from, until),
        expected,
        "{texts:?}"
    );
}

#[test]
fn an_empty_list_of_windows_is_always_open() {
    let none = Windows::compile(&[]).unwrap();
    let now = at("2026-06-01T12:34:56.789Z");

    assert!(none.is_open(now));
    assert_eq!(none.next_opening(now), Some(now));
    assert!(both(&none, &Windows::default()).is_open(now));
}

#[test]
fn a_window_is_open_from_its_opening_until_its_duration_is_over() {
    let window = windows(&["30 2 * * * | 1h30m"]);
    for (now, is_open, next) in [
        (
            "2026-06-01T02:29:59.999999999Z",
            false,
            "2026-06-01T02:30:00Z",
        ),
        ("2026-06-01T02:30:00Z", true, "2026-06-01T02:30:00Z"),
        (
            "2026-06-01T02:30:00.000000001Z",
            true,
            "2026-06-01T02:30:00.000000001Z",
        ),
        (
            "2026-06-01T03:59:59.999999999Z",
            true,
            "2026-06-01T03:59:59.999999999Z",
        ),
        ("2026-06-01T04:00:00Z", false, "2026-06-02T02:30:00Z"),
    ] {
        assert_eq!(window.is_open(at(now)), is_open, "{now}");
        assert_eq!(window.next_opening(at(now)), Some(at(next)), "{now}");
    }
}

#[test]
fn a_window_reaches_across_midnight_months_and_years() {
    check_spans(
        &["0 22 * * * | 4h"],
        "2026-12-31T21:00:00Z",
        "2027-01-01T04:00:00Z",
        &[("2026-12-31T22:00:00Z", "2027-01-01T02:00:00Z")],
    );
    // The window is open from Friday evening to Monday morning.
    let weekend = windows(&["0 18 * * FRI | 60h"]);
    assert!(weekend.is_open(at("2026-06-07T12:00:00Z")));
    assert!(weekend.is_open(at("2026-06-08T05:59:59Z")));
    assert!(!weekend.is_open(at("2026-06-08T06:00:00Z")));
}

#[test]
fn openings_that_overlap_keep_a_window_open() {
    let hourly = windows(&["0 * * * * | 2h"]);
    let mut now = at("2026-03-28T22:00:00Z");
    while now < at("2026-03-30T00:00:00Z") {
        assert!(hourly.is_open(now), "{now}");
        now += 10.minutes();
    }
    // Consecutive windows have no gap of a second.
    let touching = windows(&["0 * * * * | 1h"]);
    assert!(touching.is_open(at("2026-06-01T02:59:59.999Z")));
    assert!(touching.is_open(at("2026-06-01T03:00:00Z")));
}

#[test]
fn a_list_is_open_while_any_of_its_windows_is() {
    check_spans(
        &["0 2 * * * | 1h", "30 2 * * * | 1h", "0 6 * * * | 15m"],
        "2026-06-01T00:00:00Z",
        "2026-06-02T00:00:00Z",
        &[
            ("2026-06-01T02:00:00Z", "2026-06-01T03:30:00Z"),
            ("2026-06-01T06:00:00Z", "2026-06-01T06:15:00Z"),
        ],
    );
}

#[test]
fn expressions_open_when_a_cron_job_would_run() {
    for (cron, now, next) in [
        // 2026-06-01 is a Monday.
        (
            "*/15 * * * *",
            "2026-06-01T00:01:00Z",
            "2026-06-01T00:15:00Z",
        ),
        (
            "5/15 * * * *",
            "2026-06-01T00:06:00Z",
            "2026-06-01T00:20:00Z",
        ),
        (
            "0 2-4,22 * * *",
            "2026-06-01T04:30:00Z",
            "2026-06-01T22:00:00Z",
        ),
        (
            "0 2 * * SUN",
            "2026-06-01T00:00:00Z",
            "2026-06-07T02:00:00Z",
        ),
        ("0 2 * * 0", "2026-06-01T00:00:00Z", "2026-06-07T02:00:00Z"),
        ("0 2 * * 7", "2026-06-01T00:00:00Z", "2026-06-07T02:00:00Z"),
        (
            "0 2 * * sat,Sun",
            "2026-06-01T00:00:00Z",
            "2026-06-06T02:00:00Z",
        ),
        (
            "0 2 * * mon-fri",
            "2026-06-05T12:00:00Z",
            "2026-06-08T02:00:00Z",
        ),
        (
            "0 2 1 JAN,jul *",
            "2026-06-01T12:00:00Z",
            "2026-07-01T02:00:00Z",
        ),
        ("0 2 ? * 3", "2026-06-01T12:00:00Z", "2026-06-03T02:00:00Z"),
        // Either day suffices when both are restricted.
        (
            "0 2 15 * FRI",
            "2026-06-12T12:00:00Z",
            "2026-06-15T02:00:00Z",
        ),
        (
            "0 2 15 * FRI",
            "2026-06-15T12:00:00Z",
            "2026-06-19T02:00:00Z",
        ),
        ("@daily", "2026-06-01T12:00:00Z", "2026-06-02T00:00:00Z"),
        ("@weekly", "2026-06-01T12:00:00Z", "2026-06-07T00:00:00Z"),
        (
            "  0  2 * * *  ",
            "2026-06-01T12:00:00Z",
            "2026-06-02T02:00:00Z",
        ),
        // Leap years.
        ("0 0 29 2 *", "2026-06-01T12:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2096-06-01T12:00:00Z", "2104-02-29T00:00:00Z"),
        // Days that depend on the month.
        (
            "0 2 * * SUN#2",
            "2026-06-01T00:00:00Z",
            "2026-06-14T02:00:00Z",
        ),
        ("0 2 * * 5L", "2026-06-01T00:00:00Z", "2026-06-26T02:00:00Z"),
        ("0 2 L * *", "2026-02-01T00:00:00Z", "2026-02-28T02:00:00Z"),
        (
            "0 2 15W * *",
            "2026-08-01T00:00:00Z",
            "2026-08-14T02:00:00Z",
        ),
        ("0 2 LW * *", "2026-05-01T00:00:00Z", "2026-05-29T02:00:00Z"),
    ] {
        let window = windows(&[&format!("{cron} | 1m")]);
        assert_eq!(
            window.next_opening(at(now)),
            Some(at(next)),
            "{cron:?} after {now}"
        );
    }
}

#[test]
fn with_two_lists_both_have_to_be_open() {
    let owner = windows(&["0 2 * * * | 4h"]);
    let site = windows(&["0 5 * * SUN | 2h", "0 0 1 * * | 1h"]);
    let both = both(&owner, &site);

    // Sunday, 2026-06-07.
    assert!(!both.is_open(at("2026-06-07T04:59:59Z")));
    assert!(both.is_open(at("2026-06-07T05:00:00Z")));
    assert!(!both.is_open(at("2026-06-07T06:00:00Z")));
    assert_eq!(
        both.next_opening(at("2026-06-01T00:30:00Z")),
        Some(at("2026-06-07T05:00:00Z"))
    );
    assert_eq!(
        both.next_opening(at("2026-06-07T06:00:00Z")),
        Some(at("2026-06-14T05:00:00Z"))
    );
}

#[test]
fn an_empty_list_leaves_the_decision_to_the_other_one() {
    let none = Windows::default();
    let nightly = windows(&["0 2 * * * | 1h"]);
    let now = at("2026-06-01T12:00:00Z");
    for both in [both(&none, &nightly), both(&nightly, &none)] {
        assert!(!both.is_open(now));
        assert_eq!(both.next_opening(now), Some(at("2026-06-02T02:00:00Z")));
    }
}

#[test]
fn a_common_opening_of_two_lists_is_found_years_ahead() {
    let owner = windows(&["0 0 29 2 * | 1h"]);
    let site = windows(&["0 0 * * SUN | 1h"]);

    // The next leap day that is a Sunday.
    assert_eq!(
        both(&owner, &site).next_opening(at("2026-06-01T00:00:00Z")),
        Some(at("2032-02-29T00:00:00Z"))
    );
}

#[test]
fn lists_without_a_common_opening_have_no_next_opening() {
    let now = at("2026-06-01T00:00:00Z");
    for (owner, site) in [
        ("0 2 * * MON | 1h", "0 2 * * TUE | 1h"),
        ("0 2 * * * | 1h", "0 3 * * * | 1h"),
        ("*/2 * * * * | 1m", "1-59/2 * * * * | 1m"),
    ] {
        let both = both(&windows(&[owner]), &windows(&[site]));
        assert_eq!(both.next_opening(now), None, "{owner} and {site}");
    }
}

#[test]
fn the_window_of_the_sample_is_always_open() {
    let text = include_str!("../../../../config/samples/40-site-application.yaml");
    let sample: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let sample: SiteApplication = serde_json::from_value(sample).unwrap();
    let windows = Windows::compile(&sample.spec.upgrade_windows).unwrap();
    for time in [
        "2026-06-01T19:59:59Z",
        "2026-06-01T20:00:00Z",
        "2026-10-25T00:59:59Z",
    ] {
        assert!(windows.is_open(at(time)), "{time}");
    }
}
