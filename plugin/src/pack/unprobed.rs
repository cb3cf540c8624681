//! Notes about custom resources without a probe.
//!
//! They pass when they are written: the next phase begins, and the revision becomes available, in
//! any state of them.

use std::collections::BTreeMap;

use baton_apis::ObjectSetProbe;
use serde_json::Value;

use super::{
    kinds,
    manifest::Manifest,
    probes::{GroupKind, ProbeOptions},
};

/// A note per kind of custom resources without a probe, unless the user requested that.
pub(crate) fn notes(
    manifests: &[Manifest],
    probes: &[ObjectSetProbe],
    options: &ProbeOptions,
) -> Vec<String> {
    if options.no_defaults {
        return Vec::new();
    }
    let mut unprobed: BTreeMap<GroupKind, Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        let (group, kind) = (&manifest.gvk.group, &manifest.gvk.kind);
        if kinds::scope(group, kind).is_none() {
            let id = GroupKind {
                group: group.clone(),
                kind: kind.clone(),
            };
            unprobed.entry(id).or_default().push(manifest);
        }
    }
    unprobed.retain(|id, _| {
        let is_probed = probes.iter().any(|probe| {
            let kind = &probe.selector.kind;
            kind.group == id.group && kind.kind == id.kind
        });
        let is_decided = options.wanted.iter().any(|wanted| wanted.of == *id);
        !is_probed && !is_decided && has_status(id, manifests)
    });
    let note = |(id, objects): (GroupKind, Vec<&Manifest>)| {
        let first = objects.first().map_or_else(String::new, |it| it.title());
        let (more, have) = match objects.len() {
            1 => (String::new(), "has"),
            count => (format!(" and {} more", count - 1), "have"),
        };
        format!(
            "{first}{more} {have} no probe, so the rollout does not wait until it is ready; add --probe \
             {id}=condition:Ready if it has such a condition, else --probe {id}=none"
        )
    };
    unprobed.into_iter().map(note).collect()
}

/// True if objects of a kind may have a status. False if the package defines the kind without one.
fn has_status(id: &GroupKind, manifests: &[Manifest]) -> bool {
    let definitions = manifests.iter().filter(|manifest| {
        let text = |pointer: &str| manifest.object.pointer(pointer).and_then(Value::as_str);
        manifest.gvk.kind == "CustomResourceDefinition"
            && text("/spec/group") == Some(id.group.as_str())
            && text("/spec/names/kind") == Some(id.kind.as_str())
    });
    let mut versions = definitions
        .filter_map(|definition| definition.object.pointer("/spec/versions")?.as_array())
        .flatten()
        .peekable();
    let may_have = |version: &Value| {
        let schema = version.pointer("/schema/openAPIV3Schema");
        schema.is_none_or(|schema| {
            schema.pointer("/properties/status").is_some()
                || schema["x-kubernetes-preserve-unknown-fields"] == true
        })
    };
    versions.peek().is_none() || versions.any(may_have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{self, documents::InputText, tests::options};

    fn notes_of(text: &str, probes: ProbeOptions) -> Vec<String> {
        let source = InputText {
            name: "a.yaml".into(),
            text: text.to_owned(),
        };
        let options = pack::Options {
            probes,
            ..options("web")
        };
        let mut options = options;
        options.scope.namespace = Some("shop".to_owned());
        pack::pack(pack::read(&[source], false), &options)
            .unwrap()
            .notes
            .into_iter()
            .filter(|note| note.contains("probe"))
            .collect()
    }

    const CERTIFICATES: &str = "
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: b}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}}
";

    #[test]
    fn custom_resources_without_a_probe_are_reported_by_kind() {
        let of = |probes: ProbeOptions| notes_of(CERTIFICATES, probes);
        assert_eq!(
            of(ProbeOptions::default()),
            [
                "Certificate/b and 1 more have no probe, so the rollout does not wait until it is ready; add --probe \
                 Certificate.cert-manager.io=condition:Ready if it has such a condition, else --probe \
                 Certificate.cert-manager.io=none"
            ]
        );
        for probe in ["condition:Ready", "none"] {
            let flag = format!("Certificate.cert-manager.io={probe}");
            let wanted = vec![flag.parse().unwrap()];
            let probes = ProbeOptions {
                no_defaults: false,
                wanted,
            };
            assert_eq!(of(probes), [""; 0], "{probe}");
        }
        let none = ProbeOptions {
            no_defaults: true,
            wanted: Vec::new(),
        };
        assert_eq!(of(none), [""; 0]);
    }

    #[test]
    fn kinds_without_a_status_have_nothing_to_wait_for() {
        for (schema, expected) in [
            ("{type: object, properties: {spec: {type: object}}}", 0),
            ("{type: object, properties: {status: {type: object}}}", 1),
            (
                "{type: object, x-kubernetes-preserve-unknown-fields: true}",
                1,
            ),
        ] {
            let text = format!(
                "{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: a}}}}\n---\n\
                 {{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
                 metadata: {{name: widgets.example.com}}, spec: {{group: example.com, scope: Namespaced, \
                 names: {{kind: Widget, plural: widgets}}, versions: [{{name: v1, served: true, storage: true, \
                 schema: {{openAPIV3Schema: {schema}}}}}]}}}}\n"
            );
            let notes = notes_of(&text, ProbeOptions::default());
            assert_eq!(notes.len(), expected, "{schema}: {notes:?}");
        }
    }
}
