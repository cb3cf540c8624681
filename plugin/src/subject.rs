//! The subject of a command, as the user names it.

use baton_apis::kinds;
use baton_view::{
    applications::target::AppTarget,
    chain::{kind::ChainKind, target::Target},
    sites::target::SiteTarget,
};
use clap::Args;

use self::SubjectKind::{Application, Chain, SiteApplication, SiteDeployment};
use crate::error::SubjectError;

/// The subject of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A deployment or a revision.
    Chain(Target),
    /// An Application or one of its Releases.
    Application(AppTarget),
    SiteDeployment(SiteTarget),
    SiteApplication(SiteTarget),
}

/// The kinds of subjects that commands take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubjectKind {
    Chain,
    Application,
    SiteDeployment,
    SiteApplication,
}

/// All kinds, for commands that only read.
pub(crate) const ALL: [SubjectKind; 4] = [Chain, Application, SiteDeployment, SiteApplication];

impl Subject {
    /// The only subject in the words of a user: `KIND/NAME`, `KIND NAME`, or `NAME`.
    ///
    /// # Errors
    /// If there are several subjects, or the kind is not allowed.
    pub(crate) fn parse(words: &[String], allowed: &[SubjectKind]) -> Result<Self, SubjectError> {
        let mut all = Self::parse_all(words, allowed)?;
        match (all.pop(), all.is_empty(), allowed, words) {
            (Some(subject), true, ..) => Ok(subject),
            (_, _, [Application, ..], [first, ..]) if !words.iter().any(|it| it.contains('/')) => {
                Err(SubjectError::NoApplication(first.clone()))
            }
            _ => Err(SubjectError::NotOne(words.join(" "))),
        }
    }

    /// The subjects in the words of a user: `KIND/NAME`, `NAME`, or `KIND NAME NAME...` as in
    /// kubectl. A name alone has the first of the allowed kinds.
    ///
    /// # Errors
    /// If a word is no subject, or has a kind that is not allowed.
    pub(crate) fn parse_all(
        words: &[String],
        allowed: &[SubjectKind],
    ) -> Result<Vec<Self>, SubjectError> {
        // Words for other kinds may be names, such as deployments with the name `app`.
        let is_kind = |subject: Self| match subject.kind() {
            Chain => true,
            Application => allowed.contains(&Application),
            SiteDeployment | SiteApplication => allowed.contains(&SiteDeployment),
        };
        if let [first, names @ ..] = words
            && !names.is_empty()
            && Self::of(first, "").is_some_and(is_kind)
        {
            let named = |name: &String| {
                if name.contains('/') {
                    return Err(SubjectError::Mixed(first.clone(), name.clone()));
                }
                Self::named(first, name, allowed)
            };
            return names.iter().map(named).collect();
        }
        let each = words.iter().map(|word| match word.split_once('/') {
            Some((kind, name)) => Self::named(kind, name, allowed),
            None => Self::alone(word, allowed),
        });
        each.collect()
    }

    /// Parses any number of deployments and revisions.
    ///
    /// # Errors
    /// If a word is another subject, or none.
    pub(crate) fn parse_chains(words: &[String]) -> Result<Vec<Target>, SubjectError> {
        let all = Self::parse_all(words, &[Chain])?;
        all.into_iter().map(Self::chain).collect()
    }

    /// The subject of a kind and a name, which need not be a valid name; `None` if the word is no
    /// kind.
    pub(crate) fn of(word: &str, name: &str) -> Option<Self> {
        let name = name.to_owned();
        let mut chains = ChainKind::ALL.into_iter();
        if let Some(kind) = chains.find(|kind| kind.is_named_by(word)) {
            let kind = Some(kind);
            return Some(Self::Chain(Target { kind, name }));
        }
        let mut releases = [&kinds::APPLICATION, &kinds::RELEASE].into_iter();
        if let Some(kind) = releases.find(|kind| kind.is_named_by(word)) {
            return Some(Self::Application(AppTarget { kind, name }));
        }
        if kinds::SITE_DEPLOYMENT.is_named_by(word) {
            return Some(Self::SiteDeployment(SiteTarget::deployment(&name)));
        }
        let is_application = kinds::SITE_APPLICATION.is_named_by(word);
        is_application.then(|| Self::SiteApplication(SiteTarget::application(&name)))
    }

    fn named(word: &str, name: &str, allowed: &[SubjectKind]) -> Result<Self, SubjectError> {
        let subject = Self::of(word, name);
        let found = subject.clone().filter(|it| allowed.contains(&it.kind()));
        let found = found.ok_or_else(|| refusal(word, subject, allowed))?;
        check_name(name)?;
        Ok(found)
    }

    fn alone(name: &str, allowed: &[SubjectKind]) -> Result<Self, SubjectError> {
        check_name(name)?;
        let name = name.to_owned();
        Ok(match allowed.first() {
            Some(Application) => Self::Application(AppTarget::application(&name)),
            Some(SiteDeployment) => Self::SiteDeployment(SiteTarget::deployment(&name)),
            _ => Self::Chain(Target { kind: None, name }),
        })
    }

    pub(crate) fn kind(&self) -> SubjectKind {
        match self {
            Self::Chain(_) => Chain,
            Self::Application(_) => Application,
            Self::SiteDeployment(_) => SiteDeployment,
            Self::SiteApplication(_) => SiteApplication,
        }
    }

    /// The deployment or the revision.
    ///
    /// # Errors
    /// If the subject is another one.
    pub(crate) fn chain(self) -> Result<Target, SubjectError> {
        match self {
            Self::Chain(target) => Ok(target),
            other => Err(other.unknown()),
        }
    }

    /// The Application or the Release.
    ///
    /// # Errors
    /// If the subject is another one.
    pub(crate) fn application(self) -> Result<AppTarget, SubjectError> {
        match self {
            Self::Application(target) => Ok(target),
            other => Err(other.unknown()),
        }
    }

    /// The deployment to sites.
    ///
    /// # Errors
    /// If the subject is another one.
    pub(crate) fn site_deployment(self) -> Result<SiteTarget, SubjectError> {
        match self {
            Self::SiteDeployment(target) => Ok(target),
            other => Err(other.unknown()),
        }
    }

    /// The error for a kind that a command does not take.
    fn unknown(&self) -> SubjectError {
        match self {
            Self::Chain(target) => SubjectError::NoSite(target.to_string()),
            Self::Application(target) => {
                SubjectError::Application(target.kind.shortest().to_owned())
            }
            Self::SiteDeployment(target) | Self::SiteApplication(target) => {
                SubjectError::Site(target.kind.shortest().to_owned())
            }
        }
    }
}

/// The error for a word before a name that is no allowed kind.
fn refusal(word: &str, subject: Option<Subject>, allowed: &[SubjectKind]) -> SubjectError {
    let word = word.to_owned();
    match (subject, allowed.first()) {
        (Some(subject @ Subject::SiteApplication(_)), _) if allowed.contains(&SiteDeployment) => {
            subject.unknown()
        }
        (_, Some(Application)) => SubjectError::NoApplication(word),
        (Some(subject @ Subject::Chain(_)), _) => subject.unknown(),
        (Some(Subject::Application(_)), _) => SubjectError::Application(word),
        (Some(Subject::SiteDeployment(_) | Subject::SiteApplication(_)), _) => {
            SubjectError::Site(word)
        }
        (None, _) => SubjectError::Kind(word),
    }
}

/// The argument of commands for exactly one deployment or revision.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArg {
    /// Deployment or revision: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
}

/// The name of an object, as the value of a flag.
pub(crate) fn object_name(text: &str) -> Result<String, SubjectError> {
    check_name(text).map(|()| text.to_owned())
}

/// Refuses invalid names, as names become parts of URLs.
pub(crate) fn check_name(name: &str) -> Result<(), SubjectError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.len() <= 253 && name.starts_with(edge) && name.ends_with(edge) && name.chars().all(fits)
    {
        Ok(())
    } else {
        Err(SubjectError::Name(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    fn text(subject: &Subject) -> String {
        match subject {
            Subject::Chain(target) => target.to_string(),
            Subject::Application(target) => target.to_string(),
            Subject::SiteDeployment(target) | Subject::SiteApplication(target) => {
                target.to_string()
            }
        }
    }

    fn one(typed: &[&str], allowed: &[SubjectKind]) -> Result<String, SubjectError> {
        Subject::parse(&words(typed), allowed).map(|it| text(&it))
    }

    fn all(typed: &[&str], allowed: &[SubjectKind]) -> Result<Vec<String>, SubjectError> {
        let all = Subject::parse_all(&words(typed), allowed)?;
        Ok(all.iter().map(text).collect())
    }

    #[test]
    fn deployments_and_revisions_are_named_as_in_kubectl() {
        for (typed, expected) in [
            (&["web"][..], &["web"][..]),
            (&["od/web"], &["od/web"]),
            (&["objectdeployments/web"], &["od/web"]),
            (&["ObjectDeployment/web"], &["od/web"]),
            (&["objectdeployment.package-operator.run/web"], &["od/web"]),
            (
                &["objectsets.v1alpha1.package-operator.run/web"],
                &["os/web"],
            ),
            (&["cos/a", "clobjdeploy/b", "c"], &["cos/a", "cod/b", "c"]),
            (&["od", "web"], &["od/web"]),
            (&["os", "a", "b"], &["os/a", "os/b"]),
            // A word alone is a name, and so are words for kinds that the command does not take.
            (&["od"], &["od"]),
            (&["app", "web"], &["app", "web"]),
            (&[], &[]),
        ] {
            assert_eq!(all(typed, &[Chain]).unwrap(), expected, "{typed:?}");
        }
    }

    #[test]
    fn everything_else_is_named_as_in_kubectl() {
        for (typed, expected) in [
            (&["app/shop"][..], "app/shop"),
            (&["application/shop"], "app/shop"),
            (&["Applications/shop"], "app/shop"),
            (&["applications.shipper.booking.com/shop"], "app/shop"),
            (
                &["applications.v1alpha1.shipper.booking.com/shop"],
                "app/shop",
            ),
            (&["rel/shop-1"], "rel/shop-1"),
            (&["release.shipper.booking.com/a"], "rel/a"),
            (&["app", "shop"], "app/shop"),
            (&["sitedeploy/shop"], "sitedeploy/shop"),
            (&["SiteDeployments/shop"], "sitedeploy/shop"),
            (&["sitedeployment.baton.run/shop"], "sitedeploy/shop"),
            (&["siteapp", "shop"], "siteapp/shop"),
            (
                &["siteapplications.v1alpha1.baton.run/shop"],
                "siteapp/shop",
            ),
            // A word alone is a name.
            (&["app"], "app"),
            (&["sitedeploy"], "sitedeploy"),
            (&["od/web"], "od/web"),
            (&["od", "web"], "od/web"),
        ] {
            assert_eq!(one(typed, &ALL).unwrap(), expected, "{typed:?}");
        }
    }

    #[test]
    fn words_that_name_nothing_are_refused() {
        let name = |name: &str| SubjectError::Name(name.to_owned());
        let kind = |word: &str| SubjectError::Kind(word.to_owned());
        let not_one = |words: &str| SubjectError::NotOne(words.to_owned());
        let mixed = |kind: &str, name: &str| SubjectError::Mixed(kind.to_owned(), name.to_owned());
        for (typed, expected) in [
            (&["deploy/web"][..], kind("deploy")),
            (&["releases.example.com/a"], kind("releases.example.com")),
            (
                &["sitedeployments.example.com/a"],
                kind("sitedeployments.example.com"),
            ),
            (&["od/"], name("")),
            (&["od/a/b"], name("a/b")),
            (&["Web"], name("Web")),
            (&["-web"], name("-web")),
            (&["app/"], name("")),
            (&["app/a/b"], name("a/b")),
            (&["app/Shop"], name("Shop")),
            (&["app/a\u{1b}[2J"], name("a\u{1b}[2J")),
            (&["rel", "-a"], name("-a")),
            (&["od", "os/web"], mixed("od", "os/web")),
            (&["app", "app/a"], mixed("app", "app/a")),
            (&["sitedeploy", "a/b"], mixed("sitedeploy", "a/b")),
            (&["a", "b"], not_one("a b")),
            (&["app", "a", "b"], not_one("app a b")),
            (&["app/a", "od/b"], not_one("app/a od/b")),
            (&["sitedeploy/a", "od/b"], not_one("sitedeploy/a od/b")),
            (&[], not_one("")),
        ] {
            assert_eq!(one(typed, &ALL).unwrap_err(), expected, "{typed:?}");
        }
        one(&[&format!("app/{}", "a".repeat(254))], &ALL).unwrap_err();
    }

    #[test]
    fn subjects_of_different_kinds_can_be_paused_together() {
        let allowed = [Chain, SiteDeployment];
        for (typed, expected) in [
            (
                &["sitedeploy", "a", "b"][..],
                &["sitedeploy/a", "sitedeploy/b"][..],
            ),
            (
                &["sitedeploy/a", "od/b", "c"],
                &["sitedeploy/a", "od/b", "c"],
            ),
            (&["od", "a", "b"], &["od/a", "od/b"]),
        ] {
            assert_eq!(all(typed, &allowed).unwrap(), expected);
        }
        let application = SubjectError::Site("siteapp".to_owned());
        for typed in [&["siteapplications/a"][..], &["siteapp", "a", "b"]] {
            assert_eq!(all(typed, &allowed).unwrap_err(), application);
        }
        let application = SubjectError::Application("app".to_owned());
        assert_eq!(all(&["app/a"], &allowed).unwrap_err(), application);
        all(&["sitedeploy", "a/b"], &allowed).unwrap_err();
    }

    #[test]
    fn a_name_without_a_kind_has_the_kind_of_the_command() {
        let app = |typed: &[&str]| one(typed, &[Application, SiteDeployment]);
        assert_eq!(app(&["shop"]).unwrap(), "app/shop");
        assert_eq!(app(&["rel", "a"]).unwrap(), "rel/a");
        assert_eq!(app(&["sitedeploy/a"]).unwrap(), "sitedeploy/a");
        for typed in [&["od/web"][..], &["od", "web"], &["od", "a"]] {
            let refused = SubjectError::NoApplication("od".to_owned());
            assert_eq!(app(typed).unwrap_err(), refused);
        }
        let refused = SubjectError::NoApplication("a".to_owned());
        assert_eq!(app(&["a", "b"]).unwrap_err(), refused);
        app(&["Shop"]).unwrap_err();

        let site = |typed: &[&str]| all(typed, &[SiteDeployment]);
        let both = ["sitedeploy/a", "sitedeploy/b"];
        assert_eq!(site(&["a", "sitedeploy/b"]).unwrap(), both);
        assert_eq!(site(&["sitedeploy", "a", "b"]).unwrap(), both);
        let refused = SubjectError::NoSite("od/a".to_owned());
        for typed in [&["od/a"][..], &["od", "a"]] {
            assert_eq!(site(typed).unwrap_err(), refused);
        }
        site(&["siteapp/a"]).unwrap_err();
        site(&["A"]).unwrap_err();
    }

    #[test]
    fn kinds_know_their_scope() {
        for kind in ChainKind::ALL {
            assert_eq!(kind.is_namespaced, !kind.name.starts_with("Cluster"));
            assert_eq!(kind.revision().deployment(), kind.deployment());
            let target = Target::new(kind, "a");
            assert_eq!(Subject::of(kind.name, "a"), Some(Subject::Chain(target)));
        }
        assert_eq!(
            ChainKind::ObjectSet.path_of(Some("shop"), "web-1"),
            "/apis/package-operator.run/v1alpha1/namespaces/shop/objectsets/web-1"
        );
        assert_eq!(
            ChainKind::ClusterObjectSet.path(Some("shop")),
            "/apis/package-operator.run/v1alpha1/clusterobjectsets"
        );
    }
}
