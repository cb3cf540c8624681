//! Waits until the process that started it is gone, and then ends what that one has left behind:
//! `process ID` or `bed NAME`.

use std::io::{copy, sink, stdin};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use baton_hack::bed;
use baton_hack::paths::Dirs;
use rustix::process::{Pid, Signal, kill_process};

/// How long a process that ends may take for it.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    // The other end of the pipe is never written to, so this returns when nobody holds it any more.
    let _ = copy(&mut stdin().lock(), &mut sink());
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["process", id] => {
            if let Some(pid) = id.parse().ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
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
    // The process that is ending closes the pipe before it gives the bed back.
    let asked = Instant::now();
    while let Err(error) = bed::down(&dirs, &name) {
        if asked.elapsed() > PATIENCE {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
        sleep(Duration::from_millis(20));
    }
    // Nobody takes a bed of this name again.
    let _ = std::fs::remove_file(dirs.clusters().join(format!("{name}.lock")));
    ExitCode::SUCCESS
}
