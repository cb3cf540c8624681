//! Renders charts by `helm template`, in a process with limits.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    runtime::Handle,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    Limits,
    isolation::{self, Paths},
};

/// Time between two readings of the memory of helm.
const WATCH: Duration = Duration::from_millis(5);

/// Limit in bytes of helm's messages that are read.
const MOST_WORDS: u64 = 64 << 10;

/// The inputs of a run of `helm template`.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// Path of the archive of the chart.
    pub archive: &'a Path,
    /// Values as JSON.
    pub values: &'a [u8],
    /// `.Release.Name`.
    pub name: &'a str,
    /// `.Release.Namespace`.
    pub namespace: &'a str,
}

/// The reason that there is no rendering, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Helm cannot be run.
    Start(String),
    /// The chart takes more memory than it may.
    Memory,
    /// The chart exceeds another limit.
    Chart(String),
    /// Helm refuses the chart. These are its messages, which may quote values in any form: see
    /// [`crate::secrecy`].
    Refused(String),
}

/// Finds the program helm.
///
/// # Errors
/// If there is none. The error is a text for people.
pub fn find(program: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, String> {
    if let Some(program) = program {
        return if program.is_file() {
            Ok(program.to_owned())
        } else {
            Err(format!(
                "helm not found: {} does not exist",
                program.display()
            ))
        };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let mut files = folders.map(|folder| folder.join("helm"));
    let found = files.find(|file| file.is_absolute() && file.is_file());
    found.ok_or_else(|| "helm not found: it is not on the PATH, and HELM_BIN is not set".to_owned())
}

/// Renders a chart, and returns the output of helm.
///
/// # Guarantees
/// - The process has no access to the environment of this one, and finds no plugins and no cluster.
/// - The process reads no other files than the archive and programs, and opens no connection, as far
///   as the kernel supports this ([`isolation`]).
/// - The process has no more memory in bytes than `memory`, and no more time and output than `limits`
///   allow. Until the limits are set it waits for the values, so it never runs without them.
/// - When this function returns or is dropped, the process and all processes that it has started
///   are gone.
///
/// # Errors
/// If there is no rendering.
pub async fn template(
    program: &Path,
    folder: &Path,
    template: Template<'_>,
    memory: usize,
    limits: &Limits,
) -> Result<String, Error> {
    let failed = |error: io::Error| Error::Start(format!("cannot run helm: {error}"));
    let unwritable =
        |error: io::Error| Error::Start(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let home = tempfile::Builder::new()
        .prefix("render-")
        .tempdir_in(folder)
        .map_err(unwritable)?;
    let mut command = command(program, home.path(), template, memory);
    let paths = Paths {
        readable: &[program, template.archive],
        writable: home.path(),
    };
    let mut group = Group::spawn(&mut command, paths).map_err(failed)?;
    group.limit(memory, limits).map_err(failed)?;
    let talk = group.talk(template.values, limits.output, memory);
    let ended = timeout(limits.render, talk).await;
    let ended = match ended {
        Err(_) => {
            kill(group.id);
            group.child.wait().await.map_err(failed)?;
            return Err(Error::Chart(too_slow(limits.render)));
        }
        Ok(ended) => ended.map_err(failed)?,
    };
    drop(group);
    match ended.excess {
        Some(Excess::Memory) => return Err(Error::Memory),
        Some(Excess::Output) => {
            let why = format!("rendering produces more than {} bytes", limits.output);
            return Err(Error::Chart(why));
        }
        None => {}
    }
    if !ended.status.success() {
        return Err(refusal(&ended, limits.render));
    }
    String::from_utf8(ended.output).map_err(|error| Error::Chart(error.to_string()))
}

fn command(program: &Path, home: &Path, template: Template<'_>, memory: usize) -> Command {
    let mut command = Command::new(program);
    // After `--`, a name that begins with a hyphen is no flag.
    command
        .args([
            "template",
            "--include-crds",
            "--namespace",
            template.namespace,
        ])
        .args(["--values", "-"])
        .args(["--", template.name])
        .arg(template.archive)
        .current_dir(home)
        .env_clear()
        .env("GOTRACEBACK", "none")
        // Most of the work of a usual rendering is the start of helm. Without collections of garbage
        // during the start, it takes a quarter less processor time, and no more memory. A chart that
        // takes much memory has them before it exceeds its limit.
        .env("GOGC", "400")
        .env("GOMEMLIMIT", format!("{}B", memory / 4 * 3))
        // No part of a chart is known to cause a request. If one does, it ends here.
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in [
        "HOME",
        "TMPDIR",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
        "HELM_PLUGINS",
    ] {
        command.env(name, home);
    }
    command
}

/// The exit status and the output of a process that has ended.
#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    words: Vec<u8>,
    /// The reason that the process was killed.
    excess: Option<Excess>,
}

/// A limit that a process has exceeded.
#[derive(Clone, Copy, Debug)]
enum Excess {
    Memory,
    Output,
}

/// A process in a group of its own. The whole group is killed when this is dropped.
#[derive(Debug)]
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn spawn(command: &mut Command, paths: Paths<'_>) -> io::Result<Self> {
        let runtime = Handle::current();
        let spawn = || {
            let _entered = runtime.enter();
            command.process_group(0).kill_on_drop(true).spawn()
        };
        let child = isolation::within(paths, spawn)??;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        Ok(Self { child, id })
    }

    #[cfg(target_os = "linux")]
    fn limit(&self, memory: usize, limits: &Limits) -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let seconds = limits.render.as_secs() + 1;
        for (resource, most) in [
            // The memory that the process can write to. The address space is no measure: Go
            // reserves a gigabyte of it. One allocation inside a reservation may exceed this limit:
            // see `beyond`.
            (Resource::Data, memory as u64),
            (Resource::Cpu, seconds),
            (Resource::Fsize, limits.output),
            (Resource::Core, 0),
        ] {
            let limit = Rlimit {
                current: Some(most),
                maximum: Some(most),
            };
            prlimit(self.id, resource, limit)?;
        }
        if let Some(id) = self.id {
            // If memory runs out on this machine, the rendering is killed first. The write fails
            // without the right to it, which changes nothing else.
            let _ = std::fs::write(
                format!("/proc/{}/oom_score_adj", id.as_raw_nonzero()),
                "1000",
            );
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "other systems have no such limits"
    )]
    fn limit(&self, _: usize, _: &Limits) -> io::Result<()> {
        Ok(())
    }

    /// Writes the values, reads the output, and waits for the end. The process is killed beyond `most`
    /// bytes of output and beyond `memory` bytes of memory.
    async fn talk(&mut self, values: &[u8], most: u64, memory: usize) -> io::Result<Ended> {
        let id = self.id;
        let mut work = pin!(self.work(values, most));
        tokio::select! {
            ended = &mut work => return ended,
            () = beyond(id, memory) => kill(id),
        }
        Ok(Ended {
            excess: Some(Excess::Memory),
            ..work.await?
        })
    }

    async fn work(&mut self, values: &[u8], most: u64) -> io::Result<Ended> {
        let (stdin, output) = (self.child.stdin.take(), self.child.stdout.take());
        let words = self.child.stderr.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // A process that ends early does not read the values, and reports its reason
                // itself.
                let _ = stdin.write_all(values).await;
            }
        };
        let take = async {
            let output = read(output, most + 1).await?;
            // The process would wait forever, because no more of its output is read.
            let is_too_much = output.len() as u64 > most;
            if is_too_much {
                kill(self.id);
            }
            io::Result::Ok((output, is_too_much))
        };
        let say = async {
            let mut pipe = words;
            let words = read(pipe.as_mut(), MOST_WORDS).await;
            // The rest is not needed, but must be read so that the process does not wait.
            if let Some(pipe) = &mut pipe {
                tokio::io::copy(pipe, &mut tokio::io::sink()).await?;
            }
            words
        };
        let ((), taken, words) = tokio::join!(write, take, say);
        let (output, is_too_much) = taken?;
        Ok(Ended {
            status: self.child.wait().await?,
            output,
            words: words?,
            excess: is_too_much.then_some(Excess::Output),
        })
    }
}

/// Returns when a process has more than so many bytes of memory of its own. If that is unknown, it never
/// returns.
///
/// The kernel does not count a mapping of memory over a reservation of the same process when it checks
/// the limit of memory, but only at the next mapping. The runtime of Go maps all its memory so. A chart
/// could take any amount by one large text.
async fn beyond(process: Option<Pid>, memory: usize) {
    let Some(process) = process else {
        return std::future::pending().await;
    };
    let statistics = format!("/proc/{}/statm", process.as_raw_nonzero());
    let mut ticks = interval(WATCH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // In pages: all, resident, shared with files, and others.
        let pages = std::fs::read_to_string(&statistics).unwrap_or_default();
        let mut pages = pages.split(' ').skip(1).flat_map(str::parse::<usize>);
        let resident = pages.next().unwrap_or_default();
        let own = resident.saturating_sub(pages.next().unwrap_or_default());
        if own.saturating_mul(rustix::param::page_size()) > memory {
            return;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill(self.id);
    }
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        // An error means that the group is gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The reason that a process ended without success.
fn refusal(ended: &Ended, time: Duration) -> Error {
    use std::os::unix::process::ExitStatusExt;
    let words = String::from_utf8_lossy(&ended.words);
    // Go ends with this status when it cannot go on. Helm itself ends with another one. If memory runs
    // out while Go starts its collector of garbage, its runtime reports a violation; one in the code of
    // helm is a panic, whose report begins with another word.
    let is_of_runtime =
        |line: &str| line.contains("fatal error: ") || line.starts_with("SIGSEGV: ");
    if ended.status.code() == Some(2) && words.lines().any(is_of_runtime) {
        return Error::Memory;
    }
    match ended.status.signal() {
        Some(signal) if signal == Signal::XCPU.as_raw() => {
            return Error::Chart(too_slow(time));
        }
        Some(signal) => return Error::Start(format!("helm was terminated by signal {signal}")),
        None => {}
    }
    Error::Refused(words.into_owned())
}

fn too_slow(limit: Duration) -> String {
    format!("rendering takes more than {} s", limit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn limits() -> Limits {
        Limits {
            render: Duration::from_secs(20),
            output: 1000,
            ..Limits::default()
        }
    }

    /// Runs a script in the place of helm.
    async fn run(script: &str, values: &[u8], limits: &Limits) -> Result<String, Error> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helm");
        // Processes that other tests start have copies of the open files of this process, so a
        // program that this process writes may be busy. A child writes it.
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
        let shell = std::process::Command::new("/bin/sh")
            .args(["-c", write])
            .arg(&program)
            .arg(script)
            .status();
        assert!(shell.unwrap().success());
        let what = Template {
            archive: Path::new("/a.tgz"),
            values,
            name: "-r",
            namespace: "ns",
        };
        let cache = folder.path().join("cache");
        let memory = limits.memory;
        let result = template(&program, &cache, what, memory, limits).await;
        assert_eq!(
            std::fs::read_dir(&cache).unwrap().count(),
            0,
            "nothing is left"
        );
        result
    }

    fn chart(text: &str) -> Result<String, Error> {
        Err(Error::Chart(text.to_owned()))
    }

    #[tokio::test]
    async fn helm_gets_values_and_arguments() {
        let output = run("echo $@; /bin/cat", b"{\"a\":1}", &limits())
            .await
            .unwrap();
        let args = "template --include-crds --namespace ns --values - -- -r /a.tgz";
        assert_eq!(output, format!("{args}\n{{\"a\":1}}"));
    }

    #[tokio::test]
    async fn helm_gets_no_environment() {
        let output = run("/usr/bin/env | /usr/bin/cut -d= -f1", b"", &limits())
            .await
            .unwrap();
        let allowed = [
            "GOGC",
            "GOMEMLIMIT",
            "GOTRACEBACK",
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HELM_PLUGINS",
            "HOME",
            "HTTPS_PROXY",
            "HTTP_PROXY",
            "KUBECONFIG",
            "OLDPWD",
            "PWD",
            "SHLVL",
            "TMPDIR",
            "_",
        ];
        let odd = output.lines().find(|name| !allowed.contains(name));
        assert_eq!(odd, None);
    }

    #[tokio::test]
    async fn a_runtime_that_cannot_go_on_has_no_memory() {
        for (words, code, expected) in [
            ("fatal error: out of memory", 2, true),
            ("SIGSEGV: segmentation violation", 2, true),
            ("SIGSEGV: segmentation violation", 1, false),
            (
                "panic: nil\n[signal SIGSEGV: segmentation violation]",
                2,
                false,
            ),
        ] {
            let script = format!("echo '{words}' >&2; exit {code}");
            let ended = run(&script, b"", &limits()).await.unwrap_err();
            assert_eq!(ended == Error::Memory, expected, "{words}: {ended:?}");
        }
    }

    #[tokio::test]
    async fn the_error_output_of_helm_is_reported_as_the_cause() {
        let script = "echo warning >&2; echo 'Error: no such thing' >&2; echo >&2; \
                      echo 'Use --debug flag' >&2; exit 1";
        let Err(Error::Refused(words)) = run(script, b"", &limits()).await else {
            panic!("not refused");
        };
        assert!(words.contains("\nError: no such thing\n"), "{words}");
        let killed = run("kill -9 $$", b"", &limits()).await;
        assert_eq!(
            killed,
            Err(Error::Start("helm was terminated by signal 9".into()))
        );
        let long = run("yes words | head -c 1000000 >&2; exit 1", b"", &limits()).await;
        let Err(Error::Refused(long)) = long else {
            panic!("{long:?}");
        };
        assert_eq!(long.len() as u64, MOST_WORDS);
    }

    #[tokio::test]
    async fn helm_is_stopped_when_it_writes_too_much() {
        let result = run("exec yes", b"", &limits()).await;
        assert_eq!(result, chart("rendering produces more than 1000 bytes"));
        // Values that are not read, and messages that are too long.
        let values = vec![b'x'; 1 << 20];
        let result = run("yes | head -c 1000000 >&2; echo ok", &values, &limits()).await;
        assert_eq!(result.unwrap(), "ok\n");
    }

    #[tokio::test]
    async fn helm_is_killed_with_its_child_processes_after_the_timeout() {
        let limits = Limits {
            render: Duration::from_millis(300),
            ..limits()
        };
        let time = format!("601.{}", std::process::id());
        let script = format!("sleep {time} & wait");
        let result = run(&script, b"", &limits).await;
        assert_eq!(result, chart("rendering takes more than 0.3 s"));
        wait_until(|| !is_running(&time)).await;
    }

    #[tokio::test]
    async fn helm_is_killed_when_its_caller_stops_waiting() {
        let time = format!("602.{}", std::process::id());
        let script = format!("exec sleep {time}");
        let limits = limits();
        let running = run(&script, b"", &limits);
        tokio::select! {
            result = running => panic!("{result:?}"),
            () = wait_until(|| is_running(&time)) => {}
        }
        wait_until(|| !is_running(&time)).await;
    }

    /// True if a process `sleep` with this time is running.
    fn is_running(time: &str) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.flat_map(|process| std::fs::read(process.path().join("cmdline")));
        lines.any(|line| line == format!("sleep\0{time}\0").into_bytes())
    }

    async fn wait_until(condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn helm_reads_no_files_of_the_manager_and_opens_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "secret").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!(
            "cat {token} /etc/passwd /proc/$PPID/environ; echo x > {token}; echo x > /dev/shm/baton; \
             bash -c 'echo > /dev/tcp/127.0.0.1/{port}'; echo own > own; cat own; exit 0",
            token = token.display(),
        );
        // The messages about refused files contain their paths.
        let output = run(&script, b"", &limits()).await.unwrap();
        assert_eq!(output, "own\n");
        assert_eq!(std::fs::read_to_string(&token).unwrap(), "secret");
        listener.set_nonblocking(true).unwrap();
        listener.accept().unwrap_err();
    }

    #[test]
    fn helm_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helm");
        let path = Some(folder.path().as_os_str());
        assert!(find(None, path).unwrap_err().contains("HELM_BIN"));
        assert!(find(None, None).unwrap_err().contains("HELM_BIN"));
        assert!(
            find(Some(&program), path)
                .unwrap_err()
                .contains("does not exist")
        );
        std::fs::write(&program, "").unwrap();
        assert_eq!(find(None, path).unwrap(), program);
        assert_eq!(find(Some(&program), None).unwrap(), program);
    }
}
