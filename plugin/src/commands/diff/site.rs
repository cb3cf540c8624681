//! `diff` of two versions of an application for sites.

use baton_apis::{SiteApplication, SiteDeployment};
use baton_text::{diff::Labels, fleet::steer::not_kept};
use baton_view::sites::{
    observed::status,
    record::{Record, Records},
    target::SiteTarget,
};

use super::{DiffArgs, show};
use crate::{
    args::{GlobalArgs, given},
    commands::Exit,
    error::Error,
    sites::{compare::differences, read::read},
};

pub(crate) async fn run(
    target: &SiteTarget,
    args: &DiffArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let of_revisions = [
        (args.live, "--live"),
        (args.from.is_some(), "--from"),
        (args.to.is_some(), "--to"),
    ];
    if let Some(flag) = given(&of_revisions) {
        return Err(Error::Usage(format!(
            "{flag} is for revisions; versions are chosen with --from-version and --to-version"
        )));
    }
    let cluster = global.connect().await?;
    let defaults = if target.is_application() {
        read::<SiteApplication>(&cluster, target).await?;
        DefaultVersions {
            application: target.name.clone(),
            ..DefaultVersions::default()
        }
    } else {
        let deployment: SiteDeployment = read(&cluster, target).await?;
        let status = status(&deployment);
        let before = status.previous_version;
        DefaultVersions {
            application: deployment.spec.application,
            before: before.filter(|_| status.previous_application.is_none()),
            now: status.version,
        }
    };
    let application = SiteTarget::application(&defaults.application);
    let records: Records = read(&cluster, &application).await?;
    let (from, to) = defaults.pair(target, args, &records)?;
    let sections = differences(&cluster, from, to).await?;
    let label = |record: &Record, other: &Record| {
        if record.version == other.version {
            format!("version {} (edit {})", record.version, record.edit)
        } else {
            format!("version {}", record.version)
        }
    };
    let labels = Labels::new(label(from, to), label(to, from));
    show(&sections, &labels, args, global).await
}

/// The default versions, from the status of a deployment. Empty for an application.
#[derive(Debug, Default)]
struct DefaultVersions {
    application: String,
    /// The previous version of a deployment.
    before: Option<String>,
    /// The present version of a deployment.
    now: Option<String>,
}

impl DefaultVersions {
    /// The records to compare.
    ///
    /// By default, the previous and the present version of a deployment, or the two newest versions
    /// of an application. A single given version is compared with the one that was recorded before
    /// it.
    fn pair<'r>(
        &self,
        target: &SiteTarget,
        args: &DiffArgs,
        records: &'r Records,
    ) -> Result<(&'r Record, &'r Record), Error> {
        let find = |version: &str| {
            let found = records.find(version);
            found.ok_or_else(|| Error::NotFound(not_kept(version, records)))
        };
        let requested = args.to_version.as_deref();
        let to = match requested.or(self.now.as_deref()) {
            Some(version) => find(version)?,
            None => records.newest().ok_or_else(|| {
                Error::Impossible(format!("no version of {} is kept yet", self.application))
            })?,
        };
        let before = self.before.as_deref().filter(|_| requested.is_none());
        if let Some(version) = args.from_version.as_deref().or(before) {
            return Ok((find(version)?, to));
        }
        let earlier = records.all().iter().rev();
        let mut earlier = earlier.filter(|one| one.number < to.number);
        let from = earlier.next().ok_or_else(|| {
            Error::Impossible(format!(
                "{target}: version {} is the first one that is kept; choose two with --from-version and --to-version",
                to.version
            ))
        })?;
        Ok((from, to))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct TestArgs {
        #[command(flatten)]
        args: DiffArgs,
    }

    fn pair(names: (Option<&str>, Option<&str>), line: &str) -> Result<(String, String), String> {
        let record = |(number, version): (usize, &&str)| {
            json!({
                "metadata": { "name": format!("r{number}") }, "revision": number, "data": { "version": version },
            })
        };
        let versions = ["1.0.0", "1.1.0", "1.1.0", "1.2.0"];
        let records = Records::from_objects(versions.iter().enumerate().map(record).collect());
        let defaults = DefaultVersions {
            application: "shop".to_owned(),
            before: names.0.map(str::to_owned),
            now: names.1.map(str::to_owned),
        };
        let words = ["diff", "sitedeploy/shop"]
            .into_iter()
            .chain(line.split_whitespace());
        let args = TestArgs::parse_from(words).args;
        let target = SiteTarget::deployment("shop");
        let pair = defaults.pair(&target, &args, &records);
        let pair = pair.map(|(from, to)| (from.name.clone(), to.name.clone()));
        pair.map_err(|error| error.to_string())
    }

    #[test]
    fn which_versions_are_compared() {
        let both = (Some("1.0.0"), Some("1.1.0"));
        let named = |from: &str, to: &str| Ok((from.to_owned(), to.to_owned()));
        assert_eq!(pair(both, ""), named("r0", "r2"));
        assert_eq!(pair((None, None), ""), named("r2", "r3"));
        assert_eq!(pair(both, "--to-version 1.1.0"), named("r1", "r2"));
        assert_eq!(pair(both, "--from-version r1"), named("r1", "r2"));
        assert_eq!(
            pair(both, "--from-version 1.2.0 --to-version 1.0.0"),
            named("r3", "r0")
        );
        let first = pair(both, "--to-version 1.0.0").unwrap_err();
        assert!(first.starts_with("sitedeploy/shop: version 1.0.0 is the first one"));
        let gone = pair((Some("0.9.0"), Some("1.1.0")), "").unwrap_err();
        assert_eq!(
            gone,
            "version 0.9.0 is not kept; there are 1.2.0, 1.1.0, 1.0.0"
        );
    }
}
