//! A headless Chromium, for the tests that `cargo dev browser` runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use baton_hack::paths::Dirs;
use serde_json::{Value, json};

use crate::guard::Guard;

/// The variable with the path of `browser.mjs` beside its packages. `cargo dev browser` sets it, and
/// so does `cargo dev headlamp --test`.
const SCRIPT: &str = "BATON_BROWSER";
/// The variable that is set to write the pictures of the book.
const WRITE: &str = "BATON_WRITE_PICTURES";

/// The widths of windows that pages are looked at in, in pixels.
const WIDTHS: [u32; 6] = [80, 320, 480, 800, 1280, 2560];

/// A browser with one window. It ends when the value is dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    _guard: Guard,
}

impl Browser {
    /// Starts a browser.
    #[must_use]
    pub fn start() -> Self {
        let script = std::env::var_os(SCRIPT).map(PathBuf::from);
        let script = script.expect("`cargo dev browser` runs these tests");
        let mut command = Command::new("node");
        let piped = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            _guard: Guard::over_process(child.id()),
            child,
        }
    }

    #[track_caller]
    fn command(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        assert!(
            answer["error"].is_null(),
            "{command}: {}",
            answer["error"].as_str().unwrap_or_default()
        );
        answer["value"].take()
    }

    /// Opens an address, and returns the status code of the answer.
    #[track_caller]
    pub fn open(&mut self, url: &str) -> u64 {
        let code = self.command(&json!({ "do": "open", "url": url }));
        code.as_u64().unwrap()
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn see(&mut self, text: &str) {
        self.command(&json!({ "do": "see", "text": text }));
    }

    /// Waits until an expression of JavaScript is true on the page.
    #[track_caller]
    pub fn until(&mut self, code: &str) {
        self.command(&json!({ "do": "until", "code": code }));
    }

    /// The value of an expression of JavaScript on the page.
    #[track_caller]
    pub fn value(&mut self, code: &str) -> Value {
        self.command(&json!({ "do": "value", "code": code }))
    }

    /// Clicks the first button or link with a name.
    #[track_caller]
    pub fn click(&mut self, name: &str) {
        self.command(&json!({ "do": "click", "name": name }));
    }

    /// Fills in a field.
    #[track_caller]
    pub fn fill(&mut self, label: &str, text: &str) {
        self.command(&json!({ "do": "fill", "label": label, "text": text }));
    }

    /// The problems of pages since the last call: errors and messages of scripts, dialogs, and requests to
    /// other servers, in a line each.
    #[track_caller]
    pub fn problems(&mut self) -> Vec<String> {
        let found = self.command(&json!({ "do": "problems" }));
        serde_json::from_value(found).unwrap()
    }

    /// Fails if the page has a problem: an error or a message of a script, a request to another server,
    /// a violation of the rules for accessibility, or a part that does not fit into a window.
    #[track_caller]
    pub fn finds_no_fault(&mut self) {
        for width in WIDTHS {
            self.command(&json!({ "do": "width", "width": width }));
            // One pixel is a matter of rounding.
            let overflow = self.value("document.documentElement.scrollWidth - innerWidth");
            assert!(
                overflow.as_i64().unwrap() <= 1,
                "{overflow} px at {width} px"
            );
        }
        self.command(&json!({ "do": "width", "width": 1280 }));
        let violations = self.command(&json!({ "do": "axe" }));
        assert_eq!(violations, json!([]));
        assert_eq!(self.problems(), Vec::<String>::new());
    }

    /// Writes a picture of the book, if the pictures are to be written. On it, the namespace of the test
    /// is `shop`, and the cluster has a name.
    #[track_caller]
    pub fn picture(&mut self, name: &str, namespace: &str) {
        if std::env::var_os(WRITE).is_none() {
            return;
        }
        self.value(&format!(
            "(() => {{
                const all = [...document.querySelectorAll('*')];
                for (const root of [document.body, ...all.flatMap((it) => it.shadowRoot ?? [])]) {{
                    const cluster = root.querySelector('.cluster');
                    if (cluster !== null) cluster.textContent = 'https://cluster.example';
                    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
                    while (texts.nextNode()) {{
                        const text = texts.currentNode;
                        text.data = text.data.replaceAll('{namespace}', 'shop');
                    }}
                }}
            }})()"
        ));
        let workspace = Dirs::from_env().unwrap().workspace;
        let path = workspace
            .join("docs/pictures")
            .join(name)
            .with_extension("png");
        self.command(&json!({ "do": "shot", "path": path }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
