//! The API server of a bed, as clients and fault injectors see it.

use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// The address of an API server, and the keys of its bed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address that the API server listens on.
    pub address: SocketAddr,
    /// The CA certificate of the bed, as PEM, which signs all its other certificates.
    pub ca: String,
    /// A certificate, as PEM, that serves two purposes: a client with it is an administrator, and a
    /// server on `127.0.0.1` can present it.
    ///
    /// kwokctl creates one certificate for all purposes, whose key also signs the tokens of service
    /// accounts.
    pub certificate: String,
    /// The key of the certificate, as PEM.
    pub key: String,
}

impl Endpoint {
    /// Returns the API server of the bed that has this kubeconfig.
    #[must_use]
    pub fn of_bed(kubeconfig: &Path) -> Self {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let config: Value = serde_saphyr::from_str(&read(kubeconfig)).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let address = server.trim_start_matches("https://").parse();
        let pki = kubeconfig.with_file_name("pki");
        Self {
            address: address.unwrap_or_else(|error| panic!("{server}: {error}")),
            ca: read(&pki.join("ca.crt")),
            certificate: read(&pki.join("admin.crt")),
            key: read(&pki.join("admin.key")),
        }
    }

    /// Returns the same server with another address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self {
            address,
            ..self.clone()
        }
    }

    /// Returns the URL of the API server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns a kubeconfig with a bearer token.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_as(&json!({ "token": token }))
    }

    /// Returns a kubeconfig with a bearer token in a file, which may change.
    #[must_use]
    pub fn kubeconfig_with_file(&self, token: &Path) -> String {
        self.kubeconfig_as(&json!({ "tokenFile": token }))
    }

    fn kubeconfig_as(&self, user: &Value) -> String {
        let ca = BASE64_STANDARD.encode(&self.ca);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{ "name": "tests", "context": { "cluster": "tests", "user": "tests" } }],
            "clusters": [{
                "name": "tests",
                "cluster": { "server": self.url(), "certificate-authority-data": ca },
            }],
            "users": [{ "name": "tests", "user": user }],
        });
        // JSON is YAML.
        config.to_string()
    }
}
