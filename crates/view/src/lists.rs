//! Lists of objects, and questions that are answered from them.
//!
//! A [`Question`] takes the lists that it needs out of [`Lists`]. A list that was not read yet is
//! noted as requested. A driver reads the requested lists, once or by watches, and asks the
//! question again until there is an answer.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
};

use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};
use baton_engine::Gvk;
use serde_json::Value;

use crate::{
    object::namespaced_name,
    served::{MAX_SINGLE_READS, Served, Unserved},
};

/// A collection, a part of a collection, or one object of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListRequest {
    /// URL path of the collection.
    pub path: String,
    /// The objects of the collection to read, and their form.
    pub query: ListQuery,
}

impl ListRequest {
    /// All objects of a collection.
    #[must_use]
    pub fn all(path: impl Into<String>) -> Self {
        Self::new(path, ListQuery::default())
    }

    /// One object of a collection, read by a list of one: a user with the right to list needs no
    /// right to get.
    #[must_use]
    pub fn of_one(path: impl Into<String>, name: &str) -> Self {
        Self::new(path, ListQuery::of_one(name))
    }

    /// One object of a collection.
    #[must_use]
    pub fn named(path: impl Into<String>, name: &str) -> Self {
        Self::new(path, ListQuery::named(name))
    }

    /// The objects of a collection with these labels, in the syntax of the API.
    #[must_use]
    pub fn labelled(path: impl Into<String>, labels: impl Into<String>) -> Self {
        Self::new(path, ListQuery::labelled(labels))
    }

    /// One object of a collection whose objects never change.
    #[must_use]
    pub fn immutable(path: impl Into<String>, name: &str) -> Self {
        let query = ListQuery {
            is_immutable: true,
            ..ListQuery::named(name)
        };
        Self::new(path, query)
    }

    /// A request for the part of a collection that `query` describes.
    #[must_use]
    pub fn new(path: impl Into<String>, query: ListQuery) -> Self {
        Self {
            path: path.into(),
            query,
        }
    }
}

/// The number of objects of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This one.
    Exactly(u64),
    /// More than this one, as the server does not report how many more.
    MoreThan(u64),
}

impl Count {
    /// The number of those that are known.
    pub fn least(self) -> u64 {
        match self {
            Self::Exactly(count) | Self::MoreThan(count) => count,
        }
    }
}

/// The objects of a collection to read, and their form.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListQuery {
    /// Name of the only object to read. The object is read without a list.
    pub name: Option<String>,
    /// Label selector, in the syntax of the API.
    pub labels: Option<String>,
    /// Field selector, in the syntax of the API.
    pub fields: Option<String>,
    /// True if only the metadata is read, without specs and statuses.
    pub metadata_only: bool,
    /// True if the objects never change: they are read once, even while other collections are
    /// watched.
    pub is_immutable: bool,
}

impl ListQuery {
    /// A query for the object with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// The object with this name, read by a list of one.
    #[must_use]
    pub fn of_one(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            ..Self::default()
        }
    }

    /// The objects with these labels, in the syntax of the API.
    #[must_use]
    pub fn labelled(labels: impl Into<String>) -> Self {
        Self {
            labels: Some(labels.into()),
            ..Self::default()
        }
    }

    /// The objects with the label of everything that revisions write.
    #[must_use]
    pub fn managed() -> Self {
        Self::labelled(format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}"))
    }
}

/// A question of a user, answered from lists alone.
pub trait Question {
    /// The type of the answer.
    type Answer;

    /// The number of objects in a page of a watched list. Pages are read one after the other, and each
    /// costs the server about a tenth of a second; a page of large objects takes much memory.
    const PAGE: u32 = 500;

    /// Answers the question from the lists that were read. The question requests a further list by
    /// looking it up; lists that do not depend on each other are looked up before the first `?`, so
    /// that they are read concurrently.
    ///
    /// # Errors
    /// If there is no answer yet, or if there will be none.
    fn answer(&self, lists: &Lists) -> Result<Self::Answer, NoAnswer>;

    /// Removes the fields of an object that the question does not read, for collections that are
    /// too large to be stored whole.
    fn trim(_object: &mut Value) {}
}

/// The reason that a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// A requested list was not read yet.
    Unread,
    /// The object that the question is about does not exist.
    Missing(MissingObject),
    /// The object that the question is about cannot be parsed as its kind.
    Unreadable(String),
}

/// A requested object that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingObject {
    /// An object.
    Object {
        /// The kinds that were searched, by their plurals.
        plurals: Vec<&'static str>,
        /// Name of the object.
        name: String,
        /// The namespace that was searched; `None` for cluster-scoped kinds.
        namespace: Option<String>,
    },
    /// A revision with this number.
    Revision(i64),
}

/// Prints the error in the words of kubectl.
impl fmt::Display for MissingObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object {
                plurals,
                name,
                namespace,
            } => {
                write!(f, "{} {name:?} not found", plurals.join(" or "))?;
                match namespace {
                    Some(namespace) => write!(f, " in namespace {namespace:?}"),
                    None => Ok(()),
                }
            }
            Self::Revision(number) => write!(f, "there is no revision {number}"),
        }
    }
}

/// The consequence of a list that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Necessity {
    /// The question receives the reason, and has an answer nevertheless.
    Optional,
    /// The question has no answer without the list.
    Required,
}

/// Collections that were read, and the requests of questions.
#[derive(Debug, Default)]
pub struct Lists {
    read: BTreeMap<ListRequest, List>,
    /// The location where each kind is served, or the reason that it is unknown.
    served: BTreeMap<Gvk, Result<Served, Unserved>>,
    to_read: RefCell<ListsToRead>,
}

/// The requests of questions since the last call of [`Lists::take_requests`].
#[derive(Debug, Default)]
pub struct ListsToRead {
    /// The requested lists, including those that were read already.
    pub lists: BTreeMap<ListRequest, Necessity>,
    /// Kinds without a known location.
    pub kinds: BTreeSet<Gvk>,
    /// Warnings to print besides the answer, such as objects that were left out.
    pub warnings: BTreeSet<String>,
}

/// A collection as it was last read.
#[derive(Clone, Debug, Default)]
pub struct List {
    objects: BTreeMap<(String, String), Value>,
    /// The reason that the collection cannot be read at the moment; the objects are those of the
    /// last read.
    pub trouble: Option<String>,
    /// The cause of `trouble`, if it is one of these.
    pub cause: Option<Cause>,
}

/// The reason that a collection cannot be read, if answers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kind of the objects is not served, so there are none.
    Unserved,
    /// The user has no right to read the objects.
    Forbidden,
}

impl Lists {
    /// A list that the answer requires. If the list cannot be read, a single read fails, and
    /// watches keep the last answer.
    ///
    /// # Errors
    /// If the list was not read yet.
    pub fn required(&self, request: &ListRequest) -> Result<&List, NoAnswer> {
        self.ask(request, Necessity::Required)
    }

    /// A list that the answer can do without. [`List::trouble`] is the reason that it cannot be
    /// read.
    ///
    /// # Errors
    /// If the list was not read yet.
    pub fn optional(&self, request: &ListRequest) -> Result<&List, NoAnswer> {
        self.ask(request, Necessity::Optional)
    }

    /// A list with this need.
    ///
    /// # Errors
    /// If the list was not read yet.
    pub fn ask(&self, request: &ListRequest, need: Necessity) -> Result<&List, NoAnswer> {
        let lists = &mut self.to_read.borrow_mut().lists;
        let strongest = lists.entry(request.clone()).or_insert(need);
        *strongest = need.max(*strongest);
        self.get(request).ok_or(NoAnswer::Unread)
    }

    /// The location where a kind is served, or the reason that the kind cannot be read.
    ///
    /// # Errors
    /// If the location was not requested from the server yet.
    pub fn served(&self, gvk: &Gvk) -> Result<Result<&Served, &Unserved>, NoAnswer> {
        let Some(served) = self.served.get(gvk) else {
            self.to_read.borrow_mut().kinds.insert(gvk.clone());
            return Err(NoAnswer::Unread);
        };
        Ok(served.as_ref())
    }

    /// Adds a warning to the answer. It is shown once, however often the question is asked.
    pub fn warn(&self, warning: impl Into<String>) {
        self.to_read.borrow_mut().warnings.insert(warning.into());
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> ListsToRead {
        mem::take(&mut self.to_read.borrow_mut())
    }

    /// A collection as it was last read; `None` if it was not read yet.
    pub fn get(&self, request: &ListRequest) -> Option<&List> {
        self.read.get(request)
    }

    /// All collections as they were last read.
    pub fn iter(&self) -> impl Iterator<Item = (&ListRequest, &List)> {
        self.read.iter()
    }

    /// A collection as it was last read, to be changed.
    pub fn get_mut(&mut self, request: &ListRequest) -> Option<&mut List> {
        self.read.get_mut(request)
    }

    /// Stores a collection that was read.
    pub fn insert(&mut self, request: ListRequest, list: List) {
        self.read.insert(request, list);
    }

    /// Stores the location where a kind is served, or the reason that it is unknown.
    pub fn insert_served(&mut self, gvk: Gvk, served: Result<Served, Unserved>) {
        self.served.insert(gvk, served);
    }

    /// Drops the collections for which the predicate is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&ListRequest) -> bool) {
        self.read.retain(|request, _| keep(request));
    }

    /// Drops absent results that no watch updates: kinds that were not served, and those of the
    /// `required` immutable objects that were not found. Both may exist by now.
    pub fn forget_absent(&mut self, required: &[ListRequest]) {
        self.served.retain(|_, served| served.is_ok());
        self.read.retain(|request, list| {
            let has_failed = list.trouble.is_some() && list.cause.is_none();
            let is_absent = list.first().is_none() && required.contains(request);
            !request.query.is_immutable || !(has_failed || is_absent)
        });
    }
}

/// All requested values. Each of them is requested, even if an earlier one was not read yet.
///
/// # Errors
/// If one of the values was not read yet.
pub fn join_all<T>(
    results: impl IntoIterator<Item = Result<T, NoAnswer>>,
) -> Result<Vec<T>, NoAnswer> {
    let results: Vec<_> = results.into_iter().collect();
    results.into_iter().collect()
}

/// The requests to send, each with the requests that it answers: many immutable objects of a
/// collection are read by one list.
pub fn requests(
    wanted: impl IntoIterator<Item = ListRequest>,
) -> Vec<(ListRequest, Vec<ListRequest>)> {
    let mut immutable: BTreeMap<String, Vec<ListRequest>> = BTreeMap::new();
    let mut requests = Vec::new();
    for request in wanted {
        if request.query.is_immutable {
            let of_collection = immutable.entry(request.path.clone()).or_default();
            of_collection.push(request);
        } else {
            requests.push((request.clone(), vec![request]));
        }
    }
    for (path, of_collection) in immutable {
        if of_collection.len() > MAX_SINGLE_READS {
            requests.push((ListRequest::all(path), of_collection));
        } else {
            let each = of_collection.into_iter();
            requests.extend(each.map(|request| (request.clone(), vec![request])));
        }
    }
    requests
}

impl List {
    /// A list that cannot be read, for this reason.
    #[must_use]
    pub fn unreadable(why: String) -> Self {
        Self {
            trouble: Some(why),
            ..Self::default()
        }
    }

    /// A list that cannot be read, for this reason and by this cause.
    #[must_use]
    pub fn failed(why: String, cause: Option<Cause>) -> Self {
        Self {
            cause,
            ..Self::unreadable(why)
        }
    }

    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// The only object, or the first one; `None` for an empty list.
    pub fn first(&self) -> Option<&Value> {
        self.objects().next()
    }

    /// The objects with this name; all objects if the name is `None`.
    #[must_use]
    pub fn named(&self, name: Option<&str>) -> Self {
        let objects = self.objects.iter();
        let is_named = |(_, own): &(String, String)| name.is_none_or(|name| own == name);
        let objects = objects.filter(|(namespaced_name, _)| is_named(namespaced_name));
        Self {
            objects: objects
                .map(|(namespaced_name, it)| (namespaced_name.clone(), it.clone()))
                .collect(),
            trouble: self.trouble.clone(),
            cause: self.cause,
        }
    }

    /// Copies of the objects.
    pub fn cloned(&self) -> Vec<Value> {
        self.objects().cloned().collect()
    }

    /// Adds or replaces an object.
    pub fn insert(&mut self, object: Value) {
        self.objects.insert(namespaced_name(&object), object);
    }

    /// Removes an object.
    pub fn remove(&mut self, object: &Value) {
        self.objects.remove(&namespaced_name(object));
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        let mut list = Self::default();
        objects.into_iter().for_each(|object| list.insert(object));
        list
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads the values of the objects that the first list names, if they can be read.
    struct Follow;

    impl Question for Follow {
        type Answer = Vec<String>;

        fn answer(&self, lists: &Lists) -> Result<Vec<String>, NoAnswer> {
            let (names, extra) = (
                lists.required(&ListRequest::all("/names")),
                lists.optional(&ListRequest::all("/extra")),
            );
            let (names, extra) = (names?, extra?);
            if names.first().is_none() {
                lists.warn("there are no names");
            }
            let wanted = names
                .objects()
                .map(|it| ListRequest::named("/values", namespaced_name(it).1.as_str()));
            let values = join_all(wanted.map(|it| lists.required(&it)))?;
            let values = values.into_iter().filter_map(List::first);
            let values = values.map(|value| namespaced_name(value).1);
            Ok(values.chain(extra.trouble.clone()).collect())
        }
    }

    fn object(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn a_question_sends_its_requests_in_concurrent_rounds() {
        let mut lists = Lists::default();
        assert_eq!(Follow.answer(&lists), Err(NoAnswer::Unread));
        let to_read = lists.take_requests().lists;
        let (extra, names) = (ListRequest::all("/extra"), ListRequest::all("/names"));
        let expected = [
            (extra.clone(), Necessity::Optional),
            (names.clone(), Necessity::Required),
        ];
        assert_eq!(to_read, expected.into());
        lists.insert(extra, List::unreadable("forbidden".to_owned()));
        lists.insert(names.clone(), ["a", "b"].map(object).into_iter().collect());
        assert_eq!(Follow.answer(&lists), Err(NoAnswer::Unread));
        let values = ["a", "b"].map(|name| ListRequest::named("/values", name));
        let to_read = lists.take_requests();
        assert!(
            values
                .iter()
                .all(|value| to_read.lists.contains_key(value) && to_read.warnings.is_empty())
        );
        lists.insert(values[0].clone(), [object("a")].into_iter().collect());
        lists.insert(values[1].clone(), List::default());
        let expected = ["a", "forbidden"].map(str::to_owned);
        assert_eq!(Follow.answer(&lists), Ok(expected.to_vec()));
        lists.insert(names, List::default());
        assert_eq!(Follow.answer(&lists).map(|it| it.len()), Ok(1));
        let warnings = lists.take_requests().warnings;
        assert_eq!(warnings, ["there are no names".to_owned()].into());
    }

    #[test]
    fn a_list_is_required_if_any_request_requires_it() {
        let (lists, request) = (Lists::default(), ListRequest::all("/names"));
        for need in [
            Necessity::Optional,
            Necessity::Required,
            Necessity::Optional,
        ] {
            assert!(lists.ask(&request, need).is_err());
        }
        assert_eq!(lists.take_requests().lists[&request], Necessity::Required);
    }

    #[test]
    fn many_immutable_objects_are_read_by_one_list() {
        let named = |n: usize| ListRequest::immutable("/slices", &format!("s-{n}"));
        let other = ListRequest::named("/sets", "web");
        let few: Vec<ListRequest> = (0..MAX_SINGLE_READS)
            .map(named)
            .chain([other.clone()])
            .collect();
        assert_eq!(requests(few.clone()).len(), MAX_SINGLE_READS + 1);
        let many = requests(few.into_iter().chain([named(MAX_SINGLE_READS)]));
        let all = ListRequest::all("/slices");
        assert_eq!(many[0], (other.clone(), vec![other]));
        assert_eq!(many[1], (all, (0..=MAX_SINGLE_READS).map(named).collect()));
    }

    #[test]
    fn absent_objects_are_read_again() {
        let mut lists = Lists::default();
        let slices = ["a", "b", "c", "d"].map(|name| ListRequest::immutable("/slices", name));
        lists.insert(slices[0].clone(), [object("a")].into_iter().collect());
        lists.insert(slices[1].clone(), List::default());
        let forbidden = List::failed("forbidden".to_owned(), Some(Cause::Forbidden));
        lists.insert(slices[2].clone(), forbidden);
        lists.insert(slices[3].clone(), List::unreadable("timeout".to_owned()));
        let gvk = Gvk::new("v1", "Widget");
        lists.insert_served(gvk.clone(), Err(Unserved::Absent));
        lists.forget_absent(&slices[..2]);
        let are_listed: Vec<bool> = slices.iter().map(|it| lists.get(it).is_some()).collect();
        assert_eq!(are_listed, [true, false, true, false]);
        assert!(lists.served(&gvk).is_err() && lists.take_requests().kinds.contains(&gvk));
    }
}
