//! Answers a question by watches: once at the start, and again after every change.

use std::mem;

use baton_view::lists::{Cause, ListRequest, ListsToRead, Necessity, NoAnswer, Question};
use futures::StreamExt as _;

use crate::{
    error::ClusterError,
    lists::{discover, ends_reading, failed, insert, read},
    requests::Cluster,
    watches::Watches,
};

/// Follows the answer to a question.
pub struct Follower<Q: Question> {
    reader: Reader<Q>,
    last: Q::Answer,
    /// The lists of the last answer.
    of_last: Vec<(ListRequest, Option<Cause>)>,
    /// True if the last answer is about the present state of the watches.
    is_current: bool,
    /// The reason that there is no answer about the present state, although all lists were read.
    unreadable: Option<String>,
}

/// Reads the lists of a question by watches.
struct Reader<Q> {
    cluster: Cluster,
    question: Q,
    watches: Watches,
    /// The lists that the answer requires.
    required: Vec<ListRequest>,
}

impl<Q: Question> Follower<Q> {
    /// Starts watching, and answers the question once. The answer is in [`Follower::last`].
    ///
    /// # Errors
    /// Those of a single read. A named object is read without the right to list it, if there is the right
    /// to get it; its later changes are not reported then.
    pub async fn start(cluster: &Cluster, question: Q) -> Result<Self, ClusterError> {
        let mut reader = Reader {
            watches: Watches::new(cluster, Q::trim, Q::PAGE),
            cluster: cluster.clone(),
            required: Vec::new(),
            question,
        };
        let last = reader.first().await?;
        Ok(Self {
            of_last: reader.lists(),
            reader,
            last,
            is_current: false,
            unreadable: None,
        })
    }

    /// Returns the last answer.
    #[must_use]
    pub fn into_last(self) -> Q::Answer {
        self.last
    }

    /// The last answer.
    #[must_use]
    pub fn last(&self) -> &Q::Answer {
        &self.last
    }

    /// Waits for the next change. Returns true while the object of the question exists. While a
    /// required list cannot be watched, or the object cannot be parsed, the last answer stays: an
    /// object that cannot be read was not deleted.
    ///
    /// Dropping the future loses no change: the next call goes on.
    pub async fn next(&mut self) -> bool {
        loop {
            let reader = &mut self.reader;
            if self.is_current || !reader.watches.is_complete() {
                reader.watches.changed().await;
                if mem::take(&mut self.is_current) {
                    reader.watches.lists.forget_absent(&reader.required);
                }
            }
            let (answer, to_read) = reader.ask();
            if matches!(answer, Err(NoAnswer::Unread)) {
                // A list that cannot be read has its reason.
                let _ = reader.read(to_read).await;
                continue;
            }
            self.is_current = true;
            self.unreadable = None;
            if reader.trouble().is_some() {
                return true;
            }
            match answer {
                Ok(answer) => {
                    reader.watches.set(to_read.lists.into_keys());
                    self.of_last = reader.lists();
                    self.last = answer;
                }
                Err(NoAnswer::Missing(_)) => return false,
                // The lists of the last answer are watched on.
                Err(NoAnswer::Unreadable(why)) => self.unreadable = Some(why),
                Err(NoAnswer::Unread) => {}
            }
            return true;
        }
    }

    /// The reason that the last answer is not up to date, if so: a required list cannot be watched at
    /// the moment, or the object cannot be parsed.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.reader.trouble().or(self.unreadable.as_deref())
    }

    /// True if the right to a required list is missing now.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let lists = &self.reader.watches.lists;
        let mut required = self.reader.required.iter();
        required.any(|request| {
            let cause = lists.get(request).and_then(|list| list.cause);
            cause == Some(Cause::Forbidden)
        })
    }

    /// The lists of the last answer, each with the cause that it could not be read, if there was one.
    pub fn lists(&self) -> impl Iterator<Item = (&ListRequest, Option<Cause>)> {
        let lists = self.of_last.iter();
        lists.map(|(request, cause)| (request, *cause))
    }
}

impl<Q: Question> Reader<Q> {
    /// The first answer.
    async fn first(&mut self) -> Result<Q::Answer, ClusterError> {
        loop {
            let (answer, to_read) = self.ask();
            match answer {
                Ok(answer) => {
                    self.watches.set(to_read.lists.into_keys());
                    return Ok(answer);
                }
                Err(NoAnswer::Missing(missing)) => {
                    return Err(ClusterError::NotFound(missing.to_string()));
                }
                Err(NoAnswer::Unreadable(why)) => return Err(ClusterError::Impossible(why)),
                Err(NoAnswer::Unread) => {}
            }
            if let Some(error) = self.read(to_read).await {
                return Err(error);
            }
            let required = &self.required;
            let completed = self.watches.completed(|it| required.contains(it));
            if let Err((request, error)) = completed.await {
                self.get(request, error).await?;
            }
        }
    }

    /// Reads a named object that could not be listed, as a right to get it may be all that the user has.
    async fn get(&mut self, request: ListRequest, error: ClusterError) -> Result<(), ClusterError> {
        if request.query.name.is_none() || !error.is_code(403) {
            return Err(error);
        }
        let mut reads = read(&self.cluster, [request.clone()], Q::trim);
        while let Some((requests, list)) = reads.next().await {
            insert(&mut self.watches.lists, requests, &list?);
        }
        self.watches.read_once(request);
        Ok(())
    }

    /// Asks the question, and notes the lists that its answer requires.
    fn ask(&mut self) -> (Result<Q::Answer, NoAnswer>, ListsToRead) {
        let answer = self.question.answer(&self.watches.lists);
        let to_read = self.watches.lists.take_requests();
        let warnings = to_read.warnings.iter();
        warnings.for_each(|text| self.cluster.warn(text));
        let required = to_read.lists.iter();
        let required = required.filter(|(_, need)| **need == Necessity::Required);
        self.required = required.map(|(request, _)| request.clone()).collect();
        (answer, to_read)
    }

    /// Reads lists that are not watched, and watches the others. Existing watches go on, because
    /// their lists show which further lists are needed. Returns the error of a read without which
    /// there is no answer.
    async fn read(&mut self, to_read: ListsToRead) -> Option<ClusterError> {
        let lists = &mut self.watches.lists;
        discover(&self.cluster, lists, to_read.kinds).await;
        let unread = to_read.lists.keys().filter(|it| lists.get(it).is_none());
        let immutable = unread.filter(|it| it.query.is_immutable).cloned();
        let immutable: Vec<ListRequest> = immutable.collect();
        let mut reads = read(&self.cluster, immutable, Q::trim);
        let mut fatal = None;
        while let Some((requests, list)) = reads.next().await {
            let list = list.unwrap_or_else(|error| {
                let list = failed(&error);
                if ends_reading(&error) || requests.iter().any(|it| self.required.contains(it)) {
                    fatal.get_or_insert(error);
                }
                list
            });
            insert(lists, requests, &list);
        }
        self.watches.add(to_read.lists.into_keys());
        fatal
    }

    /// The lists that are watched or were read.
    fn lists(&self) -> Vec<(ListRequest, Option<Cause>)> {
        let lists = self.watches.lists.iter();
        lists
            .map(|(request, list)| (request.clone(), list.cause))
            .collect()
    }

    /// The reason that a required list cannot be watched at the moment, if so.
    fn trouble(&self) -> Option<&str> {
        let mut required = self.required.iter();
        required.find_map(|request| self.watches.trouble(request))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use baton_view::{
        selection::Selection,
        tree::question::{Tree, TreeOf},
    };
    use futures::future::pending;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::lists::once;

    const SETS: &str = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectsets";
    const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

    /// The objects of a server, by the paths of collections, and the requests that it got.
    #[derive(Default)]
    struct Recording {
        objects: Vec<(&'static str, Value)>,
        requests: Vec<String>,
    }

    impl Recording {
        fn answer(&mut self, uri: &http::Uri) -> Option<(u16, Value)> {
            let query = uri.query().unwrap_or_default().replace("%3D", "=");
            self.requests.push(format!("{}?{query}", uri.path()));
            if query.contains("watch=true") {
                return None;
            }
            if uri.path() == "/api/v1" {
                let maps = json!({
                    "name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["list", "watch"],
                });
                return Some((200, json!({"kind": "APIResourceList", "resources": [maps]})));
            }
            if let Some((collection, name)) = uri.path().rsplit_once('/')
                && name.contains('-')
            {
                let mut objects = self.objects.iter();
                let found = objects
                    .find(|(path, it)| *path == collection && it["metadata"]["name"] == name);
                let missing = json!({"kind": "Status", "code": 404, "details": {"name": name}});
                return Some(found.map_or((404, missing), |(_, it)| (200, it.clone())));
            }
            let selected = |object: &Value| {
                let labels = &object["metadata"]["labels"];
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                (!query.contains("fieldSelector")
                    || query.contains(&format!("metadata.name={name}")))
                    && (!query.contains("labelSelector") || labels.is_object())
            };
            let of_path = self.objects.iter().filter(|(path, _)| *path == uri.path());
            let items: Vec<&Value> = of_path
                .map(|(_, it)| it)
                .filter(|it| selected(it))
                .collect();
            let list = json!({
                "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
            });
            Some((200, list))
        }
    }

    fn cluster(recording: Arc<Mutex<Recording>>) -> Cluster {
        let answer = move |request: Request<Body>| {
            let answer = recording.lock().unwrap().answer(request.uri());
            async move {
                let (code, body) = match answer {
                    Some(answer) => answer,
                    // A watch without changes.
                    None => pending().await,
                };
                let response = Response::builder().status(code);
                Ok::<_, Infallible>(
                    response
                        .body(Body::from(body.to_string().into_bytes()))
                        .unwrap(),
                )
            }
        };
        let client = kube::Client::new(tower::service_fn(answer), "shop");
        let warn = Arc::new(|_: &str| {});
        Cluster::new(client, "shop".to_owned(), "a recording".to_owned(), warn)
    }

    /// A revision with two inline objects, one object without a label, and one in a slice.
    fn recording() -> Recording {
        let api = "package-operator.run/v1alpha1";
        let object = |name: &str, labels: Value| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels, "ownerReferences": [
                    {"apiVersion": api, "kind": "ObjectSet", "name": "web-1", "uid": "u1", "controller": true},
                ]},
            })
        };
        let managed = json!({"package-operator.run/cache": "True"});
        let wanted = |name: &str| json!({"object": object(name, json!(null))});
        let set = json!({
            "apiVersion": api, "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
            "spec": {"revision": 1, "phases": [
                {"name": "a", "objects": [wanted("map-a"), wanted("map-b"), wanted("map-lost")], "slices": ["slice-1"]},
            ]},
        });
        let slice = json!({
            "apiVersion": api, "kind": "ObjectSlice", "objects": [wanted("map-c")],
            "metadata": {"name": "slice-1", "namespace": "shop"},
        });
        let slices = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectslices";
        Recording {
            objects: vec![
                (SETS, set),
                (slices, slice),
                (MAPS, object("map-a", managed.clone())),
                (MAPS, object("map-b", json!(null))),
                (MAPS, object("map-c", managed)),
            ],
            requests: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_single_read_and_watches_have_the_same_result() {
        let recording = Arc::new(Mutex::new(recording()));
        let cluster = cluster(recording.clone());
        let question = TreeOf {
            selection: Selection {
                namespace: "shop".to_owned(),
                ..Selection::default()
            },
            ..TreeOf::default()
        };
        let read = once(&cluster, &question).await.unwrap();
        let objects = &read.chains[0].revisions[0].phases.as_ref().unwrap()[0].objects;
        let names: Vec<(&str, bool)> = objects
            .iter()
            .map(|it| (&*it.name, it.is_ready()))
            .collect();
        let ready = [
            ("map-a", true),
            ("map-b", true),
            ("map-lost", false),
            ("map-c", true),
        ];
        assert_eq!(names, ready);

        let before = recording.lock().unwrap().requests.len();
        let mut follower = Follower::start(&cluster, question).await.unwrap();
        assert_eq!(follower.last(), &read);
        follower.last = Tree::default();
        assert!(follower.next().await);
        assert_eq!(follower.last(), &read);
        let requests = &recording.lock().unwrap().requests[before..];
        let of = |path: &str| requests.iter().filter(|it| it.starts_with(path)).count();
        assert_eq!(
            of("/apis/package-operator.run/v1alpha1/namespaces/shop/objectslices"),
            1,
            "they are read, and not watched: {requests:?}"
        );
        let is_watch = |request: &&String| request.contains("watch=true");
        let watches = requests.iter().filter(is_watch).count();
        let of_sets = requests.iter().filter(|it| it.starts_with(SETS)).count();
        assert!(
            watches > 0 && of_sets == 2,
            "one list and one watch: {requests:?}"
        );
    }
}
