//! What the API server refuses of applications and deployments of sites: each with its place and the cause.

use baton_integration::fleet::{APPLICATION, Fleet, version};
use baton_integration::prelude::*;
use baton_integration::unmanaged;

/// One with a value in every field.
fn application() -> Entry {
    let mut spec = version("1.0.0");
    spec["upgrade"] = json!({
        "method": "PerService", "services": [{ "name": "web", "method": "Rolling" }],
        "skipPatchVersions": true, "windowsApplyToEdits": true,
    });
    let window = json!({ "cron": "0 2 * * 1-5", "duration": "4h", "timeZone": "Europe/Berlin" });
    spec["upgradeWindows"] = json!([window]);
    Fleet::kind("SiteApplication", APPLICATION).with("/spec", spec)
}

/// One with a value in every field that may be there beside the others.
fn deployment() -> Entry {
    let spec = json!({
        "application": APPLICATION, "applicationVersion": "1.0.0", "redeploy": "once", "paused": false,
        "abortRollout": 1, "revisionHistoryLimit": 2,
        "placement": { "matchSiteLabels": "a = b", "follow": true },
        "strategy": {
            "type": "Canary", "canary": { "sites": 1, "then": "Rolling" }, "rolling": { "sitesInParallel": "10%" },
            "healthyTime": "10m", "progressDeadline": "1h30m", "onError": "Continue", "maxFailures": 0,
        },
    });
    Fleet::kind("SiteDeployment", "web").with("/spec", spec)
}

/// Whose field, the value that it has instead, the place in the answer, and the cause.
const REFUSED: &str = r#"
app /metadata/name NAME | metadata.name | at most 63
app /spec/version null | spec.version | Required
app /spec/version "" | spec.version | at least 1
app /spec/version "1.0.0 beta" | spec.version | should match
app /spec/version NAME | spec.version | longer than 63
app /spec/template null | spec.template | Required
app /spec/template/spec null | spec.template.spec | Required
app /spec/upgrade/method "Rolling" | spec.upgrade.method | supported values
app /spec/upgrade/method "StopAndRestart" | spec.upgrade.services | PerService
app /spec/upgrade/services/0/name null | services[0].name | Required
app /spec/upgrade/services/0/name "a/b" | services[0].name | should match
app /spec/upgrade/services/0/method "Stop" | services[0].method | supported values
app /spec/upgradeWindows/0/cron null | upgradeWindows[0].cron | Required
app /spec/upgradeWindows/0/cron "" | upgradeWindows[0].cron | at least 1
app /spec/upgradeWindows/0/cron LONG | upgradeWindows[0].cron | longer than 256
app /spec/upgradeWindows/0/duration null | upgradeWindows[0].duration | Required
app /spec/upgradeWindows/0/duration "4" | upgradeWindows[0].duration | should match
app /spec/upgradeWindows/0/duration "-4h" | upgradeWindows[0].duration | should match
app /spec/upgradeWindows/0/timeZone "" | upgradeWindows[0].timeZone | at least 1
app /spec/upgradeWindows MANY | spec.upgradeWindows | at most 50
web /metadata/name NAME | metadata.name | at most 63
web /spec/application null | spec.application | Required
web /spec/application "" | spec.application | at least 1
web /spec/applicationVersion "" | spec.applicationVersion | at least 1
web /spec/redeploy LONG | spec.redeploy | longer than 253
web /spec/revisionHistoryLimit -1 | spec.revisionHistoryLimit | greater than or equal to 0
web /spec/revisionHistoryLimit 101 | spec.revisionHistoryLimit | less than or equal to 100
web /spec/placement null | spec.placement | Required
web /spec/placement/matchSiteLabels null | spec.placement | exactly one of
web /spec/placement/selector {} | spec.placement | exactly one of
web /spec/placement/matchSiteLabels LONG | placement.matchSiteLabels | longer than 4096
web /spec/placement { "selector": { "matchExpressions": [{ "key": "a", "operator": "Near" }] } } | spec.placement | operator must be
web /spec/strategy/type "Wave" | spec.strategy.type | supported values
web /spec/strategy/type "Rolling" | spec.strategy.canary | for type Canary
web /spec/strategy/canary null | spec.strategy.canary | required for type Canary
web /spec/strategy/canary/sites null | spec.strategy.canary | exactly one of
web /spec/strategy/canary/matchSiteLabels "a" | spec.strategy.canary | exactly one of
web /spec/strategy/canary/sites 0 | canary.sites | greater than or equal to 1
web /spec/strategy/canary/then "Later" | canary.then | supported values
web /spec/strategy/canary/then "AllAtOnce" | spec.strategy.rolling | for canary.then
web /spec/strategy/rolling null | spec.strategy.rolling | rolling is required
web /spec/strategy/rolling/sitesInParallel 0 | sitesInParallel | at least 1
web /spec/strategy/rolling/sitesInParallel "0%" | sitesInParallel | 1% to 100%
web /spec/strategy/rolling/sitesInParallel "101%" | sitesInParallel | 1% to 100%
web /spec/strategy/rolling/sitesInParallel "3" | sitesInParallel | 1% to 100%
web /spec/strategy/healthyTime "soon" | strategy.healthyTime | should match
web /spec/strategy/progressDeadline "-1m" | strategy.progressDeadline | should match
web /spec/strategy/onError "Ignore" | strategy.onError | supported values
web /spec/strategy/onError "Abort" | strategy.maxFailures | for onError Continue
web /spec/strategy/maxFailures -1 | strategy.maxFailures | greater than or equal to 0
"#;

fn value(text: &str) -> Value {
    match text {
        "NAME" => "x".repeat(64).into(),
        "LONG" => "x".repeat(5000).into(),
        "MANY" => vec![json!({}); 51].into(),
        json => serde_json::from_str(json).unwrap(),
    }
}

#[tokio::test]
async fn bad_specs_are_refused_with_their_place_and_the_cause() {
    let ns = unmanaged::namespace().await;
    for row in REFUSED.trim().lines() {
        let parts: Vec<_> = row.splitn(3, " | ").collect();
        let [change, place, cause] = parts.try_into().unwrap();
        let parts: Vec<_> = change.splitn(3, ' ').collect();
        let [kind, pointer, text] = parts.try_into().unwrap();
        let entry = if kind == "app" {
            application()
        } else {
            deployment()
        };
        let mut entry = ns.reference(&entry);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        entry.pointer_mut(parent).unwrap()[key] = value(text);
        let refused = ns.cluster().create(&entry).await.expect_err(row);
        assert_eq!(refused.reason, "Invalid", "{row}: {refused:?}");
        let message = &refused.message;
        assert!(
            message.contains(place) && message.contains(cause),
            "{row}: {message}"
        );
    }
    for entry in [application(), deployment()] {
        ns.create(&entry).await;
    }
}
