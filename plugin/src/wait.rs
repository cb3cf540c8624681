//! Waiting for something to be seen in what is followed by watches.

pub(crate) mod application;
pub(crate) mod bars;
pub(crate) mod chain;
pub(crate) mod follower;

use std::{fmt::Display, time::Duration};

use baton_view::lists::Question;
use tokio::time::{Instant, timeout_at};

use self::follower::Follower;
use crate::{error::Error, output::report};

/// Follows until `look` finds what is waited for, or the time is up (zero: no limit). It looks after each change, and
/// after each `tick`, for what only time decides. Returns what was found.
///
/// # Errors
/// That what is followed, as `name` calls it, is gone.
pub(crate) async fn until<Q: Question, T>(
    follower: &mut Follower<Q>,
    name: &impl Display,
    timeout: Duration,
    tick: Option<Duration>,
    mut look: impl AsyncFnMut(&Q::Answer) -> Option<T>,
) -> Result<Option<T>, Error> {
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let mut reported: Option<String> = None;
    loop {
        if let Some(found) = look(follower.last()).await {
            return Ok(Some(found));
        }
        let tick = tick.map(|tick| Instant::now() + tick);
        let next = follower.next();
        let exists = match deadline.into_iter().chain(tick).min() {
            None => next.await,
            Some(end) => match timeout_at(end, next).await {
                Ok(exists) => exists,
                Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Ok(None);
                }
                Err(_) => true,
            },
        };
        if !exists {
            return Err(deleted(name));
        }
        if let Some(text) = follower.trouble()
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
    }
}

/// That what is followed is gone.
pub(crate) fn deleted(name: &impl Display) -> Error {
    Error::NotFound(format!("{name} has been deleted"))
}
