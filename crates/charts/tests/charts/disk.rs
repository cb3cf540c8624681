//! A disk that cannot be written to, and a folder at its limit.

use std::time::{Duration, Instant};

use baton_charts::{Charts, Error};

use crate::fixtures::Fixture;

/// Number of calls while the disk fails.
const CALLS: usize = 30;

/// Calls until a call succeeds: after a failed write, the next attempt has to wait.
async fn eventually<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    let started = Instant::now();
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls many times, and returns the requests that this has caused, and the error.
async fn calls(fixture: &Fixture, charts: &Charts) -> (usize, String) {
    let chart = fixture.chart("0.0.1");
    let before = fixture.repository.requests().len();
    let mut texts = Vec::new();
    for _ in 0..CALLS {
        texts.push(charts.archive(&chart).await.unwrap_err().to_string());
    }
    // A condition with this text is written once.
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    (
        fixture.repository.requests().len() - before,
        texts.remove(0),
    )
}

#[tokio::test]
async fn an_index_is_not_fetched_in_a_loop_while_the_disk_fails() {
    let mut fixture = Fixture::new().await;
    // A file is in the place of the folder.
    fixture.settings.cache = fixture.cache.path().join("file");
    std::fs::write(&fixture.settings.cache, "").unwrap();
    let charts = fixture.fresh();
    let (requests, error) = calls(&fixture, &charts).await;
    assert!(requests <= 3, "{requests} requests");
    let cause = format!("cannot write to {}: ", fixture.settings.cache.display());
    assert!(error.contains(&cause), "{error}");

    std::fs::remove_file(&fixture.settings.cache).unwrap();
    let chart = fixture.chart("0.0.1");
    eventually(async || charts.archive(&chart).await).await;
}

#[tokio::test]
async fn an_archive_is_not_fetched_in_a_loop_while_the_disk_fails() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    charts.resolve(&fixture.chart("0.0.1")).await.unwrap();
    let mut folders = std::fs::read_dir(fixture.cache.path()).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "").unwrap();
    let (requests, error) = calls(&fixture, &charts).await;
    assert!(requests <= 3, "{requests} requests");
    let cause = format!("cannot write to {}: ", fixture.cache.path().display());
    assert!(error.contains(&cause), "{error}");

    std::fs::remove_file(&folder).unwrap();
    let chart = fixture.chart("0.0.1");
    eventually(async || charts.archive(&chart).await).await;
}

/// The bytes of all files in the folder, in whole blocks.
fn bytes(fixture: &Fixture) -> u64 {
    let folders = std::fs::read_dir(fixture.cache.path()).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let lengths = files.map(|file| file.unwrap().metadata().unwrap().len());
    lengths.map(|length| length.div_ceil(4096) * 4096).sum()
}

/// A tenant who names many charts does not fill the disk, and a chart that others use stays.
#[tokio::test]
async fn a_folder_of_many_charts_stays_within_its_limit() {
    const LIMIT: u64 = 20 * 4096;
    let mut fixture = Fixture::new().await;
    fixture.limits.folder = LIMIT;
    let names: Vec<_> = (0..30).map(|at| format!("chart-{at}")).collect();
    let added: Vec<_> = names.iter().map(|name| fixture.add(name, &[])).collect();
    let charts = fixture.charts();
    let used = fixture.chart("0.0.1");
    for chart in &added {
        charts.archive(chart).await.unwrap();
        assert!(bytes(&fixture) <= LIMIT, "{}", bytes(&fixture));
        charts.archive(&used).await.unwrap();
    }
    let count = |name: &str| fixture.repository.requests_for(&format!("/{name}.tgz"));
    assert_eq!(count("test-nginx-0.0.1"), 1);
    // A restart changes nothing. A removed archive is fetched again.
    let charts = fixture.charts();
    for name in ["chart-29", "chart-0"] {
        let chart = added.iter().find(|chart| chart.name == name).unwrap();
        charts.archive(chart).await.unwrap();
    }
    assert_eq!((count("chart-29-1.0.0"), count("chart-0-1.0.0")), (1, 2));
    assert!(bytes(&fixture) <= LIMIT, "{}", bytes(&fixture));
}
