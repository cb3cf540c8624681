//! `cargo dev`: the entry point of all tasks of the project.

use std::process::ExitCode;

fn main() -> ExitCode {
    baton_hack::cli::main()
}
