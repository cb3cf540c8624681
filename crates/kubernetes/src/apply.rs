//! Writes the children of revisions. All writes of children are sent here.
//!
//! # Guarantees
//!
//! - Each request is sent once, and a second time only after a pause that the server demands (429
//!   or 503 with `Retry-After`).
//! - A write carries a precondition. An apply to an existing object has its UID and version: on a
//!   1.36 server the version alone does not keep an apply from creating the object again if the
//!   object was deleted in between; the UID does (409). A create has a version alone, one that no
//!   object has: the server creates the object (201), or refuses the request if there is one (409),
//!   also one of ours.
//! - A create is not sent, and is a conflict, if the object is in the store already, because the
//!   create of another revision was answered a moment ago. All revisions share one field manager:
//!   for the server the second create would be the next version of the first one, and would replace
//!   its content and owner.
//! - The object in an answer is in the store before the answer is returned.
//! - No write and no dry run is sent with other rights than those of the given account.
//! - No name from a manifest leads to another path than that of the object.
//!
//! # Options of the requests
//!
//! `fieldValidation=Ignore` everywhere, except for the dry runs by POST (`post.rs`). The option affects unknown and
//! duplicate fields only. An apply to a built-in kind refuses unknown fields under any setting, and our bodies have no
//! duplicates. For a custom resource the default (`Warn`) accepts fields that the schema does not
//! have, and prunes them; so does `Ignore`, but without the second, strict parse of the body, and
//! without warnings, which are not read. `Strict` would refuse manifests that Package Operator
//! accepts.

mod migrate;
pub(crate) mod post;

use std::{borrow::Cow, time::Duration};

use baton_apis::constants::{ANNOTATION_OWNERS, FIELD_MANAGER};
use bytes::Bytes;
use http::{Method, StatusCode, header};
use json_patch::PatchOperation;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    account::{Account, IMPERSONATE_USER},
    answer::{Operation, Subject, interpret},
    discovery::Resource,
    object::ObjectParts,
    target::Target,
    wire::{
        self,
        MediaType::{self, JsonPatch, MergePatch},
        Reply, WireError,
    },
};
use baton_engine::{
    Answer, Gvk, ObjectKey, Precondition, Request,
    object::owner_references,
    operations::{remove, replace, test},
    owners,
};

/// The longest `Retry-After` that is obeyed.
const LONGEST_PATIENCE: Duration = Duration::from_secs(5);
/// Number of attempts of an empty apply on an object that keeps changing.
const TAKE_BACK_ROUNDS: usize = 5;

impl Target {
    /// Sends a request about a child: writes and dry runs as the given account, if there is one,
    /// and reads as the manager.
    ///
    /// # Caveats
    /// After [`Answer::Failed`] the write may have happened nevertheless: read the object again.
    pub async fn send(
        &self,
        account: Option<&Account>,
        gvk: &Gvk,
        key: &ObjectKey,
        request: &Request,
    ) -> Answer {
        if let Request::FindAffected(question) = request {
            return self.find_affected(question).await;
        }
        let resource = match self.resolve(gvk).await {
            Ok(Some(resource)) => resource,
            Ok(None) => return Answer::KindNotServed,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let path = match resource.path_of(key) {
            Ok(path) => path,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let child = Child {
            account,
            gvk,
            key,
            resource: &resource,
            path,
        };
        let answer = match request {
            Request::TakeBack => self.take_back(&child).await,
            Request::Migrate {
                live,
                former,
                leftovers,
            } => self.migrate(&child, live, former, leftovers).await,
            Request::Create(_) => {
                let _creating = self.0.creating.lock(key).await;
                if self.0.informers.knows(key) {
                    return Answer::Conflict;
                }
                self.send_once(&child, request).await
            }
            Request::DryRunCreate(body) => self.dry_run_create(&child, request, body).await,
            _ => self.send_once(&child, request).await,
        };
        if answer == Answer::KindNotServed {
            self.0.discovery.invalidate(&gvk.group);
        }
        answer
    }

    async fn send_once(&self, child: &Child<'_>, request: &Request) -> Answer {
        match child.call(request) {
            Ok(call) => self.execute(child, &call).await.0,
            Err(answer) => answer,
        }
    }

    /// Sends a dry run by POST, if it shows what a dry run by apply would show. Its answer counts only if
    /// the body is accepted.
    async fn dry_run_create(&self, child: &Child<'_>, request: &Request, body: &Value) -> Answer {
        let Child { gvk, key, .. } = child;
        // An account may have the right to patch some names only, and to create any.
        if child.account.is_none()
            && self.0.applicable.knows(gvk, key)
            && let Some(call) = child.post(body, self.0.is_defined(child.resource, &gvk.group))
            && let (answer @ Answer::Created(_), _) = self.execute(child, &call).await
        {
            return answer;
        }
        self.send_once(child, request).await
    }

    /// Sends a call and stores the object of its answer. Also returns the text of the answer.
    async fn execute(&self, child: &Child<'_>, call: &Call) -> (Answer, Bytes) {
        let store = self.0.informers.store(child.gvk);
        let cached_uid = store
            .as_ref()
            .and_then(|store| store.get(&child.key.namespace, &child.key.name))
            .map(|stored| stored.uid.clone());
        let _permit = self.0.permits.acquire(&child.key.namespace).await;
        let pending = store
            .as_ref()
            .filter(|_| call.is_write())
            .map(|store| store.begin_write(&child.key.namespace, &child.key.name));
        let reply = self.send_patiently(call).await;
        let Reply { status, body, .. } = match reply {
            Ok(reply) => reply,
            Err(error) => return (Answer::Failed(error.to_string()), Bytes::new()),
        };
        let answer = decoded(interpret(call.operation, child.subject(), status, &body));
        if call.content == Some(MediaType::Apply) && child.account.is_none() {
            let applicable = &self.0.applicable;
            applicable.note(child.gvk, child.key, status.is_success());
        }
        let text = String::from_utf8_lossy(&body);
        let result = match (&answer, store, pending) {
            (Answer::Object(_) | Answer::Created(_) | Answer::Merged(_), _, Some(pending)) => {
                pending.written(&text)
            }
            (Answer::Object(_), Some(store), None) if call.operation == Operation::Get => {
                store.insert_read(&text)
            }
            // The object that was cached before the request no longer exists: one that exists by
            // now has another UID.
            (Answer::NotFound, store, pending) => {
                match (
                    call.deletes.as_deref().or(cached_uid.as_deref()),
                    store,
                    pending,
                ) {
                    (Some(uid), _, Some(pending)) => pending.gone(uid),
                    (Some(uid), Some(store), None) => {
                        store.read_gone(&child.key.namespace, &child.key.name, uid);
                    }
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::warn!(%error, "the answer of the server cannot be cached");
        }
        drop(text);
        (answer, body)
    }

    async fn send_patiently(&self, call: &Call) -> Result<Reply, WireError> {
        let reply = wire::call(&self.0.client, call.request()?).await?;
        let busy = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        match reply.retry_after {
            Some(delay) if busy.contains(&reply.status) => {
                sleep(delay.min(LONGEST_PATIENCE)).await;
                wire::call(&self.0.client, call.request()?).await
            }
            _ => Ok(reply),
        }
    }

    /// Gives up all fields that an unforced apply merged into a foreign object.
    ///
    /// The object is read first: an empty apply to an object that was deleted meanwhile would
    /// create an empty one, and the UID prevents that.
    async fn take_back(&self, child: &Child<'_>) -> Answer {
        for _ in 0..TAKE_BACK_ROUNDS {
            let (answer, text) = self.execute(child, &child.get()).await;
            let Answer::Object(live) = answer else {
                return answer;
            };
            let text = String::from_utf8_lossy(&text);
            match ObjectParts::of(&text, child.gvk) {
                Ok(parts) if !parts.managed_by_us() => return Answer::Object(live),
                Ok(parts) => {
                    let call = child.apply_nothing(&parts);
                    let (answer, _) = self.execute(child, &call).await;
                    if answer != Answer::Conflict {
                        return answer;
                    }
                }
                Err(error) => return Answer::Failed(error.to_string()),
            }
        }
        Answer::Conflict
    }
}

/// An object and its path.
struct Child<'a> {
    /// The account that writes the object.
    account: Option<&'a Account>,
    gvk: &'a Gvk,
    key: &'a ObjectKey,
    resource: &'a Resource,
    path: String,
}

/// A request, ready to be sent, also twice.
#[derive(Debug, PartialEq)]
struct Call {
    operation: Operation,
    dry_run: bool,
    /// UID of the object that the call deletes.
    deletes: Option<String>,
    method: Method,
    url: String,
    content: Option<MediaType>,
    /// The user with whose rights the call is carried out, if not those of the manager.
    user: Option<String>,
    body: Bytes,
}

impl Child<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject {
            plural: &self.resource.plural,
            kind: &self.gvk.kind,
            name: &self.key.name,
        }
    }

    fn call(&self, request: &Request) -> Result<Call, Answer> {
        Ok(match request {
            // An empty apply needs the UID of the object first, and a migration the entries of all
            // managers.
            Request::Get
            | Request::TakeBack
            | Request::Migrate { .. }
            | Request::FindAffected(_) => self.get(),
            Request::DryRunCreate(body) => self.apply(&encoded(body), Operation::Create, true),
            Request::Create(body) => self.apply(&encoded(body), Operation::Create, false),
            Request::DryRunApply(body) => {
                self.apply(&encoded(bound(body)?), Operation::Apply, true)
            }
            Request::DryRunMerge(body) => self.dry_run_merge(&encoded(bound(body)?)),
            Request::Apply(body) => self.apply(&encoded(bound(body)?), Operation::Apply, false),
            Request::Release {
                owner_uid,
                live,
                left,
            } => self.release(owner_uid, live, left.as_deref()),
            Request::HandOver(body) => {
                self.patch(Operation::Patch, MergePatch, &encoded(bound(body)?))
            }
            Request::Delete(live) => self.delete(live, None),
            Request::DeleteForRecreation(live) => self.delete(live, Some("Foreground")),
        })
    }

    fn get(&self) -> Call {
        Call::new(Operation::Get, Method::GET, self.path.clone())
    }

    fn apply(&self, body: &Value, operation: Operation, dry_run: bool) -> Call {
        let mut call = self.patch(operation, MediaType::Apply, body);
        // A create must not overwrite fields that another manager set.
        call.url.push_str(if operation == Operation::Create {
            "&force=false"
        } else {
            "&force=true"
        });
        if dry_run {
            call.url.push_str("&dryRun=All");
        }
        Call { dry_run, ..call }
    }

    /// The dry run of a create by POST; `None` if an apply could refuse what it accepts.
    fn post(&self, body: &Value, is_defined: bool) -> Option<Call> {
        let lists = post::Lists::of(&self.gvk.group, is_defined);
        if !post::is_enough(lists, body) {
            return None;
        }
        let path = self.resource.path_in(&self.key.namespace).ok()?;
        let options = format!("?fieldManager={FIELD_MANAGER}&fieldValidation=Strict&dryRun=All");
        Some(Call {
            dry_run: true,
            content: Some(MediaType::Json),
            user: self.user(),
            body: post::body(&encoded(body)).to_string().into(),
            ..Call::new(Operation::Create, Method::POST, format!("{path}{options}"))
        })
    }

    fn dry_run_merge(&self, body: &Value) -> Call {
        let mut call = self.patch(Operation::Apply, MergePatch, body);
        call.url.push_str("&dryRun=All");
        Call {
            dry_run: true,
            ..call
        }
    }

    fn apply_nothing(&self, live: &ObjectParts<'_>) -> Call {
        let mut metadata = json!({
            "name": self.key.name,
            "uid": live.uid,
            "resourceVersion": live.resource_version.to_string(),
        });
        if !live.namespace.is_empty() {
            metadata["namespace"] = self.key.namespace.as_str().into();
        }
        let body = json!({
            "apiVersion": self.gvk.api_version(),
            "kind": self.gvk.kind,
            "metadata": metadata,
        });
        let mut call = self.patch(Operation::Apply, MediaType::Apply, &body);
        call.url.push_str("&force=false");
        call
    }

    fn release(&self, owner_uid: &str, live: &Precondition, left: Option<&str>) -> Call {
        let changes = if let Some(left) = left {
            vec![replace(
                &["metadata", "annotations", ANNOTATION_OWNERS],
                left,
            )]
        } else {
            let index = live.owner_index.to_string();
            let owner = ["metadata", "ownerReferences", &index];
            let uid = [&owner[..], &["uid"]].concat();
            // The server leaves out the list that this change empties, so nothing else is to be
            // removed.
            vec![test(&uid, owner_uid), remove(&owner)]
        };
        self.change(live, changes)
    }

    /// Changes an object in the state that was decided upon.
    fn change(&self, live: &Precondition, changes: Vec<PatchOperation>) -> Call {
        let mut patch = vec![
            test(&["metadata", "uid"], &*live.uid),
            test(&["metadata", "resourceVersion"], &*live.resource_version),
        ];
        patch.extend(changes);
        self.patch(Operation::Patch, JsonPatch, &json!(patch))
    }

    /// Deletes an object, and its dependents by the given policy, or by the default of its kind.
    fn delete(&self, live: &Precondition, policy: Option<&str>) -> Call {
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": live.uid, "resourceVersion": live.resource_version},
        });
        if let Some(policy) = policy {
            body["propagationPolicy"] = policy.into();
        }
        Call {
            deletes: Some(live.uid.clone()),
            content: Some(MediaType::Json),
            user: self.user(),
            body: body.to_string().into(),
            ..Call::new(Operation::Delete, Method::DELETE, self.path.clone())
        }
    }

    fn user(&self) -> Option<String> {
        self.account.map(ToString::to_string)
    }

    fn patch(&self, operation: Operation, content: MediaType, body: &Value) -> Call {
        let options = format!("?fieldManager={FIELD_MANAGER}&fieldValidation=Ignore");
        Call {
            content: Some(content),
            user: self.user(),
            body: body.to_string().into(),
            ..Call::new(operation, Method::PATCH, format!("{}{options}", self.path))
        }
    }
}

/// The body to send for one that names its owners in one list.
fn encoded(body: &Value) -> Cow<'_, Value> {
    if !owner_references(body).iter().any(owners::is_remote) {
        return Cow::Borrowed(body);
    }
    let mut body = body.clone();
    owners::encode(&mut body);
    Cow::Owned(body)
}

/// The answer with all owners of its object in one list.
fn decoded(mut answer: Answer) -> Answer {
    if let Answer::Object(live) | Answer::Created(live) | Answer::Merged(live) = &mut answer {
        owners::decode(live);
    }
    answer
}

/// The body of a write to an existing object; refused if it does not identify the object.
fn bound(body: &Value) -> Result<&Value, Answer> {
    let has = |field: &str| {
        body["metadata"][field]
            .as_str()
            .is_some_and(|text| !matches!(text, "" | "0"))
    };
    if has("uid") && has("resourceVersion") {
        return Ok(body);
    }
    Err(Answer::Failed(
        "not sent: a write to an existing object must carry its uid and resourceVersion".to_owned(),
    ))
}

impl Call {
    fn new(operation: Operation, method: Method, url: String) -> Self {
        Self {
            operation,
            dry_run: false,
            deletes: None,
            method,
            url,
            content: None,
            user: None,
            body: Bytes::new(),
        }
    }

    fn is_write(&self) -> bool {
        !self.dry_run && self.operation != Operation::Get
    }

    fn request(&self) -> Result<http::Request<Body>, WireError> {
        let mut builder = http::Request::builder()
            .method(self.method.clone())
            .uri(&self.url)
            .header(header::ACCEPT, MediaType::Json.as_str());
        if let Some(content) = self.content {
            builder = builder.header(header::CONTENT_TYPE, content.as_str());
        }
        if let Some(user) = &self.user {
            builder = builder.header(IMPERSONATE_USER, user);
        }
        builder
            .body(Body::from(self.body.clone()))
            .map_err(|source| WireError::Build {
                path: self.url.clone(),
                source,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_engine::{diff::leftovers::Leftovers, revision::KindScope};

    fn check(
        request: &Request,
        method: &Method,
        query: &str,
        content: Option<MediaType>,
        body: &str,
    ) {
        let call = with_child(|child| child.call(request)).unwrap();
        check_call(&call, method, query, content, body);
    }

    pub(super) fn check_call(
        call: &Call,
        method: &Method,
        query: &str,
        content: Option<MediaType>,
        body: &str,
    ) {
        assert_eq!(call.method, *method);
        assert_eq!(
            call.url,
            format!("/apis/apps/v1/namespaces/n/deployments/a{query}")
        );
        assert_eq!(call.content, content);
        assert_eq!(call.body, body.as_bytes());
        assert_eq!(call.dry_run, query.contains("dryRun"));
        assert_eq!(call.deletes.is_some(), *method == Method::DELETE);
    }

    /// Calls `work` with a deployment `a` in the namespace `n`.
    pub(super) fn with_child<T>(work: impl FnOnce(&Child<'_>) -> T) -> T {
        with_child_of(None, work)
    }

    fn with_child_of<T>(account: Option<&Account>, work: impl FnOnce(&Child<'_>) -> T) -> T {
        let gvk = Gvk::new("apps/v1", "Deployment");
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        let resource = Resource {
            prefix: "/apis/apps/v1".to_owned(),
            plural: "deployments".to_owned(),
            scope: KindScope::Namespaced,
            watchable: true,
        };
        let path = resource.path_of(&key).unwrap();
        work(&Child {
            account,
            gvk: &gvk,
            key: &key,
            resource: &resource,
            path,
        })
    }

    /// Every request that can change an object, or reports if the object could be changed.
    #[test]
    fn all_but_reads_are_sent_as_the_account() {
        let live = Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            owner_index: 0,
        };
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}});
        let release = |left| Request::Release {
            owner_uid: "o".to_owned(),
            live: live.clone(),
            left,
        };
        let writes = [
            Request::DryRunCreate(object.clone()),
            Request::Create(object.clone()),
            Request::DryRunApply(object.clone()),
            Request::DryRunMerge(object.clone()),
            Request::Apply(object.clone()),
            Request::HandOver(object),
            release(None),
            release(Some("[]".to_owned())),
            Request::Delete(live.clone()),
            Request::DeleteForRecreation(live.clone()),
        ];
        let account = Account::new("shop", "deployer");
        let user = |account: Option<&Account>, request: &Request| {
            let call = with_child_of(account, |child| child.call(request)).unwrap();
            let request = call.request().unwrap();
            let user = request.headers().get("Impersonate-User");
            user.map(|user| user.to_str().unwrap().to_owned())
        };
        for request in &writes {
            let found = user(account.as_ref(), request);
            let expected = "system:serviceaccount:shop:deployer";
            assert_eq!(found.as_deref(), Some(expected), "{request:?}");
            assert_eq!(user(None, request), None, "{request:?}");
        }
        // The following requests begin with a read.
        let former = Vec::new();
        for request in [
            Request::Get,
            Request::TakeBack,
            Request::Migrate {
                live,
                former,
                leftovers: Leftovers::default(),
            },
        ] {
            assert_eq!(user(account.as_ref(), &request), None, "{request:?}");
        }
        let object = ObjectParts::of(
            r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}"#,
            &Gvk::new("apps/v1", "Deployment"),
        );
        let object = object.unwrap();
        let call = with_child_of(account.as_ref(), |child| child.apply_nothing(&object));
        assert!(call.user.is_some(), "taking back");
    }

    #[test]
    fn builds_requests() {
        let live = Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            owner_index: 2,
        };
        let new = json!({"metadata": {"name": "a"}});
        let object = json!({"metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}});
        let base = "?fieldManager=package-operator&fieldValidation=Ignore";
        let apply = Some(MediaType::Apply);
        check(&Request::Get, &Method::GET, "", None, "");
        check(
            &Request::Create(new.clone()),
            &Method::PATCH,
            &format!("{base}&force=false"),
            apply,
            &new.to_string(),
        );
        check(
            &Request::DryRunCreate(new.clone()),
            &Method::PATCH,
            &format!("{base}&force=false&dryRun=All"),
            apply,
            &new.to_string(),
        );
        check(
            &Request::Apply(object.clone()),
            &Method::PATCH,
            &format!("{base}&force=true"),
            apply,
            &object.to_string(),
        );
        check(
            &Request::DryRunApply(object.clone()),
            &Method::PATCH,
            &format!("{base}&force=true&dryRun=All"),
            apply,
            &object.to_string(),
        );
        check(
            &Request::Release {
                owner_uid: "o".to_owned(),
                live: live.clone(),
                left: None,
            },
            &Method::PATCH,
            base,
            Some(JsonPatch),
            concat!(
                r#"[{"op":"test","path":"/metadata/uid","value":"u"},"#,
                r#"{"op":"test","path":"/metadata/resourceVersion","value":"7"},"#,
                r#"{"op":"test","path":"/metadata/ownerReferences/2/uid","value":"o"},"#,
                r#"{"op":"remove","path":"/metadata/ownerReferences/2"}]"#
            ),
        );
        let owned = |owners: Value, annotations: Value| {
            json!({"metadata": {
                "uid": "u", "resourceVersion": "7", "ownerReferences": owners, "annotations": annotations,
            }})
        };
        let merge = Some(MergePatch);
        let here = owned(json!([{"uid": "heir"}]), json!({"n": "1"}));
        let request = Request::HandOver(here.clone());
        check(&request, &Method::PATCH, base, merge, &here.to_string());
        // In another cluster the owners are in the annotation.
        let elsewhere = owned(
            json!([{"uid": "pod"}, {"uid": "heir", "namespace": "shop"}]),
            json!({"n": "1"}),
        );
        let annotation =
            r#"[{"apiVersion":"","kind":"","name":"","namespace":"shop","uid":"heir"}]"#;
        let sent = owned(
            json!([{"uid": "pod"}]),
            json!({"n": "1", ANNOTATION_OWNERS: annotation}),
        );
        let request = Request::HandOver(elsewhere);
        check(&request, &Method::PATCH, base, merge, &sent.to_string());
        check(
            &Request::Delete(live.clone()),
            &Method::DELETE,
            "",
            Some(MediaType::Json),
            r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u"}}"#,
        );
        check(
            &Request::DeleteForRecreation(live),
            &Method::DELETE,
            "",
            Some(MediaType::Json),
            concat!(
                r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"7","uid":"u"},"#,
                r#""propagationPolicy":"Foreground"}"#
            ),
        );
    }

    #[test]
    fn an_apply_without_preconditions_is_not_sent() {
        for metadata in [
            json!({}),
            json!({"uid": "u"}),
            json!({"resourceVersion": "7"}),
            json!({"uid": "u", "resourceVersion": ""}),
            json!({"uid": "u", "resourceVersion": "0"}),
            json!({"uid": "", "resourceVersion": "7"}),
        ] {
            let body = json!({"metadata": metadata});
            assert!(matches!(bound(&body), Err(Answer::Failed(_))), "{body}");
        }
    }
}
