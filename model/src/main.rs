//! `cargo dev check-model`: searches the worlds and prints a line for each.

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use baton_model::{
    report,
    search::{SearchResult, search},
    world::World,
    worlds,
};
use clap::Parser;

/// Search small worlds of revisions and objects completely, with all orders of events.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo dev check-model", version, max_term_width = 110)]
struct Cli {
    /// Search all worlds, not only those that take a few minutes.
    #[arg(long)]
    full: bool,
    /// Search only worlds with this text in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Number of worlds that are searched in parallel.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Maximum number of states of a world; the search of a larger world is incomplete, and fails.
    #[arg(long, default_value_t = 100_000_000)]
    limit: usize,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut worlds = if cli.full {
        worlds::full()
    } else {
        worlds::quick()
    };
    worlds.retain(|world| {
        cli.only
            .as_ref()
            .is_none_or(|text| world.name.contains(text))
    });
    if worlds.is_empty() {
        eprintln!("no world has such a name");
        return ExitCode::FAILURE;
    }
    let begin = Instant::now();
    let found = search_all(&worlds, &cli);
    print!("{}", report::table(&found));
    eprintln!(
        "{} worlds in {:.0} s",
        found.len(),
        begin.elapsed().as_secs_f64()
    );
    for (world, found) in &found {
        for problem in report::problems(world, found) {
            println!("\n{problem}");
        }
    }
    if found
        .iter()
        .all(|(world, found)| report::problems(world, found).is_empty())
    {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Searches worlds in parallel; returns the results in the order of the worlds.
fn search_all(worlds: &[World], cli: &Cli) -> Vec<(World, SearchResult)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..cli.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(world) = worlds.get(index) else {
                        return;
                    };
                    let result = search(world.clone(), cli.limit);
                    eprintln!(
                        "{}: {} states in {:.1} s",
                        world.name,
                        result.states,
                        result.time.as_secs_f64()
                    );
                    found
                        .lock()
                        .expect("no thread panics")
                        .push((index, result));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics");
    found.sort_by_key(|(index, _)| *index);
    found
        .into_iter()
        .map(|(index, found)| (worlds[index].clone(), found))
        .collect()
}
