//! The page of the book with the fields of all kinds, generated from the definitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::{PAGE_HEADER, sorted};

/// Generates the page. Each definition has the path of its file.
pub(super) fn page(definitions: &[(String, CustomResourceDefinition)]) -> String {
    let mut page = format!(
        "# API\n\n{PAGE_HEADER}\n\nAll kinds with their fields, as `kubectl explain` shows them.\n\
         `[]` in a path is each item of a list, `{{}}` each value of a map.\n"
    );
    for (index, (_, definition)) in definitions.iter().enumerate() {
        let Some(version) = newest(definition) else {
            continue;
        };
        page.push_str(&title(definition, version));
        let fields = rows(version);
        // The same kind in the other scope differs in its descriptions only.
        let earlier = definitions[..index].iter().find(|(_, other)| {
            let other = newest(other).map(rows);
            other.is_some_and(|other| are_same(&other, &fields))
        });
        match earlier {
            Some((_, twin)) => {
                let kind = &twin.spec.names.kind;
                let anchor = kind.to_lowercase();
                page.extend(["\nThe fields are those of [", kind, "](#", &anchor, ").\n"]);
            }
            None => page.push_str(&table(&fields)),
        }
    }
    page
}

/// The storage version of a definition.
fn newest(definition: &CustomResourceDefinition) -> Option<&CustomResourceDefinitionVersion> {
    let stored = |version: &&CustomResourceDefinitionVersion| version.storage;
    definition.spec.versions.iter().find(stored)
}

fn schema(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn title(
    definition: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
) -> String {
    let spec = &definition.spec;
    let names = spec.names.short_names.iter().flatten();
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    let short = match names.as_slice() {
        [] => String::new(),
        names => format!(", short {}", names.join(", ")),
    };
    let versions = spec.versions.iter().filter(|version| version.served);
    let versions: Vec<_> = versions
        .map(|version| format!("`{}/{}`", spec.group, version.name))
        .collect();
    let description = schema(version).and_then(|schema| schema.description.as_deref());
    format!(
        "\n## {}\n\n{}\n\n{}, {}{short}.\n",
        spec.names.kind,
        wrapped(description.unwrap_or_default()),
        versions.join(", "),
        spec.scope.to_lowercase(),
    )
}

/// A field.
struct Row {
    /// All of the field that programs use: path, type and default.
    cells: [String; 3],
    description: String,
}

/// All fields of a version, without the fields that every object has: Kubernetes describes these.
fn rows(version: &CustomResourceDefinitionVersion) -> Vec<Row> {
    let mut rows = Vec::new();
    let fields = schema(version).and_then(|schema| schema.properties.as_ref());
    for (name, field) in fields.into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            add(&mut rows, name, field);
        }
    }
    rows
}

/// True if two kinds have the same fields. Descriptions are ignored.
fn are_same(some: &[Row], others: &[Row]) -> bool {
    some.iter()
        .map(|row| &row.cells)
        .eq(others.iter().map(|row| &row.cells))
}

fn table(rows: &[Row]) -> String {
    let head = "\n| field | type | default | description |\n|---|---|---|---|\n";
    let rows = rows.iter().map(|row| {
        let cells = row.cells.join(" | ");
        format!("| {cells} | {} |\n", row.description)
    });
    std::iter::once(head.to_owned()).chain(rows).collect()
}

/// Adds the row of a field, and the rows of its inner fields.
fn add(rows: &mut Vec<Row>, path: &str, field: &JSONSchemaProps) {
    let default = field.default.as_ref();
    let default = default.map(|default| code(&sorted(&default.0).to_string()));
    rows.push(Row {
        cells: [code(path), kind(field), default.unwrap_or_default()],
        description: cell(field.description.as_deref().unwrap_or_default()),
    });
    add_inner(rows, path, field);
}

fn add_inner(rows: &mut Vec<Row>, path: &str, field: &JSONSchemaProps) {
    for (name, inner) in field.properties.iter().flatten() {
        add(rows, &format!("{path}.{name}"), inner);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &field.items {
        add_inner(rows, &format!("{path}[]"), item);
    }
    if let Some(value) = values(field) {
        add_inner(rows, &format!("{path}{{}}"), value);
    }
}

/// The schema of the values of a map.
fn values(field: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match field.additional_properties.as_ref()? {
        JSONSchemaPropsOrBool::Schema(value) => Some(value),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

/// The type of a field in words.
fn kind(field: &JSONSchemaProps) -> String {
    if let Some(options) = &field.enum_ {
        let options: Vec<_> = options
            .iter()
            .map(|option| code(&option.0.to_string()))
            .collect();
        return options.join(", ");
    }
    if field.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".to_owned();
    }
    let name = field.type_.as_deref().unwrap_or("any");
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &field.items {
        return format!("list of {}", kind(item));
    }
    if let Some(value) = values(field) {
        return format!("map of {}", kind(value));
    }
    match &field.format {
        Some(format) => format!("{name} ({format})"),
        None => name.to_owned(),
    }
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ").replace('|', "\\|");
    // Inline code shows `<` as it is.
    let parts = words
        .split('`')
        .enumerate()
        .map(|(index, part)| match index % 2 {
            0 => part.replace('<', "&lt;"),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("`")
}

/// A text, wrapped and escaped.
fn wrapped(text: &str) -> String {
    textwrap::fill(&cell(text), textwrap::Options::new(120).break_words(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_field_has_a_row() {
        let definitions = super::super::definitions();
        let page = page(&definitions);
        for (_, definition) in &definitions {
            let heading = format!("\n## {}\n", definition.spec.names.kind);
            assert_eq!(page.matches(&heading).count(), 1, "{heading}");
        }
        for field in [
            "spec.phases[].objects[].object",
            "spec.template.spec.phases[].name",
            "spec.upgradeWindows[].cron",
            "status.conditions[].reason",
        ] {
            assert!(page.contains(&format!("\n| `{field}` | ")), "{field}");
        }
    }
}
