//! The objects of a phase: squares, and a list with owners and reasons.

use baton_text::{output::Paint, tree::number};
use baton_view::tree::{Health, ObjectPicture, OwnerPicture, PhasePicture};
use maud::{Markup, html};

use crate::{
    html::{Text, badge, class},
    regions::id,
};

/// The objects of a phase: a square each, in the lane of the owner; and as a list, of which a few are
/// always shown, those that are not as wanted before others.
pub(super) fn cell(phase: &PhasePicture, region: &str) -> Markup {
    let total = phase.total();
    // An object of another revision is seen there.
    let is_open = |object: &&ObjectPicture| {
        !object.is_ready() && !matches!(object.owner, OwnerPicture::OtherRevision { .. })
    };
    let open: Vec<&ObjectPicture> = phase.objects.iter().filter(is_open).collect();
    let label = format!("{} of {total} objects ready", phase.healthy);
    html! {
        div.phase {
            @if !phase.class.is_empty() { div.dim { "class " (Text(&phase.class)) } }
            div.squares role="img" aria-label=(label) {
                @for object in &phase.objects { (square(object)) }
            }
            @if !phase.message.is_empty() { div.message { (Text(&phase.message)) } }
            @if total > FEW && !open.is_empty() {
                ul {
                    @for object in open.iter().take(FEW) { (row(object)) }
                    @if open.len() > FEW { li.dim { "and " (open.len() - FEW) " more" } }
                }
            }
            @if total > FEW {
                details #(format!("{region}_all")) {
                    summary { (phase.healthy) "/" (total) }
                    (all(phase))
                }
            } @else {
                (all(phase))
            }
        }
    }
}

/// All objects of a phase.
fn all(phase: &PhasePicture) -> Markup {
    html! {
        ul {
            @for object in &phase.objects { (row(object)) }
        }
    }
}

/// The number of objects of a phase that are shown without being asked for.
const FEW: usize = 4;

/// A square for an object: full in the lane of its owner, which the script uses to show moves, and
/// empty in other lanes.
fn square(object: &ObjectPicture) -> Markup {
    let (owner, paint) = (owner_class(&object.owner), health_paint(object));
    let is_here = matches!(object.owner, OwnerPicture::ThisRevision { .. });
    let key = is_here.then(|| {
        id(&[
            "",
            &object.group,
            &object.kind,
            &object.namespace,
            &object.name,
        ])
    });
    html! {
        span.square.(owner).(class(Some(paint))) data-key=[key]
            title={ (Text(&object.kind)) "/" (Text(&object.name)) } {}
    }
}

fn owner_class(owner: &OwnerPicture) -> &'static str {
    match owner {
        OwnerPicture::ThisRevision { .. }
        | OwnerPicture::Delegated { .. }
        | OwnerPicture::Ended => "own",
        OwnerPicture::OtherRevision { .. } => "other",
        OwnerPicture::Stranger { .. } => "stranger",
        OwnerPicture::Nobody | OwnerPicture::Missing | OwnerPicture::Unknown => "nobody",
    }
}

fn health_paint(object: &ObjectPicture) -> Paint {
    match (&object.owner, object.healthy) {
        (OwnerPicture::OtherRevision { .. } | OwnerPicture::Missing, _)
        | (OwnerPicture::Ended, Health::True) => Paint::Dim,
        (OwnerPicture::Stranger { .. }, _) | (_, Health::False) => Paint::Bad,
        (_, Health::True) => Paint::Good,
        (_, Health::Unknown) => Paint::Warn,
    }
}

/// An object with its owner and its message.
fn row(object: &ObjectPicture) -> Markup {
    html! {
        li {
            span.kind { (Text(&object.kind)) "/" } (Text(&object.name))
            @if !object.namespace.is_empty() { span.dim { " in " (Text(&object.namespace)) } }
            " " (owner(object))
            @if !object.message.is_empty() { div.message { (Text(&object.message)) } }
        }
    }
}

/// The owner and the health of an object.
fn owner(object: &ObjectPicture) -> Markup {
    let health = badge(health_paint(object), object.healthy.as_str());
    match &object.owner {
        OwnerPicture::ThisRevision { .. } => health,
        OwnerPicture::OtherRevision { revision, name } => {
            badge(Paint::Accent, &number(*revision, name))
        }
        OwnerPicture::Stranger { kind, name } => badge(Paint::Bad, &format!("{kind}/{name}")),
        OwnerPicture::Nobody => badge(Paint::Warn, "no owner"),
        OwnerPicture::Missing => badge(Paint::Warn, "missing"),
        OwnerPicture::Ended => badge(health_paint(object), "ended"),
        OwnerPicture::Delegated { class } => {
            html! { (health) " " span.dim { "class " (Text(class)) } }
        }
        OwnerPicture::Unknown => badge(Paint::Warn, "unknown"),
    }
}
