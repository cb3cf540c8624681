//! Namespaces and definitions of kinds that an older revision would delete with what a newer one has in them.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, constants::CLASS_DEFAULT};
use baton_engine::{
    ObjectKey,
    containers::{Container, Held},
    heirs::wants,
    keep::is_kept,
    revision::{Desired, Phase, prepare},
};
use baton_kubernetes::{
    store::Source,
    target::{Target, TargetEvent},
};
use baton_records::{
    api::Api,
    revision::{RevisionKey, RevisionKind, RevisionRecord},
};
use baton_runtime::source::Wake;

use super::{BURST, Error, heirs::as_revision, observed::Observed};

/// Where the objects of a class are. Those of the default class are beside those without one.
fn place(class: &str) -> &str {
    if class == CLASS_DEFAULT { "" } else { class }
}

/// Where the objects of a phase are.
fn place_of(phase: &Phase) -> &str {
    place(phase.delegated.as_ref().map_or("", |it| &it.class))
}

fn container(object: &Desired) -> Option<Container> {
    Container::of(&object.gvk, &object.manifest)
}

impl Observed {
    /// Why a revision must not be rolled out: what it would lose with containers that only older ones have. `home` is
    /// its own cluster.
    ///
    /// # Errors
    /// When an older revision cannot be read, or the request for one of its slices fails.
    ///
    /// # Caveats
    /// That a container is to be kept is known of other clusters by its manifest only.
    pub(crate) async fn losses(
        &self,
        api: &Api,
        home: &Target,
        record: &RevisionRecord,
        phases: &[Phase],
    ) -> Result<Vec<String>, Error> {
        let mut losses = Vec::new();
        if !may_have_containers(record, phases) {
            return Ok(losses);
        }
        for older in self.revisions.unfinished_before(record) {
            let revision = as_revision(&older);
            for phase in self.manifests(api, &older).await? {
                let place = place(&phase.class).to_owned();
                for object in prepare(&revision, vec![phase])
                    .iter()
                    .flat_map(|it| &it.objects)
                {
                    let Some(container) = container(object) else {
                        continue;
                    };
                    let live = home.get(&object.gvk, "", &object.key.name);
                    let live = live.filter(|_| place.is_empty());
                    let live = live.and_then(|live| live.parse().ok());
                    if is_kept(live.iter().chain([&object.manifest])) {
                        continue;
                    }
                    let there = phases.iter().filter(|phase| place_of(phase) == place);
                    let wants = there.flat_map(|phase| &phase.objects);
                    let held = Held {
                        container,
                        key: object.key.clone(),
                        revision: older.key.name.to_string(),
                    };
                    losses.extend(held.loss(&wants.map(|object| object.key.clone()).collect()));
                }
            }
        }
        Ok(losses)
    }

    /// The objects that newer revisions want in the place of a class, for a revision or phase of that class with these
    /// objects; none are looked for unless a container is among them.
    ///
    /// # Errors
    /// As [`Observed::losses`].
    pub(crate) async fn newer_wants(
        &self,
        api: &Api,
        record: &RevisionRecord,
        class: &str,
        phases: &[Phase],
    ) -> Result<BTreeSet<ObjectKey>, Error> {
        let mut found = BTreeSet::new();
        let mut own = phases.iter().flat_map(Phase::own_objects);
        if own.all(|object| container(object).is_none()) {
            return Ok(found);
        }
        for newer in self.revisions.newer(record) {
            let mut there = self.manifests(api, &newer).await?;
            there.retain(|phase: &ObjectSetTemplatePhase| place(&phase.class) == place(class));
            found.extend(wants(&prepare(&as_revision(&newer), there)));
        }
        Ok(found)
    }
}

/// Whether revisions of a chain may have cluster-scoped objects: one in a namespace, with its phases delegated only.
fn may_have_containers(record: &RevisionRecord, phases: &[Phase]) -> bool {
    record.key.kind == RevisionKind::ClusterObjectSet
        || phases.iter().any(|phase| phase.delegated.is_some())
}

/// Trigger: whoever has changed a container may have said that it is to be kept, which newer revisions wait for.
pub(crate) fn on_container(observed: &Observed, event: &TargetEvent) -> Vec<Wake<RevisionKey>> {
    let TargetEvent::Changed(change) = event else {
        return Vec::new();
    };
    let kind = (&*change.gvk.group, &*change.gvk.kind);
    let is_container = Container::KINDS.contains(&kind);
    if !is_container || change.source == Source::Write {
        return Vec::new();
    }
    let owners = change.owners.iter();
    let owners = owners.filter_map(|owner| observed.revisions.by_uid(&owner.uid));
    let newer = owners.flat_map(|owner| observed.revisions.newer(&owner));
    newer
        .map(|newer| Wake::after(BURST, newer.key.clone()))
        .collect()
}
