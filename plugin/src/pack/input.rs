//! Reads files, directories, kustomizations and the standard input.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use baton_terminal::output::report;
use tokio::sync::oneshot;

use super::{
    documents::InputText,
    source_location::{InputError, InputErrors},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A file, a directory, a directory with a kustomization, or `-`.
    Path(PathBuf),
    /// A directory that must have a kustomization.
    Kustomization(PathBuf),
}

/// Names of files that make a directory a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads all inputs in the given order; files of a directory by name.
pub(crate) fn read(inputs: &[Input], recursive: bool) -> Result<Vec<InputText>, InputErrors> {
    let mut reader = Reader {
        recursive,
        sources: Vec::new(),
        errors: Vec::new(),
        stdin_taken: false,
    };
    for input in inputs {
        match input {
            Input::Path(path) if path.as_os_str() == "-" => reader.standard_input(),
            Input::Path(path) if path.is_dir() => reader.directory(path, true),
            Input::Path(path) => reader.file(path),
            Input::Kustomization(path) if kustomization(path).is_some() => {
                reader.kustomization(path);
            }
            Input::Kustomization(path) => {
                let names = KUSTOMIZATIONS.join(", ");
                reader.error(
                    path,
                    format!("is not a kustomization: it has none of {names}"),
                );
            }
        }
    }
    if reader.errors.is_empty() {
        Ok(reader.sources)
    } else {
        Err(InputErrors(reader.errors))
    }
}

/// Reads all inputs as [`read`] does, in another thread. The standard input may never end, and the
/// caller has to react to Ctrl-C meanwhile.
pub(crate) async fn read_aside(
    inputs: Vec<Input>,
    recursive: bool,
) -> Result<Vec<InputText>, InputErrors> {
    let (sender, receiver) = oneshot::channel();
    // A thread of the runtime would keep the program from ending.
    std::thread::spawn(move || {
        // After Ctrl-C, the receiver does not exist any more.
        let _ = sender.send(read(&inputs, recursive));
    });
    let broken_off = |_| {
        Err(InputErrors(vec![InputError::general(
            "the input was not read",
        )]))
    };
    receiver.await.unwrap_or_else(broken_off)
}

/// The name that an input suggests: that of the file without its extension, or of the directory.
pub(crate) fn suggested_name(inputs: &[Input]) -> Option<String> {
    let [Input::Path(path) | Input::Kustomization(path)] = inputs else {
        return None;
    };
    let path = fs::canonicalize(path).ok()?;
    let name = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    let name = name?
        .to_str()?
        .to_ascii_lowercase()
        .replace(['_', ' '], "-");
    Some(name)
}

fn kustomization(directory: &Path) -> Option<&'static str> {
    let mut names = KUSTOMIZATIONS.into_iter();
    names.find(|name| directory.join(name).is_file())
}

struct Reader {
    recursive: bool,
    sources: Vec<InputText>,
    errors: Vec<InputError>,
    stdin_taken: bool,
}

impl Reader {
    fn error(&mut self, path: &Path, message: impl Into<String>) {
        self.errors.push(InputError::of(path.display(), message));
    }

    fn source(&mut self, name: &str, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => self.sources.push(InputText {
                name: name.into(),
                text,
            }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let mut lines = error.as_bytes()[..valid].split(|byte| *byte == b'\n');
                let at = format!("{name}:{}", lines.by_ref().count());
                self.errors.push(InputError::of(at, "is not UTF-8 text"));
            }
        }
    }

    fn standard_input(&mut self) {
        const NAME: &str = "standard input";
        if std::mem::replace(&mut self.stdin_taken, true) {
            self.errors
                .push(InputError::of(NAME, "can be read only once"));
            return;
        }
        let mut bytes = Vec::new();
        match io::stdin().lock().read_to_end(&mut bytes) {
            Ok(_) => self.source(NAME, bytes),
            Err(error) => self.errors.push(InputError::of(NAME, error.to_string())),
        }
    }

    fn file(&mut self, path: &Path) {
        match fs::read(path) {
            Ok(bytes) => self.source(&path.display().to_string(), bytes),
            Err(error) => self.error(path, message(&error)),
        }
    }

    /// Reads a directory. `named` is true if the user named it.
    fn directory(&mut self, directory: &Path, named: bool) {
        if kustomization(directory).is_some() {
            if named {
                self.kustomization(directory);
            } else {
                self.error(
                    directory,
                    "is a kustomization among other files; give it as a separate input",
                );
            }
            return;
        }
        if directory.join("Chart.yaml").is_file() {
            let path = directory.display();
            let message =
                format!("is a Helm chart; try: helm template NAME {path} | kubectl baton pack -");
            self.error(directory, message);
            return;
        }
        let paths = fs::read_dir(directory).and_then(|entries| {
            let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
            paths
        });
        let mut paths = match paths {
            Ok(paths) => paths,
            Err(error) => {
                self.error(directory, message(&error));
                return;
            }
        };
        paths.sort();
        let before = (self.sources.len(), self.errors.len());
        for path in paths {
            let is_manifest = path
                .extension()
                .and_then(|extension| extension.to_str())
                .is_some_and(|extension| EXTENSIONS.contains(&extension));
            if path.is_dir() {
                // As in kubectl, links to directories are not followed, as they may be circular.
                if self.recursive && !path.is_symlink() {
                    self.directory(&path, false);
                }
            } else if is_manifest {
                self.file(&path);
            }
        }
        if named && before == (self.sources.len(), self.errors.len()) {
            let more = if self.recursive {
                ""
            } else {
                "; -R includes its subdirectories"
            };
            let message = format!("has no *.yaml, *.yml or *.json files{more}");
            self.error(directory, message);
        }
    }

    /// Runs kubectl to build a kustomization.
    fn kustomization(&mut self, directory: &Path) {
        let output = Command::new("kubectl")
            .arg("kustomize")
            .arg(directory)
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.error(
                    directory,
                    "is a kustomization, and there is no kubectl in PATH to build it",
                );
                return;
            }
            Err(error) => {
                self.error(directory, format!("kubectl kustomize: {error}"));
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            // Warnings such as those about deprecated fields, which kubectl shows as well.
            said.lines().for_each(report);
            let name = format!("kubectl kustomize {}", directory.display());
            self.source(&name, output.stdout);
            return;
        }
        let message = match said.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => line.strip_prefix("error: ").unwrap_or(line).to_owned(),
            None => format!("it ended with {}", output.status),
        };
        self.error(directory, format!("kubectl kustomize: {message}"));
    }
}

/// The message of an error without the error number of the operating system.
fn message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn names(directory: &tempfile::TempDir, recursive: bool) -> Result<Vec<String>, String> {
        let input = Input::Path(directory.path().to_owned());
        let prefix = format!("{}/", directory.path().display());
        let cut = |text: &str| {
            text.replace(&prefix, "")
                .replace(prefix.trim_end_matches('/'), "DIR")
        };
        match read(&[input], recursive) {
            Ok(sources) => Ok(sources.iter().map(|source| cut(&source.name)).collect()),
            Err(errors) => Err(cut(&errors.to_string())),
        }
    }

    #[test]
    fn directories_are_read_in_the_order_of_names() {
        let files = directory(&[
            ("b.yaml", ""),
            ("a.yml", ""),
            ("c.json", ""),
            ("README.md", ""),
            ("below/d.yaml", ""),
            ("below/deeper/a.yaml", ""),
        ]);
        assert_eq!(names(&files, false).unwrap(), ["a.yml", "b.yaml", "c.json"]);
        assert_eq!(
            names(&files, true).unwrap(),
            [
                "a.yml",
                "b.yaml",
                "below/d.yaml",
                "below/deeper/a.yaml",
                "c.json"
            ]
        );
    }

    #[test]
    fn directories_without_manifests_are_errors() {
        let files = directory(&[("README.md", ""), ("below/a.yaml", "")]);
        assert_eq!(
            names(&files, false).unwrap_err(),
            "DIR: has no *.yaml, *.yml or *.json files; -R includes its subdirectories"
        );
        let chart = directory(&[("Chart.yaml", ""), ("values.yaml", "")]);
        assert_eq!(
            names(&chart, false).unwrap_err(),
            "DIR: is a Helm chart; try: helm template NAME DIR | kubectl baton pack -"
        );
        let nested = directory(&[("a.yaml", ""), ("base/kustomization.yaml", "")]);
        assert_eq!(
            names(&nested, true).unwrap_err(),
            "base: is a kustomization among other files; give it as a separate input"
        );
    }

    #[test]
    fn all_unreadable_files_are_reported() {
        let files = directory(&[("ok.yaml", "")]);
        fs::write(files.path().join("x.yaml"), b"a: 1\nb: \xff\n").unwrap();
        let inputs = ["x.yaml", "missing.yaml"].map(|name| Input::Path(files.path().join(name)));
        let InputErrors(errors) = read(&inputs, false).unwrap_err();
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert!(
            errors[0].ends_with("x.yaml:2: is not UTF-8 text"),
            "{errors:?}"
        );
        assert!(
            errors[1].ends_with("missing.yaml: no such file or directory"),
            "{errors:?}"
        );
    }

    #[test]
    fn names_are_suggested() {
        let files = directory(&[("Shop_App.v2.yaml", ""), ("shop/a.yaml", "")]);
        let input = |name: &str| Input::Path(files.path().join(name));
        assert_eq!(
            suggested_name(&[input("Shop_App.v2.yaml")]).unwrap(),
            "shop-app.v2"
        );
        assert_eq!(suggested_name(&[input("shop")]).unwrap(), "shop");
        assert_eq!(suggested_name(&[input("shop/.")]).unwrap(), "shop");
        assert_eq!(suggested_name(&[input("shop"), input("shop")]), None);
        assert_eq!(suggested_name(&[Input::Path("-".into())]), None);
    }
}
