//! The programs of the image: static ones, for the platform of the image.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::process::Command;

use crate::paths::Dirs;
use crate::{cargo, exec, tools};

/// A platform of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Platform {
    /// `linux/amd64`
    Amd64,
    /// `linux/arm64`
    Arm64,
}

/// The reason that a program cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the image is for linux/amd64 and linux/arm64, not for {0}")]
    Platform(String),
    #[error(
        "the standard library of Rust for {0} is missing: run `rustup target add {0}`; another architecture also needs \
         cargo-zigbuild and zig"
    )]
    NoTarget(String),
    #[error(transparent)]
    Cargo(#[from] cargo::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("{0} is not static: a program in an image without libraries has to be")]
    NotStatic(PathBuf),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The programs of a platform.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) baton: PathBuf,
    pub(crate) helm: PathBuf,
}

impl Platform {
    /// The platform of this machine.
    pub(crate) fn here() -> Result<Self, Error> {
        format!("linux/{}", std::env::consts::ARCH).parse()
    }

    /// These platforms, each once, or that of this machine if there are none.
    pub(crate) fn or_here(given: &[Self]) -> Result<Vec<Self>, Error> {
        let mut platforms = given.to_vec();
        if platforms.is_empty() {
            platforms.push(Self::here()?);
        }
        platforms.sort_unstable();
        platforms.dedup();
        Ok(platforms)
    }

    /// The name of the architecture in Go and in images.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The targets of Rust for static programs, the better one first.
    pub(crate) fn targets(self) -> [String; 2] {
        let architecture = match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        };
        ["musl", "gnu"].map(|library| format!("{architecture}-unknown-linux-{library}"))
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "linux/amd64" | "linux/x86_64" => Ok(Self::Amd64),
            "linux/arm64" | "linux/aarch64" => Ok(Self::Arm64),
            _ => Err(Error::Platform(text.to_owned())),
        }
    }
}

impl Programs {
    /// Builds the programs of a platform. `reference` is the default image of agents.
    pub(super) async fn build(
        dirs: &Dirs,
        platform: Platform,
        reference: Option<&str>,
    ) -> Result<Self, Error> {
        Ok(Self {
            helm: tools::helm_for(platform.architecture(), dirs).await?,
            baton: static_program(dirs, "baton", platform, reference).await?,
        })
    }
}

/// Builds a program, whose package has the same name. `reference` is the image that it names as the
/// default one of agents.
pub(crate) async fn static_program(
    dirs: &Dirs,
    name: &str,
    platform: Platform,
    reference: Option<&str>,
) -> Result<PathBuf, Error> {
    let is_here = Platform::here().is_ok_and(|here| here == platform);
    let target = target(platform, is_here).await?;
    eprintln!("building {name} for {target}");
    let flags = flags(dirs);
    let task = if is_here { "build" } else { "zigbuild" };
    let args = [
        "--release",
        "--locked",
        "--package",
        name,
        "--target",
        &target,
    ];
    let mut variables = vec![("RUSTFLAGS", flags.as_str())];
    variables.extend(reference.map(|reference| ("BATON_AGENT_IMAGE", reference)));
    let [program] = cargo::build_with(dirs, task, [name], &args, &variables).await?;
    let content = std::fs::read(&program).map_err(|source| Error::File {
        path: program.clone(),
        source,
    })?;
    if !is_static(&content) {
        return Err(Error::NotStatic(program));
    }
    Ok(program)
}

/// The first target whose standard library is installed. Another architecture needs the linker and
/// the C library of zig, which has the one of musl.
async fn target(platform: Platform, is_here: bool) -> Result<String, Error> {
    let targets = platform.targets();
    let usable = if is_here { &targets[..] } else { &targets[..1] };
    for target in usable {
        let mut command = Command::new("rustc");
        command.args(["--print", "target-libdir", "--target", target]);
        let folder = exec::output(&mut command).await?;
        if Path::new(folder.trim()).is_dir() {
            return Ok(target.clone());
        }
    }
    Err(Error::NoTarget(targets[0].clone()))
}

/// The flags of the compiler: static programs, without paths of this machine.
fn flags(dirs: &Dirs) -> String {
    let home = std::env::var("CARGO_HOME").ok();
    let home = home.or_else(|| Some(format!("{}/.cargo", std::env::var("HOME").ok()?)));
    let workspace = dirs.workspace.display().to_string();
    let mut flags = "-C target-feature=+crt-static".to_owned();
    for (folder, name) in [(home.unwrap_or_default(), "/cargo"), (workspace, "/baton")] {
        if !folder.is_empty() {
            flags = format!("{flags} --remap-path-prefix={folder}={name}");
        }
    }
    flags
}

/// True if a program needs no loader: it has no segment of the type `PT_INTERP`.
fn is_static(program: &[u8]) -> bool {
    const INTERPRETER: usize = 3;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = program.get(at..at + bytes)?.iter().rev();
        Some(bytes.fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let segments = || {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let types = (0..count).map(move |at| number(start + at * size, 4));
        types.collect::<Option<Vec<_>>>()
    };
    let is_elf = program.starts_with(b"\x7fELF\x02\x01");
    is_elf && segments().is_some_and(|types| !types.contains(&INTERPRETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_have_the_names_of_images() {
        assert_eq!("linux/amd64".parse::<Platform>().unwrap(), Platform::Amd64);
        assert_eq!(
            "linux/aarch64".parse::<Platform>().unwrap(),
            Platform::Arm64
        );
        let error = "windows/amd64".parse::<Platform>().unwrap_err();
        assert!(
            error.to_string().contains("not for windows/amd64"),
            "{error}"
        );
        assert_eq!(Platform::Arm64.targets()[0], "aarch64-unknown-linux-musl");
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own));
        assert!(!is_static(b"#!/bin/sh"));
        // A header with one segment, which is loaded.
        let mut program = vec![0; 64 + 56];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[32] = 64;
        program[54] = 56;
        program[56] = 1;
        program[64] = 1;
        assert!(is_static(&program));
        program[64] = 3;
        assert!(!is_static(&program));
    }
}
