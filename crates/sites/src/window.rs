//! Times at which upgrades may begin.
//!
//! # Syntax
//!
//! Five fields as in a Kubernetes `CronJob`: minute, hour, day of the month, month, and day of the
//! week, with lists, ranges, steps and English names of three letters. If both days are restricted,
//! either of them suffices. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are
//! abbreviations. In addition to a `CronJob`: `SUN#2` is the second Sunday of a month, `5L` its
//! last Friday, `L` its last day, `15W` the working day nearest to the 15th.
//!
//! # Clock changes
//!
//! The duration of a window is real time. Its opening depends on the clock of its time zone:
//!
//! - A window that opens once a day at a fixed time (one minute, one hour): if the clock skips that
//!   time, the window opens right after the clock change; if the time occurs twice, the window
//!   opens the first time only. So no window is lost or doubled, as in Vixie cron. A `CronJob`
//!   would skip the time, and run twice.
//! - A window that opens several times a day follows the clock: openings in a skipped hour do not
//!   occur, openings in a repeated hour occur twice.
//!
//! The time zones are built into the program. Files of the machine are not used, so that managers
//! and agents agree.

pub mod cron;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use baton_apis::UpgradeWindow;
use croner::Cron;
use jiff::{
    SignedDuration, Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use thiserror::Error;

use self::cron::CronError;
use crate::duration::{self, DurationError};

/// Maximum number of openings in the search for a time at which all lists are open. For two lists
/// of daily windows that never open together, this is about a year.
const SEARCH_STEPS: usize = 512;

/// Lists of windows. They are open while each list has an open window; without any list, always.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    lists: Vec<Arc<[Window]>>,
}

/// A window that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("upgradeWindows[{index}] ({window}): {cause}")]
pub struct WindowError {
    /// Index of the window in the list, from zero.
    pub index: usize,
    /// The window, for people.
    pub window: String,
    /// Reason that the window is invalid.
    pub cause: WindowCause,
}

/// The reason that a window is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowCause {
    /// The cron expression is invalid.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// The duration is invalid.
    #[error("duration {0}")]
    Duration(#[from] DurationError),
    /// The window would never be open.
    #[error("duration must be longer than zero")]
    NoDuration,
    /// The time zone does not exist.
    #[error("time zone {0:?} is unknown; zones have names such as Europe/Berlin")]
    TimeZone(String),
}

/// Combines the windows of the owner of an application and of a site: open while both are open.
///
/// If one of them has no windows, the other one decides.
pub fn both(owner: &Windows, site: &Windows) -> Windows {
    Windows {
        lists: [owner.lists.as_slice(), &site.lists].concat(),
    }
}

impl Windows {
    /// Compiles a list of windows. It is open while one of them is open; an empty list is always
    /// open.
    ///
    /// This takes well below a millisecond for each window, and some milliseconds for a window that
    /// never opens.
    ///
    /// # Errors
    ///
    /// The first window that is invalid or would never be open, with the reason. The other windows
    /// of the list are not used either, because the owner does not want them alone.
    pub fn compile(windows: &[UpgradeWindow]) -> Result<Self, WindowError> {
        let windows = windows
            .iter()
            .enumerate()
            .map(|(index, window)| {
                Window::compile(window).map_err(|cause| WindowError {
                    index,
                    window: text(window),
                    cause,
                })
            })
            .collect::<Result<Arc<[Window]>, _>>()?;
        let lists = if windows.is_empty() {
            Vec::new()
        } else {
            vec![windows]
        };
        Ok(Self { lists })
    }

    /// True if upgrades may begin. A window is open from the second of its opening, and closed in
    /// the second in which its duration ends.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.lists.iter().all(|list| is_open(list, now))
    }

    /// The first time, from `now` on, at which upgrades may begin: `now` if they may begin now.
    ///
    /// `None` if a bounded search finds no time, because the windows of an owner and a site are
    /// never open together. They may be in a later year, or after a change, so the caller should
    /// check again after about a day.
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let mut at = now;
        for _ in 0..SEARCH_STEPS {
            let next = self
                .lists
                .iter()
                .try_fold(at, |at, list| next_opening(list, at))?;
            // All lists are open at this time.
            if next == at {
                return Some(at);
            }
            at = next;
        }
        None
    }
}

fn is_open(list: &[Window], now: Timestamp) -> bool {
    list.iter().any(|window| window.is_open(now))
}

fn next_opening(list: &[Window], now: Timestamp) -> Option<Timestamp> {
    if is_open(list, now) {
        return Some(now);
    }
    list.iter()
        .filter_map(|window| window.opening_after(now))
        .min()
}

#[derive(Debug)]
struct Window {
    cron: Cron,
    duration: SignedDuration,
    zone: TimeZone,
}

impl Window {
    fn compile(window: &UpgradeWindow) -> Result<Self, WindowCause> {
        let cron = cron::parse(&window.cron)?;
        let duration = duration::parse(&window.duration)?;
        if duration.is_zero() {
            return Err(WindowCause::NoDuration);
        }
        let zone = match &window.time_zone {
            Some(name) => TimeZoneDatabase::bundled()
                .get(name)
                .map_err(|_| WindowCause::TimeZone(name.clone()))?,
            None => TimeZone::UTC,
        };
        Ok(Self {
            cron,
            duration,
            zone,
        })
    }

    /// All openings have the same duration, so the window is open if the last opening is.
    fn is_open(&self, now: Timestamp) -> bool {
        self.cron
            .find_previous_occurrence(&now.to_zoned(self.zone.clone()), true)
            .is_ok_and(|opening| now.duration_since(opening.timestamp()) < self.duration)
    }

    /// The search has no result only at the end of the calendar, because the expression fires at
    /// some time.
    fn opening_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.cron
            .find_next_occurrence(&now.to_zoned(self.zone.clone()), false)
            .ok()
            .map(|opening| opening.timestamp())
    }
}

/// A window in the form of messages.
fn text(window: &UpgradeWindow) -> String {
    let UpgradeWindow {
        cron,
        duration,
        time_zone,
    } = window;
    match time_zone {
        Some(time_zone) => format!("{cron:?} for {duration:?} in {time_zone:?}"),
        None => format!("{cron:?} for {duration:?}"),
    }
}
