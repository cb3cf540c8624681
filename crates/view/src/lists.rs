//! The lists that pictures are made of, and the questions that ask for them.
//!
//! A [`Question`] takes what it needs out of [`Lists`], and whatever is not in there yet is noted as asked for. A driver
//! reads that, once or by watches, and asks again, until there is an answer.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
};

use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};
use serde_json::Value;

use crate::object::place;

/// A collection, a part of one, or one object of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListRequest {
    /// URL path of the collection.
    pub path: String,
    /// Which of its objects, and how much of them.
    pub query: ListQuery,
}

impl ListRequest {
    /// All of a collection.
    #[must_use]
    pub fn all(path: impl Into<String>) -> Self {
        Self::new(path, ListQuery::default())
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

    /// A part of a collection.
    #[must_use]
    pub fn new(path: impl Into<String>, query: ListQuery) -> Self {
        Self {
            path: path.into(),
            query,
        }
    }
}

/// Which objects of a collection, and how much of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListQuery {
    /// The one object of a name. It is read without a list.
    pub name: Option<String>,
    /// Selects by labels, in the syntax of the API.
    pub labels: Option<String>,
    /// Selects by fields, in the syntax of the API.
    pub fields: Option<String>,
    /// Without specs and statuses.
    pub metadata_only: bool,
}

impl ListQuery {
    /// The object of a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Objects with these labels, in the syntax of the API.
    #[must_use]
    pub fn labelled(labels: impl Into<String>) -> Self {
        Self {
            labels: Some(labels.into()),
            ..Self::default()
        }
    }

    /// Objects that carry the label of everything that a revision has written.
    #[must_use]
    pub fn managed() -> Self {
        Self::labelled(format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}"))
    }
}

/// What a user wants to know, answered from lists alone.
pub trait Question {
    /// What it is answered with.
    type Answer;

    /// The answer, as far as it can be given from what has been read. It asks for further lists by looking for them;
    /// those that do not depend on each other are to be looked for before the first `?`, so that they are read side by
    /// side.
    ///
    /// # Errors
    /// If there is none yet, or none at all.
    fn answer(&self, lists: &Lists) -> Result<Self::Answer, NoAnswer>;

    /// Takes away from an object what nobody looks at, where collections are too large to be held as they are.
    fn trim(_object: &mut Value) {}
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// What it has asked for was not read yet.
    Unread,
    /// What it is about does not exist.
    Missing(Missing),
    /// What it is about is not as its kind is.
    Unreadable(String),
}

/// What does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kinds that it was looked for in, by their plurals.
    pub plurals: Vec<&'static str>,
    /// Its name.
    pub name: String,
    /// Where it was looked for; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
}

/// As kubectl says it.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} not found", self.plurals.join(" or "), self.name)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}"),
            None => Ok(()),
        }
    }
}

/// What becomes of a list that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The question learns why, and answers all the same.
    Optional,
    /// There is no answer without it.
    Required,
}

/// What was read of collections, and what questions have asked for.
#[derive(Debug, Default)]
pub struct Lists {
    read: BTreeMap<ListRequest, List>,
    asked: RefCell<Asked>,
}

/// What the questions asked for since [`Lists::take_asked`].
#[derive(Debug, Default)]
pub struct Asked {
    /// The lists, whether they have been read or not.
    pub lists: BTreeMap<ListRequest, Need>,
    /// What has to be reported besides the answer, such as objects that were left out.
    pub warnings: BTreeSet<String>,
}

/// What is known of a collection.
#[derive(Clone, Debug, Default)]
pub struct List {
    objects: BTreeMap<(String, String), Value>,
    /// Why it cannot be read at the moment; the objects are as they were last seen.
    pub trouble: Option<String>,
}

impl Lists {
    /// A list without which there is no answer: that it cannot be read ends a single read, and keeps the last answer
    /// of watches.
    ///
    /// # Errors
    /// If it was not read yet.
    pub fn required(&self, request: &ListRequest) -> Result<&List, NoAnswer> {
        self.ask(request, Need::Required)
    }

    /// A list that the answer can do without: [`List::trouble`] says why it cannot be read.
    ///
    /// # Errors
    /// If it was not read yet.
    pub fn optional(&self, request: &ListRequest) -> Result<&List, NoAnswer> {
        self.ask(request, Need::Optional)
    }

    fn ask(&self, request: &ListRequest, need: Need) -> Result<&List, NoAnswer> {
        let lists = &mut self.asked.borrow_mut().lists;
        let known = lists.entry(request.clone()).or_insert(need);
        *known = need.max(*known);
        self.get(request).ok_or(NoAnswer::Unread)
    }

    /// Reports something besides the answer. It is shown once, however often the question is asked.
    pub fn warn(&self, warning: impl Into<String>) {
        self.asked.borrow_mut().warnings.insert(warning.into());
    }

    /// What was asked for since the last time.
    pub fn take_asked(&self) -> Asked {
        mem::take(&mut self.asked.borrow_mut())
    }

    /// What is known of a collection; `None` where it was not read yet.
    #[must_use]
    pub fn get(&self, request: &ListRequest) -> Option<&List> {
        self.read.get(request)
    }

    /// The same to be changed.
    pub fn get_mut(&mut self, request: &ListRequest) -> Option<&mut List> {
        self.read.get_mut(request)
    }

    /// Keeps what was read of a collection.
    pub fn insert(&mut self, request: ListRequest, list: List) {
        self.read.insert(request, list);
    }

    /// Forgets collections for which the predicate is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&ListRequest) -> bool) {
        self.read.retain(|request, _| keep(request));
    }
}

impl List {
    /// One that cannot be read, for this reason.
    #[must_use]
    pub fn unreadable(why: String) -> Self {
        Self {
            trouble: Some(why),
            ..Self::default()
        }
    }

    /// Its objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// The only object, or the first; `None` where it has none.
    #[must_use]
    pub fn first(&self) -> Option<&Value> {
        self.objects().next()
    }

    /// Its objects, to be kept.
    #[must_use]
    pub fn cloned(&self) -> Vec<Value> {
        self.objects().cloned().collect()
    }

    /// Adds an object, or replaces it.
    pub fn insert(&mut self, object: Value) {
        self.objects.insert(place(&object), object);
    }

    /// Removes an object.
    pub fn remove(&mut self, object: &Value) {
        self.objects.remove(&place(object));
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

    /// The values of what the first list names, if it can be read.
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
                .map(|it| ListRequest::named("/values", place(it).1.as_str()));
            let values: Vec<_> = wanted.map(|it| lists.required(&it)).collect();
            let values: Vec<&List> = values.into_iter().collect::<Result<_, _>>()?;
            let values = values.into_iter().filter_map(List::first);
            let values = values.map(|value| place(value).1);
            Ok(values.chain(extra.trouble.clone()).collect())
        }
    }

    fn object(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn a_question_asks_in_rounds_and_side_by_side() {
        let mut lists = Lists::default();
        assert_eq!(Follow.answer(&lists), Err(NoAnswer::Unread));
        let asked = lists.take_asked().lists;
        let (extra, names) = (ListRequest::all("/extra"), ListRequest::all("/names"));
        let expected = [
            (extra.clone(), Need::Optional),
            (names.clone(), Need::Required),
        ];
        assert_eq!(asked, expected.into());
        lists.insert(extra, List::unreadable("forbidden".to_owned()));
        lists.insert(names.clone(), ["a", "b"].map(object).into_iter().collect());
        assert_eq!(Follow.answer(&lists), Err(NoAnswer::Unread));
        let values = ["a", "b"].map(|name| ListRequest::named("/values", name));
        let asked = lists.take_asked();
        assert!(
            values
                .iter()
                .all(|value| asked.lists.contains_key(value) && asked.warnings.is_empty())
        );
        lists.insert(values[0].clone(), [object("a")].into_iter().collect());
        lists.insert(values[1].clone(), List::default());
        let expected = ["a", "forbidden"].map(str::to_owned);
        assert_eq!(Follow.answer(&lists), Ok(expected.to_vec()));
        lists.insert(names, List::default());
        assert_eq!(Follow.answer(&lists).map(|it| it.len()), Ok(1));
        let warnings = lists.take_asked().warnings;
        assert_eq!(warnings, ["there are no names".to_owned()].into());
    }

    #[test]
    fn a_list_that_was_asked_for_twice_is_required_by_one_of_the_two() {
        let (lists, request) = (Lists::default(), ListRequest::all("/names"));
        for need in [Need::Optional, Need::Required, Need::Optional] {
            assert!(lists.ask(&request, need).is_err());
        }
        assert_eq!(lists.take_asked().lists[&request], Need::Required);
    }
}
