//! Renderings of charts, with the pinned helm.

use std::num::NonZeroUsize;
use std::time::Duration;

use baton_apis::{Chart, conditions::Reason};
use baton_charts::{Charts, Error, Rendering};
use baton_releases::chart::{chart_request, workloads::Scalable};
use baton_releases::scheduling::error::ScheduleError;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use crate::fixtures::Fixture;

async fn render(charts: &Charts, chart: &Chart, values: &Value) -> Result<Vec<Value>, Error> {
    let values = values.clone().into();
    let rendering = Rendering {
        chart,
        values: Some(&values),
        name: "shop-1",
        namespace: "shop",
    };
    let documents = charts.render(rendering).await?;
    Ok(documents.objects)
}

/// A rendering takes all memory, and then waits for another process without its objects.
#[tokio::test]
async fn the_objects_of_a_rendering_take_no_memory_while_it_waits() {
    let mut fixture = Fixture::new().await;
    fixture.settings.memory = 64 << 10;
    let charts = fixture.charts();
    let chart = fixture.chart("0.0.1");
    let rendering = |namespace: &'static str| Rendering {
        chart: &chart,
        values: None,
        name: "shop-1",
        namespace,
    };
    let first = charts.render(rendering("shop")).await.unwrap();
    let objects = first.objects.clone();
    let second = charts.render(rendering("other"));
    tokio::pin!(second);
    let waits = tokio::time::timeout(Duration::from_secs(3), &mut second).await;
    assert!(waits.is_err(), "there is no memory");
    let rendered = first.into_rendered();
    second.await.unwrap();
    let again = charts.read(rendered).await.unwrap();
    assert_eq!(again.objects, objects);
}

/// The reason that a chart is not rendered.
async fn refused(fixture: &Fixture, chart: &Chart) -> String {
    let error = render(&fixture.charts(), chart, &json!({}))
        .await
        .unwrap_err();
    assert!(error.is_permanent(), "{error:?}");
    let Error::Broken { cause, .. } = &error else {
        panic!("{error:?}");
    };
    let cause = cause.clone();
    let error = ScheduleError::from(error);
    assert_eq!(error.reason(), Reason::BrokenChartSpec);
    assert!(
        error
            .to_string()
            .starts_with("broken shipper chart spec [name: "),
        "{error}"
    );
    cause
}

#[tokio::test]
async fn the_charts_of_the_contract_render() {
    let fixture = Fixture::new().await;
    let charts = fixture.charts();
    for version in ["0.0.1", "0.0.2"] {
        let chart = fixture.chart(version);
        let values = json!({"replicaCount": 4, "image": {"tag": "a"}, "nameOverride": "web"});
        let objects = render(&charts, &chart, &values).await.unwrap();
        let named = |kind: &str| {
            objects
                .iter()
                .find(|object| object["kind"] == kind)
                .unwrap()
        };
        assert_eq!(objects.len(), 2);
        let deployment = named("Deployment");
        assert_eq!(deployment["metadata"]["name"], "shop-1-web");
        assert_eq!(deployment["spec"]["replicas"], 4);
        let template = &deployment["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["version"], version);
        assert_eq!(template["spec"]["containers"][0]["image"], "nginx:a");
        let service = named("Service");
        assert_eq!(service["metadata"]["name"], "web-prod");
        assert_eq!(service["metadata"]["labels"]["shipper-lb"], "production");
        let request = chart_request(objects, &chart, &Scalable::default());
        let total = request.map(|request| request.replicas);
        assert_eq!(total.unwrap(), 4);
    }
    let objects = render(&charts, &fixture.chart("0.0.1"), &Value::Null)
        .await
        .unwrap();
    let names: Vec<_> = objects
        .iter()
        .map(|object| &object["metadata"]["name"])
        .collect();
    assert_eq!(names, ["test-nginx-prod", "shop-1-test-nginx"]);
}

#[tokio::test]
async fn every_yaml_document_of_a_template_becomes_an_object() {
    let fixture = Fixture::new().await;
    let chart = fixture.add(
        "all",
        &[
            ("crds/crd.yaml", "kind: Crd\n---\nkind: Other\n"),
            (
                "templates/hook.yaml",
                "kind: Hook\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\n",
            ),
            (
                "templates/several.yml",
                "kind: A\n---\nkind: B\nmode: 0644\n---\n# none\n",
            ),
            ("templates/odd.txt", "kind: Text\n"),
            ("templates/NOTES.txt", "Thank you"),
            (
                "templates/release.yaml",
                "kind: Release\nname: {{ .Release.Name }}\nnamespace: {{ .Release.Namespace }}\n\
                 install: {{ .Release.IsInstall }}\n",
            ),
        ],
    );
    let objects = render(&fixture.charts(), &chart, &json!({})).await.unwrap();
    let mut kinds: Vec<_> = objects
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["A", "B", "Crd", "Hook", "Other", "Release"]);
    let of = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    };
    assert_eq!(of("B")["mode"], 420);
    let release =
        json!({"kind": "Release", "name": "shop-1", "namespace": "shop", "install": true});
    assert_eq!(*of("Release"), release);
}

#[tokio::test]
async fn dependencies_in_the_archive_are_rendered() {
    let fixture = Fixture::new().await;
    let dependency = "dependencies:\n- {name: sub, version: 1.0.0, repository: 'https://none', \
                      condition: sub.on}\n";
    let sub = [
        (
            "charts/sub/Chart.yaml",
            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
        ),
        ("charts/sub/values.yaml", "word: default\n"),
        (
            "charts/sub/templates/a.yaml",
            "kind: Sub\nword: {{ .Values.word }}\n",
        ),
    ];
    for (name, metadata, requirements) in [
        (
            "two",
            format!("apiVersion: v2\nname: two\nversion: 1.0.0\n{dependency}"),
            None,
        ),
        (
            "one",
            "apiVersion: v1\nname: one\nversion: 1.0.0\n".to_owned(),
            Some(dependency),
        ),
    ] {
        let requirements = requirements.map(|text| ("requirements.yaml", text));
        let files: Vec<_> = requirements.into_iter().chain(sub).collect();
        let chart = fixture.add_with(name, &metadata, &files);
        let values = json!({"sub": {"word": "own", "on": true}});
        let objects = render(&fixture.charts(), &chart, &values).await.unwrap();
        assert_eq!(objects, [json!({"kind": "Sub", "word": "own"})]);
        let off = render(&fixture.charts(), &chart, &json!({"sub": {"on": false}})).await;
        assert_eq!(off.unwrap(), Vec::<Value>::new());
        let missing: Vec<_> = requirements.into_iter().collect();
        let chart = fixture.add_with(
            &format!("{name}-b"),
            &metadata.replace(name, &format!("{name}-b")),
            &missing,
        );
        let cause = refused(&fixture, &chart).await;
        assert!(
            cause.contains("missing in charts/ directory: sub"),
            "{cause}"
        );
    }
}

#[tokio::test]
async fn render_errors_are_reported_with_their_cause() {
    let fixture = Fixture::new().await;
    for (name, template, cause) in [
        (
            "missing",
            "a: {{ required \"a is needed\" .Values.a }}",
            "a is needed",
        ),
        ("syntax", "a: {{ if }}", "missing value for if"),
        ("yaml", "a: [1\n", "templates/a.yaml"),
        ("plain", "kind: A\na: *b\n", "templates/a.yaml"),
    ] {
        let chart = fixture.add(name, &[("templates/a.yaml", template)]);
        let found = refused(&fixture, &chart).await;
        assert!(found.contains(cause), "{found}");
        assert!(
            !found.contains("--debug") && !found.contains("render-"),
            "{found}"
        );
    }
    let chart = fixture.chart("0.0.1");
    for values in [json!([]), json!("a"), json!(1)] {
        let error = render(&fixture.charts(), &chart, &values)
            .await
            .unwrap_err();
        assert!(
            error.to_string().ends_with("]: the values are not a map"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_render_that_exceeds_a_limit_is_stopped() {
    let mut fixture = Fixture::new().await;
    fixture.limits.output = 10_000;
    let loops = "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}";
    for (name, template, seconds, cause) in [
        ("loop", loops, 2, "rendering takes more than 2 s"),
        (
            "memory",
            "a: {{ repeat 2000000000 \"a\" }}",
            60,
            "rendering takes more than 536870912 bytes of memory",
        ),
        (
            "output",
            "a: {{ repeat 1000000 \"a\" }}",
            60,
            "rendering produces more than 10000 bytes",
        ),
    ] {
        fixture.limits.render = Duration::from_secs(seconds);
        let chart = fixture.add(name, &[("templates/a.yaml", template)]);
        assert_eq!(refused(&fixture, &chart).await, cause);
        let left = std::fs::read_dir(fixture.cache.path().join("rendering")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn templates_cannot_read_hosts_secrets_or_files_of_this_machine() {
    let fixture = Fixture::new().await;
    let template = "host: {{ getHostByName \"localhost\" | quote }}\n\
                    secrets: {{ lookup \"v1\" \"Secret\" \"\" \"\" | toJson }}\n\
                    file: {{ .Files.Get \"/etc/passwd\" | quote }}\n\
                    up: {{ .Files.Get \"../../../etc/passwd\" | quote }}\n";
    let chart = fixture.add("nosy", &[("templates/a.yaml", template)]);
    let objects = render(&fixture.charts(), &chart, &json!({})).await.unwrap();
    let nothing = json!({"host": "", "secrets": {}, "file": "", "up": ""});
    assert_eq!(objects, [nothing]);
    let chart = fixture.add("env", &[("templates/a.yaml", "a: {{ env \"HOME\" }}")]);
    let cause = refused(&fixture, &chart).await;
    assert!(cause.contains("function \"env\" not defined"), "{cause}");
}

#[tokio::test]
async fn values_are_checked_against_schemas_of_the_chart_alone() {
    let fixture = Fixture::new().await;
    let schema = r#"{"type": "object", "required": ["a"]}"#;
    let template = ("templates/a.yaml", "kind: A\n");
    let chart = fixture.add("local", &[("values.schema.json", schema), template]);
    let cause = refused(&fixture, &chart).await;
    assert!(cause.contains("missing property 'a'"), "{cause}");
    render(&fixture.charts(), &chart, &json!({"a": 1}))
        .await
        .unwrap();
    let elsewhere = format!(r#"{{"$ref": "{}/schema.json"}}"#, fixture.repository.url());
    let chart = fixture.add("remote", &[("values.schema.json", &elsewhere), template]);
    render(&fixture.charts(), &chart, &json!({})).await.unwrap();
    assert_eq!(fixture.repository.requests_for("schema.json"), 0);
}

#[tokio::test]
async fn names_are_not_taken_for_options_of_helm() {
    let fixture = Fixture::new().await;
    let chart = fixture.chart("0.0.1");
    for name in ["--post-renderer=x", "-f/etc/passwd", ""] {
        let rendering = Rendering {
            chart: &chart,
            values: None,
            name,
            namespace: "--kube-context=x",
        };
        let error = fixture.charts().render(rendering).await.unwrap_err();
        assert!(error.to_string().contains("release name"), "{error}");
    }
}

#[tokio::test]
async fn charts_in_a_registry_render() {
    let fixture = Fixture::new().await;
    let chart = Chart {
        repo_url: fixture.repository.registry(),
        ..fixture.chart("0.0.2")
    };
    assert_eq!(
        render(&fixture.charts(), &chart, &json!({}))
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn renderings_take_turns() {
    let fixture = Fixture::new().await;
    let (charts, chart) = (fixture.charts(), fixture.chart("0.0.1"));
    let running: Vec<_> = (0..12)
        .map(|replicas| {
            let (charts, chart) = (charts.clone(), chart.clone());
            tokio::spawn(async move {
                let values = json!({"replicaCount": replicas});
                render(&charts, &chart, &values).await.unwrap()[1]["spec"]["replicas"].clone()
            })
        })
        .collect();
    for (replicas, running) in running.into_iter().enumerate() {
        assert_eq!(running.await.unwrap(), replicas);
    }
}

/// The part of a usual rendering does not suffice, and all memory does.
#[tokio::test]
async fn a_rendering_that_takes_more_memory_than_its_part_runs_alone() {
    let mut fixture = Fixture::new().await;
    fixture.settings.renders = NonZeroUsize::new(8).unwrap();
    let template = "apiVersion: v1\nkind: A\nmetadata: {name: {{ .Release.Name }}}\n\
                    length: {{ repeat 150000000 \"a\" | len }}";
    let chart = fixture.add("large", &[("templates/a.yaml", template)]);
    let rendered = render(&fixture.charts(), &chart, &json!({})).await;
    assert_eq!(rendered.unwrap()[0]["length"], 150_000_000);
}

/// The kernel does not refuse the first text beyond the limit, so the process has to be watched.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_large_text_takes_limited_memory() {
    const LIMIT: usize = 256 << 20;
    // Pages of the program, and those that it writes until it is killed.
    const MOST: usize = LIMIT + (128 << 20);
    let mut fixture = Fixture::new().await;
    (fixture.limits.memory, fixture.settings.renders) = (LIMIT, NonZeroUsize::MIN);
    let template = "a: {{ repeat 600000000 \"a\" }}";
    let chart = fixture.add("hungry-alone", &[("templates/a.yaml", template)]);
    let highest = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let of_helm = processes.filter(|process| {
            let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            arguments
                .split(|byte| *byte == 0)
                .any(|it| it == b"hungry-alone")
        });
        let memory = of_helm.filter_map(|process| {
            let status = std::fs::read_to_string(process.path().join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            let kibibytes: usize = line.split_whitespace().next()?.parse().ok()?;
            Some(kibibytes << 10)
        });
        memory.max().unwrap_or_default()
    };
    let mut peak = 0;
    // The memory of an attempt depends on the order of its threads.
    for _ in 0..6 {
        let charts = fixture.charts();
        let rendering = Rendering {
            chart: &chart,
            values: None,
            name: "hungry-alone",
            namespace: "default",
        };
        let mut running = std::pin::pin!(charts.render(rendering));
        let refused = loop {
            tokio::select! {
                ended = &mut running => break ended.unwrap_err(),
                () = tokio::time::sleep(Duration::from_millis(2)) => peak = peak.max(highest()),
            }
        };
        let cause = "rendering takes more than 268435456 bytes of memory";
        assert!(refused.to_string().ends_with(cause), "{refused}");
    }
    assert!((1..MOST).contains(&peak), "{} MiB", peak >> 20);
}

#[tokio::test]
async fn namespaces_take_turns() {
    let mut fixture = Fixture::new().await;
    fixture.settings.renders = NonZeroUsize::MIN;
    let (charts, chart) = (fixture.charts(), fixture.chart("0.0.1"));
    charts.archive(&chart).await.unwrap();
    // With the archive on disk, the renderings wait in the order in which they begin.
    let renderings = ["a", "a", "a", "a", "b"].map(|namespace| {
        let (charts, chart) = (&charts, &chart);
        async move {
            let rendering = Rendering {
                chart,
                values: None,
                name: "r",
                namespace,
            };
            charts.render(rendering).await.unwrap();
            namespace
        }
    });
    let running: FuturesUnordered<_> = renderings.into_iter().collect();
    let ended: Vec<_> = running.collect().await;
    // One rendering was running, and one had its turn.
    assert_eq!(ended, ["a", "a", "b", "a", "a"]);
}
