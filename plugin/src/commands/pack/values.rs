//! Values of flags of `pack`.

use std::str::FromStr;

use baton_apis::CollisionProtection;
use baton_engine::{names::is_label_value, revision::KindScope};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::pack::{probes::GroupKind, slices::LARGEST_OBJECT};

/// The number of a revision; `None` if the controller assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) Option<i64>);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<i64>() {
            _ if text.is_empty() => Ok(Self(None)),
            Ok(number @ 1..) => Ok(Self(Some(number))),
            _ => Err("expected a number from 1".to_owned()),
        }
    }
}

/// The collision protection, by the names of the API.
pub(super) fn protection() -> impl TypedValueParser<Value = CollisionProtection> {
    use CollisionProtection::{IfNoController, None, Prevent};
    let names = PossibleValuesParser::new(["Prevent", "IfNoController", "None"]);
    names.map(|name| match name.as_str() {
        "IfNoController" => IfNoController,
        "None" => None,
        _ => Prevent,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KindScopeArg(pub(super) GroupKind, pub(super) KindScope);

impl FromStr for KindScopeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, scope) = text
            .split_once('=')
            .ok_or_else(|| format!("\"{text}\" is not KIND.GROUP=SCOPE"))?;
        let scope = match scope {
            "Namespaced" => KindScope::Namespaced,
            "Cluster" => KindScope::Cluster,
            _ => return Err(format!("\"{scope}\" is neither Namespaced nor Cluster")),
        };
        Ok(Self(kind.parse()?, scope))
    }
}

/// The name of a version for sites.
pub(super) fn site_version(text: &str) -> Result<String, String> {
    if is_label_value(text) && !text.is_empty() {
        return Ok(text.to_owned());
    }
    Err(
        "a version has at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or a digit at both ends"
            .to_owned(),
    )
}

/// A number of bytes: `1Mi`, `512Ki`, `1000000`.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = if let Some(number) = text.strip_suffix("Ki") {
        (number, 1024)
    } else if let Some(number) = text.strip_suffix("Mi") {
        (number, 1024 * 1024)
    } else {
        (text, 1)
    };
    let bytes = number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match bytes {
        None => Err("expected a size such as 1Mi, 512Ki or 1000000".to_owned()),
        Some(bytes @ 1024..=LARGEST_OBJECT) => Ok(bytes),
        Some(_) => Err(format!("must be from 1Ki to {LARGEST_OBJECT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!(size("1Mi"), Ok(1_048_576));
        assert_eq!(size("64Ki"), Ok(65_536));
        assert_eq!(size("5000"), Ok(5000));
        for text in ["", "1Gi", "-1", "1.5Mi", "2Mi", "3"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn scopes_are_given_by_kind() {
        let scope: KindScopeArg = "Widget.example.com=Cluster".parse().unwrap();
        assert_eq!(scope.0.to_string(), "Widget.example.com");
        assert_eq!(scope.1, KindScope::Cluster);
        for text in ["Widget", "Widget=cluster", "widgets.example.com=Cluster"] {
            assert!(text.parse::<KindScopeArg>().is_err(), "{text}");
        }
    }
}
