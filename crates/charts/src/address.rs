//! Addresses of repositories, indexes and archives, and their paths on disk.

use std::fmt::Write as _;

use baton_engine::redact::shown_url;
use ring::digest::{SHA256, digest};
use url::{Position, Url};

/// Limit of the URL's characters in the name of a folder; a hash covers the whole URL.
const READABLE: usize = 120;

/// Limit of the characters of a part of a file name.
const MAX_PART: usize = 100;

/// The address of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The text of the chart, without `/` at its end.
    pub text: String,
    /// The parsed URL.
    pub url: Url,
}

impl Address {
    /// Reads the address of a repository.
    ///
    /// # Errors
    /// If the text is no URL with a host, or its scheme is not `http`, `https` or `oci`. The error
    /// is a text for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches('/');
        let shown = shown_url(text);
        let url = Url::parse(text).map_err(|error| format!("parse {shown:?}: {error}"))?;
        if !matches!(url.scheme(), "http" | "https" | "oci") {
            return Err(format!(
                "{shown:?} is of the unsupported scheme {:?}",
                url.scheme()
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("{shown:?} has no host"));
        }
        let text = text.to_owned();
        Ok(Self { text, url })
    }

    /// True if charts are tags of a registry.
    pub fn is_registry(&self) -> bool {
        self.url.scheme() == "oci"
    }

    /// The URL of the index: below the path, with the query of the repository.
    pub fn index(&self) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/index.yaml", url.path().trim_end_matches('/')));
        url.set_fragment(None);
        url
    }

    /// The URL of an archive, as an index states it. A relative URL starts at the repository, and
    /// gets its query.
    ///
    /// # Errors
    /// If the text is no URL, or its scheme is not `http`, `https` or `oci`. The error is a text
    /// for people.
    pub fn archive(&self, text: &str) -> Result<Url, String> {
        let mut base = self.url.clone();
        base.set_path(&format!("{}/", base.path().trim_end_matches('/')));
        let mut url = base
            .join(text)
            .map_err(|error| format!("parse {:?}: {error}", shown_url(text)))?;
        if Url::parse(text).is_err() && url.query().is_none() {
            url.set_query(base.query());
        }
        if !matches!(url.scheme(), "http" | "https" | "oci") {
            return Err(format!("unsupported scheme {:?}", url.scheme()));
        }
        Ok(url)
    }

    /// The name of the folder of the repository: readable, and unique.
    ///
    /// Shipper uses the readable part alone, so that the repositories `a/b-c` and `a-b/c` share a
    /// folder.
    pub fn folder(&self) -> String {
        // The part before the host may contain a password.
        let shown = &self.url[Position::BeforeHost..Position::AfterPath];
        let shown = format!("{}-{shown}", self.url.scheme());
        let plain = |char: char| match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => char,
            _ => '-',
        };
        let readable: String = shown.chars().map(plain).take(READABLE).collect();
        format!(
            "{}-{}",
            readable.trim_end_matches('-'),
            &hex(digest(&SHA256, self.text.as_bytes()).as_ref())[..16]
        )
    }
}

/// True if credentials for one URL may be sent to the other.
pub fn same_origin(a: &Url, b: &Url) -> bool {
    let parts = |url: &Url| {
        let host = url.host_str().map(str::to_owned);
        (url.scheme().to_owned(), host, url.port_or_known_default())
    };
    parts(a) == parts(b)
}

/// The name of the file of an archive.
///
/// # Errors
/// If the name or version would lead to another folder. The error is a text for people.
pub fn file_name(name: &str, version: &str) -> Result<String, String> {
    for (what, text) in [("name", name), ("version", version)] {
        let plain = |char: char| char.is_ascii_alphanumeric() || "._-+".contains(char);
        if text.is_empty()
            || text.len() > MAX_PART
            || text.starts_with('.')
            || !text.chars().all(plain)
        {
            return Err(format!("{text:?} is not a valid {what} of a chart"));
        }
    }
    Ok(format!("{name}-{version}.tgz"))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn the_index_is_below_the_repository() {
        for (repository, index) in [
            ("https://charts", "https://charts/index.yaml"),
            ("https://charts/", "https://charts/index.yaml"),
            ("http://h:81/a/b//", "http://h:81/a/b/index.yaml"),
            ("https://h/a?key=b", "https://h/a/index.yaml?key=b"),
            (" https://h/a#part ", "https://h/a/index.yaml"),
        ] {
            assert_eq!(address(repository).index().as_str(), index);
        }
    }

    #[test]
    fn archives_are_found_from_the_repository() {
        for (repository, archive, expected) in [
            ("https://h/a", "x-1.tgz", Ok("https://h/a/x-1.tgz")),
            (
                "https://h/a?k=v",
                "c/x-1.tgz",
                Ok("https://h/a/c/x-1.tgz?k=v"),
            ),
            (
                "https://h/a?k=v",
                "x-1.tgz?own",
                Ok("https://h/a/x-1.tgz?own"),
            ),
            ("https://h/a?k=v", "/x-1.tgz", Ok("https://h/x-1.tgz?k=v")),
            ("https://h/a?k=v", "https://o/x.tgz", Ok("https://o/x.tgz")),
            ("https://h/a", "oci://r/x:1", Ok("oci://r/x:1")),
            (
                "https://h/a",
                "file:///etc/passwd",
                Err("unsupported scheme \"file\""),
            ),
        ] {
            let found = address(repository).archive(archive);
            let found = found.as_ref().map(Url::as_str).map_err(String::as_str);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn invalid_repository_urls_are_refused() {
        for (text, error) in [
            ("", "parse \"\": relative URL without a base"),
            ("charts", "parse \"charts\": relative URL without a base"),
            (
                "file:///charts",
                "\"file:///charts\" is of the unsupported scheme \"file\"",
            ),
            (
                "ftp://h",
                "\"ftp://h\" is of the unsupported scheme \"ftp\"",
            ),
            ("http://", "parse \"http:\": empty host"),
            (
                "http://h:99999",
                "parse \"http://h:99999\": invalid port number",
            ),
        ] {
            assert_eq!(Address::parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn each_repository_has_its_own_folder() {
        let folder = |text: &str| address(text).folder();
        assert!(folder("https://h/a/b-c").starts_with("https-h-a-b-c-"));
        assert_ne!(folder("https://h/a/b-c"), folder("https://h/a-b/c"));
        assert_ne!(folder("https://h/a?b"), folder("https://h/a"));
        assert_eq!(folder("https://h/a/"), folder("https://h/a"));
        assert!(!folder("https://me:secret@h/a").contains("secret"));
        let long = folder(&format!("https://h/{}", "../".repeat(1000)));
        assert!(long.len() < 200 && !long.contains('/'), "{long}");
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        assert_eq!(file_name("nginx", "1.0.0+a").unwrap(), "nginx-1.0.0+a.tgz");
        for (name, version) in [
            ("", "1"),
            ("..", "1"),
            ("a/b", "1"),
            ("a", "../1"),
            ("a", "1\\2"),
            ("a", "1\0"),
            (".a", "1"),
        ] {
            assert!(file_name(name, version).is_err(), "{name} {version}");
        }
        assert!(file_name(&"a".repeat(101), "1").is_err());
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        let same = |a: &str, b: &str| same_origin(&address(a).url, &address(b).url);
        assert!(same("https://h/a", "https://h:443/b"));
        assert!(!same("https://h", "http://h"));
        assert!(!same("https://h", "https://h:444"));
        assert!(!same("https://h", "https://h.evil"));
    }
}
