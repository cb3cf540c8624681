//! What charts are fetched and rendered with.

use std::{fmt, num::NonZeroUsize, path::PathBuf, thread::available_parallelism, time::Duration};

/// What [`crate::Charts`] works with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of indexes and archives. It is made when something is written, and may be deleted while the process
    /// is down: everything in it is fetched again.
    pub cache: PathBuf,
    /// The program that renders; none: `helm` on the `PATH`. It is looked for with each rendering.
    pub helm: Option<PathBuf>,
    /// How many charts are rendered side by side.
    pub renders: NonZeroUsize,
    /// Bounds on what others send and render.
    pub limits: Limits,
}

/// The most renderings side by side, however many processors there are: each takes about 80 MB of memory.
const MOST_RENDERS: NonZeroUsize = NonZeroUsize::new(4).expect("it is not zero");

impl Settings {
    /// The usual settings: the program that `HELM_BIN` names, and as many renderings side by side as there are
    /// processors, up to four.
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

/// Bounds on what others send and render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an index: 32 MiB.
    pub index: u64,
    /// Bytes of an archive as it is sent: 20 MiB.
    pub packed: u64,
    /// Bytes of an archive unpacked, with the archives in it: 100 MiB.
    pub unpacked: u64,
    /// Files in an archive: 10,000.
    pub files: usize,
    /// How long a connection may take: 3 s.
    pub connect: Duration,
    /// How long a request may take in all: 10 s.
    pub request: Duration,
    /// How long an index is waited for: 4 s.
    pub first_index: Duration,
    /// How old an index may be before it is asked for again: 10 s.
    pub refresh: Duration,
    /// How long a rendering may take: 10 s.
    pub render: Duration,
    /// Bytes that a rendering may put out: 16 MiB.
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

/// What a repository asks for.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Basic authentication; registries give a token for it.
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

/// Where credentials come from. A closure `Fn(&str) -> Option<Credentials>` is one.
pub trait CredentialSource: Send + Sync + 'static {
    /// The credentials for a repository. Asked before each request, so that changes count at once.
    ///
    /// `repo_url` is what charts have, without white space around it and without `/` at its end. Only a repository
    /// whose URL is the same in all of it should get any: they are for whoever may make an Application.
    fn find(&self, repo_url: &str) -> Option<Credentials>;
}

impl<F: Fn(&str) -> Option<Credentials> + Send + Sync + 'static> CredentialSource for F {
    fn find(&self, repo_url: &str) -> Option<Credentials> {
        self(repo_url)
    }
}
