//! Shows differences with another program, which is chosen as for `kubectl diff`.

use std::{
    fs::{DirBuilder, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use baton_text::diff::{Labels, file, yaml};
use baton_view::diff::{Pair, Section};
use tempfile::TempDir;
use tokio::process::Command;

use crate::error::ExternalError;

/// The environment variable that names the program and its arguments.
pub(crate) const VARIABLE: &str = "KUBECTL_EXTERNAL_DIFF";

/// A program that is run on two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct External {
    program: String,
    args: Vec<String>,
}

impl External {
    /// The program that the environment variable names, if it is set.
    pub(crate) fn from_env() -> Option<Self> {
        Self::parse(&std::env::var(VARIABLE).ok()?)
    }

    /// Parses a program and its arguments, separated by blanks.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::to_owned);
        Some(Self {
            program: words.next()?,
            args: words.collect(),
        })
    }

    /// Runs the program on two directories with one file per object that differs.
    ///
    /// The program shares the terminal. Returns true if it found differences (exit code 1).
    pub(crate) async fn show(
        &self,
        sections: &[Section],
        labels: &Labels,
    ) -> Result<bool, ExternalError> {
        let dir = write(sections, labels).map_err(ExternalError::Files)?;
        let status = Command::new(&self.program)
            .args(&self.args)
            .args([directory(&labels.before), directory(&labels.after)])
            .current_dir(dir.path())
            .status()
            .await;
        let program = self.program.clone();
        let status = status.map_err(|source| ExternalError::Start {
            program: program.clone(),
            source,
        })?;
        match status.code() {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(ExternalError::Failed { program, status }),
        }
    }
}

/// Writes both sides into a directory that only the user can read.
fn write(sections: &[Section], labels: &Labels) -> io::Result<TempDir> {
    let dir = tempfile::Builder::new()
        .prefix("kubectl-baton-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    let (before, after) = (
        dir.path().join(directory(&labels.before)),
        dir.path().join(directory(&labels.after)),
    );
    for side in [&before, &after] {
        DirBuilder::new().mode(0o700).create(side)?;
    }
    let pairs = sections.iter().filter_map(|section| {
        let pair = section.pair.as_ref()?;
        (!pair.is_same()).then_some((section, pair))
    });
    for (section, pair) in pairs {
        write_pair(&before, &after, &file(&section.topic), pair)?;
    }
    Ok(dir)
}

fn write_pair(before: &Path, after: &Path, file: &str, pair: &Pair) -> io::Result<()> {
    for (side, value) in [(before, pair.before()), (after, pair.after())] {
        if value.is_some() {
            let mut options = OpenOptions::new();
            let options = options.write(true).create_new(true).mode(0o600);
            options
                .open(side.join(file))?
                .write_all(yaml(value).as_bytes())?;
        }
    }
    Ok(())
}

/// A label as the name of a directory: `revision 1 (web-v1)` becomes `revision-1`.
fn directory(label: &str) -> String {
    let words: Vec<&str> = label
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(2)
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use baton_engine::Gvk;
    use baton_view::{
        chain::kind::ChainKind,
        diff::{Topic, outcome::DiffOutcome},
    };
    use serde_json::json;

    use super::*;

    fn section(name: &str, before: Option<&str>, after: Option<&str>) -> Section {
        let gvk = Gvk::new("v1", "ConfigMap");
        let topic = Topic::Object {
            key: gvk.key("", name),
            gvk,
            phase: None,
        };
        let side = |text: Option<&str>| text.map(|text| json!({ "a": text }));
        Section::new(topic)
            .fate(DiffOutcome::Changed)
            .pair(Pair::new(side(before), side(after)))
    }

    fn labels() -> Labels {
        Labels::new("revision 1 (web-v1)", "live")
    }

    #[test]
    fn the_variable_holds_a_program_and_arguments() {
        let parsed = External::parse(" colordiff -N  -u ").unwrap();
        assert_eq!(parsed.program, "colordiff");
        assert_eq!(parsed.args, ["-N", "-u"]);
        assert_eq!(External::parse("  "), None);
    }

    #[test]
    fn labels_become_names_of_directories() {
        assert_eq!(directory("revision 1 (web-v1)"), "revision-1");
        assert_eq!(directory("live"), "live");
        assert_eq!(directory("../x"), "x");
    }

    #[test]
    fn only_objects_that_differ_become_files() {
        let sections = [
            section("changed", Some("b"), Some("c")),
            section("added", None, Some("c")),
            section("same", Some("c"), Some("c")),
        ];
        let dir = write(&sections, &labels()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path()), 0o700);
        assert_eq!(mode(&dir.path().join("live")), 0o700);
        assert_eq!(mode(&dir.path().join("live/v1.ConfigMap..changed")), 0o600);
        let names = |side: &str| {
            let entries = std::fs::read_dir(dir.path().join(side)).unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("revision-1"), ["v1.ConfigMap..changed"]);
        assert_eq!(
            names("live"),
            ["v1.ConfigMap..added", "v1.ConfigMap..changed"]
        );
        let text = std::fs::read_to_string(dir.path().join("live/v1.ConfigMap..changed"));
        assert_eq!(text.unwrap(), "a: c\n");
    }

    #[test]
    fn a_deployment_itself_is_a_file() {
        let topic = Topic::Chain(ChainKind::ObjectDeployment, "web".to_owned());
        let section = Section::of_change(topic, json!({ "a": 1 }), json!({ "a": 2 })).unwrap();
        let dir = write(&[section], &labels()).unwrap();
        let name = "objectdeployment.package-operator.run_web";
        assert!(dir.path().join("live").join(name).exists());
    }

    #[tokio::test]
    async fn exit_code_one_means_differences() {
        let show = async |command: &str, sections: &[Section]| {
            let external = External::parse(command).unwrap();
            external.show(sections, &labels()).await
        };
        let differing = [section("a", Some("b"), Some("c"))];
        assert!(show("diff -r -q", &differing).await.unwrap());
        assert!(!show("diff -r", &[]).await.unwrap());
        assert!(!show("true", &differing).await.unwrap());
        let failed = show("diff --no-such-option", &differing).await.unwrap_err();
        assert!(matches!(failed, ExternalError::Failed { .. }), "{failed}");
        let missing = show("no-such-program -x", &[]).await.unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("cannot run \"no-such-program\" of KUBECTL_EXTERNAL_DIFF: "),
            "{missing}"
        );
    }
}
