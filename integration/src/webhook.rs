//! An admission webhook that refuses every object, and quotes it.

use std::convert::Infallible;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::endpoint::Endpoint;
use crate::faults::acceptor;

/// An admission webhook on this machine, over HTTPS, until it is dropped.
pub struct Webhook {
    address: SocketAddr,
    ca: String,
    server: JoinHandle<()>,
}

impl Webhook {
    /// Starts a webhook whose certificate is that of a bed. `message` makes the message from the
    /// object that is refused.
    pub async fn start(endpoint: &Endpoint, message: fn(&Value) -> String) -> Self {
        let acceptor = acceptor(endpoint);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(client) = acceptor.accept(client).await else {
                        return;
                    };
                    let service = service_fn(|request| answer(request, message));
                    // The API server sees the errors of its connection.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(client), service)
                        .await;
                });
            }
        });
        Self {
            address,
            ca: BASE64_STANDARD.encode(&endpoint.ca),
            server,
        }
    }

    /// Returns the `clientConfig` by which an API server finds the webhook.
    #[must_use]
    pub fn client_config(&self) -> Value {
        json!({ "url": format!("https://{}/", self.address), "caBundle": self.ca })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    message: fn(&Value) -> String,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"], "allowed": false,
            "status": { "code": 403, "message": message(&review["request"]["object"]) },
        },
    });
    let answer = Response::builder().header(header::CONTENT_TYPE, "application/json");
    Ok(answer.body(Full::new(review.to_string().into())).unwrap())
}
