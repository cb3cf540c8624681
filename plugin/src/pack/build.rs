//! Assembles the package: phases of objects, probes, slices, and the object that contains them.

use std::collections::BTreeMap;

use baton_apis::{
    CollisionProtection, ObjectSetProbe,
    constants::{
        ANNOTATION_CHANGE_CAUSE, ANNOTATION_FORMER_MANAGERS, ANNOTATION_PREFLIGHT, API_VERSION,
        PREFLIGHT_ALL,
    },
    kinds,
};
use baton_engine::diff::content_fingerprint;
use serde_json::{Map, Value, json};

use super::{
    Options, PackagedKind,
    manifest::Manifest,
    phases::Phase,
    scope::Decision,
    slices::{self, Entry, LARGEST_OBJECT, Packing},
    source_location::InputError,
};

/// The label of the revisions of a packed deployment, which its selector uses. The value is the
/// name of the deployment, so no other deployment selects them.
const LABEL: &str = "app.kubernetes.io/instance";
/// The label by which the slices of a deployment are found.
pub(crate) const LABEL_SLICE_OWNER: &str = "slices.package-operator.run/owner";

/// The objects of a package.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Package {
    /// Slices, which are created first.
    pub(crate) slices: Vec<Value>,
    pub(crate) object: Value,
}

impl Package {
    /// A package of one object.
    pub(crate) fn of(object: Value) -> Self {
        Self {
            slices: Vec::new(),
            object,
        }
    }
}

/// Assembles a package. `create_only` has further create-only fields, by the index of the manifest.
pub(crate) fn build(
    manifests: Vec<Manifest>,
    phases: Vec<Phase>,
    probes: &[ObjectSetProbe],
    create_only: &BTreeMap<usize, Vec<String>>,
    decision: &Decision,
    options: &Options,
) -> Result<Package, Vec<InputError>> {
    let mut errors = Vec::new();
    let mut entries: Vec<Option<Entry>> = Vec::new();
    for (index, manifest) in manifests.into_iter().enumerate() {
        let key = manifest.key();
        let (location, title) = (manifest.location.clone(), manifest.title());
        let more = create_only.get(&index).into_iter().flatten();
        let entry = Entry::new(key, entry(manifest, more, options));
        if entry.size > LARGEST_OBJECT {
            errors.push(InputError::at(
                &location,
                format!(
                    "{title} has {} bytes of JSON; API servers take at most {LARGEST_OBJECT}",
                    entry.size
                ),
            ));
        }
        entries.push(Some(entry));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let (names, contents): (Vec<_>, Vec<_>) = phases
        .into_iter()
        .map(|(name, indexes)| {
            let taken = indexes
                .into_iter()
                .filter_map(|index| entries.get_mut(index)?.take());
            (name, taken.collect::<Vec<_>>())
        })
        .unzip();
    let is_site = matches!(options.form, PackagedKind::Site { .. });
    let limit = if is_site {
        check_length(&contents)?;
        LARGEST_OBJECT
    } else {
        options.slice_limit
    };
    let mut written = Vec::new();
    let mut slice_objects = Vec::new();
    for (name, content) in names.into_iter().zip(slices::split(contents, limit)) {
        let values = |entries: Vec<Entry>| {
            entries
                .into_iter()
                .map(|entry| entry.value)
                .collect::<Vec<_>>()
        };
        written.push(match content {
            Packing::Inline(entries) => json!({"name": name, "objects": values(entries)}),
            Packing::Sliced(bins) => {
                let mut references = Vec::new();
                for bin in bins {
                    let slice = slices::name(&options.name, &bin);
                    slice_objects.push(json!({
                        "apiVersion": API_VERSION,
                        "kind": if decision.cluster { "ClusterObjectSlice" } else { "ObjectSlice" },
                        "metadata": metadata(
                            &slice,
                            decision,
                            &[(LABEL_SLICE_OWNER, &options.name)],
                            &[],
                        ),
                        "objects": values(bin),
                    }));
                    references.push(slice);
                }
                json!({"name": name, "slices": references})
            }
        });
    }
    Ok(Package {
        slices: slice_objects,
        object: holder(&written, probes, decision, options),
    })
}

/// Checks that all objects fit into one: a version for sites names no slices.
fn check_length(phases: &[Vec<Entry>]) -> Result<(), Vec<InputError>> {
    let sizes = phases.iter().flatten().map(|entry| entry.size);
    let size: usize = sizes.sum();
    if size <= LARGEST_OBJECT {
        return Ok(());
    }
    Err(vec![InputError::general(format!(
        "--site: a SiteApplication contains all of its objects, which have {size} bytes of JSON; API servers take at \
         most {LARGEST_OBJECT}"
    ))])
}

/// An object as a phase lists it, without fields that have their default.
fn entry<'f>(
    manifest: Manifest,
    create_only: impl Iterator<Item = &'f String>,
    options: &Options,
) -> Value {
    let mut entry = Map::new();
    let protection = manifest
        .collision_protection
        .unwrap_or(options.collision_protection);
    if protection != CollisionProtection::default() {
        entry.insert("collisionProtection".to_owned(), json!(protection));
    }
    if !manifest.condition_mappings.is_empty() {
        entry.insert(
            "conditionMappings".to_owned(),
            json!(manifest.condition_mappings),
        );
    }
    let mut fields = manifest.create_only_fields;
    for field in create_only {
        if !fields.contains(field) {
            fields.push(field.clone());
        }
    }
    if !fields.is_empty() {
        entry.insert("createOnlyFields".to_owned(), json!(fields));
    }
    let mut object = manifest.object;
    if !options.former_managers.is_empty() {
        let managers = options.former_managers.join(",");
        object["metadata"]["annotations"][ANNOTATION_FORMER_MANAGERS] = managers.into();
    }
    entry.insert("object".to_owned(), object);
    entry.into()
}

fn metadata(
    name: &str,
    decision: &Decision,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = &decision.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    for (field, texts) in [("labels", labels), ("annotations", annotations)] {
        if !texts.is_empty() {
            let texts = texts
                .iter()
                .map(|(key, text)| ((*key).to_owned(), (*text).into()));
            metadata[field] = Value::Object(texts.collect());
        }
    }
    metadata
}

fn holder(
    phases: &[Value],
    probes: &[ObjectSetProbe],
    decision: &Decision,
    options: &Options,
) -> Value {
    let mut content = json!({"phases": phases});
    if !probes.is_empty() {
        content["availabilityProbes"] = json!(probes);
    }
    if let Some(account) = &options.service_account_name {
        content["serviceAccountName"] = account.as_str().into();
    }
    if let Some(seconds) = options.success_delay_seconds {
        content["successDelaySeconds"] = seconds.into();
    }
    let cause = options.change_cause.as_deref();
    let cause = cause.map(|cause| (ANNOTATION_CHANGE_CAUSE, cause));
    let is_site = matches!(options.form, PackagedKind::Site { .. });
    let preflight = options.checks_all_first && !is_site;
    let preflight = preflight.then_some((ANNOTATION_PREFLIGHT, PREFLIGHT_ALL));
    let annotations: Vec<_> = preflight.into_iter().chain(cause).collect();
    let metadata = metadata(&options.name, decision, &[], &annotations);
    match &options.form {
        PackagedKind::Deployment {
            revision_history_limit,
            progress_deadline_seconds,
        } => {
            let labels = json!({LABEL: options.name});
            let mut spec = json!({
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": content},
            });
            for (field, number) in [
                ("revisionHistoryLimit", revision_history_limit),
                ("progressDeadlineSeconds", progress_deadline_seconds),
            ] {
                if let Some(number) = number {
                    spec[field] = (*number).into();
                }
            }
            json!({
                "apiVersion": API_VERSION,
                "kind": if decision.cluster { "ClusterObjectDeployment" } else { "ObjectDeployment" },
                "metadata": metadata,
                "spec": spec,
            })
        }
        PackagedKind::Site { version } => {
            let of_content = || format!("{:016x}", content_fingerprint(&content));
            let version = version.clone().unwrap_or_else(of_content);
            json!({
                "apiVersion": kinds::SITE_APPLICATION.api_version,
                "kind": kinds::SITE_APPLICATION.name,
                "metadata": metadata,
                "spec": {"version": version, "template": {"spec": content}},
            })
        }
        PackagedKind::Revision { number, previous } => {
            if let Some(number) = number {
                content["revision"] = (*number).into();
            }
            if !previous.is_empty() {
                content["previous"] = previous.iter().map(|name| json!({"name": name})).collect();
            }
            json!({
                "apiVersion": API_VERSION,
                "kind": if decision.cluster { "ClusterObjectSet" } else { "ObjectSet" },
                "metadata": metadata,
                "spec": content,
            })
        }
    }
}
