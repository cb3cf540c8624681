//! The choice of the versions to keep, and of the newest version.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use baton_apis::{
    KeptVersion, SiteApplicationStatus,
    conditions::{KEPT, READY, RECONCILING, Reason, STALLED},
};
use baton_engine::{
    chain_names::{NoNextNumber, next_in_chain},
    condition_list::Conditions,
};
use jiff::Timestamp;

use super::Invalid;
use crate::text;

/// Number of versions that are kept even if they are not used.
const VERSIONS: usize = 4;
/// Maximum length of the message of a condition, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Number of versions that the status lists.
const LISTED: usize = 20;

/// A version that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the `ControllerRevision`.
    pub name: String,
    /// Order of appearance.
    pub revision: i64,
    /// Name of the version.
    pub version: String,
    /// Identifier of the edit.
    pub edit: String,
    /// True if the status lists the record for its version.
    pub is_listed: bool,
    /// True if the application does not control the record, because an earlier one has left it.
    pub is_left: bool,
}

/// The decision about the records of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordsPlan {
    /// Wanted revision of the record of the present version; `None` if there is no present version.
    pub revision: Option<i64>,
    /// Names of records that are not needed any more.
    pub surplus: Vec<String>,
    /// Names of records that were left and that no site uses. Another client may have made them.
    pub ignored: Vec<String>,
    /// Versions that are kept, the newest first, each version once.
    pub versions: Vec<KeptVersion>,
    /// Reason that an existing present version cannot be kept.
    pub obstacle: Option<Invalid>,
}

/// Decides which records to keep.
///
/// - `present`: name, version and edit in the spec, even if they are not among `records`; `None` if
///   they cannot be kept.
/// - `used`: versions and edits that sites have.
/// - `named`: versions that deployments name.
pub fn plan_records(
    records: &[Record],
    present: Option<(&str, &str, &str)>,
    used: &BTreeSet<(&str, &str)>,
    named: &BTreeSet<&str>,
) -> RecordsPlan {
    let is_ignored = |record: &Record| {
        let is_present = present.is_some_and(|(name, ..)| record.name == name);
        record.is_left && !is_present && !used.contains(&(&*record.version, &*record.edit))
    };
    let (ignored, mut records): (Vec<_>, Vec<_>) = records
        .iter()
        .cloned()
        .partition(|record| is_ignored(record));
    let mut kept = RecordsPlan {
        ignored: ignored.into_iter().map(|record| record.name).collect(),
        ..RecordsPlan::default()
    };
    if let Some((name, version, edit)) = present {
        match place_of(name, &records) {
            Ok(revision) => {
                records.retain(|record| record.name != name);
                records.push(Record {
                    name: name.to_owned(),
                    revision,
                    version: version.to_owned(),
                    edit: edit.to_owned(),
                    is_listed: true,
                    is_left: false,
                });
                kept.revision = Some(revision);
            }
            Err(highest) => {
                kept.obstacle = Some(Invalid {
                    reason: Reason::NumbersExhausted,
                    message: format!("ControllerRevision {highest}. Delete it."),
                });
            }
        }
    }
    let is_present = |record: &Record| present.is_some_and(|(name, ..)| record.name == name);
    records.sort_by_key(|record| Reverse((is_present(record), record.revision)));
    // Of several records of a version, another client cannot list its own.
    let rank = |record: &Record| (is_present(record), record.is_listed, record.revision);
    let mut places: BTreeMap<&str, (usize, &Record)> = BTreeMap::new();
    for record in &records {
        let place = places.len();
        let (_, newest) = places.entry(&record.version).or_insert((place, record));
        if rank(record) > rank(newest) {
            *newest = record;
        }
    }
    for record in &records {
        let (order, newest) = places[&*record.version];
        let is_newest = newest.name == record.name;
        let is_recent = order < VERSIONS || named.contains(&*record.version);
        let is_used = used.contains(&(&*record.version, &*record.edit));
        if !(is_used || (is_newest && is_recent)) {
            kept.surplus.push(record.name.clone());
        } else if is_newest
            && kept.versions.len() < LISTED
            && (present.is_some() || record.is_listed)
        {
            kept.versions.push(KeptVersion {
                version: record.version.clone(),
                edit: record.edit.clone(),
                record: record.name.clone(),
            });
        }
    }
    kept
}

/// The revision of a record that makes it the newest.
fn place_of(name: &str, records: &[Record]) -> Result<i64, NoNextNumber> {
    let (own, others): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.name == name);
    let own = own.first().map(|own| own.revision);
    let is_newest = |own: &i64| others.iter().all(|other| other.revision < *own);
    match own.filter(is_newest) {
        Some(own) => Ok(own),
        None => next_in_chain(records.iter().map(|it| (&it.name, Some(it.revision)))),
    }
}

/// The status of an application with this generation.
pub fn report(
    previous: &SiteApplicationStatus,
    generation: i64,
    now: Timestamp,
    versions: Vec<KeptVersion>,
    kept: &Result<&str, &Invalid>,
) -> SiteApplicationStatus {
    let mut conditions = Conditions::new(&previous.conditions, generation, now);
    conditions.remove(RECONCILING);
    match kept {
        Ok(version) => {
            let message = format!("Version {version} is kept.");
            conditions.set(KEPT, "True", Reason::Kept, &message);
            conditions.set(READY, "True", Reason::Kept, &message);
            conditions.remove(STALLED);
        }
        Err(Invalid { reason, message }) => {
            conditions.set(KEPT, "False", *reason, message);
            conditions.set(READY, "False", *reason, message);
            conditions.set(STALLED, "True", *reason, message);
        }
    }
    SiteApplicationStatus {
        observed_generation: Some(generation),
        versions,
        conditions: conditions.into_list(),
    }
}

/// The status of an application whose versions are neither kept nor deleted for now: `why` names
/// the kind that cannot be listed, and the cause.
pub fn undecided(
    previous: &SiteApplicationStatus,
    generation: i64,
    now: Timestamp,
    why: &str,
) -> SiteApplicationStatus {
    let kept = ("Unknown", Reason::ListFailed);
    reconciling(previous, generation, now, kept, why)
}

/// The status of an application whose versions cannot be stored: `why` names the request that
/// failed, and the cause. The request is retried.
pub fn not_stored(
    previous: &SiteApplicationStatus,
    generation: i64,
    now: Timestamp,
    why: &str,
) -> SiteApplicationStatus {
    let kept = ("False", Reason::WriteError);
    reconciling(
        previous,
        generation,
        now,
        kept,
        &text::line(why, MAX_MESSAGE),
    )
}

fn reconciling(
    previous: &SiteApplicationStatus,
    generation: i64,
    now: Timestamp,
    (status, reason): (&str, Reason),
    why: &str,
) -> SiteApplicationStatus {
    let mut conditions = Conditions::new(&previous.conditions, generation, now);
    for type_ in [KEPT, READY] {
        conditions.set(type_, status, reason, why);
    }
    conditions.set(RECONCILING, "True", reason, why);
    conditions.remove(STALLED);
    SiteApplicationStatus {
        conditions: conditions.into_list(),
        ..previous.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records as `version/edit`, in the order of their appearance.
    fn records(list: &[&str]) -> Vec<Record> {
        let records = (1..).zip(list).map(|(revision, text)| {
            let (version, edit) = text.split_once('/').unwrap();
            Record {
                name: (*text).to_owned(),
                revision,
                version: version.to_owned(),
                edit: edit.to_owned(),
                is_listed: false,
                is_left: false,
            }
        });
        records.collect()
    }

    fn kept(list: &[&str], present: &str, used: &[(&str, &str)], named: &[&str]) -> RecordsPlan {
        let (version, edit) = present.split_once('/').unwrap_or_default();
        let present = (!present.is_empty()).then_some((present, version, edit));
        let (used, named) = (used.iter().copied(), named.iter().copied());
        plan_records(&records(list), present, &used.collect(), &named.collect())
    }

    #[test]
    fn the_newest_four_and_all_used_versions_are_kept() {
        let five = ["1/a", "2/a", "3/a", "4/a", "5/a"];
        for (list, present, used, named, surplus) in [
            (&five[..4], "4/a", &[][..], &[][..], &[][..]),
            (&five[..4], "5/a", &[], &[], &["1/a"]),
            (&five, "5/a", &[], &["1"], &[]),
            (&five, "5/a", &[("1", "a")], &[], &[]),
            (&five, "5/a", &[("1", "b")], &[], &["1/a"]),
            // Edits count as one version, and the older edits stay while they are used.
            (
                &["1/a", "2/a", "2/b", "3/a", "4/a"],
                "4/a",
                &[],
                &[],
                &["2/a"],
            ),
            (
                &["1/a", "2/a", "2/b", "3/a", "4/a"],
                "4/a",
                &[("2", "a")],
                &[],
                &[],
            ),
            // The present version cannot be kept.
            (&five, "", &[], &[], &["1/a"]),
        ] {
            assert_eq!(
                kept(list, present, used, named).surplus,
                surplus,
                "{list:?} {present}"
            );
        }
    }

    /// Records that a client has forged: of a higher number, and left without a controller.
    #[test]
    fn a_record_of_another_client_does_not_replace_a_listed_one() {
        let none = BTreeSet::new();
        let listed = |present, used: &BTreeSet<(&str, &str)>, change: fn(&mut Record)| {
            let mut records = records(&["1/a", "2/a", "1/x", "6/x"]);
            for record in &mut records[..2] {
                record.is_listed = true;
            }
            records[2..].iter_mut().for_each(change);
            let kept = plan_records(&records, present, used, &none);
            let names: Vec<_> = kept.versions.iter().map(|it| it.record.as_str()).collect();
            (
                names.join(" "),
                kept.ignored.join(" "),
                kept.surplus.join(" "),
            )
        };
        let two = Some(("2/a", "2", "a"));
        let texts = |listed: &str, ignored: &str, surplus: &str| {
            (listed.to_owned(), ignored.to_owned(), surplus.to_owned())
        };
        let is_as_before = |_: &mut Record| {};
        let is_left = |record: &mut Record| record.is_left = true;
        assert_eq!(
            listed(two, &BTreeSet::new(), is_as_before),
            texts("2/a 6/x 1/a", "", "1/x")
        );
        assert_eq!(
            listed(None, &BTreeSet::new(), is_as_before),
            texts("2/a 1/a", "", "1/x")
        );
        assert_eq!(
            listed(two, &BTreeSet::new(), is_left),
            texts("2/a 1/a", "1/x 6/x", "")
        );
        // Sites run a version that an earlier application has left.
        let used = BTreeSet::from([("6", "x")]);
        assert_eq!(listed(two, &used, is_left), texts("2/a 6/x 1/a", "1/x", ""));
    }

    #[test]
    fn a_version_that_comes_back_is_the_newest_again() {
        let three = ["1/a", "2/a", "3/a"];
        for (present, revision, listed) in [
            ("3/a", 3, "3 2 1"),
            ("1/a", 4, "1 3 2"),
            ("1/b", 4, "1 3 2"),
            ("4/a", 4, "4 3 2 1"),
        ] {
            let kept = kept(&three, present, &[], &[]);
            assert_eq!(kept.revision, Some(revision), "{present}");
            let versions: Vec<_> = kept.versions.iter().map(|it| it.version.as_str()).collect();
            assert_eq!(versions.join(" "), listed, "{present}");
            assert_eq!(kept.versions[0].record, present);
        }
        assert_eq!(kept(&[], "1/a", &[], &[]).revision, Some(1));
    }

    #[test]
    fn a_version_without_a_free_number_is_reported_and_not_kept() {
        let mut records = records(&["1/a", "2/a", "3/a"]);
        records[1].revision = i64::MAX;
        let none = BTreeSet::new();
        let of = |name: &'static str| Some((name, &name[..1], &name[2..]));
        // The present version stays the first if it has a record.
        for (present, listed) in [("1/a", ["1", "2", "3"]), ("4/a", ["2", "3", "1"])] {
            let kept = plan_records(&records, of(present), &none, &BTreeSet::new());
            assert_eq!(
                (kept.revision, &kept.surplus[..]),
                (None, &[][..]),
                "{present}"
            );
            let versions: Vec<_> = kept.versions.iter().map(|it| &*it.version).collect();
            assert_eq!(versions, listed, "{present}");
            let obstacle = kept.obstacle.unwrap();
            assert_eq!(obstacle.reason, Reason::NumbersExhausted);
            let text = "ControllerRevision 2/a has the number 9223372036854775807";
            assert!(obstacle.message.starts_with(text), "{}", obstacle.message);
        }
        // The version with the highest number needs no other number.
        let kept = plan_records(&records, of("2/a"), &none, &BTreeSet::new());
        assert_eq!((kept.revision, kept.obstacle), (Some(i64::MAX), None));
        records.remove(1);
        let kept = plan_records(&records, of("4/a"), &none, &BTreeSet::new());
        assert_eq!((kept.revision, kept.obstacle), (Some(4), None));
    }

    #[test]
    fn a_repeated_report_does_not_change_the_status() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let invalid = Invalid {
            reason: Reason::InvalidTemplate,
            message: "no".to_owned(),
        };
        let empty = SiteApplicationStatus::default();
        let good = report(&empty, 1, now(1), vec![], &Ok("1.2.3"));
        assert_eq!(report(&good, 1, now(2), vec![], &Ok("1.2.3")), good);
        let types = |status: &SiteApplicationStatus| {
            let types = status
                .conditions
                .iter()
                .map(|it| format!("{}={}", it.type_, it.status));
            types.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(types(&good), "Kept=True Ready=True");
        let bad = report(&good, 2, now(3), vec![], &Err(&invalid));
        assert_eq!(types(&bad), "Kept=False Ready=False Stalled=True");
        let held = undecided(
            &bad,
            2,
            now(3),
            "SiteDeployments cannot be listed: no right",
        );
        assert_eq!(types(&held), "Kept=Unknown Ready=Unknown Reconciling=True");
        assert_eq!(held.observed_generation, Some(2));
        let refused = not_stored(&good, 2, now(3), &"no right ".repeat(1000));
        assert_eq!(types(&refused), "Kept=False Ready=False Reconciling=True");
        assert_eq!(refused.conditions[0].reason, Reason::WriteError.as_str());
        assert!(refused.conditions[0].message.len() <= MAX_MESSAGE);
        assert_eq!(refused.versions, good.versions);
        assert_eq!(
            undecided(
                &held,
                2,
                now(4),
                "SiteDeployments cannot be listed: no right"
            ),
            held
        );
        assert_eq!(
            types(&report(&bad, 3, now(4), vec![], &Ok("2"))),
            "Kept=True Ready=True"
        );
    }
}
