//! The command line of `adopt`.

use std::time::Duration;

use baton_text::output::format::DocumentFormat;
use clap::Args;

use crate::{
    args::{namespace, timeout},
    error::Error,
    pack::{name_problem, probes::ProbeFlag},
    selection::labels,
    subject::object_name,
};

const EXAMPLES: &str = "\
Examples:
  # Show the objects of the Helm release shop as the ObjectDeployment shop
  kubectl baton adopt shop --helm shop -n shop

  # Take it over, and wait until the first revision is rolled out
  kubectl baton adopt shop --helm shop -n shop --apply

  # Objects by name or by labels, from any source
  kubectl baton adopt shop deployment/web service/web configmap/settings
  kubectl baton adopt shop -l app.kubernetes.io/instance=shop

  # An app of kapp, an Application of Argo CD, a Kustomization of Flux
  kubectl baton adopt shop --kapp shop -n kapp-apps
  kubectl baton adopt shop --argocd argocd/shop
  kubectl baton adopt shop --flux flux-system/shop

  # The deployment as YAML, to be kept in a repository and applied by other means
  kubectl baton adopt shop --helm shop -o yaml > shop.yaml

  # Take objects in other clusters over from a hub that was lost
  kubectl baton adopt sitedeploy/shop --from-hub 3f0c5a1e-4a52-4b5c-9a6e-2d8f0f5b7c11 --apply

  # Give everything back to the tool that had it
  kubectl baton adopt shop --undo --apply

Content:
The content of an object is the content that the tool wants: the manifest of the release, the configuration that \
kubectl or kapp applied last, or else the fields that the tool owns. The values are those of the cluster, so that \
the take-over changes nothing; a note lists values that differ from the record. Objects that a controller \
creates are left out.

The record of the tool is kept (the Secrets of Helm, the annotations of kubectl), so that --undo can give everything \
back. Do not let the tool write before that: it would take the fields back, and the revision would set them again.";

/// Arguments that do not apply to giving objects back.
const FOR_ADOPTION: [&str; 18] = [
    "objects",
    "helm",
    "kapp",
    "argocd",
    "flux",
    "selector",
    "kinds",
    "skip_missing",
    "no_secrets",
    "allow_restart",
    "recorded",
    "phase_order",
    "field_manager",
    "probe",
    "no_probes",
    "service_account",
    "change_cause",
    "no_wait",
];

/// Make a first revision of existing objects
///
/// Finds the objects in the records of Helm, kapp, Argo CD or Flux, by name or by labels, and makes
/// a deployment with the same content, as `kubectl baton pack` does: phases, probes, slices. Shows
/// the effect of taking the objects over, which only changes their owners; --apply does it. No pod
/// is replaced.
///
/// Exit code 0: nothing is refused, or the revision is rolled out. 1: it is not rolled out in time.
/// 2: an error. 3: something would be refused, or replace pods.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AdoptArgs {
    /// Name of the deployment to make, or to undo; with --from-hub: od/NAME, cod/NAME,
    /// sitedeploy/NAME, app/NAME, or NAME
    #[arg(value_name = "NAME")]
    pub(super) name: String,

    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) choice: ChoiceArgs,
    #[command(flatten)]
    pub(super) result: ResultArgs,

    /// Print the deployment in this format, instead of its effect
    #[arg(long, short, value_name = "FORMAT", conflicts_with_all = ["apply", "undo"])]
    pub(super) output: Option<DocumentFormat>,

    /// Create the deployment, or do what --undo shows
    #[arg(long)]
    pub(super) apply: bool,

    /// Show how to delete the deployment and its revisions without their objects, and give the
    /// fields back to the tool that had them; with --apply, do it
    #[arg(long, conflicts_with_all = FOR_ADOPTION)]
    pub(super) undo: bool,

    /// Show the objects in other clusters that an existing deployment cannot take over because they
    /// belong to the hub with this UID, which does not exist any more; with --apply, permit it.
    /// Objects of earlier versions of Baton name no hub: use the UIDs of their owners
    #[arg(long, value_name = "UID", value_delimiter = ',', value_parser = uid,
        conflicts_with_all = FOR_ADOPTION, conflicts_with = "undo")]
    pub(super) from_hub: Vec<String>,

    /// Do not wait until the revision is rolled out
    #[arg(long, requires = "apply", conflicts_with = "timeout")]
    pub(super) no_wait: bool,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    pub(super) timeout: Duration,
}

/// The sources of objects. Several sources are combined.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Objects")]
pub(super) struct SourceArgs {
    /// Objects by name, such as deployment/web
    #[arg(value_name = "KIND/NAME", required_unless_present_any =
        ["helm", "kapp", "argocd", "flux", "selector", "undo", "from_hub"])]
    pub(super) objects: Vec<String>,

    /// The objects of a Helm release in the namespace
    #[arg(long, value_name = "RELEASE", value_parser = object_name)]
    pub(super) helm: Option<String>,

    /// The objects of an app of kapp whose record is in the namespace
    #[arg(long, value_name = "APP", value_parser = object_name)]
    pub(super) kapp: Option<String>,

    /// The objects of an Application of Argo CD. Default namespace: argocd
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = placed_name)]
    pub(super) argocd: Option<NameArg>,

    /// The objects of a Kustomization of Flux. Default namespace: flux-system
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = placed_name)]
    pub(super) flux: Option<NameArg>,

    /// The objects of the namespace with these labels, except those that controllers make
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = selector)]
    pub(super) selector: Option<String>,

    /// Only search these kinds with --selector
    #[arg(
        long,
        value_name = "KIND",
        value_delimiter = ',',
        requires = "selector"
    )]
    pub(super) kinds: Vec<String>,
}

/// The treatment of the objects.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ChoiceArgs {
    /// Leave out objects of a record that do not exist in the cluster
    #[arg(long)]
    pub(super) skip_missing: bool,

    /// Leave out Secrets, as the revision would contain their values in clear text
    #[arg(long)]
    pub(super) no_secrets: bool,

    /// Take objects over even if that replaces pods
    #[arg(long)]
    pub(super) allow_restart: bool,
}

/// The deployment to make.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Result")]
pub(super) struct ResultArgs {
    /// Use the values of the tool's record where those of the cluster differ
    #[arg(long)]
    pub(super) recorded: bool,

    /// Make a ClusterObjectDeployment, even if all objects are in one namespace; with --undo, undo
    /// one
    #[arg(long)]
    pub(super) cluster: bool,

    /// Order of phases, as for `kubectl baton pack`
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    pub(super) phase_order: Vec<String>,

    /// Field manager whose fields the revision takes over, in addition to those of the well-known
    /// tools
    #[arg(long, value_name = "NAME")]
    pub(super) field_manager: Vec<String>,

    /// Probe for the objects of a kind, as for `kubectl baton pack`
    #[arg(long, value_name = "KIND.GROUP=PROBE")]
    pub(super) probe: Vec<ProbeFlag>,

    /// Do not add probes for the well-known kinds
    #[arg(long)]
    pub(super) no_probes: bool,

    /// Service account that writes the objects, with its rights
    #[arg(long, value_name = "NAME", value_parser = object_name, conflicts_with = "cluster")]
    pub(super) service_account: Option<String>,

    /// Reason of the change, for `kubectl baton history`. Default: the source of the objects
    #[arg(long, value_name = "TEXT")]
    pub(super) change_cause: Option<String>,
}

/// A name, with its namespace if it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameArg {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

fn placed_name(text: &str) -> Result<NameArg, String> {
    let (prefix, name) = match text.split_once('/') {
        Some((part, name)) => (Some(part), name),
        None => (None, text),
    };
    if prefix == Some("") {
        return Err("the namespace is empty".to_owned());
    }
    Ok(NameArg {
        namespace: prefix.map(namespace).transpose()?,
        name: object_name(name).map_err(|error| error.to_string())?,
    })
}

/// Checks a selector in the syntax of the API, which is that of kubectl.
fn selector(text: &str) -> Result<String, String> {
    labels::parse(text).map(|_| text.to_owned())
}

impl AdoptArgs {
    /// Refuses a name that no deployment can have.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn check_name(&self) -> Result<(), Error> {
        let refusal = |problem| Error::Usage(format!("{}: {problem}", self.name));
        name_problem(&self.name).map_or(Ok(()), |problem| Err(refusal(problem)))
    }
}

/// Checks that a value can be an entry of the annotation.
fn uid(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if text.is_empty() || !text.chars().all(fits) {
        return Err("not a UID".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of this command alone.
    #[derive(Debug, clap::Parser)]
    struct TestArgs {
        #[command(flatten)]
        args: AdoptArgs,
    }

    fn parsed(line: &str) -> Result<AdoptArgs, clap::error::ErrorKind> {
        let words = line.split(' ').map(|word| word.trim_matches('\''));
        let line = <TestArgs as clap::Parser>::try_parse_from(["adopt"].into_iter().chain(words));
        line.map(|line| line.args).map_err(|error| error.kind())
    }

    #[test]
    fn selectors_are_checked_before_any_request() {
        use clap::error::ErrorKind::ValueValidation;
        let args = parsed("shop -l team=shop,tier!=db").unwrap();
        assert_eq!(args.source.selector.as_deref(), Some("team=shop,tier!=db"));
        for wrong in ["''", "team=shop,", "a=b=c", "!"] {
            assert_eq!(
                parsed(&format!("shop -l {wrong}")).unwrap_err(),
                ValueValidation,
                "{wrong}"
            );
        }
    }

    #[test]
    fn flags_of_an_adoption_are_refused_with_undo() {
        assert!(
            parsed("shop --undo --apply --cluster --timeout 1m")
                .unwrap()
                .undo
        );
        for flag in [
            "cm/a",
            "--helm shop",
            "-l a=b --kinds cm",
            "--recorded",
            "--no-probes",
            "--skip-missing",
            "--service-account shop",
            "--apply --no-wait",
        ] {
            let refused = parsed(&format!("shop --undo {flag}")).unwrap_err();
            assert_eq!(refused, clap::error::ErrorKind::ArgumentConflict, "{flag}");
        }
    }

    #[test]
    fn a_lost_hub_is_named_by_its_uid() {
        let args = parsed("sitedeploy/shop --from-hub a-1,b --from-hub c --apply").unwrap();
        assert_eq!(args.from_hub, ["a-1", "b", "c"]);
        for wrong in [
            "--from-hub",
            "--from-hub a/b",
            "--from-hub a --undo",
            "cm/a --from-hub a",
        ] {
            parsed(&format!("shop {wrong}")).unwrap_err();
        }
        parsed("shop --undo").unwrap().check_name().unwrap();
        parsed("od/shop --undo").unwrap().check_name().unwrap_err();
    }

    #[test]
    fn names_may_have_a_namespace() {
        let placed = |namespace: Option<&str>| NameArg {
            namespace: namespace.map(str::to_owned),
            name: "shop".to_owned(),
        };
        assert_eq!(placed_name("shop"), Ok(placed(None)));
        assert_eq!(placed_name("argocd/shop"), Ok(placed(Some("argocd"))));
        for text in ["", "/shop", "argocd/", "a/b/c", "A/b", "a/b?c"] {
            placed_name(text).unwrap_err();
        }
    }
}
