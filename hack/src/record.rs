//! `cargo dev record`: creates the terminal recording of the documentation, an asciicast, by
//! running a script.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use tokio::process::Command;

use crate::bed::{self, Afterwards, Bed};
use crate::cargo;
use crate::exec::{self, Group};
use crate::manager::{self, Cluster, Launch, Manager};
use crate::paths::Dirs;
use crate::tools::{self, Tool, Toolbox};

/// The script to record. Its directory is the working directory of the commands.
const SCRIPT: &str = "hack/recording/script";
/// The recording to write.
const RECORDING: &str = "docs/tour.cast";
/// The name of the bed.
const BED: &str = "record";

/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (112, 34);
/// The time to type a character.
const KEY: Duration = Duration::from_millis(35);
/// The time to read the result of a command.
const PAUSE: Duration = Duration::from_millis(2500);
/// Longer pauses in the output are shortened to this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The time that a command may take.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The reason that there is no recording.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Bed(#[from] bed::Error),
    #[error(transparent)]
    Name(#[from] bed::InvalidName),
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Manager(#[from] manager::Error),
    #[error(
        "{SCRIPT}, line {0}: neither a remark (`# ...`) nor a command (`$ ...`, or `$1 ...` if that is its exit code)"
    )]
    Script(usize),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("no terminal: {0}")]
    Terminal(#[source] io::Error),
    #[error("`{command}` has ended with {code:?} instead of {expected}:\n{output}")]
    Code {
        command: String,
        code: Option<i32>,
        expected: i32,
        output: String,
    },
}

/// Runs the script on a bed of its own, and writes what a terminal shows.
///
/// The bed and the manager have ended when this returns or is dropped. Nothing is written if a
/// command ends with another exit code than the script expects.
pub(crate) async fn run(dirs: &Dirs) -> Result<(), Error> {
    let text = read(dirs, SCRIPT)?;
    let script = parse(&text)?;
    // The same selection as for the tests, so that nothing is built twice.
    let [baton, plugin] = cargo::build(dirs, ["baton", "kubectl-baton"], &["--workspace"]).await?;
    let tools = Toolbox::prepare(dirs).await?;
    let helm = tools::helm(dirs).await?;
    // Declared before the manager, so that the bed ends after it.
    let bed = Bed::up(dirs, &BED.parse()?, None, Afterwards::End).await?;
    bed.install(&dirs.crds()).await?;
    exec::output(bed.kubectl().args(["create", "namespace", "baton-system"])).await?;
    let mut manager = Manager::start(&Launch {
        binary: baton,
        cluster: Cluster::Kubeconfig(bed.kubeconfig()),
        log: dirs.cache.join("logs").join("record-manager.log"),
        env: vec![],
    })
    .await?;
    let mut path = vec![];
    for program in [&*plugin, tools.path(Tool::Kubectl), &*helm] {
        path.extend_from_slice(
            program
                .parent()
                .unwrap_or(program)
                .as_os_str()
                .as_encoded_bytes(),
        );
        path.push(b':');
    }
    let mut path = String::from_utf8_lossy(&path).into_owned();
    path.push_str(&std::env::var("PATH").unwrap_or_default());

    let mut cast = Cast::default();
    for line in &script {
        match line {
            Line::Remark(text) => cast.print(&format!("\x1b[36m# {text}\x1b[0m\r\n")),
            Line::Command { text, expected } => {
                eprintln!("record: {text}");
                cast.type_in(text);
                let mut command = Command::new("bash");
                command.args(["-o", "pipefail", "-c", text]);
                command.current_dir(
                    dirs.workspace
                        .join(SCRIPT)
                        .parent()
                        .unwrap_or(&dirs.workspace),
                );
                command.env("PATH", &path).env("TERM", "xterm-256color");
                bed.attach(&mut command);
                let played =
                    manager.until("a command of the recording", TIMEOUT, cast.play(command));
                let (code, output) = played.await??;
                if code != Some(*expected) {
                    let (command, expected) = (text.clone(), *expected);
                    return Err(Error::Code {
                        command,
                        code,
                        expected,
                        output,
                    });
                }
                cast.clock += PAUSE;
                cast.print("\r\n");
            }
        }
    }
    manager.stop().await?;
    let path = dirs.workspace.join(RECORDING);
    fs::write(&path, cast.text()).map_err(|source| Error::File { path, source })
}

fn read(dirs: &Dirs, file: &str) -> Result<String, Error> {
    let path = dirs.workspace.join(file);
    fs::read_to_string(&path).map_err(|source| Error::File { path, source })
}

/// A line of the script.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A remark about the next command.
    Remark(String),
    /// A command to run, with its expected exit code.
    Command { text: String, expected: i32 },
}

fn parse(script: &str) -> Result<Vec<Line>, Error> {
    let lines = script
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty());
    let parsed = lines.map(|(index, line)| {
        let wrong = || Error::Script(index + 1);
        let (mark, text) = line.split_once(' ').ok_or_else(wrong)?;
        let text = text.to_owned();
        match mark.split_at_checked(1) {
            Some(("#", "")) => Ok(Line::Remark(text)),
            Some(("$", "")) => Ok(Line::Command { text, expected: 0 }),
            Some(("$", code)) => {
                let expected = code.parse().map_err(|_| wrong())?;
                Ok(Line::Command { text, expected })
            }
            _ => Err(wrong()),
        }
    });
    parsed.collect()
}

/// The recording so far: texts with their times.
#[derive(Default)]
struct Cast {
    clock: Duration,
    events: Vec<(Duration, String)>,
}

impl Cast {
    fn print(&mut self, text: &str) {
        self.events.push((self.clock, text.to_owned()));
    }

    /// Records a command as if it were typed at a prompt.
    fn type_in(&mut self, command: &str) {
        self.print("\x1b[32m$\x1b[0m ");
        self.clock += 10 * KEY;
        for character in command.chars() {
            self.print(&character.to_string());
            self.clock += KEY;
        }
        self.clock += 5 * KEY;
        self.print("\r\n");
    }

    /// Runs a command in a terminal of its own, and returns its exit code and its output.
    async fn play(&mut self, mut command: Command) -> Result<(Option<i32>, String), Error> {
        let (screen, terminal) = open().map_err(Error::Terminal)?;
        let clone = || {
            terminal
                .try_clone()
                .map(Stdio::from)
                .map_err(Error::Terminal)
        };
        command.stdin(clone()?).stdout(clone()?).stderr(clone()?);
        let mut group = Group::spawn(&mut command)?;
        // The terminal is hung up when no process has it open any more.
        drop((command, terminal));
        let reader = tokio::task::spawn_blocking(move || chunks(screen));
        let status = group.wait().await?;
        drop(group);
        let chunks = reader
            .await
            .map_err(|error| Error::Terminal(error.into()))?;
        let mut output = String::new();
        for (wait, text) in chunks {
            self.clock += wait.min(LONGEST_WAIT);
            self.print(&text);
            output.push_str(&text);
        }
        Ok((status.code(), output))
    }

    /// The recording as a file: <https://docs.asciinema.org/manual/asciicast/v2/>.
    fn text(&self) -> String {
        let (width, height) = SIZE;
        let title = "Baton: adopt, upgrade, a failure with its reason, rollback";
        let header = json!({"version": 2, "width": width, "height": height, "title": title});
        let events = self.events.iter().map(|(at, text)| {
            let millis = u32::try_from(at.as_millis()).unwrap_or(u32::MAX);
            json!([f64::from(millis) / 1000.0, "o", text])
        });
        let lines = [header].into_iter().chain(events);
        let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
        lines.join("\n") + "\n"
    }
}

/// A new terminal: the end that shows the output, and the end to which programs are attached.
fn open() -> io::Result<(File, File)> {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let name = ptsname(&screen, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&name, flags, Mode::empty())?;
    let (ws_col, ws_row) = SIZE;
    tcsetwinsize(
        &terminal,
        Winsize {
            ws_col,
            ws_row,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    Ok((screen.into(), terminal.into()))
}

/// The output of a terminal until it is hung up, in chunks with the time since the chunk before.
fn chunks(mut screen: File) -> Vec<(Duration, String)> {
    let mut found = Vec::new();
    let (mut last, mut bytes, mut rest) = (Instant::now(), vec![0; 1 << 16], Vec::new());
    // The end is reported as an error, when no process has the terminal open any more.
    while let Ok(read) = screen.read(&mut bytes)
        && read > 0
    {
        rest.extend_from_slice(&bytes[..read]);
        // The last character may be incomplete.
        let whole = match std::str::from_utf8(&rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => rest.len(),
        };
        let text: Vec<u8> = rest.drain(..whole).collect();
        found.push((last.elapsed(), String::from_utf8_lossy(&text).into_owned()));
        last = Instant::now();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_lists_commands_with_their_exit_codes() {
        let lines = parse("# First\n\n$ echo # a\n$3 exit 3\n").unwrap();
        let command = |text: &str, expected| Line::Command {
            text: text.to_owned(),
            expected,
        };
        let expected = [
            Line::Remark("First".to_owned()),
            command("echo # a", 0),
            command("exit 3", 3),
        ];
        assert_eq!(lines, expected);
        for wrong in ["ls", "$x ls", "#", "#! no"] {
            assert!(matches!(parse(wrong), Err(Error::Script(1))), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_command_has_a_terminal() {
        let mut cast = Cast::default();
        let mut command = Command::new("bash");
        command.args(["-c", "test -t 0 -a -t 1 -a -t 2 && stty size && exit 4"]);
        let (code, output) = cast.play(command).await.unwrap();
        assert_eq!((code, &*output), (Some(4), "34 112\r\n"));
        let text = cast.text();
        assert!(
            text.contains(r#""width":112"#) && text.contains(r#""o","34 112\r\n"]"#),
            "{text}"
        );
    }

    /// A changed script needs a new recording.
    #[test]
    fn the_recording_matches_the_script() {
        let dirs = Dirs::from_env().unwrap();
        let recording = read(&dirs, RECORDING).unwrap();
        let mut shown = String::new();
        for line in recording.lines().skip(1) {
            let (_, _, text): (f64, String, String) = serde_json::from_str(line).unwrap();
            shown.push_str(&text);
        }
        let mut rest = &*shown;
        for line in parse(&read(&dirs, SCRIPT).unwrap()).unwrap() {
            let (Line::Remark(text) | Line::Command { text, .. }) = line;
            let found = rest
                .find(&text)
                .unwrap_or_else(|| panic!("not recorded here: {text}"));
            rest = &rest[found + text.len()..];
        }
    }
}
