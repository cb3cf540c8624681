//! Finds commands in pages, and splits them into words as a shell does.

use super::markdown::Page;

/// A command of one of our programs in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The number of the line in the page.
    pub(super) line: usize,
    /// The name of the program.
    pub(super) program: &'static str,
    /// The arguments of the program.
    pub(super) args: Vec<String>,
}

/// The names of our programs, as users write them.
pub(super) const PROGRAMS: [&str; 3] = ["kubectl baton", "baton", "cargo dev"];

/// Finds commands of our programs in blocks for a shell, and in inline code that begins with one.
pub(super) fn commands(page: &Page) -> Vec<Command> {
    let mut found = Vec::new();
    for block in &page.blocks {
        let text = block.text.replace("\\\n", " ");
        for part in text.lines() {
            let part = match block.language.as_str() {
                "sh" => Some(part.trim_start()),
                "console" => part.strip_prefix("$ "),
                _ => None,
            };
            let commands = part.into_iter().flat_map(parts);
            found.extend(commands.filter_map(|words| ours(block.line, &words)));
        }
    }
    for (line, text) in &page.code {
        // Text with brackets and the like describes a command and is not complete.
        let is_whole = !text.contains(['[', '…', '|', '<']) && !text.contains("...");
        let commands = is_whole.then(|| parts(text)).into_iter().flatten();
        // A program name without arguments is a mention, not a command.
        let commands = commands.filter_map(|words| ours(*line, &words));
        found.extend(commands.filter(|command| !command.args.is_empty()));
    }
    found
}

/// Splits a line into commands: a pipe, or several in a row. Handles quotes, comments and
/// redirections as a shell does.
fn parts(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut is_skipped = false;
    let mut end = |word: &mut Option<String>, commands: &mut Vec<Vec<String>>| {
        let Some(word) = word.take() else { return };
        match word.as_str() {
            "|" | "||" | "&&" | ";" => commands.push(Vec::new()),
            ">" | ">>" => is_skipped = true,
            _ if is_skipped => is_skipped = false,
            _ => {
                if let Some(command) = commands.last_mut() {
                    command.push(word);
                }
            }
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => end(&mut word, &mut commands),
            _ => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut commands);
    commands.retain(|command| !command.is_empty());
    commands
}

/// The command, if the program is one of ours.
fn ours(line: usize, words: &[String]) -> Option<Command> {
    PROGRAMS.into_iter().find_map(|program| {
        let names: Vec<_> = program.split(' ').collect();
        let is_named = words.len() >= names.len() && names.iter().zip(words).all(|(a, b)| a == b);
        is_named.then(|| Command {
            line,
            program,
            args: words[names.len()..]
                .iter()
                .map(|word| filled(word))
                .collect(),
        })
    })
}

/// Replaces the placeholders in an argument, such as `NAME` or `--revision=N`, by values.
fn filled(word: &str) -> String {
    let is_placeholder = |text: &str| {
        text.chars().next().is_some_and(|c| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_uppercase() || c == '-')
    };
    let value = |text: &str| match text {
        "N" => "1".to_owned(),
        "SHELL" => "bash".to_owned(),
        text if is_placeholder(text) => text.to_ascii_lowercase(),
        text => text.to_owned(),
    };
    let parts = word.split_inclusive(['=', '/']).map(|part| {
        let (text, end) = match part.strip_suffix(['=', '/']) {
            Some(text) => part.split_at(text.len()),
            None => (part, ""),
        };
        format!("{}{end}", value(text))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::super::markdown;
    use super::*;

    #[test]
    fn commands_are_found_where_they_stand() {
        let page = markdown::read(
            "`kubectl baton rollback od/NAME --to-revision N`, `kubectl baton`, `baton x [y]`\n\n\
             ```console\n$ baton cluster join eu \\\n  --pull > agent.yaml\nprinted\n```\n\n\
             ```sh\nhelm template 'a b' | kubectl baton pack - --name shop   # packs\n# no\ncargo dev demo\n```\n",
        );
        let found: Vec<_> = commands(&page)
            .into_iter()
            .map(|command| format!("{}: {}", command.program, command.args.join(" ")))
            .collect();
        assert_eq!(
            found,
            [
                "baton: cluster join eu --pull",
                "kubectl baton: pack - --name shop",
                "cargo dev: demo",
                "kubectl baton: rollback od/name --to-revision 1",
            ]
        );
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(
            parts("a 'b c' \"\" && d#e # f"),
            [vec!["a", "b c", ""], vec!["d#e"]]
        );
    }
}
