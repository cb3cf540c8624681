//! The picture of chains, as a question to lists.

use super::{ChainPicture, build::picture, unhealthy};
use crate::{
    chain::{
        Chain,
        member::{Revision, State},
    },
    children::{Children, ChildrenOf, Detail},
    content::{Contents, SlicesOf, WantedRevision},
    delegates::{Delegates, DelegatesOf},
    lists::{Lists, MissingObject, NoAnswer, Question},
    selection::Selection,
};

/// The chains to draw, and the parts to draw of them.
#[derive(Clone, Debug, Default)]
pub struct TreeOf {
    /// The chains to draw.
    pub selection: Selection,
    /// True if the content of archived revisions is read as well.
    pub archived: bool,
    /// The only revision of each chain to draw.
    pub revision: Option<i64>,
    /// True if healthy parts are left out.
    pub unhealthy: bool,
}

/// The chains that were drawn, and the first object that does not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// The chains, by name or in the order in which they were named.
    pub chains: Vec<ChainPicture>,
    /// The first object that was named and does not exist.
    pub missing: Option<MissingObject>,
}

impl Question for TreeOf {
    type Answer = Tree;

    fn answer(&self, lists: &Lists) -> Result<Tree, NoAnswer> {
        let selected = self.selection.answer(lists)?;
        let chains = &selected.chains;
        let open: Vec<&Revision> = self.open(chains).collect();
        let slices = SlicesOf::required(open.iter().copied()).answer(lists)?;
        let contents = open
            .iter()
            .map(|it| (it.uid().to_owned(), slices.content(it)));
        let contents: Contents = contents.collect();
        let wanted = open.iter().map(|it| (*it, &contents[it.uid()]));
        let wanted: Vec<WantedRevision<'_>> = wanted.collect();
        let children = ChildrenOf {
            class: "",
            wanted: &wanted,
            detail: Detail::AsProbed,
        };
        let (children, delegates) = (children.answer(lists), DelegatesOf(&wanted).answer(lists));
        let no_revision = self.revision.filter(|number| {
            let mut chains = chains.iter();
            !chains.any(|chain| chain.by_number(*number).is_some())
        });
        Ok(Tree {
            chains: self.draw(chains, &contents, &children?, &delegates?),
            missing: selected
                .missing
                .or(no_revision.map(MissingObject::Revision)),
        })
    }
}

impl TreeOf {
    /// The revisions whose content is read.
    fn open<'a>(&'a self, chains: &'a [Chain]) -> impl Iterator<Item = &'a Revision> {
        let revisions = chains.iter().flat_map(|chain| &chain.revisions);
        revisions.filter(|revision| match self.revision {
            Some(number) => revision.number() == Some(number),
            None => self.archived || revision.state() != State::Archived,
        })
    }

    fn draw(
        &self,
        chains: &[Chain],
        contents: &Contents,
        children: &Children,
        delegates: &Delegates,
    ) -> Vec<ChainPicture> {
        let pictures = chains.iter();
        let mut pictures: Vec<ChainPicture> = pictures
            .map(|chain| picture(chain, contents, children, delegates))
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

#[cfg(test)]
mod tests {
    use baton_engine::revision::KindScope;
    use serde_json::json;

    use super::*;
    use crate::served::Served;

    /// The objects of a revision that are shown: `taken` is controlled by the newer revision,
    /// `lost` does not exist.
    fn text_of(number: i64) -> Vec<String> {
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
        let live = json!({"metadata": {"name": "taken", "namespace": "shop", "ownerReferences": [
            {"apiVersion": api, "kind": "ObjectSet", "name": "web-2", "uid": "u2", "controller": true},
        ]}});
        let question = TreeOf {
            selection: Selection {
                namespace: "shop".to_owned(),
                ..Selection::default()
            },
            revision: Some(number),
            unhealthy: true,
            ..TreeOf::default()
        };
        let pictures = answer(&question, &sets, &live).chains;
        let revisions = pictures.iter().flat_map(|picture| &picture.revisions);
        let phases = revisions.flat_map(|revision| revision.phases.iter().flatten());
        let objects = phases.flat_map(|phase| &phase.objects);
        objects.map(|object| object.name.clone()).collect()
    }

    /// The answer for these revisions, and this object among those that they have written.
    fn answer(question: &TreeOf, sets: &[serde_json::Value], live: &serde_json::Value) -> Tree {
        let mut lists = Lists::default();
        loop {
            if let Ok(tree) = question.answer(&lists) {
                return tree;
            }
            let to_read = lists.take_requests();
            for gvk in to_read.kinds {
                let served = Served {
                    path: "/api/v1/configmaps".to_owned(),
                    scope: KindScope::Namespaced,
                };
                lists.insert_served(gvk, Ok(served));
            }
            for request in to_read.lists.into_keys() {
                let objects = if request.path.ends_with("/objectsets") {
                    sets.to_vec()
                } else if request.query.labels.is_some() {
                    vec![live.clone()]
                } else {
                    Vec::new()
                };
                lists.insert(request, objects.into_iter().collect());
            }
        }
    }

    #[test]
    fn objects_of_a_hidden_newer_revision_are_healthy() {
        assert_eq!(text_of(1), ["lost"]);
        assert_eq!(text_of(2), [""; 0]);
    }
}
