//! An Application as a question to lists.

use baton_apis::{
    constants::shipper::LABEL_APP,
    kinds::{self, Kind},
};
use baton_engine::names::is_label_value;

use super::{observed::Observed, target::AppTarget};
use crate::lists::{List, ListQuery, ListRequest, Lists, MissingObject, NoAnswer, Question};

/// The question for the Application that a user named, or for that of a named Release, with all
/// that belongs to it.
#[derive(Clone, Debug)]
pub struct OneApplication {
    /// The named Application or Release.
    pub target: AppTarget,
    /// The namespace to search.
    pub namespace: String,
}

impl OneApplication {
    fn request(&self, kind: &Kind, query: ListQuery) -> ListRequest {
        ListRequest::new(kind.path(Some(&self.namespace)), query)
    }

    fn missing(&self) -> NoAnswer {
        NoAnswer::Missing(MissingObject::Object {
            plurals: vec![self.target.kind.plural],
            name: self.target.name.clone(),
            namespace: Some(self.namespace.clone()),
        })
    }

    /// Name of the Application; for a Release, that of its label.
    fn application(&self, lists: &Lists) -> Result<String, NoAnswer> {
        let target = &self.target;
        if !target.is_release() {
            return Ok(target.name.clone());
        }
        let request = self.request(&kinds::RELEASE, ListQuery::named(&target.name));
        let release = lists.required(&request)?.first();
        let label = &release.ok_or_else(|| self.missing())?["metadata"]["labels"][LABEL_APP];
        let name = label.as_str().filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| {
            NoAnswer::Unreadable(format!(
                "{target} belongs to no application: it lacks the label {LABEL_APP}"
            ))
        })
    }
}

impl Question for OneApplication {
    type Answer = Observed;

    fn answer(&self, lists: &Lists) -> Result<Observed, NoAnswer> {
        let name = self.application(lists)?;
        let application = self.request(&kinds::APPLICATION, ListQuery::named(&name));
        let application = lists.required(&application);
        // A name that is no valid label value labels no object.
        let labels = is_label_value(&name).then(|| format!("{LABEL_APP}={name}"));
        let none = List::default();
        let labelled = |kind| {
            let labels = labels.as_ref()?;
            Some(self.request(kind, ListQuery::labelled(labels)))
        };
        let optional = |kind| labelled(kind).map_or(Ok(&none), |request| lists.optional(&request));
        let releases = labelled(&kinds::RELEASE);
        let releases = releases.map_or(Ok(&none), |request| lists.required(&request));
        let installation = optional(&kinds::INSTALLATION_TARGET);
        let capacity = optional(&kinds::CAPACITY_TARGET);
        let traffic = optional(&kinds::TRAFFIC_TARGET);
        let application = application?.first();
        let key = (self.namespace.as_str(), name.as_str());
        let observed = Observed::new(
            lists,
            &self.target,
            key,
            application,
            releases?,
            [installation?, capacity?, traffic?],
        )
        .map_err(|error| {
            NoAnswer::Unreadable(format!("application {name} cannot be read: {error}"))
        })?;
        let exists = match &observed.named {
            Some(release) => !observed.release_object(release).is_null(),
            None => application.is_some(),
        };
        exists.then_some(observed).ok_or_else(|| self.missing())
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::shipper::API_VERSION;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": kind,
            "metadata": { "name": name, "namespace": "ns", "labels": { "shipper-app": "shop" } },
            "spec": {
                "targetStep": 0,
                "environment": {
                    "chart": { "name": "x", "version": "1", "repoUrl": "" }, "clusterRequirements": {},
                },
                "template": {
                    "chart": { "name": "x", "version": "1", "repoUrl": "" }, "clusterRequirements": {},
                },
            },
        })
    }

    /// The answer from these objects, without the right to read targets, and the number of lists
    /// that each round requests.
    fn ask(
        kind: &'static Kind,
        name: &str,
        objects: &[Value],
    ) -> (Result<Observed, NoAnswer>, Vec<usize>) {
        let question = OneApplication {
            target: AppTarget {
                kind,
                name: name.to_owned(),
            },
            namespace: "ns".to_owned(),
        };
        let (mut lists, mut rounds) = (Lists::default(), Vec::new());
        loop {
            match question.answer(&lists) {
                Err(NoAnswer::Unread) => {}
                answer => return (answer, rounds),
            }
            let mut unread = lists.take_requests().lists;
            unread.retain(|request, _| lists.get(request).is_none());
            rounds.push(unread.len());
            for request in unread.into_keys() {
                let kind = request.path.rsplit('/').next().unwrap();
                let of_kind = objects.iter().filter(|object| {
                    let is_named = request.query.name.iter();
                    let own = object["kind"].as_str().unwrap().to_lowercase() + "s";
                    own == kind
                        && is_named
                            .clone()
                            .all(|name| object["metadata"]["name"] == **name)
                });
                let list = match kind {
                    "applications" | "releases" => of_kind.cloned().collect(),
                    _ => List::unreadable("forbidden".to_owned()),
                };
                lists.insert(request, list);
            }
        }
    }

    #[test]
    fn independent_requests_are_sent_in_one_round() {
        let objects = [object("Application", "shop"), object("Release", "shop-1")];
        let (observed, rounds) = ask(&kinds::APPLICATION, "shop", &objects);
        let observed = observed.unwrap();
        assert_eq!(rounds, [5]);
        assert!(observed.release("shop-1").is_some());
        assert_eq!(observed.traffic.err().as_deref(), Some("forbidden"));
        let (observed, rounds) = ask(&kinds::RELEASE, "shop-1", &objects);
        assert_eq!(rounds, [1, 5]);
        assert_eq!(observed.unwrap().named.as_deref(), Some("shop-1"));
    }

    #[test]
    fn a_named_object_that_is_missing_is_an_error() {
        let release = object("Release", "shop-1");
        let missing = |kind, name, objects: &[Value]| match ask(kind, name, objects).0 {
            Err(NoAnswer::Missing(missing)) => missing.to_string(),
            answer => format!("{answer:?}"),
        };
        assert_eq!(
            missing(&kinds::APPLICATION, "shop", std::slice::from_ref(&release)),
            "applications \"shop\" not found in namespace \"ns\""
        );
        assert_eq!(
            missing(&kinds::RELEASE, "shop-1", &[]),
            "releases \"shop-1\" not found in namespace \"ns\""
        );
        // The Application was deleted, and its Release remains.
        let (observed, _) = ask(&kinds::RELEASE, "shop-1", std::slice::from_ref(&release));
        assert!(observed.unwrap().application.is_none());
        let mut nobodys = release;
        nobodys["metadata"]["labels"] = Value::Null;
        let (answer, _) = ask(&kinds::RELEASE, "shop-1", &[nobodys]);
        let lacks = "rel/shop-1 belongs to no application: it lacks the label shipper-app";
        assert_eq!(answer.unwrap_err(), NoAnswer::Unreadable(lacks.to_owned()));
    }

    #[test]
    fn a_name_that_is_no_label_has_no_releases() {
        let name = "x".repeat(64);
        let objects = [object("Application", &name)];
        let (observed, rounds) = ask(&kinds::APPLICATION, &name, &objects);
        assert_eq!(rounds, [1]);
        assert!(observed.unwrap().releases().is_empty());
    }
}
