//! Differences between the cluster and revisions, found by a comparison, because no events report
//! them.

use baton_apis::{LifecycleState, conditions::AVAILABLE};
use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT, lists};
use baton_engine::{
    diff::{Difference, compare, drift::Drift},
    object::{controller, is_terminating},
    revision::Desired,
};
use baton_steering::{Error, diff::forecast};
use baton_view::{
    chain::{Chain, member::Revision},
    children::{Children, Detail, LookupResult},
    content::{RevisionContent, WantedRevision},
    delegates::{Delegates, DelegatesOf},
    diff::live,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::{Row, State};

/// The drift that was found, and warnings about objects that could not be read.
#[derive(Debug, Default)]
pub(super) struct DriftReport {
    pub(super) rows: Vec<Row>,
    pub(super) warnings: Vec<String>,
}

/// A revision, an object that it controls, and the live object.
type Owned<'a> = (&'a Revision, &'a Desired, Option<&'a Value>);

/// Compares the objects that revisions control, and finds those that were deleted.
pub(super) async fn find(cluster: &Cluster, chains: &[Chain]) -> Result<DriftReport, Error> {
    let revisions = in_force(chains);
    let slices = lists::slices(cluster, revisions.iter().copied()).await?;
    let contents: Vec<RevisionContent> = revisions
        .iter()
        .map(|revision| slices.content(revision))
        .collect();
    let wanted: Vec<WantedRevision<'_>> = revisions.iter().copied().zip(&contents).collect();
    let children = lists::children(cluster, "", &wanted, Detail::Whole).await?;
    let delegates = lists::once(cluster, &DelegatesOf(&wanted)).await?;
    let mut standing = DriftReport::default();
    let owned = owned(
        chains,
        &wanted,
        &children,
        &delegates,
        &mut standing.warnings,
    );
    let found = owned.into_iter().map(async |(revision, desired, live)| {
        let judged = match live {
            Some(live) => judge(cluster, desired, live).await?,
            None => ObjectComparison::Differs(Drift::default(), "missing"),
        };
        Ok::<_, Error>((revision, desired, judged))
    });
    let found = stream::iter(found).buffered(MAX_CONCURRENT);
    let found: Vec<_> = found.try_collect().await?;
    for (revision, desired, judged) in found {
        standing.add(revision, desired, judged);
    }
    Ok(standing)
}

impl DriftReport {
    fn add(&mut self, revision: &Revision, desired: &Desired, judged: ObjectComparison) {
        match judged {
            ObjectComparison::AsWanted => {}
            ObjectComparison::Differs(drift, remark) => {
                self.rows.push(row(revision, desired, drift, remark));
            }
            ObjectComparison::Conflicting => self.warnings.push(format!(
                "{} not compared: it has changed during each attempt",
                super::render::object(&desired.key)
            )),
        }
    }
}

/// The revisions that may control objects.
fn in_force(chains: &[Chain]) -> Vec<&Revision> {
    let is_in_force = |revision: &&Revision| {
        revision.spec.lifecycle_state != LifecycleState::Archived
            && !revision.is_archived()
            && !revision.is_deleting()
    };
    let revisions = chains.iter().flat_map(|chain| &chain.revisions);
    revisions.filter(is_in_force).collect()
}

/// The objects that revisions control, and the objects that existed before and were deleted since.
fn owned<'a>(
    chains: &[Chain],
    wanted: &[WantedRevision<'a>],
    children: &'a Children,
    delegates: &Delegates,
    warnings: &mut Vec<String>,
) -> Vec<Owned<'a>> {
    let mut owned = Vec::new();
    for (revision, content) in wanted {
        for (phase, desired) in content.placed().filter(|(phase, _)| phase.is_here()) {
            let identity = delegates.controller(revision, phase);
            match children.find(&desired.key) {
                LookupResult::Live(live) => {
                    let is_own = controller(live).is_some_and(|owner| identity.is(owner));
                    if is_own && !is_terminating(live) {
                        owned.push((*revision, desired, Some(live)));
                    }
                }
                LookupResult::Missing => {
                    let has_ended = revision.ended(&desired.key).is_some();
                    if revision.has_succeeded()
                        && !has_ended
                        && !is_newer(chains, wanted, revision, desired)
                    {
                        owned.push((*revision, desired, None));
                    }
                }
                LookupResult::Unreadable(why) => {
                    let gvk = &desired.gvk;
                    let text = format!("{} {} not compared: {why}", gvk.api_version(), gvk.kind);
                    if !warnings.contains(&text) {
                        warnings.push(text);
                    }
                }
            }
        }
    }
    owned
}

/// True if a newer revision of the same chain wants the object.
fn is_newer(
    chains: &[Chain],
    wanted: &[WantedRevision<'_>],
    revision: &Revision,
    desired: &Desired,
) -> bool {
    let is_of = |chain: &&Chain| chain.by_uid(revision.uid()).is_some();
    let chain = chains.iter().find(is_of);
    let mut newer = wanted.iter().filter(|(other, _)| {
        other.number() > revision.number()
            && chain.is_some_and(|chain| chain.by_uid(other.uid()).is_some())
    });
    newer.any(|(_, content)| content.objects().any(|other| other.key == desired.key))
}

/// The result of comparing an object with its revision.
enum ObjectComparison {
    AsWanted,
    /// The object differs; the remark may be empty.
    Differs(Drift, &'static str),
    /// Each attempt ended in a conflict.
    Conflicting,
}

/// Compares an object with its revision. A dry run of the manager's apply excludes differences in
/// notation only.
async fn judge(
    cluster: &Cluster,
    desired: &Desired,
    live: &Value,
) -> Result<ObjectComparison, Error> {
    let look = async |live: Option<&Value>| match live {
        Some(live) => judge_once(cluster, desired, live).await,
        None => Ok(ObjectComparison::AsWanted),
    };
    settled(forecast::retried(cluster, desired, Some(live), look).await)
}

/// Maps a conflict after all attempts to [`ObjectComparison::Conflicting`].
fn settled(judged: Result<ObjectComparison, Error>) -> Result<ObjectComparison, Error> {
    match judged {
        Err(error) if error.is_code(409) => Ok(ObjectComparison::Conflicting),
        judged => judged,
    }
}

async fn judge_once(
    cluster: &Cluster,
    desired: &Desired,
    live: &Value,
) -> Result<ObjectComparison, Error> {
    let path = match compare(&live::body(desired, live), live) {
        Difference::None => return Ok(ObjectComparison::AsWanted),
        Difference::Fields(path) | Difference::NotOwned(path) | Difference::Surplus(path) => path,
    };
    let body = live::dry_run_body(desired, live);
    let why = match forecast::dry_run(cluster, desired, &body, true).await {
        Ok(answer) => {
            let drift = Drift::between(live, &answer);
            return Ok(if drift.is_empty() {
                ObjectComparison::AsWanted
            } else {
                ObjectComparison::Differs(drift, "")
            });
        }
        Err(error) if error.is_code(409) => return Err(error),
        Err(error) if error.is_lack_of_rights() => {
            "perhaps only in another form; to check this, the right to patch it is missing"
        }
        Err(Error::Cluster(ClusterError::Refused(_))) => "the server would refuse the repair",
        Err(error) => return Err(error),
    };
    Ok(ObjectComparison::Differs(Drift::at(&path), why))
}

fn row(revision: &Revision, desired: &Desired, drift: Drift, remark: &str) -> Row {
    let state = match (revision.spec.lifecycle_state, remark) {
        (LifecycleState::Paused, "") => "paused".to_owned(),
        (LifecycleState::Paused, remark) => format!("paused, {remark}"),
        (_, "") => why(revision),
        (_, remark) => format!("{}, {remark}", why(revision)),
    };
    Row {
        namespace: desired.key.namespace.clone(),
        object: super::render::object(&desired.key),
        owner: format!("{}/{}", revision.kind.name, revision.name()),
        drift,
        state: State::Standing(state),
    }
}

/// The reason that an active revision has not repaired an object yet.
fn why(revision: &Revision) -> String {
    let refused = revision
        .condition(AVAILABLE)
        .filter(|available| available.status == "False")
        .map(|available| available.reason.as_str());
    match refused {
        Some(reason) => format!("not repaired: {reason}"),
        None => "not repaired yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use baton_engine::Gvk;
    use serde_json::json;

    use super::*;
    use crate::selection::from_objects;
    use baton_view::{content::Slices, served::Unserved};

    fn chain(lifecycle: &str, status: &Value) -> Chain {
        let (version, kind) = ("v1", "ConfigMap");
        let object = |name: &str| json!({"object": {"apiVersion": version, "kind": kind, "metadata": {"name": name}}});
        let names = ["own", "foreign", "gone"];
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
            "spec": {
                "revision": 1, "lifecycleState": lifecycle,
                "phases": [{"name": "a", "objects": names.map(object)}],
            },
            "status": status,
        });
        from_objects(Vec::new(), vec![set]).remove(0)
    }

    fn live(name: &str, owner: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [{
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": "web-1", "uid": owner,
            "controller": true,
        }]}})
    }

    /// The names of the compared objects, each with true if the object exists; and the warnings.
    fn compared(chains: &[Chain], children: &Children) -> (Vec<(String, bool)>, Vec<String>) {
        let revisions = in_force(chains);
        let slices = Slices::default();
        let contents: Vec<RevisionContent> =
            revisions.iter().map(|one| slices.content(one)).collect();
        let wanted: Vec<WantedRevision<'_>> = revisions.into_iter().zip(&contents).collect();
        let mut warnings = Vec::new();
        let delegates = Delegates::default();
        let found = owned(chains, &wanted, children, &delegates, &mut warnings);
        let found = found
            .iter()
            .map(|(_, desired, live)| (desired.key.name.clone(), live.is_some()));
        (found.collect(), warnings)
    }

    fn names(found: &[(String, bool)]) -> Vec<(&str, bool)> {
        let names = found.iter().map(|(name, there)| (name.as_str(), *there));
        names.collect()
    }

    #[test]
    fn objects_that_a_revision_controls_or_has_lost_are_compared() {
        let succeeded = json!({"conditions": [{
            "type": "Succeeded", "status": "True", "reason": "RolloutSuccess", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        let mut children = Children::default();
        let gvk = Gvk::new("v1", "ConfigMap");
        children.insert(&gvk, live("own", "u1"));
        children.insert(&gvk, live("foreign", "u2"));
        let old = chain("Active", &succeeded);
        let (found, warnings) = compared(std::slice::from_ref(&old), &children);
        assert_eq!(names(&found), [("own", true), ("gone", false)]);
        assert_eq!(warnings, [""; 0]);
        // A revision that did not succeed may not have created the object yet.
        let (found, _) = compared(&[chain("Active", &json!({}))], &children);
        assert_eq!(names(&found), [("own", true)]);
        // An older revision does not create an object that a newer one wants.
        let mut newer = old.revisions[0].object.clone();
        newer["metadata"]["name"] = "web-2".into();
        newer["metadata"]["uid"] = "u9".into();
        newer["spec"]["revision"] = 2.into();
        newer["spec"]["previous"] = json!([{"name": "web-1"}]);
        newer["status"] = json!({});
        let both = from_objects(Vec::new(), vec![old.revisions[0].object.clone(), newer]);
        assert_eq!(both.len(), 1);
        assert_eq!(names(&compared(&both, &children).0), [("own", true)]);
        let (found, _) = compared(&[chain("Archived", &succeeded)], &children);
        assert_eq!(names(&found), [("", false); 0]);
        let mut children = Children::default();
        children.insert_unreadable(&gvk, Unserved::Unreadable("forbidden".to_owned()));
        let (found, warnings) = compared(&[old], &children);
        assert_eq!(names(&found), [("", false); 0]);
        assert_eq!(warnings, ["v1 ConfigMap not compared: forbidden"]);
    }

    #[test]
    fn an_object_that_changes_all_the_time_is_not_compared() {
        let chain = chain("Active", &json!({}));
        let revision = &chain.revisions[0];
        let content = Slices::default().content(revision);
        let desired = content.objects().next().unwrap();
        let refused = |code| {
            let status = kube::core::Status::failure("no", "reason").with_code(code);
            settled(Err(Error::Cluster(ClusterError::Refused(Box::new(status)))))
        };
        let mut standing = DriftReport::default();
        standing.add(revision, desired, refused(409).unwrap());
        assert_eq!(
            standing.warnings,
            ["ConfigMap/own not compared: it has changed during each attempt"]
        );
        assert!(refused(500).is_err());
        standing.add(
            revision,
            desired,
            settled(Ok(ObjectComparison::AsWanted)).unwrap(),
        );
        assert_eq!((standing.rows.len(), standing.warnings.len()), (0, 1));
    }

    #[test]
    fn a_row_states_why_an_object_is_not_repaired() {
        let refused = json!({"conditions": [{
            "type": "Available", "status": "False", "reason": "PreflightError", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        for (lifecycle, status, remark, expected) in [
            ("Active", json!({}), "", "not repaired yet"),
            (
                "Active",
                refused.clone(),
                "",
                "not repaired: PreflightError",
            ),
            (
                "Active",
                refused,
                "missing",
                "not repaired: PreflightError, missing",
            ),
            ("Paused", json!({}), "", "paused"),
            ("Paused", json!({}), "missing", "paused, missing"),
        ] {
            let chain = chain(lifecycle, &status);
            let revision = &chain.revisions[0];
            let content = Slices::default().content(revision);
            let desired = content.objects().next().unwrap();
            let row = row(revision, desired, Drift::at(".data"), remark);
            assert_eq!(row.state, State::Standing(expected.to_owned()));
            assert_eq!(
                (row.object.as_str(), row.owner.as_str()),
                ("ConfigMap/own", "ObjectSet/web-1")
            );
        }
    }
}
