//! The output of the search for people.

use baton_engine::{Request, delegated::Delegation};
use baton_text::output::kubectl::{kubectl_table, render};

use crate::{
    contents::Facts,
    dialogue::RequestOutcome,
    search::SearchResult,
    state::{Life, Reported, RequestedState, State},
    system::{Action, ForeignAction, System},
    world::{ACTORS, NAMES, OBJECTS, World},
};

/// A table with a line for each world.
#[must_use]
pub fn table(found: &[(World, SearchResult)]) -> String {
    let headings = [
        "WORLD",
        "TRANSITIONS",
        "STATES",
        "PASSES",
        "DEPTH",
        "SECONDS",
        "ENDS",
        "RESULT",
    ];
    let mut table = kubectl_table(&headings);
    for (world, found) in found {
        let result = if problems(world, found).is_empty() {
            "holds"
        } else {
            "BROKEN"
        };
        table.add_row(vec![
            world.name.to_owned(),
            found.transitions.to_string(),
            found.states.to_string(),
            found.dialogues.to_string(),
            found.depth.to_string(),
            format!("{:.1}", found.time.as_secs_f64()),
            found.ends.to_string(),
            result.to_owned(),
        ]);
    }
    render(table)
}

/// The problems of a world, for people.
#[must_use]
pub fn problems(world: &World, found: &SearchResult) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(violation) = &found.violation {
        let steps = violation.trace.join("\n  ");
        problems.push(format!("{}: {}\n  {steps}", world.name, violation.reason));
    } else if found.is_cut_off {
        problems.push(format!("{}: has more states than the limit", world.name));
    } else if world.revisions.len() > 1 && !(found.situations.handover && found.situations.overlap)
    {
        problems.push(format!(
            "{}: no handover or no passes side by side: it shows nothing",
            world.name
        ));
    }
    problems
}

/// A step of a trace, with the objects and revisions after the step.
#[must_use]
pub fn step(system: &System, before: &State, action: Action, after: &State) -> String {
    let what = act(system, before, action);
    let mut changes = Vec::new();
    for (name, (was, is)) in NAMES.iter().zip(before.objects.iter().zip(&after.objects)) {
        if was.content != is.content {
            changes.push(format!("{name} is now {}", object_text(system, is.content)));
        }
    }
    for index in 0..ACTORS {
        let (was, is) = (before.sets[index].record, after.sets[index].record);
        if was != is {
            changes.push(format!(
                "{} is now {}",
                name(index),
                record_text(after, index)
            ));
        }
    }
    if changes.is_empty() {
        what
    } else {
        format!("{what}; {}", changes.join("; "))
    }
}

fn name(index: impl Into<usize>) -> String {
    World::identity(index.into()).name
}

fn act(system: &System, state: &State, action: Action) -> String {
    let object = |index: u8| NAMES[usize::from(index)];
    match action {
        Action::Create(index) => format!("user creates {}", name(index)),
        Action::SetState(index, requested) => format!("user sets {} to {requested:?}", name(index)),
        Action::Delete(index) | Action::RemovePhase(index) => {
            format!("user deletes {}", name(index))
        }
        Action::Lose(index) => format!("the slice of {} goes or comes", name(index)),
        Action::Forge(index) => format!("user forges the number of {}", object(index)),
        Action::Save => "a backup of the server is taken".to_owned(),
        Action::Restore => "the server goes back to its backup".to_owned(),
        Action::Relist => "the manager lists the records again".to_owned(),
        Action::Edit(index) => format!("user edits {}", object(index)),
        Action::Remove(index) => format!("user deletes {}", object(index)),
        Action::Foreign(index, deed) => format!("{} {}", deed_text(deed), name(index)),
        Action::Hold(index) => format!("a user adds a finalizer to {}", object(index)),
        Action::Unhold(index) => format!("a user removes the finalizer of {}", object(index)),
        Action::Collect(index) => format!("garbage collection looks at {}", object(index)),
        Action::Deliver(index) => format!("the watch catches up with {}", object(index)),
        Action::TakeAway(index) => {
            format!("{} is taken away from an archived revision", object(index))
        }
        Action::Start(index) => format!("{}: a pass starts", name(index)),
        Action::Request(index, which, fate) => {
            let talk = state.sets[usize::from(index)].dialogue;
            format!(
                "{}: {}{}",
                name(index),
                request(system, talk, which),
                fate_text(fate)
            )
        }
        Action::Delegate(index, fate) => {
            let talk = state.sets[usize::from(index)].dialogue;
            let what = match system.dialogues.delegation(talk) {
                Some(Delegation::Create(_)) => "create",
                Some(Delegation::Pause(true)) => "pause",
                Some(Delegation::Pause(false)) => "resume",
                Some(Delegation::Delete { .. }) => "delete",
                Some(Delegation::Get) | None => "get",
            };
            let name = name(index);
            format!("{name}: {what} its phase object{}", fate_text(fate))
        }
        Action::Report(index) => format!("{}: the pass ends", name(index)),
        Action::LoseReport(index) => {
            format!("{}: the pass ends, its status is not written", name(index))
        }
        Action::Arrive => {
            let late = state.late;
            format!(
                "late, of {}: {}",
                name(late.set),
                request(system, late.talk, late.which)
            )
        }
        Action::Vanish => "a request that was given up never arrives".to_owned(),
        Action::Crash => "the manager dies and starts again".to_owned(),
    }
}

fn deed_text(deed: ForeignAction) -> &'static str {
    match deed {
        ForeignAction::Hold => "others put a finalizer on",
        ForeignAction::Release => "others take the finalizer off",
        ForeignAction::Report(Reported::Nothing) => "others report an earlier generation of",
        ForeignAction::Report(Reported::Available) => "others report the availability of",
        ForeignAction::Report(Reported::Not) => "others report a failure of",
        ForeignAction::Pause => "others report the pause, or its end, of",
    }
}

fn fate_text(fate: RequestOutcome) -> &'static str {
    match fate {
        RequestOutcome::Answered | RequestOutcome::Late => "",
        RequestOutcome::Unanswered => ", the answer is lost",
        RequestOutcome::Lost => " gets lost",
        RequestOutcome::GivenUp => " is given up on its way",
    }
}

fn request(system: &System, talk: u32, which: u8) -> String {
    let pending = &system.dialogues.pending(talk)[usize::from(which)];
    let verb = match &pending.request {
        Request::Get => "get",
        Request::DryRunCreate(_) => "dry run to create",
        Request::DryRunApply(_) => "dry run to apply",
        Request::DryRunMerge(_) => "dry run to merge",
        Request::FindAffected(_) => "find an affected object",
        Request::Create(_) => "create",
        Request::Apply(_) => "apply",
        Request::Migrate { .. } => "migrate",
        Request::TakeBack => "take back",
        Request::Release { .. } => "release",
        Request::HandOver(_) => "hand over",
        Request::DeleteForRecreation(_) => "delete to create again",
        Request::Delete(_) => "delete",
    };
    format!("{verb} {}", NAMES[pending.object])
}

fn object_text(system: &System, content: u16) -> String {
    if content == 0 {
        return "gone".to_owned();
    }
    let Facts {
        controllers,
        controller,
        owners,
        is_terminating,
        ..
    } = system.dialogues.contents.facts(content);
    let owners: Vec<_> = (0..ACTORS)
        .filter(|index| owners & (1 << index) != 0)
        .map(name)
        .collect();
    let controller = match (controllers, controller) {
        (1, Some(index)) => name(index),
        (count, _) => format!("{count} controllers"),
    };
    let going = if is_terminating { ", terminating" } else { "" };
    let data = system.dialogues.contents.data(content);
    format!(
        "\"{data}\" of {controller}, owners {}{going}",
        owners.join(" ")
    )
}

fn record_text(state: &State, index: usize) -> String {
    let set = state.sets[index];
    let record = set.record;
    let mut parts = vec![format!("number {}", record.number)];
    match record.life {
        Life::Unborn | Life::Gone => return "gone".to_owned(),
        Life::Deleting => parts.push("deleting".to_owned()),
        Life::Alive if record.status.archived => parts.push("archived".to_owned()),
        Life::Alive if set.requested != RequestedState::Active => {
            parts.push(format!("{:?}", set.requested));
        }
        Life::Alive => {}
    }
    if record.status.succeeded {
        parts.push("succeeded".to_owned());
    }
    let controls = (0..OBJECTS).filter(|object| record.status.controls & (1 << object) != 0);
    let controls: Vec<_> = controls.map(|object| NAMES[object]).collect();
    if !controls.is_empty() {
        parts.push(format!("reports {}", controls.join(" ")));
    }
    parts.join(", ")
}
