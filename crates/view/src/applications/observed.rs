//! An Application with its Releases and their targets, as the server returned them.

use std::collections::BTreeMap;

use baton_apis::{
    Application, CapacityTarget, InstallationTarget, Release, ReleaseEnvironment, TrafficTarget,
};
use baton_releases::application::{
    error::GenerationError,
    history::{History, generation},
};
use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::target::AppTarget;
use crate::{
    lists::{List, Lists},
    object::text_at,
};

/// An Application with all objects that belong to it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Name of the Application.
    pub name: String,
    /// Namespace of all objects.
    pub namespace: String,
    /// The Application; `None` if it was deleted and Releases remain.
    pub application: Option<Application>,
    /// Name of the Release that the user named; `None` if the user named an Application.
    pub named: Option<String>,
    /// Targets for installed objects, by Release.
    pub installation: Targets<InstallationTarget>,
    /// Targets for numbers of pods, by Release.
    pub capacity: Targets<CapacityTarget>,
    /// Targets for weights of traffic, by Release.
    pub traffic: Targets<TrafficTarget>,
    /// Releases by name.
    releases: BTreeMap<String, Release>,
    /// Releases by name, as the server returned them.
    objects: BTreeMap<String, Value>,
}

/// The targets of a kind by the name of their Release, or the reason that they cannot be read.
pub type Targets<T> = Result<BTreeMap<String, T>, String>;

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReleaseTargetKind {
    /// `InstallationTarget`
    Installation,
    /// `CapacityTarget`
    Capacity,
    /// `TrafficTarget`
    Traffic,
}

impl Observed {
    /// Assembles the Application, its Releases, and the targets for installation, capacity and
    /// traffic. Releases and targets that cannot be parsed are left out with a warning to `lists`.
    ///
    /// # Errors
    /// If the Application cannot be parsed.
    pub fn new(
        lists: &Lists,
        target: &AppTarget,
        (namespace, name): (&str, &str),
        application: Option<&Value>,
        releases: &List,
        [installation, capacity, traffic]: [&List; 3],
    ) -> Result<Self, serde_json::Error> {
        let objects = releases.objects();
        let objects = objects.map(|object| (name_of(object), object.clone()));
        Ok(Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            application: application.map(Application::deserialize).transpose()?,
            named: target.is_release().then(|| target.name.clone()),
            objects: objects.collect(),
            releases: parsed(releases, lists).collect(),
            installation: targets(installation, lists),
            capacity: targets(capacity, lists),
            traffic: targets(traffic, lists),
        })
    }

    /// The reference to the Application, as users type it.
    pub fn target(&self) -> AppTarget {
        AppTarget::application(&self.name)
    }

    /// The Releases in order, without those that have no generation.
    pub fn known_history(&self) -> History<'_> {
        History::numbered(self.releases.values())
    }

    /// The Releases in order.
    ///
    /// # Errors
    /// If a Release has no generation: the manager does nothing then, and neither do commands that
    /// write.
    pub fn history(&self) -> Result<History<'_>, GenerationError> {
        History::read(self.releases.values())
    }

    /// All Releases with their generations, oldest first. Releases without a generation come last.
    pub fn releases(&self) -> Vec<(Option<i64>, &Release)> {
        let history = self.known_history();
        let members = history.members().iter();
        let numbered = members
            .filter_map(|member| Some((Some(member.generation), self.release(member.name())?)));
        let all = self.releases.values();
        let unnumbered = all.filter(|release| generation(release).is_err());
        numbered
            .chain(unnumbered.map(|release| (None, release)))
            .collect()
    }

    /// The Release with this name.
    pub fn release(&self, name: &str) -> Option<&Release> {
        self.releases.get(name)
    }

    /// The Release with this name, as the server returned it; null if it does not exist.
    pub fn release_object(&self, name: &str) -> &Value {
        self.objects.get(name).unwrap_or(&Value::Null)
    }

    /// The environment that the Application wants now.
    pub fn template(&self) -> Option<&ReleaseEnvironment> {
        let application = self.application.as_ref()?;
        Some(&application.spec.template)
    }

    /// The Release that a command is about: the named one, or else the newest.
    pub fn subject(&self) -> Option<&Release> {
        match &self.named {
            Some(name) => self.release(name),
            None => self.release(self.known_history().newest()?.name()),
        }
    }
}

fn name_of(object: &Value) -> String {
    text_at(object, "/metadata/name").to_owned()
}

fn targets<T: DeserializeOwned>(list: &List, lists: &Lists) -> Targets<T> {
    match &list.trouble {
        Some(why) => Err(why.clone()),
        None => Ok(parsed(list, lists).collect()),
    }
}

/// The objects of a list with their names. Those that cannot be parsed are left out with a warning.
pub(super) fn parsed<T: DeserializeOwned>(
    list: &List,
    lists: &Lists,
) -> impl Iterator<Item = (String, T)> {
    list.objects().filter_map(|object| {
        let name = name_of(object);
        match T::deserialize(object) {
            Ok(parsed) => Some((name, parsed)),
            Err(error) => {
                let kind = text_at(object, "/kind");
                lists.warn(format!("{kind} {name} cannot be read: {error}"));
                None
            }
        }
    })
}
