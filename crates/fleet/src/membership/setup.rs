//! `baton cluster setup`: installs Baton in the hub.

use baton_apis::constants::shipper::NAMESPACE_GLOBAL_BLOCKS;
use baton_terminal::output::report;
use serde_json::{Value, json};

use super::{
    args::SetupArgs,
    error::{ClusterRole, Error},
    manifest::{Manifest, text},
    progress::{Progress, Step},
    server::Server,
};

/// The manifests of an installation.
const INSTALL: &str = include_str!("../../../../config/install.yaml");
/// The namespace and the service account of the manager in these manifests.
const NAMESPACE: &str = "baton-system";
const ACCOUNT: &str = "baton";

/// Applies the manifests of the installation that differ from the objects of the hub.
pub(super) async fn run(args: &SetupArgs) -> Result<(), Error> {
    if args.rollout_blocks_global_namespace.as_str() != NAMESPACE_GLOBAL_BLOCKS {
        return Err(Error::Usage(format!(
            "the namespace whose blocks apply everywhere is {NAMESPACE_GLOBAL_BLOCKS}; the manager reads no other"
        )));
    }
    let mut hub = args.hub.connection();
    hub.kubeconfig = hub.kubeconfig.or_else(|| args.kubeconfig.clone());
    let hub = Server::connect(ClusterRole::Hub, &hub).await?;
    let steps = Step::plan(&hub, manifests(args)?).await?;
    let rights = steps.iter().flat_map(Step::rights).collect();
    hub.require_rights(rights).await?;
    report("Setting up management cluster:");
    if args.dry_run {
        for step in &steps {
            report(&step.forecast());
        }
        return Ok(());
    }
    let mut progress = Progress::over(&steps);
    for step in &steps {
        if let Err(error) = progress.carry_out(&hub, step).await {
            return Err(progress.halfway(error));
        }
    }
    report("Finished setting up management cluster");
    Ok(())
}

/// The manifests of the installation, with the names and the image that were chosen.
fn manifests(args: &SetupArgs) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    let documents = INSTALL.split("\n---\n").skip(1);
    for document in documents {
        let manifest: Value = serde_saphyr::from_str(document)
            .map_err(|error| Error::Usage(format!("the manifests of this version: {error}")))?;
        manifests.push(manifest);
    }
    let blocks = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE_GLOBAL_BLOCKS },
    });
    let after_namespace = manifests.len().min(1);
    manifests.insert(after_namespace, blocks);
    let mut adapted = Vec::new();
    for mut manifest in manifests {
        rename(&mut manifest, args);
        if args.webhook_ignore && text(&manifest, "/kind") == "ValidatingAdmissionPolicy" {
            manifest["spec"]["failurePolicy"] = "Ignore".into();
        }
        if let (Some(image), "Deployment") = (&args.image, text(&manifest, "/kind")) {
            manifest["spec"]["template"]["spec"]["containers"][0]["image"] = image.as_str().into();
        }
        adapted.push(Manifest(manifest));
    }
    Ok(adapted)
}

/// Replaces the namespace and the service account of the manager.
fn rename(value: &mut Value, args: &SetupArgs) {
    let namespace = args.hub.namespace.as_str();
    let account = args.service_account.as_str();
    let user =
        |namespace: &str, account: &str| format!("system:serviceaccount:{namespace}:{account}");
    match value {
        Value::Array(items) => items.iter_mut().for_each(|it| rename(it, args)),
        Value::Object(fields) => {
            let is = |field: &str, text: &str| fields.get(field).is_some_and(|it| it == text);
            let is_account = is("kind", "ServiceAccount");
            let is_namespace = is("kind", "Namespace");
            if is_account && is("name", ACCOUNT) {
                fields.insert("name".to_owned(), account.into());
            }
            if let Some(metadata) = fields.get_mut("metadata") {
                if is_account && metadata["name"] == ACCOUNT {
                    metadata["name"] = account.into();
                }
                if is_namespace && metadata["name"] == NAMESPACE {
                    metadata["name"] = namespace.into();
                }
            }
            for (field, value) in fields {
                match (field.as_str(), &*value) {
                    ("namespace", Value::String(text)) if text == NAMESPACE => {
                        *value = namespace.into();
                    }
                    ("serviceAccountName", Value::String(text)) if text == ACCOUNT => {
                        *value = account.into();
                    }
                    _ => rename(value, args),
                }
            }
        }
        // The policies exempt the manager by its user name.
        Value::String(text) => {
            let own = user(NAMESPACE, ACCOUNT);
            if text.contains(&own) {
                *text = text.replace(&own, &user(namespace, account));
            } else if *text == format!("--namespace={NAMESPACE}") {
                *text = format!("--namespace={namespace}");
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::membership::manifest::Change;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SetupArgs,
    }

    fn made(flags: &[&str]) -> Vec<Manifest> {
        let words = [&["setup"][..], flags].concat();
        manifests(&Command::try_parse_from(words).unwrap().args).unwrap()
    }

    #[test]
    fn all_manifests_of_the_installation_are_applied() {
        let made = made(&["management"]);
        let documents = INSTALL.matches("\napiVersion:").count();
        assert_eq!(made.len(), documents + 1);
        assert_eq!(made[0].title(), "namespace baton-system");
        assert_eq!(made[1].title(), "namespace rollout-blocks-global");
        assert_eq!(made.last().unwrap().kind(), "Deployment");
    }

    #[test]
    fn the_flags_are_those_of_shipperctl() {
        let parse = |flags: &[&str]| {
            let words = [&["setup", "management"], flags].concat();
            Command::try_parse_from(words).map(|it| it.args)
        };
        for (flag, expected) in [
            ("--webhook-ignore", true),
            ("--webhook-ignore=true", true),
            ("--webhook-ignore=false", false),
        ] {
            assert_eq!(parse(&[flag]).unwrap().webhook_ignore, expected, "{flag}");
        }
        assert!(!parse(&[]).unwrap().webhook_ignore);
        for flag in ["--kubeconfig=k", "--kube-config=k"] {
            let args = parse(&[flag, "--management-cluster-context=c"]).unwrap();
            assert_eq!(args.kubeconfig, Some("k".into()), "{flag}");
            assert_eq!(args.hub.hub_context.as_deref(), Some("c"));
        }
        let args = parse(&["--shipper-system-namespace=shipper-system"]).unwrap();
        assert_eq!(args.hub.namespace.as_str(), "shipper-system");
        let both = parse(&["--kubeconfig=k", "--hub-kubeconfig=h"]);
        assert!(both.is_err());
    }

    /// Case P4. The manager adds the certificate to the webhooks, which a second run leaves.
    #[test]
    fn the_webhook_is_created_and_updated() {
        let made = made(&["management"]);
        for manifest in &made {
            assert_eq!(manifest.compare(None), Change::Create);
            assert_eq!(manifest.compare(Some(&manifest.0)), Change::Keep);
        }
        let of_kind = |kind: &str| made.iter().find(|it| it.kind() == kind).unwrap();
        let after = |manifest: &Manifest, pointer: &str, value: Value| {
            let mut live = manifest.0.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            live.pointer_mut(parent).unwrap()[field] = value;
            manifest.compare(Some(&live))
        };
        let webhook = of_kind("ValidatingWebhookConfiguration");
        let client = "/webhooks/0/clientConfig";
        let certificate = after(webhook, &format!("{client}/caBundle"), json!("Y2E="));
        assert_eq!(certificate, Change::Keep);
        let path = after(webhook, &format!("{client}/service/path"), json!("/other"));
        assert_eq!(path, Change::Update);
        let port = after(of_kind("Service"), "/spec/ports/0/port", json!(8443));
        assert_eq!(port, Change::Update);
    }

    #[test]
    fn the_manager_gets_the_chosen_names() {
        let made = made(&[
            "-n",
            "shipper-system",
            "--management-cluster-service-account",
            "shipper",
            "--webhook-ignore",
            "--image",
            "example.com/baton:1",
        ]);
        let all = json!(made.iter().map(|it| &it.0).collect::<Vec<_>>()).to_string();
        assert!(!all.contains("\"namespace\":\"baton-system\""));
        assert!(!all.contains("serviceaccount:baton-system:baton"));
        assert!(!all.contains("=baton-system"));
        assert!(!all.contains("\"failurePolicy\":\"Fail\""));
        assert!(all.contains("system:serviceaccount:shipper-system:shipper"));
        let deployment = &made.last().unwrap().0;
        assert_eq!(deployment["metadata"]["namespace"], "shipper-system");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], "shipper");
        assert_eq!(pod["containers"][0]["image"], "example.com/baton:1");
        let bindings = made.iter().filter(|it| it.kind().ends_with("RoleBinding"));
        for binding in bindings {
            let subject = &binding.0["subjects"][0];
            assert_eq!(
                [&subject["name"], &subject["namespace"]],
                ["shipper", "shipper-system"]
            );
        }
    }
}
