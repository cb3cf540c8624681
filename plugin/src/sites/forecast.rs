//! The effect of a file on an application for sites.

use baton_apis::{SiteApplication, SiteApplicationSpec, SiteDeployment};
use baton_view::{
    object::text_at,
    sites::{forecast::Effect, record::Records, target::SiteTarget},
};
use serde_json::{Value, json};

use super::{compare::differences_from_file, read::read};
use crate::{
    connect::Cluster,
    diff::{Pair, Section, check::check_apply, fate::Fate},
    error::Error,
    subject::check_name,
    text::fleet::application::effect,
};

/// The changes by an apply of an application of a file, and the deployments that would bring it to sites.
///
/// # Errors
/// If the file does not hold one, or what is in the cluster cannot be read.
pub(crate) async fn forecast(cluster: &Cluster, object: &Value) -> Result<Vec<Section>, Error> {
    let name = text_at(object, "/metadata/name");
    check_name(name)?;
    let target = SiteTarget::application(name);
    let wanted: SiteApplication = serde_json::from_value(object.clone())
        .map_err(|error| Error::Usage(format!("{target}: {error}")))?;
    let namespace = text_at(object, "/metadata/namespace");
    let cluster = cluster.within(namespace);
    let before = match read::<SiteApplication>(&cluster, &target).await {
        Ok(application) => Some(application),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let records: Records = read(&cluster, &target).await?;
    let sections = differences_from_file(&cluster, records.newest(), &wanted.spec).await?;
    let deployments: Vec<SiteDeployment> = read(&cluster, &target).await?;
    let differs = !sections.is_empty();
    let fate = match &before {
        None => Fate::Added,
        Some(before) if before.spec != wanted.spec || differs => Fate::Changed,
        Some(_) => Fate::Unchanged,
    };
    let title = format!("siteapplication {namespace}/{name}");
    let found = Effect::of(&wanted.spec, &records, differs);
    let first = Section::new("application", title).fate(fate).note(effect(
        &wanted.spec.version,
        found,
        &deployments,
    ));
    let path = target.path(namespace);
    let mut all = vec![check_apply(&cluster, object, &path, first).await?];
    all.extend(terms(before.as_ref(), &wanted));
    all.extend(sections);
    Ok(all)
}

/// The difference of the terms, which are no part of a version and count as they are now.
fn terms(before: Option<&SiteApplication>, after: &SiteApplication) -> Option<Section> {
    let of = |application: &SiteApplication| {
        let SiteApplicationSpec {
            upgrade_windows,
            upgrade,
            ..
        } = &application.spec;
        json!({
            "upgradeWindows": upgrade_windows,
            "skipPatchVersions": upgrade.skip_patch_versions,
            "windowsApplyToEdits": upgrade.windows_apply_to_edits,
        })
    };
    let pair = Pair::new(before.map(of), Some(of(after)));
    let is_new = before.is_none();
    let section = Section::new("terms", "upgrade terms");
    (!is_new && !pair.is_same()).then(|| section.fate(Fate::Changed).pair(pair))
}
