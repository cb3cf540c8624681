//! Inputs of attackers, for the suite and for `cargo dev adversary`.

use std::path::Path;

use baton_hack::charts::pack_files;
use serde_json::{Value, json};

use crate::faults::{Answer, On, Verb};
use crate::manifest::{Entry, configmap};

/// A text in answers that no report may contain.
pub const QUOTED: &str = "hunter2";

/// An answer that no API server sends.
#[derive(Clone, Debug)]
pub struct HostileAnswer {
    /// The content of the answer.
    pub name: &'static str,
    /// The requests with this answer.
    pub on: On,
    /// The answer.
    pub answer: Answer,
    /// A part of the report about it.
    pub report: &'static str,
}

/// Returns answers to lists of ConfigMaps and to discovery.
#[must_use]
pub fn answers() -> Vec<HostileAnswer> {
    let list = || On::verb(Verb::List).path("/configmaps$");
    let pages = json!({ "metadata": { "resourceVersion": "7", "continue": "again" }, "items": [] });
    let long = json!({
        "metadata": { "resourceVersion": "7" },
        "items": [{ "metadata": { "name": "a" }, "data": { "k": QUOTED.repeat(2_500_000) } }],
    });
    let kind = json!({
        "name": QUOTED.repeat(10), "kind": "Kind", "namespaced": true, "verbs": ["list", "watch"],
    });
    let kinds = json!({ "kind": "APIResourceList", "resources": vec![kind; 20_000] });
    let other = json!({ "kind": "Pod", "metadata": QUOTED });
    let of = |name, on, answer, report| HostileAnswer {
        name,
        on,
        answer: Answer::Object(answer),
        report,
    };
    vec![
        of(
            "pages without an end",
            list(),
            pages,
            "a list without an end",
        ),
        of("another kind", list(), other, "unreadable list"),
        of("a huge object", list(), long, "length limit exceeded"),
        of(
            "a flood of kinds",
            On::any().path("^/api/v1$"),
            kinds,
            "longer than 2 MiB",
        ),
    ]
}

/// Returns a ConfigMap with this number of maps, each of which takes about 850 bytes in a parser and
/// eight in the text.
#[must_use]
pub fn maps(name: &str, maps: usize) -> Entry {
    let maps = vec![json!({ "a": 0 }); maps];
    configmap(name).with("/data", json!(maps))
}

/// Returns values of this number of bytes that take the most memory for their text.
#[must_use]
pub fn zeros(bytes: usize) -> Value {
    json!({ "zeros": vec![0; bytes / 2] })
}

/// Returns a condition that no manager has written.
#[must_use]
pub fn forged_condition(type_: &str, generation: i64, message: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": "Forged", "message": message,
        "observedGeneration": generation, "lastTransitionTime": "2399-01-01T00:00:00Z",
    })
}

/// Returns the status of a phase of nearly the size that the server stores, with a hash that refuses
/// the manifests.
#[must_use]
pub fn forged_status(generation: i64) -> Value {
    let long = "x".repeat(8_000);
    let mapped = (0..60).map(|i| forged_condition(&format!("example.com/{i}"), generation, &long));
    let own = [
        ("Available", "forged"),
        ("Succeeded", "forged"),
        ("baton.run/Started", "forged"),
    ];
    let own = own.map(|(type_, message)| forged_condition(type_, generation, message));
    let objects = (0..5_000).map(|i| {
        json!({
            "kind": "Secret", "group": "", "version": "", "name": format!("object-{i}"), "namespace": "kube-system",
        })
    });
    json!({
        "conditions": mapped.chain(own).collect::<Vec<_>>(),
        "controllerOf": objects.collect::<Vec<_>>(),
        "contentHash": "forged",
    })
}

/// Returns values that stand for 300 MB, in 0.4 MB of text.
#[must_use]
pub fn aliases() -> String {
    let (values, aliases) = ("z, ".repeat(120_000), "*a, ".repeat(40));
    format!("anchor: &a [{values}]\naliases: [{aliases}]\n")
}

/// Returns an index of a repository of this number of bytes, with one chart and many empty entries.
#[must_use]
pub fn index(bytes: usize) -> String {
    let nulls = vec!["null"; bytes / 5].join(",");
    format!("apiVersion: v1\nentries:\n  evil: [{nulls}]\n")
}

/// Returns an archive of a chart in the version 1.0.0, with more files, each with its path and content.
#[must_use]
pub fn chart(chart: &str, metadata: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let metadata = format!("apiVersion: v2\nname: {chart}\nversion: 1.0.0\n{metadata}");
    let files = [("Chart.yaml", &*metadata)]
        .into_iter()
        .chain(more.iter().copied());
    let files: Vec<_> = files
        .map(|(path, text)| (Path::new(chart).join(path), text.as_bytes()))
        .collect();
    pack_files(files.iter().map(|(path, text)| (path.as_path(), *text))).unwrap()
}
