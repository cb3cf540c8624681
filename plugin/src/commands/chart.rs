//! `chart`: renders the charts of Applications and Releases.

use baton_terminal::output::Print as _;
use std::path::{Path, PathBuf};

use baton_apis::{
    Application, Release, ReleaseEnvironment,
    kinds::{self, Kind},
};
use baton_cluster::Cluster;
use baton_text::output::format::without_obeyed;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Exit;
use crate::{
    applications::chart::documents,
    args::GlobalArgs,
    error::Error,
    pack::{
        documents::read as parse,
        emit,
        input::{self, Input},
        source_location::InputErrors,
    },
    subject::object_name,
};

/// Render the chart of an Application or of a Release
///
/// The objects are printed as helm renders them, with the values of the Application and without the
/// labels that Releases add. Charts are fetched from here and not from the cluster, so a repository
/// that needs credentials cannot be used.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChartArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Render(RenderArgs),
}

/// Print the objects of a chart
#[derive(Clone, Debug, Args)]
struct RenderArgs {
    #[command(subcommand)]
    of: Of,
}

#[derive(Clone, Debug, Subcommand)]
enum Of {
    App(AppArgs),
    Release(ReleaseArgs),
}

/// Render the chart of an Application, for a Release named APPLICATION-foobar-0
#[derive(Clone, Debug, Args)]
#[group(id = "application", required = true, multiple = false)]
struct AppArgs {
    /// Name of the Application in the cluster
    #[arg(value_name = "NAME", value_parser = object_name, group = "application")]
    name: Option<String>,

    /// Name of the Application in the cluster, as NAME
    #[arg(long, visible_alias = "appName", value_name = "NAME", value_parser = object_name, group = "application")]
    app_name: Option<String>,

    /// File with the Application; - for the standard input
    #[arg(
        long,
        short = 'f',
        visible_alias = "filename",
        value_name = "FILE",
        group = "application"
    )]
    file: Option<PathBuf>,
}

/// Render the chart of a Release
#[derive(Clone, Debug, Args)]
struct ReleaseArgs {
    /// Name of the Release
    #[arg(value_name = "NAME", value_parser = object_name)]
    name: String,
}

pub(crate) async fn run(args: &ChartArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let Action::Render(RenderArgs { of }) = &args.action;
    let objects = match of {
        Of::Release(ReleaseArgs { name }) => {
            let cluster = global.connect().await?;
            let release: Release = read(&cluster, &kinds::RELEASE, name).await?;
            documents(&release.spec.environment, name, &cluster.namespace).await?
        }
        Of::App(args) => {
            let (name, template, namespace) = application(args, global).await?;
            documents(&template, &format!("{name}-foobar-0"), &namespace).await?
        }
    };
    let text = emit::yaml(&objects).map_err(|error| Error::Impossible(error.to_string()))?;
    let json = || {
        let documents: Vec<_> = objects.iter().map(|it| format!("{it:#}\n")).collect();
        documents.join("---\n")
    };
    global.output().print(&without_obeyed(text, json))?;
    Ok(Exit::Fine)
}

/// Name, environment and namespace of the Application that the arguments name.
async fn application(
    args: &AppArgs,
    global: &GlobalArgs,
) -> Result<(String, ReleaseEnvironment, String), Error> {
    let name = args.name.as_ref().or(args.app_name.as_ref());
    let (application, namespace) = match (name, &args.file) {
        (Some(name), _) => {
            let cluster = global.connect().await?;
            let application: Application = read(&cluster, &kinds::APPLICATION, name).await?;
            (application, Some(cluster.namespace))
        }
        (None, Some(file)) => (of_file(file).await?, global.namespace().map(str::to_owned)),
        (None, None) => return Err(Error::Usage("no application is named".to_owned())),
    };
    let metadata = application.metadata;
    let namespace = namespace.or(metadata.namespace);
    Ok((
        metadata.name.unwrap_or_default(),
        application.spec.template,
        namespace.unwrap_or_else(|| "default".to_owned()),
    ))
}

/// The only Application of a file.
async fn of_file(file: &Path) -> Result<Application, Error> {
    let inputs = vec![Input::Path(file.to_owned())];
    let sources = input::read_aside(inputs, false).await;
    let mut found = Vec::new();
    for source in sources.map_err(|errors| Error::Usage(errors.to_string()))? {
        let parsed = parse(&source);
        if !parsed.errors.is_empty() {
            return Err(Error::Usage(InputErrors(parsed.errors).to_string()));
        }
        let documents = parsed.documents.into_iter().map(|(_, it)| it.value);
        found.extend(documents.filter(|it| kinds::APPLICATION.is_of(it)));
    }
    let file = file.display();
    match found.as_slice() {
        [application] => serde_json::from_value(application.clone())
            .map_err(|error| Error::Usage(format!("{file}: {error}"))),
        others => Err(Error::Usage(format!(
            "{file}: has {} Applications, and not one",
            others.len()
        ))),
    }
}

/// Reads an object of a kind from the namespace in use.
async fn read<T: DeserializeOwned>(cluster: &Cluster, kind: &Kind, name: &str) -> Result<T, Error> {
    let namespace = &cluster.namespace;
    let path = kind.path_of(Some(namespace), name);
    let found: Option<Value> = cluster.get_at(&path).await?;
    let noun = kind.name.to_lowercase();
    let missing = || {
        Error::NotFound(format!(
            "there is no {noun} {name} in namespace {namespace}"
        ))
    };
    serde_json::from_value(found.ok_or_else(missing)?)
        .map_err(|error| Error::Impossible(format!("{noun} {name} cannot be read: {error}")))
}
