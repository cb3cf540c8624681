//! The Service that balances between the pods of all Releases.

use baton_apis::constants::shipper::{
    LABEL_APP, LABEL_HELM_WORKAROUND, LABEL_LB, LB_PRODUCTION, SELECTOR_HELM_RELEASE,
};
use serde_json::{Map, Value};

use super::{Error, Installation, object::Object};
use crate::traffic::selector::Selector;

/// The index of the one Service with the label, or else of the only Service.
pub(super) fn find(objects: &[Object]) -> Result<usize, Error> {
    let all = objects
        .iter()
        .enumerate()
        .filter(|(_, object)| object.is("v1", "Service"));
    let places = |labelled: bool| {
        let is_labelled =
            |object: &Object| object.at(&["metadata", "labels", LABEL_LB]) == LB_PRODUCTION;
        let found = all
            .clone()
            .filter(move |(_, object)| !labelled || is_labelled(object));
        found.map(|(index, _)| index).collect::<Vec<_>>()
    };
    let labelled = places(true);
    match (&labelled[..], &places(false)[..]) {
        ([index], _) | ([], [index]) => Ok(*index),
        _ => Err(Error::Balancers {
            found: labelled.len(),
        }),
    }
}

/// Adds the label to the Service, and makes the Service select the pods of all Releases that should
/// have traffic. Returns the field that traffic shifting changes.
pub(super) fn select_by_traffic(
    object: &mut Object,
    installation: Installation,
) -> Result<Vec<String>, Error> {
    let path = ["spec", "selector"];
    let helm = object
        .texts(&path)?
        .get(SELECTOR_HELM_RELEASE)
        .map(|value| (*value).to_owned());
    if let Some(helm) = helm {
        match installation
            .labels
            .get(LABEL_HELM_WORKAROUND)
            .map(String::as_str)
        {
            Some("true") => {
                if helm == installation.name {
                    object.map(&path)?.remove(SELECTOR_HELM_RELEASE);
                }
            }
            None | Some("false") => {
                return Err(Error::HelmRelease {
                    service: object.name.clone(),
                });
            }
            Some(other) => return Err(Error::Workaround(other.to_owned())),
        }
    }
    let label = |map: &mut Map<String, Value>, key: &str, value: &str| {
        map.insert(key.to_owned(), Value::String(value.to_owned()));
    };
    label(
        object.map(&["metadata", "labels"])?,
        LABEL_LB,
        LB_PRODUCTION,
    );
    let selector = object.map(&path)?;
    if let Some(app) = installation.labels.get(LABEL_APP) {
        label(selector, LABEL_APP, app);
    }
    for (key, value) in Selector::Label.keys() {
        match value {
            Some(value) => label(selector, key, value),
            None => {
                selector.remove(key);
            }
        }
    }
    // The API server treats a selector as one value, even if only one key changes.
    Ok(vec![".spec.selector".to_owned()])
}
