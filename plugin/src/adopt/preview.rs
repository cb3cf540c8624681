//! Turns the forecast for a deployment into a preview: the effect of the take-over on each object.

use baton_apis::constants::ANNOTATION_FORMER_MANAGERS;
use baton_view::diff::{
    Pair, Section,
    outcome::{DiffOutcome, Group},
};
use serde_json::Value;

use super::dry_run::differences;

/// Path of the pod template in kinds that replace their pods when the template changes.
const TEMPLATE: &str = "/spec/template";

/// Makes the preview of a deployment that does not exist yet.
///
/// The forecast has a section for the deployment, then one for its revision, then one per object.
pub(crate) fn preview(mut sections: Vec<Section>) -> Vec<Section> {
    let objects = sections.iter_mut().skip(2);
    let groups: Vec<Group> = objects
        .map(|section| {
            of_object(section);
            match section.outcome.group() {
                Group::Refused => Group::Refused,
                group if group.is_same() => Group::Adopted,
                _ => Group::Changed,
            }
        })
        .collect();
    if let Some(revision) = sections.get_mut(1) {
        revision.outcome = DiffOutcome::count(groups);
    }
    sections
}

fn of_object(section: &mut Section) {
    let sides = section.pair.as_ref();
    let Some((before, after)) = sides.and_then(|pair| Some((pair.before()?, pair.after()?))) else {
        return;
    };
    // Masked values differ exactly if the hidden values differ.
    let after = without_own(after.clone());
    (section.outcome, section.pair) = if differences(before, &after).is_empty() {
        (DiffOutcome::Adopted, None)
    } else {
        let restarts = restarts(before, &after);
        let pair = Pair::new(Some(before.clone()), Some(after));
        (
            if restarts {
                DiffOutcome::Restarted
            } else {
                DiffOutcome::Changed
            },
            Some(pair),
        )
    };
}

/// True if a change of an object replaces pods: it changes the spec of a Pod, or a template of
/// pods.
fn restarts(before: &Value, after: &Value) -> bool {
    let template = |object: &Value| object.pointer(TEMPLATE).cloned();
    let has_pods = |object: &Value| object.pointer("/spec/template/spec/containers").is_some();
    let is_pod = before["kind"] == "Pod" && before["apiVersion"] == "v1";
    (is_pod && before["spec"] != after["spec"])
        || ((has_pods(before) || has_pods(after)) && template(before) != template(after))
}

/// The object without the annotation that the take-over adds.
fn without_own(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata
        && let Some(annotations) = metadata.get_mut("annotations")
    {
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(ANNOTATION_FORMER_MANAGERS);
        }
        if annotations
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
        {
            metadata.remove("annotations");
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use baton_engine::Gvk;
    use baton_text::diff::outcome::fate;
    use baton_view::{children::Owner, diff::Topic};

    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn forecast(objects: &[(&str, &str)]) -> Vec<Section> {
        let of_objects = objects.iter().map(|(before, after)| {
            let pair = Pair::new(Some(yaml(before)), Some(yaml(after)));
            let gvk = Gvk::new("v1", "Deployment");
            let topic = Topic::Object {
                key: gvk.key("shop", "web"),
                gvk,
                phase: Some("workloads".to_owned()),
            };
            Section::new(topic)
                .fate(DiffOutcome::TakenOver(Owner::Nobody))
                .pair(pair)
        });
        let own = [Topic::Settings, Topic::Revision(1)];
        let own = own.map(|topic| {
            Section::new(topic).fate(DiffOutcome::Revision(vec![(1, Group::Changed)]))
        });
        own.into_iter().chain(of_objects).collect()
    }

    const WEB: &str =
        "{metadata: {name: web}, spec: {replicas: 1, template: {spec: {containers: [a]}}}}";

    #[test]
    fn an_object_that_only_gets_a_note_of_its_managers_is_unchanged() {
        let noted = WEB.replace(
            "name: web",
            "name: web, annotations: {baton.run/former-managers: kapp}",
        );
        let preview = preview(forecast(&[(WEB, WEB), (WEB, &noted)]));
        assert_eq!(fate(&preview[1].outcome), "2 taken over unchanged");
        assert!(preview[2..].iter().all(|it| !it.differs()));
        assert_eq!(restarting(&preview), 0);
    }

    fn restarting(sections: &[Section]) -> usize {
        let sections = sections.iter();
        sections
            .filter(|it| it.outcome == DiffOutcome::Restarted)
            .count()
    }

    #[test]
    fn changes_that_restart_pods_are_listed() {
        let scaled = WEB.replace("replicas: 1", "replicas: 2");
        let other = WEB.replace("[a]", "[b]");
        let found = preview(forecast(&[(WEB, &scaled), (WEB, &other)]));
        assert_eq!(fate(&found[1].outcome), "2 changed");
        assert_eq!(found[2].outcome, DiffOutcome::Changed);
        assert_eq!(found[3].outcome, DiffOutcome::Restarted);
        let mut refused = forecast(&[(WEB, WEB)]);
        refused.push(Section::new(Topic::Slices).fate(DiffOutcome::Refused("no".to_owned())));
        let found = preview(refused);
        assert!(found.iter().any(Section::is_refused));
        assert_eq!(fate(&found[1].outcome), "1 taken over unchanged, 1 refused");
    }

    #[test]
    fn only_changes_of_pod_templates_cause_a_restart() {
        let secret = "{kind: ExternalSecret, spec: {template: {data: a}}}";
        assert!(!restarts(
            &yaml(secret),
            &yaml(&secret.replace("data: a", "data: b"))
        ));
        let pod = "{apiVersion: v1, kind: Pod, spec: {image: a}}";
        assert!(restarts(
            &yaml(pod),
            &yaml(&pod.replace("image: a", "image: b"))
        ));
    }
}
