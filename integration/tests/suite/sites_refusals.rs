//! Invalid specs of sites. The API server refuses those that the schema covers; the status reports
//! all others.

use baton_integration::application::reason;
use baton_integration::fleet::{APPLICATION, Fleet, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};

/// A field of a valid spec, an invalid value for it, and parts of the expected message.
type Case = (&'static str, Value, &'static str);

/// Returns a text with this number of characters.
fn long(length: usize) -> Value {
    "x".repeat(length).into()
}

/// Returns the cases of one field.
fn of<const N: usize>(field: &'static str, values: [(Value, &'static str); N]) -> Vec<Case> {
    let case = |(value, expected)| (field, value, expected);
    values.into_iter().map(case).collect()
}

/// Returns the spec with another value for a field, or without the field if the value is `null`.
fn changed(spec: &Value, pointer: &str, value: Value) -> Value {
    let mut spec = spec.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(field).unwrap();
    } else {
        parent.insert(field.to_owned(), value);
    }
    spec
}

/// Creates an object with this spec.
async fn ask(ns: &TestNamespace, like: &Entry, spec: Value) -> Result<Value, Refused> {
    let entry = like.clone().with("/spec", spec);
    ns.cluster().create(&ns.reference(&entry)).await
}

/// Fails unless the server refuses each of the cases and accepts the unchanged spec.
async fn assert_refused(ns: &TestNamespace, like: &Entry, valid: &Value, cases: Vec<Case>) {
    for (pointer, value, expected) in cases {
        let what: String = format!("{pointer}: {value}").chars().take(100).collect();
        let answer = ask(ns, like, changed(valid, pointer, value)).await;
        let refused = answer.expect_err(&what);
        assert_eq!(refused.reason, "Invalid", "{what}: {refused:?}");
        for part in expected.split(" .. ") {
            assert!(
                refused.message.contains(part),
                "{what}: {part:?} in {refused:?}"
            );
        }
    }
    ask(ns, like, valid.clone()).await.unwrap();
}

/// The names become values of labels, so their length is limited.
async fn assert_name_is_refused(ns: &TestNamespace, kind: &str, valid: Value) {
    let named = Fleet::kind(kind, &"x".repeat(64));
    let refused = ask(ns, &named, valid).await.unwrap_err();
    let text = "the name must have at most 63 characters";
    assert!(refused.message.contains(text), "{refused:?}");
}

/// Returns the cases of upgrade windows, for the kinds that have them.
fn windows() -> Vec<Case> {
    let one = |field: &str, value: Value| {
        let window = json!({ "cron": "0 1 * * *", "duration": "1h", "timeZone": "UTC" });
        json!([changed(&window, &format!("/{field}"), value)])
    };
    let many: Vec<_> = (0..51)
        .map(|_| json!({ "cron": "@daily", "duration": "1h" }))
        .collect();
    let duration = "spec.upgradeWindows[0].duration .. should match";
    of(
        "/upgradeWindows",
        [
            (many.into(), "spec.upgradeWindows: Too many: 51"),
            (
                one("cron", Value::Null),
                "spec.upgradeWindows[0].cron: Required",
            ),
            (
                one("cron", "".into()),
                "spec.upgradeWindows[0].cron .. at least 1 char",
            ),
            (
                one("cron", long(257)),
                "spec.upgradeWindows[0].cron: Too long",
            ),
            (
                one("cron", 5.into()),
                "spec.upgradeWindows[0].cron .. must be of type string",
            ),
            (
                one("duration", Value::Null),
                "spec.upgradeWindows[0].duration: Required",
            ),
            (one("duration", "1 hour".into()), duration),
            (one("duration", "-1h".into()), duration),
            (one("duration", "90".into()), duration),
            (one("duration", "1.5h".into()), duration),
            (one("duration", "30m1h".into()), duration),
            (
                one("duration", format!("{}h", "0".repeat(32)).into()),
                "spec.upgradeWindows[0].duration: Too long",
            ),
            (
                one("timeZone", "".into()),
                "spec.upgradeWindows[0].timeZone .. at least 1 char",
            ),
            (
                one("timeZone", long(65)),
                "spec.upgradeWindows[0].timeZone: Too long",
            ),
        ],
    )
}

fn services() -> Vec<Case> {
    let one = |name: Value| json!([{ "name": name }]);
    let many: Vec<_> = (0..1001)
        .map(|at| json!({ "name": format!("s{at}") }))
        .collect();
    let of_kind = |method: &str| json!({ "name": "web", "method": method });
    of(
        "/upgrade/services",
        [
            (many.into(), "spec.upgrade.services: Too many: 1001"),
            (json!([{}]), "spec.upgrade.services[0].name: Required"),
            (
                one("".into()),
                "spec.upgrade.services[0].name .. at least 1 char",
            ),
            (
                one("a b".into()),
                "spec.upgrade.services[0].name .. should match",
            ),
            (one(long(64)), "spec.upgrade.services[0].name: Too long"),
            (
                json!([of_kind("Recreate")]),
                "spec.upgrade.services[0].method: Unsupported value: \"Recreate\"",
            ),
            (
                json!([of_kind("Rolling"), of_kind("StopAndRestart")]),
                "spec.upgrade.services[1]: Duplicate value",
            ),
        ],
    )
}

#[tokio::test]
async fn invalid_applications_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut valid = version("1.2.3-rc.1_x");
    valid["upgrade"] = json!({ "method": "PerService", "services": [{ "name": "web" }] });
    valid["upgradeWindows"] = json!([{ "cron": "@daily", "duration": "1h30m" }]);
    let mut cases = vec![
        ("/version", Value::Null, "spec.version: Required"),
        ("/version", "".into(), "spec.version .. at least 1 char"),
        ("/version", long(64), "spec.version: Too long .. 63"),
        (
            "/version",
            "1.2 beta".into(),
            "spec.version .. should match",
        ),
        ("/version", "1.2-".into(), "spec.version .. should match"),
        ("/template", Value::Null, "spec.template: Required"),
        (
            "/template/spec",
            Value::Null,
            "spec.template.spec: Required",
        ),
        (
            "/upgrade/method",
            "Recreate".into(),
            "spec.upgrade.method: Unsupported value: \"Recreate\"",
        ),
        (
            "/upgrade/method",
            "StopAndRestart".into(),
            "spec.upgrade.services .. services are for method PerService",
        ),
    ];
    cases.extend(services());
    cases.extend(windows());
    let like = Fleet::kind("SiteApplication", APPLICATION);
    assert_refused(&ns, &like, &valid, cases).await;
    assert_name_is_refused(&ns, "SiteApplication", valid).await;
}

#[tokio::test]
async fn clusters_with_invalid_windows_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let like = object(
        "shipper.booking.com/v1alpha1",
        "Cluster",
        &ns.unique("windows"),
    );
    let window = json!({ "cron": "0 1 * * SAT", "duration": "3h", "timeZone": "Europe/Berlin" });
    let valid = json!({ "region": "tests", "connection": "Pull", "upgradeWindows": [window] });
    assert_refused(&ns, &like, &valid, windows()).await;
    ns.cluster().delete(&like.manifest, "Background").await;
}

fn placements() -> Vec<Case> {
    let selector = |expressions: Value| json!({ "selector": { "matchExpressions": expressions } });
    let many = vec![json!({ "key": "a", "operator": "Exists" }); 65];
    let one = "spec.placement .. set exactly one of matchSiteLabels and selector";
    let operator = "spec.placement.selector .. operator must be In or NotIn";
    of(
        "/placement",
        [
            (Value::Null, "spec.placement: Required"),
            (json!({}), one),
            (
                json!({ "matchSiteLabels": "a exists", "selector": {} }),
                one,
            ),
            (
                json!({ "matchSiteLabels": long(4097) }),
                "spec.placement.matchSiteLabels: Too long",
            ),
            (
                selector(many.into()),
                "spec.placement.selector.matchExpressions: Too many",
            ),
            (
                selector(json!([{ "key": "a", "operator": "Like", "values": ["b"] }])),
                operator,
            ),
            (
                selector(json!([{ "key": "a", "operator": "In" }])),
                operator,
            ),
            (
                selector(json!([{ "key": "a", "operator": "Exists", "values": ["b"] }])),
                operator,
            ),
        ],
    )
}

fn waves() -> Vec<Case> {
    let canary = |canary: Value| json!({ "type": "Canary", "canary": canary });
    let rolling =
        |sites: Value| json!({ "type": "Rolling", "rolling": { "sitesInParallel": sites } });
    let two = json!({ "sitesInParallel": 2 });
    let no_canary = "spec.strategy.canary .. canary is required for type Canary, and for no other";
    let no_rolling =
        "spec.strategy.rolling .. rolling is required for type Rolling and for canary.then Rolling";
    let one = "spec.strategy.canary .. set exactly one of sites and matchSiteLabels";
    let sites = "spec.strategy.canary.sites .. greater than or equal to 1";
    let parallel = "spec.strategy.rolling.sitesInParallel .. must be at least 1, or 1% to 100%";
    of(
        "/strategy",
        [
            (
                json!({ "type": "Random" }),
                "spec.strategy.type: Unsupported value: \"Random\"",
            ),
            (json!({ "type": "Canary" }), no_canary),
            (json!({ "canary": { "sites": 1 } }), no_canary),
            (
                json!({ "type": "Rolling", "canary": { "sites": 1 }, "rolling": two }),
                no_canary,
            ),
            (canary(json!({})), one),
            (
                canary(json!({ "sites": 1, "matchSiteLabels": "a exists" })),
                one,
            ),
            (canary(json!({ "sites": 0 })), sites),
            (canary(json!({ "sites": -1 })), sites),
            (
                canary(json!({ "matchSiteLabels": long(4097) })),
                "spec.strategy.canary.matchSiteLabels: Too long",
            ),
            (
                canary(json!({ "sites": 1, "then": "Never" })),
                "spec.strategy.canary.then: Unsupported value: \"Never\"",
            ),
            (canary(json!({ "sites": 1, "then": "Rolling" })), no_rolling),
            (
                json!({ "type": "Canary", "canary": { "sites": 1 }, "rolling": two }),
                no_rolling,
            ),
            (json!({ "type": "Rolling" }), no_rolling),
            (json!({ "rolling": two }), no_rolling),
            (
                json!({ "type": "Rolling", "rolling": {} }),
                "spec.strategy.rolling.sitesInParallel: Required",
            ),
            (rolling(0.into()), parallel),
            (rolling((-1).into()), parallel),
            (rolling("0%".into()), parallel),
            (rolling("101%".into()), parallel),
            (rolling("2".into()), parallel),
        ],
    )
}

fn errors() -> Vec<Case> {
    let failures = "spec.strategy.maxFailures .. maxFailures is for onError Continue";
    let healthy = "spec.strategy.healthyTime .. should match";
    of(
        "/strategy",
        [
            (json!({ "healthyTime": "10 minutes" }), healthy),
            (json!({ "healthyTime": "-10m" }), healthy),
            (
                json!({ "healthyTime": long(33) }),
                "spec.strategy.healthyTime: Too long",
            ),
            (
                json!({ "progressDeadline": "10" }),
                "spec.strategy.progressDeadline .. should match",
            ),
            (
                json!({ "progressDeadline": long(33) }),
                "spec.strategy.progressDeadline: Too long",
            ),
            (
                json!({ "onError": "Retry" }),
                "spec.strategy.onError: Unsupported value: \"Retry\"",
            ),
            (json!({ "maxFailures": 1 }), failures),
            (json!({ "onError": "Rollback", "maxFailures": 1 }), failures),
            (
                json!({ "onError": "Continue", "maxFailures": -1 }),
                "spec.strategy.maxFailures .. greater than or equal to 0",
            ),
        ],
    )
}

#[tokio::test]
async fn invalid_deployments_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let strategy = json!({
        "type": "Canary", "canary": { "sites": 1, "then": "Rolling" }, "rolling": { "sitesInParallel": "25%" },
        "healthyTime": "1h30m", "onError": "Continue", "maxFailures": 0,
    });
    let placement = json!({ "matchSiteLabels": "tests/nobody exists" });
    let valid = json!({ "application": "nobody", "placement": placement, "strategy": strategy });
    let mut cases = vec![
        ("/application", Value::Null, "spec.application: Required"),
        (
            "/application",
            "".into(),
            "spec.application .. at least 1 char",
        ),
        ("/application", long(64), "spec.application: Too long .. 63"),
        (
            "/applicationVersion",
            "".into(),
            "spec.applicationVersion .. at least 1 char",
        ),
        (
            "/applicationVersion",
            long(64),
            "spec.applicationVersion: Too long .. 63",
        ),
        ("/redeploy", long(254), "spec.redeploy: Too long"),
        (
            "/paused",
            "yes".into(),
            "spec.paused .. must be of type boolean",
        ),
        (
            "/abortRollout",
            "last".into(),
            "spec.abortRollout .. must be of type integer",
        ),
        (
            "/revisionHistoryLimit",
            (-1).into(),
            "spec.revisionHistoryLimit .. greater than or equal to 0",
        ),
        (
            "/revisionHistoryLimit",
            101.into(),
            "spec.revisionHistoryLimit .. less than or equal to 100",
        ),
    ];
    cases.extend(placements());
    cases.extend(waves());
    cases.extend(errors());
    let like = Fleet::kind("SiteDeployment", "web");
    assert_refused(&ns, &like, &valid, cases).await;
    assert_name_is_refused(&ns, "SiteDeployment", valid).await;
}

/// Windows and templates that only the manager can check. It records no version of them and reports
/// the error.
#[tokio::test]
async fn an_application_reports_errors_that_the_schema_cannot_detect() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let window = |cron: &str, duration: &str, zone: &str| {
        let fine = json!({ "cron": "@daily", "duration": "1h" });
        let bad = json!({ "cron": cron, "duration": duration, "timeZone": zone });
        let mut spec = version("1.0.0");
        spec["upgradeWindows"] = json!([fine, bad]);
        ("InvalidWindow", spec, "upgradeWindows[1]")
    };
    let phases = |phases: Value| {
        let spec = changed(&version("1.0.0"), "/template/spec/phases", phases);
        ("InvalidTemplate", spec, "template")
    };
    let phase = |name: &str| json!({ "name": name, "objects": [configmap("cm").into_json()] });
    for ((why, spec, location), cause) in [
        (window("soon", "1h", "UTC"), "\"soon\""),
        (window("61 * * * *", "1h", "UTC"), "\"61 * * * *\""),
        (window("0 0 30 2 *", "1h", "UTC"), "never fires"),
        (window("@daily", "", "UTC"), "such as 1h30m"),
        (window("@daily", "0s", "UTC"), "longer than zero"),
        (window("@daily", "9999h", "UTC"), "at most 8784h"),
        (
            window("@daily", "1h", "Europe/Berln"),
            "time zone \"Europe/Berln\"",
        ),
        (phases(json!([])), "no phases"),
        (phases(json!([phase("a"), phase("a")])), "two phases \"a\""),
        (phases(json!([{ "name": "a" }])), "no objects"),
    ] {
        fleet.application(&spec).await;
        let is_reported = |live: &Value| {
            let [reason, message] = reason(live, "Kept");
            reason == why && message.contains(location) && message.contains(cause)
        };
        let wanted = format!("{why} in {location} because of {cause}");
        ns.object_becomes(&application, &wanted, is_reported).await;
    }
    assert!(fleet.kept().await.is_empty());
    fleet.application(&version("1.0.0")).await;
    let is_kept = |live: &Value| reason(live, "Kept")[0] == "Kept";
    ns.object_becomes(&application, "kept", is_kept).await;
    assert_eq!(fleet.kept().await, ["1.0.0"]);
}

/// Strategies and placements that only the manager can check. No site gets a revision, and the
/// error is reported.
#[tokio::test]
async fn a_deployment_reports_errors_that_the_schema_cannot_detect() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    let without_probes = changed(
        &version("1.0.0"),
        "/template/spec/availabilityProbes",
        json!([]),
    );
    fleet.application(&without_probes).await;
    let canary = |labels: &str| json!({ "strategy": { "type": "Canary", "canary": { "matchSiteLabels": labels } } });
    let strategy = |field: &str, value: &str| json!({ "strategy": { field: value } });
    let placement = |labels: &str| json!({ "placement": { "matchSiteLabels": labels } });
    let of_canary = (
        "Progressing",
        "InvalidStrategy",
        "strategy.canary.matchSiteLabels",
    );
    let of_health = ("Progressing", "InvalidStrategy", "strategy.healthyTime");
    let of_deadline = (
        "Progressing",
        "InvalidStrategy",
        "strategy.progressDeadline",
    );
    let no_application = ("Waiting", "ApplicationNotFound", "SiteApplication");
    let no_version = ("Waiting", "VersionNotFound", APPLICATION);
    let of_placement = ("Placed", "InvalidExpression", "placement.matchSiteLabels");
    for (at, (fields, (kind, why, location), cause)) in [
        (canary("a ~ b"), of_canary, "at byte 2"),
        (canary(""), of_canary, "at byte 0"),
        (
            canary("tests/nobody exists"),
            of_canary,
            "none of the 1 sites",
        ),
        (strategy("healthyTime", "8785h"), of_health, "at most 8784h"),
        (
            strategy("healthyTime", "1s"),
            of_health,
            "no availabilityProbes",
        ),
        (
            strategy("progressDeadline", "8785h"),
            of_deadline,
            "at most 8784h",
        ),
        (
            strategy("progressDeadline", "0s"),
            of_deadline,
            "longer than zero",
        ),
        (json!({ "application": "Shop!" }), no_application, "Shop!"),
        (
            json!({ "applicationVersion": "1 beta" }),
            no_version,
            "1 beta",
        ),
        (placement(""), of_placement, "at byte 0"),
        (placement("(a = b"), of_placement, "at byte 6"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("web-{at}");
        fleet.deployment(&name, fields).await;
        let is_reported = |live: &Value| {
            let [reason, message] = reason(live, kind);
            reason == why && message.contains(location) && message.contains(cause)
        };
        let wanted = format!("{why} in {location} because of {cause}");
        fleet.becomes(&name, &wanted, is_reported).await;
        assert!(fleet.revisions(&name, &hub).await.is_empty(), "{wanted}");
        ns.delete(&Fleet::kind("SiteDeployment", &name)).await;
    }
}
