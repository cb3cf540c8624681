//! From plain manifests to an `ObjectDeployment` or a revision: `kubectl baton pack`.
//!
//! 1. [`input`] reads files, directories, kustomizations and the standard input.
//! 2. [`documents`] takes the texts apart as kubectl does ([`baton_yaml`]), and [`manifest`]
//!    makes objects of them, with what their annotations ([`directives`]) and Helm ([`hooks`]) say.
//! 3. [`scope`] decides whether the result is namespaced, [`phases`] distributes the objects by what
//!    is known of their [`kinds`], [`probes`] says what makes them available, [`autoscaling`] which
//!    numbers are left to others, [`slices`] cuts what is too big. [`secrets`] and [`unprobed`] tell what to know.
//! 4. [`build`] puts it together, [`emit`] writes it, [`apply`] sends it.
//!
//! Only the first and the last of these do I/O. The same input gives the same bytes, and a small
//! change of it a small change of them. All errors of the input are reported at once, with their places.

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
pub(crate) enum Form {
    /// A deployment, which makes revisions.
    Deployment {
        /// How many archived revisions it keeps.
        revision_history_limit: Option<i32>,
        /// Seconds that a revision may take.
        progress_deadline_seconds: Option<i32>,
    },
    Revision {
        /// Its number; else the controller gives it one.
        number: Option<i64>,
        /// Names of the revisions that it takes objects over from.
        previous: Vec<String>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) form: Form,
    pub(crate) scope: scope::ScopeOptions,
    /// Wanted order of phases.
    pub(crate) phase_order: Vec<String>,
    /// What may be taken over, unless an annotation says so.
    pub(crate) collision_protection: CollisionProtection,
    /// Managers whose fields become ours with objects that are taken over, beside those that always do.
    pub(crate) former_managers: Vec<String>,
    pub(crate) probes: probes::ProbeOptions,
    /// As whom the objects are written.
    pub(crate) service_account_name: Option<String>,
    /// Seconds that a revision has to stay available.
    pub(crate) success_delay_seconds: Option<i32>,
    /// Why this is applied, for the history.
    pub(crate) change_cause: Option<String>,
    /// Bytes of JSON beyond which objects go into slices, and of one slice.
    pub(crate) slice_limit: usize,
}

/// Bytes of JSON beyond which objects go into slices, and of one slice, where nothing else is asked for.
pub(crate) const SLICE_LIMIT: usize = 1024 * 1024;

impl Options {
    /// A deployment of a name, with everything else as it is without options.
    pub(crate) fn named(name: String) -> Self {
        Self {
            name,
            form: Form::Deployment {
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
            change_cause: None,
            slice_limit: SLICE_LIMIT,
        }
    }
}

/// A package, and what a person should know about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packed {
    pub(crate) package: Package,
    pub(crate) notes: Vec<String>,
    /// Secrets that the package does without.
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

/// Reads the objects of all sources, with everything that is wrong with them. With `no_hooks`, hooks
/// of Helm are left out.
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

/// The name that the objects themselves suggest: the value of the label
/// `app.kubernetes.io/instance`, else `app.kubernetes.io/name`, if all that have it agree.
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

/// What is wrong with the name of a package, if anything is. It becomes a label too.
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
    let decision = match scope::settle(&mut manifests, &options.scope) {
        Ok(decision) => decision,
        Err(error) => {
            errors.push(error);
            scope::Decision::default()
        }
    };
    if decision.cluster && options.service_account_name.is_some() {
        errors.push(InputError::general(
            "--service-account: the result is cluster-scoped, and has no namespace that the account could be in",
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
            "--no-secrets: there is nothing but Secrets in the input",
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

/// What surprises with objects that do not stay as they are.
fn advice(manifest: &Manifest) -> Option<String> {
    let spec = |field: &str| manifest.object.pointer(&format!("/spec/{field}"));
    if manifest.gvk.group != "batch" || manifest.gvk.kind != "Job" {
        return None;
    }
    let title = manifest.title();
    if spec("ttlSecondsAfterFinished").is_some_and(Value::is_number) {
        return Some(format!(
            "{}: {title} has ttlSecondsAfterFinished: deleted after its end, it is made again and runs again",
            manifest.place
        ));
    }
    (spec("suspend") == Some(&Value::Bool(true))).then(|| {
        format!(
            "{}: {title} is suspended: the rollout waits until it is resumed and complete",
            manifest.place
        )
    })
}

#[cfg(test)]
#[path = "pack/fuzz.rs"]
mod fuzz;
#[cfg(test)]
#[path = "pack/tests.rs"]
mod tests;
