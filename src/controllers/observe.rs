//! Reading a revision: its slices, its probes, and what is wrong with it as a whole.

use baton_apis::{
    ObjectSetSpec, ObjectSetStatus, ObjectSetTemplatePhase, ObjectSlice, conditions::reasons,
    constants::GROUP,
};

use super::{Context, delegate, object_set::Error, owner::Owner};
use crate::{
    cluster::{key::Resource as _, record::Record, revision_api::ApiError},
    engine::{
        diff,
        probes::Probes,
        revision::{Delivery, Phase, Revision, duplicates, prepare},
    },
};

/// A revision read in full.
pub struct Loaded {
    /// What does not depend on its objects.
    pub revision: Revision,
    /// Its phases, slices included.
    pub phases: Vec<Phase>,
    /// Its probes, unless they are faulty.
    pub probes: Option<Probes>,
    /// Fingerprint of its manifests, if all of them are known.
    pub content_hash: Option<String>,
    /// Why nothing may be done with it.
    pub refusal: Option<Refusal>,
}

/// Why nothing may be done with a revision, whatever its objects look like.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Reason of the condition.
    pub reason: &'static str,
    /// What is wrong.
    pub texts: Vec<String>,
    /// The slices among it.
    pub missing_slices: Option<Vec<String>>,
}

impl Loaded {
    /// Adds a fault that keeps the revision from being worked on.
    pub fn refuse(&mut self, reason: &'static str, text: String) {
        let refusal = self.refusal.get_or_insert_default();
        refusal.reason = reason;
        refusal.texts.push(text);
    }
}

/// Reads a revision. Faults of its content are in the result, not errors.
///
/// # Errors
/// When its JSON is none of ours, or a request for a slice fails.
pub async fn load(
    context: &Context,
    record: &Record,
    status: &ObjectSetStatus,
) -> Result<Loaded, Error> {
    let spec = record.spec()?;
    let revision = Revision {
        identity: crate::engine::object::Identity {
            kind: record.key.kind.kind().to_owned(),
            namespace: record.key.namespace.to_string(),
            name: record.key.name.to_string(),
            uid: record.uid.to_string(),
            is_remote: false,
        },
        number: record.number.unwrap_or(0),
        generation: record.generation,
        lifecycle: record.lifecycle,
        success_delay_seconds: spec.success_delay_seconds.unwrap_or(0),
        package: record.package.clone(),
        instance: record.instance.clone(),
        force_adoption: context.force_adoption,
        delivery: Delivery::InProcess,
    };
    let mut faults = references(record, &spec);
    let ObjectSetSpec {
        phases,
        availability_probes,
        ..
    } = spec;
    let mut phases = phases.unwrap_or_default();
    let missing_slices = inline_slices(context, record, &mut phases).await?;
    let content_hash = missing_slices.is_empty().then(|| content_hash(&phases));
    faults.extend(missing_slices.iter().cloned());
    let probes = availability_probes.unwrap_or_default();
    let delegates: Vec<_> = phases
        .iter()
        .map(|phase| delegate::delegated(context, record, phase, &probes))
        .collect();
    let mut phases = prepare(&revision, phases);
    for (phase, delegated) in phases.iter_mut().zip(delegates) {
        phase.delegated = delegated;
    }
    faults.extend(duplicates(&phases));
    let owner = Owner::Set(record.key.clone());
    let probes = match context.probes(&owner, &record.uid, &probes) {
        Ok(probes) => Some(probes),
        Err(error) => {
            faults.push(error.to_string());
            None
        }
    };
    let mut loaded = Loaded {
        revision,
        phases,
        probes,
        content_hash,
        refusal: None,
    };
    if !faults.is_empty() {
        loaded.refusal = Some(Refusal {
            reason: reasons::PREFLIGHT_ERROR,
            texts: faults,
            missing_slices: (!missing_slices.is_empty()).then_some(missing_slices),
        });
    }
    if let (Some(before), Some(now)) = (&status.content_hash, &loaded.content_hash)
        && before != now
    {
        loaded.refuse(
            reasons::SPEC_CHANGED,
            "phases is immutable: the manifests differ from those that were rolled out. Nothing \
             is written; create a new revision instead."
                .to_owned(),
        );
    }
    Ok(loaded)
}

/// Faults of `previous` (contract 1.6). The schema refuses them as well; a revision that was
/// there before the schema is judged here.
fn references(record: &Record, spec: &ObjectSetSpec) -> Vec<String> {
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

/// Appends the objects of slices to their phases (contract 2.3); texts for those that are missing.
async fn inline_slices(
    context: &Context,
    record: &Record,
    phases: &mut [ObjectSetTemplatePhase],
) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for phase in phases {
        for name in std::mem::take(&mut phase.slices) {
            match slice(context, record, &name).await {
                Ok(Some(slice)) => phase.objects.extend(slice.spec.objects),
                Ok(None) => {
                    missing.push(format!(
                        "Phase \"{}\": slice \"{name}\" not found.",
                        phase.name
                    ));
                }
                Err(ApiError::Refused { message, .. }) => {
                    missing.push(format!(
                        "Phase \"{}\": slice \"{name}\": {message}",
                        phase.name
                    ));
                }
                Err(error) => return Err(Error::Slices(error)),
            }
        }
    }
    Ok(missing)
}

/// Reads a slice and makes the revision one of its owners.
async fn slice(
    context: &Context,
    record: &Record,
    name: &str,
) -> Result<Option<ObjectSlice>, ApiError> {
    let slice = context.api.slice(&record.key, name).await?;
    if let Some(slice) = &slice {
        let owners = slice.metadata.owner_references.iter().flatten();
        let owned = owners
            .into_iter()
            .any(|reference| *reference.uid == *record.uid);
        if !owned && !record.is_closed() {
            context.api.own_slice(record, slice).await?;
        }
    }
    Ok(slice)
}

/// Fingerprint of all manifests. Only what the API server passes through untouched goes into it,
/// so that a new default in the schema changes nothing.
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
