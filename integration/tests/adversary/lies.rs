//! State that lies: control planes that go back in time, clocks that jump, and forged records.
//!
//! Each row has a control plane, a manager, an agent and a fleet of its own. A user rolls out three
//! versions: one before the lie, one while it happens, and one after it. The table has what each lie has
//! done to the objects of the user; see [`Column`].

mod applications;
mod forgeries;
mod observer;
mod releases;
mod scene;

use std::time::{Duration, Instant};

use baton_hack::bed::Snapshot;
use futures::future::join_all;

use self::forgeries::Forgery;
use self::observer::{Column, Findings};
use self::scene::{Place, Scene};

const HOUR: i64 = 3600;

/// Duration of a jump of the clock that ends.
const MOMENT: Duration = Duration::from_secs(12);

#[derive(Clone, Copy)]
enum Lie {
    /// The etcd of a place is restored from a backup. True if the processes that deliver into it are
    /// started again afterwards.
    Restored(Place, bool),
    /// The hub loses all objects in the middle of a rollout, and gets those of a backup.
    Wiped,
    /// The same with 50 Applications at a step, and five deployments to sites.
    WipedWithMany,
    /// The clock of the manager jumps by this number of seconds, for good or for some time.
    Manager(i64, Option<Duration>),
    /// The same for the clock of the agent.
    Agent(i64, Option<Duration>),
    /// Another client has made objects beforehand, and deletes them when the status names them.
    Forged(Forgery),
    /// The same with revisions of the highest number in the chains of an Application.
    ForgedRelease,
}

const LIES: [(&str, Lie); 23] = [
    ("hub restored", Lie::Restored(Place::Hub, false)),
    (
        "hub restored and manager restarted",
        Lie::Restored(Place::Hub, true),
    ),
    ("push site restored", Lie::Restored(Place::Push, false)),
    (
        "push site restored and manager restarted",
        Lie::Restored(Place::Push, true),
    ),
    ("pull site restored", Lie::Restored(Place::Pull, false)),
    (
        "pull site restored and all restarted",
        Lie::Restored(Place::Pull, true),
    ),
    ("hub wiped", Lie::Wiped),
    ("hub with 50 Applications wiped", Lie::WipedWithMany),
    ("manager an hour back", Lie::Manager(-HOUR, None)),
    (
        "manager an hour back for 12 s",
        Lie::Manager(-HOUR, Some(MOMENT)),
    ),
    ("manager an hour ahead", Lie::Manager(HOUR, None)),
    ("manager a day ahead", Lie::Manager(24 * HOUR, None)),
    ("agent an hour back", Lie::Agent(-HOUR, None)),
    (
        "agent an hour back for 12 s",
        Lie::Agent(-HOUR, Some(MOMENT)),
    ),
    ("agent an hour ahead", Lie::Agent(HOUR, None)),
    ("agent a day ahead", Lie::Agent(24 * HOUR, None)),
    (
        "forged number of a deployment",
        Lie::Forged(Forgery::OfDeployment),
    ),
    ("forged number of a site", Lie::Forged(Forgery::OfSite)),
    (
        "forged number of a version",
        Lie::Forged(Forgery::OfVersion),
    ),
    ("forged slice", Lie::Forged(Forgery::Slice)),
    ("forged record", Lie::Forged(Forgery::Record)),
    ("forged name", Lie::Forged(Forgery::Name)),
    ("forged number of a Release", Lie::ForgedRelease),
];

/// Returns the names of all rows.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    LIES.iter().map(|(name, _)| *name)
}

/// Runs the rows with a name, prints the table, and returns the cells that are not empty.
///
/// Rows run at the same time, as many as there are exclusive beds.
pub(crate) async fn run(is_chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let chosen = LIES.into_iter().filter(|(name, _)| is_chosen(name));
    let rows = chosen.map(async |(name, lie)| {
        // Each row has a thread and a runtime, as a test has.
        let row = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(under(lie))
        });
        (name, row.await)
    });
    let start = Instant::now();
    let rows = join_all(rows).await;
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = Column::ALL.map(Column::text);
    println!("state that lies: {:.0} s", start.elapsed().as_secs_f64());
    println!("| lie | {} |", columns.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
    let mut missed = Vec::new();
    for (name, row) in rows {
        match row {
            Ok(findings) => {
                let counts = Column::ALL.map(|column| findings.of(column).count().to_string());
                println!("| {name} | {} |", counts.join(" | "));
                let found = findings.0.iter();
                missed.extend(
                    found.map(|(column, text)| format!("{name}: {}: {text}", column.text())),
                );
            }
            Err(error) => missed.push(format!("{name}: {error}")),
        }
    }
    missed
}

/// Rolls out three versions, the second one under the lie.
async fn under(lie: Lie) -> Findings {
    let alone = match lie {
        Lie::Restored(place, _) => place.site(),
        Lie::ForgedRelease => return releases::under_forged_numbers().await,
        Lie::WipedWithMany => return applications::in_a_wiped_hub().await,
        _ => None,
    };
    let mut scene = Scene::new(alone).await;
    let empty = match lie {
        Lie::Wiped => Some(scene.snapshot(Place::Hub).await),
        _ => None,
    };
    scene.roll_out().await;
    scene.settle().await;
    if let Some(empty) = empty {
        wiped(&mut scene, &empty).await;
    }
    match lie {
        Lie::Restored(place, restarts) => restored(&mut scene, place, restarts).await,
        Lie::Manager(seconds, time) | Lie::Agent(seconds, time) => {
            let is_agent = matches!(lie, Lie::Agent(..));
            scene.roll_out().await;
            scene.until_begun().await;
            scene.clock(is_agent).set(seconds);
            if let Some(time) = time {
                tokio::time::sleep(time).await;
                scene.clock(is_agent).set(0);
            }
        }
        Lie::Forged(forgery) => {
            let forged = forgery.make(&scene).await;
            scene.roll_out().await;
            scene.settle_or_say_why().await;
            for object in forged {
                scene.ns.cluster().delete(&object, "Background").await;
            }
        }
        Lie::ForgedRelease | Lie::Wiped | Lie::WipedWithMany => {}
    }
    scene.settle().await;
    scene.roll_out().await;
    scene.settle().await;
    scene.findings().await
}

/// Rolls out a version after a backup, and restores that backup. A user of a restored hub applies the
/// manifests again.
async fn restored(scene: &mut Scene, place: Place, restarts: bool) {
    if matches!(place, Place::Hub) {
        scene.lead();
    }
    let snapshot = scene.snapshot(place).await;
    scene.roll_out().await;
    scene.settle().await;
    scene.restore(place, &snapshot).await;
    if restarts {
        scene.restart(place);
    }
    if matches!(place, Place::Hub) {
        scene.apply().await;
        scene.settle().await;
        // Until then the hub may have returned objects to the state that it has been restored to.
        scene
            .judge_from_now(&[Place::Hub, Place::Push, Place::Pull])
            .await;
    }
}

/// Replaces a hub in the middle of a rollout by an empty one, and restores its objects from a file. The
/// objects of the hub itself are created again, those of the sites are not.
async fn wiped(scene: &mut Scene, empty: &Snapshot) {
    scene.lead();
    scene.roll_out().await;
    scene.until_begun().await;
    let backup = scene.back_up();
    scene.restore(Place::Hub, empty).await;
    scene.restore_backup(&backup);
    scene.settle().await;
    scene.judge_from_now(&[Place::Hub]).await;
}
