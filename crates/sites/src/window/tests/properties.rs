//! Properties of all windows.

use jiff::{SignedDuration, tz::TimeZoneDatabase};
use proptest::prelude::*;

use super::*;

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
/// Days around which a clock of [`ZONES`] changes.
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
    fn the_next_opening_is_the_first_open_minute(
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

    /// The search agrees with a check of each minute within the last duration.
    #[test]
    fn a_window_is_open_if_it_opened_within_its_duration(window in any_window(), now in any_minute()) {
        // For a window at a fixed time of day, a check of each minute cannot detect a clock change.
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

    /// Any text is parsed or refused within a bounded time, and the search for an opening is
    /// bounded as well.
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
