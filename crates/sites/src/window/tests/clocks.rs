//! Time zones and clock changes.

use super::*;

#[test]
fn the_clock_of_the_time_zone_counts() {
    for (zone, next) in [
        ("UTC", "2026-06-01T02:00:00Z"),
        ("Europe/Berlin", "2026-06-01T00:00:00Z"),
        ("europe/berlin", "2026-06-01T00:00:00Z"),
        // Five and a half hours ahead, and three and a half behind.
        ("Asia/Kolkata", "2026-05-31T20:30:00Z"),
        ("America/St_Johns", "2026-06-01T04:30:00Z"),
        ("Asia/Kathmandu", "2026-05-31T20:15:00Z"),
    ] {
        let window = windows(&[&format!("0 2 * * * | 1h | {zone}")]);
        assert_eq!(
            window.next_opening(at("2026-05-31T18:00:00Z")),
            Some(at(next)),
            "{zone}"
        );
    }
}

// In Berlin the clock goes from 02:00 to 03:00 on 2026-03-29, at 01:00 UTC.
#[test]
fn an_opening_skipped_by_a_clock_change_follows_it_at_once() {
    for cron in ["0 2 * * *", "30 2 * * *", "59 2 * * SUN"] {
        check_spans(
            &[&format!("{cron} | 1h | Europe/Berlin")],
            "2026-03-28T12:00:00Z",
            "2026-03-29T12:00:00Z",
            &[("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z")],
        );
    }
    // The days before and after are not affected.
    let daily = windows(&["30 2 * * * | 1h | Europe/Berlin"]);
    assert!(daily.is_open(at("2026-03-28T01:30:00Z")));
    assert!(daily.is_open(at("2026-03-30T00:30:00Z")));
    assert!(!daily.is_open(at("2026-03-30T01:30:00Z")));
}

#[test]
fn a_clock_change_does_not_change_the_duration_of_an_open_window() {
    check_spans(
        &["30 1 * * * | 2h | Europe/Berlin"],
        "2026-03-28T12:00:00Z",
        "2026-03-29T12:00:00Z",
        &[("2026-03-29T00:30:00Z", "2026-03-29T02:30:00Z")],
    );
}

#[test]
fn several_openings_a_day_follow_the_clock_that_is_put_forward() {
    check_spans(
        &["30 * * * * | 10m | Europe/Berlin"],
        "2026-03-29T00:00:00Z",
        "2026-03-29T03:00:00Z",
        &[
            ("2026-03-29T00:30:00Z", "2026-03-29T00:40:00Z"),
            ("2026-03-29T01:30:00Z", "2026-03-29T01:40:00Z"),
            ("2026-03-29T02:30:00Z", "2026-03-29T02:40:00Z"),
        ],
    );
    check_spans(
        &["*/20 2 * * * | 5m | Europe/Berlin"],
        "2026-03-28T12:00:00Z",
        "2026-03-29T12:00:00Z",
        &[],
    );
}

// In Berlin the clock goes from 03:00 back to 02:00 on 2026-10-25, at 01:00 UTC.
#[test]
fn an_opening_that_a_clock_change_repeats_opens_once() {
    check_spans(
        &["30 2 * * * | 20m | Europe/Berlin"],
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &[("2026-10-25T00:30:00Z", "2026-10-25T00:50:00Z")],
    );
    // The window is open for two hours of real time, while the clock shows 02:30 to 03:30.
    check_spans(
        &["30 2 * * * | 2h | Europe/Berlin"],
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &[("2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z")],
    );
}

#[test]
fn several_openings_a_day_follow_the_clock_that_is_put_back() {
    check_spans(
        &["30 * * * * | 10m | Europe/Berlin"],
        "2026-10-25T00:00:00Z",
        "2026-10-25T03:00:00Z",
        &[
            ("2026-10-25T00:30:00Z", "2026-10-25T00:40:00Z"),
            ("2026-10-25T01:30:00Z", "2026-10-25T01:40:00Z"),
            ("2026-10-25T02:30:00Z", "2026-10-25T02:40:00Z"),
        ],
    );
}

// On Lord Howe the clock changes by half an hour: from 02:00 to 02:30 on 2026-10-04, at 15:30 UTC
// the day before, and from 02:00 back to 01:30 on 2026-04-05, at 15:00 UTC the day before.
#[test]
fn a_clock_that_is_moved_by_half_an_hour_is_followed() {
    check_spans(
        &["15 2 * * * | 1h | Australia/Lord_Howe"],
        "2026-10-03T03:00:00Z",
        "2026-10-04T03:00:00Z",
        &[("2026-10-03T15:30:00Z", "2026-10-03T16:30:00Z")],
    );
    check_spans(
        &["45 1 * * * | 10m | Australia/Lord_Howe"],
        "2026-04-04T03:00:00Z",
        "2026-04-05T03:00:00Z",
        &[("2026-04-04T14:45:00Z", "2026-04-04T14:55:00Z")],
    );
}
