//! Candidates from a cluster, or from the kubeconfig.

use std::collections::BTreeSet;

use baton_apis::SiteDeployment;
use baton_cluster::{Cluster, lists};
use baton_engine::texts::collapse_whitespace;
use baton_terminal::kubeconfig::{self, ConnectionArgs};
use baton_view::{
    chain::member::Revision,
    lists::ListQuery,
    object::text_at,
    sites::{cluster, record::Records, target::SiteTarget},
};

use super::Candidates;
use crate::{
    args::GlobalArgs,
    error::Error,
    sites::read::read,
    subject::{self, Subject, SubjectKind},
};

/// Names of objects. In `KIND/NAME`, the kind is the one before the slash, which has to be allowed.
/// Without a slash, it is the given kind.
pub(super) async fn named(
    global: &GlobalArgs,
    last: &str,
    allowed: &[SubjectKind],
    kind: &str,
) -> Result<Candidates, Error> {
    let (prefix, word) = match last.split_once('/') {
        Some((word, _)) => (format!("{word}/"), word),
        None => (String::new(), kind),
    };
    let subject = Subject::of(word, "");
    let Some(subject) = subject.filter(|it| allowed.contains(&it.kind())) else {
        return Ok(Candidates::new());
    };
    let cluster = global.connect().await?;
    let path = match &subject {
        Subject::Chain(target) => {
            let kind = target.candidates()[0];
            kind.path(cluster.namespace_of(kind))
        }
        Subject::Application(target) => target.kind.path(Some(&cluster.namespace)),
        Subject::SiteDeployment(target) | Subject::SiteApplication(target) => {
            target.kind.path(Some(&cluster.namespace))
        }
    };
    names(&cluster, &path, &prefix).await
}

/// Names of sites.
pub(super) async fn sites(global: &GlobalArgs) -> Result<Candidates, Error> {
    let cluster = global.connect().await?;
    names(&cluster, &cluster::path(), "").await
}

/// Kept versions of the application that the words of a command line name, directly or by a
/// deployment, newest first.
pub(super) async fn versions(global: &GlobalArgs, words: &[String]) -> Result<Candidates, Error> {
    let subjects = Subject::parse_all(words, &subject::ALL)?;
    let [Subject::SiteDeployment(target) | Subject::SiteApplication(target)] = &subjects[..] else {
        return Ok(Candidates::new());
    };
    let cluster = global.connect().await?;
    let application = if target.is_application() {
        target.clone()
    } else {
        let deployment: SiteDeployment = read(&cluster, target).await?;
        SiteTarget::application(&deployment.spec.application)
    };
    let records: Records = read(&cluster, &application).await?;
    let versions = records.versions().into_iter();
    Ok(plain(versions.map(|record| record.version.clone())))
}

/// Names of the releases that Helm stores in Secrets.
pub(super) async fn releases(global: &GlobalArgs) -> Result<Candidates, Error> {
    let cluster = global.connect().await?;
    let path = format!("/api/v1/namespaces/{}/secrets", cluster.namespace);
    let query = ListQuery {
        labels: Some("owner=helm,status=deployed".to_owned()),
        metadata_only: true,
        ..ListQuery::default()
    };
    let found = cluster.list_at(&path, &query).await?;
    let name = |record| text_at(record, "/metadata/labels/name").to_owned();
    Ok(plain(found.iter().map(name).collect::<BTreeSet<_>>()))
}

pub(super) async fn namespaces(global: &GlobalArgs) -> Result<Candidates, Error> {
    let cluster = global.connect().await?;
    names(&cluster, "/api/v1/namespaces", "").await
}

/// Names of the contexts of the kubeconfig, each after the typed text `before`. No request is sent.
pub(super) fn contexts(global: &GlobalArgs, before: &str) -> Candidates {
    let connection = ConnectionArgs {
        kubeconfig: global.kubeconfig.clone(),
        context: None,
    };
    let names = kubeconfig::contexts(&connection).into_iter();
    plain(names.map(|name| format!("{before}{name}")))
}

/// Numbers of the revisions of the object that the words of a command line name, each with a
/// description.
pub(super) async fn revisions(global: &GlobalArgs, words: &[String]) -> Result<Candidates, Error> {
    let targets = Subject::parse_chains(words)?;
    let [target] = targets.as_slice() else {
        return Ok(Candidates::new());
    };
    let cluster = global.connect().await?;
    let chain = lists::chain(&cluster, target).await?;
    Ok(chain.revisions.iter().filter_map(numbered).collect())
}

/// A revision as a candidate: `3`, described by `Archived: opening day`.
fn numbered(revision: &Revision) -> Option<(String, String)> {
    let state = revision.state().as_str();
    let help = match revision.change_cause() {
        Some(cause) => format!("{state}: {}", collapse_whitespace(cause)),
        None => state.to_owned(),
    };
    Some((revision.number()?.to_string(), help))
}

async fn names(cluster: &Cluster, path: &str, prefix: &str) -> Result<Candidates, Error> {
    let query = ListQuery {
        metadata_only: true,
        ..ListQuery::default()
    };
    let found = cluster.list_at(path, &query).await?;
    let names: BTreeSet<String> = found
        .iter()
        .map(|object| format!("{prefix}{}", text_at(object, "/metadata/name")))
        .collect();
    Ok(plain(names))
}

fn plain(words: impl IntoIterator<Item = String>) -> Candidates {
    words
        .into_iter()
        .map(|word| (word, String::new()))
        .collect()
}
