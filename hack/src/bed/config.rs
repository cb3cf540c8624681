//! The configuration from which kwokctl starts a bed.

use serde_json::{Value, json};

use super::extent::Extent;
use super::ports::Ports;
use crate::tools::{Tool, Toolbox};

/// The behaviour of simulated nodes and pods.
const STAGES: &str = include_str!("../../bed/stages.yaml");

/// The configuration file: a `KwokctlConfiguration` and the stages, as YAML documents.
pub(super) fn file(ports: &Ports, extent: Extent, tools: &Toolbox) -> String {
    // JSON is valid YAML.
    format!("{}\n---\n{STAGES}", configuration(ports, extent, tools))
}

fn configuration(ports: &Ports, extent: Extent, tools: &Toolbox) -> Value {
    let mut server = vec![
        // Without these options the API server looks for the address of a network interface, and
        // fails on an offline machine.
        ("advertise-address", LOOPBACK),
        ("endpoint-reconciler-type", "none"),
        // The default has room for 254 Services.
        ("service-cluster-ip-range", "10.96.0.0/16"),
    ];
    // For kube-controller-manager and kube-scheduler.
    let common = [
        // The default of 20 requests per second is too low for the garbage collector and the
        // namespace controller to clean up after parallel tests.
        ("kube-api-qps", "500"),
        ("kube-api-burst", "1000"),
        // A leader exits when it cannot renew its lease within ten seconds. There is only one
        // instance of each; a machine may pause for longer than that, and tests stop the API
        // server.
        ("leader-elect", "false"),
    ];
    let mut controllers = common.to_vec();
    if extent == Extent::ControlPlane {
        // Every 20 s the garbage collector of pods sets the phase of unscheduled pods that are being
        // deleted to `Failed`. Without a scheduler these are all pods that wait for a finalizer.
        controllers.push(("controllers", "*,-pod-garbage-collector-controller"));
        // The API server closes watches in an orderly shutdown. By default it waits a minute for
        // them to end by themselves.
        server.push(("shutdown-watch-termination-grace-period", "2s"));
    }
    let path = |tool| tools.path(tool).to_string_lossy();
    json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {
            "runtime": "binary",
            // Every server of the bed listens on this address; by default on all interfaces.
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
                // A bed is temporary, so nothing is lost when the machine fails. Waiting for the
                // disk on each write would measure the disk instead of the manager.
                ("unsafe-no-fsync", "true"),
            ]),
            // The request limits of the API server stay those of a real cluster: the bed's
            // administrator is exempt from them, and a manager that sends 16 requests concurrently
            // is far below them.
            patch("kube-apiserver", &server),
            patch("kube-controller-manager", &controllers),
            patch("kube-scheduler", &common),
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
    fn each_stage_is_a_separate_document() {
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
