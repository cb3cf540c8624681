//! The next Release of an Application.

use baton_apis::{
    Application, Release, ReleaseSpec,
    constants::shipper::{
        ANNOTATION_BLOCK_OVERRIDE, ANNOTATION_RELEASE_GENERATION, ANNOTATION_RELEASE_ITERATION,
        API_VERSION, FINALIZER_SERVING, LABEL_APP, LABEL_RELEASE, LABEL_RELEASE_HASH,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::history::{History, HistoryEntry};
use crate::{hash::environment_hash, texts::parse_number};

/// The Release with this generation, created from the template.
pub(super) fn next(application: &Application, history: &History<'_>, generation: i64) -> Release {
    let owner = &application.metadata;
    let app = owner.name.clone().unwrap_or_default();
    let hash = environment_hash(&application.spec.template);
    let (name, iteration) = free_name(&app, &hash, history);

    // The labels of the Application are copied, except those that identify a Release.
    let mut labels = owner.labels.clone().unwrap_or_default();
    let own = [
        (LABEL_APP, app.clone()),
        (LABEL_RELEASE, name.clone()),
        (LABEL_RELEASE_HASH, hash),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value)));

    let annotations = owner.annotations.as_ref();
    let overrides = annotations.and_then(|all| all.get(ANNOTATION_BLOCK_OVERRIDE));
    let annotations = [
        (ANNOTATION_RELEASE_GENERATION, generation.to_string()),
        (ANNOTATION_RELEASE_ITERATION, iteration.to_string()),
        (
            ANNOTATION_BLOCK_OVERRIDE,
            overrides.cloned().unwrap_or_default(),
        ),
    ];

    let metadata = ObjectMeta {
        name: Some(name),
        namespace: owner.namespace.clone(),
        labels: Some(labels),
        annotations: Some(
            annotations
                .map(|(key, value)| (key.to_owned(), value))
                .into(),
        ),
        owner_references: Some(vec![OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: "Application".to_owned(),
            name: app,
            uid: owner.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        finalizers: Some(vec![FINALIZER_SERVING.to_owned()]),
        ..ObjectMeta::default()
    };
    Release {
        metadata,
        spec: ReleaseSpec {
            target_step: 0,
            environment: application.spec.template.clone(),
        },
        status: None,
    }
}

/// A free name and iteration for the next Release with a hash.
///
/// The iteration is one more than the highest with the same hash. Releases may have been edited or
/// deleted by hand, so the name may still be taken.
fn free_name(app: &str, hash: &str, history: &History<'_>) -> (String, i64) {
    let members = history.members().iter();
    let same = members.filter(|member| is_made_for(member, hash));
    let mut iteration = same
        .map(iteration_of)
        .max()
        .map_or(0, |highest| highest.saturating_add(1));
    loop {
        let name = format!("{app}-{hash}-{iteration}");
        if history.members().iter().all(|member| member.name() != name) {
            return (name, iteration);
        }
        // After the highest number the iteration starts at 0 again; there are fewer Releases than
        // numbers.
        iteration = iteration.checked_add(1).unwrap_or(0);
    }
}

/// Number of Releases that were created for a hash, if the newest Release was created for it; else
/// `None`.
///
/// Earlier ones may be gone, because Releases that were never complete are deleted when a newer one
/// exists.
pub(super) fn repeated(newest: &HistoryEntry<'_>, hash: &str) -> Option<i64> {
    is_made_for(newest, hash).then(|| iteration_of(newest).saturating_add(1))
}

/// True if a Release was created for a hash, even if another environment was stored.
fn is_made_for(member: &HistoryEntry<'_>, hash: &str) -> bool {
    let labels = member.release.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(LABEL_RELEASE_HASH));
    label.is_some_and(|label| label == hash)
}

/// A number that cannot be parsed counts as 0, so that it does not prevent the next Release.
fn iteration_of(member: &HistoryEntry<'_>) -> i64 {
    let annotations = member.release.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_ITERATION));
    let number = text.and_then(|text| parse_number(text).ok());
    number.map_or(0, |number| number.max(0))
}
