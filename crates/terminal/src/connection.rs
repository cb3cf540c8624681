//! The connection of a command to a cluster.

use std::{net::IpAddr, time::Duration};

use http::Uri;

/// Time limit of a connection attempt.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The URL of an API server, without a slash at its end.
pub fn server_url(uri: &Uri) -> String {
    uri.to_string().trim_end_matches('/').to_owned()
}

/// True if a URL can only lead to this machine.
pub fn is_local(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || ip.is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_local() {
        for (host, expected) in [
            ("localhost", true),
            ("127.0.0.1:6443", true),
            ("127.1.2.3", true),
            ("[::1]:1", true),
            ("10.0.0.1", false),
            ("localhost.example", false),
            ("[2001:db8::1]", false),
        ] {
            let uri: Uri = format!("https://{host}/").parse().unwrap();
            assert_eq!(is_local(&uri), expected, "{host}");
        }
    }
}
