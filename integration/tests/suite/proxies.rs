//! `baton` and the plugin behind an HTTP proxy, which is the only way to the API server.

use std::process::{Command, Output, Stdio};

use baton_integration::endpoint::Endpoint;
use baton_integration::guard::beside_tests;
use baton_integration::prelude::*;
use baton_integration::sites::TemporaryKubeconfig;
use baton_integration::tunnel::{Tunnel, TunnelRequest};
use tokio::task::spawn_blocking;

/// Returns a kubeconfig whose server name only the proxy can resolve.
fn kubeconfig(ns: &TestNamespace, more: &Value) -> TemporaryKubeconfig {
    let text = std::fs::read_to_string(ns.cluster().kubeconfig()).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.insert("server".to_owned(), "https://hub.example:6443".into());
    cluster.insert("tls-server-name".to_owned(), "127.0.0.1".into());
    cluster.extend(more.as_object().unwrap().clone());
    TemporaryKubeconfig::new(&config.to_string())
}

/// Runs a program with exactly these proxies in its environment.
async fn run(mut command: Command, variables: &[(&str, &str)]) -> Output {
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn baton(ns: &TestNamespace, hub: &TemporaryKubeconfig) -> Command {
    let program = std::env::var_os("BATON_BIN").map_or_else(|| beside_tests("baton"), Into::into);
    let mut command = Command::new(program);
    command
        .args(["cluster", "list"])
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("BATON_HUB_KUBECONFIG", hub.path())
        .env("BATON_CLUSTERS_NAMESPACE", ns.name());
    command
}

fn plugin(ns: &TestNamespace, hub: &TemporaryKubeconfig) -> Command {
    let mut command = ns.plugin_command(&["status"]);
    command.env("KUBECONFIG", hub.path());
    command
}

#[tokio::test]
async fn servers_are_reached_through_the_proxy_of_the_environment_or_the_kubeconfig() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let server = Endpoint::of_bed(ns.cluster().kubeconfig()).address;
    let tunnel = Tunnel::start(server).await;
    let url = format!("http://baton:s3cret@{}", tunnel.address());
    let plain = kubeconfig(&ns, &json!({}));
    let own = kubeconfig(&ns, &json!({ "proxy-url": url }));
    let expected = TunnelRequest {
        target: "hub.example:6443".to_owned(),
        authorization: Some("Basic YmF0b246czNjcmV0".to_owned()),
    };
    let closed = "http://s3cret@127.0.0.1:1";
    for (hub, variables, is_reached) in [
        (&plain, &[("HTTPS_PROXY", &*url)][..], true),
        (
            &plain,
            &[
                ("https_proxy", &*url),
                ("NO_PROXY", "127.0.0.1,other.example"),
            ],
            true,
        ),
        (&plain, &[("HTTP_PROXY", &*url)], false),
        (
            &plain,
            &[("HTTPS_PROXY", &*url), ("NO_PROXY", "10.0.0.0/8,.example")],
            false,
        ),
        (&plain, &[("HTTPS_PROXY", closed)], false),
        (&own, &[], true),
        (&own, &[("HTTPS_PROXY", closed), ("NO_PROXY", "*")], true),
    ] {
        for command in [baton(&ns, hub), plugin(&ns, hub)] {
            let program = command.get_program().to_owned();
            let before = tunnel.requests().len();
            let ran = run(command, variables).await;
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(
                ran.status.success(),
                is_reached,
                "{program:?} {variables:?}: {stderr}"
            );
            assert!(!stderr.contains("s3cret"), "{stderr}");
            let new = tunnel.requests()[before..].to_vec();
            assert_eq!(!new.is_empty(), is_reached, "{program:?} {variables:?}");
            assert!(new.iter().all(|it| *it == expected), "{new:?}");
        }
    }
    for command in [baton(&ns, &plain), plugin(&ns, &plain)] {
        let ran = run(command, &[("HTTPS_PROXY", "ftp://a:s3cret@b")]).await;
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(
            stderr.contains("HTTPS_PROXY is not the URL of a proxy"),
            "{stderr}"
        );
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
}

/// The proxy of the environment is not used for the local machine.
#[tokio::test]
async fn the_local_machine_is_reached_without_a_proxy() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let here = std::fs::read_to_string(ns.cluster().kubeconfig()).unwrap();
    let here = TemporaryKubeconfig::new(&here);
    for command in [baton(&ns, &here), plugin(&ns, &here)] {
        let ran = run(command, &[("HTTPS_PROXY", "http://127.0.0.1:1")]).await;
        assert!(ran.status.success(), "{ran:?}");
    }
}
