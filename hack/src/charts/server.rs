//! Serves the requests to a repository of charts, with the faults that a test has chosen.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, LINK, LOCATION, WWW_AUTHENTICATE};
use hyper::http::response::Builder;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Fault, Request, Shared, lock};
use crate::archive::sha256;

/// The token of the registry.
const TOKEN: &str = "a-token";

/// Number of tags on a page.
const PAGE: usize = 1;

type Answer = Response<Full<Bytes>>;

/// Answers requests until it is dropped.
pub(super) async fn run(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    let mut connections = JoinSet::new();
    loop {
        // Ended connections are dropped.
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // There are too many open files; some will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| respond(request, &shared));
            // It is fine if a client closes the connection early.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The answer to a request. An error ends the connection.
async fn respond(
    request: hyper::Request<Incoming>,
    shared: &Mutex<Shared>,
) -> Result<Answer, io::Error> {
    let path = request.uri().path_and_query();
    let request = Request {
        path: path.map_or(String::new(), ToString::to_string),
        authorization: request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
    };
    let faults = {
        let mut shared = lock(shared);
        shared.requests.push(request.clone());
        shared.faults.clone()
    };
    for fault in &faults {
        match fault {
            Fault::Down => return Err(io::ErrorKind::ConnectionReset.into()),
            Fault::Slow(time) => tokio::time::sleep(*time).await,
            _ => {}
        }
    }
    Ok(answer(&request, &lock(shared), &faults))
}

fn answer(request: &Request, shared: &Shared, faults: &[Fault]) -> Answer {
    let path = request.path.split('?').next().unwrap_or_default();
    for fault in faults {
        match fault {
            Fault::Status(status) => {
                return plain(StatusCode::from_u16(*status).unwrap_or_default());
            }
            Fault::Private { username, password } => {
                if let Some(refusal) = refusal(request, shared, path, username, password) {
                    return refusal;
                }
            }
            _ => {}
        }
    }
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let found = match parts.as_slice() {
        ["charts", "index.yaml"] => Some(index(shared, faults)),
        ["charts", file] => archive(shared, faults, file),
        ["token"] => Some(ok(
            "application/json",
            json!({ "token": TOKEN }).to_string(),
        )),
        ["v2", "charts", name, "tags", "list"] => tags(shared, faults, name, &request.path),
        ["v2", "charts", name, "manifests", tag] => manifest(shared, faults, name, tag),
        ["v2", "charts", name, "blobs", digest] => blob(shared, faults, name, digest),
        _ => None,
    };
    found.unwrap_or_else(|| plain(StatusCode::NOT_FOUND))
}

/// The answer to a request without valid credentials; `None` if they are valid.
fn refusal(
    request: &Request,
    shared: &Shared,
    path: &str,
    username: &str,
    password: &str,
) -> Option<Answer> {
    let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
    let (wanted, challenge) = if path.starts_with("/v2/") {
        let realm = format!("{}/token", shared.origin);
        let challenge = format!("Bearer realm=\"{realm}\",service=\"charts\",scope=\"pull\"");
        (format!("Bearer {TOKEN}"), challenge)
    } else {
        (format!("Basic {pair}"), "Basic realm=\"charts\"".to_owned())
    };
    if request.authorization.as_deref() == Some(wanted.as_str()) {
        return None;
    }
    let refused = Response::builder().status(StatusCode::UNAUTHORIZED);
    let refused = refused.header(WWW_AUTHENTICATE, challenge);
    Some(finish(refused, Bytes::new()))
}

fn index(shared: &Shared, faults: &[Fault]) -> Answer {
    if faults.contains(&Fault::EmptyBody) {
        return ok("text/yaml", Bytes::new());
    }
    let text = faults.iter().find_map(|fault| match fault {
        Fault::Index(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        _ => None,
    });
    if let Some(text) = text {
        return ok("text/yaml", text);
    }
    let elsewhere = faults.iter().find_map(|fault| match fault {
        Fault::Elsewhere(url) => Some(format!("{url}/")),
        _ => None,
    });
    let base = elsewhere.unwrap_or_default();
    let mut entries = BTreeMap::<_, Vec<_>>::new();
    for ((name, version), archive) in &shared.archives {
        if is_lost(faults, name, version) || faults.contains(&Fault::NoEntries) {
            continue;
        }
        entries.entry(name).or_default().push(json!({
            "apiVersion": "v1",
            "name": name,
            "version": version,
            "created": "2026-01-01T00:00:00Z",
            "urls": [format!("{base}{name}-{version}.tgz")],
            "digest": digest(archive, faults),
        }));
    }
    let index = json!({
        "apiVersion": "v1",
        "generated": "2026-01-01T00:00:00Z",
        "entries": entries,
    });
    match serde_saphyr::to_string(&index) {
        Ok(text) => ok("text/yaml", text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn archive(shared: &Shared, faults: &[Fault], file: &str) -> Option<Answer> {
    let redirect = faults.iter().find_map(|fault| match fault {
        Fault::Redirect(url) => Some(format!("{url}/{file}")),
        _ => None,
    });
    if let Some(url) = redirect {
        let builder = Response::builder().status(StatusCode::FOUND);
        return Some(finish(builder.header(LOCATION, url), Bytes::new()));
    }
    let (name, version) = file.strip_suffix(".tgz")?.rsplit_once('-')?;
    if is_lost(faults, name, version) {
        return None;
    }
    let archive = shared
        .archives
        .get(&(name.to_owned(), version.to_owned()))?;
    Some(ok("application/gzip", archive.clone()))
}

/// The answer to a request for tags: one page of them, so that clients have to request the others.
fn tags(shared: &Shared, faults: &[Fault], name: &str, path: &str) -> Option<Answer> {
    let keys = shared.archives.keys();
    let versions = keys.filter(|(chart, version)| chart == name && !is_lost(faults, name, version));
    let tags: Vec<_> = versions
        .map(|(_, version)| version.replace('+', "_"))
        .collect();
    if tags.is_empty() {
        return None;
    }
    let from = path
        .split_once("?from=")
        .and_then(|(_, from)| from.parse().ok())
        .unwrap_or(0);
    let page: Vec<_> = tags.iter().skip(from).take(PAGE).collect();
    let mut builder = Response::builder().header(CONTENT_TYPE, "application/json");
    if from + PAGE < tags.len() {
        let next = format!(
            "</v2/charts/{name}/tags/list?from={}>; rel=\"next\"",
            from + PAGE
        );
        builder = builder.header(LINK, next);
    }
    let body = json!({ "name": format!("charts/{name}"), "tags": page });
    Some(finish(builder, body.to_string()))
}

fn manifest(shared: &Shared, faults: &[Fault], name: &str, tag: &str) -> Option<Answer> {
    let version = tag.replace('_', "+");
    if is_lost(faults, name, &version) {
        return None;
    }
    let archive = shared.archives.get(&(name.to_owned(), version))?;
    let manifest = json!({
        "schemaVersion": 2,
        "config": { "mediaType": "application/vnd.cncf.helm.config.v1+json" },
        "layers": [
            { "mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov", "digest": "sha256:0" },
            {
                "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "digest": format!("sha256:{}", sha256(archive)),
                "size": archive.len(),
            },
        ],
    });
    let kind = "application/vnd.oci.image.manifest.v1+json";
    Some(ok(kind, manifest.to_string()))
}

fn blob(shared: &Shared, faults: &[Fault], name: &str, digest: &str) -> Option<Answer> {
    let mut archives = shared
        .archives
        .iter()
        .filter(|((chart, _), _)| chart == name);
    let (_, archive) =
        archives.find(|(_, archive)| format!("sha256:{}", sha256(archive)) == digest)?;
    if faults.contains(&Fault::WrongDigest) {
        return Some(ok("application/gzip", "other bytes"));
    }
    Some(ok("application/gzip", archive.clone()))
}

fn is_lost(faults: &[Fault], name: &str, version: &str) -> bool {
    let lost = Fault::Lost {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    faults.contains(&lost)
}

/// The digest of an archive in the index.
fn digest(archive: &[u8], faults: &[Fault]) -> String {
    if faults.contains(&Fault::WrongDigest) {
        sha256(b"something else")
    } else {
        sha256(archive)
    }
}

fn ok(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    finish(Response::builder().header(CONTENT_TYPE, kind), body)
}

fn plain(status: StatusCode) -> Answer {
    finish(Response::builder().status(status), Bytes::new())
}

fn finish(builder: Builder, body: impl Into<Bytes>) -> Answer {
    let answer = builder.body(Full::new(body.into()));
    // Only a header can be invalid, and those here are chosen by tests.
    answer.unwrap_or_else(|_| Response::new(Full::new(Bytes::new())))
}
