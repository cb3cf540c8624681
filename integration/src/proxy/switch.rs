//! The outcome of a connection, derived from the turns of the switch since it began.

use super::line::Slow;

/// The behaviour of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// Everything passes.
    #[default]
    Pass,
    /// The host is gone: open connections are reset and new ones refused.
    Cut,
    /// No bytes are forwarded: all bytes of clients are discarded, without an answer or an end.
    ///
    /// New connections are accepted, and their bytes are discarded as well. Connections that were
    /// open or began in this mode stay half-open, also after the next switch.
    BlackHole,
    /// Nothing moves. Connections that are open or begin in this mode continue after the next
    /// switch, without a loss.
    Stall,
    /// Everything passes, but delayed and with limited bandwidth.
    Slow(Slow),
    /// Each open connection is reset after this number of further bytes has reached its client; 0
    /// resets it at once. New connections pass.
    ResetLivingAfter(u64),
    /// As [`Mode::ResetLivingAfter`], and each new connection is reset after the same number of
    /// bytes.
    ResetEachAfter(u64),
}

/// The turns of a proxy's switch, as far as they still matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    mode: Mode,
    turns: u64,
    /// Connections that began before this turn are reset.
    reset_before: u64,
    /// Connections that began before this turn are half-open.
    lost_before: u64,
}

/// The outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ConnectionFate {
    /// Bytes pass.
    Flow {
        /// The slow line, or `None` if bytes pass at once.
        slow: Option<Slow>,
        /// Number of bytes to the client after which the connection is reset, if any.
        reset_after: Option<u64>,
    },
    /// Bytes wait.
    Hold,
    /// From now on bytes are lost.
    Swallow,
    /// The connection is reset.
    Reset,
}

impl Switch {
    pub(super) fn turn(&mut self, mode: Mode) {
        let before = std::mem::replace(&mut self.mode, mode);
        self.turns += 1;
        if mode == Mode::Cut {
            self.reset_before = self.turns;
        }
        // The mode starts: open connections are lost. The mode ends: connections that began in it
        // are lost.
        if mode == Mode::BlackHole || before == Mode::BlackHole {
            self.lost_before = self.turns;
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the number of turns.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the outcome of a connection that began after this number of turns.
    pub(super) fn fate(&self, born: u64) -> ConnectionFate {
        let flow = |slow, reset_after| ConnectionFate::Flow { slow, reset_after };
        if born < self.reset_before {
            return ConnectionFate::Reset;
        }
        if born < self.lost_before {
            return ConnectionFate::Swallow;
        }
        match self.mode {
            Mode::Pass => flow(None, None),
            Mode::Cut => ConnectionFate::Reset,
            Mode::BlackHole => ConnectionFate::Swallow,
            Mode::Stall => ConnectionFate::Hold,
            Mode::Slow(slow) => flow(Some(slow), None),
            Mode::ResetLivingAfter(_) if born == self.turns => flow(None, None),
            Mode::ResetLivingAfter(bytes) | Mode::ResetEachAfter(bytes) => flow(None, Some(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: ConnectionFate = ConnectionFate::Flow {
        slow: None,
        reset_after: None,
    };
    const AFTER_5: ConnectionFate = ConnectionFate::Flow {
        slow: None,
        reset_after: Some(5),
    };

    /// Checks the outcomes of connections that began before these turns, between them, and after them.
    #[track_caller]
    fn check(modes: &[Mode], expected: &[ConnectionFate]) {
        let mut switch = Switch::default();
        for mode in modes {
            switch.turn(*mode);
        }
        let turns = u64::try_from(modes.len()).unwrap();
        let fates: Vec<ConnectionFate> = (0..=turns).map(|born| switch.fate(born)).collect();
        assert_eq!(fates, expected, "{modes:?}");
    }

    #[test]
    fn the_fate_of_a_connection_follows_the_modes_of_the_proxy() {
        use Mode::{BlackHole, Cut, Pass, ResetEachAfter, ResetLivingAfter, Stall};
        check(&[], &[PASS]);
        check(&[Cut], &[ConnectionFate::Reset, ConnectionFate::Reset]);
        check(&[Cut, Pass], &[ConnectionFate::Reset, PASS, PASS]);
        check(&[Stall], &[ConnectionFate::Hold, ConnectionFate::Hold]);
        check(&[Stall, Pass], &[PASS, PASS, PASS]);
        check(
            &[BlackHole],
            &[ConnectionFate::Swallow, ConnectionFate::Swallow],
        );
        check(
            &[BlackHole, Pass],
            &[ConnectionFate::Swallow, ConnectionFate::Swallow, PASS],
        );
        check(
            &[BlackHole, Cut],
            &[
                ConnectionFate::Reset,
                ConnectionFate::Reset,
                ConnectionFate::Reset,
            ],
        );
        check(&[ResetLivingAfter(5)], &[AFTER_5, PASS]);
        check(&[ResetLivingAfter(5), Pass], &[PASS, PASS, PASS]);
        check(&[ResetEachAfter(5)], &[AFTER_5, AFTER_5]);
    }
}
