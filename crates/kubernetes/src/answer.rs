//! The meaning of a response of the API server for the request that it answers.
//!
//! Facts of the API that the tables here rest on, tried on a 1.36 server:
//!
//! - An apply answers 201 if it created the object and 200 if the object existed; so does a dry
//!   run.
//! - A 404 has three meanings. Its `Status` names the object, or the namespace that is missing, or
//!   nothing (`the server could not find the requested resource`; plain text outside of every
//!   known group): then the kind is not served.
//! - A failed `test` of a JSON patch is a 422 `Invalid` without causes; a validation error has some.
//! - A 409 may be about another object: the quota of the namespace is updated along with a create.
//! - A `DELETE` answers with a `Status` when the object is gone, except for kinds that return the
//!   object they deleted (`ServiceAccount`, `Service`, `Pod` and a dozen more). Such an object is
//!   gone unless it has a `deletionTimestamp` and something to wait for: finalizers, a grace period,
//!   or, for a `Namespace`, `spec.finalizers`.
//! - A 500 with an empty reason and `failed to create typed patch object` is about the content, such
//!   as a field that the schema does not have.

use http::StatusCode;
use kube::core::{Status, response::StatusDetails};
use serde_json::Value;

use crate::wire;
use baton_engine::{Answer, recreate::is_about_immutability, redact::parse_error};

/// The requests of [`baton_engine::Request`] as seen on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A read.
    Get,
    /// An apply without force of an object that is not expected to exist, also as a dry run.
    Create,
    /// An apply with preconditions, also as a dry run.
    Apply,
    /// A patch that tests before it changes anything.
    Patch,
    /// A deletion with preconditions.
    Delete,
}

/// The object that a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Plural name of the resource.
    pub plural: &'a str,
    /// Kind, which some responses name in place of the resource.
    pub kind: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// Interprets a response.
pub(crate) fn interpret(
    operation: Operation,
    subject: Subject<'_>,
    code: StatusCode,
    body: &[u8],
) -> Answer {
    if !code.is_success() {
        return refusal(operation, subject, code, wire::failure(code, body));
    }
    let object = match serde_json::from_slice::<Value>(body) {
        Ok(object) => object,
        // The response is no JSON, or nested deeper than the parser can follow without exhausting
        // the stack.
        Err(error) => return Answer::Failed(format!("unreadable answer: {}", parse_error(&error))),
    };
    let is_status = object["kind"] == "Status" && object["apiVersion"] == "v1";
    match operation {
        // An update that takes the last finalizer off a deleted object may answer like a deletion.
        _ if is_status => Answer::NotFound,
        Operation::Delete if is_gone(&object) => Answer::NotFound,
        Operation::Create if code == StatusCode::CREATED => Answer::Created(object),
        Operation::Create => Answer::Merged(object),
        Operation::Get | Operation::Apply | Operation::Patch | Operation::Delete => {
            Answer::Object(object)
        }
    }
}

/// True if the object in the response to a deletion no longer exists.
fn is_gone(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waits = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    metadata["deletionTimestamp"].is_null()
        || (metadata["deletionGracePeriodSeconds"] == 0
            && !waits(&metadata["finalizers"])
            && !waits(&object["spec"]["finalizers"]))
}

fn refusal(operation: Operation, subject: Subject<'_>, code: StatusCode, status: Status) -> Answer {
    match code.as_u16() {
        404 => not_found(subject, status),
        409 => conflict(subject, status),
        code if operation == Operation::Patch && is_failed_test(code, &status) => Answer::Conflict,
        422 if operation == Operation::Apply && is_immutable(&status) => {
            Answer::Immutable(status.message)
        }
        code if is_refusal(code, &status) => Answer::Refused(status.message),
        _ => Answer::Failed(status.message),
    }
}

fn not_found(subject: Subject<'_>, status: Status) -> Answer {
    match wire::subject(&status) {
        Some(details) if subject.is(details) => Answer::NotFound,
        None if status.reason.is_empty()
            || status
                .message
                .starts_with("the server could not find the requested resource") =>
        {
            Answer::KindNotServed
        }
        // In most cases the namespace is missing.
        Some(_) | None => Answer::Refused(status.message),
    }
}

fn conflict(subject: Subject<'_>, status: Status) -> Answer {
    match wire::subject(&status) {
        Some(details) if !subject.is(details) => {
            if status.is_already_exists() {
                Answer::Refused(status.message)
            } else {
                Answer::Failed(status.message)
            }
        }
        // Conflicts between field managers name the fields only.
        Some(_) | None => Answer::Conflict,
    }
}

/// True if the server refused the content or the right to write it, rather than failed to write it.
fn is_refusal(code: u16, status: &Status) -> bool {
    match status.reason.as_str() {
        "Unauthorized"
        | "Forbidden"
        | "AlreadyExists"
        | "Invalid"
        | "BadRequest"
        | "MethodNotAllowed"
        | "RequestEntityTooLarge"
        | "UnsupportedMediaType"
        | "NotAcceptable"
        | "NotFound" => true,
        "Timeout" | "ServerTimeout" | "TooManyRequests" | "InternalError"
        | "ServiceUnavailable" | "Gone" | "Expired" | "StoreReadError" => false,
        // No reason, or one that an admission webhook made up: the code decides.
        _ => {
            matches!(code, 400 | 401 | 403 | 405 | 406 | 413 | 415 | 422)
                || status
                    .message
                    .contains("failed to create typed patch object")
        }
    }
}

/// True if changes of immutable fields are the only thing that is wrong.
pub fn is_immutable(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut causes = causes.peekable();
    causes.peek().is_some() && causes.all(|cause| is_about_immutability(&cause.message))
}

/// True if a `test` of a JSON patch failed. A violated validation rule of the API has causes.
pub fn is_failed_test(code: u16, status: &Status) -> bool {
    let details = status.details.as_ref();
    code == 422 && details.is_none_or(|it| it.causes.is_empty())
}

/// True if an object was refused because its namespace is being deleted.
pub fn is_namespace_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

impl Subject<'_> {
    /// True if the details of a response name this object. Most name the resource, some the kind.
    fn is(self, details: &StatusDetails) -> bool {
        let kind = details.kind.as_str();
        details.name == self.name && (kind.is_empty() || kind == self.plural || kind == self.kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUBJECT: Subject<'_> = Subject {
        plural: "configmaps",
        kind: "ConfigMap",
        name: "a",
    };

    #[test]
    fn a_terminating_namespace_is_recognised_by_its_cause() {
        for (reason, expected) in [("NamespaceTerminating", true), ("Other", false)] {
            let causes = json!([{"reason": reason, "field": "metadata.namespace"}]);
            let status = json!({"code": 403, "reason": "Forbidden", "details": {"causes": causes}});
            let status = serde_json::from_value(status).unwrap();
            assert_eq!(is_namespace_terminating(&status), expected, "{reason}");
        }
    }

    fn interpreted(operation: Operation, code: u16, body: &str) -> String {
        let code = StatusCode::from_u16(code).unwrap();
        match interpret(operation, SUBJECT, code, body.as_bytes()) {
            Answer::Object(_) => "object".to_owned(),
            Answer::Created(_) => "created".to_owned(),
            Answer::Merged(_) => "merged".to_owned(),
            Answer::NotFound => "not found".to_owned(),
            Answer::Conflict => "conflict".to_owned(),
            Answer::KindNotServed => "not served".to_owned(),
            Answer::Refused(text) => format!("refused: {text}"),
            Answer::Immutable(text) => format!("immutable: {text}"),
            Answer::Failed(text) => format!("failed: {text}"),
            Answer::Affected(affected) => format!("{affected:?}"),
        }
    }

    #[test]
    fn responses_of_successful_requests_are_classified() {
        let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#;
        let success = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a"}}"#;
        let table = [
            (Operation::Get, 200, object, "object"),
            (Operation::Create, 201, object, "created"),
            (Operation::Create, 200, object, "merged"),
            (Operation::Apply, 200, object, "object"),
            (Operation::Apply, 200, success, "not found"),
            (Operation::Patch, 200, object, "object"),
            (Operation::Delete, 200, success, "not found"),
            (
                Operation::Get,
                200,
                "<html>",
                "failed: unreadable answer: expected value at line 1 column 1",
            ),
        ];
        for (operation, code, body, expected) in table {
            assert_eq!(
                interpreted(operation, code, body),
                expected,
                "{operation:?} {code} {body}"
            );
        }
    }

    #[test]
    fn deletions_that_answer_with_an_object() {
        let now = "2026-01-01T00:00:00Z";
        let table = [
            // A ServiceAccount.
            (json!({}), json!({}), "not found"),
            (
                json!({"deletionTimestamp": now, "deletionGracePeriodSeconds": 0, "finalizers": ["x/y"]}),
                json!({}),
                "object",
            ),
            // A running pod.
            (
                json!({"deletionTimestamp": now, "deletionGracePeriodSeconds": 30}),
                json!({}),
                "object",
            ),
            // A pod that was never scheduled.
            (
                json!({"deletionTimestamp": now, "deletionGracePeriodSeconds": 0}),
                json!({}),
                "not found",
            ),
            (
                json!({"deletionTimestamp": now, "deletionGracePeriodSeconds": 0, "finalizers": []}),
                json!({}),
                "not found",
            ),
            // A namespace.
            (
                json!({"deletionTimestamp": now}),
                json!({"finalizers": ["kubernetes"]}),
                "object",
            ),
            (json!({"deletionTimestamp": now}), json!({}), "object"),
        ];
        for (metadata, spec, expected) in table {
            let object =
                json!({"kind": "X", "apiVersion": "v1", "metadata": metadata, "spec": spec});
            assert_eq!(
                interpreted(Operation::Delete, 200, &object.to_string()),
                expected,
                "{object}"
            );
        }
    }

    /// Operation, code, reason, message, object in the details, and the answer. `=` is the message
    /// again.
    const REFUSALS: &str = r#"
        Get     | 404 | NotFound | configmaps "a" not found | this | not found
        Delete  | 404 | NotFound | configmaps "a" not found | this | not found
        Create  | 404 | NotFound | namespaces "n" not found | namespace | refused: =
        Create  | 404 | NotFound | the server could not find the requested resource | - | not served
        Create  | 404 | NotFound | a webhook's own words | - | refused: =
        Create  | 409 | Conflict | Apply failed with 1 conflict | fields | conflict
        Apply   | 409 | Conflict | the object has been modified | this | conflict
        Delete  | 409 | Conflict | the UID in the precondition | this kind | conflict
        Create  | 409 | Conflict | quota was modified | quota | failed: =
        Create  | 409 | AlreadyExists | exists | this | conflict
        Create  | 409 | AlreadyExists | exists | quota | refused: =
        Patch   | 422 | Invalid | the server rejected our request | - | conflict
        Patch   | 422 | Invalid | bad label | invalid | refused: =
        Apply   | 422 | Invalid | bad label | invalid | refused: =
        Apply   | 422 | Invalid | no causes | - | refused: =
        Get     | 401 | Unauthorized | t | - | refused: =
        Create  | 403 | Forbidden | t | this | refused: =
        Create  | 400 | BadRequest | t | - | refused: =
        Create  | 405 | MethodNotAllowed | t | - | refused: =
        Create  | 406 | NotAcceptable | t | - | refused: =
        Create  | 413 | RequestEntityTooLarge | t | - | refused: =
        Create  | 415 | UnsupportedMediaType | t | - | refused: =
        Create  | 500 | | failed to create typed patch object (/a; /v1, Kind=X): .x | - | refused: =
        Create  | 500 | | anything else | - | failed: =
        Create  | 500 | InternalError | failed calling webhook | - | failed: =
        Create  | 422 | PolicyViolation | denied | - | refused: =
        Create  | 418 | PolicyViolation | denied | - | failed: =
        Create  | 429 | TooManyRequests | t | - | failed: =
        Create  | 503 | ServiceUnavailable | t | - | failed: =
        Create  | 504 | Timeout | t | - | failed: =
    "#;

    fn details(name: &str) -> Value {
        let cause = json!({"reason": "R", "message": "m", "field": "f"});
        match name {
            "this" => json!({"name": "a", "kind": "configmaps"}),
            "this kind" => json!({"name": "a", "kind": "ConfigMap"}),
            "namespace" => json!({"name": "n", "kind": "namespaces"}),
            "quota" => json!({"name": "q", "kind": "resourcequotas"}),
            "fields" => json!({"causes": [cause]}),
            "invalid" => json!({"name": "a", "kind": "ConfigMap", "causes": [cause]}),
            _ => json!({}),
        }
    }

    #[test]
    fn responses_of_refused_requests_are_classified() {
        for row in REFUSALS.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [operation, code, reason, message, about, expected] = cells[..] else {
                panic!("{row}");
            };
            let operation = match operation {
                "Get" => Operation::Get,
                "Create" => Operation::Create,
                "Apply" => Operation::Apply,
                "Patch" => Operation::Patch,
                "Delete" => Operation::Delete,
                _ => panic!("{row}"),
            };
            let code: u16 = code.parse().unwrap();
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "details": details(about), "code": code,
            });
            let expected = expected.replace('=', message);
            assert_eq!(
                interpreted(operation, code, &body.to_string()),
                expected,
                "{row}"
            );
        }
    }

    #[test]
    fn plain_text() {
        assert_eq!(
            interpreted(Operation::Get, 404, "404 page not found\n"),
            "not served"
        );
        assert_eq!(
            interpreted(Operation::Create, 502, "bad gateway"),
            "failed: 502 Bad Gateway: bad gateway"
        );
        assert_eq!(
            interpreted(Operation::Create, 403, "no"),
            "refused: 403 Forbidden: no"
        );
    }

    #[test]
    fn a_namespace_is_an_object_too() {
        let subject = Subject {
            plural: "namespaces",
            kind: "Namespace",
            name: "n",
        };
        let body =
            json!({"message": "gone", "reason": "NotFound", "details": details("namespace")});
        let answer = interpret(
            Operation::Get,
            subject,
            StatusCode::NOT_FOUND,
            body.to_string().as_bytes(),
        );
        assert_eq!(answer, Answer::NotFound);
    }
}
