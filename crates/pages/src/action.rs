//! Changes of rollouts that pages lead to.

use baton_apis::url::escape;
use maud::{Markup, html};
use strum::{EnumString, IntoStaticStr};

/// A change of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Action {
    /// Pauses a deployment, a revision, an Application or a deployment to sites.
    Pause,
    /// Ends a pause.
    Resume,
    /// Returns to an earlier revision, Release or version.
    Rollback,
    /// Goes on to the next step, or to all sites.
    Promote,
    /// Ends the rollout of an Application or to sites.
    Abort,
    /// Selects the sites of a deployment again.
    Redeploy,
    /// Leaves the objects of a revision that cannot delete them.
    Abandon,
}

impl Action {
    /// The words on the button, before the name of the object.
    pub fn words(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Rollback => "Roll back",
            Self::Promote => "Promote",
            Self::Abort => "Abort the rollout of",
            Self::Redeploy => "Select the sites again of",
            Self::Abandon => "Abandon the objects of",
        }
    }
}

/// A link to the page of a change, with fields for it.
pub fn link(page: &str, action: Action, fields: &[(&str, &str)], words: &str) -> Markup {
    let name: &str = action.into();
    let fields = fields.iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}={}", escape(value)))
        .collect();
    let query = if fields.is_empty() {
        String::new()
    } else {
        format!("?{}", fields.join("&"))
    };
    html! { a.act href={ (page) "/actions/" (name) (query) } { (words) } }
}
