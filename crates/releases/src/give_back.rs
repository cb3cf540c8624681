//! Applications that were given back to Shipper: Baton writes nothing for them.

use baton_apis::{
    Application,
    constants::{ANNOTATION_GIVEN_BACK, GIVEN_BACK_REQUESTED},
};

/// The custody of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custody {
    /// Baton runs the Application.
    Ours,
    /// A user asks Baton to stop; the manager has not answered yet.
    Requested,
    /// The manager has answered.
    GivenBack,
}

impl Custody {
    /// Reads the annotation of an Application. An unknown value counts as given back, so that nothing
    /// is written by mistake.
    #[must_use]
    pub fn of(application: &Application) -> Self {
        let annotations = application.metadata.annotations.as_ref();
        match annotations.and_then(|all| all.get(ANNOTATION_GIVEN_BACK)) {
            None => Self::Ours,
            Some(value) if value == GIVEN_BACK_REQUESTED => Self::Requested,
            Some(_) => Self::GivenBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_annotation_takes_an_application_out_of_custody() {
        let custody = |annotations| {
            let template = json!({"chart": {"name": "a", "version": "1", "repoUrl": ""}});
            let application = serde_json::from_value(json!({
                "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Application",
                "metadata": {"name": "shop", "annotations": annotations},
                "spec": {"template": template},
            }));
            Custody::of(&application.unwrap())
        };
        assert_eq!(custody(json!({})), Custody::Ours);
        let with = |value: &str| custody(json!({ "baton.run/given-back": value }));
        assert_eq!(with("requested"), Custody::Requested);
        assert_eq!(with("true"), Custody::GivenBack);
        assert_eq!(with("yes"), Custody::GivenBack);
    }
}
