//! Renders the page of an object in a browser: the program in the plugin of Headlamp.
//!
//! ```text
//! Headlamp ── lists and watches ──► plugin ── all that was read ──► this program ──► HTML
//!                                     ▲                                   │
//!                                     └──────── what is to be read ───────┘
//! ```
//!
//! The program is compiled to WebAssembly, and started anew for each rendering: it reads an
//! [`Input`](answer::Input) from the standard input, and writes an [`Output`](answer::Output) to the
//! standard output, both as JSON. It makes no requests, so a page has the rights of its viewer in
//! Headlamp, and it reads no clock. The pages are those of the dashboard.

mod answer;
mod discovery;
mod question;

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a standard error there is only the exit code.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let output = answer::answer(serde_json::from_slice(&input)?);
    drop(input);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &output)?;
    out.flush()
}
