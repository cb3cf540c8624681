//! Invalid windows.

use super::*;

#[test]
fn an_invalid_window_is_reported_with_its_cause() {
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
            r#"time zone "Europe/Berln" is unknown; zones have names such as Europe/Berlin"#,
        ),
        (
            "0 2 * * * | 1h | ../../etc/localtime",
            r#""0 2 * * *" for "1h" in "../../etc/localtime""#,
            r#"time zone "../../etc/localtime" is unknown; zones have names such as Europe/Berlin"#,
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
fn malformed_cron_expressions_are_refused_quickly() {
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
