//! `events`: events about deployments, their revisions and the objects of those.

mod render;

use std::{cell::RefCell, collections::BTreeMap};

use baton_apis::{
    constants::{
        LABEL_SITE_DEPLOYMENT,
        shipper::{LABEL_APP, LABEL_RELEASE},
    },
    kinds::{self, Kind},
};
use baton_cluster::{
    Cluster,
    follower::Follower,
    lists::{self, once},
};
use baton_engine::names::is_label_value;
use baton_steering::releases::question;
use baton_terminal::output::{Print as _, report};
use baton_text::output::{
    Output,
    format::{Format, objects},
};
use baton_view::{
    applications::{question::OneApplication, target::AppTarget},
    events::Subjects,
    lists::{List, ListRequest, Lists, MissingObject, NoAnswer, Question, join_all},
    object::text_at,
    selection::{Selected, Selection},
    sites::target::SiteTarget,
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    selection::SelectionArgs,
    subject::{Subject, SubjectKind},
};
use render::{Event, Stream};

/// Show the events about deployments, all of their revisions, and the objects of those
///
/// Without TARGET, shows those about everything in the namespace. Events are sorted by the time of
/// their last occurrence.
///
/// For an Application of Shipper (app/NAME) or one of its Releases (rel/NAME), the events about it,
/// its Releases, their targets, revisions and objects. For a deployment to sites (sitedeploy/NAME),
/// those about it, its revisions and their objects.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Continue with new events until Ctrl-C
    #[arg(long, short)]
    watch: bool,

    /// Format for programs, instead of a table
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        conflicts_with = "watch"
    )]
    output: Option<Format>,
}

/// Shows the events once, or continues with new ones.
pub(crate) async fn run(args: &EventsArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let allowed = [
        SubjectKind::Chain,
        SubjectKind::Application,
        SubjectKind::SiteDeployment,
    ];
    let (cluster, scope) = match args.selection.one(&allowed)? {
        Some(Subject::Application(target)) => {
            let cluster = global.connect().await?;
            let scope = Scope::Application(question(&cluster, &target));
            (cluster, scope)
        }
        Some(Subject::SiteDeployment(target)) => {
            let cluster = global.connect().await?;
            let namespace = cluster.namespace.clone();
            (cluster, Scope::SiteDeployment { target, namespace })
        }
        _ => {
            let (cluster, selection) = args.selection.connect(global).await?;
            (cluster, Scope::Chains(selection))
        }
    };
    let output = global.output();
    let question = EventsOf {
        scope,
        about: RefCell::default(),
    };
    if args.watch {
        return watch(&cluster, question, output).await;
    }
    let found = once(&cluster, &question).await?;
    lists::found(found.missing)?;
    let mut events: Vec<Event> = found.events.into_iter().map(Event::new).collect();
    events.sort_by_key(Event::order);
    match args.output {
        Some(format) => {
            let found: Vec<Value> = events.into_iter().map(|event| event.object).collect();
            output.print(&objects(format, &found, false))?;
        }
        None if events.is_empty() => report("No events found."),
        None => {
            let mut stream = Stream::new(found.is_wide);
            output.print(&stream.add(&events, Timestamp::now(), output))?;
        }
    }
    Ok(Exit::Fine)
}

/// The subject of the events.
enum Scope {
    Chains(Selection),
    Application(OneApplication),
    SiteDeployment {
        target: SiteTarget,
        namespace: String,
    },
}

impl Scope {
    /// The chains of the subject. Adds all other objects of it to `about`.
    fn chains(&self, lists: &Lists, about: &mut Subjects) -> Result<Selected, NoAnswer> {
        match self {
            Self::Chains(selection) => selection.answer(lists),
            Self::Application(question) => of_application(question, lists, about),
            Self::SiteDeployment { target, namespace } => {
                let SiteTarget { kind, name } = target;
                let request = ListRequest::named(kind.path(Some(namespace)), name);
                if lists.required(&request)?.first().is_none() {
                    return Err(NoAnswer::Missing(MissingObject::Object {
                        plurals: vec![kind.plural],
                        name: name.clone(),
                        namespace: Some(namespace.clone()),
                    }));
                }
                about.insert(kind.group, kind.name, Some(namespace), name);
                labelled(LABEL_SITE_DEPLOYMENT, name, namespace).answer(lists)
            }
        }
    }

    fn is_wide(&self) -> bool {
        matches!(self, Self::Chains(selection) if selection.all_namespaces)
    }
}

/// The revisions of an Application, or of a Release of it.
fn of_application(
    question: &OneApplication,
    lists: &Lists,
    about: &mut Subjects,
) -> Result<Selected, NoAnswer> {
    const OF_RELEASES: [&Kind; 4] = [
        &kinds::RELEASE,
        &kinds::INSTALLATION_TARGET,
        &kinds::CAPACITY_TARGET,
        &kinds::TRAFFIC_TARGET,
    ];
    let observed = question.answer(lists)?;
    let AppTarget { kind, name } = &question.target;
    let namespace = Some(observed.namespace.as_str());
    about.insert(kind.group, kind.name, namespace, name);
    for (_, release) in observed.releases() {
        let own = release.metadata.name.as_deref().unwrap_or_default();
        if observed.named.as_deref().is_none_or(|named| named == own) {
            for kind in OF_RELEASES {
                about.insert(kind.group, kind.name, namespace, own);
            }
        }
    }
    let label = if question.target.is_release() {
        LABEL_RELEASE
    } else {
        LABEL_APP
    };
    if !is_label_value(name) {
        return Ok(Selected::default());
    }
    labelled(label, name, &observed.namespace).answer(lists)
}

/// The revisions with a label.
fn labelled(label: &str, value: &str, namespace: &str) -> Selection {
    Selection {
        labels: Some(format!("{label}={value}")),
        namespace: namespace.to_owned(),
        ..Selection::default()
    }
}

/// The events about a subject.
struct EventsOf {
    scope: Scope,
    /// The objects that events were requested for.
    about: RefCell<Subjects>,
}

struct EventList {
    events: Vec<Value>,
    /// True if the events are of several namespaces.
    is_wide: bool,
    missing: Option<MissingObject>,
}

impl Question for EventsOf {
    type Answer = EventList;

    fn answer(&self, lists: &Lists) -> Result<EventList, NoAnswer> {
        let mut about = self.about.borrow_mut();
        let selected = self.scope.chains(lists, &mut about)?;
        about.add(lists, &selected.chains)?;
        let sources = about.sources();
        let events = join_all(sources.iter().map(|source| lists.required(source)))?;
        let events = events.into_iter().flat_map(List::objects);
        Ok(EventList {
            events: events.filter(|event| about.has(event)).cloned().collect(),
            is_wide: self.scope.is_wide() || about.is_wide(),
            missing: selected.missing,
        })
    }
}

async fn watch(cluster: &Cluster, question: EventsOf, output: Output) -> Result<Exit, Error> {
    let mut follower = Follower::start(cluster, question).await?;
    lists::found(follower.last().missing.clone())?;
    let mut stream = Stream::new(follower.last().is_wide);
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let mut reported: Option<String> = None;
    loop {
        follower.next().await;
        let present = &follower.last().events;
        let mut new: Vec<Event> = present
            .iter()
            .filter(|event| printed.get(uid(event)).map(String::as_str) != Some(version(event)))
            .map(|event| Event::new(event.clone()))
            .collect();
        new.sort_by_key(Event::order);
        output.print(&stream.add(&new, Timestamp::now(), output))?;
        printed = present
            .iter()
            .map(|event| (uid(event).to_owned(), version(event).to_owned()))
            .collect();
        if let Some(text) = follower.trouble()
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
    }
}

fn uid(event: &Value) -> &str {
    text_at(event, "/metadata/uid")
}

fn version(event: &Value) -> &str {
    text_at(event, "/metadata/resourceVersion")
}
