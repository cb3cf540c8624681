//! How a user names a deployment to sites or its application.

use std::{fmt, ops::Deref};

use baton_apis::kinds::{self, Kind};
use baton_view::chain::target::Target;
use clap::Args;

use crate::target::{TargetError, check_name, parse, parse_all, parse_one};

/// The kinds that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SiteKind {
    Deployment,
    Application,
}

impl SiteKind {
    /// The kind of a word such as `sitedeploy` or `siteapplications.baton.run`; `None` for other words.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut all = [Self::Deployment, Self::Application].into_iter();
        all.find(|kind| kind.is_named_by(word))
    }
}

/// The row of the kind in the table of all kinds.
impl Deref for SiteKind {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Deployment => &kinds::SITE_DEPLOYMENT,
            Self::Application => &kinds::SITE_APPLICATION,
        }
    }
}

/// A deployment to sites or its application, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SiteTarget {
    pub(crate) kind: SiteKind,
    pub(crate) name: String,
}

impl SiteTarget {
    pub(crate) fn new(kind: SiteKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }

    /// What the words of a command line name: `KIND/NAME` or `KIND NAME`. `None` when they are about another kind.
    ///
    /// # Errors
    /// If there is more than one where one of them is of these kinds, or it has no name that an object can have.
    pub(crate) fn parse(words: &[String]) -> Result<Option<Self>, TargetError> {
        let found = parse_one(words, SiteKind::of_word)?;
        Ok(found.map(|(kind, name)| Self { kind, name }))
    }

    /// As [`SiteTarget::parse`], for commands that are about deployments to sites and not about applications.
    ///
    /// # Errors
    /// As above, and for an application.
    pub(crate) fn parse_deployment(words: &[String]) -> Result<Option<Self>, TargetError> {
        let found = Self::parse(words)?;
        found.map(Self::deployment).transpose()
    }

    /// Refuses what is no deployment.
    fn deployment(self) -> Result<Self, TargetError> {
        match self.kind {
            SiteKind::Deployment => Ok(self),
            SiteKind::Application => Err(TargetError::Site(self.kind.shortest().to_owned())),
        }
    }

    /// URL path of the object in a namespace.
    pub(crate) fn path(&self, namespace: &str) -> String {
        self.kind.path_of(Some(namespace), &self.name)
    }

    /// As kubectl calls the object in what it prints: `sitedeployment.baton.run/shop`.
    pub(crate) fn full(&self) -> String {
        let (kind, group) = (self.kind.singular(), self.kind.group);
        format!("{kind}.{group}/{}", self.name)
    }
}

/// As it can be typed: `sitedeploy/shop`.
impl fmt::Display for SiteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}

/// Something that can be paused: a deployment to sites, or what other deployments and revisions are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnyTarget {
    Site(SiteTarget),
    Other(Target),
}

impl AnyTarget {
    /// What any number of words name: `KIND/NAME`, `NAME`, or `KIND NAME NAME...`.
    ///
    /// # Errors
    /// If one of them names nothing that can be paused.
    pub(crate) fn parse_all(words: &[String]) -> Result<Vec<Self>, TargetError> {
        if let [first, names @ ..] = words
            && !names.is_empty()
            && let Some(kind) = SiteKind::of_word(first)
        {
            let name = |name: &String| {
                if name.contains('/') {
                    return Err(TargetError::Mixed(first.clone(), name.clone()));
                }
                check_name(name)?;
                Ok(Self::Site(SiteTarget::new(kind, name).deployment()?))
            };
            return names.iter().map(name).collect();
        }
        let is_site = |word: &String| SiteTarget::parse(std::slice::from_ref(word));
        let sites: Vec<Option<SiteTarget>> = words.iter().map(is_site).collect::<Result<_, _>>()?;
        if sites.iter().all(Option::is_none) {
            return Ok(parse_all(words)?.into_iter().map(Self::Other).collect());
        }
        let each = words.iter().zip(sites).map(|(word, site)| match site {
            Some(site) => Ok(Self::Site(site.deployment()?)),
            None => Ok(Self::Other(parse(word)?)),
        });
        each.collect()
    }
}

/// The argument of commands that are about deployments to sites only.
#[derive(Clone, Debug, Args)]
pub(crate) struct SiteDeploymentsArg {
    /// SiteDeployments: sitedeploy/NAME or NAME
    #[arg(value_name = "SITEDEPLOYMENT", required = true)]
    words: Vec<String>,
}

impl SiteDeploymentsArg {
    /// What is meant; a name alone is a deployment to sites.
    ///
    /// # Errors
    /// If a word names something else.
    pub(crate) fn targets(&self) -> Result<Vec<SiteTarget>, TargetError> {
        let all = AnyTarget::parse_all(&self.words)?.into_iter();
        let site = |target| match target {
            AnyTarget::Site(target) => Ok(target),
            AnyTarget::Other(Target { kind: None, name }) => {
                Ok(SiteTarget::new(SiteKind::Deployment, &name))
            }
            AnyTarget::Other(target) => Err(TargetError::NoSite(target.to_string())),
        };
        all.map(site).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn deployments_and_applications_are_named_as_in_kubectl() {
        for (typed, expected) in [
            (&["sitedeploy/shop"][..], Some("sitedeploy/shop")),
            (&["SiteDeployments/shop"], Some("sitedeploy/shop")),
            (&["sitedeployment.baton.run/shop"], Some("sitedeploy/shop")),
            (&["siteapp", "shop"], Some("siteapp/shop")),
            (
                &["siteapplications.v1alpha1.baton.run/shop"],
                Some("siteapp/shop"),
            ),
            (&["sitedeploy"], None),
            (&["od/web"], None),
            (&["sitedeployments.example.com/a"], None),
        ] {
            let parsed = SiteTarget::parse(&words(typed)).unwrap();
            assert_eq!(parsed.map(|it| it.to_string()).as_deref(), expected);
        }
        let application = SiteTarget::parse_deployment(&words(&["siteapp/shop"])).unwrap_err();
        assert_eq!(application, TargetError::Site("siteapp".to_owned()));
        SiteTarget::parse(&words(&["sitedeploy/a", "od/b"])).unwrap_err();
    }

    #[test]
    fn what_can_be_paused_may_be_mixed() {
        let parsed = |typed: &[&str]| {
            let all = AnyTarget::parse_all(&words(typed))?;
            let all = all.iter().map(|one| match one {
                AnyTarget::Site(target) => format!("site {target}"),
                AnyTarget::Other(target) => target.to_string(),
            });
            Ok::<_, TargetError>(all.collect::<Vec<_>>())
        };
        for (typed, expected) in [
            (
                &["sitedeploy", "a", "b"][..],
                &["site sitedeploy/a", "site sitedeploy/b"][..],
            ),
            (
                &["sitedeploy/a", "od/b", "c"],
                &["site sitedeploy/a", "od/b", "c"],
            ),
            (&["od", "a", "b"], &["od/a", "od/b"]),
        ] {
            assert_eq!(parsed(typed).unwrap(), expected);
        }
        for typed in [
            &["siteapp/a"][..],
            &["siteapp", "a", "b"],
            &["sitedeploy", "a/b"],
        ] {
            parsed(typed).unwrap_err();
        }
    }

    #[test]
    fn a_name_alone_is_a_deployment_where_nothing_else_can_be_meant() {
        let targets = |typed: &[&str]| {
            let targets = SiteDeploymentsArg {
                words: words(typed),
            };
            let targets = targets.targets()?;
            let targets = targets.iter().map(ToString::to_string);
            Ok::<_, TargetError>(targets.collect::<Vec<_>>())
        };
        let both = ["sitedeploy/a", "sitedeploy/b"];
        assert_eq!(targets(&["a", "sitedeploy/b"]).unwrap(), both);
        assert_eq!(targets(&["sitedeploy", "a", "b"]).unwrap(), both);
        assert_eq!(
            targets(&["od/a"]).unwrap_err(),
            TargetError::NoSite("od/a".to_owned())
        );
        targets(&["siteapp/a"]).unwrap_err();
        targets(&["A"]).unwrap_err();
    }
}
