//! The clock of the controllers.

use std::{fmt, sync::Arc, time::Instant};

use jiff::{SignedDuration, Timestamp};

/// The least difference between the time of day and the monotonic time that counts as a jump.
const JUMP: SignedDuration = SignedDuration::from_secs(2);

/// Reads the time; clones read the same clock. Tests supply their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> (Timestamp, Instant) + Send + Sync>);

impl Default for Clock {
    /// The clock of the system.
    fn default() -> Self {
        Self::new(|| (Timestamp::now(), Instant::now()))
    }
}

impl Clock {
    /// A clock that reads the time of day and the monotonic time from a function.
    pub fn new(read: impl Fn() -> (Timestamp, Instant) + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The time of day, for people and other processes.
    pub fn now(&self) -> Timestamp {
        self.0().0
    }

    /// The monotonic time, for durations.
    pub fn instant(&self) -> Instant {
        self.0().1
    }
}

/// Detects jumps of the time of day: it was set, or the machine was suspended.
#[derive(Debug, Default)]
pub(crate) struct JumpDetector(Option<(Timestamp, Instant)>);

impl JumpDetector {
    /// The time by which the time of day went forward, or back if negative, beyond the time that has
    /// passed since the call before; `None` if it did not.
    pub(crate) fn jump(&mut self, clock: &Clock) -> Option<SignedDuration> {
        let (day, monotonic) = clock.0();
        let (day_before, monotonic_before) = self.0.replace((day, monotonic))?;
        let passed = SignedDuration::try_from(monotonic.duration_since(monotonic_before));
        let jump = day.duration_since(day_before) - passed.unwrap_or_default();
        (jump.abs() > JUMP).then_some(jump)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_jump_is_a_difference_between_both_times() {
        let start = Instant::now();
        let times = Arc::new(Mutex::new((0, 0)));
        let read = Arc::clone(&times);
        let clock = Clock::new(move || {
            let (day, monotonic) = *read.lock();
            let day = Timestamp::from_second(1_000_000 + day).unwrap();
            (day, start + Duration::from_secs(monotonic))
        });
        let mut detector = JumpDetector::default();
        // Seconds of the time of day and of the monotonic time, and the jump.
        for (day, monotonic, expected) in [
            (0, 0, None),
            (100, 100, None),
            (102, 100, None),
            (3700, 110, Some(3588)),
            (100, 110, Some(-3600)),
            (101, 111, None),
            (3711, 121, Some(3600)),
        ] {
            *times.lock() = (day, monotonic);
            let jump = detector.jump(&clock).map(|jump| jump.as_secs());
            assert_eq!(jump, expected, "{day}");
        }
    }
}
