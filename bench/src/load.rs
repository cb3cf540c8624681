//! The objects to write: ConfigMaps, and the revisions that consist of them.

pub(crate) mod chains;
pub(crate) mod fleet;
pub(crate) mod releases;
pub(crate) mod sites;

use std::collections::BTreeMap;
use std::convert::Infallible;

use baton_apis::constants::API_VERSION;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

/// The amount of objects to write.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct Shape {
    /// Number of ObjectSets
    #[arg(long, default_value_t = 200)]
    pub(crate) sets: usize,
    /// Number of phases of each ObjectSet
    #[arg(long, default_value_t = 2)]
    pub(crate) phases: usize,
    /// Number of ConfigMaps in each phase
    #[arg(long, default_value_t = 5)]
    pub(crate) per_phase: usize,
    /// Bytes of data in each ConfigMap
    #[arg(long, default_value_t = 256)]
    pub(crate) pad: usize,
    /// Class to which all phases are delegated, such as `default`. Without it they are rolled out
    /// in-process
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub(crate) phase_class: Option<&'static str>,
}

/// Parses a class. The value is leaked: there is only one per run, and it is used until the end.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a parser")]
fn class(text: &str) -> Result<&'static str, Infallible> {
    Ok(String::from(text).leak())
}

/// Parses a number that must not be zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("there has to be one at least".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

impl Shape {
    /// Number of all objects.
    pub(crate) fn objects(&self) -> usize {
        self.sets * self.phases * self.per_phase
    }

    /// A revision of the set with this number. Its objects are named after the set, so that all
    /// revisions of a set have the same objects.
    pub(crate) fn set(&self, number: usize, revision: u32) -> Value {
        let mut set = json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectSet",
            "metadata": {"name": set_name(number, revision)},
            // The third revision has the same content as the second.
            "spec": self.content(&base(number), revision.min(2)),
        });
        if revision > 1 {
            let previous: Vec<Value> = (1..revision)
                .map(|older| json!({"name": set_name(number, older)}))
                .collect();
            set["spec"]["previous"] = previous.into();
        }
        set
    }

    /// The phases of a revision. The names of its objects begin with `base`.
    fn content(&self, base: &str, revision: u32) -> Value {
        json!({
            "phases": self.phases(base, revision),
            "availabilityProbes": [{
                "selector": {"kind": {"group": "", "kind": "ConfigMap"}},
                "probes": [{"fieldsEqual": {"fieldA": ".metadata.name", "fieldB": ".data.name"}}],
            }],
        })
    }

    fn phases(&self, base: &str, revision: u32) -> Vec<Value> {
        let phase = |phase| {
            let objects = (0..self.per_phase)
                .map(|object| json!({"object": self.child(base, phase, object, revision)}));
            let objects: Vec<Value> = objects.collect();
            let mut phase = json!({"name": format!("phase-{phase}"), "objects": objects});
            if let Some(class) = self.phase_class {
                phase["class"] = class.into();
            }
            phase
        };
        (0..self.phases).map(phase).collect()
    }

    /// An object as a user writes it.
    fn child(&self, base: &str, phase: usize, object: usize, revision: u32) -> Value {
        let name = format!("{base}-{phase}-{object}");
        // The content differs in each revision, for more revisions than a history stores: if a
        // content came back, a deployment would have to choose another name.
        let letters = ('a'..='z').cycle().zip(1..=revision);
        let letter = letters.last().map_or(' ', |(letter, _)| letter);
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"name": name, "pad": String::from(letter).repeat(self.pad)},
        })
    }

    /// All sets in that revision, by name.
    pub(crate) fn bodies(&self, revision: u32) -> BTreeMap<String, Value> {
        let numbers = 0..self.sets;
        let set = |number| (set_name(number, revision), self.set(number, revision));
        numbers.map(set).collect()
    }

    /// All objects of all sets in that revision, by name.
    pub(crate) fn children(&self, revision: u32) -> Vec<(String, Value)> {
        let sets = 0..self.sets;
        sets.flat_map(|number| self.children_of(number, revision))
            .collect()
    }

    /// The objects of a set in that revision by name, phase after phase.
    pub(crate) fn children_of(&self, number: usize, revision: u32) -> Vec<(String, Value)> {
        let places = (0..self.phases)
            .flat_map(|phase| (0..self.per_phase).map(move |object| (phase, object)));
        let child = |(phase, object)| {
            let child = self.child(&base(number), phase, object, revision.min(2));
            let name = child["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), child)
        };
        places.map(child).collect()
    }
}

/// The prefix of the names of a set's revisions and objects.
pub(crate) fn base(number: usize) -> String {
    format!("set-{number:04}")
}

/// The name of a revision.
pub(crate) fn set_name(number: usize, revision: u32) -> String {
    format!("{}-v{revision}", base(number))
}

#[cfg(test)]
mod tests {
    use baton_apis::{ObjectSet, ProbeFieldsEqual};

    use super::*;

    const SHAPE: Shape = Shape {
        sets: 3,
        phases: 2,
        per_phase: 5,
        pad: 256,
        phase_class: None,
    };

    fn objects(set: &ObjectSet) -> Vec<&Value> {
        let phases = set.spec.phases.iter().flatten();
        phases
            .flat_map(|phase| &phase.objects)
            .map(|entry| &entry.object)
            .collect()
    }

    #[test]
    fn generated_sets_parse_as_object_sets() {
        let [first, second]: [ObjectSet; 2] =
            [1, 2].map(|revision| serde_json::from_value(SHAPE.set(1, revision)).unwrap());
        assert_eq!(first.metadata.name.as_deref(), Some("set-0001-v1"));
        assert_eq!(first.spec.previous, None);
        let previous = second.spec.previous.as_ref().unwrap();
        assert_eq!(previous[0].name, "set-0001-v1");
        let probes = first.spec.availability_probes.as_ref().unwrap();
        assert_eq!(
            probes[0].probes[0].fields_equal,
            Some(ProbeFieldsEqual {
                field_a: ".metadata.name".to_owned(),
                field_b: ".data.name".to_owned()
            })
        );
        assert_eq!(objects(&first).len(), 10);
        for (old, new) in objects(&first).into_iter().zip(objects(&second)) {
            assert_eq!(old["metadata"]["name"], new["metadata"]["name"]);
            assert_eq!(
                old["metadata"]["name"], old["data"]["name"],
                "the probe passes"
            );
            assert_ne!(old["data"]["pad"], new["data"]["pad"]);
            assert_eq!(old["data"]["pad"].as_str().unwrap().len(), 256);
        }
    }

    #[test]
    fn zero_is_refused_where_at_least_one_is_needed() {
        assert_eq!(at_least_one("3"), Ok(3));
        at_least_one("0").unwrap_err();
        at_least_one("a").unwrap_err();
    }
}
