//! Makes an `ObjectDeployment`, a revision or a `SiteApplication` of plain manifests: `kubectl baton pack`.
//!
//! 1. [`input`] reads files, directories, kustomizations and the standard input.
//! 2. [`documents`] splits the texts as kubectl does ([`baton_yaml`]), and [`manifest`] parses the
//!    objects, with their annotations ([`directives`]) and those of Helm ([`hooks`]).
//! 3. [`scope`] decides if the result is namespaced. [`phases`] distributes the objects by their
//!    [`kinds`]. [`probes`] adds the probes of the kinds, [`autoscaling`] leaves numbers of
//!    replicas to autoscalers, and [`slices`] moves large phases to slices. [`secrets`] and
//!    [`unprobed`] add warnings.
//! 4. [`build`] assembles the package, [`emit`] writes it as text, and [`apply`] sends it to the
//!    server.
//!
//! Only the first and the last of these do I/O. The same input gives the same bytes, and a small
//! change of the input gives a small change of the output. All errors of the input are reported at
//! once, with their places.

pub(crate) mod apply;
pub(crate) mod autoscaling;
pub(crate) mod build;
pub(crate) mod directives;
pub(crate) mod documents;
pub(crate) mod emit;
pub(crate) mod hooks;
pub(crate) mod input;
pub(crate) mod kinds;
pub(crate) mod manifest;
pub(crate) mod phases;
pub(crate) mod probes;
pub(crate) mod scope;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod slices;
pub(crate) mod source_location;
pub(crate) mod unprobed;

use std::collections::BTreeMap;

use baton_apis::CollisionProtection;
use serde_json::Value;

use build::Package;
use documents::InputText;
use manifest::{Collected, Manifest};
use source_location::{InputError, InputErrors};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PackagedKind {
    /// A deployment, which creates revisions.
    Deployment {
        /// Number of archived revisions to keep.
        revision_history_limit: Option<i32>,
        /// Seconds that a revision may take to become available.
        progress_deadline_seconds: Option<i32>,
    },
    Revision {
        /// Number of the revision; if it is absent, the controller assigns one.
        number: Option<i64>,
        /// Names of the revisions to take objects over from.
        previous: Vec<String>,
    },
    /// An application for sites.
    Site {
        /// Name of the version; if it is absent, it is derived from the content.
        version: Option<String>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) form: PackagedKind,
    pub(crate) scope: scope::ScopeOptions,
    /// The order of phases that the user requested.
    pub(crate) phase_order: Vec<String>,
    /// Collision protection of objects without an annotation for it.
    pub(crate) collision_protection: CollisionProtection,
    /// Field managers whose fields the revision takes over with an object, in addition to the
    /// standard ones.
    pub(crate) former_managers: Vec<String>,
    pub(crate) probes: probes::ProbeOptions,
    /// Name of the service account that writes the objects.
    pub(crate) service_account_name: Option<String>,
    /// Seconds that a revision has to stay available before it has succeeded.
    pub(crate) success_delay_seconds: Option<i32>,
    /// True if the objects of all phases are checked before the first write.
    pub(crate) checks_all_first: bool,
    /// The change cause, for the history.
    pub(crate) change_cause: Option<String>,
    /// Size in bytes of JSON above which objects are moved to slices, and of one slice.
    pub(crate) slice_limit: usize,
}

/// The default of [`Options::slice_limit`].
pub(crate) const SLICE_LIMIT: usize = 1024 * 1024;

impl Options {
    /// The options for a deployment with this name; all others have their defaults.
    pub(crate) fn named(name: String) -> Self {
        Self {
            name,
            form: PackagedKind::Deployment {
                revision_history_limit: None,
                progress_deadline_seconds: None,
            },
            scope: scope::ScopeOptions::default(),
            phase_order: Vec::new(),
            collision_protection: CollisionProtection::default(),
            former_managers: Vec::new(),
            probes: probes::ProbeOptions::default(),
            service_account_name: None,
            success_delay_seconds: None,
            checks_all_first: true,
            change_cause: None,
            slice_limit: SLICE_LIMIT,
        }
    }
}

/// A package, with remarks for the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packed {
    pub(crate) package: Package,
    pub(crate) notes: Vec<String>,
    /// Secrets that are left out of the package.
    pub(crate) secrets: Vec<Manifest>,
}

impl Packed {
    /// All objects in the order in which they have to be applied.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut objects = self.package.slices.clone();
        objects.push(self.package.object.clone());
        objects
    }
}

/// Reads the objects of all sources, and reports all errors in them. With `no_hooks`, hooks of Helm
/// are left out.
pub(crate) fn read(sources: &[InputText], no_hooks: bool) -> Collected {
    let mut collected = Collected {
        no_hooks,
        ..Collected::default()
    };
    for source in sources {
        collected.take(documents::read(source));
    }
    collected
}

/// The name that the objects suggest: the value of the label `app.kubernetes.io/instance`, or else
/// `app.kubernetes.io/name`, if all objects with the label agree.
pub(crate) fn common_name(manifests: &[Manifest]) -> Option<String> {
    ["instance", "name"].into_iter().find_map(|label| {
        let pointer = format!("/metadata/labels/app.kubernetes.io~1{label}");
        let mut values = manifests
            .iter()
            .filter_map(|manifest| manifest.object.pointer(&pointer)?.as_str());
        let first = values.next().filter(|first| !first.is_empty())?;
        values.all(|value| value == first).then(|| first.to_owned())
    })
}

/// The problem of a package name, if it has one. The name is used as a label value too.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let plain_ends = |part: &str| {
        let mut bytes = part.bytes();
        let first = bytes.next();
        first.is_some_and(is_plain) && bytes.next_back().is_none_or(is_plain)
    };
    if name.len() > 63 {
        Some("is longer than 63 characters")
    } else if !name.split('.').all(plain_ends)
        || !name
            .bytes()
            .all(|byte| is_plain(byte) || b"-.".contains(&byte))
    {
        Some(
            "does not consist of lower-case letters, digits, hyphens and dots, with a letter or a digit at both ends",
        )
    } else {
        None
    }
}

pub(crate) fn pack(collected: Collected, options: &Options) -> Result<Packed, InputErrors> {
    let Collected {
        mut manifests,
        mut errors,
        mut notes,
        no_hooks: _,
        no_secrets,
    } = collected;
    if manifests.is_empty() && errors.is_empty() {
        errors.push(InputError::general("there are no objects in the input"));
    }
    let decision = match scope::decide_scope(&mut manifests, &options.scope) {
        Ok(decision) => decision,
        Err(error) => {
            errors.push(error);
            scope::Decision::default()
        }
    };
    if decision.cluster && !options.scope.site && options.service_account_name.is_some() {
        errors.push(InputError::general(
            "--service-account: the result is cluster-scoped, so it has no namespace with such an account",
        ));
    }
    errors.extend(manifest::duplicates(&manifests));
    if !errors.is_empty() {
        return Err(InputErrors(errors));
    }
    let left_out = if no_secrets {
        secrets::take_out(&mut manifests)
    } else {
        Vec::new()
    };
    if manifests.is_empty() {
        return Err(InputErrors(vec![InputError::general(
            "--no-secrets: the input contains only Secrets",
        )]));
    }
    notes.extend(decision.notes.iter().cloned());
    notes.extend(manifests.iter().filter_map(advice));
    notes.extend(secrets::in_clear_text(&manifests));

    let groups = scope::defined(&manifests)
        .into_keys()
        .map(|(group, _)| group);
    let phases = phases::arrange(&manifests, &groups.collect(), &options.phase_order);
    for name in &options.phase_order {
        if !phases.iter().any(|(phase, _)| phase == name) {
            notes.push(format!("--phase-order: no object is in the phase {name}"));
        }
    }
    let kinds = manifests.iter().map(|manifest| &manifest.gvk);
    let kinds = kinds.map(|gvk| (gvk.group.as_str(), gvk.kind.as_str()));
    let (probes, probe_notes) = probes::of_package(kinds, &options.probes);
    notes.extend(probe_notes);
    notes.extend(unprobed::notes(&manifests, &probes, &options.probes));
    let about = |secret| secrets::left_out(secret, &manifests, &probes);
    notes.extend(left_out.iter().map(about));
    let (create_only, scaling_notes): (BTreeMap<_, _>, _) =
        autoscaling::create_only_fields(&manifests);
    notes.extend(scaling_notes);
    let package = build::build(manifests, phases, &probes, &create_only, &decision, options)
        .map_err(InputErrors)?;
    Ok(Packed {
        package,
        notes,
        secrets: left_out,
    })
}

/// A remark about objects that do not stay as they are packed.
fn advice(manifest: &Manifest) -> Option<String> {
    let spec = |field: &str| manifest.object.pointer(&format!("/spec/{field}"));
    if manifest.gvk.group != "batch" || manifest.gvk.kind != "Job" {
        return None;
    }
    let title = manifest.title();
    if spec("ttlSecondsAfterFinished").is_some_and(Value::is_number) {
        return Some(format!(
            "{}: {title} has ttlSecondsAfterFinished: it is deleted after its end, and runs again only with another \
             content",
            manifest.location
        ));
    }
    (spec("suspend") == Some(&Value::Bool(true))).then(|| {
        format!(
            "{}: {title} is suspended: the rollout waits until it is resumed and complete",
            manifest.location
        )
    })
}

#[cfg(test)]
#[path = "pack/fuzz.rs"]
mod fuzz;
#[cfg(test)]
#[path = "pack/tests.rs"]
mod tests;
