use baton_apis::SiteApplication;
use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZoneDatabase};
use proptest::prelude::*;

use super::*;

/// A window as `cron | duration | zone`, the zone left out for UTC.
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

/// The spans within `[from, until)` in which it is open, from minute to minute.
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
fn without_windows_it_is_always_open() {
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
    // From Friday evening to Monday morning.
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
    // Without a second in between.
    let touching = windows(&["0 * * * * | 1h"]);
    assert!(touching.is_open(at("2026-06-01T02:59:59.999Z")));
    assert!(touching.is_open(at("2026-06-01T03:00:00Z")));
}

#[test]
fn one_window_of_a_list_suffices() {
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
fn an_opening_that_the_clock_leaves_out_comes_as_soon_as_it_was_put_forward() {
    for cron in ["0 2 * * *", "30 2 * * *", "59 2 * * SUN"] {
        check_spans(
            &[&format!("{cron} | 1h | Europe/Berlin")],
            "2026-03-28T12:00:00Z",
            "2026-03-29T12:00:00Z",
            &[("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z")],
        );
    }
    // The day before and the day after are as ever.
    let daily = windows(&["30 2 * * * | 1h | Europe/Berlin"]);
    assert!(daily.is_open(at("2026-03-28T01:30:00Z")));
    assert!(daily.is_open(at("2026-03-30T00:30:00Z")));
    assert!(!daily.is_open(at("2026-03-30T01:30:00Z")));
}

#[test]
fn a_window_that_is_open_while_the_clock_is_put_forward_lasts_as_long_as_ever() {
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
fn an_opening_that_comes_twice_opens_the_first_time() {
    check_spans(
        &["30 2 * * * | 20m | Europe/Berlin"],
        "2026-10-24T12:00:00Z",
        "2026-10-25T12:00:00Z",
        &[("2026-10-25T00:30:00Z", "2026-10-25T00:50:00Z")],
    );
    // Two hours of real time, while the clock goes from 02:30 to 03:30.
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

// On Lord Howe the clock is moved by half an hour: from 02:00 to 02:30 on 2026-10-04, at 15:30 UTC the day before, and
// from 02:00 back to 01:30 on 2026-04-05, at 15:00 UTC the day before.
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
fn where_one_side_has_no_windows_the_other_decides() {
    let none = Windows::default();
    let nightly = windows(&["0 2 * * * | 1h"]);
    let now = at("2026-06-01T12:00:00Z");
    for both in [both(&none, &nightly), both(&nightly, &none)] {
        assert!(!both.is_open(now));
        assert_eq!(both.next_opening(now), Some(at("2026-06-02T02:00:00Z")));
    }
}

#[test]
fn a_meeting_of_two_lists_is_found_years_ahead() {
    let owner = windows(&["0 0 29 2 * | 1h"]);
    let site = windows(&["0 0 * * SUN | 1h"]);

    // The next leap day that is a Sunday.
    assert_eq!(
        both(&owner, &site).next_opening(at("2026-06-01T00:00:00Z")),
        Some(at("2032-02-29T00:00:00Z"))
    );
}

#[test]
fn lists_that_never_meet_have_no_next_opening() {
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
    let sample: SiteApplication = serde_saphyr::from_str(text).unwrap();
    let windows = Windows::compile(&sample.spec.upgrade_windows).unwrap();
    for time in [
        "2026-06-01T19:59:59Z",
        "2026-06-01T20:00:00Z",
        "2026-10-25T00:59:59Z",
    ] {
        assert!(windows.is_open(at(time)), "{time}");
    }
}

#[test]
fn a_window_that_cannot_be_understood_is_named_with_its_cause() {
    for (text, named, cause) in [
        (
            "0 2 * * | 1h",
            r#""0 2 * *" for "1h""#,
            "cron has 4 fields, and must have 5: minute, hour, day of the month, month, day of the week",
        ),
        (
            "0 0 2 * * SUN | 1h",
            r#""0 0 2 * * SUN" for "1h""#,
            "cron has 6 fields, and must have 5: minute, hour, day of the month, month, day of the week",
        ),
        (
            "60 2 * * * | 1h",
            r#""60 2 * * *" for "1h""#,
            r#"cron has "60" for the minute, which must be 0 to 59"#,
        ),
        (
            "0 2 * * FOO | 1h",
            r#""0 2 * * FOO" for "1h""#,
            r#"cron has "FOO" for the day of the week, which must be 0 to 7 or SUN to SAT"#,
        ),
        (
            "0 2 * MON * | 1h",
            r#""0 2 * MON *" for "1h""#,
            r#"cron has "MON" for the month, which must be 1 to 12 or JAN to DEC"#,
        ),
        (
            "0 5-2 * * * | 1h",
            r#""0 5-2 * * *" for "1h""#,
            "cron cannot be read: Component error: Range out of bounds.",
        ),
        (
            "0 0 30 2 * | 1h",
            r#""0 0 30 2 *" for "1h""#,
            "cron never fires: no month that it names has such a day",
        ),
        (
            "0 2 * * * | 0m",
            r#""0 2 * * *" for "0m""#,
            "duration must be longer than zero",
        ),
        (
            "0 2 * * * | 9000h",
            r#""0 2 * * *" for "9000h""#,
            "duration must be at most 8784h, which is 366 days",
        ),
        (
            "0 2 * * * | 2 hours",
            r#""0 2 * * *" for "2 hours""#,
            "duration must be hours, minutes and seconds in this order, such as 1h30m",
        ),
        (
            "0 2 * * * | 1h | Europe/Berln",
            r#""0 2 * * *" for "1h" in "Europe/Berln""#,
            r#"time zone "Europe/Berln" is not known; zones have names such as Europe/Berlin"#,
        ),
        (
            "0 2 * * * | 1h | ../../etc/localtime",
            r#""0 2 * * *" for "1h" in "../../etc/localtime""#,
            r#"time zone "../../etc/localtime" is not known; zones have names such as Europe/Berlin"#,
        ),
    ] {
        let error = Windows::compile(&[window("0 2 * * * | 1h"), window(text)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("upgradeWindows[1] ({named}): {cause}")
        );
    }
}

#[test]
fn odd_expressions_are_refused_quickly() {
    for cron in [
        "",
        ",",
        ", * * * *",
        "* , * * *",
        "* * , * *",
        "0,,1 * * * *",
        "* * * * ,",
        "*/0 * * * *",
        "/10 * * * *",
        "-1 * * * *",
        "1- * * * *",
        "1-2-3 * * * *",
        "** * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 0 *",
        "0 0 * 13 *",
        "0 0 * 1JAN *",
        "0 0 * * 8",
        "0 0 * * MON#6",
        "0 0 * * MON#0",
        "0 0 * * JAN",
        "SUN 0 * * *",
        "0 L * * *",
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 30W 2 *",
        "0 0 1 * +MON",
        "@reboot",
        "@daily @daily",
        "TZ=UTC 0 0 * * *",
        "99999999999999999999 * * * *",
        "٣ * * * *",
        "0 0 * * ß",
    ] {
        let window = UpgradeWindow {
            cron: cron.to_owned(),
            duration: "1h".to_owned(),
            time_zone: None,
        };
        assert!(
            matches!(
                Windows::compile(&[window]).unwrap_err().cause,
                WindowCause::Cron(_)
            ),
            "{cron:?}"
        );
    }
}

const CRONS: [&str; 14] = [
    "0 * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "0 2 * * *",
    "59 1 * * *",
    "0 0 * * *",
    "15 2,3 * * *",
    "*/20 1-3 * * *",
    "45 23 * * SAT",
    "10 2 * * SUN",
    "0 3 29 3 *",
    "5 2 25 10 SUN",
    "20 12 * * 1-5",
    "0 2 * * SUN#L",
];
const DURATIONS: [&str; 7] = ["1m", "10m", "59m", "1h", "1h30m", "3h", "26h"];
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Antarctica/Troll",
];
/// Days around which some clock of [`ZONES`] is moved.
const DAYS: [&str; 6] = [
    "2026-03-08T00:00:00Z",
    "2026-03-28T18:00:00Z",
    "2026-04-04T06:00:00Z",
    "2026-10-03T06:00:00Z",
    "2026-10-24T18:00:00Z",
    "2026-11-01T00:00:00Z",
];

fn any_window() -> impl Strategy<Value = UpgradeWindow> {
    (
        proptest::sample::select(&CRONS[..]),
        proptest::sample::select(&DURATIONS[..]),
        proptest::sample::select(&ZONES[..]),
    )
        .prop_map(|(cron, duration, zone)| window(&format!("{cron} | {duration} | {zone}")))
}

fn any_list() -> impl Strategy<Value = Windows> {
    proptest::collection::vec(any_window(), 0..3).prop_map(|list| Windows::compile(&list).unwrap())
}

fn any_minute() -> impl Strategy<Value = Timestamp> {
    (proptest::sample::select(&DAYS[..]), 0..36 * 60_i64)
        .prop_map(|(day, minutes)| at(day) + SignedDuration::from_mins(minutes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_next_opening_is_the_first_minute_at_which_it_is_open(
        owner in any_list(),
        site in any_list(),
        now in any_minute(),
    ) {
        let windows = both(&owner, &site);
        let next = windows.next_opening(now);
        let until = now + 30.hours();
        let mut minute = now;
        while minute < until && !windows.is_open(minute) {
            minute += 1.minute();
        }
        if minute < until {
            prop_assert_eq!(next, Some(minute));
        } else {
            prop_assert!(next.is_none_or(|next| next >= until));
        }
        if let Some(next) = next {
            prop_assert!(windows.is_open(next));
        }
    }

    /// What the search finds is what one gets from looking at each minute of the duration that is over.
    #[test]
    fn it_is_open_when_it_opened_within_its_duration(window in any_window(), now in any_minute()) {
        // At a fixed time of day the movement of a clock is more than a look at each minute can tell.
        prop_assume!(!is_once_a_day(&window.cron));
        let cron = cron::parse(&window.cron).unwrap();
        let zone = TimeZoneDatabase::bundled().get(window.time_zone.as_ref().unwrap()).unwrap();
        let duration = duration::parse(&window.duration).unwrap();
        let minutes = duration.as_mins();
        let expected = (0..minutes).any(|ago| {
            let minute = (now - SignedDuration::from_mins(ago)).to_zoned(zone.clone());
            cron.is_time_matching(&minute).unwrap()
        });
        let windows = Windows::compile(&[window]).unwrap();
        prop_assert_eq!(windows.is_open(now), expected);
    }

    /// Whatever the text is, it is read or refused within a bounded time, and what was read is searched so.
    #[test]
    fn any_text_is_read_or_refused(cron in "[-0-9*/,?#LWSUNMOJA@ ]{1,24}", now in any_minute()) {
        let window = UpgradeWindow { cron, duration: "1h".to_owned(), time_zone: None };
        if let Ok(windows) = Windows::compile(&[window]) {
            let next = windows.next_opening(now).unwrap();
            prop_assert!(windows.is_open(next));
        }
    }
}

fn is_once_a_day(cron: &str) -> bool {
    let fields: Vec<&str> = cron.split(' ').collect();
    fields[..2].iter().all(|field| field.parse::<u8>().is_ok())
}
