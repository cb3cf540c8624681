//! Versions of charts, and the ranges that people write (section 2.7 of the contract).
//!
//! The ranges are those of the Go library that Shipper uses, which differ from those of Cargo in most operators; so
//! they are read and compared here, over the versions of the crate `semver`.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// A range of versions: alternatives, each of terms that all have to hold.
#[derive(Clone, Debug)]
pub struct Constraint(Vec<Vec<Term>>);

/// A text that is no range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("improper constraint: {0}")]
pub struct ImproperConstraint(pub String);

#[derive(Clone, Debug)]
enum Term {
    Bound(Bound),
    Range {
        low: Bound,
        high: Bound,
        /// What the same text is as one version: without spaces, `1.2.3-4.5.6` is also a pre-release.
        exact: Option<Version>,
    },
}

/// An operator and the version after it.
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

/// What a version was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// `*`.
    Any,
    /// `1` or `1.x`.
    Major,
    /// `1.2.x`.
    Minor,
    /// `1.2.3`, and `1.2` as well, which means `1.2.0`.
    Full,
}

/// Longer ones before those that they start with.
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

/// Reads a version as an index has it: a leading `v`, and a missing minor or patch number, are forgiven.
pub fn parse_version(text: &str) -> Option<Version> {
    let bound = Bound::parse(text, Operator::Equal)?;
    let no_wildcard = !text.split(['-', '+']).next()?.contains(['x', 'X', '*']);
    no_wildcard.then_some(bound.version)
}

/// The highest of some versions that is in a range, as it is written there. Entries that are no versions are left out;
/// without any in the range, there is none.
///
/// A full version stands for the entry that is written the same, if there is one: that a version with other build
/// metadata counts as equal must not change what somebody has pinned.
///
/// # Errors
/// If the range cannot be read.
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
    // Of equal ones the first, whatever their number.
    let highest = in_range.reduce(|best, next| if next.0 > best.0 { next } else { best });
    Ok(highest.map(|(_, text)| *text))
}

impl Constraint {
    /// Reads a range. An empty one has every version.
    ///
    /// # Errors
    /// With the part of the text that is no range.
    pub fn parse(text: &str) -> Result<Self, ImproperConstraint> {
        let text = if text.trim().is_empty() { "*" } else { text };
        let term = |text: &str| Term::parse(text).ok_or_else(|| ImproperConstraint(text.into()));
        let alternative = |text: &str| text.split(',').map(term).collect();
        let alternatives: Result<_, _> = text.split("||").map(alternative).collect();
        Ok(Self(alternatives?))
    }

    /// Whether a version is in the range. `exists` tells whether a version equal to another is in the index, which
    /// decides what a hyphen means (ruling S2).
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
    /// Reads a version after its operator, where numbers may be wildcards or left out at the end.
    fn parse(text: &str, operator: Operator) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = split_at_first(text, '+');
        let (numbers, pre) = split_at_first(text, '-');
        let pre = match pre {
            // After a hyphen there must be something.
            Some("") => return None,
            Some(pre) => Prerelease::new(pre).ok()?,
            None => Prerelease::EMPTY,
        };
        let build = match build {
            Some("") => return None,
            Some(build) => BuildMetadata::new(build).ok()?,
            None => BuildMetadata::EMPTY,
        };
        let mut numbers = numbers.split('.').map(Part::parse);
        let (major, minor, patch) = (numbers.next()??, numbers.next(), numbers.next());
        if numbers.next().is_some() {
            return None;
        }
        // A part that is there must be one.
        let minor = minor.map_or(Some(None), |part| part.map(Some))?;
        let patch = patch.map_or(Some(None), |part| part.map(Some))?;
        let (precision, (major, minor, patch)) = match (major, minor, patch) {
            (Part::Wildcard, _, _) => (Precision::Any, (0, 0, 0)),
            (Part::Number(major), None | Some(Part::Wildcard), _) => {
                (Precision::Major, (major, 0, 0))
            }
            (Part::Number(major), Some(Part::Number(minor)), Some(Part::Wildcard)) => {
                (Precision::Minor, (major, minor, 0))
            }
            (Part::Number(major), Some(Part::Number(minor)), None) => {
                (Precision::Full, (major, minor, 0))
            }
            (Part::Number(major), Some(Part::Number(minor)), Some(Part::Number(patch))) => {
                (Precision::Full, (major, minor, patch))
            }
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

    /// Whether a version that is high enough is low enough for a tilde. `~0.0.0` has no end.
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

    /// Whether a version is below, in or above the series that is written: `1.x`, or that of `1.2` and `1.2.3`.
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
enum Part {
    Number(u64),
    Wildcard,
}

impl Part {
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

/// Whether two versions are the same but for their build metadata.
fn equal(a: &Version, b: &Version) -> bool {
    a.cmp_precedence(b).is_eq()
}

fn is_zero(version: &Version) -> bool {
    (version.major, version.minor, version.patch) == (0, 0, 0) && version.pre.is_empty()
}

#[cfg(test)]
mod tests;
