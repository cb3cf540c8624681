//! `cargo dev adversary`: a manager as it is shipped, with the memory limit of `config/install.yaml` and a
//! small disk, and the large attacks on it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::generate;
use crate::paths::Dirs;

/// Size of the disk below the chart folder in MiB.
const DISK: u32 = 256;

/// The directory of the control groups of memory, and the file with the limit, of version 2 and of
/// version 1.
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/baton-adversary", "memory.max"),
    (
        "/sys/fs/cgroup/memory/baton-adversary",
        "memory.limit_in_bytes",
    ),
];

/// The reason that there is no attack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error("the memory limit of the manager, {0}, is not in Mi or Gi")]
    Limit(String),
    #[error("{path}: {source}")]
    Prepare { path: PathBuf, source: io::Error },
}

/// Builds the manager, and returns the command that attacks it: with the attacks of these names, or with
/// all of them if there is no name.
///
/// The manager runs in a mount namespace with a small file system below the chart folder. If a control
/// group can be made, the kernel ends the manager beyond the limit; otherwise its memory is only
/// measured.
pub(crate) async fn command(dirs: &Dirs, attacks: &[String]) -> Result<Command, Error> {
    let [manager] = cargo::build(dirs, ["baton"], &["--release", "--package", "baton"]).await?;
    let limit = generate::memory_limit();
    let limit = mebibytes(&limit).ok_or(Error::Limit(limit))?;
    let group = GROUPS.into_iter().find(|(group, file)| {
        fs::create_dir_all(group).is_ok()
            && fs::write(Path::new(group).join(file), format!("{limit}M")).is_ok()
    });
    let folder = dirs.workspace.join("target/adversary");
    let charts = folder.join("chart-cache");
    let program = folder.join("baton");
    let processes = group.map(|(group, _)| Path::new(group).join("cgroup.procs"));
    let script = script(&manager, &charts, processes.as_deref());
    let written = fs::create_dir_all(&charts)
        .and_then(|()| fs::write(&program, script))
        .and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o755)));
    let failed = |source| Error::Prepare {
        path: program.clone(),
        source,
    };
    written.map_err(failed)?;
    let own = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(own);
    command
        .args(["test", "--once", "--bed", "adversary", "--manager"])
        .arg(&program);
    command.args(["--test", "adversary", "--", "--nocapture"]);
    command.env("ADVERSARY_LIMIT_MIB", limit.to_string());
    command.env("ADVERSARY_DISK", &charts);
    command.env("ADVERSARY_ATTACKS", attacks.join(","));
    if let Some((group, file)) = group {
        command.env("ADVERSARY_LIMIT_FILE", Path::new(group).join(file));
    }
    Ok(command)
}

/// A program that starts the manager in its control group and mount namespace.
fn script(manager: &Path, charts: &Path, processes: Option<&Path>) -> String {
    let group = processes.map(|it| format!("echo $$ > {}\n", it.display()));
    let user = if rustix::process::geteuid().is_root() {
        ""
    } else {
        " --map-root-user"
    };
    let (manager, charts) = (manager.display(), charts.display());
    format!(
        "#!/bin/sh\n{}export BATON_CHART_CACHE={charts}\n\
         exec unshare --mount{user} sh -c '\
         mount -t tmpfs -o size={DISK}m tmpfs {charts} && exec \"$@\"' sh {manager} \"$@\"\n",
        group.unwrap_or_default()
    )
}

fn mebibytes(quantity: &str) -> Option<u64> {
    let gibibytes = quantity.strip_suffix("Gi").map(|it| (it, 1024));
    let (number, unit) = gibibytes.or(quantity.strip_suffix("Mi").map(|it| (it, 1)))?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_manifest_is_read() {
        assert!(mebibytes(&generate::memory_limit()) >= Some(512));
        assert_eq!(mebibytes("256Mi"), Some(256));
        assert_eq!(mebibytes("1G"), None);
    }
}
