//! Objects that are deleted and created again if the server refuses a change of immutable fields.
//!
//! Observable behaviour: `docs/contract/lifecycle.md`.

use crate::{
    definitions::is_definition,
    diff::wanted_fingerprint,
    object::{annotation, controlled_reference, metadata_mut},
    revision::{Desired, Phase},
};
use baton_apis::{
    ControlledObjectReference,
    constants::{ANNOTATION_REVISION, ANNOTATION_UPDATE, UPDATE_RECREATE, UPDATE_RERUN},
};

/// The annotation of Helm's hooks, such as Jobs. By default Helm deletes a hook before it creates
/// it again.
const HELM_HOOK: &str = "helm.sh/hook";
const HELM_POLICY: (&str, &str) = ("helm.sh/hook-delete-policy", "before-hook-creation");

/// Phrases of API servers about fields that an update must not change.
const IMMUTABLE: [&str; 7] = [
    "immutable",
    "updates to ",
    "may not change",
    "may not be changed",
    "cannot be changed",
    "cannot change",
    "can't be changed",
];

/// The end of the message about a refused object that is not to be recreated.
pub(crate) fn hint(desired: &Desired) -> &'static str {
    if is_definition(&desired.gvk) {
        "; with the annotations baton.run/update=recreate and baton.run/allow-data-loss=true, it is deleted and \
             created again, without any object of its kind"
    } else {
        "; with the annotation baton.run/update=recreate, it is deleted and created again"
    }
}

/// True if a cause of a refusal is that a field is immutable; the content itself may be valid.
pub fn is_about_immutability(cause: &str) -> bool {
    let cause = cause.to_ascii_lowercase();
    IMMUTABLE.iter().any(|words| cause.contains(words))
}

/// True if the manifest allows the object to be recreated.
pub fn is_recreated(desired: &Desired) -> bool {
    let is_asked_for = matches!(update(desired), UPDATE_RECREATE | UPDATE_RERUN);
    let (name, policy) = HELM_POLICY;
    let policies = annotation(&desired.manifest, name);
    let by_helm = if policies.is_empty() {
        !annotation(&desired.manifest, HELM_HOOK).is_empty()
    } else {
        policies.split(',').any(|it| it.trim() == policy)
    };
    is_asked_for || (is_job(desired) && by_helm)
}

/// True if an object runs to its end, once for each content.
pub fn runs_once(desired: &Desired) -> bool {
    is_job(desired) && is_recreated(desired) && !is_rerun(desired)
}

/// True if an object is to run again with each revision, whatever its content.
pub(crate) fn is_rerun(desired: &Desired) -> bool {
    update(desired) == UPDATE_RERUN
}

/// The objects that are deleted and created again for a change, among those that a revision controls
/// according to its last report. The engine needs no other reported objects.
pub fn reported(
    phases: &[Phase],
    controlled: &[ControlledObjectReference],
) -> Vec<ControlledObjectReference> {
    let objects = phases.iter().flat_map(Phase::own_objects);
    let recreated = objects.filter(|object| is_recreated(object));
    let references = recreated.map(|object| controlled_reference(&object.key));
    references.filter(|it| controlled.contains(it)).collect()
}

/// A fingerprint of the content that a manifest runs. Manifests of several revisions have the same
/// fingerprint if only their revision numbers differ.
pub fn content(desired: &Desired) -> u64 {
    let mut manifest = desired.manifest.clone();
    if let Some(annotations) = metadata_mut(&mut manifest).get_mut("annotations") {
        annotations
            .as_object_mut()
            .map(|annotations| annotations.remove(ANNOTATION_REVISION));
    }
    wanted_fingerprint(&manifest)
}

fn is_job(desired: &Desired) -> bool {
    (&*desired.key.group, &*desired.key.kind) == ("batch", "Job")
}

fn update(desired: &Desired) -> &str {
    annotation(&desired.manifest, ANNOTATION_UPDATE).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::{phase, revision};

    fn object(kind: &str, annotations: &str) -> Desired {
        let text = format!(
            "{{apiVersion: batch/v1, kind: {kind}, metadata: {{name: a, annotations: {{{annotations}}}}}}}"
        );
        phase(&revision(), "p", &[&text]).objects.remove(0)
    }

    #[test]
    fn objects_are_recreated_according_to_their_annotations() {
        for (kind, annotations, recreated, once) in [
            ("Job", "", false, false),
            ("Job", "baton.run/update: recreate", true, true),
            ("Job", "baton.run/update: rerun", true, false),
            ("Job", "baton.run/update: other", false, false),
            ("CronJob", "baton.run/update: recreate", true, false),
            (
                "Job",
                "helm.sh/hook-delete-policy: 'hook-succeeded, before-hook-creation'",
                true,
                true,
            ),
            (
                "Job",
                "helm.sh/hook-delete-policy: hook-succeeded",
                false,
                false,
            ),
            (
                "CronJob",
                "helm.sh/hook-delete-policy: before-hook-creation",
                false,
                false,
            ),
            ("Job", "helm.sh/hook: pre-upgrade", true, true),
            (
                "Job",
                "helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: hook-failed",
                false,
                false,
            ),
            ("ConfigMap", "helm.sh/hook: pre-upgrade", false, false),
        ] {
            let object = object(kind, annotations);
            assert_eq!(
                (is_recreated(&object), runs_once(&object)),
                (recreated, once),
                "{kind} {annotations}"
            );
        }
    }

    #[test]
    fn the_revision_number_is_not_part_of_the_content() {
        let one = object("Job", "a: b");
        let mut other = one.clone();
        other.manifest["metadata"]["annotations"][ANNOTATION_REVISION] = "7".into();
        assert_ne!(one.manifest, other.manifest);
        assert_eq!(content(&one), content(&other));
        other.manifest["metadata"]["annotations"]["a"] = "c".into();
        assert_ne!(content(&one), content(&other));
    }

    #[test]
    fn every_message_about_an_immutable_field_is_recognised() {
        for (cause, expected) in [
            ("Invalid value: \"x\": field is immutable", true),
            (
                "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
                true,
            ),
            (
                "Forbidden: spec is immutable after creation except resources.requests",
                true,
            ),
            ("Invalid value: \"x\": cannot change roleRef", true),
            (
                "Invalid value: []string(nil): primary clusterIP may not change once set",
                true,
            ),
            (
                "Invalid value: \"x\": must be no more than 63 characters",
                false,
            ),
            ("Required value", false),
        ] {
            assert_eq!(is_about_immutability(cause), expected, "{cause}");
        }
    }
}
