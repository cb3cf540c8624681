//! The probes of a package: default ones by kind, and those that the user requests.
//!
//! A probe must not pass before a controller has observed the object, and must not wait for a state
//! that is never reached. So the rules accept absent fields, which mean zero, and the strategies by
//! which a controller does not change pods.

use std::{collections::BTreeMap, fmt, str::FromStr};

use baton_apis::{
    ObjectSetProbe, Probe, ProbeCel, ProbeCondition, ProbeFieldsEqual, ProbeKindSelector,
    ProbeSelector,
};
use baton_probes::Probes;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKind {
    /// API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

/// Parses `KIND.GROUP`, or `KIND` for the core group.
impl FromStr for GroupKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        if !kind.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(format!(
                "\"{text}\" is not KIND.GROUP, such as Deployment.apps or ConfigMap"
            ));
        }
        Ok(Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
    }
}

/// A probe that the user requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeFlag {
    pub(crate) of: GroupKind,
    /// The probe; `None` if objects of the kind have no probe.
    pub(crate) probe: Option<Probe>,
}

const FORMS: &str = "condition:TYPE, condition:TYPE=STATUS, fields:.PATH=.PATH, cel:RULE or none";

/// Parses `KIND.GROUP=PROBE`, where the probe has one of the `FORMS`.
impl FromStr for ProbeFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, probe) = text
            .split_once('=')
            .ok_or_else(|| format!("\"{text}\" is not KIND.GROUP=PROBE"))?;
        let of: GroupKind = of.parse()?;
        let probe = match probe.split_once(':').unwrap_or((probe, "")) {
            ("none", "") => None,
            ("condition", condition) if !condition.is_empty() => {
                let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
                Some(self::condition(type_, status))
            }
            ("fields", fields) => {
                let (a, b) = fields
                    .split_once('=')
                    .ok_or_else(|| format!("\"{fields}\" is not .PATH=.PATH"))?;
                Some(Probe {
                    fields_equal: Some(ProbeFieldsEqual {
                        field_a: a.trim().to_owned(),
                        field_b: b.trim().to_owned(),
                    }),
                    ..Probe::default()
                })
            }
            ("cel", rule) if !rule.is_empty() => Some(cel(rule, &format!("not true: {rule}"))),
            _ => return Err(format!("\"{probe}\" is not a probe: expected {FORMS}")),
        };
        let wanted = Self { of, probe };
        if let Some(probe) = &wanted.probe {
            // The controller would refuse an invalid probe only after the apply.
            Probes::compile(&[entry(&wanted.of, vec![probe.clone()])])
                .map_err(|error| error.cause.to_string())?;
        }
        Ok(wanted)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeOptions {
    pub(crate) no_defaults: bool,
    /// Probes that the user requests; they replace the default ones of their kind.
    pub(crate) wanted: Vec<ProbeFlag>,
}

/// The probes of a package for its kinds, in the order of group and kind. Notes are about probes of
/// the user for kinds that the package does not have.
pub(crate) fn of_package<'k>(
    kinds: impl Iterator<Item = (&'k str, &'k str)>,
    options: &ProbeOptions,
) -> (Vec<ObjectSetProbe>, Vec<String>) {
    let mut probes: BTreeMap<GroupKind, Vec<Probe>> = BTreeMap::new();
    for (group, kind) in kinds {
        let id = GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        };
        probes.entry(id).or_insert_with_key(|id| {
            let wanted = options.wanted.iter().filter(|wanted| wanted.of == *id);
            let mut wanted = wanted.peekable();
            if wanted.peek().is_some() {
                wanted.filter_map(|wanted| wanted.probe.clone()).collect()
            } else if options.no_defaults {
                Vec::new()
            } else {
                by_kind(&id.group, &id.kind)
            }
        });
    }
    let unused = options
        .wanted
        .iter()
        .filter(|wanted| !probes.contains_key(&wanted.of));
    let notes = unused
        .map(|wanted| format!("--probe: there is no object of the kind {}", wanted.of))
        .collect();
    let entries = probes.into_iter().filter(|(_, probes)| !probes.is_empty());
    let entries = entries.map(|(of, probes)| entry(&of, probes)).collect();
    (entries, notes)
}

fn entry(of: &GroupKind, probes: Vec<Probe>) -> ObjectSetProbe {
    ObjectSetProbe {
        probes,
        selector: ProbeSelector {
            kind: ProbeKindSelector {
                group: of.group.clone(),
                kind: of.kind.clone(),
            },
            selector: None,
        },
    }
}

fn condition(type_: &str, status: &str) -> Probe {
    Probe {
        condition: Some(ProbeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
        }),
        ..Probe::default()
    }
}

fn cel(rule: &str, message: &str) -> Probe {
    Probe {
        cel: Some(ProbeCel {
            rule: rule.to_owned(),
            message: message.to_owned(),
        }),
        ..Probe::default()
    }
}

/// A counter of the status, which is absent if it is zero.
macro_rules! count {
    ($field:literal) => {
        concat!(
            "(has(self.status.",
            $field,
            ") ? self.status.",
            $field,
            " : 0)"
        )
    };
}

/// True after the controller has observed the object. Before that, the status has only zeros.
const OBSERVED: &str = "has(self.status.observedGeneration)";

fn by_kind(group: &str, kind: &str) -> Vec<Probe> {
    match (group, kind) {
        ("apps", "Deployment") => vec![
            condition("Available", "True"),
            cel(
                concat!(
                    count!("updatedReplicas"),
                    " == self.spec.replicas && ",
                    count!("replicas"),
                    " == self.spec.replicas"
                ),
                "not all replicas are of the newest template, or old ones are left",
            ),
        ],
        ("apps", "StatefulSet") => vec![
            cel(
                &format!(
                    "{OBSERVED} && {} >= self.spec.replicas",
                    count!("availableReplicas")
                ),
                "not all replicas are available",
            ),
            // Pods below the partition, and with `OnDelete`, have their old template on purpose.
            cel(
                &format!(
                    "self.spec.updateStrategy.type == 'OnDelete' || {} >= self.spec.replicas - {}",
                    count!("updatedReplicas"),
                    "(has(self.spec.updateStrategy.rollingUpdate) && \
                     has(self.spec.updateStrategy.rollingUpdate.partition) ? \
                     self.spec.updateStrategy.rollingUpdate.partition : 0)"
                ),
                "not all replicas are of the newest template",
            ),
        ],
        ("apps", "DaemonSet") => vec![
            cel(
                &format!(
                    "{OBSERVED} && {} >= self.status.desiredNumberScheduled",
                    count!("numberAvailable")
                ),
                "it is not available on all nodes",
            ),
            cel(
                concat!(
                    "self.spec.updateStrategy.type == 'OnDelete' || ",
                    count!("updatedNumberScheduled"),
                    " >= self.status.desiredNumberScheduled"
                ),
                "not all pods are of the newest template",
            ),
        ],
        ("apps", "ReplicaSet") | ("", "ReplicationController") => vec![cel(
            &format!(
                "{OBSERVED} && {} >= self.spec.replicas",
                count!("availableReplicas")
            ),
            "not all replicas are available",
        )],
        ("", "Pod") => vec![cel(
            // A pod that has succeeded is not ready any more.
            "self.status.phase == 'Succeeded' || (has(self.status.conditions) && \
             self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True'))",
            "the pod is not ready",
        )],
        ("batch", "Job") => vec![
            cel(
                "has(self.status.conditions) && \
                 self.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')",
                "the job is not complete",
            ),
            cel(
                "!has(self.status.conditions) || \
                 !self.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')",
                "it has failed",
            ),
        ],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            vec![condition("Established", "True")]
        }
        ("apiregistration.k8s.io", "APIService")
        | (
            "package-operator.run",
            "ObjectDeployment" | "ClusterObjectDeployment" | "ObjectSet" | "ClusterObjectSet",
        ) => vec![condition("Available", "True")],
        // A claim may wait for a pod that uses it, and that pod may be in a later phase. Such a
        // claim has neither of the annotations that request a volume.
        ("", "PersistentVolumeClaim") => vec![cel(
            "self.status.phase == 'Bound' || (self.status.phase == 'Pending' && \
             !(has(self.metadata.annotations) && \
             ('volume.kubernetes.io/selected-node' in self.metadata.annotations || \
             'volume.kubernetes.io/storage-provisioner' in self.metadata.annotations)))",
            "the claim is not bound",
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "probes/tests.rs"]
mod tests;
