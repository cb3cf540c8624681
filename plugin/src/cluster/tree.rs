//! Reading what the picture is made of: once, or again after every change.

use std::collections::BTreeSet;

use baton_view::{
    chain::{
        Chain,
        member::{Revision, State},
    },
    children::{Children, Collection, Detail, collections},
    content::{Slices, WantedRevision},
    delegates::{self, Delegates},
    lists::ListRequest,
    tree::{
        ChainPicture,
        build::{Catalogue, picture},
        unhealthy,
    },
};

use crate::{
    cluster::lists, cluster::watches::Watches, connect::Cluster, error::Error, selection::Selection,
};

/// Which chains, and how much of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) selection: Selection,
    /// Whether archived revisions are looked into.
    pub(crate) archived: bool,
    /// The only revision to show of each chain.
    pub(crate) revision: Option<i64>,
    /// Whether what is fine is left out.
    pub(crate) unhealthy: bool,
}

impl Scope {
    /// Whether a revision is looked into.
    fn is_open(&self, revision: &Revision) -> bool {
        match self.revision {
            Some(number) => revision.number() == Some(number),
            None => self.archived || revision.state() != State::Archived,
        }
    }

    fn open<'a>(&'a self, chains: &'a [Chain]) -> impl Iterator<Item = &'a Revision> {
        let revisions = chains.iter().flat_map(|chain| &chain.revisions);
        revisions.filter(|revision| self.is_open(revision))
    }

    fn draw(
        &self,
        chains: &[Chain],
        catalogue: &Catalogue,
        children: &Children,
        delegates: &Delegates,
    ) -> Vec<ChainPicture> {
        let mut pictures: Vec<ChainPicture> = chains
            .iter()
            .map(|chain| picture(chain, catalogue, children, delegates))
            .collect();
        if self.unhealthy {
            pictures.iter_mut().for_each(unhealthy::retain);
        }
        if let Some(number) = self.revision {
            for picture in &mut pictures {
                picture
                    .revisions
                    .retain(|revision| revision.revision == Some(number));
            }
        }
        if self.unhealthy {
            pictures.retain(unhealthy::has_any);
        }
        pictures
    }
}

/// Reads the picture as it is now.
pub(crate) async fn once(cluster: &Cluster, scope: &Scope) -> Result<Vec<ChainPicture>, Error> {
    let chains = scope.selection.read(cluster).await?;
    if let Some(number) = scope.revision
        && !chains.iter().any(|chain| chain.by_number(number).is_some())
    {
        return Err(Error::NotFound(format!("there is no revision {number}")));
    }
    let slices = lists::slices(cluster, scope.open(&chains)).await?;
    let mut catalogue = Catalogue::default();
    for revision in scope.open(&chains) {
        catalogue.add(revision, &slices);
    }
    let wanted = wanted(scope, &chains, &catalogue);
    let children = lists::children(cluster, &wanted, Detail::AsProbed).await?;
    let delegates = lists::delegates(cluster, &wanted).await?;
    Ok(scope.draw(&chains, &catalogue, &children, &delegates))
}

fn wanted<'a>(
    scope: &'a Scope,
    chains: &'a [Chain],
    catalogue: &'a Catalogue,
) -> Vec<WantedRevision<'a>> {
    let revisions = scope.open(chains);
    let wanted = revisions.filter_map(|revision| Some((revision, catalogue.content(revision)?)));
    wanted.collect()
}

/// The picture, kept up to date by watches.
pub(crate) struct LiveTree<'a> {
    cluster: &'a Cluster,
    scope: &'a Scope,
    watches: Watches,
    slices: Slices,
    catalogue: Catalogue,
    /// Watches for objects that are not managed.
    others: BTreeSet<ListRequest>,
}

impl<'a> LiveTree<'a> {
    pub(crate) async fn start(cluster: &'a Cluster, scope: &'a Scope) -> Result<Self, Error> {
        once(cluster, scope).await?;
        let mut tree = Self {
            cluster,
            scope,
            watches: Watches::new(cluster),
            slices: Slices::default(),
            catalogue: Catalogue::default(),
            others: BTreeSet::new(),
        };
        tree.watches.set(tree.base());
        Ok(tree)
    }

    /// The picture after the next change; the first time, as soon as everything was read.
    pub(crate) async fn next(&mut self) -> Result<Vec<ChainPicture>, Error> {
        loop {
            self.watches.changed().await;
            if let Some(pictures) = self.draw().await? {
                return Ok(pictures);
            }
        }
    }

    /// Why the revisions cannot be watched at the moment.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut sources = self.base().into_iter();
        sources.find_map(|source| self.watches.trouble(&source).map(str::to_owned))
    }

    fn base(&self) -> Vec<ListRequest> {
        self.scope.selection.sources(self.cluster)
    }

    /// The picture of what the watches know; nothing while some have not got through yet.
    async fn draw(&mut self) -> Result<Option<Vec<ChainPicture>>, Error> {
        let chains = self.scope.selection.watched(self.cluster, &self.watches);
        let scope = self.scope;
        let incomplete: Vec<&Revision> = scope
            .open(&chains)
            .filter(|revision| !self.catalogue.is_complete(revision))
            .collect();
        if !incomplete.is_empty() {
            let slices = lists::slices(self.cluster, incomplete.iter().copied()).await?;
            self.slices = slices;
            for revision in incomplete {
                self.catalogue.add(revision, &self.slices);
            }
        }
        // What is archived in the meantime is closed.
        self.catalogue
            .retain(|uid| scope.open(&chains).any(|revision| revision.uid() == uid));
        let wanted = wanted(scope, &chains, &self.catalogue);
        let phases = delegates::sources(&wanted);
        let mut children = Children::default();
        let collections = collections("", &wanted, Detail::AsProbed);
        let known = lists::served(self.cluster, collections, &mut children).await;
        let mut sources = self.base();
        sources.extend(phases.iter().cloned());
        let mut managed = Vec::new();
        for (collection, served) in &known {
            for source in collection.managed(served, &children) {
                sources.push(source.clone());
                managed.push((collection, source));
            }
        }
        // The others are those of last time until the managed ones are known.
        let before = sources.iter().chain(&self.others).cloned();
        self.watches.set(before);
        if !self.watches.is_complete() {
            return Ok(None);
        }
        for (collection, source) in &managed {
            fill(&mut children, collection, source, &self.watches);
        }
        let mut others = Vec::new();
        for (collection, served) in &known {
            for source in collection.others(served, &children) {
                others.push((collection, source));
            }
        }
        self.others = others.iter().map(|(_, source)| source.clone()).collect();
        self.watches
            .set(sources.iter().chain(&self.others).cloned());
        if !self.watches.is_complete() {
            return Ok(None);
        }
        for (collection, source) in &others {
            fill(&mut children, collection, source, &self.watches);
        }
        let mut delegates = Delegates::default();
        for source in &phases {
            let objects = self.watches.objects(source);
            objects.for_each(|object| delegates.insert(object));
            if let Some(trouble) = self.watches.trouble(source) {
                delegates.insert_unreadable(trouble.to_owned());
            }
        }
        let pictures = scope.draw(&chains, &self.catalogue, &children, &delegates);
        Ok(Some(pictures))
    }
}

fn fill(children: &mut Children, collection: &Collection, source: &ListRequest, watches: &Watches) {
    for object in watches.objects(source) {
        children.insert(&collection.gvk, object.clone());
    }
    if let Some(trouble) = watches.trouble(source) {
        children.insert_unreadable(&collection.gvk, trouble.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use baton_engine::Gvk;
    use serde_json::json;

    use super::*;
    use crate::cluster::lists::from_objects;

    /// The objects that are shown of a revision: `taken` is with the newer revision, `lost` does not exist.
    fn shown(number: i64) -> Vec<String> {
        let (api, v1) = ("package-operator.run/v1alpha1", "v1");
        let object = |name: &str| {
            let metadata = json!({"name": name, "namespace": "shop"});
            json!({"object": {"apiVersion": v1, "kind": "ConfigMap", "metadata": metadata}})
        };
        let set = |number: i64, previous: &[&str], objects: &[&str]| {
            let name = format!("web-{number}");
            let previous: Vec<_> = previous.iter().map(|name| json!({"name": name})).collect();
            let objects: Vec<_> = objects.iter().map(|name| object(name)).collect();
            json!({
                "apiVersion": api, "kind": "ObjectSet",
                "metadata": {"name": name, "namespace": "shop", "uid": format!("u{number}")},
                "spec": {
                    "revision": number, "previous": previous, "phases": [{"name": "a", "objects": objects}],
                },
                "status": {"conditions": [{
                    "type": "Available", "status": "True", "reason": "Available", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            })
        };
        let sets = vec![
            set(1, &[], &["taken", "lost"]),
            set(2, &["web-1"], &["taken"]),
        ];
        let chains = from_objects(Vec::new(), sets);
        let scope = Scope {
            revision: Some(number),
            unhealthy: true,
            ..Scope::default()
        };
        let mut catalogue = Catalogue::default();
        for revision in scope.open(&chains) {
            catalogue.add(revision, &Slices::default());
        }
        let mut children = Children::default();
        let live = json!({"metadata": {"name": "taken", "namespace": "shop", "ownerReferences": [
            {"apiVersion": api, "kind": "ObjectSet", "name": "web-2", "uid": "u2", "controller": true},
        ]}});
        children.insert(&Gvk::new(v1, "ConfigMap"), live);
        let pictures = scope.draw(&chains, &catalogue, &children, &Delegates::default());
        let revisions = pictures.iter().flat_map(|picture| &picture.revisions);
        let phases = revisions.flat_map(|revision| revision.phases.iter().flatten());
        let objects = phases.flat_map(|phase| &phase.objects);
        objects.map(|object| object.name.clone()).collect()
    }

    #[test]
    fn what_a_newer_revision_has_is_healthy_also_where_only_the_older_one_is_shown() {
        assert_eq!(shown(1), ["lost"]);
        assert_eq!(shown(2), [""; 0]);
    }
}
