//! Sites that two deployments of one application want.

use std::{cmp::Reverse, collections::BTreeMap, collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

/// Most sites that a text names.
const MAX_NAMED: usize = 5;

/// The way out if a site with revisions of a deleted deployment stays offline.
const ABANDON: &str = "If a site does not come back, annotate its ObjectSetPhases with baton.run/abandon=true: their \
                       objects stay.";

/// The sites that a deployment has or wants.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Name of the deployment.
    pub name: &'a str,
    /// Creation time; `None` if the deployment is gone and has left revisions behind.
    pub created: Option<Timestamp>,
    /// Sites that the deployment has chosen.
    pub placed: &'a BTreeSet<Arc<str>>,
    /// Sites in which the deployment has revisions of the application.
    pub running: &'a BTreeSet<Arc<str>>,
}

/// The sites that several deployments want, as divided between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Sites that the deployment does not get.
    pub lost: BTreeSet<Arc<str>>,
    /// The deployments that have these sites, for people.
    pub lost_text: Option<String>,
    /// Deployments that wanted sites of this one, for people.
    pub won_text: Option<String>,
}

/// Decides which of the chosen sites a deployment gets.
///
/// A site goes to the deployment that has revisions in it, else to the one that was created first,
/// else to the first by name. `others` are the other deployments of the application in the
/// namespace, and those that are gone but have left revisions.
pub fn assign_sites(own: Claim<'_>, others: &[Claim<'_>]) -> Overlap {
    let mut lost = BySubject::new();
    let mut left = BySubject::new();
    let mut won = BySubject::new();
    let mut overlap = Overlap::default();
    for site in own.placed {
        let rivals = others
            .iter()
            .filter(|other| other.placed.contains(site) || other.running.contains(site));
        let Some(first) = rivals.min_by_key(|other| other.rank(site)) else {
            continue;
        };
        if first.rank(site) < own.rank(site) {
            overlap.lost.insert(Arc::clone(site));
            let why = if first.is_gone() {
                &mut left
            } else {
                &mut lost
            };
            why.entry(first.name).or_default().push(site);
        } else if !first.is_gone() {
            won.entry(first.name).or_default().push(site);
        }
    }
    let lost = texts(&lost, "has sites that this one selects as well");
    let left = texts(
        &left,
        "does not exist any more, but its revisions are still in sites that this one selects",
    );
    let way_out = (!left.is_empty()).then(|| ABANDON.to_owned());
    overlap.lost_text = joined(lost.into_iter().chain(left).chain(way_out));
    overlap.won_text = joined(texts(&won, "selects sites that this one has"));
    overlap
}

impl<'a> Claim<'a> {
    /// The sort key of the deployments that want a site; the lowest gets the site.
    fn rank(&self, site: &Arc<str>) -> (Reverse<bool>, bool, Option<Timestamp>, &'a str) {
        let is_running = self.running.contains(site);
        (Reverse(is_running), self.is_gone(), self.created, self.name)
    }

    fn is_gone(&self) -> bool {
        self.created.is_none()
    }
}

/// Sites by deployment; a text has a part for each deployment.
type BySubject<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn joined(texts: impl IntoIterator<Item = String>) -> Option<String> {
    let texts: Vec<_> = texts.into_iter().collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

fn texts(by_name: &BySubject<'_>, what: &str) -> Vec<String> {
    let texts = by_name.iter().map(|(name, sites)| {
        let (named, others) = sites.split_at(sites.len().min(MAX_NAMED));
        let named = named.join(", ");
        let more = match others.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("SiteDeployment \"{name}\" {what}: {named}{more}.")
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<Arc<str>> {
        names.split_whitespace().map(Into::into).collect()
    }

    /// The owner of each site that both `a` and `b` have chosen. `a` and `b` have a second of
    /// creation, and the sites with their revisions.
    fn settled(a: (i64, &str), b: (i64, &str)) -> String {
        let placed = set("x y");
        let (running_a, running_b) = (set(a.1), set(b.1));
        let claim = |name, second, running| Claim {
            name,
            created: Timestamp::from_second(second).ok(),
            placed: &placed,
            running,
        };
        let (a, b) = (claim("a", a.0, &running_a), claim("b", b.0, &running_b));
        let (of_a, of_b) = (assign_sites(a, &[b]), assign_sites(b, &[a]));
        let owner = |site| match (of_a.lost.contains(site), of_b.lost.contains(site)) {
            (false, true) => "a",
            (true, false) => "b",
            _ => "?",
        };
        format!("{}{}", owner("x"), owner("y"))
    }

    #[test]
    fn each_site_is_won_by_exactly_one_deployment() {
        for (a, b, expected) in [
            ((1, ""), (2, ""), "aa"),
            ((2, ""), (1, ""), "bb"),
            ((1, ""), (1, ""), "aa"),
            ((1, ""), (2, "y"), "ab"),
            ((2, "x"), (1, ""), "ab"),
            ((2, "x"), (1, "x y"), "bb"),
        ] {
            assert_eq!(settled(a, b), expected, "{a:?} {b:?}");
        }
    }

    /// The deployment still has to delete its revisions.
    #[test]
    fn a_deployment_keeps_a_site_until_its_revisions_are_deleted() {
        let (placed, none, running) = (set("x"), set(""), set("x"));
        let own = Claim {
            name: "a",
            created: None,
            placed: &placed,
            running: &none,
        };
        let leaving = Claim {
            name: "b",
            created: Timestamp::from_second(1).ok(),
            placed: &none,
            running: &running,
        };
        assert_eq!(assign_sites(own, &[leaving]).lost, placed);
    }

    /// Garbage collection takes time, and no other deployment begins before it is done, or in sites
    /// where revisions were left behind.
    #[test]
    fn a_deleted_deployment_keeps_a_site_until_its_revisions_are_gone() {
        let (placed, none) = (set("x y z"), set(""));
        let (own_running, left_running) = (set("y"), set("x y"));
        let own = Claim {
            name: "b",
            created: Some(Timestamp::UNIX_EPOCH),
            placed: &placed,
            running: &own_running,
        };
        let gone = Claim {
            name: "a",
            created: None,
            placed: &none,
            running: &left_running,
        };
        let rival = Claim {
            name: "c",
            created: Some(Timestamp::UNIX_EPOCH),
            placed: &placed,
            running: &none,
        };
        let overlap = assign_sites(own, &[gone, rival]);
        assert_eq!(overlap.lost, set("x"));
        let left = "SiteDeployment \"a\" does not exist any more, but its revisions are still in sites that this one \
                    selects: x. If a site does not come back, annotate its ObjectSetPhases with \
                    baton.run/abandon=true: their objects stay.";
        assert_eq!(overlap.lost_text.as_deref(), Some(left));
        // Both have revisions in y, as after an error: the site stays with the deployment that
        // exists.
        let won = "SiteDeployment \"c\" selects sites that this one has: z.";
        assert_eq!(overlap.won_text.as_deref(), Some(won));
    }

    #[test]
    fn the_texts_name_the_other_and_some_sites() {
        let (many, none) = (set("a b c d e f g"), set(""));
        let claim = |name, second| Claim {
            name,
            created: Timestamp::from_second(second).ok(),
            placed: &many,
            running: &none,
        };
        let (first, second) = (claim("one", 1), claim("two", 2));
        let (won, lost) = (
            assign_sites(first, &[second]),
            assign_sites(second, &[first]),
        );
        assert_eq!(won.lost_text, None);
        assert_eq!(
            won.won_text.unwrap(),
            "SiteDeployment \"two\" selects sites that this one has: a, b, c, d, e and 2 more."
        );
        assert_eq!(
            lost.lost_text.unwrap(),
            "SiteDeployment \"one\" has sites that this one selects as well: a, b, c, d, e and 2 more."
        );
    }
}
