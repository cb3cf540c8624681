//! One of the two clusters: the few requests that joining and removing are made of.

use std::{io::ErrorKind, net::IpAddr, time::Duration};

use futures::future::join_all;
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authorization::v1::SelfSubjectAccessReview,
    core::v1::{Namespace, Secret},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::Status,
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    error::{Error, Side, innermost, is_io, one_line},
    manifest::{FIELD_MANAGER, Manifest, secret_value, text},
    manifests::Credentials,
    rights::Right,
    url::ServerUrl,
};
use crate::cli::{ConnectionArgs, kubeconfig::load_client_config};

/// A server that does not even accept a connection for so long is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that says nothing for so long will not answer any more.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the token controller may take. It takes milliseconds where it runs.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a server may take to know the token that it has made.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// The pause before a token is tried out again.
const PAUSE: Duration = Duration::from_millis(250);

/// A cluster that a kubeconfig leads to.
pub(super) struct Server {
    side: Side,
    client: Client,
    url: String,
    /// The authorities that the kubeconfig checks the server against, as PEM.
    ca: Option<String>,
}

impl Server {
    /// Connects, and has the server answer a first request.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, no answer, or refused credentials.
    pub async fn connect(side: Side, args: &ConnectionArgs) -> Result<Self, Error> {
        let config = load_client_config(args).await;
        let mut config = config.map_err(|cause| Error::Config {
            side,
            cause: Box::new(cause),
        })?;
        limit(&mut config);
        let url = url_of(&config.cluster_url);
        let ca = config.root_cert.as_deref().map(pem_of);
        let client = Client::try_from(config).map_err(|cause| Error::Client {
            side,
            url: url.clone(),
            cause: Box::new(cause),
        })?;
        let server = Self {
            side,
            client,
            url,
            ca,
        };
        let version = server.client.apiserver_version().await;
        version.map_err(|error| server.failure(error))?;
        Ok(server)
    }

    /// Which of the two it is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// URL of the API server, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What tells one cluster from another, by whichever address it is reached.
    pub async fn uid(&self) -> Result<String, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let system = namespaces.get("kube-system").await;
        let system = system.map_err(|error| self.failure(error))?;
        Ok(system.metadata.uid.unwrap_or_default())
    }

    /// Reads the object that has the identity of a manifest; `None` when there is none.
    ///
    /// # Errors
    /// No answer, refused, or its kind is not served.
    pub async fn get(&self, manifest: &Manifest) -> Result<Option<Value>, Error> {
        match self.api(manifest).get(manifest.name()).await {
            Ok(object) => Ok(Some(json_of(&object))),
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(None),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Applies a manifest, and returns what the server has then.
    ///
    /// # Errors
    /// No answer, or refused.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Value, Error> {
        let params = PatchParams::apply(FIELD_MANAGER)
            .force()
            .validation_strict();
        let patch = Patch::Apply(&manifest.0);
        let api = self.api(manifest);
        let applied = api.patch(manifest.name(), &params, &patch).await;
        let applied = applied.map_err(|error| self.failure(error))?;
        Ok(json_of(&applied))
    }

    /// Deletes the object that was read as `live`. Returns whether there was one.
    ///
    /// # Errors
    /// No answer, or refused; also when there is another one of that name by now.
    pub async fn delete(&self, manifest: &Manifest, live: &Value) -> Result<bool, Error> {
        let uid = text(live, "/metadata/uid").to_owned();
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid),
            resource_version: None,
        });
        match self.api(manifest).delete(manifest.name(), &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(false),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Deletes an object that was read without waiting for anybody: its finalizers go first, so that its watchers see
    /// it vanish and never see it being deleted. Returns whether that was possible; if not, somebody has written it
    /// meanwhile.
    ///
    /// # Errors
    /// No answer, or refused.
    pub async fn drop_object(&self, manifest: &Manifest, live: &Value) -> Result<bool, Error> {
        let api = self.api(manifest);
        let uid = text(live, "/metadata/uid");
        let free = json!({ "metadata": { "uid": uid, "finalizers": null } });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let freed = api
            .patch(manifest.name(), &params, &Patch::Merge(free))
            .await;
        let freed = match freed {
            Ok(freed) => freed,
            Err(error) => return self.outrun(error),
        };
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: freed.metadata.resource_version,
        });
        match api.delete(manifest.name(), &params).await {
            Ok(_) => Ok(true),
            Err(error) => self.outrun(error),
        }
    }

    /// What it means that an object could not be dropped: it is gone, another one, or somebody was faster.
    fn outrun(&self, error: kube::Error) -> Result<bool, Error> {
        match error {
            kube::Error::Api(status) if is_absent(&status) => Ok(true),
            kube::Error::Api(status) if status.is_conflict() => Ok(false),
            error => Err(self.failure(error)),
        }
    }

    /// Lists the objects of a manifest's kind that carry a label, in its namespace if it has one, else in all of them.
    ///
    /// # Errors
    /// No answer, refused, or the kind is not served (see [`Server::list_if_served`]).
    pub async fn list(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, Error> {
        let found = self.try_list(like, labels).await;
        found.map_err(|error| self.failure(error))
    }

    /// As [`Server::list`], but there are no objects of a kind that is not served.
    ///
    /// # Errors
    /// No answer, or refused.
    pub async fn list_if_served(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, Error> {
        match self.try_list(like, labels).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            found => found.map_err(|error| self.failure(error)),
        }
    }

    async fn try_list(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, kube::Error> {
        let api = self.api(like);
        let mut params = ListParams::default().limit(500).labels(labels);
        let mut items = Vec::new();
        loop {
            let page = api.list(&params).await?;
            let types = page.types;
            items.extend(page.items.iter().map(|item| {
                let mut item = json_of(item);
                // Servers may leave it out of the items of a list.
                if item.get("kind").is_none() {
                    let kind = types.kind.strip_suffix("List").unwrap_or(&types.kind);
                    item["apiVersion"] = types.api_version.clone().into();
                    item["kind"] = kind.into();
                }
                item
            }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(items),
            }
        }
    }

    /// Those rights that we do not have.
    ///
    /// # Errors
    /// No answer, or refused.
    pub async fn lacking(&self, rights: Vec<Right>) -> Result<Vec<Right>, Error> {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let reviews: Vec<_> = rights.iter().map(Right::review).collect();
        let answers = join_all(reviews.iter().map(|review| api.create(&params, review))).await;
        let mut lacking = Vec::new();
        for (right, answer) in rights.into_iter().zip(answers) {
            let answer = answer.map_err(|error| self.failure(error))?;
            if !answer.status.is_some_and(|status| status.allowed) {
                lacking.push(right);
            }
        }
        lacking.dedup_by(|one, next| one.verb == next.verb && one.object() == next.object());
        Ok(lacking)
    }

    /// Refuses to begin something for which rights are missing.
    ///
    /// # Errors
    /// Names all that are missing.
    pub async fn demand(&self, rights: Vec<Right>) -> Result<(), Error> {
        let missing = self.lacking(rights).await?;
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::Lacking {
            side: self.side,
            url: self.url.clone(),
            missing,
        })
    }

    /// Waits until the token controller has filled a Secret, and returns it.
    ///
    /// # Errors
    /// It does not, no answer, or refused.
    pub async fn token(&self, secret: &Manifest) -> Result<Value, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), secret.namespace());
        let is_filled = |secret: Option<&Secret>| {
            let data = secret.and_then(|secret| secret.data.as_ref());
            let token = data.and_then(|data| data.get("token"));
            token.is_some_and(|token| !token.0.is_empty())
        };
        let filled = await_condition(api, secret.name(), is_filled);
        match tokio::time::timeout(TOKEN_TIMEOUT, filled).await {
            Ok(Ok(found)) => Ok(serde_json::to_value(found).unwrap_or_default()),
            Ok(Err(error)) => Err(Error::Refused {
                side: self.side,
                url: self.url.clone(),
                message: innermost(&error),
            }),
            Err(_elapsed) => Err(Error::NoToken {
                side: self.side,
                url: self.url.clone(),
                secret: format!("{}/{}", secret.namespace(), secret.name()),
                limit: TOKEN_TIMEOUT,
            }),
        }
    }

    /// What opens this cluster at the address `url`, by the token in a Secret, and what is in doubt about it.
    ///
    /// The server there is checked against the authority that the cluster gives to its own pods, else against that of
    /// the kubeconfig, for addresses with a certificate from elsewhere. An address that somebody has given may be one
    /// that only the other cluster reaches, which is a doubt; any other one has just been used.
    ///
    /// # Errors
    /// [`Error::WrongServer`]: it is another cluster that answers there, or nobody.
    pub async fn credentials(
        &self,
        secret: &Value,
        address: &Address,
    ) -> Result<(Credentials, Option<String>), Error> {
        let utf8 = |key| secret_value(secret, key).and_then(|bytes| String::from_utf8(bytes).ok());
        let of_pods = Credentials {
            token: utf8("token").unwrap_or_default(),
            ca: utf8("ca.crt"),
        };
        let mut opened = try_out(&address.url, &of_pods).await;
        // A server checks a token against what its watches have told it.
        while matches!(opened, Err(Closed::Refused(_))) && is_fresh(secret) {
            sleep(PAUSE).await;
            opened = try_out(&address.url, &of_pods).await;
        }
        let Err(closed) = opened else {
            return Ok((of_pods, None));
        };
        let of_kubeconfig = Credentials {
            ca: self.ca.clone(),
            ..of_pods.clone()
        };
        if of_kubeconfig != of_pods && try_out(&address.url, &of_kubeconfig).await.is_ok() {
            return Ok((of_kubeconfig, None));
        }
        match closed {
            Closed::Unreachable(cause) if address.is_given => Ok((of_pods, Some(cause))),
            Closed::Refused(cause) | Closed::Stranger(cause) | Closed::Unreachable(cause) => {
                Err(Error::WrongServer {
                    url: address.url.clone(),
                    made_at: self.url.clone(),
                    flag: address.flag,
                    cause,
                })
            }
        }
    }

    fn api(&self, manifest: &Manifest) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), manifest.resource());
        match manifest.namespace() {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        }
    }

    /// What a failed request means to a person.
    fn failure(&self, error: kube::Error) -> Error {
        let (side, url) = (self.side, self.url.clone());
        match error {
            kube::Error::Api(status) if status.code == 401 => Error::Unauthorized { side, url },
            kube::Error::Api(status)
                if status.code == 404 && side == Side::Hub && !is_absent(&status) =>
            {
                Error::NotInstalled { url }
            }
            kube::Error::Api(status) => Error::Refused {
                side,
                url,
                message: words(&status),
            },
            cause => Error::Unreachable {
                side,
                url,
                cause: Box::new(cause),
            },
        }
    }
}

/// Where the one cluster is to find the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// URL of the API server.
    pub url: String,
    /// Whether somebody gave it, so that it need not be reachable from here.
    pub is_given: bool,
    /// The flag that gives it.
    pub flag: &'static str,
}

impl Address {
    /// Whether only this very machine is reached there.
    pub fn is_local(&self) -> bool {
        let uri: Option<Uri> = self.url.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
        host == "localhost" || ip.is_ok_and(|ip: IpAddr| ip.is_loopback())
    }
}

/// Whether a server may not know an object yet.
fn is_fresh(object: &Value) -> bool {
    let created = object.pointer("/metadata/creationTimestamp");
    let created = created.and_then(Value::as_str).unwrap_or_default();
    created
        .parse::<Timestamp>()
        .is_ok_and(|created| Timestamp::now().duration_since(created) < FRESH)
}

/// Why credentials do not open a server.
enum Closed {
    /// It answers, and does not know them.
    Refused(String),
    /// It shows a certificate that is not to be believed.
    Stranger(String),
    /// Nobody answers.
    Unreachable(String),
}

impl Closed {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        // What a TLS library does not like about the other side.
        if is_io(error, ErrorKind::InvalidData) {
            Self::Stranger(innermost(error))
        } else {
            Self::Unreachable(innermost(error))
        }
    }
}

/// Asks the server at an address with a token. A server that knows it answers; one that does not, with 401.
async fn try_out(url: &str, credentials: &Credentials) -> Result<(), Closed> {
    // The client takes it for granted that there is a host.
    url.parse::<ServerUrl>()
        .map_err(|error| Closed::of(&error))?;
    let address = url.parse::<Uri>().map_err(|error| Closed::of(&error))?;
    let mut config = Config::new(address);
    limit(&mut config);
    config.auth_info.token = Some(credentials.token.clone().into());
    if let Some(ca) = &credentials.ca {
        let certificates = pem::parse_many(ca).map_err(|error| Closed::of(&error))?;
        let contents = certificates.into_iter().map(pem::Pem::into_contents);
        config.root_cert = Some(contents.collect());
    }
    let client = Client::try_from(config).map_err(|error| Closed::of(&error))?;
    match client.apiserver_version().await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(Closed::Refused(words(&status))),
        Err(error) => Err(Closed::of(&error)),
    }
}

/// A person waits for every answer.
fn limit(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // It would go on for minutes without a word.
    config.default_retry = false;
}

fn url_of(uri: &Uri) -> String {
    uri.to_string().trim_end_matches('/').to_owned()
}

fn pem_of(certificates: &[Vec<u8>]) -> String {
    let pems: Vec<pem::Pem> = certificates
        .iter()
        .map(|der| pem::Pem::new("CERTIFICATE", der.clone()))
        .collect();
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&pems, config)
}

/// Whether it is the object that is missing, and not its kind: an unknown path names nothing in its details.
fn is_absent(status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| !details.name.is_empty())
}

/// The server's words; where it has none, as proxies have not, the code.
fn words(status: &Status) -> String {
    if status.message.is_empty() {
        format!("{} {}", status.code, status.reason)
    } else {
        one_line(&status.message)
    }
}

fn json_of(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
