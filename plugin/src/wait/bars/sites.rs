//! The progress of a rollout over sites, with a bar per wave.

use baton_sites::rollout::standing::SiteState;
use baton_text::fleet::{title, words};
use baton_view::sites::fleet::{Counts, Fleet};

use super::Bar;

/// The noun for the bars, in the plural.
pub(crate) const NOUN: &str = "waves";

/// The progress of each wave, and the number of sites without a wave. Consecutive waves that are
/// over share a bar, so that the one under way can be seen.
pub(crate) fn bars(fleet: &Fleet) -> Vec<Bar> {
    let spans = fleet.spans(&[]);
    let mut bars: Vec<Bar> = spans
        .iter()
        .map(|span| bar(title(span), &span.counts))
        .collect();
    if fleet.later.total() > 0 {
        bars.push(bar("later".to_owned(), &fleet.later));
    }
    bars
}

fn bar(name: String, counts: &Counts) -> Bar {
    let (settled, all) = (counts.count(SiteState::is_settled), counts.total());
    Bar {
        name,
        percent: u64::try_from(settled * 100 / all.max(1)).unwrap_or(0),
        text: format!("{settled}/{all}: {}", words(counts)),
        is_settled: settled == all,
    }
}

#[cfg(test)]
mod tests {
    use baton_view::sites::observed::Observed;

    use super::{super::lines, *};
    use crate::sites::fixtures::{NOW, mid_rollout, observed, ten_thousand};

    fn text(observed: &Observed) -> Vec<String> {
        let fleet = Fleet::of(observed, NOW);
        let lines = lines(&bars(&fleet), "waits");
        lines.into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn every_wave_has_a_line() {
        assert_eq!(
            text(&observed(&mid_rollout())),
            [
                "waits",
                "wave 1: 2/2: 2 updated",
                "wave 2: 1/6: 1 failed, 1 in flight, 1 offline, 1 waiting for a window, 1 queued, 1 updated",
                "later: 0/3: 1 leaving, 2 to come",
            ]
        );
    }

    #[test]
    fn completed_waves_share_one_line() {
        assert_eq!(
            text(&ten_thousand()),
            [
                "waits",
                "waves 1 to 40: 4000/4000: 4000 updated",
                "wave 41: 0/100: 7 failed, 93 in flight",
                "later: 0/5900: 5900 to come",
            ]
        );
    }
}
