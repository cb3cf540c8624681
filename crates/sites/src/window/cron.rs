//! The five fields of a cron expression.
//!
//! The crate `croner` does the search. Syntax that it accepts beyond the documentation is refused
//! before.

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::civil::{DateTime, date};
use thiserror::Error;

/// The reason that a text is not a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CronError {
    /// The expression does not have five fields.
    #[error(
        "cron has {0} fields, and must have 5: minute, hour, day of the month, month, day of the week"
    )]
    Fields(usize),
    /// A field has an invalid value.
    #[error("cron has {value:?} for the {field}, which must be {expected}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Invalid part of the field.
        value: String,
        /// Allowed values.
        expected: &'static str,
    },
    /// The parser reports another error.
    #[error("cron cannot be read: {0}")]
    Syntax(String),
    /// The day does not exist.
    #[error("cron never fires: no month that it names has such a day")]
    Never,
}

/// The values that a field may have.
struct Field {
    name: &'static str,
    expected: &'static str,
    numbers: std::ops::RangeInclusive<u16>,
    names: &'static [&'static str],
    /// Marks that may follow a number, or be used alone.
    marks: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        expected: "0 to 59",
        numbers: 0..=59,
        names: &[],
        marks: &[],
    },
    Field {
        name: "hour",
        expected: "0 to 23",
        numbers: 0..=23,
        names: &[],
        marks: &[],
    },
    Field {
        name: "day of the month",
        expected: "1 to 31, or L for the last",
        numbers: 1..=31,
        names: &[],
        marks: &["L", "W", "LW"],
    },
    Field {
        name: "month",
        expected: "1 to 12 or JAN to DEC",
        numbers: 1..=12,
        names: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
        marks: &[],
    },
    Field {
        name: "day of the week",
        expected: "0 to 7 or SUN to SAT",
        numbers: 0..=7,
        names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
        marks: &["L"],
    },
];

/// The Gregorian calendar, including days of the week, repeats after 400 years, and the search ends
/// with the year 5000. An expression that does not fire from this date on never fires.
const LAST_CYCLE: DateTime = date(4600, 1, 1).at(0, 0, 0, 0);

/// Parses a cron expression that fires at some time.
///
/// # Errors
///
/// If the text is not a cron expression, or the day does not exist.
pub(super) fn parse(text: &str) -> Result<Cron, CronError> {
    let text = text.trim();
    if !text.starts_with('@') {
        check(text)?;
    }
    let cron = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .sloppy_ranges(true)
        .build()
        .parse(text)
        .map_err(|error| CronError::Syntax(error.to_string()))?;
    match cron.find_next_occurrence(&LAST_CYCLE, true) {
        Ok(_) => Ok(cron),
        Err(_) => Err(CronError::Never),
    }
}

/// Checks parts that the parser accepts wrongly: names in any field, and lists with empty entries.
fn check(text: &str) -> Result<(), CronError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(CronError::Fields(fields.len()));
    }
    for (field, text) in FIELDS.iter().zip(fields) {
        for item in text.split(',') {
            // A count follows these characters; the parser checks it.
            let values = item.split(['/', '#']).next().unwrap_or(item);
            let is_valid =
                matches!(values, "*" | "?") || values.split('-').all(|value| field.has(value));
            if !is_valid {
                return Err(CronError::Value {
                    field: field.name,
                    value: item.to_owned(),
                    expected: field.expected,
                });
            }
        }
    }
    Ok(())
}

impl Field {
    fn has(&self, value: &str) -> bool {
        let value = value.to_ascii_uppercase();
        let mark = value.trim_start_matches(|char: char| char.is_ascii_digit());
        let number = &value[..value.len() - mark.len()];
        let is_in_range = number.is_empty()
            || number
                .parse()
                .is_ok_and(|number| self.numbers.contains(&number));
        let is_name = self.names.contains(&value.as_str());
        is_name
            || (is_in_range && !value.is_empty() && (mark.is_empty() || self.marks.contains(&mark)))
    }
}
