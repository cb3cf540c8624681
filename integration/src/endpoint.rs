//! The API server of a bed, as clients and stand-ins of it need to know it.

use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// The address of an API server, and the keys of its bed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate, as PEM, that all others of the bed are signed with.
    pub ca: String,
    /// A certificate, as PEM, that makes a client an administrator, and that a server on `127.0.0.1` can
    /// show as well: kwokctl makes one for all purposes. It signs the tokens of service accounts, too.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
}

impl Endpoint {
    /// The API server of the bed that has this kubeconfig.
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

    /// The same server, reached at another address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self {
            address,
            ..self.clone()
        }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig for it with a bearer token.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_as(&json!({ "token": token }))
    }

    /// A kubeconfig for it with a bearer token in a file, which may change.
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
