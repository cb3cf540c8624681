use std::collections::BTreeMap;

use kube::core::ObjectMeta;

use super::*;

const URL: &str = "https://10.1.2.3:6443";
const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

fn secret(data: &[(&str, &str)]) -> Secret {
    annotated(data, &[])
}

fn annotated(data: &[(&str, &str)], annotations: &[(&str, &str)]) -> Secret {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let bytes = |(key, value)| (key, ByteString(String::into_bytes(value)));
    Secret {
        metadata: ObjectMeta {
            name: Some("eu-1".to_owned()),
            namespace: Some("baton-system".to_owned()),
            annotations: Some(annotations.iter().map(owned).collect()),
            ..Default::default()
        },
        data: Some(data.iter().map(owned).map(bytes).collect()),
        ..Default::default()
    }
}

#[test]
fn reads_the_forms_of_a_secret() {
    let table = [
        (&[("token", "abc")][..], "token ca=None skip_verify=false"),
        (&[("token", "abc\n")], "token ca=None skip_verify=false"),
        (
            &[("token", "abc"), ("ca.crt", PEM)],
            "token ca=Some(1) skip_verify=false",
        ),
        (
            &[("token", "abc"), ("ca.crt", "")],
            "token ca=None skip_verify=false",
        ),
        // With a token no other key is used, not even a broken one.
        (
            &[("token", "abc"), ("tls.crt", "x"), ("tls.ca", "x")],
            "token ca=None skip_verify=false",
        ),
        (
            &[("tls.crt", PEM), ("tls.key", "key")],
            "certificate ca=None skip_verify=false",
        ),
        (
            &[("tls.crt", PEM), ("tls.key", "key"), ("tls.ca", PEM)],
            "certificate ca=Some(1) skip_verify=false",
        ),
        (
            &[("tls.crt", PEM), ("tls.key", "key"), ("ca.crt", PEM)],
            "certificate ca=None skip_verify=false",
        ),
    ];
    for (data, expected) in table {
        let read = format!("{:?}", read(URL, &secret(data), false).unwrap());
        assert!(
            read.starts_with(&format!("{URL}/ {expected} ")),
            "{data:?}: {read}"
        );
    }
}

#[test]
fn a_bundle_may_contain_several_authorities() {
    let bundle = format!("# the old one\n{PEM}\n# the new one\n{PEM}");
    let read = read(
        URL,
        &secret(&[("token", "abc"), ("ca.crt", &bundle)]),
        false,
    )
    .unwrap();
    assert_eq!(read.ca, Some(vec![vec![1, 2, 3], vec![1, 2, 3]]));
}

#[test]
fn credentials_are_optional_only_without_tls() {
    let nobody = secret(&[]);
    let plain = read("http://127.0.0.1:8001", &nobody, false).unwrap();
    assert!(plain.identity == Identity::Anonymous);
    let error = read(URL, &nobody, false).unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidSecret);
}

#[test]
fn an_invalid_secret_is_reported_without_quoting_it() {
    let table = [
        (
            &[("username", "hunter2")][..],
            "it has no credentials; add token, or tls.crt and tls.key",
        ),
        (&[("token", " \n")], "token is empty"),
        (
            &[("token", "hunter2\nhunter2")],
            "token has characters that are not allowed in a token",
        ),
        (
            &[("token", "hünter2")],
            "token has characters that are not allowed in a token",
        ),
        (
            &[("token", "abc"), ("ca.crt", "hunter2")],
            "ca.crt contains no PEM certificate",
        ),
        (
            &[
                ("token", "abc"),
                (
                    "ca.crt",
                    "-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----",
                ),
            ],
            "ca.crt contains no PEM certificate",
        ),
        (&[("tls.crt", PEM)], "it has tls.crt, but no tls.key"),
        (
            &[("tls.key", "hunter2"), ("tls.crt", "")],
            "it has tls.key, but no tls.crt",
        ),
        (
            &[("tls.key", "hunter2"), ("tls.crt", "hunter2")],
            "tls.crt contains no PEM certificate",
        ),
        (
            &[("tls.key", "key"), ("tls.crt", PEM), ("tls.ca", "hunter2")],
            "tls.ca contains no PEM certificate",
        ),
    ];
    for (data, expected) in table {
        let error = read(URL, &secret(data), false).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidSecret, "{data:?}");
        assert_eq!(
            error.to_string(),
            format!("Secret baton-system/eu-1: {expected}"),
            "{data:?}"
        );
    }
}

#[test]
fn a_bad_address_is_reported_first() {
    let error = read("", &secret(&[]), false).unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidSpec);
    assert_eq!(
        error.to_string(),
        "spec.apiMaster is empty; set it to the URL of the cluster's API server"
    );
}

#[test]
fn the_skip_tls_annotation_is_parsed_like_a_go_bool() {
    let client = [("tls.crt", PEM), ("tls.key", "key")];
    for (text, expected) in [
        ("true", true),
        ("True", true),
        ("TRUE", true),
        ("t", true),
        ("T", true),
        ("1", true),
        ("false", false),
        ("0", false),
        ("yes", false),
        ("tRue", false),
        ("", false),
    ] {
        let annotations = [(ANNOTATION_SKIP_TLS_VERIFY, text)];
        let read = read(URL, &annotated(&client, &annotations), false).unwrap();
        assert_eq!(read.skip_verify, expected, "{text}");
    }
    let token = annotated(&[("token", "abc")], &[(ANNOTATION_SKIP_TLS_VERIFY, "true")]);
    assert!(!read(URL, &token, false).unwrap().skip_verify);
}

#[test]
fn the_checksum_of_a_secret_follows_the_contract() {
    // The check value of CRC-32 (IEEE) is that of "123456789".
    assert_eq!(checksum(&secret(&[("1234", "56789")])), 0xcbf4_3926);
    assert_eq!(
        checksum(&secret(&[("12", "34"), ("56", "789")])),
        0xcbf4_3926
    );
    assert_eq!(checksum(&Secret::default()), 0);
    let annotated = annotated(&[("1234", "56789")], &[("a", "b")]);
    assert_eq!(checksum(&annotated), 0xcbf4_3926);
}

#[test]
fn fingerprints_show_whether_to_connect_again() {
    let fingerprint = |url: &str, token: &str, skip: &str| {
        let data = [("tls.crt", PEM), ("tls.key", token)];
        let annotations = [(ANNOTATION_SKIP_TLS_VERIFY, skip)];
        read(url, &annotated(&data, &annotations), false)
            .unwrap()
            .fingerprint()
    };
    let old = fingerprint(URL, "a", "false");
    for (new, expected) in [
        (fingerprint(URL, "a", "false"), Change::Keep),
        (fingerprint("10.1.2.3:6443/", "a", "0"), Change::Keep),
        (fingerprint(URL, "b", "false"), Change::Exchange),
        (fingerprint(URL, "a", "true"), Change::Exchange),
        (
            fingerprint("https://10.1.2.4:6443", "a", "false"),
            Change::Rebuild,
        ),
        (
            fingerprint("http://127.0.0.1:6443", "a", "false"),
            Change::Rebuild,
        ),
    ] {
        assert_eq!(Change::between(Some(&old), &new), expected, "{new:?}");
    }
    assert_eq!(Change::between(None, &old), Change::Rebuild);
}

#[test]
fn debug_output_contains_no_secret() {
    for data in [
        &[("token", "hunter2")][..],
        &[("tls.crt", PEM), ("tls.key", "hunter2")],
    ] {
        let credentials = read(URL, &secret(data), false).unwrap();
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}

#[test]
fn a_token_that_is_not_utf8_is_refused() {
    let mut secret = secret(&[]);
    let token = ByteString(vec![0xff, 0xfe]);
    secret.data = Some(BTreeMap::from([("token".to_owned(), token)]));
    let error = read(URL, &secret, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Secret baton-system/eu-1: token has characters that are not allowed in a token"
    );
}

#[test]
fn credentials_are_for_the_server_that_their_secret_names() {
    let data = &[("token", "hunter2")];
    let of = |server: &str| annotated(data, &[("baton.run/server", server)]);
    for (secret, api_master, is_strict, expected) in [
        (secret(data), URL, false, "ok"),
        (
            secret(data),
            URL,
            true,
            "it has no annotation baton.run/server with its server, which --require-site-assignments requires; `baton \
             cluster join` adds it",
        ),
        (of(URL), URL, true, "ok"),
        (of("HTTPS://10.1.2.3:6443/"), URL, true, "ok"),
        (of(URL), "10.1.2.3:6443", false, "ok"),
        (
            of(URL),
            "https://evil.example",
            false,
            "its annotation baton.run/server names the server \"https://10.1.2.3:6443\", but spec.apiMaster of the \
             Cluster names https://evil.example/; the credentials are not sent there",
        ),
        (
            of(""),
            URL,
            false,
            "its annotation baton.run/server names the server \"\", but spec.apiMaster of the Cluster names \
             https://10.1.2.3:6443/; the credentials are not sent there",
        ),
    ] {
        let read = read(api_master, &secret, is_strict);
        let found = read.map_or_else(
            |error| error.to_string().replace("Secret baton-system/eu-1: ", ""),
            |_| "ok".to_owned(),
        );
        assert_eq!(found, expected, "{api_master} {is_strict}");
    }
}
