//! The input of a comparison: deployments and revisions from files, or plain manifests that are
//! packed first.

use baton_apis::{
    constants::API_VERSION,
    kinds::{self, Kind},
};
use baton_cluster::Cluster;
use baton_terminal::output::report;
use baton_view::chain::kind::ChainKind;
use serde_json::Value;

use crate::{
    args::GlobalArgs,
    error::Error,
    pack::{
        self, Options,
        documents::{self, InputText},
        input::{self, Input},
        scope,
        source_location::InputErrors,
    },
};

const SLICES: [&str; 2] = ["ObjectSlice", "ClusterObjectSlice"];

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiffInput {
    pub(crate) subjects: Vec<Value>,
    pub(crate) slices: Vec<Value>,
    /// Applications of Shipper.
    pub(crate) applications: Vec<Value>,
    /// Applications for sites.
    pub(crate) site_applications: Vec<Value>,
    /// Objects of further kinds of Baton.
    pub(crate) others: Vec<(&'static Kind, Value)>,
}

/// Reads a file, a directory, the standard input (`-`), or a kustomization.
///
/// Plain manifests are packed into a deployment, as by `kubectl baton pack`. Without `name`, the
/// deployment gets the name that `pack` suggests.
pub(crate) async fn read(
    cluster: &Cluster,
    global: &GlobalArgs,
    input: Input,
    name: Option<&str>,
) -> Result<DiffInput, Error> {
    let inputs = [input];
    let sources = input::read_aside(inputs.to_vec(), false).await;
    let sources = sources.map_err(|errors| refuse(&errors))?;
    let (given, others) = sort(&sources)?;
    let whole = [
        &given.subjects,
        &given.applications,
        &given.site_applications,
    ];
    if !given.others.is_empty() || whole.iter().any(|objects| !objects.is_empty()) {
        for other in others {
            report(&format!(
                "note: {other} is not part of a revision; it is left out"
            ));
        }
        return Ok(given);
    }
    let collected = pack::read(&sources, false);
    let suggested = || {
        let suggested = input::suggested_name(&inputs).or(pack::common_name(&collected.manifests));
        suggested.filter(|name| pack::name_problem(name).is_none())
    };
    // Errors in the input are reported before a missing name: they can hide the manifests that
    // suggest a name.
    let is_broken = !collected.errors.is_empty() || collected.manifests.is_empty();
    let name = name.map(str::to_owned).or_else(suggested);
    let name = name.or(is_broken.then(|| "broken".to_owned()));
    let name = name.ok_or_else(|| {
        Error::Usage("the deployment has no name; --name NAME gives it one".to_owned())
    })?;
    if let Some(problem) = pack::name_problem(&name) {
        return Err(Error::Usage(format!("--name: {name:?} {problem}")));
    }
    let mut scopes = scope::Scopes::default();
    scope::ask(cluster, &collected.manifests, &mut scopes).await?;
    let packed =
        pack::pack(collected, &options(name, scopes, global)).map_err(|errors| refuse(&errors))?;
    for note in &packed.notes {
        report(&format!("note: {note}"));
    }
    Ok(DiffInput {
        subjects: vec![packed.package.object],
        slices: packed.package.slices,
        ..DiffInput::default()
    })
}

/// The options of `kubectl baton pack` without arguments.
fn options(name: String, scopes: scope::Scopes, global: &GlobalArgs) -> Options {
    Options {
        scope: scope::ScopeOptions {
            site: false,
            cluster: false,
            namespace: global.namespace().map(str::to_owned),
            scopes,
        },
        ..Options::named(name)
    }
}

fn refuse(errors: &InputErrors) -> Error {
    Error::Usage(errors.to_string())
}

/// Separates the objects of our kinds from all others. Returns the others as text: position, kind
/// and name.
fn sort(sources: &[InputText]) -> Result<(DiffInput, Vec<String>), Error> {
    let mut given = DiffInput::default();
    let mut others = Vec::new();
    for source in sources {
        let found = documents::read(source);
        if !found.errors.is_empty() {
            return Err(refuse(&InputErrors(found.errors)));
        }
        for (location, document) in found.documents {
            for object in items(document.value) {
                let text = |field: &str| {
                    let text = object.get(field).and_then(Value::as_str);
                    text.unwrap_or_default()
                };
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                if ChainKind::of(&object).is_some() {
                    given.subjects.push(object);
                } else if text("apiVersion") == API_VERSION && SLICES.contains(&text("kind")) {
                    given.slices.push(object);
                } else if kinds::APPLICATION.is_of(&object) {
                    given.applications.push(object);
                } else if kinds::SITE_APPLICATION.is_of(&object) {
                    given.site_applications.push(object);
                } else if let Some(kind) = Kind::ALL.iter().find(|it| it.is_of(&object)) {
                    given.others.push((kind, object));
                } else {
                    let kind = Some(text("kind")).filter(|kind| !kind.is_empty());
                    let what = [
                        kind.unwrap_or("a document without a kind"),
                        name.unwrap_or_default(),
                    ];
                    others.push(format!("{location}: {}", what.join(" ").trim_end()));
                }
            }
        }
    }
    Ok((given, others))
}

/// The objects of a `List`, or the object itself.
fn items(mut object: Value) -> Vec<Value> {
    let is_list = object.get("kind").and_then(Value::as_str) == Some("List");
    match object.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        Some(other) => {
            object["items"] = other;
            vec![object]
        }
        None => vec![object],
    }
}

/// Sets the namespace of an object of one of our kinds that has none to the namespace in use.
///
/// # Errors
/// If the object has another namespace than the one in the arguments.
pub(crate) fn set_default_namespace(
    object: &mut Value,
    cluster: &Cluster,
    global: &GlobalArgs,
) -> Result<(), Error> {
    set_namespace(object, &cluster.namespace, global.namespace())
}

fn set_namespace(object: &mut Value, current: &str, requested: Option<&str>) -> Result<(), Error> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind.starts_with("Cluster") || !object["metadata"].is_object() {
        return Ok(());
    }
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    match requested {
        _ if own.is_empty() => object["metadata"]["namespace"] = current.into(),
        Some(requested) if requested != own => {
            return Err(Error::Usage(format!(
                "the namespace from the provided object {own:?} does not match the namespace {requested:?}"
            )));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &str) -> Result<(DiffInput, Vec<String>), Error> {
        sort(&[InputText {
            name: "shop.yaml".into(),
            text: text.to_owned(),
        }])
    }

    const OURS: &str = "apiVersion: package-operator.run/v1alpha1";

    #[test]
    fn our_objects_are_told_from_others() {
        let text = format!(
            "{OURS}\nkind: ObjectDeployment\n---\n{OURS}\nkind: ObjectSlice\n---\napiVersion: v1\nkind: \
                 Namespace\nmetadata: {{name: shop}}\n---\n"
        );
        let (given, others) = sorted(&text).unwrap();
        assert_eq!((given.subjects.len(), given.slices.len()), (1, 1));
        assert_eq!(others, ["shop.yaml:7: document 3: Namespace shop"]);
        let list = format!(
            "apiVersion: v1\nkind: List\nitems:\n- {{kind: ObjectSet, {OURS}}}\n- {{kind: ClusterObjectSlice, {OURS}}}"
        );
        let (given, others) = sorted(&list).unwrap();
        assert_eq!((given.subjects.len(), given.slices.len()), (1, 1));
        assert_eq!(others, Vec::<String>::new());
        let text = "apiVersion: baton.run/v1alpha1\nkind: SiteDeployment\nmetadata: {name: shop}";
        let (given, others) = sorted(text).unwrap();
        assert_eq!((given.others.len(), others.len()), (1, 0));
        let (_, others) = sorted("a: b").unwrap();
        assert_eq!(
            others,
            ["shop.yaml:1: document 1: a document without a kind"]
        );
        let broken = sorted("a: [").unwrap_err().to_string();
        assert!(broken.starts_with("shop.yaml:"), "{broken}");
    }

    #[test]
    fn objects_without_a_namespace_get_the_one_in_use() {
        let check = |own: &str, requested: Option<&str>, kind: ChainKind| {
            let mut object = serde_json::json!({"kind": kind.name, "metadata": {"name": "web"}});
            if !own.is_empty() {
                object["metadata"]["namespace"] = own.into();
            }
            let settled = set_namespace(&mut object, requested.unwrap_or("current"), requested);
            match settled {
                Ok(()) => object["metadata"]["namespace"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned(),
                Err(error) => error.to_string(),
            }
        };
        let kind = ChainKind::ObjectDeployment;
        assert_eq!(check("", None, kind), "current");
        assert_eq!(check("", Some("shop"), kind), "shop");
        assert_eq!(check("shop", None, kind), "shop");
        assert_eq!(check("shop", Some("shop"), kind), "shop");
        assert_eq!(
            check("shop", Some("other"), kind),
            "the namespace from the provided object \"shop\" does not match the namespace \"other\""
        );
        assert_eq!(check("", Some("shop"), ChainKind::ClusterObjectSet), "none");
    }
}
