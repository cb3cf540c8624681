//! The clock of the controllers.

use std::{fmt, sync::Arc, time::Instant};

use jiff::Timestamp;

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

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
