//! Tokens, and kubeconfigs in files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::program::temporary;

/// A kubeconfig in a file, which is removed when the value is dropped.
#[derive(Debug)]
pub struct TemporaryKubeconfig(PathBuf);

impl TemporaryKubeconfig {
    /// Writes a kubeconfig to a file.
    #[must_use]
    pub fn new(text: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = temporary(&format!("kubeconfig-{number}.yaml"));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryKubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns a token with these claims, signed by a key (PEM).
pub(super) fn sign(key: &str, claims: &Value) -> String {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = RsaKeyPair::from_der(key.secret_der()).unwrap();
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "alg": "RS256", "typ": "JWT" });
    let text = format!("{}.{}", part(&header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
        .unwrap();
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}
