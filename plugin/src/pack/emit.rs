//! Renders objects as text, with the keys in the order in which people write them.

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeSeq as _},
};
use serde_json::{Map, Value};
use serde_saphyr::LitStr;

/// Keys of Baton's own objects that come before the others.
const OWN_ORDER: [&str; 20] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "revision",
    "previous",
    "successDelaySeconds",
    "serviceAccountName",
    "progressDeadlineSeconds",
    "revisionHistoryLimit",
    "phases",
    "selector",
    "version",
    "template",
    "type",
    "fieldA",
    "rule",
];

/// Keys of the packed objects that come before the others.
const MANIFEST_ORDER: [&str; 5] = ["apiVersion", "kind", "metadata", "name", "namespace"];

/// A value whose maps are written in the order above. Other keys follow by name, so the same value
/// gives the same text.
struct Ordered<'v> {
    value: &'v Value,
    /// True for a part of Baton's own object, false for a part of a packed one.
    own: bool,
}

impl Ordered<'_> {
    fn entries<'m>(&self, map: &'m Map<String, Value>) -> Vec<(&'m String, &'m Value)> {
        let order: &[&str] = if self.own {
            &OWN_ORDER
        } else {
            &MANIFEST_ORDER
        };
        let rank = |key: &str| {
            order
                .iter()
                .position(|listed| *listed == key)
                .unwrap_or(order.len())
        };
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_by_key(|(key, _)| (rank(key), *key));
        entries
    }
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Object(map) => {
                let mut entries = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in self.entries(map) {
                    let own = self.own && key != "object";
                    entries.serialize_entry(key, &Ordered { value, own })?;
                }
                entries.end()
            }
            Value::Array(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    let own = self.own;
                    sequence.serialize_element(&Ordered { value, own })?;
                }
                sequence.end()
            }
            Value::String(text) if is_block(text) => LitStr(text).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

/// True if a text is written as a block, line by line. kubectl cannot read blocks that begin with a
/// tab, so other texts are quoted. This does not matter for JSON.
fn is_block(text: &str) -> bool {
    text.contains('\n') && !text.trim_start_matches('\n').starts_with('\t')
}

/// Renders YAML documents, separated by `---`.
pub(crate) fn yaml(objects: &[Value]) -> Result<String, serde_saphyr::ser_error::Error> {
    // Long lines are not folded: in a diff, a folded text would change as a whole.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = String::new();
    for (index, value) in objects.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        let ordered = Ordered { value, own: true };
        serde_saphyr::to_fmt_writer_with_options(&mut text, &ordered, options.clone())?;
    }
    Ok(text)
}

/// Renders JSON: the only object, or a list of all objects.
pub(crate) fn json(objects: &[Value]) -> Result<String, serde_json::Error> {
    let ordered = |value| Ordered { value, own: true };
    let mut text = match objects {
        [object] => serde_json::to_string_pretty(&ordered(object))?,
        objects => {
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct List<'v> {
                api_version: &'static str,
                kind: &'static str,
                items: Vec<Ordered<'v>>,
            }
            serde_json::to_string_pretty(&List {
                api_version: "v1",
                kind: "List",
                items: objects.iter().map(ordered).collect(),
            })?
        }
    };
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use baton_yaml as reader;

    fn read_back(text: &str) -> Vec<Value> {
        let documents = reader::read(text).into_iter();
        documents.map(|document| document.unwrap().value).collect()
    }

    #[test]
    fn keys_are_in_the_order_of_people() {
        let object = json!({
            "spec": {"availabilityProbes": [{
                "probes": [{"cel": {"message": "m", "rule": "true"}}, {"condition": {"status": "True",
                    "type": "Ready"}}],
                "selector": {"kind": {"group": "apps", "kind": "Deployment"}},
            }], "phases": [{
                "objects": [{"object": {
                    "apiVersion": "v1", "data": {"b": "line\nline\n", "a": "yes"}, "kind": "ConfigMap",
                        "metadata": {"labels": {"x": "1"}, "name": "a"},
                }, "collisionProtection": "None"}],
                "name": "config",
            }]},
            "metadata": {"annotations": {}, "name": "shop"},
            "kind": "ObjectSet",
            "apiVersion": "package-operator.run/v1alpha1",
        });
        let expected = r#"apiVersion: package-operator.run/v1alpha1
kind: ObjectSet
metadata:
  name: shop
  annotations: {}
spec:
  phases:
  - name: config
    objects:
    - collisionProtection: None
      object:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: a
          labels:
            x: "1"
        data:
          a: "yes"
          b: |
            line
            line
  availabilityProbes:
  - selector:
      kind:
        kind: Deployment
        group: apps
    probes:
    - cel:
        rule: "true"
        message: m
    - condition:
        type: Ready
        status: "True"
"#;
        assert_eq!(yaml(&[object]).unwrap(), expected);
    }

    #[test]
    fn documents_are_separated() {
        let objects = [json!({"a": 1}), json!({"b": "---"})];
        assert_eq!(yaml(&objects).unwrap(), "a: 1\n---\nb: \"---\"\n");
        assert_eq!(yaml(&objects[..1]).unwrap(), "a: 1\n");
        let list: Value = serde_json::from_str(&json(&objects).unwrap()).unwrap();
        assert_eq!(
            list,
            json!({"apiVersion": "v1", "kind": "List", "items": objects})
        );
        assert_eq!(json(&objects[..1]).unwrap(), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn blocks_do_not_begin_with_a_tab() {
        let text = |text: &str| yaml(&[json!({"a": text})]).unwrap();
        assert_eq!(text("b\n\tc\n"), "a: |\n  b\n  \tc\n");
        assert_eq!(text("\tb\nc\n"), "a: \"\\tb\\nc\\n\"\n");
        assert_eq!(text("\n\tb\n"), "a: \"\\n\\tb\\n\"\n");
        let long = "b c ".repeat(100);
        assert_eq!(text(long.trim()), format!("a: {}\n", long.trim()));
    }

    /// Texts that YAML could read as other values.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~äß\u{85}\u{2028}\u{feff}😀\n\t\r]{0,12}",
            "[-+0-9._eExob:]{1,6}",
            prop::sample::select(vec![
                "yes",
                "no",
                "on",
                "off",
                "y",
                "n",
                "true",
                "null",
                "~",
                "",
                "<<",
                "=",
                "0644",
                "0o17",
                "1_000",
                "1e3",
                ".inf",
                "2024-01-01",
                "12:30:45",
                "- a",
                "? b",
                "a: b",
                "a #b",
                "#",
                "---",
                "...",
                "|",
                ">",
                "&a",
                "*a",
                "!a",
                "%a",
                "@a",
                "`a",
                "[",
                "{",
                "\"",
                "'",
                " a",
                "a ",
                "\n",
                "\n\n",
                "a\n",
                "a\n\n",
                "\na",
                " \n a\n",
                "  a\nb\n",
                "a\n  \n",
                "\ta",
                "a\tb\n",
                "---\na\n",
                "x\r\ny\r\n",
            ])
            .prop_map(str::to_owned),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
            texts().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(texts(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn same(a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
            }
            _ => a == b,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// kubectl reads the values that were written.
        #[test]
        fn objects_survive_a_round_trip_through_yaml(value in values()) {
            let objects = [json!({"object": value}), json!({"own": value})];
            let text = yaml(&objects).unwrap();
            let back = read_back(&text);
            prop_assert_eq!(back.len(), 2, "{}", text);
            prop_assert!(same(&Value::from(back.clone()), &Value::from(objects.to_vec())), "{}\n{:?}", text, back);
        }
    }
}
