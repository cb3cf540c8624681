use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::*;

const HOST: &str = "baton-webhook.baton-system.svc";
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-30T00:00:00Z".parse().unwrap()
}

#[test]
fn a_certificate_is_used_until_it_is_renewed() {
    let first = issue(HOST, now(), "baton-system", None).unwrap();
    let stored = read(&first, HOST, now()).unwrap();
    let certificate = Certificate::default();
    certificate.set(&stored.certificate, &stored.key).unwrap();
    let is_due = |day: i32| read(&first, HOST, now() + DAY * day).map(|it| it.is_due);
    let days = [0, 59, 60, 89, 90].map(is_due);
    assert_eq!(
        days,
        [Some(false), Some(false), Some(true), Some(true), None]
    );
    assert!(
        read(&first, HOST, now() - DAY * 30).is_none(),
        "the clock was ahead"
    );
    assert!(
        read(&first, "127.0.0.1", now()).is_none(),
        "it is for another host"
    );
    let mut damaged = first.clone();
    damaged.data.as_mut().unwrap().remove("tls.key");
    assert!(read(&damaged, HOST, now()).is_none());
    assert!(is_ours(&damaged) && !is_ours(&Secret::default()));

    let second = issue(HOST, now() + DAY * 60, "baton-system", Some(first)).unwrap();
    let renewed = read(&second, HOST, now() + DAY * 60).unwrap();
    assert_ne!(renewed.certificate, stored.certificate);
    // Replicas serve the former one until they read the Secret again.
    assert_eq!(
        renewed.bundle,
        renewed.certificate.clone() + &stored.certificate
    );
    certificate.set(&renewed.certificate, &renewed.key).unwrap();
    assert!(
        certificate.set(&renewed.certificate, &stored.key).is_err(),
        "the keys differ"
    );
    assert!(certificate.set("", "").is_err());
}

#[test]
fn the_host_is_that_of_the_configuration() {
    let host_of = |client_config: Value| {
        let webhook = json!({
            "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": client_config,
        });
        host(&serde_json::from_value(json!({ "webhooks": [webhook] })).unwrap())
    };
    let service = json!({ "service": { "name": "baton-webhook", "namespace": "baton-system" } });
    assert_eq!(host_of(service).as_deref(), Some(HOST));
    for (url, expected) in [
        ("https://127.0.0.1:9443/validate", Some("127.0.0.1")),
        ("https://[::1]:9443/validate", Some("::1")),
        ("https://example.org/validate", Some("example.org")),
        ("", None),
    ] {
        assert_eq!(host_of(json!({ "url": url })).as_deref(), expected, "{url}");
    }
    assert_eq!(host(&ValidatingWebhookConfiguration::default()), None);
}

#[test]
fn a_certificate_is_served_if_all_webhooks_trust_it() {
    let stored = issue(HOST, now(), "baton-system", None).unwrap();
    let stored = read(&stored, HOST, now()).unwrap();
    let bundle = |text: &str| json!({ "caBundle": ByteString(text.as_bytes().to_vec()) });
    let mine = bundle(&format!("{}another", stored.certificate));
    for (clients, expected) in [
        (vec![mine.clone(), mine.clone()], true),
        (vec![mine.clone(), bundle("another")], false),
        (vec![json!({}), mine], false),
    ] {
        let webhooks = clients.into_iter().map(|client| {
            json!({
                "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": client,
            })
        });
        let webhooks: Vec<_> = webhooks.collect();
        let configuration = serde_json::from_value(json!({ "webhooks": webhooks })).unwrap();
        assert_eq!(trusts(&configuration, &stored), expected, "{webhooks:?}");
    }
}
