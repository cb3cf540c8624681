//! Generates the reference of commands from the help of the programs, and checks the commands in
//! pages.

use std::path::PathBuf;

use tokio::process;

use super::commands::{Command, PROGRAMS, commands};
use super::{Error, markdown, pages};
use crate::generate::{PAGE_HEADER, write_or_compare};
use crate::paths::Dirs;
use crate::{cargo, exec};

/// Width of the help in columns, independent of the terminal.
const COLUMNS: usize = 100;

/// Writes the pages about our programs; with `check`, only compares them.
///
/// `own` is the command line of `cargo dev`; the other programs are built.
pub(crate) async fn generate(dirs: &Dirs, own: &clap::Command, check: bool) -> Result<(), Error> {
    let programs = Programs::build(dirs, own).await?;
    programs.write(dirs, check).await
}

/// Checks that the pages about programs are up to date, and that the programs accept each command
/// in any page.
pub(crate) async fn check(dirs: &Dirs, own: &clap::Command) -> Result<(), Error> {
    let programs = Programs::build(dirs, own).await?;
    programs.write(dirs, true).await?;
    let mut found = Vec::new();
    for (name, text) in pages(&dirs.workspace)? {
        for command in commands(&markdown::read(&text)) {
            if let Err(reason) = programs.understand(&command).await? {
                let Command {
                    line,
                    program,
                    args,
                } = command;
                let args = args.join(" ");
                found.push(format!("{name}:{line}: `{program} {args}`: {reason}"));
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Wrong(found))
    }
}

/// Our programs.
struct Programs {
    manager: PathBuf,
    plugin: PathBuf,
    own: clap::Command,
}

impl Programs {
    async fn build(dirs: &Dirs, own: &clap::Command) -> Result<Self, Error> {
        let names = ["baton", "kubectl-baton"];
        let [manager, plugin] = cargo::build(dirs, names, &["--workspace"]).await?;
        Ok(Self {
            manager,
            plugin,
            own: own.clone().term_width(COLUMNS),
        })
    }

    async fn write(&self, dirs: &Dirs, check: bool) -> Result<(), Error> {
        let mut files = Vec::new();
        for program in PROGRAMS {
            let name = format!("docs/reference/{}.md", program.replace(' ', "-"));
            files.push((name, self.page(program).await?));
        }
        Ok(write_or_compare(&dirs.workspace, &files, check)?)
    }

    /// The page of a program: its help, and the help of all of its commands.
    async fn page(&self, program: &str) -> Result<String, Error> {
        let mut page = format!("# {program}\n\n{PAGE_HEADER}\n");
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            let help = self.help(program, &path).await?;
            if !path.is_empty() {
                page.extend(["\n## ", program, " ", &path.join(" "), "\n"]);
            }
            page.push_str("\n```text\n");
            for line in help.trim_end().lines() {
                page.push_str(line.trim_end());
                page.push('\n');
            }
            page.push_str("```\n");
            let further = subcommands(&help).into_iter().rev();
            waiting.extend(further.map(|name| [path.as_slice(), &[name]].concat()));
        }
        Ok(page)
    }

    async fn help(&self, program: &str, path: &[String]) -> Result<String, Error> {
        let Some(mut command) = self.command(program, path) else {
            // Rendered in this process, because commands that pass all arguments on would start
            // another program.
            let mut command = self.own.clone();
            command.build();
            for name in path {
                let found = command.find_subcommand(name);
                command = found.cloned().unwrap_or(command);
            }
            return Ok(command.render_long_help().to_string());
        };
        Ok(exec::output(&mut command).await?)
    }

    /// Checks that a program accepts the words of a command. The inner error is the reason of a
    /// refusal.
    async fn understand(&self, command: &Command) -> Result<Result<(), String>, Error> {
        let Command { program, args, .. } = command;
        let Some(mut command) = self.command(program, args) else {
            let words = std::iter::once("cargo dev").chain(args.iter().map(String::as_str));
            let parsed = self.own.clone().try_get_matches_from(words);
            let refused = parsed.err().filter(clap::Error::use_stderr);
            return Ok(refused.map_or(Ok(()), |error| Err(first_line(&error.to_string()))));
        };
        command.stderr(std::process::Stdio::piped());
        let (_, err, status) = exec::captured(&mut command).await?;
        Ok(if status.success() {
            Ok(())
        } else {
            Err(first_line(&err))
        })
    }

    /// A process that parses arguments and prints help. `None` for `cargo dev`.
    ///
    /// The environment is cleared, because the help would show values from it. `--help` is the last
    /// argument: the program parses all arguments before it, and then only prints the help.
    fn command(&self, program: &str, args: &[String]) -> Option<process::Command> {
        let path = match program {
            "baton" => &self.manager,
            "kubectl baton" => &self.plugin,
            _ => return None,
        };
        let mut command = process::Command::new(path);
        command
            .env_clear()
            .env("COLUMNS", COLUMNS.to_string())
            .args(args)
            .arg("--help");
        Some(command)
    }
}

/// The commands that a help lists, without `help`.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_help_are_found() {
        let help = "About\n\nCommands:\n  tree  Shows\n        more\n  wait  Waits\n  help  Prints\n\nOptions:\n  -h";
        assert_eq!(subcommands(help), ["tree", "wait"]);
        assert!(subcommands("Options:\n  -h").is_empty());
    }
}
