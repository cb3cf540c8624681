//! Free ports for the servers of a bed.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The range of candidates: below the ranges that operating systems use for outgoing connections.
/// An outgoing connection could otherwise use the port between the choice here and the start of the
/// server.
const RANGE: std::ops::Range<u16> = 20_000..30_000;

/// The ports that this process has chosen so far. A port is free until its server has started, so
/// beds that one process starts concurrently could choose the same one.
static CHOSEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// One port for each server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// kube-apiserver.
    pub api: u16,
    /// etcd, for clients.
    pub etcd: u16,
    /// etcd, for its peers, of which there are none.
    pub etcd_peer: u16,
    /// kube-controller-manager.
    pub controller_manager: u16,
    /// kube-scheduler.
    pub scheduler: u16,
    /// kwok.
    pub kwok: u16,
}

/// The reason that there are no ports.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(
        "port {port} of 127.0.0.1 cannot be used ({source}): end the program that listens on it, or choose another \
         with --port"
    )]
    Busy { port: u16, source: std::io::Error },
    #[error("no free ports in {} to {}", RANGE.start, RANGE.end)]
    Exhausted,
}

impl Ports {
    /// Chooses free ports, with `api` for the API server if given. The others are ports that this
    /// process has not chosen before.
    pub fn choose(api: Option<u16>) -> Result<Self, Error> {
        // Beds that start at the same time begin their search at different ports.
        let offset = RandomState::new().hash_one(std::process::id());
        // The remainder is below the length of the range, so it fits.
        #[expect(clippy::cast_possible_truncation)]
        let offset = (offset % u64::from(RANGE.end - RANGE.start)) as u16;
        let mut candidates =
            (RANGE.start + offset..RANGE.end).chain(RANGE.start..RANGE.start + offset);
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = || {
            let mut is_free =
                |port: &u16| Some(*port) != api && probe(*port).is_ok() && chosen.insert(*port);
            let port = candidates.by_ref().find(|port| is_free(port));
            port.ok_or(Error::Exhausted)
        };
        let api = match api {
            Some(port) => probe(port)
                .map(|()| port)
                .map_err(|source| Error::Busy { port, source })?,
            None => next()?,
        };
        Ok(Self {
            api,
            etcd: next()?,
            etcd_peer: next()?,
            controller_manager: next()?,
            scheduler: next()?,
            kwok: next()?,
        })
    }
}

/// Succeeds if a server could listen on the port now.
fn probe(port: u16) -> std::io::Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = Ports::choose(Some(port)).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()), "{error}");
    }

    #[test]
    fn ports_differ_also_between_beds_of_one_process() {
        const BEDS: usize = 100;
        let mut all = BTreeSet::new();
        for _ in 0..BEDS {
            let Ports {
                api,
                etcd,
                etcd_peer,
                controller_manager,
                scheduler,
                kwok,
            } = Ports::choose(None).unwrap();
            all.extend([api, etcd, etcd_peer, controller_manager, scheduler, kwok]);
        }
        assert_eq!(all.len(), 6 * BEDS);
    }
}
