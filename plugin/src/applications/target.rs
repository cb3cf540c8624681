//! How a user names an Application or a Release.

use std::{fmt, ops::Deref};

use baton_apis::kinds::{self, Kind};
use clap::Args;

use crate::target::{TargetError, check_name, parse_one};

/// Shipper's kinds that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppKind {
    Application,
    Release,
}

impl AppKind {
    /// The kind of a word such as `app` or `releases.shipper.booking.com`; `None` for other words.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let mut all = [Self::Application, Self::Release].into_iter();
        all.find(|kind| kind.is_named_by(word))
    }
}

/// The row of the kind in the table of all kinds.
impl Deref for AppKind {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Application => &kinds::APPLICATION,
            Self::Release => &kinds::RELEASE,
        }
    }
}

/// An Application or a Release, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppTarget {
    pub(crate) kind: AppKind,
    pub(crate) name: String,
}

impl AppTarget {
    /// The Application of a name.
    pub(crate) fn application(name: &str) -> Self {
        Self {
            kind: AppKind::Application,
            name: name.to_owned(),
        }
    }

    /// What the words of a command line name: `KIND/NAME` or `KIND NAME`. `None` when they are about another kind.
    ///
    /// # Errors
    /// If there is more than one where one of them is of these kinds, or it has no name that an object can have.
    pub(crate) fn parse(words: &[String]) -> Result<Option<Self>, TargetError> {
        let found = parse_one(words, AppKind::of_word)?;
        Ok(found.map(|(kind, name)| Self { kind, name }))
    }
}

/// As it can be typed: `app/shop`.
impl fmt::Display for AppTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.shortest(), self.name)
    }
}

/// The argument of commands that are about an Application only.
#[derive(Clone, Debug, Args)]
pub(crate) struct AppArg {
    /// An Application: app/NAME or NAME; or its newest Release: rel/NAME
    #[arg(value_name = "APPLICATION", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
}

impl AppArg {
    /// What is meant; a name alone is an Application.
    ///
    /// # Errors
    /// If the words name something else, or nothing.
    pub(crate) fn target(&self) -> Result<AppTarget, TargetError> {
        if let Some(target) = AppTarget::parse(&self.words)? {
            return Ok(target);
        }
        match &self.words[..] {
            [name] if !name.contains('/') => {
                check_name(name)?;
                Ok(AppTarget::application(name))
            }
            [word] => {
                let kind = word.split('/').next().unwrap_or_default();
                Err(TargetError::NoApplication(kind.to_owned()))
            }
            [kind, ..] => Err(TargetError::NoApplication(kind.clone())),
            [] => Err(TargetError::Name(String::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Option<String>, TargetError> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Ok(AppTarget::parse(&words)?.map(|target| target.to_string()))
    }

    #[test]
    fn applications_and_releases_are_named_as_in_kubectl() {
        for (words, expected) in [
            (&["app/shop"][..], Some("app/shop")),
            (&["application/shop"], Some("app/shop")),
            (&["Applications/shop"], Some("app/shop")),
            (&["applications.shipper.booking.com/shop"], Some("app/shop")),
            (
                &["applications.v1alpha1.shipper.booking.com/shop"],
                Some("app/shop"),
            ),
            (&["rel/shop-1"], Some("rel/shop-1")),
            (&["release.shipper.booking.com/a"], Some("rel/a")),
            (&["app", "shop"], Some("app/shop")),
            // Alone, it is a name.
            (&["app"], None),
            (&["od/web"], None),
            (&["od", "web"], None),
            (&["releases.example.com/a"], None),
            (&[], None),
        ] {
            assert_eq!(parse(words).unwrap().as_deref(), expected, "{words:?}");
        }
    }

    #[test]
    fn words_that_name_no_application_are_refused() {
        let name = |name: &str| TargetError::Name(name.to_owned());
        for (words, expected) in [
            (&["app/"][..], name("")),
            (&["app/a/b"], name("a/b")),
            (&["app/Shop"], name("Shop")),
            (&["app/a\u{1b}[2J"], name("a\u{1b}[2J")),
            (&["rel", "-a"], name("-a")),
            (
                &["app", "app/a"],
                TargetError::Mixed("app".to_owned(), "app/a".to_owned()),
            ),
            (
                &["app", "a", "b"],
                TargetError::NotOne("app a b".to_owned()),
            ),
            (
                &["app/a", "od/b"],
                TargetError::NotOne("app/a od/b".to_owned()),
            ),
        ] {
            assert_eq!(parse(words).unwrap_err(), expected, "{words:?}");
        }
        let long = format!("app/{}", "a".repeat(254));
        parse(&[&long]).unwrap_err();
    }

    #[test]
    fn a_name_alone_is_an_application_where_nothing_else_can_be_meant() {
        let target = |words: &[&str]| {
            let words = words.iter().map(ToString::to_string).collect();
            AppArg { words }.target().map(|target| target.to_string())
        };
        assert_eq!(target(&["shop"]).unwrap(), "app/shop");
        assert_eq!(target(&["rel", "a"]).unwrap(), "rel/a");
        for words in [&["od/web"][..], &["od", "web"]] {
            let refused = target(words).unwrap_err();
            assert_eq!(refused, TargetError::NoApplication("od".to_owned()));
        }
        target(&["Shop"]).unwrap_err();
    }
}
