//! Creates the objects of a backup in a hub.

use std::collections::BTreeMap;

use baton_apis::{constants::FINALIZER_ORPHAN, kinds};
use baton_cluster::{Cluster, MAX_CONCURRENT, Write};
use baton_kubernetes::wire::MediaType;
use baton_terminal::output::report;
use baton_view::{lists::ListQuery, object::text_at};
use futures::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use super::{
    CONTROLLER_REVISION, KINDS,
    collect::{NAMESPACES, hub, list},
    counts,
    file::Backup,
    kind_of, manager_lease,
    order::Order,
    path_of,
    renewed::{self, Identities, has_subresource, is_restored_from},
    title,
};
use crate::error::Error;

/// A restore of a backup into a hub.
pub(crate) struct Restore<'a> {
    cluster: &'a Cluster,
    backup: &'a Backup,
    order: Order,
    identities: Identities,
    /// The UIDs of objects of the backup that exist, by their paths.
    existing: BTreeMap<String, String>,
}

impl<'a> Restore<'a> {
    /// Compares a backup with a hub. Reads only.
    ///
    /// # Errors
    /// If the hub has objects that are not those of an earlier, incomplete restore of this backup.
    /// Clusters and assignments may exist, because clusters may have joined already.
    pub(crate) async fn plan(cluster: &'a Cluster, backup: &'a Backup) -> Result<Self, Error> {
        let checksum = backup.checksum();
        let mut existing = BTreeMap::new();
        let mut foreign = Vec::new();
        for kind in KINDS {
            let query = ListQuery {
                metadata_only: true,
                ..ListQuery::default()
            };
            let found = list(cluster, kind, query).await?;
            let mut others = 0;
            for object in &found {
                let [namespace, name, uid] = ["namespace", "name", "uid"]
                    .map(|field| text_at(object, &format!("/metadata/{field}")));
                let is_known = is_restored_from(object, &checksum)
                    || [&kinds::CLUSTER, &kinds::SITE_ASSIGNMENT].contains(&kind);
                if is_known {
                    let namespace = (!namespace.is_empty()).then_some(namespace);
                    existing.insert(kind.path_of(namespace, name), uid.to_owned());
                } else {
                    others += 1;
                }
            }
            if others > 0 {
                foreign.push(format!("{}s: {others}", kind.name));
            }
        }
        if !foreign.is_empty() {
            return Err(Error::Impossible(format!(
                "the hub has objects that are not of this backup: {}; a backup is restored into a hub without them",
                foreign.join(", ")
            )));
        }
        let of_uid = |object: &Value| text_at(object, "/metadata/uid").to_owned();
        let generations = backup.objects.iter().filter_map(|object| {
            Some((of_uid(object), object["metadata"]["generation"].as_i64()?))
        });
        let uids = backup
            .objects
            .iter()
            .filter_map(|object| Some((of_uid(object), existing.get(&path_of(object)?)?.clone())));
        let present = hub(cluster).await?;
        Ok(Self {
            cluster,
            backup,
            order: Order::of(&backup.objects),
            identities: Identities {
                uids: uids.collect(),
                generations: generations.collect(),
                checksum,
                lost_hub: (backup.hub != present).then(|| backup.hub.clone()),
            },
            existing,
        })
    }

    /// The number of objects to create by kind, and those that are left out.
    pub(crate) fn summary(&self) -> Vec<String> {
        let left_out = self.order.left_out.iter();
        let mut lines = counts(self.missing());
        lines.extend(left_out.map(|it| format!("left out: {it}")));
        lines
    }

    /// The objects that do not exist yet.
    fn missing(&self) -> impl Iterator<Item = &Value> {
        let objects = self.order.groups.iter().flatten();
        objects.filter(|it| !self.exists(it))
    }

    fn exists(&self, object: &Value) -> bool {
        path_of(object).is_some_and(|path| self.existing.contains_key(&path))
    }

    /// Creates the objects. `namespace` is that of the manager, which does not write meanwhile.
    ///
    /// # Errors
    /// If the server refuses an object: nothing is created then, except for namespaces. If a later
    /// request fails, the manager stays stopped, and another restore of the same file continues.
    pub(crate) async fn run(mut self, namespace: &str) -> Result<(), Error> {
        let mut held = manager_lease::take(self.cluster, namespace).await?;
        let checked = self.check().await;
        if checked.is_ok() {
            held.keep().await?;
            self.create_all().await.map_err(|error| {
                Error::Impossible(format!(
                    "{error}; run the command again to continue; until then no manager writes, for a day at most"
                ))
            })?;
        }
        held.release().await?;
        checked
    }

    /// Creates the namespaces, and lets the server check all objects.
    async fn check(&self) -> Result<(), Error> {
        for namespace in &self.backup.namespaces {
            let path = format!("{NAMESPACES}/{}", text_at(namespace, "/name"));
            match self.cluster.metadata_at(&path).await? {
                None => {
                    let body =
                        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": namespace });
                    self.post(NAMESPACES, &body, false).await?;
                }
                // Assignments select namespaces by their labels.
                Some(live) => {
                    let missing = missing_labels(namespace, &live["metadata"]);
                    self.complete(&path, &missing).await?;
                }
            }
        }
        for object in self.backup.objects.iter().filter(|it| self.exists(it)) {
            if let Some(body) = rejoined(object) {
                let path = path_of(object).unwrap_or_default();
                self.complete(&path, &body)
                    .await
                    .map_err(|error| of(object, &error))?;
            }
        }
        let objects: Vec<_> = self.missing().collect();
        let refused = failures(&objects, async |object| self.create(object, true).await).await;
        if refused.is_empty() {
            return Ok(());
        }
        for line in &refused {
            report(&format!("error: {line}"));
        }
        Err(Error::Foreseen(format!(
            "the API server refuses {} of {} objects; nothing was restored",
            refused.len(),
            objects.len()
        )))
    }

    /// Applies a merge patch, unless it is empty.
    async fn complete(&self, path: &str, body: &Value) -> Result<(), Error> {
        if *body == json!({}) {
            return Ok(());
        }
        let write = Write::new(MediaType::MergePatch, false);
        self.cluster.write(path, write, body).await?;
        Ok(())
    }

    async fn create_all(&mut self) -> Result<(), Error> {
        for group in std::mem::take(&mut self.order.groups) {
            let this = &*self;
            let created = side_by_side(&group, async |object| {
                let path = path_of(object).unwrap_or_default();
                if let Some(uid) = this.existing.get(&path) {
                    return Ok(uid.clone());
                }
                let live = this.create(object, false).await?;
                Ok(text_at(&live, "/metadata/uid").to_owned())
            });
            let created = created.await;
            for (object, uid) in group.iter().zip(created) {
                let old = text_at(object, "/metadata/uid").to_owned();
                self.identities
                    .uids
                    .insert(old, uid.map_err(|error| of(object, &error))?);
            }
        }
        let this = &*self;
        let written = this.backup.objects.iter().filter(|it| this.is_created(it));
        let written: Vec<_> = written.collect();
        let failed = failures(&written, async |object| this.write_status(object).await).await;
        let ended = written.into_iter().filter(|it| is_deleting(it));
        let ended: Vec<_> = ended.collect();
        let mut failed = failed;
        failed.extend(failures(&ended, async |object| this.delete(object).await).await);
        failed
            .into_iter()
            .next()
            .map_or(Ok(()), |first| Err(Error::Impossible(first)))
    }

    fn is_created(&self, object: &Value) -> bool {
        self.identities
            .uids
            .contains_key(text_at(object, "/metadata/uid"))
    }

    async fn create(&self, object: &Value, dry_run: bool) -> Result<Value, Error> {
        let kind = kind_of(object).unwrap_or(&CONTROLLER_REVISION);
        let namespace = text_at(object, "/metadata/namespace");
        let path = kind.path((!namespace.is_empty()).then_some(namespace));
        self.post(&path, &renewed::created(object, &self.identities), dry_run)
            .await
    }

    async fn post(&self, path: &str, body: &Value, dry_run: bool) -> Result<Value, Error> {
        let write = Write::new(MediaType::Json, dry_run);
        Ok(self.cluster.write(path, write, body).await?)
    }

    /// Writes the status of an object, if that is apart from the object, and nobody has written it.
    async fn write_status(&self, object: &Value) -> Result<(), Error> {
        let status = renewed::status(object, &self.identities);
        let Some(path) = path_of(object).filter(|_| !status.is_null() && has_subresource(object))
        else {
            return Ok(());
        };
        if self.exists(object) {
            let live = self.cluster.get_at(&path).await?.unwrap_or_default();
            // Definitions set some fields of a new status.
            let conditions = live["status"]["conditions"].as_array();
            if conditions.is_some_and(|all| !all.is_empty()) {
                return Ok(());
            }
        }
        let write = Write::new(MediaType::MergePatch, false);
        let body = json!({ "status": status });
        let path = format!("{path}/status");
        self.cluster.write(&path, write, &body).await?;
        Ok(())
    }

    /// Deletes an object that was being deleted: its finalizers let the manager complete that.
    async fn delete(&self, object: &Value) -> Result<(), Error> {
        let path = path_of(object).unwrap_or_default();
        let finalizers = object["metadata"]["finalizers"].as_array();
        let is_orphaning =
            finalizers.is_some_and(|all| all.iter().any(|it| it == FINALIZER_ORPHAN));
        let policy = if is_orphaning { "Orphan" } else { "Background" };
        let options = json!({ "propagationPolicy": policy });
        let body = Some((MediaType::Json, &options));
        match self.cluster.send(Method::DELETE, &path, body).await {
            Err(error) if error.is_code(404) => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }
}

/// The patch by which a cluster that has joined already, or an assignment that exists, is as it was: sites
/// are selected by labels, and Releases by the other fields. `None` for objects of other kinds. The
/// address and the direction of the connection are those of the new membership.
fn rejoined(object: &Value) -> Option<Value> {
    let mut spec = object["spec"].clone();
    if kinds::CLUSTER.is_of(object) {
        let fields = spec.as_object_mut()?;
        for field in ["apiMaster", "connection"] {
            fields.remove(field);
        }
    } else if !kinds::SITE_ASSIGNMENT.is_of(object) {
        return None;
    }
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.cloned().unwrap_or_default();
    Some(json!({ "metadata": { "labels": labels }, "spec": spec }))
}

/// The patch that adds the labels which a namespace had, as far as there are none of these names.
fn missing_labels(before: &Value, live: &Value) -> Value {
    let labels = before["labels"].as_object().into_iter().flatten();
    let missing = labels.filter(|(name, _)| live["labels"][name.as_str()].is_null());
    let missing: serde_json::Map<_, _> = missing.map(|(k, v)| (k.clone(), v.clone())).collect();
    if missing.is_empty() {
        return json!({});
    }
    json!({ "metadata": { "labels": missing } })
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The error of a request about an object.
fn of(object: &Value, error: &Error) -> Error {
    Error::Impossible(format!("{}: {error}", title(object)))
}

/// Calls a function for several objects at a time. Returns the results in their order.
async fn side_by_side<'o, T>(
    objects: impl IntoIterator<Item = &'o Value>,
    act: impl AsyncFn(&'o Value) -> Result<T, Error>,
) -> Vec<Result<T, Error>> {
    let results = stream::iter(objects.into_iter().map(|object| act(object)));
    results.buffered(MAX_CONCURRENT).collect().await
}

/// As [`side_by_side`], but returns one line per failure.
async fn failures<'o, T>(
    objects: &[&'o Value],
    act: impl AsyncFn(&'o Value) -> Result<T, Error>,
) -> Vec<String> {
    let results = side_by_side(objects.iter().copied(), act).await;
    let failed = objects
        .iter()
        .zip(results)
        .filter_map(|(object, result)| Some(of(object, &result.err()?).to_string()));
    failed.collect()
}
