//! Durations in the form of the schemas: `1h30m`.

use jiff::SignedDuration;
use thiserror::Error;

/// The longest accepted duration: 366 days. A longer one is taken for a typing error.
pub const MAX: SignedDuration = SignedDuration::from_hours(366 * 24);

/// The reason that a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// The text does not have the form of a duration.
    #[error("must be hours, minutes and seconds in this order, such as 1h30m")]
    Syntax,
    /// The duration is longer than [`MAX`].
    #[error("must be at most 8784h, which is 366 days")]
    TooLong,
}

/// Parses a duration: hours, minutes and seconds, each at most once and at least one of them,
/// without spaces, fractions or a sign. From zero to [`MAX`].
///
/// # Errors
///
/// If the text is not a duration, or is longer than [`MAX`].
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let mut rest = text;
    let mut seconds = 0_i64;
    for (unit, factor) in [('h', 3600), ('m', 60), ('s', 1)] {
        let Some((digits, after)) = rest.split_once(unit) else {
            continue;
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DurationError::Syntax);
        }
        // Digits fail to parse only if there are too many.
        let count: i64 = digits.parse().map_err(|_| DurationError::TooLong)?;
        seconds = count
            .checked_mul(factor)
            .and_then(|more| seconds.checked_add(more))
            .ok_or(DurationError::TooLong)?;
        rest = after;
    }
    if text.is_empty() || !rest.is_empty() {
        return Err(DurationError::Syntax);
    }
    let duration = SignedDuration::from_secs(seconds);
    if duration > MAX {
        return Err(DurationError::TooLong);
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_minutes_and_seconds_add_up() {
        for (text, seconds) in [
            ("1h30m", 5400),
            ("90m", 5400),
            ("5400s", 5400),
            ("1h30s", 3630),
            ("1h2m3s", 3723),
            ("007m", 420),
            ("0s", 0),
            ("0h0m0s", 0),
            ("8784h", 366 * 86400),
        ] {
            assert_eq!(
                parse(text),
                Ok(SignedDuration::from_secs(seconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_durations_are_refused() {
        for text in [
            "", " ", "1", "h", "1h30", "30m1h", "1h1h", "1m1m", "1.5h", "-1h", "+1h", "1h 30m",
            " 1h", "1h ", "1d", "1H", "PT1H", "1ms", "½h", "١h", "forever",
        ] {
            assert_eq!(parse(text), Err(DurationError::Syntax), "{text:?}");
        }
    }

    #[test]
    fn durations_above_the_limit_are_refused_without_overflow() {
        for text in [
            "8784h1s",
            "31622401s",
            "9223372036854775807s",
            "9223372036854775807h",
            "99999999999999999999999999999h",
            "9223372036854775h9223372036854775807m",
        ] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text}");
        }
    }
}
