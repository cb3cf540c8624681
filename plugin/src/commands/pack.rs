//! `pack`: makes an `ObjectDeployment`, a revision or a `SiteApplication` of plain manifests, or an
//! Application of a chart.

mod application;
mod output;
mod values;
mod wait;

use std::path::PathBuf;

use baton_apis::CollisionProtection;
use baton_cluster::Cluster;
use baton_steering::diff::{losses::PendingApply, refusals::check_apply};
use baton_terminal::output::{Print as _, report};
use baton_text::output::{
    Output,
    format::{DocumentFormat, without_obeyed},
};
use clap::Args;
use serde_json::Value;

use self::values::{KindScopeArg, Number, protection, site_version, size};
use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    pack::{
        self, Options, PackagedKind,
        build::Package,
        emit,
        input::{self, Input},
        manifest::Collected,
        probes::{self, GroupKind, ProbeFlag},
        scope::{self, Scopes},
        secrets, settings,
        source_location::InputErrors,
    },
    subject::object_name,
};

/// The largest object for client-side `kubectl apply`, which stores the manifest in an annotation
/// as well.
const MOST_CLIENT_SIDE: usize = 262_144;

const EXAMPLES: &str = "\
Examples:
  # A directory of manifests as the ObjectDeployment of the directory's name
  kubectl baton pack shop/ | kubectl apply --server-side -f -

  # The changes, and every object that the cluster would refuse: without --apply, pack contacts no cluster
  kubectl baton pack shop/ | kubectl baton diff -f -

  # The same, sent to the cluster at once; the next time it makes the next revision
  kubectl baton pack shop/ --apply --change-cause 'shop 1.2'

  # In a pipeline: wait until it is rolled out, and go back if it fails
  kubectl baton pack shop/ --apply --wait --timeout 10m --rollback-on-failure

  # The output of Helm, or of a kustomization
  helm template shop ./chart | kubectl baton pack - --name shop -n shop --apply
  kubectl baton pack -k overlays/production --name shop

  # A version for sites, which a SiteDeployment rolls out
  kubectl baton pack shop/ --site --site-version 1.2.0 --apply

  # A revision without a deployment, the next one after web-v1
  kubectl baton pack web.yaml --revision --name web-v2 --previous web-v1

  # Wait for certificates too, before the workloads start
  kubectl baton pack web.yaml --probe Certificate.cert-manager.io=condition:Ready

  # A chart as an Application of Shipper, rolled out in three steps over two clusters of a region
  kubectl baton pack --application --chart nginx --chart-version '~1.2' --repo https://charts.example.com \
    --region eu=2 --strategy vanguard --values values.yaml --name shop -n shop | kubectl apply -f -

  # A phase of your own: objects with the annotation package-operator.run/phase: migrate
  kubectl baton pack shop/ --phase-order config,migrate,workloads

Phases:
Objects are rolled out in phases; the next one starts when all objects of this one pass their probes. \
The annotation package-operator.run/phase names the phase of an object. The others are in the phase of \
their kind, in this order:

  namespaces        Namespaces
  crds              CustomResourceDefinitions
  rbac              ServiceAccounts, Roles and ClusterRoles, their bindings
  config            ConfigMaps, Secrets, volumes, quotas, policies, classes;
                    objects of other kinds, such as certificates
  services          Services
  workloads         Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, Pods
  registrations     webhook configurations and APIServices: the workloads answer
  custom-resources  objects of kinds that the package defines: the workloads act
  scaling           HorizontalPodAutoscalers
  traffic           Ingresses and routes

Phases that only annotations name follow these, in the order of their first object. --phase-order sets \
another order: a phase that it lists directly after another one follows that one at once.

Helm hooks of an installation or upgrade get phases of their own: pre-install before rbac, post-install \
at the end. Other hooks, such as tests, are left out, and a note lists the ignored settings of hooks. Jobs cannot be \
changed: hooks that are Jobs are deleted and created again, as Helm does, and so are other objects with the annotation \
baton.run/update=recreate.

Secrets:
A revision contains its objects in clear text, and is kept in the history: every user who may read revisions can read \
the Secrets in them. With --no-secrets, Secrets that have values are left out, and must be created by other means. \
Pods that need one do not start without it, so the probes of their workload wait for it; a note lists these workloads. \
If an earlier revision contains such a Secret, the Secret is deleted with that revision, unless it has the annotation \
baton.run/deletion=keep: --apply checks this before it writes.

Probes:
Deployments, StatefulSets, DaemonSets and ReplicaSets must be rolled out and available, as far as their \
update strategy allows this. Pods must be ready or have succeeded, Jobs must be complete, CustomResourceDefinitions \
established, APIServices available, and PersistentVolumeClaims bound, unless they wait for the first pod that uses \
them. If an autoscaler of the package scales a workload, the revision does not set the number of its replicas.

Annotations, which are removed from the packed objects:
  package-operator.run/phase                 the phase
  package-operator.run/collision-protection  Prevent, IfNoController or None
  package-operator.run/condition-map         lines such as: Available => example.com/Available
  baton.run/create-only-fields               such as: .spec.replicas,.spec.paused";

/// Turn plain manifests into an ObjectDeployment, or a revision
///
/// Reads files, directories, kustomizations or the standard input, and prints the ObjectDeployment
/// that rolls their objects out in phases, with probes for the well-known kinds. If objects are
/// cluster-scoped or in several namespaces, it is a ClusterObjectDeployment. Content that is too
/// large for one object is moved to slices (ObjectSlice), which are printed first.
///
/// With --apply, nothing is written if the server or the manager would refuse an object, such as a
/// changed immutable field or an object in a missing namespace. `kubectl baton diff -f` shows the
/// same. The exit code is 0 once the result is applied or, with --wait,
/// rolled out, 1 if it is not rolled out, 2 after an error, 3 if an object would be refused, and 4 if
/// another template was applied to the deployment meanwhile.
///
/// With --site the result is a SiteApplication, whose versions a SiteDeployment rolls out to sites.
///
/// With --application the result is an Application of Shipper, from a chart in a repository. helm,
/// which has to be installed, renders the chart, which is checked as by the manager. With
/// --wait, the command waits until the first step of its newest Release is achieved.
///
/// The same input gives the same output, and a small change of the input gives a small change of
/// the output. Status and other fields that a server adds to objects are left out, so that the
/// output of `kubectl get -o yaml` can be packed.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    content: ContentArgs,
    #[command(flatten)]
    output: output::OutputArgs,
    #[command(flatten)]
    wait: wait::WaitArgs,
    #[command(flatten)]
    application: application::ApplicationArgs,
}

/// The input.
#[derive(Clone, Debug, Args)]
struct InputArgs {
    /// Files, directories (their *.yaml, *.yml and *.json files by name), kustomizations, or - for
    /// the standard input
    #[arg(value_name = "INPUT", required_unless_present_any = ["filename", "kustomize", "application"])]
    inputs: Vec<PathBuf>,

    /// Same as INPUT, for users of kubectl
    #[arg(long, short, value_name = "INPUT", hide_short_help = true)]
    filename: Vec<PathBuf>,

    /// Directory with a kustomization, built by kubectl
    #[arg(long, short, value_name = "DIR")]
    kustomize: Vec<PathBuf>,

    /// Include subdirectories
    #[arg(long, short = 'R')]
    recursive: bool,

    /// Leave out all hooks of Helm
    #[arg(long)]
    no_hooks: bool,

    /// Leave out Secrets that have values; see --help
    #[arg(long)]
    no_secrets: bool,
}

/// The object to make.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Result")]
struct ResultArgs {
    /// Name of the result. Default: that of the only file or directory, else the label
    /// app.kubernetes.io/instance or app.kubernetes.io/name of the objects
    #[arg(long)]
    name: Option<String>,

    /// Make a revision (ObjectSet) instead, with this number, or with one that the controller
    /// assigns
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    revision: Option<Number>,

    /// Make a SiteApplication instead, for a SiteDeployment to roll out. The change of a version that
    /// is in use reaches all of its sites at once
    #[arg(long, conflicts_with_all = ["revision", "cluster", "progress_deadline", "history_limit", "change_cause",
        "slice_limit", "wait"])]
    site: bool,

    /// Version of the SiteApplication. Default: a hash of the content, so that each change is a new
    /// version
    #[arg(long, value_name = "VERSION", requires = "site", value_parser = site_version)]
    site_version: Option<String>,

    /// Revisions that the new one takes objects over from; separate several by commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = object_name,
        requires = "revision"
    )]
    previous: Vec<String>,

    /// Make the cluster-scoped kind, even if all objects are in one namespace
    #[arg(long)]
    cluster: bool,

    /// Scope of a custom resource without its definition in the input: Namespaced or Cluster. With
    /// --apply the server is asked for scopes that are not given
    #[arg(long, value_name = "KIND.GROUP=SCOPE", value_delimiter = ',')]
    scope: Vec<KindScopeArg>,

    /// Service account that writes the objects, with its rights; it is in the namespace of the
    /// result
    #[arg(long, value_name = "NAME", value_parser = object_name, conflicts_with = "cluster")]
    service_account: Option<String>,

    /// Time that a revision has to stay available before it has succeeded
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(0..))]
    success_delay: Option<i32>,

    /// Time in which a revision has to become available
    #[arg(long, value_name = "SECONDS", conflicts_with = "revision", value_parser =
        clap::value_parser!(i32).range(1..))]
    progress_deadline: Option<i32>,

    /// Number of archived revisions to keep
    #[arg(long, value_name = "N", conflicts_with = "revision", value_parser = clap::value_parser!(i32).range(0..))]
    history_limit: Option<i32>,

    /// Leave out the annotation baton.run/preflight=All: check the objects of a phase when the phase
    /// is reached, not those of all phases before the first write
    #[arg(long, conflicts_with = "site")]
    no_preflight: bool,

    /// Reason of the change, for `kubectl baton history`
    #[arg(long, value_name = "TEXT")]
    change_cause: Option<String>,

    /// Size above which objects are moved to slices, and largest size of a slice
    #[arg(long, value_name = "SIZE", default_value = "1Mi", value_parser = size)]
    slice_limit: usize,
}

/// Settings of the objects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Phases and probes")]
struct ContentArgs {
    /// Order of phases; see --help
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    phase_order: Vec<String>,

    /// Protection of existing objects: those that may be taken over
    #[arg(long, value_name = "WHAT", default_value = "Prevent", value_parser = protection())]
    collision_protection: CollisionProtection,

    /// Field manager whose fields a revision takes over with an object, and removes when a later
    /// revision drops them, in addition to those of kubectl apply and Helm; may be repeated
    #[arg(long, value_name = "NAME")]
    field_manager: Vec<String>,

    /// Probe for the objects of a kind, in place of the default one; may be repeated. PROBE is
    /// condition:TYPE, condition:TYPE=STATUS, fields:.PATH=.PATH, cel:RULE or none
    #[arg(long, value_name = "KIND.GROUP=PROBE")]
    probe: Vec<ProbeFlag>,

    /// Do not add probes for the well-known kinds
    #[arg(long)]
    no_probes: bool,
}

pub(crate) async fn run(args: &PackArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let refuse = |errors: InputErrors| Error::Usage(errors.to_string());
    if args.application.application {
        let (name, limit) = (args.result.name.as_deref(), args.result.history_limit);
        let made = args.application.make(name, limit, global).await?;
        if !args.output.apply {
            args.application.check(&made, None, global).await?;
            print(&[made], args.output.output, global.output())?;
            return Ok(Exit::Fine);
        }
        let cluster = global.connect().await?;
        args.application
            .check(&made, Some(&cluster), global)
            .await?;
        let package = Package::of(made);
        args.output.check(&cluster, &package).await?;
        let applied = args.output.apply(&cluster, &package, global).await?;
        return args
            .wait
            .end_of_application(&cluster, &applied, global)
            .await;
    }
    let inputs = args.input.inputs();
    let sources = input::read_aside(inputs.clone(), args.input.recursive).await;
    let sources = sources.map_err(refuse)?;
    let mut collected = pack::read(&sources, args.input.no_hooks);
    collected.no_secrets = args.input.no_secrets;
    let name = args.result.name(&inputs, &collected)?;
    let cluster = if args.output.apply {
        Some(global.connect().await?)
    } else {
        None
    };
    let scopes = args.result.scopes(&collected, cluster.as_ref()).await?;
    let options = args.options(name, scopes, global);
    let packed = pack::pack(collected, &options).map_err(refuse)?;
    for note in &packed.notes {
        report(&format!("note: {note}"));
    }
    let Some(cluster) = cluster else {
        print(&packed.objects(), args.output.output, global.output())?;
        return Ok(Exit::Fine);
    };
    let cluster = &cluster;
    let mut package = packed.package;
    if args.result.site {
        args.output.check(cluster, &package).await?;
        args.output.apply(cluster, &package, global).await?;
        return Ok(Exit::Fine);
    }
    settings::keep(cluster, &mut package.object).await?;
    let next = PendingApply::read(cluster, &package.object).await?;
    for note in secrets::check(cluster, &packed.secrets, &next).await? {
        report(&format!("note: {note}"));
    }
    next.warn(cluster, &package.slices).await;
    args.output.check(cluster, &package).await?;
    let is_forced = args.output.force;
    check_apply(cluster, &next, &package.slices, is_forced).await?;
    let before = args
        .wait
        .before(&package.object, next.chains.map_err(Error::from))?;
    let applied = args.output.apply(cluster, &package, global).await?;
    args.wait.end(cluster, &applied, before, global).await
}

impl InputArgs {
    fn inputs(&self) -> Vec<Input> {
        let paths = self.inputs.iter().chain(&self.filename);
        let paths = paths.map(|path| Input::Path(path.clone()));
        let kustomizations = self.kustomize.iter();
        let kustomizations = kustomizations.map(|path| Input::Kustomization(path.clone()));
        paths.chain(kustomizations).collect()
    }
}

impl ResultArgs {
    fn name(&self, inputs: &[Input], collected: &Collected) -> Result<String, Error> {
        if let Some(name) = &self.name {
            return match pack::name_problem(name) {
                None => Ok(name.clone()),
                Some(problem) => Err(Error::Usage(format!("--name: \"{name}\" {problem}"))),
            };
        }
        let suggested =
            input::suggested_name(inputs).or_else(|| pack::common_name(&collected.manifests));
        let name = suggested.unwrap_or_default();
        if let Some(problem) = pack::name_problem(&name) {
            // Errors of the input come first: the name may depend on documents that have errors.
            if !collected.errors.is_empty() || collected.manifests.is_empty() {
                return Ok(name);
            }
            return Err(Error::Usage(if name.is_empty() {
                "the result has no name; --name NAME gives it one".to_owned()
            } else {
                format!(
                    "the name of the input, \"{name}\", {problem}; --name NAME gives the result another one"
                )
            }));
        }
        Ok(match self.revision {
            Some(Number(Some(number))) => format!("{name}-v{number}"),
            _ => name,
        })
    }

    /// The scopes of custom resources: from flags, else from the server.
    async fn scopes(
        &self,
        collected: &Collected,
        cluster: Option<&Cluster>,
    ) -> Result<Scopes, Error> {
        let given = self.scope.iter().cloned();
        let mut scopes: Scopes = given
            .map(|KindScopeArg(GroupKind { group, kind }, scope)| ((group, kind), scope))
            .collect();
        let Some(cluster) = cluster else {
            return Ok(scopes);
        };
        scope::ask(cluster, &collected.manifests, &mut scopes).await?;
        Ok(scopes)
    }
}

/// Prints objects to apply, with a note if a usual way to apply them does not work.
pub(super) fn print(
    objects: &[Value],
    format: DocumentFormat,
    output: Output,
) -> Result<(), Error> {
    let json = emit::json(objects).map_err(|error| Error::Impossible(error.to_string()))?;
    let text = match format {
        DocumentFormat::Yaml => {
            let yaml = emit::yaml(objects);
            yaml.map_err(|error| Error::Impossible(error.to_string()))?
        }
        DocumentFormat::Json => json.clone(),
    };
    let text = without_obeyed(text, || json);
    let is_big = |object: &Value| object.to_string().len() > MOST_CLIENT_SIDE;
    if objects.iter().any(is_big) {
        report(
            "note: the result is too large for client-side apply; use kubectl apply --server-side, or --apply",
        );
    }
    Ok(output.print(&text)?)
}

impl PackArgs {
    fn options(&self, name: String, scopes: Scopes, global: &GlobalArgs) -> Options {
        let Self {
            result, content, ..
        } = self;
        let form = match result.revision {
            Some(Number(number)) => PackagedKind::Revision {
                number,
                previous: result.previous.clone(),
            },
            None if result.site => PackagedKind::Site {
                version: result.site_version.clone(),
            },
            None => PackagedKind::Deployment {
                revision_history_limit: result.history_limit,
                progress_deadline_seconds: result.progress_deadline,
            },
        };
        Options {
            name,
            form,
            scope: scope::ScopeOptions {
                cluster: result.cluster,
                site: result.site,
                namespace: global.namespace().map(str::to_owned),
                scopes,
            },
            phase_order: content.phase_order.clone(),
            collision_protection: content.collision_protection,
            former_managers: content.field_manager.clone(),
            probes: probes::ProbeOptions {
                no_defaults: content.no_probes,
                wanted: content.probe.clone(),
            },
            service_account_name: result.service_account.clone(),
            success_delay_seconds: result.success_delay,
            checks_all_first: !result.no_preflight,
            change_cause: result.change_cause.clone(),
            slice_limit: result.slice_limit,
        }
    }
}
