//! `baton print-crds`.

use std::io::{self, Write as _};

use clap::{Args, ValueEnum};
use serde_json::json;

/// Flags of `baton print-crds`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrintCrdsArgs {
    /// Output format
    #[arg(long, short, default_value = "yaml", value_name = "FORMAT")]
    pub output: CrdFormat,
}

/// The output format of the definitions. `kubectl apply -f -` accepts both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdFormat {
    /// One YAML document per definition
    Yaml,
    /// One JSON list
    Json,
}

/// The definitions could not be printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// Serialization to JSON failed.
    #[error("cannot write the definitions as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Serialization to YAML failed.
    #[error("cannot write the definitions as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// Standard output cannot be written to.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

/// Prints all custom resource definitions of this version.
///
/// # Errors
///
/// Fails when standard output cannot be written to. A reader that closes the pipe early is no
/// error.
pub(crate) fn print(args: &PrintCrdsArgs) -> Result<(), PrintError> {
    match io::stdout().write_all(render(args.output)?.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn render(format: CrdFormat) -> Result<String, PrintError> {
    let crds = baton_apis::crds();
    match format {
        CrdFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": crds});
            Ok(serde_json::to_string_pretty(&list)? + "\n")
        }
        CrdFormat::Yaml => {
            let mut text = String::new();
            for crd in &crds {
                text.push_str("---\n");
                text.push_str(&serde_saphyr::to_string(crd)?);
            }
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn both_formats_contain_every_definition() {
        let crds: Vec<Value> = baton_apis::crds()
            .iter()
            .map(|crd| serde_json::to_value(crd).unwrap())
            .collect();
        let list: Value = serde_json::from_str(&render(CrdFormat::Json).unwrap()).unwrap();
        assert_eq!(list["items"], Value::Array(crds.clone()));

        let yaml = render(CrdFormat::Yaml).unwrap();
        let documents = yaml.split("---\n").filter(|text| !text.is_empty());
        let parsed: Vec<Value> = documents
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect();
        assert_eq!(parsed, crds);
    }
}
