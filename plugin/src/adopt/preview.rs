//! Turns the forecast for a deployment into a preview: the effect on each object, the objects that
//! would get new pods, and refusals.

use baton_apis::constants::ANNOTATION_FORMER_MANAGERS;
use serde_json::Value;

use super::dry_run::differences;
use crate::diff::{
    Pair, Section, Tone,
    fate::{Fate, Group},
};

/// Where the template of the pods is, for the kinds that roll their pods out anew when it changes.
const TEMPLATE: &str = "/spec/template";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Preview {
    pub(crate) sections: Vec<Section>,
    /// Titles of the sections whose objects would get new pods.
    pub(crate) restarting: Vec<String>,
    /// True if at least one object would be refused.
    pub(crate) is_refused: bool,
}

/// Makes the preview of a deployment that does not exist yet. The forecast has a section for the
/// deployment, then one for its revision, then one per object.
pub(crate) fn preview(forecast: Vec<Section>) -> Preview {
    let mut preview = Preview::default();
    let mut counts = [0_usize; 3];
    for (index, section) in forecast.into_iter().enumerate() {
        if index < 2 {
            preview.sections.push(section);
            continue;
        }
        let section = of_object(section, &mut preview.restarting);
        let count = match section.tone() {
            Tone::Same => 0,
            Tone::Bad => 2,
            _ => 1,
        };
        counts[count] += 1;
        preview.sections.push(section);
    }
    let [same, changed, refused] = counts;
    preview.is_refused = refused > 0;
    let fates = [
        (same, Group::Adopted),
        (changed, Group::Changed),
        (refused, Group::Refused),
    ];
    let fates = fates.into_iter().filter(|(count, _)| *count > 0);
    if let Some(revision) = preview.sections.get_mut(1) {
        revision.fate = Fate::Revision(fates.collect());
    }
    preview
}

fn of_object(section: Section, restarting: &mut Vec<String>) -> Section {
    let sides = section.pair.as_ref();
    let Some((before, after)) = sides.and_then(|pair| Some((pair.before()?, pair.after()?))) else {
        return section;
    };
    // Masked values differ exactly if the values behind the masks do.
    let after = without_own(after.clone());
    let paths = differences(before, &after);
    if paths.is_empty() {
        let section = Section {
            pair: None,
            ..section
        };
        return section.fate(Fate::Adopted);
    }
    let fate = if restarts(before, &after) {
        restarting.push(section.title.clone());
        Fate::Restarted
    } else {
        Fate::Changed
    };
    let before = before.clone();
    section
        .fate(fate)
        .pair(Pair::new(Some(before), Some(after)))
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

/// The object without the annotation that the take-over itself adds.
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
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn forecast(objects: &[(&str, &str)]) -> Vec<Section> {
        let of_objects = objects.iter().map(|(before, after)| {
            let pair = Pair::new(Some(yaml(before)), Some(yaml(after)));
            Section::new("", "Deployment shop/web (phase workloads)")
                .fate(Fate::TakenOver("nobody".to_owned()))
                .pair(pair)
        });
        let own = ["objectdeployment.package-operator.run/shop", "revision 1"];
        let own = own
            .map(|title| Section::new("", title).fate(Fate::Revision(vec![(1, Group::Changed)])));
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
        assert_eq!(
            preview.sections[1].fate.to_string(),
            "2 taken over unchanged"
        );
        assert!(
            preview.sections[2..]
                .iter()
                .all(|section| section.tone() == Tone::Same)
        );
        assert_eq!(preview.restarting, Vec::<String>::new());
    }

    #[test]
    fn changes_that_restart_pods_are_listed() {
        let scaled = WEB.replace("replicas: 1", "replicas: 2");
        let other = WEB.replace("[a]", "[b]");
        let found = preview(forecast(&[(WEB, &scaled), (WEB, &other)]));
        assert_eq!(found.sections[1].fate.to_string(), "2 changed");
        assert_eq!(found.sections[2].fate, Fate::Changed);
        assert_eq!(found.restarting, ["Deployment shop/web (phase workloads)"]);
        let mut refused = forecast(&[(WEB, WEB)]);
        refused.push(Section::new("", "x").fate(Fate::Refused("no".to_owned())));
        let found = preview(refused);
        assert!(found.is_refused);
        assert_eq!(
            found.sections[1].fate.to_string(),
            "1 taken over unchanged, 1 refused"
        );
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
