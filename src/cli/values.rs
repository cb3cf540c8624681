//! Values of flags, checked when they are parsed.

use std::str::FromStr;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The name of a process in the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity(String);

impl Identity {
    /// The name as text.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Identity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if (1..=128).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err("an identity is 1 to 128 printable ASCII characters without spaces")
        }
    }
}

/// The name of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountName(String);

impl AccountName {
    /// The name as text.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_label = |label: &str| {
            label.starts_with(is_end)
                && label.ends_with(is_end)
                && label.chars().all(|c| is_end(c) || c == '-')
        };
        if text.len() <= 253 && text.split('.').all(is_label) {
            Ok(Self(text.to_owned()))
        } else {
            Err("a service account has a name of lower-case letters, digits, '-' and '.'")
        }
    }
}

/// A path before those of all pages: empty, or `/baton`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BasePath(String);

impl BasePath {
    /// The path, without a slash at its end.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BasePath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let is_part = |part: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part.chars().all(is_allowed) && !matches!(part, "." | "..")
        };
        match text.strip_prefix('/') {
            None if text.is_empty() => Ok(Self(String::new())),
            Some(parts) if parts.split('/').all(is_part) => Ok(Self(text.to_owned())),
            _ => Err("expected a path such as /baton, of letters, digits, '-', '_' and '.'"),
        }
    }
}

/// Number of revisions that are reconciled at the same time, 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workers(u16);

impl Workers {
    /// The number of workers.
    #[must_use]
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

impl FromStr for Workers {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(number @ 1..=1024) => Ok(Self(number)),
            _ => Err("expected a number from 1 to 1024"),
        }
    }
}

/// Targets of libraries that log errors which they also return, in a form for developers and
/// without their context. The caller that gets the error reports it.
const REPEATERS: &str = "kube_client::client::builder=off,kube_client::client::tls=error,\
    kube_runtime::watcher=error,rustls_platform_verifier=off";

/// A valid filter for `tracing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    /// The filter in the syntax of `tracing`.
    #[must_use]
    pub(crate) fn directives(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogFilter {
    type Err = String;

    /// A bare level sets the level of Baton; libraries log only warnings, unless it is `trace`.
    ///
    /// The numbers of Package Operator (-1 for warn, 0 for info, 1 for debug) are accepted too, as
    /// `LOG_LEVEL` may contain one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        let filter = match text {
            "off" | "error" => text,
            "warn" | "-1" => "warn",
            "info" | "0" => "warn,baton=info",
            "debug" | "1" => "warn,baton=debug",
            "trace" | "2" => "debug,baton=trace",
            custom => {
                // `tracing` would take a bare word for the name of a target, and nothing would be
                // logged.
                let strange = custom
                    .split(',')
                    .find(|part| !part.contains('=') && !LEVELS.contains(part));
                if let Some(part) = strange {
                    let levels = LEVELS.join(", ");
                    return Err(format!(
                        "{part:?} is none of {levels}, nor of the form target=level"
                    ));
                }
                EnvFilter::try_new(custom).map_err(|error| error.to_string())?;
                return Ok(Self(custom.to_owned()));
            }
        };
        Ok(Self(format!("{filter},{REPEATERS}")))
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_checked() {
        for (text, valid) in [
            ("baton-6c9f-x2x", true),
            ("host_1:a/b", true),
            ("", false),
            ("a b", false),
            ("ä", false),
        ] {
            assert_eq!(text.parse::<Identity>().is_ok(), valid, "{text:?}");
        }
        for (text, valid) in [
            ("1", true),
            ("1024", true),
            ("0", false),
            ("1025", false),
            ("-1", false),
            ("x", false),
        ] {
            assert_eq!(text.parse::<Workers>().is_ok(), valid, "{text:?}");
        }
    }

    #[test]
    fn a_level_applies_to_baton_and_a_filter_is_used_unchanged() {
        for (text, expected) in [
            ("error", "error"),
            ("info", "warn,baton=info"),
            ("0", "warn,baton=info"),
            ("-1", "warn"),
            ("debug", "warn,baton=debug"),
            ("trace", "debug,baton=trace"),
        ] {
            let filter: LogFilter = text.parse().unwrap();
            assert_eq!(
                filter.directives(),
                format!("{expected},{REPEATERS}"),
                "{text:?}"
            );
            EnvFilter::try_new(filter.directives()).unwrap();
        }
        for text in [
            "info,baton_kubernetes=debug",
            "kube_client=debug",
            "info,off",
        ] {
            assert_eq!(text.parse::<LogFilter>().unwrap().directives(), text);
        }
        for text in ["verbose", "", "info,chatty", "baton=loud", "5"] {
            assert!(text.parse::<LogFilter>().is_err(), "{text:?}");
        }
    }
}
