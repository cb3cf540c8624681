//! Names that all Releases of an Application share.
//!
//! Many charts, such as those of `helm create`, derive all names and selectors from the name of the
//! release. A Release has its own workloads, but the Service that balances is one object, and so
//! are the objects that send traffic to this Service, such as an Ingress. Their names contain the
//! name of the Application instead.

use baton_apis::constants::shipper::{LABEL_APP, LABEL_RELEASE_HASH, SELECTOR_HELM_RELEASE};
use serde_json::Value;

use super::{Error, Installation, object::Object, workloads::Workload};

/// Gives the Service and the objects that refer to it names without the name of the Release, and
/// removes the keys from the selector of the Service that select a single Release.
///
/// # Guarantees
/// Only Releases whose names start with the name of their Application are concerned, as all Releases
/// of Applications are. The key `release` of a selector stays: it has rules of its own.
///
/// # Errors
/// If the name or a selector of the Service depends on the name of the Release in another way.
pub(super) fn share(
    objects: &mut [Object],
    balancer: usize,
    workloads: &[Workload],
    installation: Installation,
) -> Result<(), Error> {
    let Some(app) = installation.labels.get(LABEL_APP) else {
        return Ok(());
    };
    let release = installation.name;
    if !release
        .strip_prefix(&**app)
        .is_some_and(|rest| rest.starts_with('-'))
    {
        return Ok(());
    }
    let shared = |name: &str| name.replace(release, app);
    let service = &mut objects[balancer];
    let own = service.name.clone();
    if own.contains(release) {
        service.rename(shared(&own))?;
    }
    select_all(service, release)?;
    refuse_others(service, installation)?;
    let name = service.name.clone();
    if name == own {
        return Ok(());
    }
    for (index, object) in objects.iter_mut().enumerate() {
        let is_workload = workloads.iter().any(|workload| workload.index == index);
        if redirect(&mut object.value, &own, &name) && !is_workload {
            object.rename(shared(&object.name))?;
        }
    }
    Ok(())
}

/// Removes the keys that select the pods of one Release.
fn select_all(service: &mut Object, release: &str) -> Result<(), Error> {
    let selector = service.texts(&["spec", "selector"])?;
    let single = selector
        .iter()
        .filter(|(key, value)| **key != SELECTOR_HELM_RELEASE && value.contains(release));
    let single: Vec<_> = single.map(|(key, _)| (*key).to_owned()).collect();
    if !single.is_empty() {
        let selector = service.map(&["spec", "selector"])?;
        selector.retain(|key, _| !single.contains(key));
    }
    Ok(())
}

/// Refuses a Service that changes with each Release, because a name is shortened, for example.
fn refuse_others(service: &Object, installation: Installation) -> Result<(), Error> {
    let hash = installation.labels.get(LABEL_RELEASE_HASH);
    let Some(hash) = hash.filter(|hash| !hash.is_empty()) else {
        return Ok(());
    };
    let selector = service.texts(&["spec", "selector"])?;
    let selector = selector
        .iter()
        .filter(|(key, _)| **key != SELECTOR_HELM_RELEASE)
        .map(|(key, value)| (format!("spec.selector[{key}]"), *value));
    let name = ("metadata.name".to_owned(), &*service.name);
    let mut fields = std::iter::once(name).chain(selector);
    let field = fields.find(|(_, value)| value.contains(&**hash));
    field.map_or(Ok(()), |(field, value)| {
        Err(Error::PerRelease {
            service: service.name.clone(),
            field,
            value: value.to_owned(),
        })
    })
}

/// Replaces the references to a Service in an object. Returns true if there are any.
///
/// References are `serviceName`, `service.name`, and the `name` in a map with the kind `Service`, or
/// in one without a kind in `backendRefs` or `services`. These are the forms of Ingress, of the
/// routes of the Gateway API, of Routes of `OpenShift`, and of Traefik.
fn redirect(value: &mut Value, from: &str, to: &str) -> bool {
    let mut found = false;
    match value {
        Value::Array(items) => {
            for item in items {
                found |= redirect(item, from, to);
            }
        }
        Value::Object(map) => {
            if map.get("kind").is_some_and(|kind| kind == "Service")
                && !map.contains_key("metadata")
            {
                found |= replace(map.get_mut("name"), from, to);
            }
            for (key, value) in map {
                found |= match &**key {
                    "serviceName" => replace(Some(value), from, to),
                    "service" => replace(value.get_mut("name"), from, to),
                    "backendRefs" | "services" => {
                        let mut is_named = false;
                        for item in value.as_array_mut().into_iter().flatten() {
                            if item.get("kind").is_none() {
                                is_named |= replace(item.get_mut("name"), from, to);
                            }
                        }
                        is_named
                    }
                    _ => false,
                };
                found |= redirect(value, from, to);
            }
        }
        _ => {}
    }
    found
}

fn replace(name: Option<&mut Value>, from: &str, to: &str) -> bool {
    let Some(name) = name.filter(|name| **name == from) else {
        return false;
    };
    *name = to.into();
    true
}
