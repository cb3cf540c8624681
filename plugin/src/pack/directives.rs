//! Annotations for packing. They are removed from the objects.

use std::collections::BTreeMap;

use baton_apis::{CollisionProtection, ConditionMapping};
use baton_engine::{diff::FieldPath, mapping::is_condition_type};

/// The annotation with the phase of an object.
pub(crate) const PHASE: &str = "package-operator.run/phase";
/// The annotation with the collision protection of an object.
pub(crate) const COLLISION_PROTECTION: &str = "package-operator.run/collision-protection";
/// The annotation with conditions to copy to the revision, one per line: `Available =>
/// example.com/Available`.
pub(crate) const CONDITION_MAP: &str = "package-operator.run/condition-map";
/// The annotation with fields that are only sent when the object is created, and then left to
/// others, such as `.spec.replicas`; separated by commas.
pub(crate) const CREATE_ONLY_FIELDS: &str = "baton.run/create-only-fields";

/// The content of the annotations of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) phase: Option<String>,
    pub(crate) collision_protection: Option<CollisionProtection>,
    pub(crate) condition_mappings: Vec<ConditionMapping>,
    /// Fields that are only sent when the object is created.
    pub(crate) create_only_fields: Vec<String>,
}

/// Takes the annotations for packing out of `annotations`.
pub(crate) fn take(annotations: &mut BTreeMap<String, String>) -> Result<Directives, Vec<String>> {
    let mut errors = Vec::new();
    let mut directives = Directives::default();
    if let Some(phase) = annotations.remove(PHASE) {
        let phase = phase.trim();
        if phase.is_empty() {
            errors.push(format!("the annotation {PHASE} is empty"));
        }
        directives.phase = Some(phase.to_owned());
    }
    if let Some(value) = annotations.remove(COLLISION_PROTECTION) {
        match value.trim() {
            "Prevent" => directives.collision_protection = Some(CollisionProtection::Prevent),
            "IfNoController" => {
                directives.collision_protection = Some(CollisionProtection::IfNoController);
            }
            "None" => directives.collision_protection = Some(CollisionProtection::None),
            value => errors.push(format!(
                "the annotation {COLLISION_PROTECTION} is \"{value}\", not Prevent, IfNoController or None"
            )),
        }
    }
    if let Some(map) = annotations.remove(CONDITION_MAP) {
        for line in map.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match mapping(line) {
                Some(mapping) => directives.condition_mappings.push(mapping),
                None => errors.push(format!(
                    "the annotation {CONDITION_MAP} has the line \"{line}\", not one such as Available => \
                         example.com/Available"
                )),
            }
        }
    }
    if let Some(fields) = annotations.remove(CREATE_ONLY_FIELDS) {
        for field in fields
            .split(',')
            .map(str::trim)
            .filter(|field| !field.is_empty())
        {
            if let Err(error) = FieldPath::parse(field) {
                errors.push(format!("the annotation {CREATE_ONLY_FIELDS}: {error}"));
            }
            directives.create_only_fields.push(field.to_owned());
        }
    }
    if errors.is_empty() {
        Ok(directives)
    } else {
        Err(errors)
    }
}

fn mapping(line: &str) -> Option<ConditionMapping> {
    let (source, destination) = line.split_once("=>")?;
    let (source, destination) = (source.trim(), destination.trim());
    let usable = !source.is_empty() && destination.contains('/') && is_condition_type(destination);
    usable.then(|| ConditionMapping {
        source_type: source.to_owned(),
        destination_type: destination.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(annotations: &[(&str, &str)]) -> (Result<Directives, Vec<String>>, Vec<String>) {
        let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        let mut annotations = annotations.iter().map(owned).collect();
        let directives = take(&mut annotations);
        (directives, annotations.into_keys().collect())
    }

    #[test]
    fn directives_are_read_and_removed() {
        let (directives, left) = taken(&[
            (PHASE, " web "),
            (COLLISION_PROTECTION, "IfNoController"),
            (
                CONDITION_MAP,
                "\nAvailable => example.com/Up\n  Ready=>example.com/Ready",
            ),
            (CREATE_ONLY_FIELDS, ".spec.replicas, .spec.paused"),
            ("note", "x"),
        ]);
        let mapping = |source: &str, destination: &str| ConditionMapping {
            source_type: source.to_owned(),
            destination_type: destination.to_owned(),
        };
        assert_eq!(
            directives.unwrap(),
            Directives {
                phase: Some("web".to_owned()),
                collision_protection: Some(CollisionProtection::IfNoController),
                condition_mappings: vec![
                    mapping("Available", "example.com/Up"),
                    mapping("Ready", "example.com/Ready"),
                ],
                create_only_fields: vec![".spec.replicas".to_owned(), ".spec.paused".to_owned()],
            }
        );
        assert_eq!(left, ["note"]);
    }

    #[test]
    fn all_errors_in_directives_are_reported() {
        let (directives, _) = taken(&[
            (PHASE, " "),
            (COLLISION_PROTECTION, "none"),
            (CONDITION_MAP, "Available\nA => Up\nB => example.com/\n"),
            (CREATE_ONLY_FIELDS, "spec..replicas"),
        ]);
        let errors = directives.unwrap_err();
        assert_eq!(errors.len(), 6, "{errors:#?}");
        assert_eq!(
            errors[1],
            "the annotation package-operator.run/collision-protection is \"none\", not Prevent, IfNoController or None"
        );
    }
}
