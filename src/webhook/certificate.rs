//! The certificate of the webhook: self-signed, stored in a Secret, and renewed in time.

use std::collections::BTreeMap;

use baton_apis::constants::WEBHOOK;
use jiff::{SignedDuration, Timestamp, tz::Offset};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

/// Name of the Secret, in the namespace of the manager.
pub(super) const SECRET: &str = WEBHOOK;
/// Annotation: the time from which on the certificate is renewed.
const ANNOTATION_RENEW: &str = "baton.run/renew-after";
/// Annotation: the host name or address that the certificate is for.
const ANNOTATION_HOST: &str = "baton.run/host";
/// The time in which a certificate is valid.
const VALID: SignedDuration = SignedDuration::from_hours(90 * 24);
/// The time after which it is renewed. A manager that is down for the rest of its validity finds an
/// expired one, and renews it at its start.
const RENEWED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// The time by which the clock of the API server may be behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";

/// A certificate with its key, in the PEM format.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) certificate: String,
    pub(super) key: String,
    /// The certificate and the one before it, which other replicas serve until they read the Secret
    /// again. The API server trusts both.
    pub(super) bundle: String,
    /// True if it is to be renewed.
    pub(super) is_due: bool,
}

/// True if a Secret was made for the webhook. Another one with its name has the credentials of a Cluster.
pub(super) fn is_ours(secret: &Secret) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(ANNOTATION_HOST))
}

/// The certificate in a Secret; `None` if it is for another host, has expired, or is incomplete. The
/// endpoint checks its content.
pub(super) fn read(secret: &Secret, host: &str, now: Timestamp) -> Option<Stored> {
    let annotations = secret.metadata.annotations.as_ref()?;
    let renew: Timestamp = annotations.get(ANNOTATION_RENEW)?.parse().ok()?;
    let left = renew.duration_since(now);
    // A time further away than any that is written here comes from a clock that was ahead.
    let is_valid = -(VALID - RENEWED) < left && left <= RENEWED + CLOCK_SKEW;
    if annotations.get(ANNOTATION_HOST)? != host || !is_valid {
        return None;
    }
    Some(Stored {
        certificate: text(secret, CERTIFICATE)?,
        key: text(secret, KEY)?,
        bundle: text(secret, BUNDLE)?,
        is_due: left <= SignedDuration::ZERO,
    })
}

/// A value of a Secret; `None` if it is missing or no text.
fn text(secret: &Secret, key: &str) -> Option<String> {
    let value = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.0.clone()).ok()
}

/// Makes a certificate for a host, and the Secret that stores it instead of `former`.
///
/// # Errors
/// If the host is no valid name, or if no key can be made.
pub(super) fn issue(
    host: &str,
    now: Timestamp,
    namespace: &str,
    former: Option<Secret>,
) -> Result<Secret, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(vec![host.to_owned()])?;
    let [(year, month, day), until] = [now - CLOCK_SKEW, now + VALID].map(date);
    parameters.not_before = date_time_ymd(year, month, day);
    let (year, month, day) = until;
    parameters.not_after = date_time_ymd(year, month, day);
    let certificate = parameters.self_signed(&key)?.pem();
    let mut secret = former.unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    });
    let before = text(&secret, CERTIFICATE).unwrap_or_default();
    let annotations = secret.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_RENEW.to_owned(), (now + RENEWED).to_string());
    annotations.insert(ANNOTATION_HOST.to_owned(), host.to_owned());
    let bundle = format!("{certificate}{before}");
    let data = [
        (CERTIFICATE, certificate),
        (KEY, key.serialize_pem()),
        (BUNDLE, bundle),
    ];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    secret.data = Some(BTreeMap::from(data));
    Ok(secret)
}

/// Year, month and day of a time in UTC.
fn date(time: Timestamp) -> (i32, u8, u8) {
    let date = Offset::UTC.to_datetime(time).date();
    (
        date.year().into(),
        date.month().unsigned_abs(),
        date.day().unsigned_abs(),
    )
}
