//! A manager that is killed at a given moment.

use baton_integration::application::condition;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, On};
use baton_integration::fleet::{Fleet, entry, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};
use jiff::{SignedDuration, Timestamp};

use super::{waits, window};

/// The manager is killed between the record that an upgrade has begun and its first write. The next
/// manager continues, although the window is closed.
#[tokio::test]
async fn an_upgrade_that_has_begun_continues_under_the_next_manager() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let faults = Faults::start(push.endpoint()).await;
    let site = push.join(&ns).through(&faults.url()).create().await;
    site.becomes("Connected", "True").await;
    fleet.add(&site).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let writes = On::writes().path(&format!("/namespaces/{}/configmaps/settings", ns.name()));
    let failing = faults.inject(writes, Answer::unavailable());
    fleet.application(&version("1.1.0")).await;
    failing.used(1).await;
    let begun = async || {
        let revisions = fleet.revisions("web", &site).await;
        let newest = revisions.last().unwrap();
        entry(newest)["version"] == "1.1.0" && condition(newest, "baton.run/Started") == "True"
    };
    ns.eventually("the upgrade to begin", begun).await;
    bed.take_manager().kill();
    assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.0.0"));
    let later = Timestamp::now() + SignedDuration::from_hours(2);
    site.change_spec(&window(later, SignedDuration::from_mins(1)))
        .await;
    faults.heal();
    bed.start_manager();
    fleet.complete("web", "1.1.0", 1).await;
    fleet.has_version(&site, Some("1.1.0")).await;
    fleet.application(&version("1.2.0")).await;
    waits(&fleet, &site, "1.2.0", "Waits for its upgrade window").await;
}
