//! The scenario of all rows: a deployment in the hub, and an application in three sites.

use std::time::{Duration, Instant};

use baton_hack::bed::Snapshot;
use baton_integration::agent::Agent;
use baton_integration::application::{condition, reason};
use baton_integration::clock::ShiftedClock;
use baton_integration::deployment::CONCLUDED;
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{APPLICATION, Fleet, entry, spec, with_own};
use baton_integration::manager::HEARTBEAT;
use baton_integration::prelude::*;
use baton_integration::program::temporary;
use baton_integration::sites::{Joined, LoneSite, PULL, PUSH, Site, join_hub};
use tokio::time::sleep;

use super::observer::{Column, Findings, Observer};

/// The versions, in the order of their rollout.
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "1.2.0"];

/// Name of the deployment in the hub.
pub(super) const WEB: &str = "web";

/// Name of the deployment to the sites.
pub(super) const SHOP: &str = "shop";

/// Time limit of a rollout. A look at the clock takes 30 s.
const PATIENCE: Duration = Duration::from_secs(100);

/// Time in which a wrong report has to end: a watch of a restored control plane ends after seconds.
const WRONG: Duration = Duration::from_secs(30);

/// Time in which nothing may change after the last rollout.
const QUIET: Duration = Duration::from_secs(8);

/// Time between two reads.
const POLL: Duration = Duration::from_millis(500);

/// The control planes. The hub is also a site of the fleet.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Hub,
    Push,
    Pull,
}

impl Place {
    /// Returns the index of the site, `None` for the hub.
    pub(crate) fn site(self) -> Option<usize> {
        match self {
            Self::Hub => None,
            Self::Push => Some(PUSH),
            Self::Pull => Some(PULL),
        }
    }
}

pub(crate) struct Scene {
    /// The namespace is emptied first, while the manager and the agent run.
    pub(super) ns: TestNamespace,
    agent: Agent,
    clock: ShiftedClock,
    /// The sites by [`Place`].
    pub(super) sites: [Joined; 3],
    lone: Option<LoneSite>,
    observers: [Observer; 3],
    /// The times since which sites are reported with a version that they do not have.
    wrong: [Option<Instant>; 3],
    findings: Findings,
    /// The number of versions that the user has rolled out.
    rolled_out: usize,
    /// True if the manager ends by itself when the hub was restored.
    leads: bool,
    bed: Exclusive,
}

/// A rollout that is not over.
struct Open {
    text: String,
    /// True if a condition says what has to be done.
    says_why: bool,
}

impl Scene {
    /// Joins the sites, one of them without other users, and starts the manager and the agent.
    pub(crate) async fn new(alone: Option<usize>) -> Self {
        let mut bed = Exclusive::acquire().await;
        let clock = ShiftedClock::ahead(0);
        bed.restart_manager_at(&clock);
        let ns = bed.namespace(Scope::Namespaced).await;
        // All rows take the sites in this order.
        let mut lone = None;
        let mut sites = Vec::new();
        for index in [PUSH, PULL] {
            if alone == Some(index) {
                let site = Site::alone(index).await;
                sites.push((*site).clone());
                lone = Some(site);
            } else {
                sites.push(Site::get(index).await);
            }
        }
        let hub = join_hub(&ns, &sites[0]).await;
        let push = sites[0].join(&ns).named("push").create().await;
        let pull = sites[1].join(&ns).named("pull").pull().create().await;
        let agent = pull.agent().clock(0).start().await;
        let fleet = Fleet::new(&ns);
        for joined in [&hub, &push, &pull] {
            joined.becomes("Connected", "True").await;
            fleet.add(joined).await;
        }
        let like = || ns.reference(&configmap("any"));
        let observers = [
            Observer::start("hub", ns.cluster().clone(), like()).await,
            Observer::start("push", sites[0].cluster().await, like()).await,
            Observer::start("pull", sites[1].cluster().await, like()).await,
        ];
        Self {
            ns,
            agent,
            clock,
            sites: [hub, push, pull],
            lone,
            observers,
            wrong: [None; 3],
            findings: Findings::default(),
            rolled_out: 0,
            leads: false,
            bed,
        }
    }

    pub(super) fn fleet(&self) -> Fleet<'_> {
        Fleet::new(&self.ns)
    }

    /// Returns the newest version of the user.
    fn version(&self) -> &'static str {
        VERSIONS[self.rolled_out - 1]
    }

    /// Returns the version that the user rolls out next.
    pub(super) fn next_version(&self) -> &'static str {
        VERSIONS[self.rolled_out]
    }

    /// Returns the objects of the newest version in a place.
    fn wanted(&self, place: usize) -> Vec<Entry> {
        let mut wanted = with_own(self.version()).to_vec();
        if place == Place::Hub as usize {
            wanted.extend(in_hub(self.version()));
        }
        wanted
    }

    /// Applies the manifests of the next version.
    pub(crate) async fn roll_out(&mut self) {
        self.rolled_out += 1;
        self.apply().await;
    }

    /// Applies the manifests of the newest version.
    pub(crate) async fn apply(&self) {
        let (version, fleet) = (self.version(), self.fleet());
        // The revision succeeds after some seconds by the clock of the manager.
        let content = self.ns.content().spec("successDelaySeconds", 3);
        let content = content.phase("a", in_hub(version));
        let sites = spec(version, &with_own(version));
        if self.rolled_out > 1 {
            self.ns.existing(WEB).edit(content).await;
            fleet.application(&sites).await;
            return;
        }
        self.ns.deployment(WEB).content(content).create().await;
        fleet.application(&sites).await;
        let strategy = json!({
            "type": "Rolling", "rolling": { "sitesInParallel": 1 }, "healthyTime": "3s",
        });
        let fields = json!({ "strategy": strategy });
        fleet.deployment(SHOP, fields).await;
    }

    /// Waits until the newest version is everywhere. If this takes too long, the rollout stands still.
    pub(crate) async fn settle(&mut self) {
        self.until_over(false).await;
    }

    /// As [`Scene::settle`], but a condition may also say why the version cannot be rolled out.
    pub(crate) async fn settle_or_say_why(&mut self) {
        self.until_over(true).await;
    }

    async fn until_over(&mut self, may_say_why: bool) {
        let start = Instant::now();
        while let Some(open) = self.open().await {
            if may_say_why && open.says_why {
                println!("  {}", open.text);
                return;
            }
            if start.elapsed() > PATIENCE {
                self.findings.add(Column::StoodStill, open.text);
                return;
            }
            sleep(POLL).await;
        }
    }

    /// Waits until a site has got the newest version.
    pub(crate) async fn until_begun(&mut self) {
        let version = self.version();
        let has = async |observer: &Observer| {
            let live = observer.live().await;
            live.get("settings")
                .is_some_and(|it| it["data"]["version"] == version)
        };
        let begun = async || {
            let [hub, push, pull] = &self.observers;
            has(hub).await || has(push).await || has(pull).await
        };
        self.ns.eventually("the rollout to begin", begun).await;
    }

    /// Returns the clock of the agent or of the manager.
    pub(crate) fn clock(&self, is_agent: bool) -> &ShiftedClock {
        if is_agent {
            self.agent.clock()
        } else {
            &self.clock
        }
    }

    /// Looks at everything once; `None` if the newest version is everywhere.
    async fn open(&mut self) -> Option<Open> {
        self.restart_if_ended();
        let web = self.ns.existing(WEB).read().await;
        let shop = self.ns.live(&Fleet::kind("SiteDeployment", SHOP)).await;
        let app = self
            .ns
            .live(&Fleet::kind("SiteApplication", APPLICATION))
            .await;
        let status = &shop["status"];
        let is_complete = status["observedGeneration"] == shop["metadata"]["generation"]
            && reason(&shop, "Progressing")[0] == "Complete";
        self.look_for_wrong_reports(is_complete.then_some(&status["version"]))
            .await;
        let is_over = is_complete
            && status["version"] == self.version()
            && status["counts"]["healthy"] == self.sites.len();
        let mut texts = Vec::new();
        for (place, observer) in self.observers.iter().enumerate() {
            let found = observer.differences(&self.wanted(place)).await;
            texts.extend(found.into_iter().map(|(_, text)| text));
        }
        if is_over && web.has(&CONCLUDED) && texts.is_empty() {
            return None;
        }
        let mut says_why = condition(&app, "Kept") == "False";
        for (object, type_) in [
            (&web.json, "Progressing"),
            (&shop, "Progressing"),
            (&app, "Kept"),
        ] {
            says_why |= condition(object, "Stalled") == "True";
            let kind = object["kind"].as_str().unwrap();
            texts.push(format!("{kind}: {}", reason(object, type_).join(": ")));
        }
        Some(Open {
            text: texts.join("; "),
            says_why,
        })
    }

    /// Starts a manager that has ended, as Kubernetes does.
    fn restart_if_ended(&mut self) {
        if let Some(status) = self.bed.manager().exited() {
            if !self.leads {
                let text = format!("the manager has ended: {status}");
                self.findings.add(Column::StoodStill, text);
            }
            drop(self.bed.take_manager());
            self.bed.spawn_manager(&[HEARTBEAT]);
        }
    }

    /// Compares the versions that are reported for the sites with their objects.
    async fn look_for_wrong_reports(&mut self, complete: Option<&Value>) {
        for at in 0..self.sites.len() {
            let site = &self.sites[at];
            let revisions = self.fleet().revisions(SHOP, site).await;
            let available = revisions.iter().rev().find(|it| {
                condition(it, "Available") == "True" && it["spec"]["lifecycleState"] != "Archived"
            });
            let reported = complete
                .cloned()
                .or(available.map(|it| entry(it)["version"].clone()));
            let live = self.observers[at].live().await;
            let has = live.get("settings").map(|it| it["data"]["version"].clone());
            let Some(reported) = reported.filter(|it| has.as_ref() != Some(it)) else {
                self.wrong[at] = None;
                continue;
            };
            let since = *self.wrong[at].get_or_insert_with(Instant::now);
            if since.elapsed() > WRONG {
                let text = format!("{} has {has:?} instead of {reported}", site.name());
                self.findings.add(Column::Skipped, text);
                self.wrong[at] = None;
            }
        }
    }

    /// Starts the manager with its lease, by which it detects that the hub was restored.
    pub(crate) fn lead(&mut self) {
        self.leads = true;
        drop(self.bed.take_manager());
        self.bed.spawn_manager(&[HEARTBEAT]);
    }

    /// Starts the manager again, and for the pull site the agent.
    pub(crate) fn restart(&mut self, place: Place) {
        if matches!(place, Place::Pull) {
            self.agent.kill();
            self.agent.start();
        }
        drop(self.bed.take_manager());
        if self.leads {
            self.bed.spawn_manager(&[HEARTBEAT]);
        } else {
            self.bed.start_manager();
        }
    }

    /// Saves the state of a control plane.
    pub(crate) async fn snapshot(&mut self, place: Place) -> Snapshot {
        let observer = &mut self.observers[place as usize];
        observer.pause().await;
        observer.keep();
        let snapshot = match &self.lone {
            None => self.bed.snapshot().await,
            Some(site) => site.snapshot().await,
        };
        observer.resume().await;
        snapshot
    }

    /// Restores the state of a control plane.
    pub(crate) async fn restore(&mut self, place: Place, snapshot: &Snapshot) {
        let observer = &mut self.observers[place as usize];
        observer.pause().await;
        observer.forget();
        match &self.lone {
            None => self.bed.restore(snapshot).await,
            Some(site) => site.restore(snapshot).await,
        }
        observer.resume().await;
    }

    /// Leaves out what has happened in these places so far.
    pub(crate) async fn judge_from_now(&mut self, places: &[Place]) {
        for place in places {
            self.observers[*place as usize].judge_from_now().await;
        }
    }

    /// Stores the objects of the hub in a file.
    pub(crate) fn back_up(&self) -> String {
        let file = temporary(&format!("{}-backup", self.ns.name()));
        let file = file.display().to_string();
        self.ns.plugin(&["backup", "create", "-f", &file]).done();
        file
    }

    /// Creates the objects of a file in the hub.
    pub(crate) fn restore_backup(&mut self, file: &str) {
        self.restart_if_ended();
        let restore = ["backup", "restore", "--yes", "-f", file];
        self.ns.plugin(&restore).done();
        std::fs::remove_file(file).unwrap();
    }

    /// Waits a while after the last rollout, and returns what the lie has done.
    pub(crate) async fn findings(mut self) -> Findings {
        sleep(QUIET).await;
        let wanted = [0, 1, 2].map(|place| self.wanted(place));
        for (observer, wanted) in self.observers.iter_mut().zip(wanted) {
            for (column, text) in observer.differences(&wanted).await {
                self.findings.add(column, text);
            }
            observer.judge(&mut self.findings).await;
        }
        std::mem::take(&mut self.findings)
    }
}

/// Returns the objects of a version of the deployment in the hub.
fn in_hub(version: &str) -> [Entry; 2] {
    let own = configmap(&format!("own-{version}"));
    [configmap("shared"), own].map(|it| it.data("version", version))
}
