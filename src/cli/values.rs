//! Values of flags, checked when they are parsed.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let is_label = (1..=63).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if is_label {
            Ok(Self(text.to_owned()))
        } else {
            Err(
                "a namespace is 1 to 63 lower-case letters, digits and '-', with no '-' at either end",
            )
        }
    }
}

/// The name of a process in the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
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

/// How many revisions are reconciled side by side, 1 to 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers(u16);

impl Workers {
    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
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

/// Where an endpoint listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// Nowhere.
    Off,
    /// On that port of every address, IPv6 and IPv4. Port 0 is a free one.
    AnyAddress(u16),
    /// There. Port 0 is a free one.
    Socket(SocketAddr),
}

impl ListenAddr {
    /// The port, unless a free one is to be taken.
    #[must_use]
    pub fn fixed_port(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::AnyAddress(port) => Some(port),
            Self::Socket(address) => Some(address.port()),
        }
        .filter(|port| *port != 0)
    }
}

impl FromStr for ListenAddr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected :PORT, IP:PORT, localhost:PORT, or 0 to turn it off";
        if matches!(text, "" | "0") {
            return Ok(Self::Off);
        }
        let port = |port: &str| port.parse::<u16>().map_err(|_| EXPECTED);
        match text.split_once(':') {
            Some(("", digits)) => port(digits).map(Self::AnyAddress),
            Some(("localhost", digits)) => {
                Ok(Self::Socket((Ipv4Addr::LOCALHOST, port(digits)?).into()))
            }
            _ => text.parse().map(Self::Socket).map_err(|_| EXPECTED),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::AnyAddress(port) => write!(f, ":{port}"),
            Self::Socket(address) => write!(f, "{address}"),
        }
    }
}

/// Targets of libraries that log errors which they return as well, in a form for developers and without saying what
/// they were about. Who gets the error reports it.
const REPEATERS: &str = "kube_client::client::builder=off,kube_client::client::tls=error,kube_runtime::watcher=error,rustls_platform_verifier=off";

/// What is logged: a valid filter for `tracing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter as `tracing` reads it.
    #[must_use]
    pub fn directives(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogFilter {
    type Err = String;

    /// A bare level is about Baton; libraries are held to warnings below `trace`. Package Operator's numbers (-1 for
    /// warn, 0 for info, 1 for debug) are understood too, as `LOG_LEVEL` may be set to one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        let filter = match text {
            "off" | "error" => text,
            "warn" | "-1" => "warn",
            "info" | "0" => "warn,baton=info",
            "debug" | "1" => "warn,baton=debug",
            "trace" | "2" => "debug,baton=trace",
            custom => {
                // A lone word would be taken for a target that nothing logs to, and all would be silent.
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

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let socket = |text: &str| ListenAddr::Socket(text.parse().unwrap());
        for (text, expected) in [
            (":8080", Some(ListenAddr::AnyAddress(8080))),
            (":0", Some(ListenAddr::AnyAddress(0))),
            ("0", Some(ListenAddr::Off)),
            ("", Some(ListenAddr::Off)),
            ("127.0.0.1:80", Some(socket("127.0.0.1:80"))),
            ("localhost:80", Some(socket("127.0.0.1:80"))),
            ("0.0.0.0:0", Some(socket("0.0.0.0:0"))),
            ("[::1]:80", Some(socket("[::1]:80"))),
            ("[::]:80", Some(socket("[::]:80"))),
            (":65536", None),
            (":", None),
            ("8080", None),
            ("example.org:80", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text:?}");
        }
        assert_eq!(ListenAddr::AnyAddress(0).fixed_port(), None);
        assert_eq!(ListenAddr::AnyAddress(8080).to_string(), ":8080");
    }

    #[test]
    fn names_and_numbers_are_checked() {
        let longest = "a".repeat(63);
        for (text, valid) in [
            ("a", true),
            ("baton-system", true),
            (&*longest, true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
        ] {
            assert_eq!(text.parse::<Namespace>().is_ok(), valid, "{text:?}");
        }
        assert!("a".repeat(64).parse::<Namespace>().is_err());
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
    fn a_level_is_about_baton_and_a_filter_is_taken_as_it_is() {
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
        for text in ["info,baton::engine=trace", "kube_client=debug", "info,off"] {
            assert_eq!(text.parse::<LogFilter>().unwrap().directives(), text);
        }
        for text in ["verbose", "", "info,chatty", "baton=loud", "5"] {
            assert!(text.parse::<LogFilter>().is_err(), "{text:?}");
        }
    }
}
