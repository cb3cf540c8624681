//! The hash of an environment. Releases with the same content have the same hash.
//!
//! It is the hash of the JSON text that Go writes, so the text is written here in the form of Go:
//! map keys are sorted by their bytes, characters of HTML are escaped, and numbers have Go's
//! format.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use baton_apis::{
    Chart, ClusterRequirements, OfflineClusters, Raw, RegionRequirement, ReleaseEnvironment,
    RolloutStep, RolloutStrategy, StepCapacity, StepTraffic,
};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// The hash of an environment: 32 bits of FNV-1a, as lower-case hex without padding.
pub fn environment_hash(environment: &ReleaseEnvironment) -> String {
    let mut text = String::new();
    write_environment(&mut text, environment);
    format!("{:x}", fnv1a(text.as_bytes()))
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn write_environment(text: &mut String, environment: &ReleaseEnvironment) {
    // All fields are listed without `..`, here and below, so that a new field cannot be forgotten.
    let ReleaseEnvironment {
        chart: Chart {
            name,
            version,
            repo_url,
        },
        values,
        cluster_requirements:
            ClusterRequirements {
                regions,
                capabilities,
            },
        strategy,
    } = environment;
    text.push_str("{\"chart\":{\"name\":");
    write_string(text, name);
    text.push_str(",\"version\":");
    write_string(text, version);
    text.push_str(",\"repoUrl\":");
    write_string(text, repo_url);
    text.push_str("},\"values\":");
    write_json(text, values.as_ref().map_or("null", Raw::text));
    text.push_str(",\"clusterRequirements\":{\"regions\":");
    match regions {
        Some(regions) => write_list(text, regions, write_region),
        None => text.push_str("null"),
    }
    if !capabilities.is_empty() {
        text.push_str(",\"capabilities\":");
        write_list(text, capabilities, |text, name| write_string(text, name));
    }
    text.push('}');
    if let Some(RolloutStrategy {
        steps,
        offline_clusters,
    }) = strategy
    {
        text.push_str(",\"strategy\":{\"steps\":");
        write_list(text, steps, write_step);
        // Shipper does not have this field.
        if *offline_clusters == OfflineClusters::Ignore {
            text.push_str(",\"offlineClusters\":\"Ignore\"");
        }
        text.push('}');
    }
    text.push('}');
}

fn write_region(text: &mut String, region: &RegionRequirement) {
    let RegionRequirement { name, replicas } = region;
    text.push_str("{\"name\":");
    write_string(text, name);
    if let Some(replicas) = replicas {
        put(text, format_args!(",\"replicas\":{replicas}"));
    }
    text.push('}');
}

fn write_step(text: &mut String, step: &RolloutStep) {
    let RolloutStep {
        name,
        capacity,
        traffic,
    } = step;
    let StepCapacity {
        incumbent,
        contender,
    } = capacity;
    text.push_str("{\"name\":");
    write_string(text, name);
    put(
        text,
        format_args!(",\"capacity\":{{\"incumbent\":{incumbent},\"contender\":{contender}}}"),
    );
    let StepTraffic {
        incumbent,
        contender,
    } = traffic;
    put(
        text,
        format_args!(",\"traffic\":{{\"incumbent\":{incumbent},\"contender\":{contender}}}}}"),
    );
}

/// Writes JSON in the form of Go, without the values as a tree: it can take fifty times the memory of
/// the text. The depth is bounded by the parser.
struct Value<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push_str("null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        put(self.0, format_args!("{value}"));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        write_number(self.0, &value.into());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        write_number(self.0, &value.into());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // JSON has no other numbers.
        if let Some(number) = Number::from_f64(value) {
            write_number(self.0, &number);
        }
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        write_string(self.0, value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self(text) = self;
        text.push('[');
        let begin = text.len();
        loop {
            let end = text.len();
            if end > begin {
                text.push(',');
            }
            if items.next_element_seed(Value(text))?.is_none() {
                text.truncate(end);
                break;
            }
        }
        text.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut values, mut ranges) = (String::new(), BTreeMap::new());
        while let Some(key) = map.next_key::<String>()? {
            let begin = values.len();
            map.next_value_seed(Value(&mut values))?;
            ranges.insert(key, begin..values.len());
        }
        let Self(text) = self;
        text.push('{');
        for (index, (key, range)) in ranges.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            write_string(text, &key);
            text.push(':');
            text.push_str(&values[range]);
        }
        text.push('}');
        Ok(())
    }
}

/// Writes a JSON text in the form of Go. A text that is nested more deeply than the parser allows is
/// written as it is.
fn write_json(text: &mut String, json: &str) {
    let begin = text.len();
    let mut parser = serde_json::Deserializer::from_str(json);
    if Value(text).deserialize(&mut parser).is_err() {
        text.truncate(begin);
        text.push_str(json);
    }
}

fn write_list<T>(text: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, item);
    }
    text.push(']');
}

/// Writes a number as Go does, which reads an integer of 64 bits as an integer, and any other
/// number as a float.
fn write_number(text: &mut String, number: &Number) {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => put(text, format_args!("{integer}")),
        // In Go, `-0` is an integer.
        (None, Some(0.0)) => text.push('0'),
        (None, Some(float)) if (1e-6..1e21).contains(&float.abs()) => {
            put(text, format_args!("{float}"));
        }
        (None, Some(float)) => {
            let digits = format!("{float:e}");
            let positive = float.abs() > 1.0;
            text.push_str(&digits.replace('e', if positive { "e+" } else { "e" }));
        }
        (None, None) => put(text, format_args!("{number}")),
    }
}

fn write_string(text: &mut String, value: &str) {
    text.push('"');
    for char in value.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                put(text, format_args!("\\u{:04x}", u32::from(char)));
            }
            _ => text.push(char),
        }
    }
    text.push('"');
}

fn put(text: &mut String, piece: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(piece);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str, capacity: (i32, i32), traffic: (u32, u32)) -> RolloutStep {
        RolloutStep {
            name: name.into(),
            capacity: StepCapacity {
                incumbent: capacity.0,
                contender: capacity.1,
            },
            traffic: StepTraffic {
                incumbent: traffic.0,
                contender: traffic.1,
            },
        }
    }

    fn nginx() -> ReleaseEnvironment {
        ReleaseEnvironment {
            chart: Chart {
                name: "nginx".into(),
                version: "0.0.1".into(),
                repo_url: "https://charts.example.com".into(),
            },
            values: Some(json!({ "replicaCount": 3 }).into()),
            cluster_requirements: ClusterRequirements {
                regions: Some(vec![RegionRequirement {
                    name: "local".into(),
                    replicas: None,
                }]),
                capabilities: Vec::new(),
            },
            strategy: Some(RolloutStrategy {
                steps: vec![
                    step("staging", (100, 1), (100, 0)),
                    step("full on", (0, 100), (0, 100)),
                ],
                ..RolloutStrategy::default()
            }),
        }
    }

    #[test]
    fn hashes_equal_those_of_the_contract() {
        assert_eq!(environment_hash(&nginx()), "8c60a3ae");

        let mut environment = nginx();
        environment.values = Some(
            json!({
                "a": "x<y&z>",
                "b": { "z": 1.5, "a": null },
                "c": [true, "é"],
            })
            .into(),
        );
        assert_eq!(environment_hash(&environment), "26ce2b68");

        let vanguard = ReleaseEnvironment {
            chart: Chart {
                name: "simple".into(),
                version: "0.0.1".into(),
                repo_url: String::new(),
            },
            values: Some(json!({}).into()),
            cluster_requirements: ClusterRequirements::default(),
            strategy: Some(RolloutStrategy {
                steps: vec![
                    step("staging", (100, 1), (100, 0)),
                    step("50/50", (50, 50), (50, 50)),
                    step("full on", (0, 100), (0, 100)),
                ],
                ..RolloutStrategy::default()
            }),
        };
        assert_eq!(environment_hash(&vanguard), "96a288ff");
    }

    /// The parser reads 127 levels.
    #[test]
    fn values_of_any_depth_have_a_hash() {
        let hash = |inner: &str| {
            let text = format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
            let mut environment = nginx();
            environment.values = Some(serde_json::from_str(&text).unwrap());
            environment_hash(&environment)
        };
        assert_eq!(hash("1"), hash("1"));
        assert_ne!(hash("1"), hash("2"));
    }

    #[test]
    fn environments_that_differ_have_different_hashes() {
        assert_eq!(environment_hash(&nginx()), environment_hash(&nginx()));
        let mut other = nginx();
        other.strategy.as_mut().unwrap().steps.truncate(1);
        assert_ne!(environment_hash(&nginx()), environment_hash(&other));
    }

    #[test]
    fn the_text_that_is_hashed() {
        let written = |environment: &ReleaseEnvironment| {
            let mut text = String::new();
            write_environment(&mut text, environment);
            text
        };
        let mut environment = nginx();
        environment.cluster_requirements.capabilities = vec!["gpu".into()];
        environment.cluster_requirements.regions.as_mut().unwrap()[0].replicas = Some(2);
        assert_eq!(
            written(&environment),
            concat!(
                r#"{"chart":{"name":"nginx","version":"0.0.1","repoUrl":"https://charts.example.com"},"#,
                r#""values":{"replicaCount":3},"#,
                r#""clusterRequirements":{"regions":[{"name":"local","replicas":2}],"capabilities":["gpu"]},"#,
                r#""strategy":{"steps":["#,
                r#"{"name":"staging","capacity":{"incumbent":100,"contender":1},"#,
                r#""traffic":{"incumbent":100,"contender":0}},"#,
                r#"{"name":"full on","capacity":{"incumbent":0,"contender":100},"#,
                r#""traffic":{"incumbent":0,"contender":100}}]}}"#,
            )
        );
        assert_eq!(
            written(&ReleaseEnvironment::default()),
            concat!(
                r#"{"chart":{"name":"","version":"","repoUrl":""},"values":null,"#,
                r#""clusterRequirements":{"regions":null}}"#,
            )
        );
    }

    #[test]
    fn values_are_written_as_go_does() {
        for (json, expected) in [
            (
                r#"{"b":1,"a":{"d":2,"B":3}}"#,
                r#"{"a":{"B":3,"d":2},"b":1}"#,
            ),
            (
                r#""\u2028\u2029\u0001\b\f\n\r\t\u007f/""#,
                "\"\\u2028\\u2029\\u0001\\u0008\\u000c\\n\\r\\t\u{7f}/\"",
            ),
            (r#""\"\\é🎉""#, r#""\"\\é🎉""#),
            (r#"{"<":0}"#, r#"{"\u003c":0}"#),
            ("[]", "[]"),
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("-2", "-2"),
            ("-0.0", "0"),
            ("1e2", "100"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551615", "18446744073709552000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("-1.5e300", "-1.5e+300"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("-1.25e-10", "-1.25e-10"),
        ] {
            let mut text = String::new();
            write_json(&mut text, json);
            assert_eq!(text, expected, "{json}");
        }
    }

    /// There is no padding, so a hash may be shorter than eight digits.
    #[test]
    fn a_hash_has_no_leading_zeros() {
        let short = (0..10_000)
            .map(|number| {
                let mut environment = nginx();
                environment.values = Some(json!(number).into());
                environment_hash(&environment)
            })
            .filter(|hash| hash.len() < 8)
            .count();
        assert!((300..1_000).contains(&short), "{short}");
    }
}
