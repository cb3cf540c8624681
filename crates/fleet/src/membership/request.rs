//! The request of `baton cluster join`.

use std::collections::BTreeSet;

use baton_apis::ClusterConnection;
use baton_terminal::kubeconfig::ConnectionArgs;

use super::{
    args::{AdmissionArgs, AgentManifestArgs, JoinArgs, RightsMode},
    error::Error,
    file,
    spec::ClusterFields,
};
use crate::name::ClusterName;

/// The file of clusters without a flag.
const FILE: &str = "clusters.yaml";

/// A cluster to join.
pub(super) struct Request {
    pub name: ClusterName,
    /// Kubeconfig and context of the cluster.
    pub target: ConnectionArgs,
    pub fields: ClusterFields,
}

/// Settings for all clusters of a run.
pub(super) struct Settings {
    /// Namespace of the clusters' Secrets.
    pub namespace: String,
    pub agent: AgentManifestArgs,
    /// The namespaces that may deliver, if they were given.
    pub admitted: Option<Admitted>,
    /// The rights in the target, if they were given.
    pub rights: Option<RightsMode>,
    pub apply: bool,
    pub goal: Goal,
    pub dry_run: bool,
    pub allow_same: bool,
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The cluster is joined.
    Member,
    /// The token of the account is revoked, and the cluster has another one.
    NewToken,
}

/// The namespaces of the hub that may deliver into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    All,
    Names(Vec<String>),
}

impl Admitted {
    /// The given namespaces; `None` if no flag was given.
    fn of(args: &AdmissionArgs) -> Option<Self> {
        if args.for_all {
            return Some(Self::All);
        }
        let names = args.for_namespaces.iter();
        let names: BTreeSet<String> = names.map(|name| name.as_str().to_owned()).collect();
        (!names.is_empty()).then(|| Self::Names(names.into_iter().collect()))
    }
}

/// The clusters to join, and the settings for all of them.
pub(super) fn requests(args: JoinArgs) -> Result<(Vec<Request>, Settings), Error> {
    let JoinArgs {
        name,
        file,
        region,
        capability,
        server,
        pull,
        apply,
        agent,
        admission,
        rights,
        service_account: _, // It has one value.
        dry_run,
        hub,
        target,
    } = args;
    let connection = target.connection;
    let requests = match name {
        None => {
            let path = file.unwrap_or_else(|| FILE.into());
            let listed = file::read(&path)?.into_iter().map(|listed| Request {
                name: listed.name,
                target: ConnectionArgs {
                    context: Some(listed.context),
                    ..connection.clone()
                },
                fields: listed.fields,
            });
            listed.collect()
        }
        Some(name) => vec![Request {
            name,
            target: connection,
            fields: ClusterFields {
                connection: if pull {
                    ClusterConnection::Pull
                } else {
                    ClusterConnection::Push
                },
                region,
                api_master: server.map(|server| server.to_string()),
                capabilities: Some(capability).filter(|all| !all.is_empty()),
                scheduler: None,
            },
        }],
    };
    let mut pulled = requests
        .iter()
        .filter(|request| request.fields.connection == ClusterConnection::Pull);
    match pulled.next() {
        None if apply || agent.is_given() => {
            return Err(Error::Usage(
                "--apply, --hub-server, --agent-image and --state-volume are for an agent, and need --pull".to_owned(),
            ));
        }
        Some(first) if requests.len() > 1 && !apply && !dry_run => {
            return Err(Error::Usage(format!(
                "{} is a Pull cluster, and the manifests of several clusters are not printed into one stream; pass \
                 --apply, or join it alone",
                first.name
            )));
        }
        _ => {}
    }
    let settings = Settings {
        namespace: hub.namespace.as_str().to_owned(),
        agent,
        admitted: Admitted::of(&admission),
        rights,
        apply,
        goal: Goal::Member,
        dry_run,
        allow_same: target.allow_same,
    };
    Ok((requests, settings))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::membership::args::{ClusterArgs, ClusterCommand};

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: ClusterArgs,
    }

    fn parse(flags: &[&str]) -> Result<(Vec<Request>, Settings), String> {
        let args = ["cluster", "join"].iter().chain(flags);
        let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
        match cli.args.command {
            ClusterCommand::Join(args) => requests(*args).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_that_are_not_given_set_nothing() {
        let (requests, settings) = parse(&["eu-1"]).unwrap();
        assert_eq!(requests[0].fields, ClusterFields::default());
        assert_eq!(settings.namespace, "baton-system");
        let flags = [
            "eu-1",
            "--region=eu",
            "--capability=gpu",
            "--capability=ssd",
            "--server=https://a:6443/",
            "-n=shipper-system",
        ];
        let (requests, settings) = parse(&flags).unwrap();
        assert_eq!(
            requests[0].fields,
            ClusterFields {
                connection: ClusterConnection::Push,
                region: Some("eu".to_owned()),
                api_master: Some("https://a:6443".to_owned()),
                capabilities: Some(vec!["gpu".to_owned(), "ssd".to_owned()]),
                scheduler: None,
            }
        );
        assert_eq!(settings.namespace, "shipper-system");
    }

    #[test]
    fn the_admitted_namespaces_are_given_by_names_or_for_all() {
        let admitted = |flags: &[&str]| parse(flags).unwrap().1.admitted;
        assert_eq!(admitted(&["eu-1"]), None);
        assert_eq!(admitted(&["eu-1", "--for-all"]), Some(Admitted::All));
        let names = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string);
            Some(Admitted::Names(names.collect()))
        };
        assert_eq!(
            admitted(&["eu-1", "--for-namespaces=shop,bar", "--for-namespaces=shop"]),
            names(&["bar", "shop"])
        );
        for (flags, expected) in [
            (
                &["a", "--for-all", "--for-namespaces=b"][..],
                "cannot be used with",
            ),
            (&["a", "--for-namespaces=B"], "invalid value"),
            (&["a", "--for-namespaces="], "invalid value"),
        ] {
            let error = parse(flags).err().unwrap();
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
    }

    #[test]
    fn rights_in_the_target_are_given_by_their_mode() {
        let rights = |flags: &[&str]| parse(flags).map(|(_, settings)| settings.rights);
        assert_eq!(rights(&["eu-1"]), Ok(None));
        for (flag, expected) in [
            ("--rights=trusted", RightsMode::Trusted),
            ("--rights=tenants", RightsMode::Tenants),
        ] {
            assert_eq!(rights(&["eu-1", flag]), Ok(Some(expected)));
            assert_eq!(rights(&["eu-1", "--pull", flag]), Ok(Some(expected)));
        }
        let error = rights(&["eu-1", "--rights=all"]).unwrap_err();
        assert!(error.contains("invalid value"), "{error}");
    }

    #[test]
    fn contexts_of_a_file_belong_to_the_kubeconfig_of_the_flag() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "applicationClusters: [{name: a, region: eu}, {name: b, context: x, region: eu}]";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let (requests, _) = parse(&["-f", path, "--kubeconfig=k"]).unwrap();
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
    fn conflicting_flags_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "applicationClusters: [{name: a, region: eu}, {name: b, region: eu, connection: Pull}]";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        for (flags, expected) in [
            (&[][..], "clusters.yaml"),
            (&["--region=eu"], "required arguments were not provided"),
            (&["a", "-f", path], "cannot be used with"),
            (&["-f", path, "--region=eu"], "cannot be used with"),
            (&["-f", path, "--pull"], "cannot be used with"),
            (
                &["a", "--pull", "--server=https://a"],
                "cannot be used with",
            ),
            (&["-f", path], "b is a Pull cluster"),
            (&["a", "--apply"], "are for an agent"),
            (&["a", "--hub-server=https://hub"], "are for an agent"),
            (&["a", "--agent-image=b"], "are for an agent"),
            (&["a", "--state-volume=claim"], "are for an agent"),
            (&["a", "--pull", "--state-volume=x"], "invalid value"),
            (
                &["a", "--pull", "--hub-server=x"],
                "is not the URL of an API server",
            ),
            (&["a", "--server=x"], "is not the URL of an API server"),
            (&["A"], "cannot be the name of a cluster"),
            (
                &[
                    "a",
                    "--application-cluster-service-account=shipper-app-cluster",
                ],
                "[possible values: baton-hub]",
            ),
        ] {
            let error = parse(flags).err().unwrap();
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
        assert!(parse(&["-f", path, "--apply"]).is_ok());
        assert!(parse(&["-f", path, "--dry-run"]).is_ok());
        let agent = ["--hub-server=https://hub", "--state-volume=empty-dir"];
        let (requests, settings) =
            parse(&[&["a", "--pull", "--apply"], &agent[..]].concat()).unwrap();
        assert_eq!(requests[0].fields.connection, ClusterConnection::Pull);
        assert!(settings.apply && settings.agent.is_given());
    }
}
