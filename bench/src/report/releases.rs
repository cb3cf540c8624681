//! The figures of Releases.

use super::table::{fixed, or_empty, served, table};
use crate::figures::releases::{Profile, Releases, StepRequests, cpu, seconds};
use crate::figures::{Figures, Step, number, ratio};

/// The number and shape of the Applications.
pub(super) fn head(releases: &Releases) -> String {
    let shape = releases.shape;
    format!(
        "Applications of {} pods: {} one after the other and {} at once, in one step and in three; then {} more \
         of one pod. Their cluster is the hub itself.",
        shape.pods, shape.lone_applications, shape.applications, shape.idle_applications,
    )
}

/// The meaning of the figures in the table of steps.
pub(super) const NOTES: &str = "\
     releases: from when the first Application is sent until its Release, or the last one, is complete. The bench\n\
     sends a Release to its next step as soon as it waits for a command. lone: one after the other on an idle\n\
     manager. Set: an Application. restart: until no work is left.";

/// The tables about Releases.
pub(super) fn tables(figures: &Figures, releases: &Releases) -> String {
    let mut parts = vec![format!(
        "Releases: beside the same objects without a manager\n{}\n{BARE_NOTES}",
        beside_bare(figures, releases)
    )];
    parts.extend(releases.asked.iter().map(|step| requests(figures, step)));
    parts.extend(releases.profiles.iter().map(profile));
    parts.join("\n\n")
}

const BARE_NOTES: &str = "\
     s: of one where they are lone (the median), else of all. bare: every object, every number of pods and every\n\
     label once by a plain request, by hand in the order of a rollout. waits: the time that one of these waits\n\
     for pods and addresses (the median), which no manager makes faster. CPU: of all Releases of the step.";

fn beside_bare(figures: &Figures, releases: &Releases) -> String {
    let header = [
        "step",
        "s",
        "bare s",
        "waits",
        "x bare",
        "manager CPU s",
        "helm CPU s",
        "both",
        "MiB",
        "peak",
    ];
    let steps = figures.steps.iter().filter(|step| step.is_of_releases());
    let row = |step: &Step| {
        let bare = releases.bare_of(step.name);
        vec![
            step.name.to_owned(),
            fixed(seconds(step), 3),
            or_empty(bare.map(|bare| bare.seconds), 3),
            or_empty(bare.map(|bare| bare.waited), 3),
            or_empty(releases.to_bare(step), 2),
            or_empty(step.cpu, 2),
            or_empty(step.helm, 2),
            or_empty(cpu(step), 2),
            or_empty(step.memory.map(|memory| memory.rss), 1),
            or_empty(step.memory.map(|memory| memory.peak), 1),
        ]
    };
    table(&header, steps.map(row))
}

/// The requests of a step per Release: as the manager counts them, and by resource as the server
/// does.
fn requests(figures: &Figures, requests: &StepRequests) -> String {
    let step = figures.step(requests.step);
    let sets = step.map_or(0, |step| step.sets);
    let each = |sent: u64| fixed(ratio(number(sent), number(sets)), 2);
    let of_manager = step.map_or_else(String::new, |step| {
        let verbs = step.requests.verbs();
        let verbs = verbs.filter(|verb| !matches!(*verb, "lease" | "watch"));
        let counts = verbs.map(|verb| format!("{verb} {}", each(step.requests.by(verb))));
        counts.collect::<Vec<_>>().join(", ")
    });
    format!(
        "Requests for each of {sets} Releases, {}\n{}\nAs the manager counts them: {of_manager}.",
        requests.step,
        served(&[("", &requests.served)], each)
    )
}

fn profile(profile: &Profile) -> String {
    let mut before = 0.0;
    let rows = profile.moments.iter().map(|moment| {
        let since = moment.milliseconds - before;
        before = moment.milliseconds;
        format!(
            "{:>8.1} {since:>+7.1}  {:<18}  {}",
            moment.milliseconds, moment.kind, moment.state
        )
    });
    format!(
        "The events of one Release, {}, as they are observed: ms, kind, state\n{}",
        profile.step,
        rows.collect::<Vec<_>>().join("\n")
    )
}
