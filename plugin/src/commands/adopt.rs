//! `adopt`: existing objects become the first revision of a deployment.

mod args;
mod lost_hub;
mod make;

pub(crate) use self::args::AdoptArgs;
use baton_cluster::Cluster;
use baton_steering::diff::{forecast::forecast, phase_clusters::PhaseClusters};
use baton_terminal::output::{Print as _, report};
use baton_text::{
    diff::{self, Labels, object_title, render},
    rollout::message,
};
use baton_view::{
    chain::{kind::ChainKind, target::Target},
    diff::{Section, note::ObjectNote, outcome::DiffOutcome},
};

use self::args::SourceArgs;
use super::{Exit, conclude, pack::print};
use crate::{
    adopt::{
        FoundObjects, argocd, flux, helm, kapp,
        live::{self, AdoptFilter},
        preview::preview,
        selected::{Selection, named, selected},
        undo,
    },
    args::GlobalArgs,
    diff::input::set_default_namespace,
    error::Error,
    pack::{
        Packed,
        apply::{self, Mode},
    },
    wait::chain::follow_unless_refused,
};

pub(crate) async fn run(args: &AdoptArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    if !args.from_hub.is_empty() {
        return lost_hub::run(args, global).await;
    }
    args.check_name()?;
    let cluster = global.connect().await?;
    if args.undo {
        return undone(args, &cluster, global).await;
    }
    let found = find(&args.source, &cluster).await?;
    let title = found.iter().map(|found| found.title.as_str());
    let title = title.collect::<Vec<_>>().join(" and ");
    let choice = AdoptFilter {
        skip_missing: args.choice.skip_missing,
        no_secrets: args.choice.no_secrets,
    };
    let adoptable = live::read(&cluster, found, choice).await?;
    let packed = make::deployment(args, &cluster, adoptable, &title).await?;
    if let Some(format) = args.output {
        let objects = packed.objects();
        print(&objects, format, global.output())?;
        return Ok(Exit::Fine);
    }
    take_over(args, &cluster, packed, &title, global).await
}

/// Finds the objects of all given sources.
async fn find(args: &SourceArgs, cluster: &Cluster) -> Result<Vec<FoundObjects>, Error> {
    let mut found = Vec::new();
    if let Some(release) = &args.helm {
        found.push(helm::read(cluster, release).await?);
    }
    if let Some(application) = &args.argocd {
        let namespace = application
            .namespace
            .as_deref()
            .unwrap_or(argocd::NAMESPACE);
        found.push(argocd::read(cluster, namespace, &application.name).await?);
    }
    if let Some(kustomization) = &args.flux {
        let namespace = kustomization
            .namespace
            .as_deref()
            .unwrap_or(flux::NAMESPACE);
        found.push(flux::read(cluster, namespace, &kustomization.name).await?);
    }
    if args.kapp.is_none() && args.selector.is_none() && args.objects.is_empty() {
        return Ok(found);
    }
    let mut warnings = Vec::new();
    let served = cluster.discover(&mut warnings).await?;
    for warning in warnings {
        report(&format!("warning: {warning}"));
    }
    if let Some(app) = &args.kapp {
        found.push(kapp::read(cluster, &served, app).await?);
    }
    if let Some(labels) = &args.selector {
        let selection = Selection {
            labels: labels.clone(),
            kinds: args.kinds.clone(),
        };
        found.push(selected(cluster, &served, &selection).await?);
    }
    if !args.objects.is_empty() {
        found.push(named(&served, &cluster.namespace, &args.objects)?);
    }
    Ok(found)
}

/// Shows the effect of the deployment, and creates it if the user asks for that.
async fn take_over(
    args: &AdoptArgs,
    cluster: &Cluster,
    mut packed: Packed,
    title: &str,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let output = global.output();
    let package = &mut packed.package;
    let unplaced = GlobalArgs::default();
    for object in package.slices.iter_mut().chain([&mut package.object]) {
        set_default_namespace(object, cluster, &unplaced)?;
    }
    let object = &package.object;
    let kind = ChainKind::of(object).unwrap_or(ChainKind::ObjectDeployment);
    let target = Target::new(kind, &args.name);
    let within = object["metadata"]["namespace"].as_str();
    let there = within.map_or_else(|| cluster.clone(), |namespace| cluster.within(namespace));
    let places = PhaseClusters::only(there);
    if places.home.get(kind, &args.name).await?.is_some() {
        return Err(Error::Impossible(format!(
            "{target} exists already; choose another name, or change that one with `kubectl baton pack --apply`"
        )));
    }
    let mut sections = preview(forecast(&places, object, kind, &package.slices).await?);
    if let Some(revision) = sections.get_mut(1) {
        revision.notes.push(ObjectNote::Origin(title.to_owned()));
    }
    let labels = Labels::new("live", "taken over");
    output.print(&render(&sections, &labels, output))?;
    if sections.iter().any(Section::is_refused) {
        report("error: nothing was changed, because some objects cannot be taken over");
        return Ok(Exit::Refused);
    }
    let restarting = sections
        .iter()
        .filter(|it| it.outcome == DiffOutcome::Restarted);
    let restarting: Vec<String> = restarting.map(|it| diff::title(&it.topic)).collect();
    if !restarting.is_empty() && !args.choice.allow_restart {
        report(&format!(
            "error: nothing was changed, because pods would be replaced: {}; --allow-restart takes the objects over \
             anyway",
            restarting.join(", ")
        ));
        return Ok(Exit::Refused);
    }
    if !args.apply {
        report(
            "nothing was changed; --apply takes the objects over, -o yaml prints the deployment",
        );
        return Ok(Exit::Fine);
    }
    apply::apply(&places.home, package, Mode::default(), |line| {
        Ok(output.print(line)?)
    })
    .await?;
    if args.no_wait {
        return Ok(Exit::Fine);
    }
    let (_, rollout) = follow_unless_refused(&places.home, &target, args.timeout).await?;
    let exit = conclude(rollout.outcome, &message(&rollout), args.timeout, output)?;
    if exit == Exit::Fine {
        let scope = if kind.is_namespaced { "" } else { " --cluster" };
        output.print(&format!(
            "the records of the tool were kept: `kubectl baton adopt {} --undo{scope}` gives everything back",
            args.name
        ))?;
    }
    Ok(exit)
}

/// Gives all objects back, or shows the effect of that.
async fn undone(args: &AdoptArgs, cluster: &Cluster, global: &GlobalArgs) -> Result<Exit, Error> {
    let output = global.output();
    let kind = if args.result.cluster {
        ChainKind::ClusterObjectDeployment
    } else {
        ChainKind::ObjectDeployment
    };
    let holding = undo::read(cluster, kind, &args.name)
        .await
        .map_err(|error| match error {
            Error::NotFound(text) if kind.is_namespaced => Error::NotFound(format!(
                "{text}; --cluster looks for a ClusterObjectDeployment"
            )),
            error => error,
        })?;
    if args.apply {
        holding
            .undo(cluster, args.timeout, |line| Ok(output.print(line)?))
            .await?;
        return Ok(Exit::Fine);
    }
    for (_, key) in &holding.objects {
        output.print(&format!("{}: kept", object_title(key)))?;
    }
    report(&format!(
        "nothing was changed; --apply deletes {} and its revisions and slices, and none of these objects",
        holding.target
    ));
    Ok(Exit::Fine)
}
