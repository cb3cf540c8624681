//! `cargo dev fuzz`: searches for inputs that break a property, guided by code coverage.
//!
//! The targets are tests of the crates, written with bolero. Under `cargo test`, with bolero's own
//! engine, they try the inputs in their `__fuzz__` directories and some random ones. Here they are
//! built with LLVM's coverage counters and run by libFuzzer, which needs only the stable toolchain
//! and a C++ compiler. An input that breaks a property is stored beside the seeds, where the tests
//! try it from then on.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::{fs, io};

use clap::{Args, ValueEnum};

use crate::cargo;
use crate::exec;
use crate::paths::Dirs;

/// The target and the duration.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Target to fuzz; without it, all targets one after the other.
    #[arg(value_enum)]
    target: Option<Target>,
    /// Minutes per target.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

/// A target, and the property that has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// An apply does not change objects that compare as equal; after an apply nothing differs.
    Diff,
    /// Probes end within their budget, with texts of limited length that quote no value.
    Probes,
    /// Rules end within their cost limit, with results of the types that they promise.
    Cel,
    /// A mapped condition fits into a status, and the server accepts it.
    Mapping,
    /// The packed objects are those that were read; errors contain a place in the text.
    Pack,
    /// Accepted archives of charts stay in their folder and within their limits.
    Archive,
    /// An index of charts is read, or refused with an error of one line.
    Index,
    /// A `Chart.yaml` is read as other YAML, or refused without its values.
    Chart,
    /// The output of helm is read as other YAML within a limit, or refused without its values.
    Rendering,
    /// The report of an agent is reduced to a status of its phase, in limited sizes.
    Report,
    /// Addresses and tokens of the dashboard lead to no other requests, and to no content for others.
    Addresses,
}

/// The reason that no target was fuzzed, or the property that is broken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("building the target {0} failed")]
    Build(&'static str),
    #[error("cargo does not say which platform this is:\n{0}")]
    Host(String),
    #[error("{path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "{0}: a property is broken; the input is in {1}, and `cargo test` tries it from now on"
    )]
    Found(&'static str, String),
}

/// The location of a target.
struct TargetLocation {
    name: &'static str,
    package: &'static str,
    /// The arguments that select the test's artifact in cargo.
    artifact: &'static [&'static str],
    /// The test.
    test: &'static str,
    /// The directory of the seeds and of the inputs found.
    inputs: &'static str,
}

impl Target {
    const fn location(self) -> TargetLocation {
        match self {
            Self::Diff => TargetLocation {
                name: "diff",
                package: "baton-engine",
                artifact: &["--lib"],
                test: "diff::fuzz::an_apply_settles_all_differences",
                inputs: "crates/engine/src/diff/__fuzz__/diff",
            },
            Self::Probes => TargetLocation {
                name: "probes",
                package: "baton-probes",
                artifact: &["--lib"],
                test: "fuzz::probes_are_bounded_and_quote_nothing",
                inputs: "crates/probes/src/__fuzz__/probes",
            },
            Self::Cel => TargetLocation {
                name: "cel",
                package: "baton-probes",
                artifact: &["--lib"],
                test: "cel::fuzz::rules_stay_within_their_limits_and_declared_types",
                inputs: "crates/probes/src/cel/__fuzz__/cel",
            },
            Self::Mapping => TargetLocation {
                name: "mapping",
                package: "baton-engine",
                artifact: &["--lib"],
                test: "mapping::fuzz::mapped_conditions_are_valid_in_a_status",
                inputs: "crates/engine/src/mapping/__fuzz__/mapping",
            },
            Self::Pack => TargetLocation {
                name: "pack",
                package: "kubectl-baton",
                artifact: &["--bin", "kubectl-baton"],
                test: "pack::fuzz::packed_objects_equal_the_input",
                inputs: "plugin/src/pack/__fuzz__/pack",
            },
            Self::Archive => TargetLocation {
                name: "archive",
                package: "baton-charts",
                artifact: &["--lib"],
                test: "fuzz::accepted_archives_stay_in_their_folder",
                inputs: "crates/charts/src/__fuzz__/archive",
            },
            Self::Index => TargetLocation {
                name: "index",
                package: "baton-charts",
                artifact: &["--lib"],
                test: "fuzz::indexes_are_read_or_refused_with_a_one_line_error",
                inputs: "crates/charts/src/__fuzz__/index",
            },
            Self::Chart => TargetLocation {
                name: "chart",
                package: "baton-charts",
                artifact: &["--lib"],
                test: "fuzz::metadata_of_charts_is_read_as_other_yaml_or_refused",
                inputs: "crates/charts/src/__fuzz__/chart",
            },
            Self::Rendering => TargetLocation {
                name: "rendering",
                package: "baton-charts",
                artifact: &["--lib"],
                test: "fuzz::renderings_are_read_as_other_yaml_or_refused",
                inputs: "crates/charts/src/__fuzz__/rendering",
            },
            Self::Report => TargetLocation {
                name: "report",
                package: "baton-engine",
                artifact: &["--lib"],
                test: "delegated::reported::fuzz::reports_are_reduced_to_a_status_of_the_phase",
                inputs: "crates/engine/src/delegated/reported/__fuzz__/report",
            },
            Self::Addresses => TargetLocation {
                name: "addresses",
                package: "baton-dashboard",
                artifact: &["--lib"],
                test: "app::fuzz::addresses_and_tokens_lead_nowhere_else",
                inputs: "crates/dashboard/src/app/__fuzz__/addresses",
            },
        }
    }
}

/// The arguments by which rustc counts the coverage in libFuzzer's format.
const COVERAGE: [&str; 9] = [
    "--cfg=fuzzing",
    "--cfg=fuzzing_libfuzzer",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    // With several codegen units of a crate, counters would have the same name.
    "-Ccodegen-units=1",
];

/// Maximum length of an input in bytes.
const MAX_LEN: usize = 4096;
/// Seconds after which an input counts as endless: a hundred times the budgets.
const TIMEOUT: u64 = 20;
/// Limits of memory in MiB: for one allocation, and for the process.
const MEMORY: (u64, u64) = (256, 2048);

/// Fuzzes the targets, and stops at the first one with a broken property.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    let targets = match &options.target {
        Some(target) => std::slice::from_ref(target),
        None => Target::value_variants(),
    };
    let host = host(dirs).await?;
    for target in targets {
        let location = target.location();
        eprintln!("fuzz: building {}", location.name);
        let binary = build(dirs, &location, &host).await?;
        eprintln!("fuzz: {}, {} minutes", location.name, options.minutes);
        let status = fuzz(dirs, &location, &binary, options.minutes).await?;
        if !status.success() {
            let crashes = format!("{}/crashes", location.inputs);
            return Err(Error::Found(location.name, crashes));
        }
    }
    Ok(())
}

/// The target platform. Naming it explicitly keeps the counters out of build scripts, where nothing
/// reads them.
async fn host(dirs: &Dirs) -> Result<String, Error> {
    let text = exec::output(cargo::command(dirs).arg("-vV")).await?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or(Error::Host(text.clone()))
}

async fn build(dirs: &Dirs, location: &TargetLocation, host: &str) -> Result<PathBuf, Error> {
    let mut command = cargo::command(dirs);
    command
        .args(["test", "--no-run", "--profile", "fuzz", "--locked"])
        .args(["--message-format=json-render-diagnostics"])
        .args(["--target", host, "--target-dir", "target/fuzz"])
        .args(["--package", location.package])
        .args(location.artifact)
        .env("RUSTFLAGS", COVERAGE.join(" "));
    let (messages, _, status) = exec::captured(&mut command).await?;
    let built = cargo::test_executable(&messages).filter(|_| status.success());
    built.ok_or(Error::Build(location.name))
}

async fn fuzz(
    dirs: &Dirs,
    location: &TargetLocation,
    binary: &Path,
    minutes: u64,
) -> Result<ExitStatus, Error> {
    // The paths are relative, since these arguments are separated by spaces.
    let grown = format!("target/fuzz/corpus/{}", location.name);
    let [corpus, crashes] = ["corpus", "crashes"].map(|name| format!("{}/{name}", location.inputs));
    for directory in [&grown, &crashes] {
        let path = dirs.workspace.join(directory);
        let made = fs::create_dir_all(&path);
        made.map_err(|source| Error::Directory { path, source })?;
    }
    let mut arguments = arguments(&grown, [&corpus, &crashes], minutes);
    let dictionary = format!("{}/dictionary", location.inputs);
    if dirs.workspace.join(&dictionary).exists() {
        arguments.push(format!("-dict={dictionary}"));
    }
    let mut command = tokio::process::Command::new(binary);
    command
        .current_dir(&dirs.workspace)
        .args([location.test, "--exact", "--nocapture", "--quiet"])
        .args(["--test-threads", "1"])
        .env("BOLERO_TEST_NAME", location.test)
        .env("BOLERO_LIBTEST_HARNESS", "1")
        .env("BOLERO_LIBFUZZER_ARGS", arguments.join(" "));
    let status = exec::status(&mut command).await?;
    // The directory is removed if it is empty, which it mostly is.
    let _ = fs::remove_dir(dirs.workspace.join(&crashes));
    Ok(status)
}

/// The arguments of libFuzzer. It writes inputs that reach new code to the first directory, and
/// only reads the others.
fn arguments(grown: &str, [corpus, crashes]: [&str; 2], minutes: u64) -> Vec<String> {
    let (at_once, in_all) = MEMORY;
    let seconds = minutes * 60;
    vec![
        grown.to_owned(),
        corpus.to_owned(),
        crashes.to_owned(),
        format!("-artifact_prefix={crashes}/"),
        format!("-max_total_time={seconds}"),
        format!("-max_len={MAX_LEN}"),
        format!("-timeout={TIMEOUT}"),
        format!("-malloc_limit_mb={at_once}"),
        format!("-rss_limit_mb={in_all}"),
        "-print_final_stats=1".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzz_target_has_a_test_and_seeds() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for target in Target::value_variants() {
            let location = target.location();
            let inputs = workspace.join(location.inputs);
            let module = inputs.join("../../fuzz.rs");
            let source =
                fs::read_to_string(&module).unwrap_or_else(|error| panic!("{module:?}: {error}"));
            let test = location.test.rsplit("::").next().unwrap_or_default();
            assert!(
                source.contains(&format!("fn {test}()")),
                "{module:?} has no {test}"
            );
            let name = format!("check!(name = \"{}\")", location.name);
            assert!(source.contains(&name), "{module:?} has no {name}");
            assert!(inputs.ends_with(location.name), "the engine looks there");
            let seeds = fs::read_dir(inputs.join("corpus")).map(Iterator::count);
            assert!(
                seeds.is_ok_and(|seeds| seeds > 0),
                "{} has no seeds",
                location.name
            );
        }
    }

    #[test]
    fn new_inputs_are_kept_apart_from_the_seeds() {
        let arguments = arguments("target/fuzz/corpus/x", ["x/corpus", "x/crashes"], 3);
        assert_eq!(
            arguments[..3],
            ["target/fuzz/corpus/x", "x/corpus", "x/crashes"]
        );
        let is_blank = |text: &String| text.contains(' ');
        assert!(
            !arguments.iter().any(is_blank),
            "blanks separate them: {arguments:?}"
        );
        assert!(arguments.contains(&"-max_total_time=180".to_owned()));
        assert!(arguments.contains(&"-artifact_prefix=x/crashes/".to_owned()));
    }
}
