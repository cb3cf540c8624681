//! Reads the lists that questions need from the server, once, without a watch.

use std::collections::BTreeSet;

use baton_engine::Gvk;
use baton_kubernetes::discovery::Location;
use baton_view::{
    chain::{
        Chain,
        kind::ChainKind,
        member::Revision,
        question::{AllChains, OneChain},
        target::Target,
    },
    children::{Children, ChildrenOf, Detail},
    content::{Slices, SlicesOf, WantedRevision},
    lists::{
        Cause, List, ListQuery, ListRequest, Lists, MissingObject, Necessity, NoAnswer, Question,
        requests,
    },
    selection::Selection,
    served::{Served, Unserved},
};
use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;

use crate::{
    error::ClusterError,
    requests::{Cluster, MAX_CONCURRENT},
    served::{self, resource},
};

/// The number of concurrent lists of whole kinds.
const KINDS_SIDE_BY_SIDE: usize = 16;

/// Answers a question from lists that are read now. Lists that do not depend on each other are read
/// concurrently.
///
/// # Errors
/// If there is no answer, a required list cannot be read, or the server cannot be reached.
pub async fn once<Q: Question>(cluster: &Cluster, question: &Q) -> Result<Q::Answer, ClusterError> {
    let lists = &mut Lists::default();
    loop {
        let answer = question.answer(lists);
        let mut to_read = lists.take_requests();
        to_read.warnings.iter().for_each(|text| cluster.warn(text));
        match answer {
            Ok(answer) => return Ok(answer),
            Err(NoAnswer::Missing(missing)) => {
                return Err(ClusterError::NotFound(missing.to_string()));
            }
            Err(NoAnswer::Unreadable(why)) => return Err(ClusterError::Impossible(why)),
            Err(NoAnswer::Unread) => {}
        }
        discover(cluster, lists, to_read.kinds).await;
        to_read.lists.retain(|it, _| lists.get(it).is_none());
        let is_required = |it: &ListRequest| to_read.lists[it] == Necessity::Required;
        let mut reads = read(cluster, to_read.lists.keys().cloned(), Q::trim);
        while let Some((requests, list)) = reads.next().await {
            let list = match list {
                Err(error) if ends_reading(&error) || requests.iter().any(is_required) => {
                    return Err(error);
                }
                list => list.unwrap_or_else(|error| failed(&error)),
            };
            insert(lists, requests, &list);
        }
    }
}

/// The list for a read that has failed.
pub(crate) fn failed(error: &ClusterError) -> List {
    let cause = match error {
        ClusterError::NotServed { .. } => Some(Cause::Unserved),
        error => error.is_code(403).then_some(Cause::Forbidden),
    };
    List::failed(error.to_string(), cause)
}

/// True if no further list can be read either.
pub(crate) fn ends_reading(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Unreachable { .. })
}

/// Reads the requested lists concurrently. Each result answers one or several of the requests.
pub(crate) fn read(
    cluster: &Cluster,
    lists_to_read: impl IntoIterator<Item = ListRequest>,
    trim: fn(&mut Value),
) -> impl Stream<Item = (Vec<ListRequest>, Result<List, ClusterError>)> + Unpin {
    let reads = requests(lists_to_read)
        .into_iter()
        .map(move |(request, of)| {
            Box::pin(async move {
                let mut list = List::default();
                let take = |mut object| {
                    trim(&mut object);
                    list.insert(object);
                };
                let read = cluster.each_at(&request.path, &request.query, take).await;
                (of, read.map(|()| list))
            })
        });
    stream::iter(reads).buffered(MAX_CONCURRENT)
}

/// Stores the result of a read for each of the requests that it answers: the objects of the list
/// that the request selects.
pub(crate) fn insert(lists: &mut Lists, requests: Vec<ListRequest>, list: &List) {
    for request in requests {
        let part = list.named(request.query.name.as_deref());
        lists.insert(request, part);
    }
}

/// Stores the URL path and the scope of each kind, or the reason that they are unknown.
pub(crate) async fn discover(cluster: &Cluster, lists: &mut Lists, kinds: BTreeSet<Gvk>) {
    for gvk in kinds {
        let served = match cluster.locate(&gvk).await {
            Ok(Location::Here(resource)) => Ok(Served {
                path: resource.path(),
                scope: resource.scope,
            }),
            Ok(Location::Elsewhere(other, _)) => Err(Unserved::OtherVersion(other.version)),
            Ok(Location::Nowhere) => Err(Unserved::Absent),
            Err(error) => Err(Unserved::Unreadable(error.to_string())),
        };
        lists.insert_served(gvk, served);
    }
}

/// The chain of the object that a user named: a deployment with all of its revisions, or the chain
/// of a revision.
///
/// # Errors
/// If there is no such object, or its lists cannot be read.
pub async fn chain(cluster: &Cluster, target: &Target) -> Result<Chain, ClusterError> {
    let question = OneChain::new(target, &cluster.namespace);
    let missing = || ClusterError::NotFound(question.missing().to_string());
    once(cluster, &question).await?.ok_or_else(missing)
}

/// All chains of the scope of a kind, in a namespace, or in all namespaces if it is `None`. This
/// takes one list per kind for chains of any length.
///
/// # Errors
/// If the lists cannot be read.
pub async fn chains(
    cluster: &Cluster,
    kind: ChainKind,
    namespace: Option<&str>,
) -> Result<Vec<Chain>, ClusterError> {
    let namespace = namespace.map(str::to_owned);
    once(cluster, &AllChains { kind, namespace }).await
}

/// The chains of a selection.
///
/// # Errors
/// If a named object does not exist, or the lists cannot be read.
pub async fn selected(
    cluster: &Cluster,
    selection: &Selection,
) -> Result<Vec<Chain>, ClusterError> {
    let selected = once(cluster, selection).await?;
    found(selected.missing)?;
    Ok(selected.chains)
}

/// Returns an error if an object is missing.
///
/// # Errors
/// If it is missing.
pub fn found(missing: Option<MissingObject>) -> Result<(), ClusterError> {
    match missing {
        Some(missing) => Err(ClusterError::NotFound(missing.to_string())),
        None => Ok(()),
    }
}

/// The error for an object that does not exist, in the words of kubectl.
#[must_use]
pub fn not_found(target: &Target, namespace: Option<&str>) -> ClusterError {
    ClusterError::NotFound(MissingObject::target(target, namespace).to_string())
}

/// The slices of revisions; no request is sent if the revisions name none.
///
/// # Errors
/// If one cannot be read.
pub async fn slices<'a>(
    cluster: &Cluster,
    revisions: impl IntoIterator<Item = &'a Revision>,
) -> Result<Slices, ClusterError> {
    once(cluster, &SlicesOf::required(revisions)).await
}

/// The objects that revisions want in this cluster. `class` is the name by which their phases refer
/// to this cluster, see [delivery class](baton_view::content::Phase::delivery_class).
///
/// # Errors
/// If the server cannot be reached.
pub async fn children(
    cluster: &Cluster,
    class: &str,
    wanted: &[WantedRevision<'_>],
    detail: Detail,
) -> Result<Children, ClusterError> {
    let question = ChildrenOf {
        class,
        wanted,
        detail,
    };
    once(cluster, &question).await
}

/// Lists kinds concurrently. A kind that cannot be listed is left out with a warning.
///
/// # Errors
/// If the server cannot be reached.
pub async fn list_all<'a>(
    cluster: &Cluster,
    kinds: impl Iterator<Item = &'a served::Served>,
    namespace: Option<&str>,
    query: &ListQuery,
    warnings: &mut Vec<String>,
) -> Result<Vec<(&'a served::Served, Vec<Value>)>, ClusterError> {
    let lists = kinds.map(|kind| async move {
        let list = match kind.path(namespace) {
            Ok(path) => cluster.list_at(&path, query).await,
            Err(error) => Err(ClusterError::Invalid(error.to_string())),
        };
        (kind, list)
    });
    let mut lists = stream::iter(lists).buffered(KINDS_SIDE_BY_SIDE);
    let mut found = Vec::new();
    let mut forbidden = Vec::new();
    while let Some((kind, list)) = lists.next().await {
        match list {
            Ok(objects) => found.push((kind, objects)),
            Err(error @ ClusterError::Unreachable { .. }) => return Err(error),
            // A kind may be removed at any time, and some kinds cannot be listed.
            Err(error) if error.is_code(404) || error.is_code(405) => {}
            Err(error) if error.is_code(403) => forbidden.push(resource(kind)),
            Err(error) => warnings.push(format!("cannot list {}: {error}", resource(kind))),
        }
    }
    if !forbidden.is_empty() {
        warnings.push(format!("no right to list {}", forbidden.join(", ")));
    }
    Ok(found)
}
