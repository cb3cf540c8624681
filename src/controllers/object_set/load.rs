//! Reads a revision: its slices, its probes, and the errors in its content.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    ObjectSetProbe, ObjectSetSpec, ObjectSetStatus, ObjectSetTemplatePhase, conditions::Reason,
    constants::GROUP,
};
use baton_engine::{
    autoscaling::leave_replicas,
    conditions::{failing_since, was_refused},
    diff,
    names::{is_subdomain, quoted},
    preflight::Preflight,
    revision::{Delivery, Phase, Revision, duplicates, prepare},
    weight::TOO_LARGE,
};
use baton_kubernetes::account::Account;
use baton_probes::Probes;
use baton_records::{
    api::ApiError,
    key::OwnKind as _,
    revision::RevisionRecord,
    slice::{NewOwner, SliceRecord},
};

use baton_runtime::controller::Controller as _;

use super::ObjectSets;
use crate::delivery::{
    delegated_phases::Place,
    heirs::as_revision,
    observed::Room,
    phase_content::misplaced_account,
    shared::{AtStep as _, Error},
};

/// A revision with its slices.
pub(crate) struct Loaded {
    /// The account that writes its objects; `None` for the controller's own.
    pub account: Option<Account>,
    /// The part that does not depend on its objects.
    pub revision: Revision,
    /// The phases of the revision, slices included.
    pub phases: Vec<Phase>,
    /// The probes of the revision; `None` if they are invalid.
    pub probes: Option<Probes>,
    /// Fingerprint of its manifests; `None` if a slice is missing.
    pub content_hash: Option<String>,
    /// The reason that the revision may not be rolled out.
    pub refusal: Option<Refusal>,
}

/// The reason that a revision may not be rolled out, for any objects.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Reason of the condition.
    pub reason: Reason,
    /// Descriptions of the errors.
    pub texts: Vec<String>,
    /// Descriptions of the missing slices, if any.
    pub missing_slices: Option<Vec<String>>,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, texts: Vec<String>) -> Self {
        Self {
            reason,
            texts,
            missing_slices: None,
        }
    }
}

impl Loaded {
    /// Adds a reason that the revision may not be rolled out.
    pub(crate) fn refuse(&mut self, reason: Reason, text: String) {
        let refusal = self
            .refusal
            .get_or_insert_with(|| Refusal::new(reason, vec![]));
        refusal.reason = reason;
        refusal.texts.push(text);
    }
}

impl ObjectSets {
    /// Reads a revision. Errors in its content are part of the result.
    ///
    /// # Errors
    /// When its JSON does not parse, or a request for a slice fails.
    pub(super) async fn load(
        &self,
        record: &RevisionRecord,
        status: &ObjectSetStatus,
    ) -> Result<Loaded, Error> {
        let (spec, too_large) = record.spec_unless_too_large()?;
        let account = self
            .shared
            .account(&record.key.namespace, spec.service_account_name.as_deref());
        let mut problems = references(record, &spec);
        let is_read = too_large.is_none();
        problems.extend(too_large);
        let named = spec.service_account_name.as_ref();
        problems.extend(misplaced_account(&record.key, named));
        let mut revision = Revision {
            success_delay_seconds: spec.success_delay_seconds.unwrap_or(0),
            is_impersonated: account.is_some(),
            ..self.revision(record, status)
        };
        // It is too late for checks and a refusal once the revision has written objects.
        if status.controller_of.is_empty() && status.remote_phases.is_empty() {
            match Preflight::parse(record.preflight.as_deref()) {
                Ok(preflight) => revision.checks_all_first = preflight == Preflight::All,
                Err(problem) => problems.push(problem),
            }
        }
        let ObjectSetSpec {
            phases,
            availability_probes,
            service_account_name: spec_account,
            ..
        } = spec;
        let mut phases = phases.unwrap_or_default();
        let (missing_slices, impossible_slices) = self.inline_slices(record, &mut phases).await?;
        let is_complete = is_read && missing_slices.is_empty() && impossible_slices.is_empty();
        let content_hash = is_complete.then(|| content_hash(&phases));
        leave_replicas(&mut phases, &record.key.namespace);
        problems.extend(missing_slices.iter().cloned());
        // Impossible slices block only the roll-out, not the teardown: a revision with one has
        // never written anything.
        problems.extend(impossible_slices);
        let phase_objects = self.phase_objects(record);
        let places: Vec<_> = phases
            .iter()
            .map(|phase| phase_objects.place(phase))
            .collect();
        let are_made = places
            .iter()
            .all(|place| place.as_ref().is_some_and(Place::exists));
        let referenced = self.referenced_probes(record, are_made);
        let unknown_probes = referenced.as_ref().err().cloned();
        let probes = referenced.ok().flatten().or(availability_probes);
        let probes = probes.unwrap_or_default();
        let account_name = spec_account.as_deref();
        let object_of = |(phase, place): (&_, Option<Place>)| {
            place.map(|place| phase_objects.delegated(phase, place, &probes, account_name))
        };
        let delegates: Vec<_> = phases.iter().zip(places).map(object_of).collect();
        let mut phases = prepare(&revision, phases);
        for (phase, delegated) in phases.iter_mut().zip(delegates) {
            phase.delegated = delegated;
        }
        problems.extend(duplicates(&phases));
        let probes = match self.owners.probes(record, &probes) {
            Ok(probes) => Some(probes),
            Err(error) => {
                problems.push(error.to_string());
                None
            }
        };
        let mut loaded = Loaded {
            account,
            revision,
            phases,
            probes,
            content_hash,
            refusal: None,
        };
        if !problems.is_empty() {
            loaded.refusal = Some(Refusal {
                reason: Reason::PreflightError,
                texts: problems,
                missing_slices: (!missing_slices.is_empty()).then_some(missing_slices),
            });
        }
        if let Some(text) = unknown_probes {
            loaded.refuse(Reason::WriteError, text);
        }
        if let (Some(before), Some(now)) = (&status.content_hash, &loaded.content_hash)
            && before != now
        {
            loaded.refuse(
            Reason::SpecChanged,
            "phases is immutable: the manifests differ from those that were rolled out. Nothing \
             is written; create a new revision instead."
                .to_owned(),
        );
        }
        Ok(loaded)
    }

    /// The probes in the record of a site's version, if the revision refers to them and phase objects
    /// are to be created. Existing phase objects have the probes; `are_made` is true if all exist.
    ///
    /// # Errors
    /// When the record is not known. Without its probes, a phase would be available at once.
    fn referenced_probes(
        &self,
        record: &RevisionRecord,
        are_made: bool,
    ) -> Result<Option<Vec<ObjectSetProbe>>, String> {
        let entry = record.site.as_ref().map(|site| &site.entry);
        let Some(entry) = entry.filter(|it| it.has_probes && record.is_in_force()) else {
            return Ok(None);
        };
        if are_made {
            return Ok(None);
        }
        let terms = &self.observed.site_terms;
        let probes = terms.probes(&record.key.namespace, entry).ok_or_else(|| {
            format!(
                "The probes are not known: SiteApplication \"{}\" has no ControllerRevision of version {} with the \
                 content {}.",
                entry.application, entry.version, entry.edit
            )
        });
        probes.map(Some)
    }

    /// The part of a revision that does not depend on its contents.
    pub(super) fn revision(&self, record: &RevisionRecord, status: &ObjectSetStatus) -> Revision {
        Revision {
            generation: record.generation,
            lifecycle: record.lifecycle,
            package: record.package.clone(),
            instance: record.instance.clone(),
            force_adoption: self.force_adoption,
            is_abandoned: record.is_abandoned,
            delivery: Delivery::InProcess,
            was_refused: was_refused(&status.conditions),
            failing_since: failing_since(&status.conditions),
            delegates_ahead: record.has_site(),
            ..as_revision(record)
        }
    }

    /// Appends the objects of slices to their phases. Returns descriptions of missing slices, and
    /// of slices that cannot exist.
    async fn inline_slices(
        &self,
        record: &RevisionRecord,
        phases: &mut [ObjectSetTemplatePhase],
    ) -> Result<(Vec<String>, Vec<String>), Error> {
        let (mut missing, mut impossible) = (Vec::new(), Vec::new());
        let (mut room, mut seen) = (Room::beside(record), BTreeSet::new());
        for phase in phases {
            for name in std::mem::take(&mut phase.slices) {
                // The schema refuses these names as well. This check is for revisions older than
                // the schema.
                if !is_subdomain(&name) {
                    impossible.push(format!(
                        "Phase \"{}\": no slice can have the name {}.",
                        phase.name,
                        quoted(&name)
                    ));
                    continue;
                }
                if !seen.insert(name.clone()) {
                    impossible.push(format!(
                        "Phase \"{}\": slice \"{name}\" is named twice.",
                        phase.name
                    ));
                    continue;
                }
                let problem = match self.slice(record, &name).await {
                    Ok(Some(slice)) if room.take(&slice) => {
                        phase.objects.extend(slice.spec()?);
                        continue;
                    }
                    Ok(Some(_)) => {
                        let (phase, what) = (&phase.name, "with this slice,");
                        impossible.push(format!(
                            "Phase \"{phase}\": slice \"{name}\": {what} {TOO_LARGE}."
                        ));
                        continue;
                    }
                    Ok(None) => " not found.".to_owned(),
                    // The error message of the server.
                    Err(Error::Record {
                        source: ApiError::Refused { message, .. },
                        ..
                    }) => format!(": {message}"),
                    Err(error) => return Err(error),
                };
                missing.push(format!(
                    "Phase \"{}\": slice \"{name}\"{problem}",
                    phase.name
                ));
            }
        }
        Ok((missing, impossible))
    }

    /// A slice. The revision becomes an owner of the slice, unless it shares the slice with the revisions of
    /// other clusters: those of a Release are made owners together, as their phase objects have the content as
    /// well, and the slices of a site's version belong to its record.
    async fn slice(
        &self,
        record: &RevisionRecord,
        name: &str,
    ) -> Result<Option<Arc<SliceRecord>>, Error> {
        let (api, key) = (&self.shared.api, record.key.slice(name));
        let slice = self.observed.slice(api, &key).await?;
        if let Some(slice) = &slice
            && !record.has_shared_slices()
            && !slice.is_owned_by(&record.uid)
            && !record.is_closed()
        {
            let owned = api.add_slice_owners(&[NewOwner::of(record)], slice).await;
            let owned = owned.at_step("slices")?;
            self.observed.slices.updated(owned, Self::NAME);
        }
        Ok(slice)
    }
}

/// Errors in `previous`. The schema refuses them as well. This check is for revisions older than
/// the schema.
fn references(record: &RevisionRecord, spec: &ObjectSetSpec) -> Vec<String> {
    let own = record.key.kind.kind();
    let previous = spec.previous.iter().flatten();
    previous
        .filter(|previous| {
            previous.kind.as_deref().is_some_and(|kind| kind != own)
                || previous
                    .group
                    .as_deref()
                    .is_some_and(|group| group != GROUP)
        })
        .map(|previous| {
            format!(
                "previous: {} must be of kind {own} in {GROUP}",
                previous.name
            )
        })
        .collect()
}

/// Fingerprint of all manifests. It contains only fields that the API server does not default, so
/// that a new default in the schema changes nothing.
fn content_hash(phases: &[ObjectSetTemplatePhase]) -> String {
    let manifests: Vec<_> = phases
        .iter()
        .map(|phase| {
            let objects: Vec<_> = phase.objects.iter().map(|entry| &entry.object).collect();
            serde_json::json!([phase.name, objects])
        })
        .collect();
    format!("{:016x}", diff::content_fingerprint(&manifests.into()))
}
