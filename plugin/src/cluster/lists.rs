//! The lists that pictures are made of, read once.

use std::collections::BTreeSet;

use baton_kubernetes::path;
use baton_view::{
    chain::{
        self, Chain,
        kind::ChainKind,
        member::Revision,
        question::{AllChains, OneChain},
        target::Target,
    },
    children::{Children, Collection, Detail, NOT_SERVED, Served, collections},
    content::{self, FEW, Slices, WantedRevision},
    delegates::{self, Delegates},
    lists::{List, ListQuery, ListRequest, Lists, Missing, Need, NoAnswer, Question},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{
    connect::{Cluster, SIDE_BY_SIDE},
    error::Error,
    output::report_once,
};

/// Answers a question from lists that are read now, those of a round side by side.
///
/// # Errors
/// If there is no answer, a required list cannot be read, or the server cannot be reached.
pub(crate) async fn once<Q: Question>(cluster: &Cluster, question: &Q) -> Result<Q::Answer, Error> {
    let mut lists = Lists::default();
    loop {
        let answer = question.answer(&lists);
        let asked = lists.take_asked();
        asked.warnings.iter().for_each(|text| warn(text));
        match answer {
            Ok(answer) => return Ok(answer),
            Err(NoAnswer::Missing(missing)) => return Err(Error::NotFound(missing.to_string())),
            Err(NoAnswer::Unreadable(why)) => return Err(Error::Impossible(why)),
            Err(NoAnswer::Unread) => {
                let mut unread = asked.lists;
                unread.retain(|request, _| lists.get(request).is_none());
                let reads = unread
                    .into_iter()
                    .map(|(request, need)| read(cluster, request, need, Q::trim));
                let mut reads = stream::iter(reads).buffered(SIDE_BY_SIDE);
                while let Some((request, list)) = reads.try_next().await? {
                    lists.insert(request, list);
                }
            }
        }
    }
}

async fn read(
    cluster: &Cluster,
    request: ListRequest,
    need: Need,
    trim: fn(&mut Value),
) -> Result<(ListRequest, List), Error> {
    let mut list = List::default();
    let take = |mut object| {
        trim(&mut object);
        list.insert(object);
    };
    match cluster.each_at(&request.path, &request.query, take).await {
        Ok(()) => Ok((request, list)),
        Err(error) if need == Need::Required || matches!(error, Error::Unreachable { .. }) => {
            Err(error)
        }
        Err(error) => Ok((request, List::unreadable(error.to_string()))),
    }
}

/// Reports what has to be known besides an answer. Watches would do so after every change.
pub(crate) fn warn(text: &str) {
    report_once(&format!("warning: {text}"));
}

/// The chain of what a user named: a deployment with all of its revisions, or all revisions of the chain that a
/// revision is in.
pub(crate) async fn chain(cluster: &Cluster, target: &Target) -> Result<Chain, Error> {
    let question = question(cluster, target);
    let missing = || Error::NotFound(question.missing().to_string());
    once(cluster, &question).await?.ok_or_else(missing)
}

/// The question for the chain of what a user named.
pub(crate) fn question(cluster: &Cluster, target: &Target) -> OneChain {
    let namespace = cluster.namespace_of(target.candidates()[0]);
    OneChain {
        target: target.clone(),
        namespace: namespace.map(str::to_owned),
    }
}

/// All chains of the scope of a kind, in a namespace or, where it is `None`, in all of them: one list per kind, however
/// long the chains are.
pub(crate) async fn chains(
    cluster: &Cluster,
    kind: ChainKind,
    namespace: Option<&str>,
) -> Result<Vec<Chain>, Error> {
    let namespace = namespace.map(str::to_owned);
    once(cluster, &AllChains { kind, namespace }).await
}

/// Chains from what lists return. What cannot be parsed is reported on standard error and left out.
pub(crate) fn from_objects(deployments: Vec<Value>, revisions: Vec<Value>) -> Vec<Chain> {
    let (chains, left_out) = chain::from_objects(deployments, revisions);
    for error in left_out {
        warn(&error.to_string());
    }
    chains
}

/// As kubectl says it.
pub(crate) fn not_found(target: &Target, namespace: Option<&str>) -> Error {
    Error::NotFound(Missing::target(target, namespace).to_string())
}

/// The slices of revisions; no request when they name none.
pub(crate) async fn slices<'a>(
    cluster: &Cluster,
    revisions: impl IntoIterator<Item = &'a Revision>,
) -> Result<Slices, Error> {
    let mut slices = Slices::default();
    for (path, names) in content::slices(revisions) {
        for slice in some(cluster, &path, &names, &ListQuery::default()).await? {
            slices.insert(slice);
        }
    }
    Ok(slices)
}

/// Those objects of a collection that have one of the names: a few one by one, many by a list.
pub(crate) async fn some(
    cluster: &Cluster,
    collection: &str,
    names: &BTreeSet<String>,
    query: &ListQuery,
) -> Result<Vec<Value>, Error> {
    if names.len() > FEW {
        let mut found = cluster.list_at(collection, query).await?;
        found.retain(|object| {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            name.is_some_and(|name| names.contains(name))
        });
        return Ok(found);
    }
    let reads = names.iter().map(|name| {
        // What no object can be named does not exist.
        let path = path::object(collection, name).ok();
        async move {
            match path {
                Some(path) => cluster.get_at(&path).await,
                None => Ok(None),
            }
        }
    });
    let found = stream::iter(reads).buffered(SIDE_BY_SIDE);
    found
        .try_filter_map(|object| async { Ok(object) })
        .try_collect()
        .await
}

/// Where the wanted objects of each kind are served. Kinds that are not are noted as unreadable.
pub(crate) async fn served(
    cluster: &Cluster,
    collections: Vec<Collection>,
    children: &mut Children,
) -> Vec<(Collection, Served)> {
    let mut known = Vec::new();
    for collection in collections {
        match cluster.resource(&collection.gvk).await {
            Ok(Some(resource)) => {
                let (path, scope) = (resource.path(), resource.scope);
                known.push((collection, Served { path, scope }));
            }
            Ok(None) => children.insert_unreadable(&collection.gvk, NOT_SERVED.to_owned()),
            Err(error) => children.insert_unreadable(&collection.gvk, error.to_string()),
        }
    }
    known
}

/// The objects that revisions want. Those of phases of a class may be in another cluster and are not looked for; see
/// [`Phase::is_here`](baton_view::content::Phase::is_here).
pub(crate) async fn children(
    cluster: &Cluster,
    wanted: &[WantedRevision<'_>],
    detail: Detail,
) -> Result<Children, Error> {
    children_at("", cluster, wanted, detail).await
}

/// The objects that revisions want in a [`place`](baton_view::content::Phase::place), which is this cluster.
pub(crate) async fn children_at(
    place: &str,
    cluster: &Cluster,
    wanted: &[WantedRevision<'_>],
    detail: Detail,
) -> Result<Children, Error> {
    let mut children = Children::default();
    let known = served(cluster, collections(place, wanted, detail), &mut children).await;
    for step in [Collection::managed, Collection::others] {
        let mut lists = Vec::new();
        for (collection, served) in &known {
            let sources = step(collection, served, &children);
            lists.extend(sources.into_iter().map(|source| async move {
                let list = cluster.list_at(&source.path, &source.query).await;
                (&collection.gvk, list)
            }));
        }
        let mut lists = stream::iter(lists).buffer_unordered(SIDE_BY_SIDE);
        while let Some((gvk, list)) = lists.next().await {
            match list {
                Ok(objects) => {
                    for object in objects {
                        children.insert(gvk, object);
                    }
                }
                Err(error @ Error::Unreachable { .. }) => return Err(error),
                Err(error) => children.insert_unreadable(gvk, error.to_string()),
            }
        }
    }
    Ok(children)
}

/// The objects that stand for delegated phases of revisions; no request when they have none.
pub(crate) async fn delegates(
    cluster: &Cluster,
    wanted: &[WantedRevision<'_>],
) -> Result<Delegates, Error> {
    let mut delegates = Delegates::default();
    for source in delegates::sources(wanted) {
        match cluster.list_at(&source.path, &source.query).await {
            Ok(found) => found.iter().for_each(|object| delegates.insert(object)),
            Err(error @ Error::Unreachable { .. }) => return Err(error),
            Err(error) => delegates.insert_unreadable(error.to_string()),
        }
    }
    Ok(delegates)
}
