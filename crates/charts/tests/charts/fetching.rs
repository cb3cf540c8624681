//! Archives: which ones are fetched, from which hosts, and which are refused.

use std::time::Duration;

use baton_apis::conditions::Reason;
use baton_charts::{Credentials, Error};
use baton_hack::charts::{Fault, Repository, pack_files};
use baton_hack::paths::Dirs;
use baton_releases::scheduling::error::ScheduleError;

use crate::fixtures::{Fixture, chart};

fn private_repository() -> (Fault, Credentials) {
    let (username, password) = ("reader".to_owned(), "secret".to_owned());
    let fault = Fault::Private {
        username: username.clone(),
        password: password.clone(),
    };
    (fault, Credentials::Basic { username, password })
}

/// The files in the folder of a repository.
fn cached_files(fixture: &Fixture) -> Vec<String> {
    let folders = std::fs::read_dir(fixture.cache.path()).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_archive_is_fetched_only_once() {
    let fixture = Fixture::new().await;
    let chart = fixture.chart("0.0.1");
    let path = fixture.charts().archive(&chart).await.unwrap();
    assert!(path.ends_with("test-nginx-0.0.1.tgz"), "{}", path.display());
    assert_eq!(
        cached_files(&fixture),
        ["index.json", "test-nginx-0.0.1.tgz"]
    );
    let requests = fixture.repository.requests().len();
    fixture.repository.fail(Fault::Down);
    assert_eq!(fixture.charts().archive(&chart).await.unwrap(), path);
    assert_eq!(fixture.repository.requests().len(), requests);
}

#[tokio::test]
async fn a_failed_fetch_is_reported_with_its_url() {
    let mut fixture = Fixture::new().await;
    let charts = fixture.fresh();
    charts.resolve(&fixture.chart("0.0.1")).await.unwrap();
    fixture.repository.fail(Fault::Elsewhere(format!(
        "{}/none",
        fixture.repository.url()
    )));
    let error = charts.archive(&fixture.chart("0.0.1")).await.unwrap_err();
    let url = format!("{}/none/test-nginx-0.0.1.tgz", fixture.repository.url());
    assert_eq!(
        error.to_string(),
        format!(
            "failed to fetch chart [name: \"test-nginx\", version: \"0.0.1\", repo: \"{url}\"]: \
             bad response code: 404 Not Found (404)"
        )
    );
    assert!(!error.is_permanent());
    assert_eq!(
        ScheduleError::from(error).reason(),
        Reason::ChartFetchFailure
    );
}

#[tokio::test]
async fn an_archive_with_a_wrong_digest_is_refused() {
    for registry in [false, true] {
        let mut fixture = Fixture::new().await;
        let charts = fixture.fresh();
        fixture.repository.fail(Fault::WrongDigest);
        let mut chart = fixture.chart("0.0.1");
        if registry {
            chart.repo_url = fixture.repository.registry();
        }
        let error = charts.archive(&chart).await.unwrap_err();
        assert!(matches!(error, Error::Fetch { .. }), "{error:?}");
        assert!(error.to_string().contains(": its digest is "), "{error}");
        assert!(
            !cached_files(&fixture)
                .iter()
                .any(|name| name.contains("tgz") || name.contains("new"))
        );
        // The right digest is accepted later.
        fixture.repository.recover();
        charts.archive(&chart).await.unwrap();
    }
}

#[tokio::test]
async fn an_archive_without_the_chart_is_a_permanent_error() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    fixture
        .repository
        .add("words", "1.0.0", b"no archive".to_vec());
    let files = [(
        "other/Chart.yaml".as_ref(),
        &b"name: other\nversion: 1.0.0\n"[..],
    )];
    fixture
        .repository
        .add("changed", "1.0.0", pack_files(files.into_iter()).unwrap());
    for (name, cause) in [
        ("words", "cannot read the archive: "),
        (
            "changed",
            "it contains the chart \"other\" in version \"1.0.0\"",
        ),
    ] {
        let url = fixture.repository.url();
        let error = charts
            .archive(&chart(&url, name, "1.0.0"))
            .await
            .unwrap_err();
        let text = format!(
            "chart [name: \"{name}\", version: \"1.0.0\", repo: \"{url}\"] data is corrupted: {cause}"
        );
        assert!(error.to_string().starts_with(&text), "{error}");
        assert!(error.is_permanent());
        assert_eq!(ScheduleError::from(error).reason(), Reason::BrokenChartSpec);
    }
    assert_eq!(cached_files(&fixture), ["index.json"]);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let mut fixture = Fixture::new().await;
    fixture.limits.packed = 100;
    let error = fixture
        .charts()
        .archive(&fixture.chart("0.0.1"))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the response has more than 100 bytes"),
        "{error}"
    );
    fixture.limits.packed = 1 << 20;
    fixture.limits.unpacked = 100;
    let error = fixture
        .charts()
        .archive(&fixture.chart("0.0.1"))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("unpacks to more than 100 bytes"),
        "{error}"
    );
    fixture.limits.index = 100;
    let other = chart(&fixture.repository.url(), "other", "1");
    let mut fixture_without_index = Fixture::new().await;
    fixture_without_index.limits.index = 100;
    let other = baton_apis::Chart {
        repo_url: fixture_without_index.repository.url(),
        ..other
    };
    let error = fixture_without_index
        .charts()
        .archive(&other)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the response has more than 100 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn credentials_open_a_repository() {
    let mut fixture = Fixture::new().await;
    let charts = fixture.fresh();
    let (fault, credentials) = private_repository();
    fixture.repository.fail(fault);
    let error = charts.archive(&fixture.chart("0.0.1")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("bad response code: 401 Unauthorized (401)"),
        "{error}"
    );
    *fixture.credentials.lock().unwrap() = Some(credentials);
    charts.archive(&fixture.chart("0.0.1")).await.unwrap();
}

#[tokio::test]
async fn credentials_open_a_registry() {
    let mut fixture = Fixture::new().await;
    let charts = fixture.fresh();
    let (fault, credentials) = private_repository();
    fixture.repository.fail(fault);
    let chart = chart(&fixture.repository.registry(), "test-nginx", "0.0.2");
    let error = charts.archive(&chart).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("bad response code: 401 Unauthorized (401)"),
        "{error}"
    );
    *fixture.credentials.lock().unwrap() = Some(credentials);
    charts.archive(&chart).await.unwrap();
    fixture.repository.recover();
    *fixture.credentials.lock().unwrap() = None;
    let other = baton_apis::Chart {
        version: "0.0.1".into(),
        ..chart
    };
    charts.archive(&other).await.unwrap();
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_host() {
    let (fault, credentials) = private_repository();
    let other = Repository::start(&Dirs::from_env().unwrap()).await.unwrap();
    for elsewhere in [Fault::Elsewhere(other.url()), Fault::Redirect(other.url())] {
        let fixture = Fixture::new().await;
        *fixture.credentials.lock().unwrap() = Some(credentials.clone());
        fixture.repository.fail(fault.clone());
        fixture.repository.fail(elsewhere);
        let before = other.requests().len();
        fixture
            .charts()
            .archive(&fixture.chart("0.0.1"))
            .await
            .unwrap();
        let requests = other.requests().split_off(before);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].authorization, None);
    }
}

/// The target of the redirect needs the credentials, and has the same host.
#[tokio::test]
async fn credentials_are_not_sent_along_a_redirect() {
    let (fault, credentials) = private_repository();
    let fixture = Fixture::new().await;
    *fixture.credentials.lock().unwrap() = Some(credentials);
    fixture.repository.fail(fault);
    let moved = format!("{}/moved", fixture.repository.url());
    fixture.repository.fail(Fault::Redirect(moved));
    let error = fixture.charts().archive(&fixture.chart("0.0.1")).await;
    let error = error.unwrap_err().to_string();
    let cause = "after a redirect, along which no credentials are sent";
    assert!(error.ends_with(cause), "{error}");
    let requests = fixture.repository.requests();
    let sent: Vec<_> = requests
        .iter()
        .map(|request| (&*request.path, request.authorization.is_some()))
        .collect();
    assert_eq!(
        sent,
        [
            ("/charts/index.yaml", true),
            ("/charts/test-nginx-0.0.1.tgz", true),
            ("/charts/moved/test-nginx-0.0.1.tgz", false),
        ]
    );
}

#[tokio::test]
async fn an_endless_redirect_is_refused() {
    let fixture = Fixture::new().await;
    fixture
        .repository
        .fail(Fault::Redirect(fixture.repository.url()));
    let error = fixture
        .charts()
        .archive(&fixture.chart("0.0.1"))
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("too many redirects"), "{error}");
}

#[tokio::test]
async fn an_archive_that_is_damaged_on_disk_is_fetched_again() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    let chart = fixture.chart("0.0.1");
    let path = charts.archive(&chart).await.unwrap();
    std::fs::write(&path, "damaged").unwrap();
    let rendering = baton_charts::Rendering {
        chart: &chart,
        values: None,
        name: "r",
        namespace: "ns",
    };
    let error = charts.render(rendering).await.unwrap_err();
    assert!(error.to_string().ends_with("; it is removed"), "{error}");
    assert!(!error.is_permanent());
    assert_eq!(charts.render(rendering).await.unwrap().len(), 2);
}

/// All archives are in one repository.
#[tokio::test]
async fn a_namespace_with_many_archives_delays_nobody_else() {
    const ARCHIVES: usize = 80;
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    let all: Vec<_> = (0..ARCHIVES)
        .map(|at| fixture.add(&format!("chart{at}"), &[]))
        .collect();
    charts.resolve(&all[0]).await.unwrap();
    fixture
        .repository
        .fail(Fault::Slow(Duration::from_millis(300)));
    let (last, others) = all.split_last().unwrap();
    let fetches: Vec<_> = others
        .iter()
        .map(|chart| {
            let (tenant, chart) = (charts.of("tenant"), chart.clone());
            tokio::spawn(async move { tenant.archive(&chart).await.unwrap() })
        })
        .collect();
    while fixture.repository.requests_for(".tgz") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    charts.of("other").archive(last).await.unwrap();
    let waiting = fetches.iter().filter(|fetch| !fetch.is_finished()).count();
    assert!(waiting > ARCHIVES / 3, "{waiting} of {ARCHIVES}");
}
