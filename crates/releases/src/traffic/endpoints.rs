//! The addresses of the Service that balances.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;

/// The pods among the addresses of a Service. Other addresses are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    ready: BTreeSet<String>,
    not_ready: BTreeSet<String>,
}

impl Endpoints {
    /// Creates endpoints from names of pods.
    pub fn new<'a>(
        ready: impl IntoIterator<Item = &'a str>,
        not_ready: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let ready: BTreeSet<_> = ready.into_iter().map(str::to_owned).collect();
        let mut not_ready: BTreeSet<_> = not_ready.into_iter().map(str::to_owned).collect();
        not_ready.retain(|name| !ready.contains(name));
        Self { ready, not_ready }
    }

    /// Reads all slices of a Service. A pod may be in several slices, one for each address family.
    ///
    /// Unlike in Endpoints, a terminating pod is in the slices until it is gone; it is ignored once
    /// it is not ready.
    pub fn of_slices<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Self {
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        for endpoint in slices
            .into_iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
        {
            let target = endpoint.target_ref.as_ref();
            let pod = target.filter(|target| target.kind.as_deref() == Some("Pod"));
            let Some(name) = pod.and_then(|pod| pod.name.as_deref()) else {
                continue;
            };
            let conditions = endpoint.conditions.as_ref();
            let is_ready = conditions
                .and_then(|conditions| conditions.ready)
                .unwrap_or(true);
            let ends = conditions
                .and_then(|conditions| conditions.terminating)
                .unwrap_or(false);
            match (is_ready, ends) {
                (true, _) => ready.push(name),
                (false, false) => not_ready.push(name),
                (false, true) => {}
            }
        }
        Self::new(ready, not_ready)
    }

    /// True if a pod gets traffic.
    pub fn is_ready(&self, pod: &str) -> bool {
        self.ready.contains(pod)
    }

    /// True if a pod would get traffic if it were ready.
    pub fn is_not_ready(&self, pod: &str) -> bool {
        self.not_ready.contains(pod)
    }
}
