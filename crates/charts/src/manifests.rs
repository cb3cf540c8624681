//! Reads the objects in the output of helm.

use baton_yaml::Memory;
use serde_json::Value;

/// The line that helm writes at the start of each document.
const SOURCE: &str = "# Source: ";

/// The objects, in the order of helm's output, and the bytes of memory that they take.
///
/// The values take about `most` bytes of memory at most. Only templates whose names end in `.yaml`
/// or `.yml` count. Empty documents do not count, and a `List` counts as its items.
///
/// # Errors
/// If a document cannot be read. The error is a text for people.
pub fn read(printed: &str, most: usize) -> Result<(Vec<Value>, usize), String> {
    let mut objects = Vec::new();
    let mut memory = Memory::new(most);
    for (source, text) in documents(printed) {
        if !source.is_none_or(is_yaml) {
            continue;
        }
        for document in baton_yaml::read_within(&text, &mut memory) {
            let document = document.map_err(|error| {
                let source = source.unwrap_or("the chart");
                format!("could not decode manifest: {source}: {}", error.message)
            })?;
            objects.extend(flat(document.value));
        }
    }
    Ok((objects, memory.taken()))
}

/// Splits the output where helm joined it. Each part has the name of its template.
fn documents(printed: &str) -> Vec<(Option<&str>, String)> {
    let mut documents = vec![(None, String::new())];
    let mut lines = printed.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_end() == "---" {
            let source = lines.peek().and_then(|line| line.strip_prefix(SOURCE));
            documents.push((source.map(str::trim), String::new()));
        } else if let Some((_, text)) = documents.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    documents
}

fn is_yaml(source: &str) -> bool {
    let extension = source.rsplit_once('.').map(|(_, extension)| extension);
    matches!(extension, Some("yaml" | "yml"))
}

/// The objects that a document stands for.
pub fn flat(value: Value) -> Vec<Value> {
    let is_list = value["kind"] == "List" && value["apiVersion"] == "v1";
    match value {
        Value::Null => Vec::new(),
        Value::Object(mut list) if is_list && list.get("items").is_some_and(Value::is_array) => {
            match list.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        value => vec![value],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(printed: &str) -> Result<Vec<Value>, String> {
        super::read(printed, 1 << 20).map(|(objects, _)| objects)
    }

    #[test]
    fn documents_are_read_as_helm_reads_them() {
        let printed = "\
---
# Source: a/crds/c.yaml
kind: Crd
---
# Source: a/templates/a.yaml
# a comment
a: 0644
on: yes
---
# Source: a/templates/empty.yml
# nothing
---
# Source: a/templates/words.txt
{{ no yaml
---
# Source: a/templates/list.yml
apiVersion: v1
kind: List
items: [{a: 1}, {a: 2}]
";
        let expected = [
            json!({"kind": "Crd"}),
            json!({"a": 420, "true": true}),
            json!({"a": 1}),
            json!({"a": 2}),
        ];
        assert_eq!(read(printed).unwrap(), expected);
        assert!(read("").unwrap().is_empty());
        assert!(read("\n---\n").unwrap().is_empty());
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_template() {
        let error = read("---\n# Source: a/templates/a.yaml\na: [1\n").unwrap_err();
        let start = "could not decode manifest: a/templates/a.yaml: ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn documents_that_are_no_objects_are_passed_on() {
        assert_eq!(
            read("---\n# Source: a/b.yaml\njust words\n").unwrap(),
            [json!("just words")]
        );
        assert_eq!(
            read("---\n# Source: a/b.yaml\napiVersion: v1\nkind: List\nitems: 3\n")
                .unwrap()
                .len(),
            1
        );
    }

    /// Small maps take a hundred times the memory of their text.
    #[test]
    fn values_that_take_too_much_memory_are_refused() {
        let document = "---\n# Source: a/templates/a.yaml\na: [{a: }, {a: }, {a: }, {a: }]\n";
        let (objects, bytes) = super::read(document, 1 << 20).unwrap();
        assert_eq!(objects.len(), 1);
        assert!((2_000..10_000).contains(&bytes), "{bytes}");
        let error = super::read(&document.repeat(1000), 1 << 20).unwrap_err();
        let expected = "could not decode manifest: a/templates/a.yaml: the values take more than \
                        1048576 bytes of memory";
        assert_eq!(error, expected);
    }
}
