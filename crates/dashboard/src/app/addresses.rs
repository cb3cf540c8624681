//! The pages at addresses.

use axum::{
    Extension, Form,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Response},
};
use baton_pages::{
    applications::ApplicationPage,
    chain::ChainPage,
    clusters::{ClustersFilter, ClustersPage},
    overview::{OverviewFilter, OverviewPage},
    sites::{SitesFilter, SitesPage},
    subject::ChainSubject,
};
use http::{
    StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use serde::Deserialize;

use super::{App, LONGEST, Visit};
use crate::{
    actions::{Fields, Subject},
    assets::ASSETS,
    reports::{self, diff::DiffChoice},
};

pub(super) async fn overview(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Query(filter): Query<OverviewFilter>,
) -> Response {
    this.show(visit, OverviewPage::new(filter)).await
}

/// The parts of the address of a chain: kind, namespace, name.
type ChainPath = Path<(String, String, String)>;

pub(super) async fn chain(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name)): ChainPath,
) -> Response {
    let subject = ChainSubject::new(&kind, &namespace, &name);
    this.show(visit, subject.map(ChainPage::new)).await
}

pub(super) async fn diff(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name)): ChainPath,
    Query(choice): Query<DiffChoice>,
) -> Response {
    let Some(subject) = ChainSubject::new(&kind, &namespace, &name) else {
        return this.missing(&visit);
    };
    let (cluster, base) = this.subjects(&visit);
    let report = async move || reports::diff::report(&cluster, &base, &subject, &choice).await;
    let report = this.aside(&visit, Some(LONGEST), report).await;
    this.report(&visit, report)
}

/// The revision in an address.
#[derive(Deserialize)]
pub(super) struct RevisionChoice {
    #[serde(default)]
    number: String,
}

pub(super) async fn revision(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name)): ChainPath,
    Query(choice): Query<RevisionChoice>,
) -> Response {
    let Some(subject) = ChainSubject::new(&kind, &namespace, &name) else {
        return this.missing(&visit);
    };
    let (cluster, base) = this.subjects(&visit);
    let number = choice.number;
    let report = async move || reports::revision::report(&cluster, &base, &subject, &number).await;
    let report = this.aside(&visit, Some(LONGEST), report).await;
    this.report(&visit, report)
}

/// The object and the change in an address.
type ActionPath = Path<(String, String, String, String)>;

pub(super) async fn preview_chain(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name, action)): ActionPath,
    Query(fields): Query<Fields>,
) -> Response {
    let subject = ChainSubject::new(&kind, &namespace, &name).map(Subject::Chain);
    this.preview(&visit, &action, subject, fields).await
}

pub(super) async fn perform_chain(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((kind, namespace, name, action)): ActionPath,
    Form(fields): Form<Fields>,
) -> Response {
    let subject = ChainSubject::new(&kind, &namespace, &name).map(Subject::Chain);
    this.perform(&visit, &action, subject, fields).await
}

/// The Application, or the deployment to sites, in an address.
fn other_subject(page: &str, namespace: &str, name: &str) -> Option<Subject> {
    match page {
        "applications" => Subject::application(namespace, name),
        "sites" => Subject::sites(namespace, name),
        _ => None,
    }
}

pub(super) async fn preview_other(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((page, namespace, name, action)): ActionPath,
    Query(fields): Query<Fields>,
) -> Response {
    let subject = other_subject(&page, &namespace, &name);
    this.preview(&visit, &action, subject, fields).await
}

pub(super) async fn perform_other(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((page, namespace, name, action)): ActionPath,
    Form(fields): Form<Fields>,
) -> Response {
    let subject = other_subject(&page, &namespace, &name);
    this.perform(&visit, &action, subject, fields).await
}

pub(super) async fn application(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    this.show(visit, ApplicationPage::new(&namespace, &name))
        .await
}

pub(super) async fn sites(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Path((namespace, name)): Path<(String, String)>,
    Query(filter): Query<SitesFilter>,
) -> Response {
    this.show(visit, SitesPage::new(&namespace, &name, filter))
        .await
}

pub(super) async fn clusters(
    State(this): App,
    Extension(visit): Extension<Visit>,
    Query(filter): Query<ClustersFilter>,
) -> Response {
    this.show(visit, Some(ClustersPage(filter))).await
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "this file does not exist").into_response();
    };
    // The address has the version of the content.
    let headers = [
        (CONTENT_TYPE, asset.media_type),
        (CACHE_CONTROL, "max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

pub(super) async fn missing(State(this): App, Extension(visit): Extension<Visit>) -> Response {
    this.missing(&visit)
}
