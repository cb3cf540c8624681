//! Resolution of versions, while repositories respond, lie, are slow or gone.

use std::time::{Duration, Instant};

use baton_apis::conditions::Reason;
use baton_charts::Error;
use baton_hack::charts::Fault;
use baton_releases::resolution::Cause;
use baton_releases::scheduling::error::ScheduleError;

use crate::fixtures::{Fixture, chart};

#[tokio::test]
async fn ranges_have_the_highest_version() {
    let fixture = Fixture::new().await;
    fixture.repository.add("test-nginx", "0.0.3", vec![]);
    let charts = fixture.charts();
    for (range, version) in [
        ("=0.0.1", "0.0.1"),
        (">=0.0.1", "0.0.3"),
        (">0.0.1", "0.0.3"),
        ("<=0.0.2", "0.0.2"),
        ("", "0.0.3"),
    ] {
        assert_eq!(
            charts.resolve(&fixture.chart(range)).await.unwrap(),
            version
        );
    }
    assert_eq!(fixture.repository.requests_for("/charts/index.yaml"), 1);
}

#[tokio::test]
async fn missing_charts_and_versions_have_the_messages_of_the_contract() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    let url = fixture.repository.url();
    let none = charts.resolve(&chart(&url, "none", "1")).await.unwrap_err();
    assert_eq!(none.cause, Cause::NoSuchChart);
    assert!(
        none.to_string().ends_with(": no chart name found"),
        "{none}"
    );
    let none = charts.resolve(&fixture.chart("1.0.0")).await.unwrap_err();
    assert!(
        none.to_string().ends_with(": no chart version found"),
        "{none}"
    );
    let improper = charts.resolve(&fixture.chart("x y")).await.unwrap_err();
    assert!(
        improper.to_string().ends_with(": improper constraint: x y"),
        "{improper}"
    );

    let error = charts.archive(&fixture.chart("1.0.0")).await.unwrap_err();
    assert!(matches!(error, Error::NoSuchVersion(_)), "{error:?}");
    assert!(!error.is_permanent());
    let error = charts.archive(&fixture.chart("x y")).await.unwrap_err();
    assert!(error.is_permanent(), "{error:?}");
    let error = charts
        .archive(&chart("charts", "a", "1"))
        .await
        .unwrap_err();
    let text = "internal chart repo client error: parse \"charts\": relative URL without a base";
    assert_eq!(error.to_string(), text);
    assert_eq!(
        ScheduleError::from(error).reason(),
        Reason::ChartRepoInternal
    );
}

#[tokio::test]
async fn a_response_without_an_index_is_refused() {
    for (fault, text) in [
        (
            Fault::EmptyBody,
            "failed to load index file: no index content",
        ),
        (
            Fault::Status(503),
            "bad response code: 503 Service Unavailable (503)",
        ),
    ] {
        let mut fixture = Fixture::new().await;
        let charts = fixture.fresh();
        fixture.repository.fail(fault.clone());
        let url = fixture.repository.url();
        let error = charts.versions(&url, "test-nginx").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("failed to get chart repo index: {text}")
        );
        assert_eq!(
            ScheduleError::from(error).reason(),
            Reason::NoCachedChartRepoIndex
        );
        // When the repository responds, its index is used, and later failures do not remove it.
        fixture.repository.recover();
        let versions = charts.versions(&url, "test-nginx").await.unwrap();
        assert_eq!(versions.as_deref().unwrap_or_default().len(), 2);
        fixture.repository.fail(fault);
        for _ in 0..2 {
            assert_eq!(charts.versions(&url, "test-nginx").await.unwrap(), versions);
        }
        // A newer index may have the version, so the failure is named.
        let error = charts.resolve(&fixture.chart(">9")).await.unwrap_err();
        assert!(!error.is_permanent());
        let text = format!(
            ": no chart version found in the last index, and the repository has failed since: {text}"
        );
        assert!(error.to_string().ends_with(&text), "{error}");
    }
}

#[tokio::test]
async fn an_index_without_charts_replaces_none_with_charts() {
    let mut fixture = Fixture::new().await;
    let charts = fixture.fresh();
    let url = fixture.repository.url();
    fixture.repository.fail(Fault::NoEntries);
    assert_eq!(charts.versions(&url, "test-nginx").await.unwrap(), None);
    fixture.repository.recover();
    assert!(charts.versions(&url, "test-nginx").await.unwrap().is_some());
    fixture.repository.fail(Fault::NoEntries);
    assert!(charts.versions(&url, "test-nginx").await.unwrap().is_some());
}

#[tokio::test]
async fn a_repository_that_never_answers_is_an_error_after_a_timeout() {
    let mut fixture = Fixture::new().await;
    fixture.limits.first_index = Duration::from_millis(300);
    let charts = fixture.charts();
    fixture
        .repository
        .fail(Fault::Slow(Duration::from_hours(1)));
    let started = Instant::now();
    let error = charts
        .versions(&fixture.repository.url(), "test-nginx")
        .await
        .unwrap_err();
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(
        error.to_string(),
        "failed to get chart repo index and there is no index in cache: no response from chart repo yet"
    );
    assert_eq!(
        ScheduleError::from(error).reason(),
        Reason::NoCachedChartRepoIndex
    );
}

#[tokio::test]
async fn the_last_good_index_is_used_while_a_repository_is_slow() {
    let mut fixture = Fixture::new().await;
    let url = fixture.repository.url();
    let versions = fixture.charts().versions(&url, "test-nginx").await.unwrap();
    fixture.limits.first_index = Duration::from_millis(300);
    fixture.limits.request = Duration::from_millis(600);
    let charts = fixture.fresh();
    fixture
        .repository
        .fail(Fault::Slow(Duration::from_hours(1)));
    // While the request is running, and after it has failed.
    while fixture.repository.requests_for("/charts/index.yaml") < 3 {
        assert_eq!(charts.versions(&url, "test-nginx").await.unwrap(), versions);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn concurrent_calls_share_one_request() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    fixture
        .repository
        .fail(Fault::Slow(Duration::from_millis(100)));
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (charts, chart) = (charts.clone(), fixture.chart("0.0.1"));
            tokio::spawn(async move { charts.archive(&chart).await })
        })
        .collect();
    for asking in asking {
        asking.await.unwrap().unwrap();
    }
    assert_eq!(fixture.repository.requests_for("/charts/index.yaml"), 1);
    assert_eq!(fixture.repository.requests_for(".tgz"), 1);
}

#[tokio::test]
async fn added_and_removed_versions_are_observed() {
    let mut fixture = Fixture::new().await;
    let charts = fixture.fresh();
    let newest = fixture.chart(">0");
    assert_eq!(charts.resolve(&newest).await.unwrap(), "0.0.2");
    fixture.repository.add("test-nginx", "0.1.0", vec![]);
    assert_eq!(charts.resolve(&newest).await.unwrap(), "0.1.0");
    fixture.repository.fail(Fault::Lost {
        name: "test-nginx".into(),
        version: "0.1.0".into(),
    });
    assert_eq!(charts.resolve(&newest).await.unwrap(), "0.0.2");
}

#[tokio::test]
async fn an_index_survives_an_outage_and_a_restart() {
    let fixture = Fixture::new().await;
    let chart = fixture.chart(">=0.0.1");
    assert_eq!(fixture.charts().resolve(&chart).await.unwrap(), "0.0.2");
    fixture.repository.fail(Fault::Down);
    assert_eq!(fixture.charts().resolve(&chart).await.unwrap(), "0.0.2");
    // A broken copy has the same effect as none.
    for folder in std::fs::read_dir(fixture.cache.path()).unwrap() {
        std::fs::write(folder.unwrap().path().join("index.json"), "{").unwrap();
    }
    let error = fixture.charts().resolve(&chart).await.unwrap_err();
    assert!(matches!(error.cause, Cause::Repository(_)), "{error}");
}

#[tokio::test]
async fn tags_of_a_registry_are_versions() {
    let fixture = Fixture::new().await;
    fixture.repository.add("test-nginx", "0.0.3+build", vec![]);
    let url = fixture.repository.registry();
    let charts = fixture.charts();
    let versions = charts.versions(&url, "test-nginx").await.unwrap();
    assert_eq!(versions.unwrap(), ["0.0.1", "0.0.2", "0.0.3+build"]);
    assert_eq!(charts.versions(&url, "none").await.unwrap(), None);
    assert_eq!(charts.versions(&url, "../other").await.unwrap(), None);
}
