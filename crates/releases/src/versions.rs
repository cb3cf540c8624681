//! Versions of charts, and ranges of versions.
//!
//! The ranges are those of the Go library that Shipper uses. They differ from those of Cargo in
//! most operators, so this module parses and compares them, based on the versions of the crate
//! `semver`.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// A range of versions: alternatives, each of terms that all have to match.
#[derive(Clone, Debug)]
pub struct Constraint(Vec<Vec<Term>>);

/// A text that is not a range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("improper constraint: {0}")]
pub struct ImproperConstraint(pub String);

#[derive(Clone, Debug)]
enum Term {
    Bound(Bound),
    Range {
        low: Bound,
        high: Bound,
        /// The same text as a single version: without spaces, `1.2.3-4.5.6` is also a pre-release.
        exact: Option<Version>,
    },
}

/// An operator with the version after it.
#[derive(Clone, Debug)]
struct Bound {
    operator: Operator,
    version: Version,
    precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Tilde,
    Caret,
}

/// The parts of a version that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// `*`.
    Any,
    /// `1` or `1.x`.
    Major,
    /// `1.2.x`.
    Minor,
    /// `1.2.3`, and also `1.2`, which means `1.2.0`.
    Full,
}

/// Longer operators precede their prefixes.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterEqual),
    ("=>", Operator::GreaterEqual),
    ("<=", Operator::LessEqual),
    ("=<", Operator::LessEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

/// Parses a version of an index: a leading `v`, and a missing minor or patch number, are accepted.
pub fn parse_version(text: &str) -> Option<Version> {
    let bound = Bound::parse(text, Operator::Equal)?;
    let no_wildcard = !text.split(['-', '+']).next()?.contains(['x', 'X', '*']);
    no_wildcard.then_some(bound.version)
}

/// The highest version in a range, in the spelling of the list. Entries that are not versions are
/// ignored; `None` if no entry is in the range.
///
/// A full version selects the entry with the same spelling, if it exists: a version with other
/// build metadata counts as equal, but must not replace a pinned version.
///
/// # Errors
/// If the range cannot be parsed.
pub fn highest<'a>(
    constraint: &str,
    versions: &[&'a str],
) -> Result<Option<&'a str>, ImproperConstraint> {
    let pinned = Version::parse(constraint.trim()).ok();
    let same = pinned.and_then(|_| versions.iter().find(|text| **text == constraint.trim()));
    if let Some(version) = same {
        return Ok(Some(version));
    }
    let constraint = Constraint::parse(constraint)?;
    let parsed = versions
        .iter()
        .filter_map(|text| Some((parse_version(text)?, *text)));
    let parsed: Vec<_> = parsed.collect();
    let exists = |exact: &Version| parsed.iter().any(|(version, _)| equal(version, exact));
    let in_range = parsed
        .iter()
        .filter(|(version, _)| constraint.matches(version, exists));
    // Of any number of equal versions, the first entry is returned.
    let highest = in_range.reduce(|best, next| if next.0 > best.0 { next } else { best });
    Ok(highest.map(|(_, text)| *text))
}

impl Constraint {
    /// Parses a range. An empty range contains every version.
    ///
    /// # Errors
    /// With the part of the text that is not a range.
    pub fn parse(text: &str) -> Result<Self, ImproperConstraint> {
        let text = if text.trim().is_empty() { "*" } else { text };
        let term = |text: &str| Term::parse(text).ok_or_else(|| ImproperConstraint(text.into()));
        let alternative = |text: &str| text.split(',').map(term).collect();
        let alternatives: Result<_, _> = text.split("||").map(alternative).collect();
        Ok(Self(alternatives?))
    }

    /// True if a version is in the range. `exists` reports if the index has a version, which
    /// decides the meaning of a hyphen.
    pub fn matches(&self, version: &Version, exists: impl Fn(&Version) -> bool) -> bool {
        let holds = |term: &Term| match term {
            Term::Bound(bound) => bound.matches(version),
            Term::Range { low, high, exact } => match exact {
                Some(exact) if exists(exact) => equal(version, exact),
                _ => low.matches(version) && high.matches(version),
            },
        };
        self.0.iter().any(|terms| terms.iter().all(holds))
    }
}

impl Term {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let hyphens = text.match_indices('-');
        let range = hyphens.into_iter().find_map(|(at, _)| {
            let (left, right) = (&text[..at], &text[at + 1..]);
            Some(Self::Range {
                low: Bound::parse(left.trim_end(), Operator::GreaterEqual)?,
                high: Bound::parse(right.trim_start(), Operator::LessEqual)
                    // `1.2.3-x` is a pre-release.
                    .filter(|high| high.precision != Precision::Any)?,
                exact: Bound::parse(text, Operator::Equal)
                    .filter(|exact| exact.precision == Precision::Full)
                    .map(|exact| exact.version),
            })
        });
        range.or_else(|| {
            let (operator, rest) = OPERATORS
                .iter()
                .find_map(|(sign, operator)| Some((*operator, text.strip_prefix(sign)?)))
                .unwrap_or((Operator::Equal, text));
            Bound::parse(rest.trim_start(), operator).map(Self::Bound)
        })
    }
}

impl Bound {
    /// Parses the version after an operator. Numbers may be wildcards, or absent at the end.
    fn parse(text: &str, operator: Operator) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = split_at_first(text, '+');
        let (numbers, pre) = split_at_first(text, '-');
        let pre = match pre {
            // A hyphen must be followed by a pre-release.
            Some("") => return None,
            Some(pre) => Prerelease::new(pre).ok()?,
            None => Prerelease::EMPTY,
        };
        let build = match build {
            Some("") => return None,
            Some(build) => BuildMetadata::new(build).ok()?,
            None => BuildMetadata::EMPTY,
        };
        let mut numbers = numbers.split('.').map(VersionPart::parse);
        let (major, minor, patch) = (numbers.next()??, numbers.next(), numbers.next());
        if numbers.next().is_some() {
            return None;
        }
        // A part that is present must be valid.
        let minor = minor.map_or(Some(None), |part| part.map(Some))?;
        let patch = patch.map_or(Some(None), |part| part.map(Some))?;
        let (precision, (major, minor, patch)) = match (major, minor, patch) {
            (VersionPart::Wildcard, _, _) => (Precision::Any, (0, 0, 0)),
            (VersionPart::Number(major), None | Some(VersionPart::Wildcard), _) => {
                (Precision::Major, (major, 0, 0))
            }
            (
                VersionPart::Number(major),
                Some(VersionPart::Number(minor)),
                Some(VersionPart::Wildcard),
            ) => (Precision::Minor, (major, minor, 0)),
            (VersionPart::Number(major), Some(VersionPart::Number(minor)), None) => {
                (Precision::Full, (major, minor, 0))
            }
            (
                VersionPart::Number(major),
                Some(VersionPart::Number(minor)),
                Some(VersionPart::Number(patch)),
            ) => (Precision::Full, (major, minor, patch)),
        };
        let any = precision == Precision::Any;
        let version = Version {
            major,
            minor,
            patch,
            pre: if any { Prerelease::EMPTY } else { pre },
            build,
        };
        Some(Self {
            operator,
            version,
            precision,
        })
    }

    fn matches(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        let full = self.precision == Precision::Full;
        let from = matches!(self.operator, Operator::Greater | Operator::GreaterEqual);
        if from && is_zero(&self.version) && !is_zero(version) {
            return true;
        }
        if !version.pre.is_empty() && self.version.pre.is_empty() {
            return false;
        }
        match self.operator {
            Operator::Equal if full => order.is_eq(),
            Operator::NotEqual if full => order.is_ne(),
            Operator::NotEqual => self.series(version).is_ne(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::Less if full => order.is_lt(),
            Operator::LessEqual if full => order.is_le(),
            Operator::Less | Operator::LessEqual => self.series(version).is_le(),
            Operator::Equal | Operator::Tilde => order.is_ge() && self.tilde(version),
            Operator::Caret => {
                let any = self.precision == Precision::Any;
                order.is_ge() && (any || version.major == self.version.major)
            }
        }
    }

    /// True if a version, already above the lower end, is below the upper end of a tilde range.
    /// `~0.0.0` has no upper end.
    fn tilde(&self, version: &Version) -> bool {
        let Version {
            major,
            minor,
            patch,
            ..
        } = self.version;
        let endless = self.precision == Precision::Full && (major, minor, patch) == (0, 0, 0);
        endless || self.series(version).is_eq()
    }

    /// The comparison of a version with the written series: `1.x`, or that of `1.2` and `1.2.3`.
    fn series(&self, version: &Version) -> Ordering {
        let major = version.major.cmp(&self.version.major);
        match self.precision {
            Precision::Any => Ordering::Equal,
            Precision::Major => major,
            Precision::Minor | Precision::Full => {
                major.then(version.minor.cmp(&self.version.minor))
            }
        }
    }
}

/// A number of a version.
#[derive(Clone, Copy, Debug)]
enum VersionPart {
    Number(u64),
    Wildcard,
}

impl VersionPart {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "x" | "X" | "*" => Some(Self::Wildcard),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().map(Self::Number)
            }
            _ => None,
        }
    }
}

fn split_at_first(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// True if two versions differ at most in their build metadata.
fn equal(a: &Version, b: &Version) -> bool {
    a.cmp_precedence(b).is_eq()
}

fn is_zero(version: &Version) -> bool {
    (version.major, version.minor, version.patch) == (0, 0, 0) && version.pre.is_empty()
}

#[cfg(test)]
mod tests;
