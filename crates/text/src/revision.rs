//! A single revision in full, in the manner of `kubectl describe`.

use std::fmt::Write as _;

use crate::time::age;
use baton_apis::{CollisionProtection, ObjectSetProbe, Probe, conditions::GENERAL};
use baton_engine::{revision::Desired, texts::collapse_whitespace};
use baton_view::{
    chain::member::Revision,
    content::{Phase, RevisionContent},
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
    jiff::Timestamp,
};

use crate::{
    diff::object_title,
    output::{
        Output, Paint,
        table::{Cell, Table},
    },
};

/// Width of the first column.
const KEYS: usize = 16;

/// A revision with its content, in the lines of a description.
pub fn describe(
    revision: &Revision,
    content: &RevisionContent,
    is_current: bool,
    output: Output,
    now: Timestamp,
) -> String {
    let mut text = String::new();
    head(&mut text, revision, is_current, now);
    section(&mut text, output, "Phases", |text| {
        for one in &content.phases {
            phase(text, one);
        }
    });
    let probes = revision.spec.availability_probes.as_deref();
    section(&mut text, output, "Probes", |text| {
        for entry in probes.unwrap_or_default() {
            probe(text, entry);
        }
    });
    section(&mut text, output, "Conditions", |text| {
        text.push_str(&conditions(&revision.status.conditions, output, now));
    });
    section(&mut text, output, "Waiting for", |text| {
        for waiting in &revision.status.waiting_for {
            // Writing into a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "  phase {}: {} {}: {}",
                waiting.phase, waiting.kind, waiting.name, waiting.message
            );
        }
    });
    text
}

fn head(text: &mut String, revision: &Revision, is_current: bool, now: Timestamp) {
    let mut field = |key: &str, value: &str| {
        let _ = writeln!(text, "{:KEYS$}{value}", format!("{key}:"));
    };
    field("Name", revision.name());
    if let Some(namespace) = revision.namespace() {
        field("Namespace", namespace);
    }
    field("Kind", revision.kind.name);
    let number = revision
        .number()
        .map_or("<none>".to_owned(), |number| number.to_string());
    let current = if is_current { " (current)" } else { "" };
    field("Revision", &format!("{number}{current}"));
    field("State", revision.state().as_str());
    let succeeded = if revision.has_succeeded() {
        "True"
    } else {
        "False"
    };
    field("Succeeded", succeeded);
    let cause = revision.change_cause().unwrap_or("<none>");
    field("Change cause", &collapse_whitespace(cause));
    let created = revision.created().map(|time| time.to_string());
    let created = created.unwrap_or_else(|| "<unknown>".to_owned());
    field(
        "Created",
        &format!("{created} ({} ago)", age(revision.created(), now)),
    );
    if let Some(owner) = revision.controller() {
        field("Controlled by", &format!("{}/{}", owner.kind, owner.name));
    }
    let previous: Vec<&str> = revision.previous().collect();
    field("Previous", &or_none(&previous.join(", ")));
    let labels = revision.metadata.labels.iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    field("Labels", &or_none(&labels.join(", ")));
    if let Some(delay) = revision
        .spec
        .success_delay_seconds
        .filter(|delay| *delay > 0)
    {
        field("Success delay", &format!("{delay}s"));
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>" } else { text }.to_owned()
}

fn section(text: &mut String, output: Output, title: &str, body: impl FnOnce(&mut String)) {
    let mut lines = String::new();
    body(&mut lines);
    let title = output.paint(Paint::Strong, &format!("{title}:"));
    if lines.is_empty() {
        let _ = writeln!(text, "{title} <none>");
    } else {
        let _ = writeln!(text, "{title}\n{lines}");
        // The last line of the body ends with a newline already.
        text.pop();
    }
}

fn phase(text: &mut String, phase: &Phase) {
    let class = match phase.class.as_str() {
        "" => String::new(),
        class => format!(" (class {class})"),
    };
    let _ = writeln!(text, "  {}{class}", phase.name);
    for object in &phase.objects {
        let _ = writeln!(
            text,
            "    {}{}",
            object_title(&object.key),
            treatment(object)
        );
    }
    for slice in &phase.missing_slices {
        let _ = writeln!(text, "    slice {slice}, which does not exist");
    }
}

/// The settings of an object that differ from the default, as a text.
fn treatment(object: &Desired) -> String {
    let mut unusual = Vec::new();
    if object.protection != CollisionProtection::Prevent {
        unusual.push(format!("collisionProtection {:?}", object.protection));
    }
    for path in &object.create_only {
        unusual.push(format!("create-only {path}"));
    }
    for mapping in &object.mappings {
        unusual.push(format!(
            "{} mapped to {}",
            mapping.source_type, mapping.destination_type
        ));
    }
    if unusual.is_empty() {
        String::new()
    } else {
        format!(" ({})", unusual.join("; "))
    }
}

fn probe(text: &mut String, entry: &ObjectSetProbe) {
    let kind = &entry.selector.kind;
    let group = if kind.group.is_empty() {
        String::new()
    } else {
        format!(".{}", kind.group)
    };
    let selector = entry.selector.selector.as_ref().map(labels);
    let selector = selector.filter(|labels| !labels.is_empty());
    let selector = selector.map_or_else(String::new, |labels| format!(" with {labels}"));
    let _ = writeln!(text, "  {}{group}{selector}", kind.kind);
    for one in &entry.probes {
        let Probe {
            condition,
            fields_equal,
            cel,
        } = one;
        if let Some(condition) = condition {
            let _ = writeln!(
                text,
                "    condition {} is {}",
                condition.type_, condition.status
            );
        }
        if let Some(fields) = fields_equal {
            let _ = writeln!(text, "    {} equals {}", fields.field_a, fields.field_b);
        }
        if let Some(cel) = cel {
            let rule = collapse_whitespace(&cel.rule);
            let _ = writeln!(text, "    {rule} (else: {})", cel.message);
        }
    }
}

/// A label selector in the syntax of `kubectl -l`.
fn labels(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten();
    let mut terms: Vec<String> = equal.map(|(key, value)| format!("{key}={value}")).collect();
    for term in selector.match_expressions.iter().flatten() {
        let values = term.values.as_deref().unwrap_or_default().join(",");
        terms.push(match term.operator.as_str() {
            "In" => format!("{} in ({values})", term.key),
            "NotIn" => format!("{} notin ({values})", term.key),
            "Exists" => term.key.clone(),
            "DoesNotExist" => format!("!{}", term.key),
            other => format!("{} {other} ({values})", term.key),
        });
    }
    terms.join(",")
}

fn conditions(conditions: &[Condition], output: Output, now: Timestamp) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]);
    // Conditions for general tools repeat others.
    let special = conditions.iter();
    for condition in special.filter(|condition| !GENERAL.contains(&&*condition.type_)) {
        table.row([
            Cell::from(condition.type_.clone()),
            condition.status.clone().into(),
            condition.reason.clone().into(),
            age(Some(condition.last_transition_time.0), now).into(),
            condition.message.clone().into(),
        ]);
    }
    let narrower = Output {
        width: output.width.map(|width| width.saturating_sub(2)),
        ..output
    };
    let table = table.render(narrower);
    table.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use baton_view::content::Slices;

    const WEB: &str = "
apiVersion: package-operator.run/v1alpha1
kind: ObjectSet
metadata:
  name: web-v2
  namespace: shop
  creationTimestamp: '2026-08-01T00:00:00Z'
  labels: {app: web, tier: front}
  annotations: {kubernetes.io/change-cause: new picture}
  ownerReferences: [{apiVersion: v, kind: ObjectDeployment, name: web, uid: u, controller: true}]
spec:
  revision: 2
  previous: [{name: web-v0}, {name: web-v1}]
  successDelaySeconds: 5
  phases:
  - name: config
    slices: [web-slice]
    objects:
    - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
      collisionProtection: IfNoController
  - name: app
    class: default
    objects:
    - object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
      createOnlyFields: [.spec.replicas]
      conditionMappings: [{sourceType: Available, destinationType: example.com/Web}]
  availabilityProbes:
  - selector:
      kind: {group: apps, kind: Deployment}
      selector:
        matchLabels: {app: web}
        matchExpressions: [{key: tier, operator: In, values: [a, b]}, {key: x, operator: DoesNotExist}]
    probes:
    - condition: {type: Available, status: 'True'}
    - fieldsEqual: {fieldA: .status.updatedReplicas, fieldB: .status.replicas}
    - cel: {rule: \"self.status.\\n  x > 1\", message: too few}
  - selector: {kind: {group: '', kind: ConfigMap}}
    probes: [{condition: {type: Ready}}]
status:
  conditions:
  - {type: Available, status: 'False', reason: ProbeFailure, message: not yet,
      lastTransitionTime: '2026-08-01T00:59:00Z'}
  waitingFor:
  - {phase: app, group: apps, kind: Deployment, name: web, reason: ProbeFailure, message: not ready}
";

    fn described(text: &str, is_current: bool) -> String {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        let revision = Revision::parse(object).unwrap();
        let content = Slices::default().content(&revision);
        let now = "2026-08-01T01:00:00Z".parse().unwrap();
        describe(&revision, &content, is_current, Output::plain(), now)
    }

    #[test]
    fn all_parts_of_a_revision_are_described() {
        assert_eq!(
            described(WEB, true),
            "\
Name:           web-v2
Namespace:      shop
Kind:           ObjectSet
Revision:       2 (current)
State:          NotReady
Succeeded:      False
Change cause:   new picture
Created:        2026-08-01T00:00:00Z (60m ago)
Controlled by:  ObjectDeployment/web
Previous:       web-v0, web-v1
Labels:         app=web, tier=front
Success delay:  5s
Phases:
  config
    ConfigMap shop/web (collisionProtection IfNoController)
    slice web-slice, which does not exist
  app (class default)
    Deployment.apps web (create-only .spec.replicas; Available mapped to example.com/Web)
Probes:
  Deployment.apps with app=web,tier in (a,b),!x
    condition Available is True
    .status.updatedReplicas equals .status.replicas
    self.status. x > 1 (else: too few)
  ConfigMap
    condition Ready is True
Conditions:
  TYPE        STATUS   REASON         AGE   MESSAGE
  Available   False    ProbeFailure   60s   not yet
Waiting for:
  phase app: Deployment web: not ready
"
        );
    }

    #[test]
    fn an_empty_revision_has_no_parts() {
        let empty = "{apiVersion: package-operator.run/v1alpha1, kind: ClusterObjectSet, metadata: {name: web-v1}}";
        assert_eq!(
            described(empty, false),
            "\
Name:           web-v1
Kind:           ClusterObjectSet
Revision:       <none>
State:          Pending
Succeeded:      False
Change cause:   <none>
Created:        <unknown> (<unknown> ago)
Previous:       <none>
Labels:         <none>
Phases: <none>
Probes: <none>
Conditions: <none>
Waiting for: <none>
"
        );
    }
}
