//! Phases of clusters that agents serve: what is kept for the agents on the hub, and what they report
//! (see [`crate::cluster::mirror`]).

use std::sync::Arc;

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{ARCHIVED, reasons},
    constants::{
        ANNOTATION_HEARTBEAT_SECONDS, ANNOTATION_ORIGIN, FINALIZER_CACHED, HEARTBEAT,
        NAMESPACE_CLUSTER_PREFIX,
    },
};
use jiff::Timestamp;

use super::{Error, has, not_connected, release, set_up, unreachable, write};
use crate::{
    cluster::{
        inventory::{Contact, Inventory, Link},
        mirror::{self, Origin},
        phase::{PhaseKey, PhaseRecord},
    },
    controllers::{Context, Reconciled, deliver::lifecycle, owner::Owner},
    engine::{
        conditions::{Again, report_phase_unknown},
        revision::Revision,
    },
    telemetry::outcomes::ReconcileOutcome,
};

/// The cluster whose agent's heartbeat an object is to hold.
pub fn cluster_of_heartbeat(key: &PhaseKey) -> Option<&str> {
    let cluster = key.namespace.strip_prefix(NAMESPACE_CLUSTER_PREFIX)?;
    (*key.name == *HEARTBEAT).then_some(cluster)
}

/// Makes sure that an agent has where to show that it is there.
///
/// # Errors
/// When a request failed; for want of the namespace for instance.
pub async fn keep_heartbeat(
    context: &Context,
    inventory: &Inventory,
    cluster: &str,
) -> Result<Reconciled, Error> {
    let key = mirror::heartbeat(cluster);
    let known = context.phases.get(&key);
    let seconds = inventory.heartbeat().as_secs().to_string();
    let is_due = known.as_ref().is_none_or(|known| {
        !known.deleting && known.annotations.get(ANNOTATION_HEARTBEAT_SECONDS) != Some(&seconds)
    });
    if !is_due || !matches!(inventory.link(cluster), Link::Pull(_)) {
        return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
    }
    let api = &context.api;
    let made = if let Some(known) = known {
        let annotation = (ANNOTATION_HEARTBEAT_SECONDS, &*seconds);
        api.annotate_phase(&known, annotation, false).await
    } else {
        let manifest = mirror::heartbeat_manifest(&key, &seconds);
        api.create_phase(&key, &manifest).await
    };
    context.phases.created(made.map_err(Error::Mirror)?);
    Ok((ReconcileOutcome::Changed, Again::OnEvent))
}

/// Hands a phase to the agent of its cluster, and takes from there how it stands with it.
///
/// # Errors
/// When a request about the phase or its mirror failed.
pub async fn hand_over(
    context: &Context,
    record: Arc<PhaseRecord>,
    cluster: &str,
    contact: Contact,
) -> Result<Reconciled, Error> {
    if record.deleting {
        return take_back(context, &record, cluster, contact).await;
    }
    let record = set_up(context, record).await?;
    let kept = keep(context, &record, cluster).await;
    if let Err(error) = &kept
        && context.is_stuck(&Owner::Phase(record.key.clone()))
    {
        let old = record.status()?;
        let revision = Revision {
            generation: record.generation,
            lifecycle: lifecycle(record.is_paused()?),
            ..Revision::default()
        };
        let reason = ("Unknown", reasons::CLUSTER_UNREACHABLE);
        let text = format!(
            "It cannot be handed to the agent of Cluster \"{cluster}\": {error}; `baton cluster join {cluster} --pull` \
             makes what the agent needs."
        );
        let status = report_phase_unknown(&old, &revision, reason, &text, Timestamp::now());
        let result = (ReconcileOutcome::Failed, Again::Backoff);
        return write(context, &record, &old, status, result).await;
    }
    let told = tell(context, &record, cluster, contact, kept.as_ref().ok()).await;
    kept?;
    told
}

/// Says how it stands with a phase, as its agent reports.
async fn tell(
    context: &Context,
    record: &PhaseRecord,
    cluster: &str,
    contact: Contact,
    mirror: Option<&Arc<PhaseRecord>>,
) -> Result<Reconciled, Error> {
    let waiting = (ReconcileOutcome::Waiting, Again::OnEvent);
    match contact {
        // What was reported last still holds, for the short time until that is known better.
        Contact::Expected => Ok(waiting),
        Contact::Lost { message, since } => {
            unreachable(context, record, &not_connected(cluster, since, &message)).await
        }
        Contact::Heard => {
            let status = mirror.map(|mirror| mirror.status()).transpose()?;
            let mut status: ObjectSetPhaseStatus = status.unwrap_or_default();
            status.conditions.retain(|c| c.type_ != ARCHIVED);
            if status.conditions.is_empty() {
                return Ok(waiting);
            }
            if record.deleting {
                // Its deletion has made another generation of it, which the agent knows nothing of.
                for condition in &mut status.conditions {
                    condition.observed_generation = Some(record.generation);
                }
            }
            let old = record.status()?;
            let result = (ReconcileOutcome::Unchanged, Again::OnEvent);
            write(context, record, &old, status, result).await
        }
    }
}

/// Brings the mirror of a phase up to date.
async fn keep(
    context: &Context,
    record: &PhaseRecord,
    cluster: &str,
) -> Result<Arc<PhaseRecord>, Error> {
    let set = record.controller.as_ref();
    let set = set.and_then(|uid| context.revisions.by_uid(uid));
    let before = set.as_ref().map(|set| context.revisions.before(set));
    let origin = Origin::of(record, set.as_deref(), &before.unwrap_or_default());
    let key = mirror::key(cluster, record);
    let api = &context.api;
    let Some(known) = context.phases.get(&key) else {
        let manifest = mirror::manifest(&key, record, &origin)?;
        let made = api.create_phase(&key, &manifest).await;
        let made = made.map_err(Error::Mirror)?;
        context.phases.created(made.clone());
        return Ok(Arc::new(made));
    };
    if known.deleting {
        // Somebody has deleted it, which takes the objects away; it is made again when it is gone.
        if is_done(&known) {
            let free = api.set_finalizers(&known, Vec::new()).await;
            free.map_err(Error::Mirror)?;
        }
        return Ok(known);
    }
    let (text, paused) = (origin.text(), record.is_paused()?);
    if known.annotations.get(ANNOTATION_ORIGIN) == Some(&text) && known.is_paused()? == paused {
        return Ok(known);
    }
    let annotation = (ANNOTATION_ORIGIN, &*text);
    let updated = api.annotate_phase(&known, annotation, paused).await;
    let updated = updated.map_err(Error::Mirror)?;
    context.phases.update(updated.clone());
    Ok(Arc::new(updated))
}

/// Lets the agent take the objects of a phase away, and lets go of it.
async fn take_back(
    context: &Context,
    record: &PhaseRecord,
    cluster: &str,
    contact: Contact,
) -> Result<Reconciled, Error> {
    if !has(record, FINALIZER_CACHED) {
        return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
    }
    let is_lost = matches!(contact, Contact::Lost { .. });
    if record.orphaning || (is_lost && record.is_abandoned()) {
        withdraw(context, record, cluster).await?;
        release(context, record).await?;
        return Ok((ReconcileOutcome::Changed, Again::OnEvent));
    }
    let key = mirror::key(cluster, record);
    let mut known = context.phases.get(&key);
    if known.is_none() {
        // The manager before this one may have made it a moment ago.
        let found = context.api.phase(&key).await;
        known = found.map_err(Error::Mirror)?.map(Arc::new);
    }
    match known {
        None => {}
        Some(known) if is_done(&known) => {
            let free = context.api.set_finalizers(&known, Vec::new()).await;
            free.map_err(Error::Mirror)?;
        }
        Some(known) => {
            if !known.deleting {
                let deleted = context.api.delete_phase(&known).await;
                deleted.map_err(Error::Mirror)?;
            }
            return tell(context, record, cluster, contact, Some(&known)).await;
        }
    }
    release(context, record).await?;
    Ok((ReconcileOutcome::Changed, Again::OnEvent))
}

/// Whether the agent has taken all objects away.
fn is_done(mirror: &PhaseRecord) -> bool {
    mirror.deleting
        && mirror
            .status()
            .is_ok_and(|status| mirror::is_archived(&status))
}

/// Takes the mirror of a phase away, if there is one. Its objects stay as they are: the agent forgets a
/// phase whose mirror is gone.
///
/// # Errors
/// When a request failed.
pub async fn withdraw(context: &Context, record: &PhaseRecord, cluster: &str) -> Result<(), Error> {
    match context.phases.get(&mirror::key(cluster, record)) {
        Some(known) => discard(context, &known).await,
        None => Ok(()),
    }
}

/// Takes a mirror away whose phase is gone without a word, as when somebody took its finalizers away.
///
/// # Errors
/// When a request failed.
pub async fn collect(context: &Context, mirror: &PhaseRecord) -> Result<Reconciled, Error> {
    let origin = match Origin::read(mirror) {
        Ok(origin) => origin,
        Err(error) => {
            tracing::warn!(mirror = %mirror.key, %error, "left alone, it stands for no phase");
            return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
        }
    };
    // Its watch may be behind that of the mirrors.
    let found = context.api.phase(&origin.key()).await;
    let found = found.map_err(Error::Mirror)?;
    if found.is_some_and(|phase| *phase.uid == *origin.uid()) {
        return Ok((ReconcileOutcome::Waiting, Again::OnEvent));
    }
    let phase = origin.key();
    tracing::warn!(mirror = %mirror.key, %phase, "the phase is gone; its objects are left behind");
    discard(context, mirror).await?;
    Ok((ReconcileOutcome::Changed, Again::OnEvent))
}

async fn discard(context: &Context, mirror: &PhaseRecord) -> Result<(), Error> {
    let api = &context.api;
    let mut mirror = mirror.clone();
    if !mirror.finalizers.is_empty() {
        let free = api.set_finalizers(&mirror, Vec::new()).await;
        mirror = free.map_err(Error::Mirror)?;
    }
    if !mirror.deleting {
        let deleted = api.delete_phase(&mirror).await;
        deleted.map_err(Error::Mirror)?;
    }
    Ok(())
}
