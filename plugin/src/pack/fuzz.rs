//! For any input text, the package contains the objects of the input, and each error has a line of
//! the input.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, ObjectSetTemplateSpec};
use baton_engine::revision::{self, Revision};
use baton_probes::Probes;
use serde_json::Value;

use super::{
    Options, Packed,
    documents::{self, InputText},
    emit, pack, read,
    tests::options,
};

/// Size of a slice in bytes, so small that a few objects need several.
const SLICE: usize = 150;

#[test]
fn packed_objects_equal_the_input() {
    bolero::check!(name = "pack")
        .with_iterations(200)
        .for_each(|input: &[u8]| {
            if let Ok(text) = str::from_utf8(input) {
                for name in ["a.yaml", "a.json"] {
                    check(&[InputText {
                        name: name.into(),
                        text: text.to_owned(),
                    }]);
                }
            }
        });
}

fn check(sources: &[InputText]) {
    let text = &sources[0].text;
    // YAML ends lines with carriage returns as well.
    let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
    let found = documents::read(&sources[0]);
    let places = found.documents.iter().map(|(location, document)| {
        let items = document.item_lines.iter().copied();
        (
            location.document,
            location.line,
            items.max().unwrap_or(location.line),
        )
    });
    for (number, line, last) in places {
        assert!(
            number > 0 && 0 < line && line <= last && last <= lines,
            "{line} of {lines}"
        );
    }
    for error in &found.errors {
        assert!(
            0 < error.line() && error.line() <= lines,
            "{error}, of {lines} lines"
        );
    }
    let values: Vec<Value> = found
        .documents
        .into_iter()
        .map(|(_, document)| document.value)
        .collect();
    round_trip(&values);

    let options = options("package");
    let collected = read(sources, false);
    let wanted: Vec<_> = collected
        .manifests
        .iter()
        .map(|manifest| manifest.object.clone())
        .collect();
    let Ok(packed) = pack(collected, &options) else {
        return;
    };
    round_trip(&packed.objects());
    let phases = phases(&packed);
    let given = namespaces(&wanted);
    let wanted = without_namespaces(wanted);
    let objects_of = |phases: &[ObjectSetTemplatePhase]| {
        let objects = objects(phases);
        assert!(
            namespaces(&objects).is_subset(&given),
            "no namespace is made up: {given:?}"
        );
        without_namespaces(objects)
    };
    assert_eq!(objects_of(&phases), wanted, "nothing is added or lost");
    suits_the_engine(&packed, phases);
    let again = pack(read(sources, false), &options).expect("packed before");
    assert_eq!(again, packed, "the same each time");

    let options = Options {
        slice_limit: SLICE,
        ..options
    };
    let sliced = pack(read(sources, false), &options).expect("packed before");
    round_trip(&sliced.objects());
    assert_eq!(
        objects_of(&self::phases(&sliced)),
        wanted,
        "in slices as well"
    );
}

/// The namespaces of objects that name one.
fn namespaces(objects: &[Value]) -> BTreeSet<String> {
    let named = objects
        .iter()
        .map(|object| &object["metadata"]["namespace"]);
    named.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes the namespaces of objects, and sorts the objects. An object without a namespace may get
/// the only one that others name, and a cluster-scoped object loses it.
fn without_namespaces(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
    }
    sorted(objects)
}

/// Checks that values are the same when they are written and read again.
fn round_trip(values: &[Value]) {
    let text = emit::yaml(values).expect("YAML");
    let back: Vec<_> = baton_yaml::read(&text)
        .into_iter()
        .map(|document| document.expect("what was written can be read").value)
        .collect();
    assert!(
        back.len() == values.len() && back.iter().zip(values).all(|(a, b)| same(a, b)),
        "{values:?} is written as\n{text}\nand read as {back:?}"
    );
    if !values.is_empty() {
        let text = emit::json(values).expect("JSON");
        let back: Value = serde_json::from_str(&text).expect("JSON");
        let back = match values {
            [_] => vec![back],
            _ => back["items"].as_array().cloned().unwrap_or_default(),
        };
        assert_eq!(back, values);
    }
}

/// Compares values, and numbers by value: YAML does not distinguish a whole float from an integer.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => a == b,
    }
}

/// The phases of a package, with the objects of their slices.
fn phases(packed: &Packed) -> Vec<ObjectSetTemplatePhase> {
    let mut phases = spec(packed).phases.expect("phases");
    for phase in &mut phases {
        for name in std::mem::take(&mut phase.slices) {
            let mut slices = packed.package.slices.iter();
            let slice = slices.find(|slice| slice["metadata"]["name"] == name.as_str());
            let slice = slice.expect("a slice that is named is there");
            let objects: Vec<_> =
                serde_json::from_value(slice["objects"].clone()).expect("objects");
            phase.objects.extend(objects);
        }
    }
    phases
}

fn spec(packed: &Packed) -> ObjectSetTemplateSpec {
    let spec = packed.package.object["spec"]["template"]["spec"].clone();
    serde_json::from_value(spec).expect("a spec")
}

fn objects(phases: &[ObjectSetTemplatePhase]) -> Vec<Value> {
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    objects.map(|object| object.object.clone()).collect()
}

fn sorted(mut values: Vec<Value>) -> Vec<Value> {
    values.sort_by_key(Value::to_string);
    values
}

/// The manager finds no error in a package.
fn suits_the_engine(packed: &Packed, phases: Vec<ObjectSetTemplatePhase>) {
    let probes = spec(packed).availability_probes.unwrap_or_default();
    assert!(Probes::compile(&probes).is_ok());
    let phases = revision::prepare(&Revision::default(), phases);
    assert_eq!(revision::duplicates(&phases), [""; 0]);
}
