//! `cargo dev`: the one entry for every task of the project.

use std::process::ExitCode;

fn main() -> ExitCode {
    baton_hack::cli::main()
}
