//! The configuration that kwokctl starts a bed from.

use serde_json::{Value, json};

use super::extent::Extent;
use super::ports::Ports;
use crate::tools::{Tool, Toolbox};

/// How simulated nodes and pods behave.
const STAGES: &str = include_str!("../../bed/stages.yaml");

/// The configuration file: a `KwokctlConfiguration` and the stages, as YAML documents.
pub(super) fn file(ports: &Ports, extent: Extent, tools: &Toolbox) -> String {
    // JSON is YAML.
    format!("{}\n---\n{STAGES}", configuration(ports, extent, tools))
}

fn configuration(ports: &Ports, extent: Extent, tools: &Toolbox) -> Value {
    let mut server = vec![
        // Without these it looks for the address of a network card, and fails on a machine that is
        // offline.
        ("advertise-address", LOOPBACK),
        ("endpoint-reconciler-type", "none"),
        // The default has room for 254 Services.
        ("service-cluster-ip-range", "10.96.0.0/16"),
    ];
    // Of kube-controller-manager and kube-scheduler alike.
    let controllers = [
        // 20 requests per second, the default, is less than what the garbage collector and the
        // namespace controller need to clean up behind parallel tests.
        ("kube-api-qps", "500"),
        ("kube-api-burst", "1000"),
        // A leader ends for good when it cannot renew its lease within ten seconds. There is one of each, and a
        // machine may stand still for longer than that, and tests take the API server away.
        ("leader-elect", "false"),
    ];
    if extent == Extent::ControlPlane {
        // Watches are closed when it ends in good order. By default it waits a minute for them to end by
        // themselves.
        server.push(("shutdown-watch-termination-grace-period", "2s"));
    }
    let path = |tool| tools.path(tool).to_string_lossy();
    json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {
            "runtime": "binary",
            // Every server of the bed takes this for the address it listens on; the default is all
            // of them.
            "bindAddress": LOOPBACK,
            "kubeApiserverPort": ports.api,
            "etcdPort": ports.etcd,
            "etcdPeerPort": ports.etcd_peer,
            "kubeControllerManagerPort": ports.controller_manager,
            "kubeSchedulerPort": ports.scheduler,
            "kwokControllerPort": ports.kwok,
            "kubeApiserverBinary": path(Tool::KubeApiserver),
            "kubeControllerManagerBinary": path(Tool::KubeControllerManager),
            "kubeSchedulerBinary": path(Tool::KubeScheduler),
            "kubectlBinary": path(Tool::Kubectl),
            "etcdBinary": path(Tool::Etcd),
            "kwokControllerBinary": path(Tool::Kwok),
            "quietPull": true,
            "disable": extent.absent(),
        },
        "componentsPatches": [
            patch("etcd", &[
                // A bed is thrown away, so nothing is lost when the machine fails; waiting for the
                // disk on each write would measure the disk instead of the manager.
                ("unsafe-no-fsync", "true"),
            ]),
            // The API server keeps its own limits, which are those of a real cluster: the bed's
            // administrator is exempt from them, and a manager that writes 16 requests side by side
            // is far below them.
            patch("kube-apiserver", &server),
            patch("kube-controller-manager", &controllers),
            patch("kube-scheduler", &controllers),
        ],
    })
}

const LOOPBACK: &str = "127.0.0.1";

fn patch(component: &str, args: &[(&str, &str)]) -> Value {
    let args: Vec<Value> = args
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    json!({"name": component, "extraArgs": args})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_one_document_each() {
        let names: Vec<&str> = STAGES
            .split("\n---\n")
            .filter_map(|stage| stage.split("\n  name: ").nth(1)?.lines().next())
            .collect();
        assert_eq!(
            names,
            [
                "node-initialize",
                "pod-ready",
                "pod-image-broken",
                "pod-complete",
                "pod-delete"
            ]
        );
    }
}
