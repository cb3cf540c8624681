//! Waits until the process that started it is gone, and then ends the process or the bed that it
//! guards: `process ID` or `bed NAME`.

use std::io::{copy, sink, stdin};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use baton_hack::bed;
use baton_hack::paths::Dirs;
use rustix::process::{Pid, Signal, kill_process};

/// Time limit for the end of a bed.
const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    // The other end of the pipe is never written to, so the copy returns when no process holds it
    // any more.
    let _ = copy(&mut stdin().lock(), &mut sink());
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["process", id] => {
            if let Some(pid) = id.parse().ok().and_then(Pid::from_raw) {
                // The process may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
            ExitCode::SUCCESS
        }
        ["bed", name] => end_bed(name),
        _ => ExitCode::FAILURE,
    }
}

fn end_bed(name: &str) -> ExitCode {
    let (Ok(dirs), Ok(name)) = (Dirs::from_env(), name.parse::<bed::Name>()) else {
        return ExitCode::FAILURE;
    };
    // The test process closes the pipe before it releases the bed, so the call is repeated.
    let start = Instant::now();
    while let Err(error) = bed::down(&dirs, &name) {
        if start.elapsed() > TIMEOUT {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
        sleep(Duration::from_millis(20));
    }
    // No other process uses a bed of this name again.
    let _ = std::fs::remove_file(dirs.clusters().join(format!("{name}.lock")));
    ExitCode::SUCCESS
}
