//! Builds tools from their pinned Go modules into the cache.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use super::{Error, Suite, Tool, cached};
use crate::exec::Group;
use crate::paths::Dirs;
use crate::pins::{GoVersion, Pins};

/// Builds `missing` into the cache.
///
/// # Guarantees
///
/// There is only one build at a time for each cache: other processes wait, and then use the result.
/// A binary appears under its final name only when it is complete. An interrupted build leaves only
/// the cache of the Go compiler behind.
pub(super) async fn build(missing: &[Tool], dirs: &Dirs, pins: &Pins) -> Result<(), Error> {
    let _lock = lock(dirs).await?;
    let mut missing = missing.to_vec();
    missing.retain(|tool| !cached(*tool, dirs, pins).is_file());
    if missing.is_empty() {
        return Ok(());
    }
    let go = go(&missing, dirs, pins).await?;
    for suite in Suite::ALL {
        let mut tools = missing.clone();
        tools.retain(|tool| tool.suite() == suite);
        if !tools.is_empty() {
            let target = suite.dir(dirs, pins);
            build_suite(suite, &tools, (&go, None), &target, dirs, pins).await?;
        }
    }
    Ok(())
}

/// Builds a tool for Linux on an architecture, unless it is in the cache.
pub(super) async fn for_linux(
    tool: Tool,
    architecture: &str,
    dirs: &Dirs,
    pins: &Pins,
) -> Result<PathBuf, Error> {
    let _lock = lock(dirs).await?;
    let suite = tool.suite();
    let go = go(&[tool], dirs, pins).await?;
    // Another version of Go makes another program.
    let mut target = suite.dir(dirs, pins).into_os_string();
    target.push(format!("-linux-{architecture}-{go}"));
    let target = PathBuf::from(target);
    let program = target.join(tool.name());
    if !program.is_file() {
        let go = (go.as_str(), Some(architecture));
        build_suite(suite, &[tool], go, &target, dirs, pins).await?;
    }
    Ok(program)
}

async fn lock(dirs: &Dirs) -> Result<File, Error> {
    let path = dirs.cache.join("build.lock");
    let failed = |source| Error::Cache {
        path: path.clone(),
        source,
    };
    fs::create_dir_all(&dirs.cache).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    let mut reported = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if reported => {}
            Err(TryLockError::WouldBlock) => eprintln!("tools: waiting for another build to end"),
        }
        reported = true;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The version of Go, if it is new enough.
async fn go(missing: &[Tool], dirs: &Dirs, pins: &Pins) -> Result<String, Error> {
    let missing = names(missing);
    let mut command = Command::new("go");
    // The command runs outside of the modules: in a module, an older Go would first try to download
    // a newer one.
    command
        .args(["env", "GOVERSION"])
        .current_dir(&dirs.cache)
        .env("GOWORK", "off");
    let found = match crate::exec::output(&mut command).await {
        Ok(found) => found.trim().to_owned(),
        Err(crate::exec::Error::Spawn { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            return Err(Error::NoGo {
                needed: pins.go.to_string(),
                missing,
            });
        }
        Err(error) => return Err(error.into()),
    };
    match GoVersion::parse(&found) {
        Some(version) if version >= pins.go => Ok(found),
        _ => Err(Error::OldGo {
            needed: pins.go.to_string(),
            found,
            missing,
        }),
    }
}

async fn build_suite(
    suite: Suite,
    tools: &[Tool],
    (go, architecture): (&str, Option<&str>),
    target: &Path,
    dirs: &Dirs,
    pins: &Pins,
) -> Result<(), Error> {
    let scratch = Scratch::new(dirs)?;
    let mut command = Command::new("go");
    command
        .args(build_args(suite, tools, &scratch.0, pins))
        .current_dir(dirs.go_module(suite.source(pins).2))
        // The binaries are static, and for this machine unless another one is named, even if the
        // environment is set up for cross builds.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .env_remove("GOFLAGS")
        .envs(
            architecture
                .iter()
                .flat_map(|it| [("GOOS", "linux"), ("GOARCH", *it)]),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let what = format!("{} {}", names(tools), suite.version(pins));
    eprintln!("tools: building {what} with {go}; this happens once and takes minutes");
    let started = Instant::now();
    let mut group = Group::spawn(&mut command)?;
    let output = follow(group.child().stderr.take(), started).await;
    let status = group.wait().await?;
    if !status.success() {
        return Err(Error::Build {
            what,
            status,
            output,
        });
    }
    fs::create_dir_all(target).map_err(|source| Error::Cache {
        path: target.to_owned(),
        source,
    })?;
    for tool in tools {
        let (from, to) = (scratch.0.join(tool.name()), target.join(tool.name()));
        fs::rename(&from, &to).map_err(|source| Error::Cache { path: to, source })?;
    }
    eprintln!("tools: built {what} in {} s", started.elapsed().as_secs());
    Ok(())
}

fn build_args(suite: Suite, tools: &[Tool], out: &Path, pins: &Pins) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["build", "-v", "-trimpath", "-mod=readonly"]
        .map(Into::into)
        .into();
    if suite == Suite::Prometheus {
        // Leaves out the service discovery clients of all clouds, which rules do not need.
        args.extend(["-tags".into(), "remove_all_sd".into()]);
    }
    args.extend(["-ldflags".into(), ldflags(suite, pins).into()]);
    args.push("-o".into());
    // The last element of these package paths is not the name of the command.
    args.push(match suite {
        Suite::Etcd => out.join(Tool::Etcd.name()).into(),
        Suite::Health => out.join(Tool::Health.name()).into(),
        Suite::Cosign
        | Suite::Crane
        | Suite::Cyclonedx
        | Suite::Helm
        | Suite::Krew
        | Suite::Kubernetes
        | Suite::Kwok
        | Suite::Prometheus
        | Suite::Registry => out.join("").into(),
    });
    args.extend(tools.iter().map(|tool| tool.package().into()));
    args
}

/// The linker flags that set the version of a binary, as its release build does.
fn ldflags(suite: Suite, pins: &Pins) -> String {
    let version = suite.version(pins);
    match suite {
        Suite::Kubernetes => {
            let mut numbers = version.trim_start_matches('v').split('.');
            let mut number = || numbers.next().unwrap_or_default();
            let (major, minor) = (number(), number());
            let set = "-X k8s.io/component-base/version.git";
            format!("-s -w {set}Version={version} {set}Major={major} {set}Minor={minor}")
        }
        Suite::Cosign | Suite::Cyclonedx | Suite::Etcd | Suite::Health => "-s -w".to_owned(),
        Suite::Helm => format!("-s -w -X helm.sh/helm/v4/internal/version.version={version}"),
        Suite::Crane => {
            format!(
                "-s -w -X github.com/google/go-containerregistry/cmd/crane/cmd.Version={version}"
            )
        }
        Suite::Registry => {
            format!("-s -w -X github.com/distribution/distribution/v3/version.version={version}")
        }
        Suite::Krew => {
            format!("-s -w -X sigs.k8s.io/krew/internal/version.gitTag={version}")
        }
        Suite::Prometheus => {
            format!("-s -w -X github.com/prometheus/common/version.Version={version}")
        }
        Suite::Kwok => format!("-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={version}"),
    }
}

/// Shows the progress of the build, and returns the end of the compiler's output.
async fn follow(pipe: Option<ChildStderr>, started: Instant) -> String {
    let Some(pipe) = pipe else {
        return String::new();
    };
    let terminal = std::io::stderr().is_terminal();
    let mut lines = BufReader::new(pipe).lines();
    let mut ticks = tokio::time::interval(Duration::from_secs(if terminal { 1 } else { 20 }));
    let mut last = VecDeque::new();
    let mut count = 0_u32;
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                count += 1;
                if last.len() == 30 {
                    last.pop_front();
                }
                last.push_back(line);
            }
            _ = ticks.tick() => {
                // With `-v` the compiler names each module that it downloads and each package that
                // it compiles.
                let now = last.back().map_or("starting", String::as_str);
                let (erase, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
                eprint!("{erase}tools: {} s, {count} steps: {now:.80}{end}", started.elapsed().as_secs());
            }
        }
    }
    if terminal {
        eprint!("\r\x1b[K");
        let _ = std::io::stderr().flush();
    }
    Vec::from(last).join("\n")
}

fn names(tools: &[Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    names.join(", ")
}

/// A directory in the cache that is removed at the end of the build, successful or not.
struct Scratch(PathBuf);

impl Scratch {
    /// The name is constant: the build lock is taken, so an existing directory is left from a
    /// killed build.
    fn new(dirs: &Dirs) -> Result<Self, Error> {
        let scratch = Self(dirs.cache.join("build.tmp"));
        scratch.remove();
        fs::create_dir_all(&scratch.0).map_err(|source| Error::Cache {
            path: scratch.0.clone(),
            source,
        })?;
        Ok(scratch)
    }

    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins() -> Pins {
        Pins {
            kubernetes: "v1.36.3",
            module: "controlplane",
            etcd: "v3.6.8",
            kwok: "v0.8.0",
            helm: "v4.3.1",
            crane: "v0.22.1",
            registry: "v3.1.2",
            cosign: "v3.1.3",
            cyclonedx: "v1.10.0",
            krew: "v0.4.3",
            health: "0".to_owned(),
            prometheus: "v0.316.0",
            go: GoVersion {
                major: 1,
                minor: 26,
            },
        }
    }

    fn args(suite: Suite, tools: &[Tool]) -> String {
        let args = build_args(suite, tools, Path::new("/out"), &pins());
        args.iter()
            .map(|arg| arg.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn kubernetes_binaries_get_their_version() {
        let args = args(Suite::Kubernetes, &[Tool::KubeApiserver, Tool::Kubectl]);
        assert!(args.contains("version.gitVersion=v1.36.3 "), "{args}");
        assert!(
            args.contains("version.gitMajor=1 ") && args.contains("version.gitMinor=36 "),
            "{args}"
        );
        assert!(
            args.ends_with(
                "-o /out/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl"
            ),
            "{args}"
        );
    }

    #[test]
    fn helm_gets_its_version() {
        let args = args(Suite::Helm, &[Tool::Helm]);
        assert!(args.contains("internal/version.version=v4.3.1 "), "{args}");
        assert!(
            args.ends_with("-o /out/ helm.sh/helm/v4/cmd/helm"),
            "{args}"
        );
    }

    #[test]
    fn promtool_gets_its_version_and_no_clients_of_clouds() {
        let args = args(Suite::Prometheus, &[Tool::Promtool]);
        assert!(args.contains("version.Version=v0.316.0 "), "{args}");
        assert!(args.contains(" -tags remove_all_sd "), "{args}");
    }

    #[test]
    fn etcd_is_named_by_the_output_path() {
        assert!(
            args(Suite::Etcd, &[Tool::Etcd]).ends_with("-o /out/etcd go.etcd.io/etcd/server/v3")
        );
    }
}
