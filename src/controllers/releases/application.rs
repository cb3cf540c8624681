//! The controller of Applications: creates the next Release, returns to an older one if the newest
//! was deleted, and deletes superseded ones.

use std::sync::Arc;

use baton_apis::{
    Application, Release,
    conditions::shipper::ROLLING_OUT,
    constants::{ANNOTATION_GIVEN_BACK, GIVEN_BACK, shipper::LABEL_APP},
    kinds,
};
use baton_engine::conditions::Requeue;
use baton_kubernetes::{collection::Extent, error::request_failure};
use baton_releases::{
    application::{Answers, Observed, Outcome, Step, decide, error::Refusal},
    give_back::Custody,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_typed::key::Key;
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    AtStep as _, Context, Error, INCOMPLETE, charts::ChartSource, is_permanent, on_block, undecided,
};
use baton_typed::requests::Requests;

/// Name of the controller in events.
const REPORTER: &str = "application-controller";

/// Creates and deletes the Releases of Applications.
pub(crate) struct Applications {
    pub context: Context,
    pub charts: ChartSource,
}

impl Controller for Applications {
    const NAME: &'static str = "application";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.applications.changes, self, |_, change| {
            let application = change.object();
            application.map(|it| Wake::now(Key::of(kinds::APPLICATION.name, &**it)))
        });
        queue.wake_on(&stores.releases.changes, self, |_, change| {
            change.object().and_then(|release| owner(release))
        });
        queue.wake_on(&stores.blocks.0.changes, self, |this, change| {
            on_block(&this.context.stores.applications, change)
        });
        stores.all.wake_when_lost(queue, self, |this| {
            this.context.stores.applications.wake(|_| true)
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        let Some(application) = stores.applications.get(&key.namespace, &key.name) else {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        match Custody::of(&application) {
            Custody::Ours => {}
            Custody::Requested => return self.confirm_give_back(&application).await,
            Custody::GivenBack => return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent)),
        }
        match stores.all.extent() {
            Extent::All => {}
            Extent::Nothing => return Ok(INCOMPLETE),
            Extent::Unavailable(why) => return self.report_unreadable(&application, &why).await,
        }
        let (outcome, releases, created) = self.decide(key, &application).await?;
        let changes = outcome.changes_main(&application) || outcome.changes_status(&application);
        if changes {
            let written = self.context.requests.replace(&outcome.application).await;
            let written = written.at_step("writing the Application")?;
            stores.applications.written(written);
        }
        let Outcome {
            clean_up,
            events,
            error,
            ..
        } = outcome;
        let on = (key, &*application);
        self.context.shared.events.publish_on(REPORTER, on, events);
        let deleted = self.delete(&releases, &clean_up.unfinished).await?
            + self.delete(&releases, &clean_up.surplus).await?;
        match error {
            Some(error) if error.is_permanent() => {
                Ok((ReconcileOutcome::Blocked, Requeue::OnEvent))
            }
            Some(error) => Err(Error::Reported(error.into())),
            None if changes || created || deleted > 0 => {
                Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
            }
            None => Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent)),
        }
    }
}

impl Applications {
    /// Answers a user who gives an Application back to Shipper. No controller starts to write for the
    /// Application from now on.
    async fn confirm_give_back(&self, application: &Application) -> Result<Reconciled, Error> {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION_GIVEN_BACK: GIVEN_BACK } } });
        let written = self.context.requests.merge(application, patch).await;
        let written = written.at_step("writing the Application")?;
        self.context.stores.applications.written(written);
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }

    /// Reports that no Release is created or deleted while the objects for the decision cannot be
    /// listed.
    async fn report_unreadable(
        &self,
        application: &Application,
        why: &str,
    ) -> Result<Reconciled, Error> {
        let mut wanted = application.clone();
        let status = wanted.status.get_or_insert_default();
        let now = self.context.shared.clock.now();
        status.conditions = undecided(&status.conditions, ROLLING_OUT, now, why);
        if wanted != *application {
            let written = self.context.requests.replace(&wanted).await;
            let written = written.at_step("writing the Application")?;
            self.context.stores.applications.written(written);
        }
        Ok(INCOMPLETE)
    }

    /// Runs a sync to its end. Returns its outcome, the Releases that the outcome is based on, and
    /// true if one was created.
    async fn decide(
        &self,
        key: &Key,
        application: &Application,
    ) -> Result<(Outcome, Vec<Release>, bool), Error> {
        let Context {
            stores,
            requests,
            shared,
            ..
        } = &self.context;
        let releases = stores
            .releases
            .labelled(&key.namespace, LABEL_APP, &key.name);
        let mut releases: Vec<_> = releases.iter().map(|it| Release::clone(it)).collect();
        let blocks = stores.blocks.of(&key.namespace);
        let mut answers = Answers::default();
        loop {
            let step = decide(&Observed {
                application,
                releases: &releases,
                blocks: &blocks,
                answers: &answers,
                now: shared.clock.now(),
            });
            match step {
                Step::Resolve(chart) => {
                    let found = self.charts.resolve(&key.namespace, &chart).await;
                    answers.versions.push((chart, found));
                }
                Step::List => {
                    releases = self.list(requests, key).await?;
                    answers.listed = true;
                }
                Step::Create(release) => {
                    match self.context.create(&*release, "creating a Release").await {
                        Ok(created) => {
                            stores.releases.written(created);
                            answers.created = Some(Ok(()));
                        }
                        // Another process has created the Release, or this one before a crash, so the
                        // Releases are listed.
                        Err(Error::Request {
                            source: kube::Error::Api(status),
                            ..
                        }) if status.code == 409 && !answers.listed => {
                            releases = self.list(requests, key).await?;
                            answers.listed = true;
                        }
                        Err(error) => answers.created = Some(Err(refusal(&error))),
                    }
                }
                Step::Finish(outcome) => {
                    return Ok((*outcome, releases, answers.created == Some(Ok(()))));
                }
            }
        }
    }

    /// Lists the Releases on the server.
    async fn list(&self, requests: &Requests, key: &Key) -> Result<Vec<Release>, Error> {
        let selector = format!("{LABEL_APP}={}", key.name);
        let listed = requests.list::<Release>(&key.namespace, &selector).await;
        let listed = listed.at_step("listing the Releases")?;
        self.context.stores.releases.listed_now(listed.clone());
        Ok(listed)
    }

    /// Deletes Releases in this order, each only if it is unchanged: a Release that has become
    /// complete meanwhile has all the traffic. Returns their number. Stops at the first error.
    async fn delete(&self, judged: &[Release], names: &[String]) -> Result<usize, Error> {
        let mut deleted = 0;
        for name in names {
            let Some(release) = judged.iter().find(|it| it.name_any() == *name) else {
                continue;
            };
            let answer = self.context.requests.delete(release).await;
            answer.at_step("deleting a Release")?;
            deleted += 1;
        }
        Ok(deleted)
    }
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Request { source, .. } => Refusal {
            message: request_failure(source),
            is_permanent: is_permanent(source),
        },
        _ => Refusal {
            message: error.to_string(),
            is_permanent: false,
        },
    }
}

/// Trigger: a Release wakes the Application that owns it. A Release with several owners, or none,
/// is ignored.
fn owner(release: &Release) -> Option<Wake<Key>> {
    let [owner] = release.owner_references() else {
        return None;
    };
    let namespace = release.metadata.namespace.as_deref().unwrap_or_default();
    let is_application = owner.kind == kinds::APPLICATION.name;
    is_application.then(|| Wake::now(Key::new(kinds::APPLICATION.name, namespace, &owner.name)))
}
