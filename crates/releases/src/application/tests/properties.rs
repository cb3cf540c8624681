use std::collections::BTreeSet;

use jiff::ToSpan;
use proptest::prelude::*;

use super::fixtures::{World, in_region};
use crate::application::history::{History, HistoryEntry, generation};

/// An event in the life of an Application.
#[derive(Clone, Debug)]
enum Happening {
    Edit(u8),
    Range,
    Delete(usize),
    Complete(usize),
    Limit(Option<i32>),
    Block(bool),
    Outage(bool),
    Sync,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..3_u8).prop_map(Happening::Edit),
        1 => Just(Happening::Range),
        2 => any::<usize>().prop_map(Happening::Delete),
        2 => any::<usize>().prop_map(Happening::Complete),
        1 => prop::option::of(0..4).prop_map(Happening::Limit),
        1 => any::<bool>().prop_map(Happening::Block),
        1 => any::<bool>().prop_map(Happening::Outage),
        4 => Just(Happening::Sync),
    ]
}

impl World {
    fn happens(&mut self, happening: &Happening) {
        let count = self.releases.len();
        match happening {
            Happening::Edit(region) => {
                self.application.spec.template = in_region(&region.to_string());
            }
            Happening::Range => self.application.spec.template.chart.version = "<1".into(),
            // Mostly the newest Release is deleted: an abort.
            Happening::Delete(index) if count > 0 => {
                self.releases
                    .remove((count - 1).saturating_sub(index % 4 / 3));
            }
            Happening::Complete(index) if count > 0 => self.complete(index % count),
            Happening::Delete(_) | Happening::Complete(_) => {}
            Happening::Limit(limit) => self.application.spec.revision_history_limit = *limit,
            Happening::Block(blocked) => {
                let names = blocked.then(|| "ns/freeze".to_owned());
                self.blocks.in_force = names.into_iter().collect();
            }
            Happening::Outage(down) => {
                let versions = if *down { vec![] } else { vec!["0.0.1".into()] };
                self.index = [("simple".into(), versions)].into();
            }
            Happening::Sync => self.syncs(),
        }
    }

    /// Runs a sync, and checks the properties that hold after each one.
    fn syncs(&mut self) {
        self.now = self.now.saturating_add(1.second()).unwrap();
        let before = self.releases.clone();
        let outcome = self.sync();
        let history = History::read(&before).unwrap();
        let deleted = outcome.clean_up.unfinished.len() + outcome.clean_up.surplus.len();
        if self.blocks.in_force.is_empty() {
            let created = self.releases.len() + deleted - before.len();
            assert!(created <= 1);
        } else {
            assert_eq!(self.releases, before, "nothing is done under a block");
        }
        for member in history
            .members()
            .iter()
            .filter(|member| member.is_complete())
        {
            let name = member.name().to_owned();
            assert!(!outcome.clean_up.unfinished.contains(&name), "{name}");
        }
        let unique = |count: usize, of: &str| assert_eq!(count, self.releases.len(), "{of}");
        let releases = self.releases.iter();
        let generations = releases.map(|release| generation(release).unwrap());
        unique(generations.collect::<BTreeSet<_>>().len(), "generations");
        let names = self.releases.iter().map(|release| &release.metadata.name);
        unique(names.collect::<BTreeSet<_>>().len(), "names");
        let conditions = &self.application.status.as_ref().unwrap().conditions;
        assert!(conditions.is_sorted_by(|a, b| a.type_ < b.type_));
    }
}

proptest! {
    #[test]
    fn the_newest_release_finally_equals_the_template(
        happenings in prop::collection::vec(happening(), 0..30)
    ) {
        let mut world = World::new(in_region("0"));
        for happening in &happenings {
            world.happens(happening);
        }
        world.happens(&Happening::Block(false));
        world.happens(&Happening::Outage(false));
        // One sync goes back, one continues, and one observes the clean-up.
        for _ in 0..3 {
            world.syncs();
        }
        let settled = world.clone();
        world.syncs();
        prop_assert!(world.log.is_empty(), "{:?}", world.log);
        prop_assert_eq!(&world.application, &settled.application);

        let history = History::read(&world.releases).unwrap();
        let newest = history.newest().unwrap();
        prop_assert_eq!(&newest.release.spec.environment, &world.application.spec.template);
        prop_assert_eq!(world.history(), history.names());
        let others = &history.members()[..history.members().len() - 1];
        prop_assert!(others.iter().all(HistoryEntry::is_complete));
        let limit = world.application.spec.revision_history_limit.unwrap();
        prop_assert!(others.len() <= usize::try_from(limit).unwrap());
    }
}
