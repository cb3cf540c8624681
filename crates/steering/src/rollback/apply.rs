//! Writes rollbacks of chains.

use baton_cluster::{Cluster, Write, follower::Follower, lists};
use baton_kubernetes::wire::MediaType;
use baton_text::{output::format::name, rollout::title};
use baton_view::{
    chain::{
        Chain,
        member::{Deployment, Revision},
        question::OneChain,
        target::Target,
    },
    content::Slices,
    diff::{
        Section,
        plan::Plan,
        revisions::{RevisionSide, compare},
    },
};
use serde_json::{Value, json};

use super::{
    Candidate, Choice, Comparison, Options, choose, standalone,
    write::{ROLLBACK, cause, roll_deployment, template, without_cause},
};
use crate::{
    diff::{forecast::of_plan, phase_clusters::PhaseClusters, refusals::check_revision},
    error::Error,
    note,
    version::SpecVersion,
};

/// The number of attempts for a deployment whose status changes in the meantime.
const ROUNDS: usize = 5;

/// The revision to go back to, and options.
#[derive(Clone, Debug, Default)]
pub struct RollbackOptions {
    /// Number of the revision; `None` for the default choice.
    pub to_revision: Option<i64>,
    /// True if a revision that has never succeeded is allowed, and a paused deployment is changed.
    pub force: bool,
    /// Name of the new revision, for a chain without a deployment.
    pub name: Option<String>,
    /// True if the server only checks the change.
    pub dry_run: bool,
    /// The only state of the chain that is changed: that of its deployment, or of its newest revision.
    pub only: Option<SpecVersion>,
}

/// The outcome of a rollback.
#[derive(Clone, Debug)]
pub struct RollbackResult {
    /// The outcome, in a line or two.
    pub line: String,
    /// The object to wait for; `None` if nothing is rolled out.
    pub follow: Option<Target>,
    /// The deployment as the server returned it; null if there is none, or nothing was written.
    pub applied: Value,
    /// The change cause that the deployment was given for its next revision.
    cause: Option<String>,
}

impl RollbackResult {
    /// Waits until the deployment has made its next revision, and removes the change cause from the
    /// deployment then.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn settle_soon(&self, cluster: &Cluster, target: &Target) -> Result<(), Error> {
        // Nothing is rolled out while the deployment is paused.
        let (Some(cause), Some(_)) = (&self.cause, &self.follow) else {
            return Ok(());
        };
        let question = OneChain::new(target, &cluster.namespace);
        let mut follower = Follower::start(cluster, question).await?;
        loop {
            if let Some(chain) = follower.last() {
                let has_it = |it: &Revision| it.change_cause() == Some(cause);
                if chain.current().is_some_and(has_it) {
                    return forget(cluster, chain, cause).await;
                }
            }
            if !follower.next().await {
                return Ok(());
            }
        }
    }

    /// Removes the change cause from the deployment once its current revision has it.
    ///
    /// # Errors
    /// If a request fails.
    pub async fn settle(&self, cluster: &Cluster, chain: &Chain) -> Result<(), Error> {
        match &self.cause {
            Some(cause) => forget(cluster, chain, cause).await,
            None => Ok(()),
        }
    }
}

/// Removes the change cause from a deployment once its current revision has it, as it does not
/// apply to later changes.
async fn forget(cluster: &Cluster, chain: &Chain, cause: &str) -> Result<(), Error> {
    let has_it = chain
        .current()
        .is_some_and(|revision| revision.change_cause() == Some(cause));
    let Some(deployment) = chain.asked_deployment().filter(|_| has_it) else {
        return Ok(());
    };
    let write = Write::new(MediaType::JsonPatch, false);
    let patch = without_cause(cause);
    match cluster.write(&deployment.path(), write, &patch).await {
        // The change cause was changed or removed in the meantime.
        Err(error) if error.is_code(422) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Writes a patch or a revision that makes an earlier content the next revision.
///
/// # Guarantees
/// A deployment is changed only in the state that was read, and only in the state of
/// [`RollbackOptions::only`] if there is one.
///
/// # Errors
/// If the rollback is refused, objects would be refused, or a request fails.
pub async fn roll_back(
    cluster: &Cluster,
    target: &Target,
    wanted: &RollbackOptions,
) -> Result<RollbackResult, Error> {
    let mut round = 1;
    let mut chosen = wanted.only.clone();
    loop {
        let chain = lists::chain(cluster, target).await?;
        let now = version(&chain);
        if chosen.is_some_and(|chosen| Some(&chosen) != now.as_ref()) {
            let deployment = chain.asked_deployment();
            let named = deployment.map_or_else(|| target.to_string(), |it| name(&it.object));
            return Err(Error::Impossible(format!(
                "{named} has changed since it was read; nothing was rolled back"
            )));
        }
        let Some(deployment) = chain.asked_deployment() else {
            return roll_revisions(cluster, target, &chain, wanted).await;
        };
        match roll_deployment_once(cluster, deployment, &chain, wanted).await {
            // Most likely its status was written in the meantime.
            Err(error) if error.is_code(409) && round < ROUNDS => {
                chosen = now;
                round += 1;
            }
            result => return result,
        }
    }
}

/// The effects of a rollback.
#[derive(Clone, Debug)]
pub struct RollbackForecast {
    /// The revision whose content comes back, in words, and its number; `None` if its content is the wanted
    /// one already.
    pub revision: Option<(String, Option<i64>)>,
    /// The effects on objects.
    pub sections: Vec<Section>,
    /// The state of the chain that the forecast is about, for [`RollbackOptions::only`].
    pub version: Option<SpecVersion>,
}

/// Finds the effects of a rollback by dry runs.
///
/// # Errors
/// If the rollback is refused, or a request fails.
pub async fn forecast(
    cluster: &Cluster,
    target: &Target,
    wanted: &RollbackOptions,
) -> Result<RollbackForecast, Error> {
    let chain = lists::chain(cluster, target).await?;
    let deployment = chain.asked_deployment();
    match deployment {
        Some(deployment) => check(deployment, wanted.force)?,
        None => standalone::check(&chain, target)?,
    }
    let version = version(&chain);
    let Some((revision, slices)) = chosen(cluster, &chain, wanted).await? else {
        return Ok(RollbackForecast {
            revision: None,
            sections: Vec::new(),
            version,
        });
    };
    let (kind, next) = if let Some(deployment) = deployment {
        let mut rolled = deployment.object.clone();
        rolled["spec"]["template"] = template(&slices.inlined(revision));
        (deployment.kind, rolled)
    } else {
        let cause = cause(&revision.object, ROLLBACK);
        let name = wanted.name.as_deref();
        (
            revision.kind,
            standalone::next(&chain, revision, name, &cause)?,
        )
    };
    let plan = Plan::of(kind, &next, std::slice::from_ref(&chain))?;
    let sections = match plan {
        Some(plan) => of_plan(&PhaseClusters::only(cluster.clone()), &plan, &[]).await?,
        None => Vec::new(),
    };
    Ok(RollbackForecast {
        revision: Some((title(revision), revision.number())),
        sections,
        version,
    })
}

/// The state of a chain: that of its deployment, or of its newest revision.
fn version(chain: &Chain) -> Option<SpecVersion> {
    match chain.asked_deployment() {
        Some(deployment) => Some(SpecVersion::of(&deployment.metadata)),
        None => Some(SpecVersion::of(&chain.newest()?.metadata)),
    }
}

async fn roll_deployment_once(
    cluster: &Cluster,
    deployment: &Deployment,
    chain: &Chain,
    wanted: &RollbackOptions,
) -> Result<RollbackResult, Error> {
    let named = name(&deployment.object);
    if let Some(own) = &wanted.name {
        return Err(Error::Usage(format!(
            "--name {own}: {named} names its revisions itself"
        )));
    }
    check(deployment, wanted.force)?;
    let Some((revision, slices)) = chosen(cluster, chain, wanted).await? else {
        return Ok(already(chain, &named, wanted));
    };
    let inlined = slices.inlined(revision);
    let mut rolled = deployment.object.clone();
    rolled["spec"]["template"] = template(&inlined);
    check_revision(cluster, chain, (deployment.kind, &rolled), wanted.force).await?;
    let patch = roll_deployment(&deployment.object, &inlined);
    let write = Write::new(MediaType::JsonPatch, wanted.dry_run);
    let applied = cluster.write(&deployment.path(), write, &patch).await?;
    let hint = if deployment.spec.paused {
        format!(
            "\nit is paused; `kubectl baton resume {}` rolls the content out",
            deployment.target()
        )
    } else {
        String::new()
    };
    let line = format!(
        "{named} rolled back to {}{}{hint}",
        title(revision),
        note(wanted.dry_run)
    );
    let follow = (!deployment.spec.paused).then(|| deployment.target());
    Ok(RollbackResult {
        line,
        follow,
        applied,
        cause: Some(cause(&revision.object, ROLLBACK)),
    })
}

/// Rolls a chain without a deployment back.
async fn roll_revisions(
    cluster: &Cluster,
    target: &Target,
    chain: &Chain,
    wanted: &RollbackOptions,
) -> Result<RollbackResult, Error> {
    standalone::check(chain, target)?;
    let named = chain.newest().map(|newest| name(&newest.object));
    let Some((revision, _)) = chosen(cluster, chain, wanted).await? else {
        return Ok(already(chain, &named.unwrap_or_default(), wanted));
    };
    let cause = cause(&revision.object, ROLLBACK);
    let next = standalone::next(chain, revision, wanted.name.as_deref(), &cause)?;
    check_revision(cluster, chain, (revision.kind, &next), wanted.force).await?;
    let created = standalone::create(cluster, revision.kind, &next, wanted.dry_run).await?;
    let line = format!(
        "{} created with the content of {}{}",
        name(&created),
        title(revision),
        note(wanted.dry_run)
    );
    let new = next["metadata"]["name"].as_str().unwrap_or_default();
    Ok(RollbackResult {
        line,
        follow: Some(Target::new(revision.kind, new)),
        applied: Value::Null,
        cause: None,
    })
}

/// Checks that a deployment can be rolled back.
fn check(deployment: &Deployment, force: bool) -> Result<(), Error> {
    let named = name(&deployment.object);
    if deployment.is_deleting() {
        return Err(Error::Impossible(format!("{named} is being deleted")));
    }
    if deployment.spec.paused && !force {
        return Err(Error::Impossible(format!(
            "{named} is paused, so nothing would be rolled out: resume it first, or change its template now with \
                 --force"
        )));
    }
    Ok(())
}

fn already(chain: &Chain, named: &str, wanted: &RollbackOptions) -> RollbackResult {
    let revision = wanted
        .to_revision
        .and_then(|number| chain.by_number(number));
    let revision = revision.or(chain.current()).map(title);
    RollbackResult {
        line: format!(
            "{named} not rolled back: it has the content of {} already",
            revision.unwrap_or_default()
        ),
        follow: None,
        applied: Value::Null,
        cause: None,
    }
}

/// The revision to go back to, and the slices of the chain; `None` if its content is the wanted one
/// already.
async fn chosen<'a>(
    cluster: &Cluster,
    chain: &'a Chain,
    wanted: &RollbackOptions,
) -> Result<Option<(&'a Revision, Slices)>, Error> {
    let template = chain.deployment.as_ref().map(as_revision).transpose()?;
    let slices = lists::slices(cluster, chain.revisions.iter().chain(&template)).await?;
    let candidates = candidates(chain, template.as_ref(), &slices);
    let options = Options {
        to_revision: wanted.to_revision,
        force: wanted.force,
    };
    let choice = choose(&candidates, &options).map_err(|refusal| {
        let subject = chain.target().map(|target| target.to_string());
        Error::Impossible(format!("{}: {refusal}", subject.unwrap_or_default()))
    })?;
    Ok(match choice {
        Choice::Roll(candidate) => {
            let revision = chain.by_name(&candidate.name);
            revision.map(|revision| (revision, slices))
        }
        Choice::Already(_) => None,
    })
}

/// The template of a deployment as a revision.
fn as_revision(deployment: &Deployment) -> Result<Revision, Error> {
    let template = &deployment.object["spec"]["template"];
    let object = json!({
        "apiVersion": deployment.object["apiVersion"],
        "kind": deployment.kind.revision().name,
        "metadata": {
            "name": deployment.name(),
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
        },
        "spec": template["spec"],
    });
    Revision::parse(without_nulls(object)).map_err(|error| Error::Impossible(error.to_string()))
}

/// Removes fields of the first two levels that are null.
fn without_nulls(mut object: Value) -> Value {
    for field in ["metadata", "spec"] {
        if let Some(fields) = object[field].as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    object
}

/// The revisions that have a number, with their content compared with the wanted one.
fn candidates(chain: &Chain, template: Option<&Revision>, slices: &Slices) -> Vec<Candidate> {
    let side = |revision: &Revision| RevisionSide::of_revision(revision, slices.content(revision));
    // Without a deployment the content of the newest revision is the wanted one, unless that
    // revision is archived.
    let is_wanted = |revision: &&Revision| template.is_some() || !revision.is_archived();
    let wanted = template.or(chain.newest().filter(is_wanted)).map(side);
    let current = chain.current().filter(is_wanted).map(Revision::name);
    let candidate = |revision: &Revision| {
        let own = side(revision);
        let missing = own.missing_slices();
        let content = if !missing.is_empty() {
            Comparison::SlicesGone(missing)
        } else if wanted
            .as_ref()
            .is_some_and(|wanted| compare(&own, wanted).is_empty())
        {
            Comparison::Same
        } else {
            Comparison::Different
        };
        Some(Candidate {
            name: revision.name().to_owned(),
            number: revision.number()?,
            has_succeeded: revision.has_succeeded(),
            is_current: current == Some(revision.name()),
            content,
        })
    };
    chain.revisions.iter().filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "{apiVersion: package-operator.run/v1alpha1, kind: ObjectDeployment,
        metadata: {name: web, namespace: shop, uid: d},
        spec: {selector: {}, template: {metadata: {labels: {app: web}},
            spec: {phases: [{name: a, slices: [s]}]}}}}";

    fn deployment(text: &str) -> Deployment {
        Deployment::parse(serde_saphyr::from_str(text).unwrap()).unwrap()
    }

    fn set(number: i64, phases: &str, status: &str) -> Revision {
        let text = format!(
            "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectSet,
              metadata: {{name: web-{number}, namespace: shop, uid: u{number},
                labels: {{app: web, package-operator.run/object-deployment: web}}}},
              spec: {{revision: {number}, phases: {phases}}}, status: {{{status}}}}}"
        );
        Revision::parse(serde_saphyr::from_str(&text).unwrap()).unwrap()
    }

    const SUCCEEDED: &str = "conditions: [{type: Succeeded, status: 'True', reason: R, message: '', \
         lastTransitionTime: '2026-08-01T00:00:00Z'}]";

    /// The content of slices counts: the same objects in another place are the same content.
    #[test]
    fn rollback_candidates_are_compared_with_the_template() {
        let chain = Chain {
            deployment: Some(deployment(WEB)),
            revisions: vec![
                set(
                    1,
                    "[{name: a, objects: [{object: {kind: ConfigMap, metadata: {name: x}}}]}]",
                    SUCCEEDED,
                ),
                set(2, "[{name: a, slices: [lost]}]", ""),
                set(3, "[{name: b, slices: [s]}]", ""),
                set(4, "[{name: a, slices: [s]}]", ""),
            ],
            ..Chain::default()
        };
        let mut slices = Slices::default();
        slices.insert(
            serde_saphyr::from_str(
                "{metadata: {namespace: shop, name: s}, objects: [{object: {kind: ConfigMap, metadata: {name: x}}}]}",
            )
            .unwrap(),
        );
        let template = as_revision(&deployment(WEB)).unwrap();
        let candidates = candidates(&chain, Some(&template), &slices);
        let facts: Vec<_> = candidates
            .iter()
            .map(|one| {
                (
                    one.number,
                    one.has_succeeded,
                    one.is_current,
                    one.content.clone(),
                )
            })
            .collect();
        assert_eq!(
            facts,
            [
                (1, true, false, Comparison::Same),
                (
                    2,
                    false,
                    false,
                    Comparison::SlicesGone(vec!["lost".to_owned()])
                ),
                (3, false, false, Comparison::Different),
                (4, false, true, Comparison::Same),
            ]
        );
    }

    #[test]
    fn all_revisions_are_candidates_if_all_are_archived() {
        let archived = |number| {
            let mut revision = set(number, "[{name: a, slices: [s]}]", SUCCEEDED);
            revision.spec.lifecycle_state = baton_apis::LifecycleState::Archived;
            revision
        };
        let mut chain = Chain {
            revisions: vec![archived(1), archived(2)],
            ..Chain::default()
        };
        let mut slices = Slices::default();
        slices.insert(json!({"metadata": {"namespace": "shop", "name": "s"}, "objects": []}));
        let facts = |chain: &Chain| {
            let candidates = candidates(chain, None, &slices).into_iter();
            let facts = candidates.map(|one| (one.is_current, one.content));
            facts.collect::<Vec<_>>()
        };
        assert_eq!(facts(&chain), vec![(false, Comparison::Different); 2]);
        chain.revisions[1] = set(2, "[{name: a, slices: [s]}]", SUCCEEDED);
        assert_eq!(
            facts(&chain),
            [(false, Comparison::Same), (true, Comparison::Same)]
        );
    }

    #[test]
    fn deployments_that_cannot_be_rolled_back() {
        let refused = |text: &str, force| check(&deployment(text), force).unwrap_err().to_string();
        assert!(check(&deployment(WEB), false).is_ok());
        let paused = WEB.replace("selector: {}", "selector: {}, paused: true");
        assert!(refused(&paused, false).contains("is paused"));
        assert!(check(&deployment(&paused), true).is_ok());
        let deleted = WEB.replace(
            "uid: d",
            "uid: d, deletionTimestamp: '2026-08-01T00:00:00Z'",
        );
        assert_eq!(
            refused(&deleted, true),
            "objectdeployment.package-operator.run/web is being deleted"
        );
    }
}
