//! Third-party tools as users run them: kubectl and helm.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use baton_hack::paths::Dirs;
use baton_hack::tools::{self, Tool, Toolbox};
use serde_json::Value;
use tempfile::TempDir;

use crate::namespace::TestNamespace;

/// helm with a home directory of its own.
pub struct Helm<'a> {
    ns: &'a TestNamespace,
    path: PathBuf,
    home: TempDir,
}

impl TestNamespace {
    /// Runs kubectl in the namespace, which must succeed, and returns its output.
    pub async fn kubectl(&self, args: &[&str], stdin: &Value) -> String {
        let tools = Toolbox::prepare(&Dirs::from_env().unwrap()).await.unwrap();
        let mut command = Command::new(tools.path(Tool::Kubectl));
        command
            .arg("--kubeconfig")
            .arg(self.cluster().kubeconfig())
            .args(["-n", self.name()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let text = stdin.to_string();
        std::thread::scope(|scope| {
            scope.spawn(move || pipe.write_all(text.as_bytes()));
            printed(
                &format!("kubectl {args:?}"),
                child.wait_with_output().unwrap(),
            )
        })
    }

    /// Returns helm for use in the namespace.
    pub async fn helm(&self) -> Helm<'_> {
        let path = tools::helm(&Dirs::from_env().unwrap()).await.unwrap();
        Helm {
            ns: self,
            path,
            home: TempDir::with_prefix("helm-").unwrap(),
        }
    }
}

impl Helm<'_> {
    /// Runs helm, which must succeed, and returns its output.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> String {
        let home = |name: &str| self.home.path().join(name);
        let output = Command::new(&self.path)
            .args(args)
            .args(["--namespace", self.ns.name()])
            .env("KUBECONFIG", self.ns.cluster().kubeconfig())
            .env("HELM_CACHE_HOME", home("cache"))
            .env("HELM_CONFIG_HOME", home("config"))
            .env("HELM_DATA_HOME", home("data"))
            .stdin(Stdio::null())
            .output();
        printed(&format!("helm {args:?}"), output.unwrap())
    }
}

#[track_caller]
fn printed(what: &str, output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
