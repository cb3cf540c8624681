//! Checks a connection by the version of the cluster: it shows if the cluster can be reached and
//! accepts the credentials.

use std::time::Duration;

use baton_apis::conditions::Reason;
use http::{StatusCode, Uri};
use kube::Client;
use serde::Deserialize;
use tokio::time::timeout;

use super::text::excerpt;
use baton_kubernetes::{
    error::innermost,
    wire::{self, WireError},
};

const VERSION: &str = "/version";
/// Time limit of a check, the set-up of a connection included. It is shorter than the time limit of
/// the connection, so that the message of the check is reported.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Number of characters of a response in a message.
const EXCERPT: usize = 200;

/// The reason that a cluster cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionFailure {
    /// Reason for the condition `Connected`.
    pub reason: Reason,
    pub message: String,
    /// True if there was no response at all.
    pub silent: bool,
}

/// Checks a cluster. Returns its version, such as `v1.36.3`, if the cluster reports it.
pub(super) async fn check(client: &Client, url: &Uri) -> Result<Option<String>, ConnectionFailure> {
    let silent = |cause: &str| ConnectionFailure {
        reason: Reason::Unreachable,
        message: format!("cannot reach {}: {cause}", without_slash(url)),
        silent: true,
    };
    let request =
        wire::get(VERSION, "application/json").map_err(|error| silent(&error.to_string()))?;
    match timeout(TIMEOUT, wire::call(client, request)).await {
        Ok(Ok(reply)) => judge(url, reply.status, &reply.body),
        Ok(Err(error)) => Err(silent(&cause(&error))),
        Err(_) => Err(silent(&format!("no answer within {} s", TIMEOUT.as_secs()))),
    }
}

/// The version of the API server in a response, if the response has it, or the reason that the
/// cluster cannot be used.
fn judge(url: &Uri, status: StatusCode, body: &[u8]) -> Result<Option<String>, ConnectionFailure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let loss = |reason, message: String| ConnectionFailure {
        reason,
        message,
        silent: false,
    };
    let url = without_slash(url);
    let said = || excerpt(&wire::failure(status, body).message, EXCERPT);
    match status {
        StatusCode::OK => match serde_json::from_slice::<Version>(body) {
            Ok(version) => Ok(Some(version.git_version)),
            Err(_) => Err(loss(
                Reason::Unreachable,
                format!("{url} is not an API server: its answer to {VERSION} is not a version"),
            )),
        },
        StatusCode::UNAUTHORIZED => Err(loss(
            Reason::Unauthorized,
            format!("{url} refuses the credentials in the Secret: {}", said()),
        )),
        StatusCode::FORBIDDEN if said().contains("system:anonymous") => Err(loss(
            Reason::Forbidden,
            format!(
                "{url} does not recognise the credentials in the Secret: {}",
                said()
            ),
        )),
        // The right to read the version is not needed otherwise. A busy server can be reached.
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => Ok(None),
        status if status.is_server_error() => Err(loss(
            Reason::Unreachable,
            format!("{url} is not ready: {}", said()),
        )),
        _ => Err(loss(
            Reason::Unreachable,
            format!("{url} is not an API server: {}", said()),
        )),
    }
}

/// The last cause, with a hint where one helps.
fn cause(error: &WireError) -> String {
    let error: &(dyn std::error::Error + 'static) = match error {
        WireError::Send { source } | WireError::Read { source } => &**source,
        WireError::Build { .. } | WireError::TooLong { .. } | WireError::Timeout { .. } => error,
    };
    let cause = excerpt(&innermost(error), EXCERPT);
    if cause.starts_with("invalid peer certificate") {
        format!("{cause}; check that the Secret contains the CA of this cluster")
    } else {
        cause
    }
}

/// The address without the slash of an empty path.
fn without_slash(url: &Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_decides_the_reason_and_the_message() {
        let forbidden = |user: &str| {
            format!(
                r#"{{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,
                "message":"forbidden: User \"{user}\" cannot get path \"/version\""}}"#
            )
        };
        let anonymous = forbidden("system:anonymous");
        let somebody = forbidden("system:serviceaccount:a:b");
        let unauthorized = r#"{"kind":"Status","status":"Failure","code":401,
            "message":"Unauthorized","reason":"Unauthorized"}"#;
        let long = format!("<html>\n  {}", "x".repeat(500));
        let table = [
            (200, r#"{"major":"1","gitVersion":"v1.36.3"}"#, "Ok v1.36.3"),
            (403, &somebody, "Ok -"),
            (429, "", "Ok -"),
            (
                401,
                unauthorized,
                "Unauthorized https://a:1 refuses the credentials in the Secret: Unauthorized",
            ),
            (
                403,
                &anonymous,
                "Forbidden https://a:1 does not recognise the credentials in the Secret: forbidden: User \
                 \"system:anonymous\" cannot get path \"/version\"",
            ),
            (
                200,
                "<html>",
                "Unreachable https://a:1 is not an API server: its answer to /version is not a version",
            ),
            (
                404,
                "404 page not found",
                "Unreachable https://a:1 is not an API server: 404 page not found",
            ),
            (
                302,
                "",
                "Unreachable https://a:1 is not an API server: 302 Found",
            ),
            (
                503,
                "no\nbackend",
                "Unreachable https://a:1 is not ready: 503 Service Unavailable: no backend",
            ),
        ];
        let url: Uri = "https://a:1".parse().unwrap();
        for (status, body, expected) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let outcome = match judge(&url, status, body.as_bytes()) {
                Ok(version) => format!("Ok {}", version.as_deref().unwrap_or("-")),
                Err(loss) => format!("{} {}", loss.reason, loss.message),
            };
            assert_eq!(outcome, expected, "{status}");
        }
        let outcome = judge(&url, StatusCode::BAD_GATEWAY, long.as_bytes()).unwrap_err();
        assert!(outcome.message.len() < 300, "{}", outcome.message);
        assert!(!outcome.message.contains('\n'));
    }
}
