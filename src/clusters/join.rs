//! `baton cluster join`.

mod pull;
mod push;

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    error::{Error, Side},
    file,
    manifest::{Manifest, secret_value, text},
    manifests::{
        ANNOTATION_CLUSTER, Credentials, HUB, NAMESPACE, agent::AGENT, cluster, service_account,
    },
    name::ClusterName,
    progress::{Progress, Step, say, task},
    server::{Address, Server},
    spec::{Connection, Given},
};
use crate::cli::{
    ConnectionArgs,
    cluster::{AgentManifestArgs, JoinArgs},
};

/// A cluster to join.
struct Request {
    name: ClusterName,
    /// Which kubeconfig and context lead to it.
    target: ConnectionArgs,
    given: Given,
}

/// What applies to all clusters of a run.
struct Settings {
    /// Namespace of the clusters' Secrets.
    namespace: String,
    agent: AgentManifestArgs,
    apply: bool,
    dry_run: bool,
    allow_same: bool,
}

/// Joins a cluster, or those of a file.
///
/// # Errors
/// One line, with what is there and what is not. A file's clusters are all tried.
pub(super) async fn run(args: JoinArgs) -> Result<(), Error> {
    let hub = args.hub.connection();
    let is_file = args.file.is_some();
    let (requests, settings) = requests(args)?;
    let hub = Server::connect(Side::Hub, &hub).await?;
    let total = requests.len();
    let mut failed = 0;
    for request in requests {
        let name = request.name.clone();
        let joined = match request.given.connection {
            Connection::Push => push::join(&hub, request, &settings).await,
            Connection::Pull => pull::join(&hub, request, &settings).await,
        };
        match joined {
            Err(error) if is_file => {
                say(&format!("baton: {name}: {error}"));
                failed += 1;
            }
            joined => joined?,
        }
    }
    if failed > 0 {
        return Err(Error::Some { failed, total });
    }
    Ok(())
}

/// What was asked for.
fn requests(args: JoinArgs) -> Result<(Vec<Request>, Settings), Error> {
    let JoinArgs {
        name,
        file,
        region,
        capability,
        server,
        pull,
        apply,
        agent,
        dry_run,
        hub,
        target,
    } = args;
    let connection = target.connection;
    let requests = match (file, name) {
        (Some(path), _) => {
            let listed = file::read(&path)?.into_iter().map(|listed| Request {
                name: listed.name,
                target: ConnectionArgs {
                    context: Some(listed.context),
                    ..connection.clone()
                },
                given: listed.given,
            });
            listed.collect()
        }
        (None, Some(name)) => vec![Request {
            name,
            target: connection,
            given: Given {
                connection: if pull {
                    Connection::Pull
                } else {
                    Connection::Push
                },
                region,
                api_master: server.map(|server| server.to_string()),
                capabilities: Some(capability).filter(|all| !all.is_empty()),
                scheduler: None,
            },
        }],
        (None, None) => return Err(Error::Usage("name a cluster, or a --file".to_owned())),
    };
    let mut pulled = requests
        .iter()
        .filter(|request| request.given.connection == Connection::Pull);
    match pulled.next() {
        None if apply || agent.is_given() => {
            return Err(Error::Usage(
                "--apply, --hub-server, --agent-image and --state-volume are about an agent, which there is with --pull only".to_owned(),
            ));
        }
        Some(first) if requests.len() > 1 && !apply && !dry_run => {
            return Err(Error::Usage(format!(
                "{} is a Pull cluster, and the manifests of several clusters are not printed into one stream; say --apply, or join it alone",
                first.name
            )));
        }
        _ => {}
    }
    let settings = Settings {
        namespace: hub.namespace.as_str().to_owned(),
        agent,
        apply,
        dry_run,
        allow_same: target.allow_same,
    };
    Ok((requests, settings))
}

/// Makes sure that two clusters are two.
pub(super) async fn apart(hub: &Server, target: &Server, allow_same: bool) -> Result<(), Error> {
    if !allow_same && hub.uid().await? == target.uid().await? {
        return Err(Error::Same {
            hub: hub.url().to_owned(),
            target: target.url().to_owned(),
        });
    }
    Ok(())
}

/// Makes sure that a target is not that of another Cluster, by the service accounts that joining makes there: a cluster
/// with two names would have two writers.
pub(super) async fn is_free(target: &Server, name: &ClusterName) -> Result<(), Error> {
    let accounts = [HUB, AGENT].map(|account| service_account(NAMESPACE, account, name));
    let found = try_join_all(accounts.iter().map(|account| target.get(account))).await?;
    match found.iter().flatten().find_map(joined_as) {
        Some(found) if found != name.as_str() => Err(Error::JoinedAsAnother {
            url: target.url().to_owned(),
            found: found.to_owned(),
            wanted: name.to_string(),
        }),
        _ => Ok(()),
    }
}

/// The Cluster that a service account was made for.
fn joined_as(account: &Value) -> Option<&str> {
    let annotations = account.pointer("/metadata/annotations")?;
    annotations.get(ANNOTATION_CLUSTER)?.as_str()
}

/// Reads the Cluster, whose connection has to be that which was asked for.
async fn read_cluster(
    hub: &Server,
    name: &ClusterName,
    wanted: Connection,
) -> Result<Option<Value>, Error> {
    let found = hub.get(&cluster(name, &json!({}))).await?;
    match found.as_ref().map(Connection::of) {
        Some(found) if found != wanted => Err(Error::OtherConnection {
            name: name.to_string(),
            found: found.to_string(),
        }),
        _ => Ok(found),
    }
}

/// The account that the other side connects with: its Secret, and what opens the cluster if there is a token already.
struct Entrance<'a> {
    /// Where the account is.
    server: &'a Server,
    /// Its Secret.
    secret: Manifest,
    /// Where the other side connects to.
    address: Address,
    /// What opens it there.
    credentials: Option<Credentials>,
}

impl<'a> Entrance<'a> {
    /// Looks whether there is a token already, and whether it opens that address.
    async fn look(
        server: &'a Server,
        account: Option<&Value>,
        step: &Step,
        address: Address,
    ) -> Result<Self, Error> {
        let token = step
            .live
            .as_ref()
            .filter(|live| secret_value(live, "token").is_some());
        if token.is_some_and(|token| is_stale(token, account)) {
            return Err(Error::Terminating {
                side: server.side(),
                object: step.manifest.title(),
            });
        }
        let mut entrance = Self {
            server,
            secret: step.manifest.clone(),
            address,
            credentials: None,
        };
        if let Some(secret) = token {
            entrance.open(secret).await?;
        }
        Ok(entrance)
    }

    /// What is to be compared with what is there, before there is a token.
    fn expected(&self) -> Credentials {
        self.credentials.clone().unwrap_or_else(|| Credentials {
            token: String::new(),
            ca: None,
        })
    }

    /// What opens the cluster; waits for the token if there was none.
    async fn credentials(&mut self) -> Result<Credentials, Error> {
        if let Some(credentials) = &self.credentials {
            return Ok(credentials.clone());
        }
        let doing = format!("Waiting for the token in {}", self.secret.title());
        let secret = task(&doing, self.server.token(&self.secret)).await?;
        self.open(&secret).await
    }

    async fn open(&mut self, secret: &Value) -> Result<Credentials, Error> {
        let (credentials, doubt) = self.server.credentials(secret, &self.address).await?;
        if let Some(doubt) = doubt {
            say(&format!(
                "Note: {} could not be tried out from here: {doubt}",
                self.address.url
            ));
        }
        self.credentials = Some(credentials.clone());
        Ok(credentials)
    }
}

/// Whether a token is that of an account which is no longer there. The token controller is about to delete it.
fn is_stale(token: &Value, account: Option<&Value>) -> bool {
    let annotations = &token["metadata"]["annotations"];
    let made_for = annotations["kubernetes.io/service-account.uid"].as_str();
    made_for != Some(account.map_or("", uid))
}

/// Ends what is told about a cluster.
fn finish(progress: &Progress, name: &ClusterName, address: &Address, reader: &str) {
    if !progress.has_changed_something() {
        say(&format!(
            "Cluster {name} was joined already; nothing was changed"
        ));
        return;
    }
    say(&format!("Finished joining cluster {name}"));
    if address.is_local() {
        say(&format!(
            "Note: {} is this machine; where {reader} runs elsewhere, give the address that it reaches with --{}",
            address.url, address.flag
        ));
    }
}

/// The service account among these steps, as it is.
fn live_account(steps: &[Step]) -> Option<&Value> {
    let mut steps = steps.iter();
    let step = steps.find(|step| step.manifest.kind() == "ServiceAccount");
    step.and_then(|step| step.live.as_ref())
}

/// The uid of an object.
fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, cluster::ClusterCommand};

    fn asked(flags: &[&str]) -> Result<(Vec<Request>, Settings), String> {
        let words = ["baton", "cluster", "join"].iter().chain(flags);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Cluster(args) = cli.command else {
            panic!("{cli:?}");
        };
        match args.command {
            ClusterCommand::Join(args) => requests(*args).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_is_not_asked_for() {
        let (requests, settings) = asked(&["eu-1"]).unwrap();
        assert_eq!(requests[0].given, Given::default());
        assert_eq!(settings.namespace, "baton-system");
        let flags = [
            "eu-1",
            "--region=eu",
            "--capability=gpu",
            "--capability=ssd",
            "--server=https://a:6443/",
            "-n=shipper-system",
        ];
        let (requests, settings) = asked(&flags).unwrap();
        assert_eq!(
            requests[0].given,
            Given {
                connection: Connection::Push,
                region: Some("eu".to_owned()),
                api_master: Some("https://a:6443".to_owned()),
                capabilities: Some(vec!["gpu".to_owned(), "ssd".to_owned()]),
                scheduler: None,
            }
        );
        assert_eq!(settings.namespace, "shipper-system");
    }

    #[test]
    fn a_token_is_that_of_its_account() {
        let account = json!({ "metadata": { "uid": "1" } });
        let token = |uid: &str| json!({ "metadata": { "annotations": { "kubernetes.io/service-account.uid": uid } } });
        assert!(!is_stale(&token("1"), Some(&account)));
        assert!(is_stale(&token("2"), Some(&account)));
        assert!(is_stale(&token("1"), None));
    }

    #[test]
    fn contexts_of_a_file_are_looked_for_in_the_kubeconfig_that_was_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "applicationClusters: [{name: a, region: eu}, {name: b, context: x, region: eu}]";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let (requests, _) = asked(&["-f", path, "--kubeconfig=k"]).unwrap();
        let targets: Vec<_> = requests
            .iter()
            .map(|request| {
                let ConnectionArgs {
                    kubeconfig,
                    context,
                } = &request.target;
                (
                    kubeconfig.as_deref().unwrap().to_str().unwrap(),
                    context.as_deref().unwrap(),
                )
            })
            .collect();
        assert_eq!(targets, [("k", "a"), ("k", "x")]);
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "applicationClusters: [{name: a, region: eu}, {name: b, region: eu, connection: Pull}]";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        for (flags, expected) in [
            (&[][..], "required arguments were not provided"),
            (&["a", "-f", path], "cannot be used with"),
            (&["-f", path, "--region=eu"], "cannot be used with"),
            (&["-f", path, "--pull"], "cannot be used with"),
            (
                &["a", "--pull", "--server=https://a"],
                "cannot be used with",
            ),
            (&["-f", path], "b is a Pull cluster"),
            (&["a", "--apply"], "are about an agent"),
            (&["a", "--hub-server=https://hub"], "are about an agent"),
            (&["a", "--agent-image=b"], "are about an agent"),
            (&["a", "--state-volume=claim"], "are about an agent"),
            (&["a", "--pull", "--state-volume=x"], "invalid value"),
            (
                &["a", "--pull", "--hub-server=x"],
                "is not the URL of an API server",
            ),
            (&["a", "--server=x"], "is not the URL of an API server"),
            (&["A"], "cannot be the name of a cluster"),
        ] {
            let error = asked(flags).err().unwrap();
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
        assert!(asked(&["-f", path, "--apply"]).is_ok());
        assert!(asked(&["-f", path, "--dry-run"]).is_ok());
        let agent = ["--hub-server=https://hub", "--state-volume=empty-dir"];
        let (requests, settings) =
            asked(&[&["a", "--pull", "--apply"], &agent[..]].concat()).unwrap();
        assert_eq!(requests[0].given.connection, Connection::Pull);
        assert!(settings.apply && settings.agent.is_given());
    }
}
