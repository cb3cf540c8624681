//! Gives an Application back to Shipper: the reverse of a take-over.
//!
//! The manager stops to write for the Application first, and its revisions are paused. Then the
//! objects get the owners that Shipper expects, which are ConfigMaps called anchors, one per Release
//! and cluster. The revisions are deleted when they own nothing, so no object is deleted with them.
//! After an interruption the command can be run again.

mod marks;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use baton_apis::{
    InstallationTarget,
    constants::{
        ANNOTATION_CONTENT, ANNOTATION_GIVEN_BACK, CLASS_CLUSTER_PREFIX, GIVEN_BACK_REQUESTED,
        shipper::{
            ANCHOR_SUFFIX, FIELD_MANAGER, FINALIZER_SERVING, LABEL_APP, LABEL_RELEASE,
            LABEL_TRAFFIC_STATUS, TRAFFIC_ENABLED,
        },
    },
    kinds,
};
use baton_cluster::{
    Cluster, Write,
    follower::Follower,
    lists::{self, once},
};
use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::wire::MediaType;
use baton_releases::give_back::Custody;
use baton_steering::diff::phase_clusters::PhaseClusters;
use baton_steering::releases::question;
use baton_text::diff::object_title;
use baton_view::{
    applications::{observed::Observed, target::AppTarget},
    chain::member::Revision,
    lists::ListQuery,
    object::text_at,
    selection::Selection,
};
use futures::future::try_join_all;
use http::Method;
use json_patch::PatchOperation;
use serde_json::{Value, json};

use self::marks::{given_back, is_ours, listed, selected_by_label, selected_release};
use super::undo::pausing::{is_quiet, paused, until_quiet};
use crate::{
    error::Error,
    wait::{application::read as read_application, chain::watch_until, until},
};

/// The number of attempts for an object that changes in the meantime.
const ROUNDS: usize = 5;
/// The key of an anchor with the UID of its `InstallationTarget`.
const TARGET_UID: &str = "InstallationTargetUID";

/// An Application with all that Baton has installed for it.
pub(crate) struct InstalledApplication<'a> {
    places: &'a PhaseClusters,
    observed: Observed,
    revisions: Vec<Revision>,
    /// The Releases that install an object, by its place.
    objects: BTreeMap<Place, (Gvk, BTreeSet<String>)>,
}

/// The class of a cluster, which is empty for the hub, and an object in it.
type Place = (String, ObjectKey);
/// The owner references of anchors, by the class of their cluster and their Release.
type Anchors = BTreeMap<(String, String), Value>;

impl<'a> InstalledApplication<'a> {
    /// Reads an Application with its revisions and their objects.
    ///
    /// # Errors
    /// If a list cannot be read, or there is no connection to a cluster of the Application.
    pub(crate) async fn read(places: &'a PhaseClusters, target: &AppTarget) -> Result<Self, Error> {
        let home = &places.home;
        let observed = read_application(home, target).await?;
        let revisions = revisions(home, &target.name).await?;
        let live: Vec<&Revision> = revisions.iter().filter(|it| !it.is_archived()).collect();
        let slices = lists::slices(home, live.iter().copied()).await?;
        let mut objects: BTreeMap<Place, (Gvk, BTreeSet<String>)> = BTreeMap::new();
        let mut unreached = BTreeSet::new();
        for revision in live {
            let release = text_at(&revision.object, &pointer(LABEL_RELEASE)).to_owned();
            for phase in slices.content(revision).phases {
                if places.of(&phase).is_none() {
                    let class = phase.delivery_class();
                    let name = class.strip_prefix(CLASS_CLUSTER_PREFIX).unwrap_or(class);
                    unreached.insert(format!("--cluster-context {name}=CONTEXT"));
                }
                for object in &phase.objects {
                    let place = (phase.delivery_class().to_owned(), object.key.clone());
                    let entry = objects.entry(place);
                    let entry = entry.or_insert_with(|| (object.gvk.clone(), BTreeSet::new()));
                    entry.1.insert(release.clone());
                }
            }
        }
        if !unreached.is_empty() {
            let flags: Vec<String> = unreached.into_iter().collect();
            return Err(Error::Usage(format!(
                "{target} has objects in other clusters; name a context of the kubeconfig for each: {}",
                flags.join(" ")
            )));
        }
        Ok(Self {
            places,
            observed,
            revisions,
            objects,
        })
    }

    /// The lines of the preview: each object with its new owners.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub(crate) async fn preview(&self) -> Result<Vec<String>, Error> {
        let mut lines = Vec::new();
        let mut last = None;
        for ((class, key), (gvk, releases)) in &self.objects {
            if last.replace(class) != Some(class) {
                lines.push(match class.strip_prefix(CLASS_CLUSTER_PREFIX) {
                    Some(name) => format!("Cluster {name}:"),
                    None => "This cluster:".to_owned(),
                });
            }
            let title = object_title(key);
            let cluster = self.cluster(class)?;
            let live = cluster.get_at(&cluster.path_of(gvk, key).await?).await?;
            lines.push(match live {
                Some(live) if is_ours(&live, &self.observed.name) => {
                    format!("  {title}: given to the anchors of {}", listed(releases))
                }
                Some(_) => format!("  {title}: left as it is, no revision has it"),
                None => format!("  {title}: does not exist"),
            });
        }
        lines.push(format!(
            "Revisions that are deleted without their objects: {}",
            self.revisions.len()
        ));
        Ok(lines)
    }

    /// Gives the Application back. `report` is called after each step.
    ///
    /// # Guarantees
    /// - No object is deleted or created again, and no pod is restarted.
    /// - Nothing is deleted unless all objects have their new owners.
    ///
    /// # Errors
    /// If a step fails, or the manager does not answer before the timeout. The command can be run
    /// again.
    pub(crate) async fn give_back(
        &self,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let target = self.observed.target();
        self.stop_manager(&target, timeout).await?;
        report(&format!("{target} is not changed by the manager any more"))?;
        // A Release may have been installed until the manager stopped.
        let held = Self::read(self.places, &target).await?;
        held.pause(timeout, &mut report).await?;
        let anchors = held.anchors().await?;
        for (place, (gvk, releases)) in &held.objects {
            if let Some(line) = held.hand_over(place, gvk, releases, &anchors).await? {
                report(&line)?;
            }
        }
        held.delete_revisions(timeout).await?;
        report(&format!("{} revisions deleted", held.revisions.len()))?;
        held.clean_hub().await?;
        match revisions(&self.places.home, &target.name).await?.first() {
            None => Ok(()),
            Some(revision) => Err(Error::Impossible(format!(
                "{} was created in the meantime; run this again",
                revision.target()
            ))),
        }
    }

    fn cluster(&self, class: &str) -> Result<&Cluster, Error> {
        let found = self.places.at(class);
        found.ok_or_else(|| Error::Impossible(format!("there is no connection for {class}")))
    }

    /// Asks the manager to stop, and waits for its answer.
    async fn stop_manager(&self, target: &AppTarget, timeout: Duration) -> Result<(), Error> {
        let home = &self.places.home;
        let custody = |observed: &Observed| observed.application.as_ref().map(Custody::of);
        if custody(&self.observed) == Some(Custody::Ours) {
            let annotations = json!({ ANNOTATION_GIVEN_BACK: GIVEN_BACK_REQUESTED });
            let body = json!({ "metadata": { "annotations": annotations } });
            let path = target.kind.path_of(Some(&home.namespace), &target.name);
            let write = Write::new(MediaType::MergePatch, false);
            home.write(&path, write, &body).await?;
        }
        let mut follower = Follower::start(home, question(home, target)).await?;
        let look = async |observed: &Observed| {
            (custody(observed) == Some(Custody::GivenBack)).then_some(())
        };
        let answered = until(&mut follower, target, timeout, None, look).await?;
        answered.ok_or_else(|| {
            Error::Impossible(format!(
                "nothing was given back, because the manager has not answered the annotation \
                 {ANNOTATION_GIVEN_BACK} of {target} yet: check that the manager runs, then run this again"
            ))
        })
    }

    /// Pauses all revisions, so that none takes an object again.
    async fn pause(
        &self,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for revision in self.revisions.iter().filter(|it| !is_quiet(it)) {
            let target = revision.target();
            if revision.is_archived() {
                until_quiet(&self.places.home, &target, timeout).await?;
            } else {
                paused(&self.places.home, &target, timeout, &mut report).await?;
            }
        }
        Ok(())
    }

    /// Ensures that all anchors exist.
    async fn anchors(&self) -> Result<Anchors, Error> {
        let targets = self.observed.installation.as_ref();
        let targets = targets.map_err(|why| Error::Impossible(why.clone()))?;
        let mut wanted = BTreeSet::new();
        for ((class, _), (_, releases)) in &self.objects {
            wanted.extend(releases.iter().map(|release| (class, release)));
        }
        let mut anchors = Anchors::new();
        for (class, release) in wanted {
            let target = targets.get(release).ok_or_else(|| {
                Error::NotFound(format!("InstallationTarget {release} does not exist"))
            })?;
            let anchor = anchor(self.cluster(class)?, target, release).await?;
            anchors.insert((class.clone(), release.clone()), anchor);
        }
        Ok(anchors)
    }

    /// Gives an object to the anchors of its Releases. Returns a line for people; `None` if there is
    /// nothing to give.
    async fn hand_over(
        &self,
        (class, key): &Place,
        gvk: &Gvk,
        releases: &BTreeSet<String>,
        anchors: &Anchors,
    ) -> Result<Option<String>, Error> {
        let cluster = self.cluster(class)?;
        let path = cluster.path_of(gvk, key).await?;
        let owners = releases.iter();
        let owners = owners.filter_map(|it| anchors.get(&(class.clone(), it.clone())));
        let owners: Vec<Value> = owners.cloned().collect();
        let mut is_given = false;
        // A Service is changed by two patches.
        for _ in 0..2 * ROUNDS {
            let Some(live) = cluster.get_at(&path).await? else {
                return Ok(None);
            };
            let change = if let Some(release) = selected_release(&live) {
                self.label_pods(cluster, &release).await?;
                selected_by_label(&live)
            } else if is_ours(&live, &self.observed.name) {
                given_back(&live, &owners)
            } else {
                let title = object_title(key);
                return Ok(is_given.then(|| format!("{title} kept, and given to Shipper")));
            };
            match as_shipper(cluster, &path, &change).await {
                Ok(()) => is_given = true,
                // The object has changed since it was read.
                Err(error) if error.is_code(409) || error.is_code(422) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Impossible(format!(
            "{} has changed during each attempt; run this again",
            object_title(key)
        )))
    }

    /// Gives all pods of a Release the label by which the Service of Shipper selects them.
    async fn label_pods(&self, cluster: &Cluster, release: &str) -> Result<(), Error> {
        let path = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
        let query = ListQuery::labelled(format!("{LABEL_RELEASE}={release}"));
        let body = json!({ "metadata": { "labels": { LABEL_TRAFFIC_STATUS: TRAFFIC_ENABLED } } });
        for pod in cluster.list_at(&path, &query).await? {
            if text_at(&pod, &pointer(LABEL_TRAFFIC_STATUS)) == TRAFFIC_ENABLED {
                continue;
            }
            let name = text_at(&pod, "/metadata/name");
            let url = format!("{path}/{name}?fieldManager={FIELD_MANAGER}");
            let body = Some((MediaType::MergePatch, &body));
            match cluster.send(Method::PATCH, &url, body).await {
                Err(error) if error.is_code(404) => {}
                answer => answer.map(drop)?,
            }
        }
        Ok(())
    }

    /// Deletes the revisions, which own nothing any more, and waits until they are gone.
    async fn delete_revisions(&self, timeout: Duration) -> Result<(), Error> {
        let home = &self.places.home;
        for revision in &self.revisions {
            let options = json!({
                "propagationPolicy": "Background", "preconditions": { "uid": revision.uid() },
            });
            let body = Some((MediaType::Json, &options));
            match home.send(Method::DELETE, &revision.path(), body).await {
                Err(error) if error.is_code(404) => {}
                answer => answer.map(drop)?,
            }
        }
        let waits = self.revisions.iter().map(async |revision| {
            let target = revision.target();
            let (_, is_gone) = watch_until(home, &target, timeout, async |chain| {
                chain.is_none().then_some(())
            })
            .await?;
            is_gone.ok_or_else(|| {
                Error::Impossible(format!("{target} is still being deleted; run this again"))
            })
        });
        try_join_all(waits).await.map(drop)
    }

    /// Removes what Baton has added to objects on the hub.
    async fn clean_hub(&self) -> Result<(), Error> {
        let home = &self.places.home;
        let namespace = Some(home.namespace.as_str());
        for (_, release) in self.observed.releases() {
            let name = release.metadata.name.as_deref().unwrap_or_default();
            let finalizers = release.metadata.finalizers.as_deref().unwrap_or_default();
            if finalizers.iter().any(|it| it == FINALIZER_SERVING) {
                let rest: Vec<&String> = finalizers
                    .iter()
                    .filter(|it| *it != FINALIZER_SERVING)
                    .collect();
                let version = &release.metadata.resource_version;
                let body =
                    json!({ "metadata": { "resourceVersion": version, "finalizers": rest } });
                let path = kinds::RELEASE.path_of(namespace, name);
                let write = Write::new(MediaType::MergePatch, false);
                home.write(&path, write, &body).await?;
            }
            let body = json!({ "metadata": { "annotations": { ANNOTATION_CONTENT: null } } });
            let path = kinds::INSTALLATION_TARGET.path_of(namespace, name);
            let write = Write::new(MediaType::MergePatch, false);
            match home.write(&path, write, &body).await {
                Err(error) if error.is_code(404) => {}
                answer => answer.map(drop)?,
            }
        }
        let path = kinds::OBJECT_SLICE.path(namespace);
        let query = ListQuery::labelled(format!("{LABEL_APP}={}", self.observed.name));
        for slice in home.list_at(&path, &query).await? {
            let name = text_at(&slice, "/metadata/name");
            let path = kinds::OBJECT_SLICE.path_of(namespace, name);
            match home.send(Method::DELETE, &path, None).await {
                Err(error) if error.is_code(404) => {}
                answer => answer.map(drop)?,
            }
        }
        Ok(())
    }
}

/// The JSON pointer to a label.
fn pointer(label: &str) -> String {
    format!("/metadata/labels/{}", label.replace('/', "~1"))
}

/// All revisions of an Application.
async fn revisions(cluster: &Cluster, application: &str) -> Result<Vec<Revision>, Error> {
    let selection = Selection {
        labels: Some(format!("{LABEL_APP}={application}")),
        namespace: cluster.namespace.clone(),
        ..Selection::default()
    };
    let chains = once(cluster, &selection).await?.chains;
    Ok(chains
        .into_iter()
        .flat_map(|chain| chain.revisions)
        .collect())
}

/// Ensures that the anchor of a Release exists in a cluster. Returns its owner reference.
async fn anchor(
    cluster: &Cluster,
    target: &InstallationTarget,
    release: &str,
) -> Result<Value, Error> {
    let name = format!("{release}{ANCHOR_SUFFIX}");
    let collection = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace);
    let path = format!("{collection}/{name}");
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": cluster.namespace, "labels": target.metadata.labels,
        },
        "data": { TARGET_UID: target.metadata.uid },
    });
    let live = match cluster.get_at(&path).await? {
        Some(live) if live["data"][TARGET_UID] == manifest["data"][TARGET_UID] => live,
        // Shipper deletes an anchor of another target, with the objects that it owns.
        Some(_) => {
            let url = format!("{path}?fieldManager={FIELD_MANAGER}");
            let body = json!({ "data": manifest["data"] });
            let body = Some((MediaType::MergePatch, &body));
            cluster.send(Method::PATCH, &url, body).await?
        }
        None => {
            let url = format!("{collection}?fieldManager={FIELD_MANAGER}");
            let body = Some((MediaType::Json, &manifest));
            cluster.send(Method::POST, &url, body).await?
        }
    };
    let uid = &live["metadata"]["uid"];
    Ok(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid }))
}

/// Patches an object under the name of Shipper, which owns the fields from then on.
async fn as_shipper(cluster: &Cluster, path: &str, change: &[PatchOperation]) -> Result<(), Error> {
    let url = format!("{path}?fieldManager={FIELD_MANAGER}");
    let body = json!(change);
    let body = Some((MediaType::JsonPatch, &body));
    cluster.send(Method::PATCH, &url, body).await?;
    Ok(())
}
