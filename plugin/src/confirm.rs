//! The question whether a command may go on.

use std::io::{IsTerminal as _, stderr, stdin};

use baton_terminal::output::report;

use crate::error::Error;

/// Asks the user for a confirmation, which is `yes` or `y`. `without` completes the sentence about
/// `--yes` that is the error if there is no terminal.
pub(crate) async fn confirmed(without: &str) -> Result<bool, Error> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        let text = format!(
            "cannot ask for a confirmation without a terminal; --yes {without} without one"
        );
        return Err(Error::Usage(text));
    }
    report("Go on? [y/N]");
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.map_err(std::io::Error::other)??;
    Ok(matches!(
        answer.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}
