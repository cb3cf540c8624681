//! The choice of the workloads of a Release in a cluster, and of the number of pods of each.
//!
//! In Shipper the workload is the one Deployment with the labels of the Release. A chart may name
//! other workloads. Annotations contain their kinds, so that the controller requests only the kinds
//! that charts use.

use baton_engine::Gvk;
use thiserror::Error;

use super::workload::Scaling;
use crate::{
    chart::workloads::{ANNOTATION_REPLICAS, ANNOTATION_SCALING, Workload},
    texts::Quoted,
};

/// Annotation on `CapacityTargets`: the kinds of the workloads, such as `apps/v1/StatefulSet`,
/// separated by commas; one entry for each workload. Absent: one Deployment.
pub const ANNOTATION_WORKLOADS: &str = "baton.run/workloads";

/// The annotation for a chart with these workloads; `None` for one Deployment.
pub fn annotation(workloads: &[Workload]) -> Option<String> {
    let kinds = workloads
        .iter()
        .map(|workload| format!("{}/{}", workload.api_version, workload.kind));
    let kinds = kinds.collect::<Vec<_>>().join(",");
    (kinds != "apps/v1/Deployment").then_some(kinds)
}

/// The reason that the workloads cannot be determined. A retry helps only after an object or the
/// target has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// An entry of the annotation is not a kind.
    #[error(
        "annotation {ANNOTATION_WORKLOADS} of the CapacityTarget: {} is not a kind such as apps/v1/StatefulSet",
        Quoted(.0)
    )]
    Kind(String),
    /// The number of workloads in the cluster differs from the chart.
    #[error("expected {expected} {kind} for selector {}, got {found} instead", Quoted(.selector))]
    Count {
        /// Number of workloads in the chart.
        expected: usize,
        /// Version and kind.
        kind: String,
        /// Selector of the search.
        selector: String,
        /// Number of workloads in the cluster.
        found: usize,
    },
    /// The scaling annotation of an object has an unknown value.
    #[error("annotation {ANNOTATION_SCALING} of {kind} {} must be steps or autoscaler", Quoted(.name))]
    Scaling {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
    /// One of several workloads has no annotation with its number of pods, or an invalid one.
    #[error("annotation {ANNOTATION_REPLICAS} of {kind} {} must be a number of pods", Quoted(.name))]
    Replicas {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
}

/// The kinds that a target names: one for each workload.
///
/// # Errors
/// If an entry of the annotation is not a kind.
pub fn kinds(annotation: Option<&str>) -> Result<Vec<Gvk>, Error> {
    let Some(annotation) = annotation else {
        return Ok(vec![Gvk::new("apps/v1", "Deployment")]);
    };
    let kind = |text: &str| {
        let parts: Vec<_> = text.trim().split('/').collect();
        let kind = match parts[..] {
            [version, kind] => Gvk::new(version, kind),
            [group, version, kind] => Gvk::new(&format!("{group}/{version}"), kind),
            _ => return Err(Error::Kind(text.to_owned())),
        };
        let is_named = parts.iter().all(|part| !part.is_empty());
        is_named
            .then_some(kind)
            .ok_or_else(|| Error::Kind(text.to_owned()))
    };
    annotation.split(',').map(kind).collect()
}

/// An object with the labels of a Release.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Kind of the object.
    pub kind: &'a Gvk,
    /// Name of the object.
    pub name: &'a str,
    /// Annotation [`ANNOTATION_SCALING`] of the object.
    pub scaling: Option<&'a str>,
    /// Annotation [`ANNOTATION_REPLICAS`] of the object.
    pub replicas: Option<&'a str>,
}

/// A workload of a Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenWorkload {
    /// Index of the workload in the candidates.
    pub index: usize,
    /// Number of pods at 100 percent.
    pub total: i32,
    /// The part of the system that sets the number of pods.
    pub scaling: Scaling,
}

/// Chooses the workloads, and divides the total between them as the chart does.
///
/// # Guarantees
/// Either all workloads of the chart are found, or nothing is chosen.
///
/// # Errors
/// If the number of workloads of a kind differs from the chart.
pub fn choose(
    kinds: &[Gvk],
    candidates: &[Candidate],
    total: i32,
    selector: &str,
) -> Result<Vec<ChosenWorkload>, Error> {
    let mut places = Vec::new();
    let mut distinct: Vec<_> = kinds.iter().collect();
    distinct.sort();
    distinct.dedup();
    for kind in distinct {
        let expected = kinds.iter().filter(|other| *other == kind).count();
        let of_kind = |marked: bool| {
            let all = candidates.iter().enumerate();
            let found = all.filter(move |(_, candidate)| {
                candidate.kind == kind && (!marked || candidate.scaling.is_some())
            });
            found.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let marked = of_kind(true);
        let found = if marked.is_empty() {
            of_kind(false)
        } else {
            marked
        };
        if found.len() != expected {
            return Err(Error::Count {
                expected,
                kind: in_format_of_go(kind),
                selector: selector.to_owned(),
                found: found.len(),
            });
        }
        places.extend(found);
    }
    let totals = totals(&places, candidates, total)?;
    let chosen = places.into_iter().zip(totals).map(|(index, total)| {
        let candidate = &candidates[index];
        let scaling = match candidate.scaling {
            None | Some("steps") => Scaling::Steps,
            Some("autoscaler") => Scaling::Autoscaler,
            Some(_) => {
                return Err(Error::Scaling {
                    kind: candidate.kind.kind.clone(),
                    name: candidate.name.to_owned(),
                });
            }
        };
        Ok(ChosenWorkload {
            index,
            total,
            scaling,
        })
    });
    chosen.collect()
}

/// The total of each workload. If a user has changed the total of the target, each workload gets
/// its share of the total, rounded up.
fn totals(places: &[usize], candidates: &[Candidate], total: i32) -> Result<Vec<i32>, Error> {
    if let [_] = places {
        return Ok(vec![total]);
    }
    let wanted = places.iter().map(|index| {
        let candidate = &candidates[*index];
        let number = candidate.replicas.and_then(|text| text.parse().ok());
        number
            .filter(|number: &i32| *number >= 0)
            .ok_or_else(|| Error::Replicas {
                kind: candidate.kind.kind.clone(),
                name: candidate.name.to_owned(),
            })
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let sum: i64 = wanted.iter().map(|wanted| i64::from(*wanted)).sum();
    if sum == i64::from(total) || sum == 0 {
        return Ok(wanted);
    }
    let share = |wanted: i32| {
        let share = (i64::from(total.max(0)) * i64::from(wanted) + sum - 1) / sum;
        // A share is at most `total`, because no part is greater than the sum.
        i32::try_from(share).unwrap_or(i32::MAX)
    };
    Ok(wanted.into_iter().map(share).collect())
}

/// A kind in the format of Go.
fn in_format_of_go(kind: &Gvk) -> String {
    let Gvk {
        group,
        version,
        kind,
    } = kind;
    format!("{group}/{version}, Kind={kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Gvk {
        Gvk::new("apps/v1", "Deployment")
    }

    fn stateful() -> Gvk {
        Gvk::new("apps/v1", "StatefulSet")
    }

    fn candidate<'a>(
        kind: &'a Gvk,
        name: &'a str,
        scaling: Option<&'a str>,
        replicas: Option<&'a str>,
    ) -> Candidate<'a> {
        Candidate {
            kind,
            name,
            scaling,
            replicas,
        }
    }

    fn chosen(found: &Result<Vec<ChosenWorkload>, Error>) -> Vec<(usize, i32)> {
        let chosen = found.as_ref().unwrap().iter();
        chosen.map(|chosen| (chosen.index, chosen.total)).collect()
    }

    #[test]
    fn the_only_deployment_is_the_workload_without_an_annotation() {
        let (kind, other) = (deployment(), stateful());
        let kinds = kinds(None).unwrap();
        let web = candidate(&kind, "web", None, None);
        let db = candidate(&other, "db", None, None);
        assert_eq!(
            chosen(&choose(&kinds, &[db, web], 10, "a=b")),
            [(1, 10)],
            "what is not named is no workload"
        );
        for (candidates, found) in [(&[db][..], 0), (&[web, web][..], 2)] {
            assert_eq!(
                choose(&kinds, candidates, 10, "a=b")
                    .unwrap_err()
                    .to_string(),
                format!(
                    "expected 1 apps/v1, Kind=Deployment for selector \"a=b\", got {found} instead"
                )
            );
        }
    }

    #[test]
    fn an_annotated_workload_is_chosen() {
        let kind = deployment();
        let kinds = kinds(None).unwrap();
        let worker = candidate(&kind, "worker", None, None);
        let web = candidate(&kind, "web", Some("autoscaler"), None);
        let found = choose(&kinds, &[worker, web], 3, "").unwrap();
        let expected = ChosenWorkload {
            index: 1,
            total: 3,
            scaling: Scaling::Autoscaler,
        };
        assert_eq!(found, [expected]);
        let odd = candidate(&kind, "web", Some("Steps"), None);
        assert_eq!(
            choose(&kinds, &[odd], 3, "").unwrap_err().to_string(),
            "annotation baton.run/scaling of Deployment \"web\" must be steps or autoscaler"
        );
    }

    #[test]
    fn several_workloads_share_the_total_in_the_ratio_of_the_chart() {
        let (kind, other) = (deployment(), stateful());
        let kinds = kinds(Some("apps/v1/Deployment,apps/v1/StatefulSet")).unwrap();
        let steps = Some("steps");
        let web = candidate(&kind, "web", steps, Some("6"));
        let db = candidate(&other, "db", steps, Some("3"));
        for (total, expected) in [
            (9, [(0, 6), (1, 3)]),
            (90, [(0, 60), (1, 30)]),
            (4, [(0, 3), (1, 2)]),
            (0, [(0, 0), (1, 0)]),
        ] {
            assert_eq!(chosen(&choose(&kinds, &[web, db], total, "")), expected);
        }
        let error = choose(&kinds, &[web], 9, "x=y").unwrap_err();
        assert!(matches!(
            error,
            Error::Count {
                expected: 1,
                found: 0,
                ..
            }
        ));
        for replicas in [None, Some("-1"), Some("many"), Some("99999999999")] {
            let db = candidate(&other, "db", steps, replicas);
            assert_eq!(
                choose(&kinds, &[web, db], 9, "").unwrap_err().to_string(),
                "annotation baton.run/replicas of StatefulSet \"db\" must be a number of pods"
            );
        }
    }

    #[test]
    fn kinds_are_named_in_full() {
        let found = kinds(Some(
            "argoproj.io/v1alpha1/Rollout, v1/ReplicationController",
        ))
        .unwrap();
        let expected = [
            Gvk::new("argoproj.io/v1alpha1", "Rollout"),
            Gvk::new("v1", "ReplicationController"),
        ];
        assert_eq!(found, expected);
        for odd in ["", "Rollout", "a/b/c/d", "apps/v1/Deployment,", "/v1/X"] {
            assert!(kinds(Some(odd)).is_err(), "{odd}");
        }
    }
}
