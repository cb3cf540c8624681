//! Arrival times of bytes on a slow line.

use std::time::Duration;

use tokio::time::Instant;

/// The largest piece that is read at once.
pub(super) const MAX_PIECE: usize = 16 * 1024;

/// Pieces per second on a line with limited bandwidth, so that bytes trickle instead of arriving in
/// bursts.
const PIECES_PER_SECOND: u64 = 20;

/// A slow line, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The delay of every byte.
    pub delay: Duration,
    /// The bandwidth, if it is limited: bytes per second and direction.
    pub bytes_per_second: Option<u32>,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Line {
    slow: Option<Slow>,
    /// The time at which the last byte so far has entered the line.
    free: Instant,
}

impl Line {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            slow: None,
            free: now,
        }
    }

    pub(super) fn set(&mut self, slow: Option<Slow>) {
        self.slow = slow;
    }

    /// Returns the number of bytes to read at once.
    pub(super) fn piece(&self) -> usize {
        let rate = self.slow.and_then(|slow| slow.bytes_per_second);
        let piece = rate.map(|rate| u64::from(rate) / PIECES_PER_SECOND);
        let piece = piece.and_then(|piece| usize::try_from(piece).ok());
        piece.map_or(MAX_PIECE, |piece| piece.clamp(1, MAX_PIECE))
    }

    /// Sends a number of bytes, and returns the time at which the last of them arrives.
    pub(super) fn send(&mut self, now: Instant, bytes: usize) -> Instant {
        let Some(slow) = self.slow else {
            return now;
        };
        let took = slow.bytes_per_second.map_or(Duration::ZERO, |rate| {
            // A piece is small, so the conversion is exact.
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            Duration::from_secs_f64(f64::from(bytes) / f64::from(rate.max(1)))
        });
        self.free = self.free.max(now) + took;
        self.free + slow.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_line_delays_bytes_and_limits_bandwidth() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut line = Line::new(now);
        assert_eq!(line.piece(), MAX_PIECE);
        assert_eq!(line.send(now, MAX_PIECE), now);

        line.set(Some(Slow {
            delay: Duration::from_secs(1),
            bytes_per_second: None,
        }));
        // Without a limit of bandwidth, two pieces are in transit at the same time.
        assert_eq!(line.send(now, 10), after(1));
        assert_eq!(line.send(now, 10), after(1));

        line.set(Some(Slow {
            delay: Duration::from_secs(1),
            bytes_per_second: Some(100),
        }));
        assert_eq!(line.piece(), 5);
        // With a limit, one piece waits for the other, and idle time is not credited.
        assert_eq!(line.send(now, 100), after(2));
        assert_eq!(line.send(now, 200), after(4));
        assert_eq!(line.send(after(10), 100), after(12));
    }
}
