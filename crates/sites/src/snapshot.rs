//! The versions of an application that are kept unchanged.
//!
//! A version consists of a `ControllerRevision`, whose data is a [`Snapshot`], and of the slices
//! that it names. `revision` is the order in which versions appeared: the one with the highest
//! number is the newest.

mod keep;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ObjectSetObject, ObjectSetProbe, ObjectSetTemplateSpec, ServiceUpgradeMethod,
    SiteApplicationSpec, SiteStop, SiteUpgrade, UpgradeMethod, conditions::Reason,
};
use baton_engine::{
    chain_names::{begin, is_numbered, short_hash},
    names::{is_label, quoted},
    redact::without_values,
    slice_parts::{self, placed_by_default},
    weight::{MANIFESTS, TOO_LARGE, of_json},
};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::keep::{Record, RecordsPlan, not_stored, plan_records, report, undecided};
use crate::{rollout, window::Windows};

/// Maximum length of the start of a name, which leaves room for a hash in a label.
const NAME_LIMIT: usize = 40;

/// The content of a version of an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Name of the version.
    pub version: String,
    /// Identifier of the content, different for each edit of the version.
    pub edit: String,
    /// Phases in their order.
    pub phases: Vec<SnapshotPhase>,
    /// Probes that decide when the objects are available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub availability_probes: Vec<ObjectSetProbe>,
    /// Seconds for which sites of a wave have to stay available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_delay_seconds: Option<i32>,
    /// Service account that the objects are written as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// The way in which workloads are exchanged.
    #[serde(default)]
    pub upgrade: SiteUpgrade,
}

impl Snapshot {
    fn is_equal_beside_phases(&self, other: &Self) -> bool {
        let Self {
            version,
            edit,
            phases: _,
            availability_probes,
            success_delay_seconds,
            service_account_name,
            upgrade,
        } = self;
        *version == other.version
            && *edit == other.edit
            && *availability_probes == other.availability_probes
            && *success_delay_seconds == other.success_delay_seconds
            && *service_account_name == other.service_account_name
            && *upgrade == other.upgrade
    }
}

/// A phase, whose objects are in slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SnapshotPhase {
    /// Name of the phase.
    pub name: String,
    /// Names of the slices with the objects of the phase.
    pub slices: Vec<String>,
}

/// A version with the present content of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The content that is kept.
    pub snapshot: Snapshot,
    /// The slices of the snapshot.
    pub slices: Vec<Slice>,
}

/// A slice of a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Name of the slice; it contains a hash of the content.
    pub name: String,
    /// Objects of the slice.
    pub objects: Value,
}

/// The reason that a version cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Reason of the condition `Kept`.
    pub reason: Reason,
    /// Message for people.
    pub message: String,
}

impl Snapshot {
    /// The names of all slices of the version.
    pub fn slices(&self) -> impl Iterator<Item = &str> {
        let phases = self.phases.iter();
        phases.flat_map(|phase| phase.slices.iter().map(String::as_str))
    }

    /// The version as the input of a plan.
    pub fn planned(&self) -> rollout::Version {
        rollout::Version {
            version: self.version.as_str().into(),
            edit: self.edit.as_str().into(),
            phases: self.phases.iter().map(|it| it.name.clone()).collect(),
            stop: stop(&self.upgrade),
            has_probes: !self.availability_probes.is_empty(),
            success_delay: SignedDuration::from_secs(
                self.success_delay_seconds.map_or(0, |it| it.max(0).into()),
            ),
        }
    }
}

fn stop(upgrade: &SiteUpgrade) -> SiteStop {
    if upgrade.method == UpgradeMethod::StopAndRestart {
        return SiteStop::All;
    }
    let stopped = upgrade.services.iter();
    let stopped = stopped.filter(|it| it.method == ServiceUpgradeMethod::StopAndRestart);
    let stopped: Vec<_> = stopped.map(|service| service.name.clone()).collect();
    if stopped.is_empty() {
        SiteStop::None
    } else {
        SiteStop::Services(stopped)
    }
}

impl Content {
    /// True if a record contains this version. Its slices may have other names of the same base.
    pub fn is_stored_as(&self, stored: &Snapshot) -> bool {
        let (own, its) = (&self.snapshot.phases, &stored.phases);
        // A slice has one name, however often it is used.
        let mut names = BTreeMap::new();
        let mut is_same_slice = |(own, its): (&String, &String)| {
            is_numbered(its, own)
                && *names.entry(own.clone()).or_insert_with(|| its.clone()) == *its
        };
        let is_same_phase = |(own, its): (&SnapshotPhase, &SnapshotPhase)| {
            own.name == its.name
                && own.slices.len() == its.slices.len()
                && own.slices.iter().zip(&its.slices).all(&mut is_same_slice)
        };
        own.len() == its.len()
            && own.iter().zip(its).all(is_same_phase)
            && self.snapshot.is_equal_beside_phases(stored)
    }

    /// Gives the slices the names that a record [of this version](Self::is_stored_as) has for them.
    pub fn take_names(&mut self, stored: &Snapshot) {
        let names: BTreeMap<_, _> = self.snapshot.slices().zip(stored.slices()).collect();
        for slice in &mut self.slices {
            if let Some(name) = names.get(&*slice.name) {
                slice.name = (*name).to_owned();
            }
        }
        self.snapshot.phases.clone_from(&stored.phases);
    }

    /// Gives a slice another name.
    pub fn rename(&mut self, slice: usize, name: String) {
        let Some(slice) = self.slices.get_mut(slice) else {
            return;
        };
        let named = self.snapshot.phases.iter_mut();
        for named in named.flat_map(|phase| &mut phase.slices) {
            if *named == slice.name {
                named.clone_from(&name);
            }
        }
        slice.name = name;
    }
}

/// The name of the record of a version.
pub fn record_name(application: &str, version: &str, edit: &str) -> String {
    let hash = short_hash(&format!("{application}/{version}/{edit}"));
    format!("{}-{hash}", begin(application, NAME_LIMIT))
}

/// True if an object has the [name](record_name) of the record with this snapshot, or a further one
/// of the same base.
pub fn is_record_name(name: &str, application: &str, snapshot: &Snapshot) -> bool {
    let base = record_name(application, &snapshot.version, &snapshot.edit);
    is_numbered(name, &base)
}

/// The version in the present spec of an application, given by namespace and name. Objects without
/// a namespace are in that of the application, also in sites.
///
/// # Errors
/// If the template cannot be brought to sites or takes too much memory, or a window is invalid.
///
/// # Caveats
/// The edit is a hash of the serialised template. A new field in its types has to be omitted while
/// it has its default; otherwise an update of the manager would edit every version.
pub fn content(
    (namespace, application): (&str, &str),
    spec: &SiteApplicationSpec,
) -> Result<Content, Invalid> {
    if of_json(spec.template.spec.text()) > MANIFESTS {
        return Err(invalid(format!("template: {TOO_LARGE}")));
    }
    let template = spec.template.spec.read();
    let template = template.map_err(|error| invalid(unreadable(&error)))?;
    check(&template).map_err(invalid)?;
    Windows::compile(&spec.upgrade_windows).map_err(|error| Invalid {
        reason: Reason::InvalidWindow,
        message: error.to_string(),
    })?;
    // The other fields apply to all versions, with the present values of the application.
    let upgrade = SiteUpgrade {
        method: spec.upgrade.method,
        services: spec.upgrade.services.clone(),
        ..SiteUpgrade::default()
    };
    let (mut phases, mut slices) = (Vec::new(), Vec::new());
    let edit = short_hash(&json!([template, upgrade]).to_string());
    for phase in template.phases.into_iter().flatten() {
        let objects = phase.objects.into_iter().map(|entry| ObjectSetObject {
            object: placed_by_default(entry.object, namespace),
            ..entry
        });
        let parts = slice_parts::in_parts(objects.collect());
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| slice(application, json!(part)))
            .collect();
        phases.push(SnapshotPhase {
            name: phase.name,
            slices: parts.iter().map(|slice| slice.name.clone()).collect(),
        });
        for part in parts {
            if !slices.contains(&part) {
                slices.push(part);
            }
        }
    }
    let snapshot = Snapshot {
        version: spec.version.clone(),
        edit,
        phases,
        availability_probes: template.availability_probes.unwrap_or_default(),
        success_delay_seconds: template.success_delay_seconds,
        service_account_name: template.service_account_name,
        upgrade,
    };
    Ok(Content { snapshot, slices })
}

fn slice(application: &str, objects: Value) -> Slice {
    let hash = short_hash(&format!("{application}/{objects}"));
    Slice {
        name: format!("{}-{hash}", begin(application, NAME_LIMIT)),
        objects,
    }
}

fn invalid(message: String) -> Invalid {
    Invalid {
        reason: Reason::InvalidTemplate,
        message,
    }
}

fn unreadable(error: &serde_json::Error) -> String {
    format!("template: {}", without_values(&error.to_string()))
}

/// Checks a template; the error is a message.
fn check(template: &ObjectSetTemplateSpec) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut objects = 0;
    for phase in template.phases.iter().flatten() {
        let name = quoted(&phase.name);
        if !is_label(&phase.name) {
            return Err(format!(
                "template: {name} cannot be the name of a phase: lower case letters, digits and \"-\", at most 63"
            ));
        }
        if !names.insert(&phase.name) {
            return Err(format!("template: there are two phases {name}"));
        }
        if !phase.class.is_empty() {
            return Err(format!(
                "template: phase {name} has the class {}; all phases are delivered into their site, so a class is not \
                 allowed",
                quoted(&phase.class)
            ));
        }
        if !phase.slices.is_empty() {
            return Err(format!(
                "template: phase {name} names slices, which may be deleted at any time; list its objects instead"
            ));
        }
        objects += phase.objects.len();
    }
    if names.is_empty() {
        return Err("template: there are no phases".to_owned());
    }
    if objects == 0 {
        return Err("template: there are no objects".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use baton_apis::Raw;

    use super::*;

    fn application(phases: &Value) -> SiteApplicationSpec {
        let spec = json!({
            "version": "1.2.3",
            "template": {"spec": {"phases": phases}},
        });
        serde_json::from_value(spec).unwrap()
    }

    fn phase(name: &str) -> Value {
        json!({"name": name, "objects": [{"object": {"kind": "ConfigMap", "metadata": {"name": name}}}]})
    }

    #[test]
    fn an_edit_changes_with_the_template_and_the_method_alone() {
        let edit = |change: fn(&mut SiteApplicationSpec)| {
            let mut spec = application(&json!([phase("a"), phase("b")]));
            change(&mut spec);
            content(("tenant", "shop"), &spec).unwrap().snapshot.edit
        };
        let plain = edit(|_| {});
        assert_eq!(plain.len(), 16);
        assert_eq!(plain, edit(|spec| spec.version = "2".to_owned()));
        assert_eq!(plain, edit(|spec| spec.upgrade.skip_patch_versions = true));
        assert_ne!(
            plain,
            edit(|spec| spec.upgrade.method = UpgradeMethod::StopAndRestart)
        );
        assert_ne!(
            plain,
            edit(|spec| {
                let mut template = spec.template.spec.read().unwrap();
                template.success_delay_seconds = Some(3);
                spec.template.spec = Raw::of(&template).unwrap();
            })
        );
    }

    #[test]
    fn objects_of_phases_are_in_slices_named_after_their_content() {
        let made = content(
            ("tenant", "shop"),
            &application(&json!([phase("a"), phase("b")])),
        )
        .unwrap();
        let edited = content(
            ("tenant", "shop"),
            &application(&json!([phase("a"), phase("c")])),
        )
        .unwrap();
        let names: Vec<_> = made.snapshot.slices().collect();
        let listed: Vec<_> = made
            .slices
            .iter()
            .map(|slice| slice.name.as_str())
            .collect();
        assert_eq!(names, listed);
        assert_eq!(names[0], edited.snapshot.slices().next().unwrap());
        assert_ne!(names[1], edited.snapshot.slices().nth(1).unwrap());
        let data = json!(made.snapshot);
        assert_eq!(made.snapshot, serde_json::from_value(data).unwrap());
    }

    #[test]
    fn a_record_may_have_further_names_for_slices_but_no_other_content() {
        let of = |phases: Value| content(("tenant", "shop"), &application(&phases)).unwrap();
        // Both phases have the same slice.
        let objects = phase("x")["objects"].clone();
        let same = json!([{"name": "a", "objects": objects}, {"name": "b", "objects": objects}]);
        let mut made = of(same);
        assert_eq!(made.slices.len(), 1);
        let base = made.slices[0].name.clone();
        let stored = |names: [&str; 2]| {
            let mut stored = made.snapshot.clone();
            for (phase, name) in stored.phases.iter_mut().zip(names) {
                phase.slices = vec![format!("{base}{name}")];
            }
            stored
        };
        for (names, expected) in [
            (["", ""], true),
            (["-1", "-1"], true),
            (["", "-1"], false),
            (["x", "x"], false),
        ] {
            assert_eq!(made.is_stored_as(&stored(names)), expected, "{names:?}");
        }
        for change in [
            |it: &mut Snapshot| it.edit = "x".to_owned(),
            |it: &mut Snapshot| it.success_delay_seconds = Some(1),
            |it: &mut Snapshot| it.phases[1].name = "c".to_owned(),
            |it: &mut Snapshot| it.phases.truncate(1),
        ] {
            let mut other = stored(["", ""]);
            change(&mut other);
            assert!(!made.is_stored_as(&other), "{other:?}");
        }
        let renamed = stored(["-2", "-2"]);
        made.take_names(&renamed);
        assert_eq!(
            (&made.snapshot, &made.slices[0].name),
            (&renamed, &format!("{base}-2"))
        );
        made.rename(0, "other".to_owned());
        assert_eq!(
            made.snapshot.slices().collect::<Vec<_>>(),
            ["other", "other"]
        );
    }

    #[test]
    fn invalid_applications_are_refused_with_a_reason() {
        let with = |field: &str, value: Value| {
            let mut phase = phase("a");
            phase[field] = value;
            json!([phase])
        };
        for (phases, expected) in [
            (json!([]), "no phases"),
            (json!([phase("a"), phase("a")]), "two phases \"a\""),
            (json!([phase("A b")]), "name of a phase"),
            (with("class", json!("default")), "has the class \"default\""),
            (with("slices", json!(["x"])), "names slices"),
            (with("objects", json!([])), "no objects"),
        ] {
            let invalid = content(("tenant", "shop"), &application(&phases)).unwrap_err();
            assert_eq!(invalid.reason, Reason::InvalidTemplate);
            assert!(invalid.message.contains(expected), "{}", invalid.message);
        }
        let mut spec = application(&json!([phase("a")]));
        spec.upgrade_windows.push(baton_apis::UpgradeWindow {
            cron: "never".to_owned(),
            duration: "1h".to_owned(),
            time_zone: None,
        });
        let invalid = content(("tenant", "shop"), &spec).unwrap_err();
        assert_eq!(invalid.reason, Reason::InvalidWindow);
    }

    #[test]
    fn workloads_stop_according_to_the_upgrade_method() {
        for (upgrade, expected) in [
            (json!({}), SiteStop::None),
            (json!({"method": "StopAndRestart"}), SiteStop::All),
            (
                json!({"services": [{"name": "db", "method": "StopAndRestart"}, {"name": "web"}]}),
                SiteStop::Services(vec!["db".to_owned()]),
            ),
        ] {
            assert_eq!(stop(&serde_json::from_value(upgrade).unwrap()), expected);
        }
    }
}
