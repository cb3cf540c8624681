//! What a file would make of an application for sites.

use baton_apis::{EVERY_VERSION, SiteApplication, SiteApplicationSpec, SiteDeployment, kinds};
use baton_view::object::text_at;
use serde_json::{Value, json};

use super::{
    read::{self, deployments_of, status},
    record::{Record, Records, differences_from_file},
    target::{SiteKind, SiteTarget},
};
use crate::{
    connect::Cluster,
    diff::{Pair, Section, check::check_apply, fate::Fate},
    error::Error,
    target::check_name,
};

/// Whether an object of a file is an application for sites.
pub(crate) fn is_application(object: &Value) -> bool {
    kinds::SITE_APPLICATION.is_of(object)
}

/// What applying an application of a file would change, and which deployments would bring it to sites.
///
/// # Errors
/// If the file does not hold one, or what is in the cluster cannot be read.
pub(crate) async fn forecast(cluster: &Cluster, object: &Value) -> Result<Vec<Section>, Error> {
    let name = text_at(object, "/metadata/name");
    check_name(name)?;
    let target = SiteTarget::new(SiteKind::Application, name);
    let wanted: SiteApplication = serde_json::from_value(object.clone())
        .map_err(|error| Error::Usage(format!("{target}: {error}")))?;
    let namespace = text_at(object, "/metadata/namespace");
    let cluster = cluster.within(namespace);
    let before = match read::application(&cluster, name).await {
        Ok(application) => Some(application),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let records = Records::read(&cluster, name).await?;
    let newest = records.newest();
    let sections = differences_from_file(&cluster, newest, &wanted.spec).await?;
    let deployments = deployments_of(&cluster, name).await?;
    let change = Change {
        before: before.as_ref().map(|before| &before.spec),
        after: &wanted.spec,
        newest,
        differs: !sections.is_empty(),
    };
    let title = format!("siteapplication {namespace}/{name}");
    let mut first = change.section(Section::new("application", title));
    for note in change.notes(&records, &deployments) {
        first = first.note(note);
    }
    let path = target.path(namespace);
    let mut all = vec![check_apply(&cluster, object, &path, first).await?];
    all.extend(terms(before.as_ref(), &wanted));
    all.extend(sections);
    Ok(all)
}

/// What becomes of an application.
struct Change<'a> {
    before: Option<&'a SiteApplicationSpec>,
    after: &'a SiteApplicationSpec,
    /// What is kept of it that is the newest.
    newest: Option<&'a Record>,
    /// Whether the content is another than the newest.
    differs: bool,
}

impl Change<'_> {
    fn section(&self, section: Section) -> Section {
        match self.before {
            None => section.fate(Fate::Added),
            Some(before) if before != self.after || self.differs => section.fate(Fate::Changed),
            Some(_) => section.fate(Fate::Unchanged),
        }
    }

    /// What becomes of versions, and where they go.
    fn notes(&self, records: &Records, deployments: &[SiteDeployment]) -> Vec<String> {
        let version = &self.after.version;
        let is_newest = self.newest.is_some_and(|newest| newest.version == *version);
        let is_kept = records
            .all()
            .iter()
            .any(|record| record.version == *version);
        let mut notes = Vec::new();
        let reach = |text: &str| {
            let reached = |deployment: &&SiteDeployment| {
                let asked = &deployment.spec.application_version;
                asked == version || asked == EVERY_VERSION
            };
            let deployments = deployments.iter().filter(reached);
            let names: Vec<String> = deployments
                .map(|deployment| {
                    let name = deployment.metadata.name.as_deref().unwrap_or_default();
                    format!("{name} ({} sites)", status(deployment).counts.sites)
                })
                .collect();
            match names.as_slice() {
                [] => format!("{text}; no deployment brings it to sites"),
                names => format!("{text}; brought to sites by {}", names.join(", ")),
            }
        };
        if is_newest && self.differs {
            notes.push(reach(&format!(
                "version {version} stays: the change reaches the sites that run it at once{}",
                if self.after.upgrade.windows_apply_to_edits {
                    ", in their upgrade windows"
                } else {
                    ", without waves and whatever upgrade windows there are"
                }
            )));
        } else if is_newest {
            notes.push(format!("version {version} is what it is already"));
        } else if is_kept {
            notes.push(reach(&format!("version {version} comes back")));
        } else {
            notes.push(reach(&format!("version {version} is new")));
        }
        notes
    }
}

/// How that differs which is no part of a version and counts as it is now.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(version: &str) -> SiteApplicationSpec {
        SiteApplicationSpec {
            version: version.to_owned(),
            ..SiteApplicationSpec::default()
        }
    }

    fn noted(version: &str, differs: bool, asked: &str) -> String {
        let record = |number: i64, version: &str| {
            json!({
                "metadata": { "name": format!("r-{number}") }, "revision": number,
                "data": { "version": version, "phases": [] },
            })
        };
        let records = Records::from_objects(vec![record(1, "1.0.0"), record(2, "1.1.0")]);
        let mut deployment: SiteDeployment =
            serde_json::from_value(crate::sites::fixtures::deployment("shop")).unwrap();
        deployment.spec.application_version = asked.to_owned();
        let after = spec(version);
        let before = spec("1.1.0");
        let change = Change {
            before: Some(&before),
            after: &after,
            newest: records.newest(),
            differs,
        };
        change.notes(&records, &[deployment]).join("\n")
    }

    #[test]
    fn what_becomes_of_versions_is_told() {
        assert_eq!(
            noted("1.1.0", false, "*"),
            "version 1.1.0 is what it is already"
        );
        assert_eq!(
            noted("1.1.0", true, "*"),
            "version 1.1.0 stays: the change reaches the sites that run it at once, without waves and whatever \
             upgrade windows there are; brought to sites by shop (10 sites)"
        );
        assert_eq!(
            noted("1.2.0", true, "*"),
            "version 1.2.0 is new; brought to sites by shop (10 sites)"
        );
        assert_eq!(
            noted("1.2.0", true, "1.1.0"),
            "version 1.2.0 is new; no deployment brings it to sites"
        );
        assert_eq!(
            noted("1.0.0", true, "1.0.0"),
            "version 1.0.0 comes back; brought to sites by shop (10 sites)"
        );
    }
}
