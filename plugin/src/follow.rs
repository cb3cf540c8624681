//! Waiting for something to be seen in what is followed by watches.

use std::{fmt::Display, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{error::Error, output::report};

/// What is read once, and again after every change.
pub(crate) trait Follow {
    /// What it is read into.
    type Seen;

    /// As it was seen last.
    fn last(&self) -> &Self::Seen;

    /// Waits for the next change. Whether what is followed still exists. While the watches do not get through it is as
    /// it was seen last: what cannot be read has not gone.
    ///
    /// Dropped while it waits, nothing is lost: the next call goes on.
    async fn next(&mut self) -> bool;

    /// Why it cannot be watched at the moment.
    fn trouble(&self) -> Option<&str>;
}

/// Follows until `look` finds what is waited for, or the time is up (zero: no limit). Returns what was found.
///
/// # Errors
/// That what is followed, as `name` calls it, is gone.
pub(crate) async fn until<F: Follow, T>(
    follower: &mut F,
    name: &impl Display,
    timeout: Duration,
    mut look: impl FnMut(&F::Seen) -> Option<T>,
) -> Result<Option<T>, Error> {
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let mut reported: Option<String> = None;
    loop {
        if let Some(found) = look(follower.last()) {
            return Ok(Some(found));
        }
        let next = follower.next();
        let exists = match deadline {
            None => next.await,
            Some(deadline) => match timeout_at(deadline, next).await {
                Ok(exists) => exists,
                Err(_) => return Ok(None),
            },
        };
        if !exists {
            return Err(Error::NotFound(format!("{name} has been deleted")));
        }
        if let Some(text) = follower.trouble()
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
    }
}
