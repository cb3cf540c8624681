//! A page of the book, whose commands and manifests are run as a reader runs them.
//!
//! - A `yaml` block is applied. If its first line is a comment with the name of a file, such as
//!   `# web.yaml`, it is saved under that name instead.
//! - A `sh` block is run as a script.
//! - In a `console` block, the lines after `$ ` are commands, and the lines below a command are its
//!   output. The output is compared, unless the block shows none. A line that ends with `…` may
//!   continue.
//! - A block with `norun=REASON` is skipped.
//!
//! The commands run in a folder of their own, which contains a link to `config`. The namespace of
//! the test is the current one. Names in a page may stand for names of the test, see
//! [`Page::stands_for`]. Ages, hashes, versions and addresses are masked before outputs are
//! compared, and the width of columns does not count.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_hack::book::{Block, blocks};
use baton_hack::paths::Dirs;
use baton_hack::tools::{self, Tool, Toolbox};
use kube::config::{Kubeconfig, NamedContext};
use regex::{NoExpand, Regex};
use tempfile::TempDir;

use crate::guard::beside_tests;
use crate::namespace::{INTERVAL, TIMEOUT, TestNamespace};

/// The values that differ per run, and their masks.
const MASKS: [(&str, &str); 6] = [
    (r"\b\d+(\.\d+)?(ms|s|m|h|d)\b", "AGE"),
    (r"-[bcdf2-9]{6,10}\b", "-HASH"),
    (r"\bv\d+\.\d+\.\d+\b", "VERSION"),
    (r"https://[0-9.]+:\d+", "https://SERVER"),
    // A test before this one may have joined the same cluster.
    (r"\.\.\. already exists\. Skipping", "... done"),
    (r"[ \t]+", " "),
];

/// Lines that a page does not show. A terminal shows only the last line of progress, and the clusters
/// of a reader are not on the machine of the reader.
const UNSEEN: &str = r"^ ?\d+/\d+ |^ ?waiting for |^Note: .* is an address of this machine;";

/// Commands that only read. They are repeated until their output is the expected one.
const READERS: [&str; 5] = [
    "kubectl get ",
    "kubectl baton tree",
    "kubectl baton status",
    "kubectl baton history",
    "baton cluster list",
];

/// A page, run block by block. When the value is dropped, no block may be left.
pub struct Page {
    name: &'static str,
    namespace: String,
    left: VecDeque<Block>,
    folder: TempDir,
    /// Words of the page, and the words of the test that they stand for.
    names: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    /// Commands to run in the end.
    last: Vec<String>,
}

impl Page {
    /// Opens a page, by its path in the workspace, for a reader with the cluster of a namespace.
    pub async fn open(ns: &TestNamespace, name: &'static str) -> Self {
        let dirs = Dirs::from_env().unwrap();
        let text = fs::read_to_string(dirs.workspace.join(name)).unwrap();
        let folder = TempDir::with_prefix("page-").unwrap();
        symlink(dirs.workspace.join("config"), folder.path().join("config")).unwrap();
        let bin = folder.path().join(".bin");
        fs::create_dir(&bin).unwrap();
        let built = |variable: &str, name: &str| {
            std::env::var_os(variable).map_or_else(|| beside_tests(name), PathBuf::from)
        };
        let toolbox = Toolbox::prepare(&dirs).await.unwrap();
        let programs = [
            ("kubectl", toolbox.path(Tool::Kubectl).to_owned()),
            ("kubectl-baton", built("BATON_PLUGIN_BIN", "kubectl-baton")),
            ("baton", built("BATON_BIN", "baton")),
            ("helm", tools::helm(&dirs).await.unwrap()),
        ];
        for (name, path) in programs {
            symlink(path, bin.join(name)).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let page = Self {
            name,
            namespace: ns.name().to_owned(),
            left: blocks(&text).into(),
            names: Vec::new(),
            environment: vec![("PATH".to_owned(), format!("{}:{path}", bin.display()))],
            folder,
            last: Vec::new(),
        };
        page.contexts(&[("hub", ns.cluster().kubeconfig())])
    }

    /// Sets the contexts of the kubeconfig: names, and kubeconfigs with one context each. The first
    /// one is current.
    #[must_use]
    pub fn contexts(self, contexts: &[(&str, &Path)]) -> Self {
        let mut all = Kubeconfig::default();
        for (name, path) in contexts {
            let mut config = Kubeconfig::read_from(path).unwrap();
            let name = (*name).to_owned();
            config.clusters[0].name.clone_from(&name);
            config.auth_infos[0].name.clone_from(&name);
            let context = kube::config::Context {
                cluster: name.clone(),
                user: Some(name.clone()),
                namespace: Some(self.namespace.clone()),
                ..Default::default()
            };
            config.contexts = vec![NamedContext {
                name: name.clone(),
                context: Some(context),
                ..Default::default()
            }];
            config.current_context = Some(name);
            all = all.merge(config).unwrap();
        }
        let text = serde_json::to_string(&all).unwrap();
        fs::write(self.folder.path().join(".kubeconfig"), text).unwrap();
        self
    }

    /// Makes a word of the page stand for a name of the test.
    #[must_use]
    pub fn stands_for(mut self, word: &str, name: &str) -> Self {
        self.names.push((word.to_owned(), name.to_owned()));
        self
    }

    /// Sets an environment variable of the commands.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs a command when the value is dropped, even if the test fails.
    #[must_use]
    pub fn afterwards(mut self, command: &str) -> Self {
        self.last.push(command.to_owned());
        self
    }

    /// Returns the folder of the reader.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the blocks up to the end of a section, by its heading.
    pub async fn run_through(&mut self, section: &str) {
        let last = self.left.iter().rposition(|block| block.section == section);
        let last = last.unwrap_or_else(|| panic!("{}: no block is left in {section:?}", self.name));
        for block in self.left.drain(..=last).collect::<Vec<_>>() {
            self.run_block(&block).await;
        }
    }

    /// Runs the next blocks.
    pub async fn run_blocks(&mut self, count: usize) {
        for block in self.left.drain(..count).collect::<Vec<_>>() {
            self.run_block(&block).await;
        }
    }

    /// Runs a command of the reader that the page describes in words.
    pub fn reader(&self, command: &str) {
        self.command(self.name, &self.in_test(command));
    }

    /// Runs all blocks that are left.
    pub async fn run(mut self) {
        for block in std::mem::take(&mut self.left) {
            self.run_block(&block).await;
        }
    }

    async fn run_block(&self, block: &Block) {
        if block.norun.is_some() {
            return;
        }
        let location = format!("{}:{}", self.name, block.line);
        let text = self.in_test(&block.text);
        match &*block.language {
            "sh" => {
                self.command(&location, &text);
            }
            "console" => {
                for (command, expected) in commands(&text) {
                    self.compare(&location, &command, &expected).await;
                }
            }
            "yaml" => {
                let first = text.lines().next().unwrap_or_default();
                let named = first.strip_prefix("# ");
                let named = named.filter(|name| !name.contains(' ') && name.contains(".yaml"));
                let file = named.unwrap_or(".block.yaml");
                fs::write(self.folder().join(file), &text).unwrap();
                if named.is_none() {
                    self.command(&location, "kubectl apply -f .block.yaml");
                }
            }
            _ => {}
        }
    }

    /// Runs a command, and compares its output. A command that only reads is repeated.
    async fn compare(&self, location: &str, command: &str, expected: &[String]) {
        let start = Instant::now();
        let unseen = Regex::new(UNSEEN).unwrap();
        let expected: Vec<_> = expected.iter().map(|line| self.masked(line)).collect();
        loop {
            let printed = self.command(location, command);
            let printed = printed.lines().map(|line| self.masked(line));
            let printed: Vec<_> = printed.filter(|line| !unseen.is_match(line)).collect();
            if expected.is_empty() || is_same(&printed, &expected) {
                return;
            }
            let may_change = READERS.iter().any(|reader| command.starts_with(reader));
            assert!(
                may_change && start.elapsed() < TIMEOUT,
                "{location}: the page shows for `{command}`\n{}\nand it prints\n{}",
                expected.join("\n"),
                printed.join("\n")
            );
            tokio::time::sleep(INTERVAL.max(Duration::from_millis(200))).await;
        }
    }

    /// Runs a script, which must succeed, and returns its output and its errors.
    fn command(&self, location: &str, script: &str) -> String {
        let output = self.output(script);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{location}: {script}\n{printed}");
        printed
    }

    /// Runs a script, whose errors become a part of its output.
    fn output(&self, script: &str) -> Output {
        let folder = self.folder();
        Command::new("bash")
            .args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{script}")])
            .current_dir(folder)
            .env("HOME", folder)
            .env("KUBECONFIG", folder.join(".kubeconfig"))
            .env("LC_ALL", "C.UTF-8")
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Replaces the names of the page by names of the test.
    fn in_test(&self, text: &str) -> String {
        let names = self.names.iter();
        names.fold(text.to_owned(), |text, (word, name)| {
            replaced(&text, word, name)
        })
    }

    /// A line of output with the names of the page, and with masks.
    fn masked(&self, line: &str) -> String {
        let names = self.names.iter();
        let line = names.fold(line.to_owned(), |line, (word, name)| {
            replaced(&line, name, word)
        });
        let masked = MASKS.iter().fold(line, |line, (pattern, mask)| {
            Regex::new(pattern)
                .unwrap()
                .replace_all(&line, *mask)
                .into_owned()
        });
        masked.trim_end().to_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        for command in &self.last {
            let output = self.output(&self.in_test(command));
            assert!(failed || output.status.success(), "{command}: {output:?}");
        }
        let mut left = self.left.iter().filter(|block| block.norun.is_none());
        let is_run = |block: &&Block| ["sh", "console", "yaml"].contains(&&*block.language);
        if let Some(block) = left.find(is_run)
            && !failed
        {
            panic!("{}:{} was not run", self.name, block.line);
        }
    }
}

/// The commands of a transcript, each with its output.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push((command.to_owned(), Vec::new())),
            (None, Some((command, output))) if output.is_empty() && command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some((_, output))) if !line.is_empty() => output.push(line.to_owned()),
            (None, _) => {}
        }
    }
    found
}

/// True if a command printed the lines of a page. Empty lines do not count.
fn is_same(printed: &[String], expected: &[String]) -> bool {
    let printed: Vec<_> = printed.iter().filter(|line| !line.is_empty()).collect();
    printed.len() == expected.len()
        && printed.iter().zip(expected).all(|(printed, expected)| {
            match expected.strip_suffix('…') {
                Some(start) => printed.starts_with(start),
                None => *printed == expected,
            }
        })
}

/// Replaces whole words.
fn replaced(text: &str, word: &str, by: &str) -> String {
    let pattern = format!(r"\b{{start-half}}{}\b{{end-half}}", regex::escape(word));
    Regex::new(&pattern)
        .unwrap()
        .replace_all(text, NoExpand(by))
        .into_owned()
}
