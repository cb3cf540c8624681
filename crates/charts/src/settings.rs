//! The settings of fetching and rendering charts.

use std::{fmt, num::NonZeroUsize, path::PathBuf, thread::available_parallelism, time::Duration};

/// The settings of [`crate::Charts`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of indexes and archives. It is created when something is written, and may be
    /// deleted while the process is stopped: all its content is fetched again.
    pub cache: PathBuf,
    /// The program that renders; `None` for `helm` on the `PATH`. It is searched for at each
    /// rendering.
    pub helm: Option<PathBuf>,
    /// Number of concurrent renderings.
    pub renders: NonZeroUsize,
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
            limits: Limits::default(),
        }
    }
}

/// Limits of downloads and renderings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
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
    /// Bytes of memory that a rendering may write to: 512 MiB.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
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
            memory: 512 * MIB,
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

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Token(_) => "Token",
        })
    }
}

/// A source of credentials, such as a closure `Fn(&str) -> Option<Credentials>`.
pub trait CredentialSource: Send + Sync + 'static {
    /// The credentials for a repository. Called before each request, so that changes apply at once.
    ///
    /// `repo_url` is the URL of a chart, without white space around it and without `/` at its end.
    /// Return credentials only for exactly the URL of their repository: any user who may create an
    /// Application can use them.
    fn find(&self, repo_url: &str) -> Option<Credentials>;
}

impl<F: Fn(&str) -> Option<Credentials> + Send + Sync + 'static> CredentialSource for F {
    fn find(&self, repo_url: &str) -> Option<Credentials> {
        self(repo_url)
    }
}
