//! `__complete`: what kubectl asks when a command line of this plugin is completed.
//!
//! kubectl runs the executable `kubectl_complete-baton` with the words after `kubectl baton`, the last
//! of which is to be completed and may be empty. It expects a candidate per line, with a help text behind a
//! tab, and a last line `:N` with a directive to the shell (4: do not complete file names).

use std::{collections::BTreeSet, time::Duration};

use clap::{Arg, ArgAction, Args, ColorChoice, Command, FromArgMatches as _};
use tokio::time::timeout;

use super::Exit;
use crate::{
    applications::target::AppKind,
    args::GlobalArgs,
    connect::ListQuery,
    error::Error,
    output::{Output, format::text_at},
    target::Kind,
};

/// Nobody waits longer for a completion.
const PATIENCE: Duration = Duration::from_secs(2);

/// The words of a command line that is being typed.
#[derive(Clone, Debug, Args)]
#[command(hide = true)]
pub(crate) struct CompleteArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// One of these, with their help.
    Words(Vec<(String, String)>),
    /// The name of a deployment or a revision.
    Target,
    /// The name of an Application.
    Application,
    Namespace,
    File,
    Anything,
}

/// Prints the candidates. Never an error: a shell that completes has no use for one.
pub(crate) async fn run(args: &CompleteArgs, root: &Command) -> Result<Exit, Error> {
    let (before, last) = match args.words.split_last() {
        Some((last, before)) => (before, last.as_str()),
        None => (&[][..], ""),
    };
    let next = next(root, before, last);
    let directive = if next == Next::File { ":0\n" } else { ":4\n" };
    let global = global(root, before);
    let words = match next {
        Next::Words(words) => words,
        Next::Target => plain(ask(targets(&global, last)).await),
        Next::Application => plain(ask(applications(&global, last)).await),
        Next::Namespace => plain(ask(namespaces(&global)).await),
        Next::File | Next::Anything => Vec::new(),
    };
    let mut text = String::new();
    for (word, help) in words {
        if word.starts_with(last) {
            text.push_str(&word);
            if !help.is_empty() {
                text.push('\t');
                text.push_str(&help);
            }
            text.push('\n');
        }
    }
    text.push_str(directive);
    Output::stdout(ColorChoice::Never).print(&text)?;
    Ok(Exit::Fine)
}

fn plain(words: BTreeSet<String>) -> Vec<(String, String)> {
    words
        .into_iter()
        .map(|word| (word, String::new()))
        .collect()
}

/// The answer of a cluster, if it comes in time.
async fn ask(answer: impl Future<Output = Result<BTreeSet<String>, Error>>) -> BTreeSet<String> {
    match timeout(PATIENCE, answer).await {
        Ok(Ok(words)) => words,
        Ok(Err(_)) | Err(_) => BTreeSet::new(),
    }
}

/// What may stand in the place of the last word.
fn next(root: &Command, before: &[String], last: &str) -> Next {
    let mut command = root;
    let mut value_of: Option<&Arg> = None;
    let mut positional = 0;
    let globals: Vec<&Arg> = root
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .collect();
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if let Some(argument) = option(command, &globals, word) {
            value_of = (takes_value(argument) && !word.contains('=')).then_some(argument);
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
        } else if !word.starts_with('-') {
            positional += 1;
        }
    }
    if let Some(argument) = value_of {
        return value(argument);
    }
    if last.starts_with('-') {
        let own = command.get_arguments().chain(globals);
        return Next::Words(own.filter_map(flag).collect());
    }
    if command.has_subcommands() {
        let commands = command
            .get_subcommands()
            .filter(|subcommand| !subcommand.is_hide_set());
        let named = |subcommand: &Command| {
            (
                subcommand.get_name().to_owned(),
                help(subcommand.get_about()),
            )
        };
        return Next::Words(commands.map(named).collect());
    }
    let positionals: Vec<&Arg> = command.get_positionals().collect();
    // The last one may take several.
    let argument = positionals.get(positional).or(positionals.last()).copied();
    argument.map_or(Next::Anything, value)
}

/// The option that a word is, with or without a value in it.
fn option<'a>(command: &'a Command, globals: &[&'a Arg], word: &str) -> Option<&'a Arg> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let mut all = command.get_arguments().chain(globals.iter().copied());
    all.find(|argument| {
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        long.as_deref() == Some(name) || short.as_deref() == Some(name)
    })
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// What the value of an argument may be.
fn value(argument: &Arg) -> Next {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let words = possible
            .iter()
            .map(|value| (value.get_name().to_owned(), help(value.get_help())));
        return Next::Words(words.collect());
    }
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.to_ascii_uppercase());
    match (argument.get_id().as_str(), name.as_deref()) {
        ("namespace", _) => Next::Namespace,
        (_, Some("TARGET")) => Next::Target,
        (_, Some("APPLICATION")) => Next::Application,
        (_, Some("FILE" | "PATH" | "SOURCE")) => Next::File,
        _ => Next::Anything,
    }
}

fn flag(argument: &Arg) -> Option<(String, String)> {
    if argument.is_hide_set() {
        return None;
    }
    Some((
        format!("--{}", argument.get_long()?),
        help(argument.get_help()),
    ))
}

fn help(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The flags that choose a cluster, as far as they have been typed.
fn global(root: &Command, before: &[String]) -> GlobalArgs {
    let mut words = vec!["kubectl-baton".to_owned()];
    let mut rest = before.iter();
    while let Some(word) = rest.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if ["-n", "--namespace", "--context", "--kubeconfig", "--as"].contains(&name)
            && let Some(value) = value.or_else(|| rest.next().cloned())
        {
            words.push(format!("{name}={value}"));
        }
    }
    words.extend(["completion", "bash"].map(str::to_owned));
    let matches = root.clone().try_get_matches_from(words);
    let global = matches.and_then(|matches| GlobalArgs::from_arg_matches(&matches));
    global.unwrap_or_default()
}

/// Names of deployments; behind a kind and a slash, names of that kind.
async fn targets(global: &GlobalArgs, last: &str) -> Result<BTreeSet<String>, Error> {
    let (prefix, kind) = match last.split_once('/') {
        Some((word, _)) if AppKind::of_word(word).is_some() => {
            return applications(global, last).await;
        }
        Some((word, _)) => (format!("{word}/"), word.parse::<Kind>()?),
        None => (String::new(), Kind::ObjectDeployment),
    };
    let cluster = global.connect().await?;
    let path = kind.path(cluster.namespace_of(kind));
    let found = cluster.list_at(&path, &metadata()).await?;
    Ok(found
        .iter()
        .map(|object| format!("{prefix}{}", text_at(object, "/metadata/name")))
        .collect())
}

/// Names of Applications; behind a kind and a slash, names of that kind.
async fn applications(global: &GlobalArgs, last: &str) -> Result<BTreeSet<String>, Error> {
    let (prefix, kind) = match last.split_once('/') {
        Some((word, _)) => (format!("{word}/"), AppKind::of_word(word)),
        None => (String::new(), Some(AppKind::Application)),
    };
    let Some(kind) = kind else {
        return Ok(BTreeSet::new());
    };
    let cluster = global.connect().await?;
    let path = kind.plural().path(&cluster.namespace);
    let found = cluster.list_at(&path, &metadata()).await?;
    Ok(found
        .iter()
        .map(|object| format!("{prefix}{}", text_at(object, "/metadata/name")))
        .collect())
}

async fn namespaces(global: &GlobalArgs) -> Result<BTreeSet<String>, Error> {
    let cluster = global.connect().await?;
    let found = cluster.list_at("/api/v1/namespaces", &metadata()).await?;
    Ok(found
        .iter()
        .map(|object| text_at(object, "/metadata/name").to_owned())
        .collect())
}

fn metadata() -> ListQuery {
    ListQuery {
        metadata_only: true,
        ..ListQuery::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn root() -> Command {
        crate::cli::Cli::command()
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn of(line: &str) -> Next {
        let words = words(line);
        let (last, before) = words.split_last().unwrap();
        next(&root(), before, last)
    }

    fn has(line: &str, word: &str) -> bool {
        match of(line) {
            Next::Words(words) => words.iter().any(|(found, _)| found == word),
            _ => false,
        }
    }

    #[test]
    fn words_are_completed_by_their_place() {
        assert!(has("", "tree") && has("tr", "status") && !has("", "__complete"));
        assert!(has("-n shop ", "tree"), "a value is no command");
        assert_eq!(of("tree "), Next::Target);
        assert_eq!(of("tree web od/w"), Next::Target);
        assert_eq!(of("tree -w "), Next::Target);
        assert_eq!(of("tree -n "), Next::Namespace);
        assert_eq!(of("tree --namespace "), Next::Namespace);
        assert_eq!(of("--kubeconfig "), Next::File);
        assert!(has("tree -", "--archived") && has("tree --arch", "--context"));
        assert!(has("tree -o ", "yaml"));
        assert!(has("tree --color ", "never"));
        assert!(has("completion ", "zsh"));
        assert_eq!(of("status --timeout "), Next::Anything);
    }

    #[test]
    fn the_cluster_is_the_one_that_was_typed() {
        let chosen = |line: &str| {
            let global = global(&root(), &words(line));
            (global.namespace, global.context)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(chosen("tree -n shop"), (some("shop"), None));
        assert_eq!(
            chosen("--context=east tree web --namespace shop"),
            (some("shop"), some("east"))
        );
        assert_eq!(chosen("tree -n"), (None, None));
    }
}
