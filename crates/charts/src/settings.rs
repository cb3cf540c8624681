//! The settings of fetching and rendering charts.

use std::{fmt, num::NonZeroUsize, path::PathBuf, thread::available_parallelism, time::Duration};

use crate::{helm, http::Authorization};

/// The settings of [`crate::Charts`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of indexes and archives. It is created when something is written, and may be
    /// deleted while the process is stopped: all its content is fetched again.
    pub cache: PathBuf,
    /// The program that renders; `None` for `helm` on the `PATH`. It is searched for at each
    /// rendering.
    pub helm: Option<PathBuf>,
    /// Number of concurrent renderings. They share [`Limits::memory`]. A rendering that needs more than
    /// its part runs again, alone, with all of it.
    pub renders: NonZeroUsize,
    /// Bytes of memory of the values of all indexes and renderings that are parsed or in use at the
    /// same time. Others wait.
    pub memory: usize,
    /// Limits of downloads and renderings.
    pub limits: Limits,
}

/// Limit of the default number of concurrent renderings: each takes about 80 MB of memory.
const MOST_RENDERS: NonZeroUsize = NonZeroUsize::new(4).expect("it is not zero");

impl Settings {
    /// The default settings: the program that `HELM_BIN` names, and as many concurrent renderings
    /// as there are processors, up to four.
    #[must_use]
    pub fn new(cache: PathBuf) -> Self {
        let helm = std::env::var_os("HELM_BIN").filter(|helm| !helm.is_empty());
        let processors = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            cache,
            helm: helm.map(PathBuf::from),
            renders: processors.min(MOST_RENDERS),
            memory: 128 << 20,
            limits: Limits::default(),
        }
    }

    /// The reason that no chart can be rendered, for people; `None` if the program is there.
    #[must_use]
    pub fn helm_missing(&self) -> Option<String> {
        let path = std::env::var_os("PATH");
        helm::find(self.helm.as_deref(), path.as_deref()).err()
    }
}

/// Limits of downloads and renderings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the folder of indexes and archives, in use or not: 512 MiB. Each file counts as a
    /// multiple of 4 KiB. A download in progress may exceed it.
    pub folder: u64,
    /// Bytes of an index: 32 MiB.
    pub index: u64,
    /// Bytes of a packed archive: 20 MiB.
    pub packed: u64,
    /// Bytes of an unpacked archive, with the archives in it: 100 MiB.
    pub unpacked: u64,
    /// Files in an archive: 10,000.
    pub files: usize,
    /// Time limit of a connection attempt: 3 s.
    pub connect: Duration,
    /// Time limit of a whole request: 10 s.
    pub request: Duration,
    /// Time limit of waiting for an index: 4 s.
    pub first_index: Duration,
    /// Age at which an index is requested again: 10 s.
    pub refresh: Duration,
    /// Time limit of a rendering: 10 s.
    pub render: Duration,
    /// Bytes of the output of a rendering: 16 MiB.
    pub output: u64,
    /// Bytes of memory that all renderings of the same time may write to: 512 MiB.
    pub memory: usize,
    /// Bytes of memory of the values of a rendering, or of the charts of an index: 64 MiB. Values
    /// take about ten times the memory of their text in usual manifests, and up to a hundred times
    /// in hostile ones.
    pub values: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            folder: 512 * MIB,
            index: 32 * MIB,
            packed: 20 * MIB,
            unpacked: 100 * MIB,
            files: 10_000,
            connect: Duration::from_secs(3),
            request: Duration::from_secs(10),
            first_index: Duration::from_secs(4),
            refresh: Duration::from_secs(10),
            render: Duration::from_secs(10),
            output: 16 * MIB,
            memory: 512 << 20,
            values: 64 << 20,
        }
    }
}

/// The credentials for a repository.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Basic authentication; a registry exchanges it for a token.
    Basic {
        /// The name of the user.
        username: String,
        /// The password.
        password: String,
    },
    /// A bearer token, sent as it is.
    Token(String),
}

impl Credentials {
    /// Credentials from the parts that a user has stored. A token is used in favour of a name and a
    /// password. An empty part counts as missing, but a password or a name may be empty if the other
    /// is not: some servers take a token as one of them.
    ///
    /// # Errors
    /// If a part is missing, or cannot be sent.
    pub fn from_parts(
        token: Option<&str>,
        username: Option<&str>,
        password: Option<&str>,
    ) -> Result<Self, UnusableCredentials> {
        let unusable = |why: &str| Err(UnusableCredentials(why.to_owned()));
        match (token.map(str::trim), username, password) {
            (Some(token), ..) if !token.is_empty() => {
                if Authorization::bearer(token).is_none() {
                    return unusable("the token has characters that a header cannot contain");
                }
                Ok(Self::Token(token.to_owned()))
            }
            (_, Some(""), Some("")) => unusable("username and password are empty"),
            (_, Some(username), Some(_)) if username.contains(':') => {
                unusable("the username contains a colon")
            }
            (_, Some(username), Some(password)) => Ok(Self::Basic {
                username: username.to_owned(),
                password: password.to_owned(),
            }),
            (_, Some(_), None) => unusable("the password is missing"),
            (_, None, Some(_)) => unusable("the username is missing"),
            (Some(_), None, None) => unusable("the token is empty"),
            (None, None, None) => unusable("it has neither a token nor a username and a password"),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Token(_) => "Token",
        })
    }
}

/// The reason that the credentials for a repository cannot be used, for people. It contains no part
/// of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableCredentials(pub String);

/// A source of credentials, such as a closure `Fn(&str) -> Option<Credentials>`.
pub trait CredentialSource: Send + Sync + 'static {
    /// The credentials for a repository; `None` if it needs none. Called before each request, so
    /// that changes apply at once.
    ///
    /// `repo_url` is the URL of a chart, without white space around it and without `/` at its end.
    /// Return credentials only for exactly the URL of their repository: any user who may create an
    /// Application can use them.
    ///
    /// # Errors
    /// If there are incomplete credentials for the repository. Its requests are sent without
    /// credentials then, and their failures name this reason.
    fn find(&self, repo_url: &str) -> Result<Option<Credentials>, UnusableCredentials>;
}

impl<F: Fn(&str) -> Option<Credentials> + Send + Sync + 'static> CredentialSource for F {
    fn find(&self, repo_url: &str) -> Result<Option<Credentials>, UnusableCredentials> {
        Ok(self(repo_url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_credentials_are_unusable() {
        let basic = |username: &str, password: &str| {
            Ok(Credentials::Basic {
                username: username.to_owned(),
                password: password.to_owned(),
            })
        };
        let token = Ok(Credentials::Token("t".to_owned()));
        let unusable = |why: &str| Err(UnusableCredentials(why.to_owned()));
        for (token, username, password, expected) in [
            (Some(" t\n"), None, None, token.clone()),
            (Some("t"), Some("u"), Some("p"), token),
            (Some(" "), Some("u"), Some("p"), basic("u", "p")),
            (None, Some("u"), Some("p"), basic("u", "p")),
            (None, Some(""), Some("p"), basic("", "p")),
            (None, Some("u"), Some(""), basic("u", "")),
            (Some(""), None, None, unusable("the token is empty")),
            (
                Some("secret\nline"),
                None,
                None,
                unusable("the token has characters that a header cannot contain"),
            ),
            (
                None,
                Some(""),
                Some(""),
                unusable("username and password are empty"),
            ),
            (
                None,
                Some("a:b"),
                Some("p"),
                unusable("the username contains a colon"),
            ),
            (None, Some("u"), None, unusable("the password is missing")),
            (
                Some(""),
                None,
                Some("p"),
                unusable("the username is missing"),
            ),
            (
                None,
                None,
                None,
                unusable("it has neither a token nor a username and a password"),
            ),
        ] {
            assert_eq!(Credentials::from_parts(token, username, password), expected);
        }
    }
}
