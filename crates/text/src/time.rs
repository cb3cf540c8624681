//! Times as kubectl prints them.

use std::time::Duration;

use jiff::Timestamp;

/// The time since `then`, as kubectl prints it: `12s`, `3m5s`, `12m`, `5h`, `2d`. Never negative.
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        None => "<unknown>".to_owned(),
        Some(then) => {
            let elapsed = now.duration_since(then);
            duration(Duration::try_from(elapsed).unwrap_or_default())
        }
    }
}

/// A duration as kubectl prints it, with two or three significant digits.
pub fn duration(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let seconds = time.as_secs();
    // The whole part in one unit, and the rest in the next one, unless the rest is zero.
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
        // Clocks of machines differ.
        assert_eq!(age(Timestamp::from_second(1_001).ok(), now), "0s");
    }
}
