//! `__complete`: answers kubectl when a command line of this plugin is completed.
//!
//! kubectl runs the executable `kubectl_complete-baton` with the words after `kubectl baton`. The
//! last one is to be completed, and may be empty. kubectl expects one candidate per line, with a
//! help text after a tab, and a last line `:N` with a directive to the shell (4: do not complete
//! file names).

mod ask;

use baton_terminal::output::{Print as _, stdout};
use std::{ffi::OsString, time::Duration};

use clap::{Arg, ArgAction, ColorChoice, Command, FromArgMatches as _};
use tokio::time::timeout;

use super::{Exit, wait};
use crate::{args::GlobalArgs, error::Error, subject::ALL};

/// The longest time to wait for the candidates of a cluster.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The first word of a completion request. It is no command, so shells do not offer it and all
/// words after it are left as they are.
const QUESTION: &str = "__complete";

/// The candidates, each with a help text.
type Candidates = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Completion {
    /// One of these words.
    Words(Candidates),
    /// The name of a deployment or a revision.
    Target,
    /// The name of an Application.
    Application,
    /// The name of a deployment to sites.
    SiteDeployment,
    /// The name of a site.
    Site,
    /// A kept version of the application or deployment that these words name.
    Version(Vec<String>),
    /// The name of a Helm release.
    Release,
    Namespace,
    /// The number of a revision of the object that these words name.
    Revision(Vec<String>),
    /// A goal of `wait`.
    Goal,
    /// A context of the kubeconfig.
    Context,
    /// A context of the kubeconfig, after the name of a Cluster.
    ClusterContext,
    File,
    Anything,
}

/// The words to complete, if the arguments of the program ask for a completion.
pub(crate) fn words_to_complete(args: impl IntoIterator<Item = OsString>) -> Option<Vec<String>> {
    let mut args = args.into_iter();
    let words = |args: &mut dyn Iterator<Item = OsString>| {
        args.map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    (args.next()? == QUESTION).then(|| words(&mut args))
}

/// Prints the candidates. It returns no error, as a shell that completes cannot use one.
pub(crate) async fn run(words: &[String], root: &Command) -> Result<Exit, Error> {
    let (before, last) = match words.split_last() {
        Some((last, before)) => (before, last.as_str()),
        None => (&[][..], ""),
    };
    let (next, last) = next(root, before, last);
    let directive = if next == Completion::File {
        ":0\n"
    } else {
        ":4\n"
    };
    let global = global(root, before);
    let words = match next {
        Completion::Words(words) => words,
        Completion::Target => ask(ask::named(&global, last, &ALL, "od")).await,
        Completion::Application => ask(ask::named(&global, last, &ALL[1..], "app")).await,
        Completion::SiteDeployment => ask(ask::named(&global, last, &ALL[2..], "sitedeploy")).await,
        Completion::Site => ask(ask::sites(&global)).await,
        Completion::Version(of) => ask(ask::versions(&global, &of)).await,
        Completion::Release => ask(ask::releases(&global)).await,
        Completion::Namespace => ask(ask::namespaces(&global)).await,
        Completion::Revision(of) => ask(ask::revisions(&global, &of)).await,
        Completion::Goal => match last.strip_prefix("revision=") {
            Some(_) => {
                let words = positionals(root, before);
                let numbers = ask(ask::revisions(&global, &words)).await.into_iter();
                numbers
                    .map(|(number, help)| (format!("revision={number}"), help))
                    .collect()
            }
            None => goals(last),
        },
        Completion::Context => ask::contexts(&global, ""),
        Completion::ClusterContext => match last.split_once('=') {
            Some((name, _)) => ask::contexts(&global, &format!("{name}=")),
            None => Vec::new(),
        },
        Completion::File | Completion::Anything => Vec::new(),
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
    stdout(ColorChoice::Never).print(&text)?;
    Ok(Exit::Fine)
}

/// The candidates of a cluster; none if it does not respond in time.
async fn ask(answer: impl Future<Output = Result<Candidates, Error>>) -> Candidates {
    match timeout(TIMEOUT, answer).await {
        Ok(Ok(words)) => words,
        Ok(Err(_)) | Err(_) => Candidates::new(),
    }
}

/// The goals of `wait` that start with the typed text.
fn goals(last: &str) -> Candidates {
    let (first, words) = match last.strip_prefix("condition=") {
        Some(_) => ("condition=", wait::CONDITIONS.as_slice()),
        None => ("", wait::GOALS.as_slice()),
    };
    words
        .iter()
        .map(|(word, help)| (format!("{first}{word}"), (*help).to_owned()))
        .collect()
}

/// A command line up to the word that is completed.
struct Typed<'a> {
    command: &'a Command,
    globals: Vec<&'a Arg>,
    /// The option that the next word is the value of.
    value_of: Option<&'a Arg>,
    positionals: Vec<String>,
}

impl<'a> Typed<'a> {
    fn new(root: &'a Command, before: &[String]) -> Self {
        let globals = root
            .get_arguments()
            .filter(|argument| argument.is_global_set());
        let mut typed = Self {
            command: root,
            globals: globals.collect(),
            value_of: None,
            positionals: Vec::new(),
        };
        for word in before {
            if typed.value_of.take().is_some() {
                continue;
            }
            if let Some(argument) = option(typed.command, &typed.globals, word) {
                let is_open = takes_value(argument) && !word.contains('=');
                typed.value_of = is_open.then_some(argument);
            } else if let Some(found) = typed.command.find_subcommand(word) {
                typed.command = found;
            } else if !word.starts_with('-') {
                typed.positionals.push(word.clone());
            }
        }
        typed
    }

    /// The possible values of an argument.
    fn value(&self, argument: &Arg) -> Completion {
        match value(argument) {
            Completion::Revision(_) => Completion::Revision(self.positionals.clone()),
            Completion::Version(_) => Completion::Version(self.positionals.clone()),
            next => next,
        }
    }
}

/// The words that are no flags, values of flags or commands.
fn positionals(root: &Command, before: &[String]) -> Vec<String> {
    Typed::new(root, before).positionals
}

/// The possible values of the last word, and the typed part of it: for `--flag=value` only the
/// value, as shells expect.
fn next<'w>(root: &Command, before: &[String], last: &'w str) -> (Completion, &'w str) {
    let typed = Typed::new(root, before);
    if let Some(argument) = typed.value_of {
        return (typed.value(argument), last);
    }
    if last.starts_with('-')
        && let Some((_, begun)) = last.split_once('=')
    {
        let argument = option(typed.command, &typed.globals, last);
        let next = argument.filter(|argument| takes_value(argument));
        return (
            next.map_or(Completion::Anything, |it| typed.value(it)),
            begun,
        );
    }
    (typed.next(last), last)
}

impl Typed<'_> {
    /// The possible words at this place, except values of an option.
    fn next(&self, last: &str) -> Completion {
        let Self {
            command,
            globals,
            positionals,
            ..
        } = self;
        let positional = positionals.len();
        if last.starts_with('-') {
            let own = command.get_arguments().chain(globals.iter().copied());
            return Completion::Words(own.filter_map(flag).collect());
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
            return Completion::Words(commands.map(named).collect());
        }
        let positionals: Vec<&Arg> = command.get_positionals().collect();
        // The last positional argument may have several values.
        let argument = positionals.get(positional).or(positionals.last()).copied();
        argument.map_or(Completion::Anything, value)
    }
}

/// The option that a word names, with or without a value.
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

/// The possible values of an argument.
fn value(argument: &Arg) -> Completion {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let words = possible
            .iter()
            .map(|value| (value.get_name().to_owned(), help(value.get_help())));
        return Completion::Words(words.collect());
    }
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.to_ascii_uppercase());
    match (argument.get_id().as_str(), name.as_deref()) {
        ("namespace", _) => Completion::Namespace,
        ("context", _) => Completion::Context,
        ("cluster_context", _) => Completion::ClusterContext,
        ("what", Some("WHAT")) => Completion::Goal,
        (_, Some("NUMBER")) => Completion::Revision(Vec::new()),
        (_, Some("TARGET")) => Completion::Target,
        (_, Some("APPLICATION")) => Completion::Application,
        (_, Some("RELEASE")) => Completion::Release,
        (_, Some("SITEDEPLOYMENT")) => Completion::SiteDeployment,
        (_, Some("SITE")) => Completion::Site,
        (_, Some("VERSION")) => Completion::Version(Vec::new()),
        (_, Some("FILE" | "PATH" | "SOURCE")) => Completion::File,
        _ => Completion::Anything,
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

/// The flags that choose a cluster, from the words before the completed one.
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

#[cfg(test)]
mod tests {
    use baton_apis::conditions::{AVAILABLE, GENERAL};
    use clap::CommandFactory as _;

    use super::*;

    fn root() -> Command {
        crate::cli::Cli::command()
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn of(line: &str) -> Completion {
        let words = words(line);
        let (last, before) = words.split_last().unwrap();
        next(&root(), before, last).0
    }

    fn has(line: &str, word: &str) -> bool {
        match of(line) {
            Completion::Words(words) => words.iter().any(|(found, _)| found == word),
            _ => false,
        }
    }

    #[test]
    fn words_are_completed_by_their_place() {
        assert!(has("", "tree") && has("tr", "status"));
        assert!(has("-n shop ", "tree"), "a value is no command");
        assert_eq!(of("tree "), Completion::Target);
        assert_eq!(of("tree web od/w"), Completion::Target);
        assert_eq!(of("drift "), Completion::Target);
        assert!(has("drift -o ", "yaml") && has("drift -", "--all-namespaces"));
        assert_eq!(of("tree -w "), Completion::Target);
        assert_eq!(of("tree -n "), Completion::Namespace);
        assert_eq!(of("adopt shop --helm "), Completion::Release);
        assert_eq!(of("tree --namespace "), Completion::Namespace);
        assert_eq!(of("--kubeconfig "), Completion::File);
        assert!(has("tree -", "--archived") && has("tree --arch", "--context"));
        assert!(has("tree -o ", "yaml"));
        assert!(has("tree --color ", "never"));
        assert!(has("completion ", "zsh"));
        assert_eq!(of("status --timeout "), Completion::Anything);
    }

    #[test]
    fn values_of_flags_are_completed_by_their_type() {
        let revision =
            |of: &[&str]| Completion::Revision(of.iter().map(ToString::to_string).collect());
        for (line, expected) in [
            ("rollback web --to-revision ", revision(&["web"])),
            ("rollback od web --to-revision=1", revision(&["od", "web"])),
            ("-n shop diff od/web --from 1 --to ", revision(&["od/web"])),
            ("history --revision ", revision(&[])),
            (
                "rollback sitedeploy/shop --to-version ",
                Completion::Version(vec!["sitedeploy/shop".to_owned()]),
            ),
            ("tree sitedeploy/shop --site ", Completion::Site),
            ("sites ", Completion::Site),
            ("redeploy ", Completion::SiteDeployment),
            ("pause sitedeploy/", Completion::Target),
            ("pack a.yaml --revision=", Completion::Anything),
            ("wait web --for ", Completion::Goal),
            ("wait web --for=av", Completion::Goal),
            ("--context ", Completion::Context),
            ("tree --context=e", Completion::Context),
            (
                "diff web --live --cluster-context eu=",
                Completion::ClusterContext,
            ),
            (
                "diff web --cluster-context=eu=a",
                Completion::ClusterContext,
            ),
            ("tree --namespace=", Completion::Namespace),
            ("tree --unknown=", Completion::Anything),
            ("tree --watch=", Completion::Anything),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
        let words = words("wait web --for=av");
        let (last, before) = words.split_last().unwrap();
        assert_eq!(next(&root(), before, last).1, "av", "shells know the flag");
    }

    /// The flag accepts all offered values.
    #[test]
    fn goals_are_completed_with_their_values() {
        let offered = |last: &str| {
            let goals = goals(last).into_iter().map(|(word, _)| word);
            goals.collect::<Vec<_>>()
        };
        for word in offered("").iter().chain(&offered("condition=")) {
            let whole = match word.as_str() {
                "revision=" => "revision=3",
                "condition=" => continue,
                word => word,
            };
            whole.parse::<wait::Goal>().unwrap();
        }
        assert!(offered("").contains(&"rolled-out".to_owned()));
        let conditions = offered("condition=A");
        for condition in GENERAL.iter().chain(&[AVAILABLE]) {
            let expected = format!("condition={condition}");
            assert!(conditions.contains(&expected), "{condition}");
        }
    }

    #[test]
    fn completion_uses_the_typed_namespace_and_context() {
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

    /// Flags before the command belong to the completed command line, and are no flags of this
    /// program.
    #[test]
    fn a_completion_request_contains_all_words_unparsed() {
        let answer = |line: &str| words_to_complete(line.split(' ').map(OsString::from));
        for line in [
            "-n ",
            "--context ",
            "--color ",
            "--help ",
            "-n shop status ",
            "",
        ] {
            assert_eq!(answer(&format!("__complete {line}")), Some(words(line)));
        }
        assert_eq!(answer("status __complete"), None);
        assert_eq!(of("-n "), Completion::Namespace);
    }
}
