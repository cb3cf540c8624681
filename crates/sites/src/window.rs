//! When upgrades may begin.
//!
//! # Syntax
//!
//! Five fields as in a Kubernetes `CronJob`: minute, hour, day of the month, month, and day of the week, with lists,
//! ranges, steps and English names of three letters. When both days are restricted, either of them suffices. `@hourly`,
//! `@daily`, `@weekly`, `@monthly` and `@yearly` stand for what they say. Beyond a `CronJob`: `SUN#2` is the second
//! Sunday of a month, `5L` its last Friday, `L` its last day, `15W` the working day next to the 15th.
//!
//! # Clocks that are put forward and back
//!
//! A window lasts as long as it says, in real time. When it opens depends on the clock of its time zone:
//!
//! - One opening a day at a fixed time (one minute, one hour): when the clock leaves that time out, the window opens as
//!   soon as the clock has been put forward; when the time comes twice, it opens the first time only. So no window is
//!   lost and none comes twice, as in Vixie cron. A `CronJob` would leave it out, and come twice.
//! - Several openings a day follow the clock: those in an hour that is left out do not come, those in an hour that is
//!   repeated come twice.
//!
//! The time zones are those that were known when the program was built. Files of the machine play no part, so that
//! managers and agents agree.

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

/// How often the search for a time at which all lists are open goes on to the next opening. Two lists of daily windows
/// that never meet are searched for a year or so.
const SEARCH_STEPS: usize = 512;

/// Lists of windows. Open while each list has a window that is open; without any list, always.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    lists: Vec<Arc<[Window]>>,
}

/// A window that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("upgradeWindows[{index}] ({window}): {cause}")]
pub struct WindowError {
    /// Its place in the list, from zero.
    pub index: usize,
    /// What it says, for people.
    pub window: String,
    /// What is wrong with it.
    pub cause: WindowCause,
}

/// What is wrong with a window.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowCause {
    /// When it opens cannot be understood.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// How long it is open cannot be understood.
    #[error("duration {0}")]
    Duration(#[from] DurationError),
    /// It would never be open.
    #[error("duration must be longer than zero")]
    NoDuration,
    /// There is no time zone of that name.
    #[error("time zone {0:?} is not known; zones have names such as Europe/Berlin")]
    TimeZone(String),
}

/// Windows of the owner of an application and of a site: open while both are.
///
/// Where one of them has no windows the other one decides.
pub fn both(owner: &Windows, site: &Windows) -> Windows {
    Windows {
        lists: [owner.lists.as_slice(), &site.lists].concat(),
    }
}

impl Windows {
    /// Reads a list of windows. It is open while one of them is; an empty one is always open.
    ///
    /// Reading costs well below a millisecond for each window, and some milliseconds for one that never fires.
    ///
    /// # Errors
    ///
    /// The first window that cannot be understood or would never be open, and why. Nothing is taken of such a list:
    /// whoever owns it did not mean the rest alone.
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

    /// Whether upgrades may begin. A window is open from the second of its opening on, and not any more in the second
    /// in which it has been open for its duration.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.lists.iter().all(|list| is_open(list, now))
    }

    /// The first time, from `now` on, at which upgrades may begin: `now` itself while they may.
    ///
    /// `None` when there is none within a bounded search, which is what windows of an owner and a site that never meet
    /// come to. They may still meet in some later year, or be changed: worth another look after a day or so.
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let mut at = now;
        for _ in 0..SEARCH_STEPS {
            let next = self
                .lists
                .iter()
                .try_fold(at, |at, list| next_opening(list, at))?;
            // No list had to be waited for.
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

    /// All openings last equally long, so the last one is open if any is.
    fn is_open(&self, now: Timestamp) -> bool {
        self.cron
            .find_previous_occurrence(&now.to_zoned(self.zone.clone()), true)
            .is_ok_and(|opening| now.duration_since(opening.timestamp()) < self.duration)
    }

    /// The search ends without result at the end of the calendar alone: the expression fires.
    fn opening_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.cron
            .find_next_occurrence(&now.to_zoned(self.zone.clone()), false)
            .ok()
            .map(|opening| opening.timestamp())
    }
}

/// A window as it is named in messages.
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
