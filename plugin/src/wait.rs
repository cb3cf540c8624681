//! Waits for a state of watched objects.

pub(crate) mod application;
pub(crate) mod applied;
pub(crate) mod bars;
pub(crate) mod chain;
pub(crate) mod release;

use std::{fmt::Display, time::Duration};

use baton_cluster::follower::Follower;
use baton_terminal::output::report;
use baton_view::lists::Question;
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// Follows objects until `look` finds the wanted state, or the time is up (zero: no limit).
///
/// `look` is called after each change, and after each `tick` for states that depend on the time.
/// Returns the value of `look`.
///
/// # Errors
/// If the followed object, which messages call `name`, does not exist any more.
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

/// The error for a followed object that was deleted.
pub(crate) fn deleted(name: &impl Display) -> Error {
    Error::NotFound(format!("{name} has been deleted"))
}
