//! Tests of the bed, on a bed of their own.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic with the expected state, as tests do"
)]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use baton_hack::bed::{self, Afterwards, Bed, Ports};
use baton_hack::paths::Dirs;

/// The directories; `None`, with a message, outside of `cargo dev test`: a plain `cargo test` must
/// not build a control plane.
fn dirs() -> Option<Dirs> {
    if std::env::var_os("BATON_TEST_KUBECONFIG").is_none() {
        eprintln!("skipped: run by `cargo dev test`");
        return None;
    }
    Some(Dirs::from_env().unwrap())
}

/// A name that no concurrent test run has.
fn name(purpose: &str) -> bed::Name {
    format!("{purpose}-{}", std::process::id()).parse().unwrap()
}

async fn kubectl(bed: &Bed, args: &str) -> String {
    let mut command = bed.kubectl();
    command.args(args.split(' '));
    baton_hack::exec::output(&mut command).await.unwrap()
}

/// Ends a bed at the end of a test, passed or failed.
struct Down(Dirs, bed::Name);

impl Drop for Down {
    fn drop(&mut self) {
        bed::down(&self.0, &self.1).unwrap();
    }
}

#[tokio::test]
async fn pods_become_ready_unless_their_image_is_broken_and_nothing_is_left() {
    let Some(dirs) = dirs() else { return };
    let name = name("life");
    let bed = Bed::up(&dirs, &name, None, Afterwards::End).await.unwrap();
    let dir = bed.kubeconfig().parent().unwrap().to_owned();

    let Ports {
        api,
        etcd,
        etcd_peer,
        controller_manager,
        scheduler,
        kwok,
    } = bed.ports().unwrap();
    for port in [api, etcd, etcd_peer, controller_manager, scheduler, kwok] {
        assert!(
            TcpStream::connect(("127.0.0.1", port)).is_ok(),
            "no program listens on {port}"
        );
        // If this is a local address, a server that listens on every interface answers on it.
        assert!(
            TcpStream::connect(("127.0.0.2", port)).is_err(),
            "{port} is open to others"
        );
    }
    let nodes = kubectl(&bed, "get nodes --no-headers").await;
    assert_eq!(nodes.lines().count(), 2, "{nodes}");
    // With a lease, a leader would exit after a pause of the machine.
    let leases = kubectl(&bed, "get leases --namespace=kube-system --output=name").await;
    for server in ["kube-controller-manager", "kube-scheduler"] {
        assert!(!leases.contains(server), "{leases}");
    }

    kubectl(&bed, "create deployment good --image=image:1").await;
    kubectl(&bed, "create deployment bad --image=broken:1").await;
    kubectl(
        &bed,
        "wait --for=condition=Available deployment/good --timeout=60s",
    )
    .await;
    let waiting = "wait pod --selector=app=bad --timeout=60s \
                   --for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ImagePullBackOff";
    kubectl(
        &bed,
        "wait --for=create pod --selector=app=bad --timeout=60s",
    )
    .await;
    kubectl(&bed, waiting).await;

    drop(bed);
    assert!(!dir.exists());
    assert!(TcpStream::connect(("127.0.0.1", api)).is_err());
    assert!(bed::kubeconfig(&dirs, &name).is_err());
}

#[tokio::test]
async fn a_busy_port_is_a_clear_error() {
    let Some(dirs) = dirs() else { return };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let bed = Bed::up(&dirs, &name("busy"), Some(port), Afterwards::End).await;
    let error = bed.unwrap_err().to_string();
    assert!(error.contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn a_bed_without_one_of_its_servers_names_it_and_is_created_again() {
    let Some(dirs) = dirs() else { return };
    let name = name("half");
    let _down = Down(dirs.clone(), name.clone());
    let bed = Bed::up(&dirs, &name, None, Afterwards::Keep).await.unwrap();
    kubectl(&bed, "create namespace old").await;
    let pid = bed
        .kubeconfig()
        .with_file_name("pids")
        .join("kube-scheduler.pid");
    let pid: i32 = std::fs::read_to_string(pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    drop(bed);
    assert!(bed::kubeconfig(&dirs, &name).is_ok());

    let again = Bed::up(&dirs, &name, None, Afterwards::End).await.unwrap();
    kubectl(&again, "get namespace old").await;
    assert_eq!(again.ended(), []);
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let start = Instant::now();
    while again.ended().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "it runs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = bed::kubeconfig(&dirs, &name).unwrap_err().to_string();
    let expected = format!("kube-scheduler of bed {name} has ended; its log ends with:\n");
    assert!(error.starts_with(&expected), "{error}");
    drop(again);

    let anew = Bed::up(&dirs, &name, None, Afterwards::End).await.unwrap();
    let namespaces = kubectl(&anew, "get namespaces --output=name").await;
    assert!(!namespaces.contains("old"), "{namespaces}");
}
