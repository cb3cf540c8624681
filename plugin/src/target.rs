//! What a user names on the command line.

use baton_view::chain::{kind::ChainKind, target::Target};
use clap::Args;

use crate::{applications::target::AppKind, sites::target::SiteKind};

/// The kind of a deployment or a revision: `od`, `objectdeployments`, `ObjectDeployment.package-operator.run`, and so
/// on.
///
/// # Errors
/// If the word names no such kind.
pub(crate) fn chain_kind(word: &str) -> Result<ChainKind, TargetError> {
    let mut all = ChainKind::ALL.into_iter();
    all.find(|kind| kind.is_named_by(word)).ok_or_else(|| {
        if AppKind::of_word(word).is_some() {
            TargetError::Application(word.to_owned())
        } else if SiteKind::of_word(word).is_some() {
            TargetError::Site(word.to_owned())
        } else {
            TargetError::Kind(word.to_owned())
        }
    })
}

/// The one thing that words name, where that is of a kind that `of_word` knows: `KIND/NAME` or `KIND NAME`. `None` when
/// they are about other kinds.
///
/// # Errors
/// If there is more than one where one of them is of these kinds, or it has no name that an object can have.
pub(crate) fn parse_one<K: Copy>(
    words: &[String],
    of_word: impl Fn(&str) -> Option<K>,
) -> Result<Option<(K, String)>, TargetError> {
    let (kind, name) = match words {
        [kind, name, rest @ ..] if of_word(kind).is_some() => {
            if !rest.is_empty() {
                return Err(TargetError::NotOne(words.join(" ")));
            }
            if name.contains('/') {
                return Err(TargetError::Mixed(kind.clone(), name.clone()));
            }
            (of_word(kind), name.as_str())
        }
        [word] => match word.split_once('/') {
            Some((kind, name)) => (of_word(kind), name),
            None => return Ok(None),
        },
        _ => {
            let is_ours = |word: &String| {
                let kind = word.split_once('/').map(|(kind, _)| kind);
                kind.and_then(&of_word).is_some()
            };
            if words.iter().any(is_ours) {
                return Err(TargetError::NotOne(words.join(" ")));
            }
            return Ok(None);
        }
    };
    let Some(kind) = kind else {
        return Ok(None);
    };
    check_name(name)?;
    Ok(Some((kind, name.to_owned())))
}

/// A deployment or a revision: `od/web`, or `web`.
///
/// # Errors
/// If the text names none.
pub(crate) fn parse(text: &str) -> Result<Target, TargetError> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (Some(chain_kind(kind)?), name),
        None => (None, text),
    };
    check_name(name)?;
    Ok(Target {
        kind,
        name: name.to_owned(),
    })
}

/// Arguments that name deployments or revisions.
///
/// `KIND/NAME`, `NAME`, any number of them, or as in kubectl `KIND NAME NAME...`: a kind in the first
/// place, with names behind it.
pub(crate) fn parse_all(words: &[String]) -> Result<Vec<Target>, TargetError> {
    if let [first, rest @ ..] = words
        && !rest.is_empty()
        && let Ok(kind) = chain_kind(first)
    {
        return rest
            .iter()
            .map(|name| {
                if name.contains('/') {
                    return Err(TargetError::Mixed(first.clone(), name.clone()));
                }
                check_name(name)?;
                Ok(Target::new(kind, name))
            })
            .collect();
    }
    words.iter().map(|word| parse(word)).collect()
}

/// The argument of commands that are about exactly one deployment or revision.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArg {
    /// A deployment or a revision: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
}

impl TargetArg {
    pub(crate) fn target(&self) -> Result<Target, TargetError> {
        let mut targets = parse_all(&self.words)?;
        match (targets.pop(), targets.is_empty()) {
            (Some(target), true) => Ok(target),
            _ => Err(TargetError::NotOne(self.words.join(" "))),
        }
    }
}

/// The arguments name nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error(
        "there is no kind {0:?} here; use od (ObjectDeployment), cod (ClusterObjectDeployment), os (ObjectSet), cos \
             (ClusterObjectSet), app (Application), rel (Release), sitedeploy (SiteDeployment) or siteapp \
             (SiteApplication)"
    )]
    Kind(String),
    /// A kind of Shipper's, for a command that does not know those.
    #[error(
        "{0:?} is a kind of Shipper's, which this command does not know; tree, status, history, diff, rollback, \
             promote and abort do"
    )]
    Application(String),
    /// A kind of sites, for a command that does not know those, or not that one.
    #[error(
        "this command does not know {0:?}; tree, status, history and diff take sitedeploy/NAME and siteapp/NAME, \
             rollback, pause, resume, abort, redeploy and wait take sitedeploy/NAME"
    )]
    Site(String),
    /// Something else, for a command that knows Shipper's kinds only.
    #[error(
        "there is no kind {0:?} here; this command takes app/NAME (Application) or rel/NAME (Release)"
    )]
    NoApplication(String),
    /// Something else, for a command that knows deployments to sites only.
    #[error("{0:?} is no deployment to sites; this command takes sitedeploy/NAME")]
    NoSite(String),
    /// Something that cannot be the name of an object.
    #[error("{0:?} cannot be a name: names consist of lower-case letters, digits, '-' and '.'")]
    Name(String),
    #[error("{1:?} names a kind, and so does {0:?} in front of it; give one of the two")]
    Mixed(String, String),
    /// More than one where one is wanted.
    #[error("{0:?} names more than one; this command takes one at a time")]
    NotOne(String),
}

/// The name of an object, as the value of a flag.
pub(crate) fn object_name(text: &str) -> Result<String, TargetError> {
    check_name(text).map(|()| text.to_owned())
}

/// Names become parts of URLs, so what cannot be one is refused here.
pub(crate) fn check_name(name: &str) -> Result<(), TargetError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.len() <= 253 && name.starts_with(edge) && name.ends_with(edge) && name.chars().all(fits)
    {
        Ok(())
    } else {
        Err(TargetError::Name(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Vec<String>, TargetError> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Ok(parse_all(&words)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn targets_are_named_as_in_kubectl() {
        for (words, expected) in [
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
            // Alone, it is a name.
            (&["od"], &["od"]),
            (&[], &[]),
        ] {
            assert_eq!(parse(words).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn words_that_name_nothing_are_refused() {
        for (words, expected) in [
            (&["deploy/web"][..], TargetError::Kind("deploy".to_owned())),
            (&["od/"], TargetError::Name(String::new())),
            (&["od/a/b"], TargetError::Name("a/b".to_owned())),
            (&["Web"], TargetError::Name("Web".to_owned())),
            (&["-web"], TargetError::Name("-web".to_owned())),
            (
                &["od", "os/web"],
                TargetError::Mixed("od".to_owned(), "os/web".to_owned()),
            ),
        ] {
            assert_eq!(parse(words).unwrap_err(), expected, "{words:?}");
        }
    }

    #[test]
    fn one_target_is_one() {
        let target = |words: &[&str]| {
            let words = words.iter().map(ToString::to_string).collect();
            TargetArg { words }.target()
        };
        assert_eq!(target(&["od", "web"]).unwrap().to_string(), "od/web");
        assert_eq!(
            target(&["a", "b"]).unwrap_err(),
            TargetError::NotOne("a b".to_owned())
        );
    }

    #[test]
    fn kinds_know_their_scope() {
        for kind in ChainKind::ALL {
            assert_eq!(kind.is_namespaced, !kind.name.starts_with("Cluster"));
            assert_eq!(kind.revision().deployment(), kind.deployment());
            assert_eq!(chain_kind(kind.name).unwrap(), kind);
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
