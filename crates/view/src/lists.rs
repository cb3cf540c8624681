//! The lists that pictures are made of, and the questions that ask for them.
//!
//! A [`Question`] takes what it needs out of [`Lists`], and what is not in there yet is noted as asked for. A driver
//! reads that, once or by watches, and asks again, until there is an answer.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
};

use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};
use baton_engine::Gvk;
use serde_json::Value;

use crate::{
    object::place,
    served::{FEW, Served},
};

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

    /// One object of a collection, by a list of one: who may list needs no right to get.
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

    /// A part of a collection.
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
    /// True if its objects never change: they are read once, also where others are watched.
    pub is_immutable: bool,
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

    /// The object of a name, by a list of one.
    #[must_use]
    pub fn of_one(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
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

/// A question of a user, answered from lists alone.
pub trait Question {
    /// The answer.
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

/// An object that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An object.
    Object {
        /// The kinds that it was looked for in, by their plurals.
        plurals: Vec<&'static str>,
        /// Its name.
        name: String,
        /// Where it was looked for; `None` for cluster-scoped kinds.
        namespace: Option<String>,
    },
    /// A revision of this number.
    Revision(i64),
}

/// As kubectl says it.
impl fmt::Display for Missing {
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
pub enum Need {
    /// The question learns why, and answers all the same.
    Optional,
    /// There is no answer without it.
    Required,
}

/// Collections as they were read, and the requests of questions.
#[derive(Debug, Default)]
pub struct Lists {
    read: BTreeMap<ListRequest, List>,
    /// Where kinds are served, or why that is not known.
    served: BTreeMap<Gvk, Result<Served, String>>,
    asked: RefCell<Asked>,
}

/// The requests of questions since [`Lists::take_asked`].
#[derive(Debug, Default)]
pub struct Asked {
    /// The lists, whether they have been read or not.
    pub lists: BTreeMap<ListRequest, Need>,
    /// Kinds of which it is not known where they are served.
    pub kinds: BTreeSet<Gvk>,
    /// What has to be reported besides the answer, such as objects that were left out.
    pub warnings: BTreeSet<String>,
}

/// A collection as it is known.
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

    /// A list that is needed so much.
    ///
    /// # Errors
    /// If it was not read yet.
    pub fn ask(&self, request: &ListRequest, need: Need) -> Result<&List, NoAnswer> {
        let lists = &mut self.asked.borrow_mut().lists;
        let known = lists.entry(request.clone()).or_insert(need);
        *known = need.max(*known);
        self.get(request).ok_or(NoAnswer::Unread)
    }

    /// Where a kind is served, or why it cannot be read.
    ///
    /// # Errors
    /// If that was not found out yet.
    pub fn served(&self, gvk: &Gvk) -> Result<Result<&Served, &str>, NoAnswer> {
        let Some(served) = self.served.get(gvk) else {
            self.asked.borrow_mut().kinds.insert(gvk.clone());
            return Err(NoAnswer::Unread);
        };
        Ok(served.as_ref().map_err(String::as_str))
    }

    /// Reports something besides the answer. It is shown once, however often the question is asked.
    pub fn warn(&self, warning: impl Into<String>) {
        self.asked.borrow_mut().warnings.insert(warning.into());
    }

    /// The requests since the last time.
    pub fn take_asked(&self) -> Asked {
        mem::take(&mut self.asked.borrow_mut())
    }

    /// A collection as it is known; `None` where it was not read yet.
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

    /// Keeps where a kind is served, or why that is not known.
    pub fn insert_served(&mut self, gvk: Gvk, served: Result<Served, String>) {
        self.served.insert(gvk, served);
    }

    /// Forgets collections for which the predicate is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&ListRequest) -> bool) {
        self.read.retain(|request, _| keep(request));
    }

    /// Forgets what may be there by now, and is not watched: kinds that are not served, and those of the `required`
    /// objects which never change that were not found.
    pub fn forget_absent(&mut self, required: &[ListRequest]) {
        self.served.retain(|_, served| served.is_ok());
        self.read.retain(|request, list| {
            !request.query.is_immutable || list.first().is_some() || !required.contains(request)
        });
    }
}

/// All of what is asked for, side by side: also what comes after something that was not read yet.
///
/// # Errors
/// If one of it was not read yet.
pub fn together<T>(
    asked: impl IntoIterator<Item = Result<T, NoAnswer>>,
) -> Result<Vec<T>, NoAnswer> {
    let asked: Vec<_> = asked.into_iter().collect();
    asked.into_iter().collect()
}

/// The requests to be sent for what was asked for, with what each is the answer to: many objects of a collection that
/// never change are read by one list.
pub fn requests(
    asked: impl IntoIterator<Item = ListRequest>,
) -> Vec<(ListRequest, Vec<ListRequest>)> {
    let mut immutable: BTreeMap<String, Vec<ListRequest>> = BTreeMap::new();
    let mut requests = Vec::new();
    for request in asked {
        if request.query.is_immutable {
            let of_collection = immutable.entry(request.path.clone()).or_default();
            of_collection.push(request);
        } else {
            requests.push((request.clone(), vec![request]));
        }
    }
    for (path, of_collection) in immutable {
        if of_collection.len() > FEW {
            requests.push((ListRequest::all(path), of_collection));
        } else {
            let each = of_collection.into_iter();
            requests.extend(each.map(|request| (request.clone(), vec![request])));
        }
    }
    requests
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
    pub fn first(&self) -> Option<&Value> {
        self.objects().next()
    }

    /// Its objects of a name; all of them where that is `None`.
    #[must_use]
    pub fn named(&self, name: Option<&str>) -> Self {
        let objects = self.objects.iter();
        let is_named = |(_, own): &(String, String)| name.is_none_or(|name| own == name);
        let objects = objects.filter(|(place, _)| is_named(place));
        Self {
            objects: objects
                .map(|(place, it)| (place.clone(), it.clone()))
                .collect(),
            trouble: self.trouble.clone(),
        }
    }

    /// Its objects, to be kept.
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
            let values = together(wanted.map(|it| lists.required(&it)))?;
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

    #[test]
    fn many_objects_that_never_change_are_read_by_one_list() {
        let named = |n: usize| ListRequest::immutable("/slices", &format!("s-{n}"));
        let other = ListRequest::named("/sets", "web");
        let few: Vec<ListRequest> = (0..FEW).map(named).chain([other.clone()]).collect();
        assert_eq!(requests(few.clone()).len(), FEW + 1);
        let many = requests(few.into_iter().chain([named(FEW)]));
        let all = ListRequest::all("/slices");
        assert_eq!(many[0], (other.clone(), vec![other]));
        assert_eq!(many[1], (all, (0..=FEW).map(named).collect()));
    }

    #[test]
    fn what_may_be_there_by_now_is_looked_for_again() {
        let mut lists = Lists::default();
        let slices = ["a", "b", "c"].map(|name| ListRequest::immutable("/slices", name));
        lists.insert(slices[0].clone(), [object("a")].into_iter().collect());
        lists.insert(slices[1].clone(), List::default());
        lists.insert(slices[2].clone(), List::unreadable("forbidden".to_owned()));
        let gvk = Gvk::new("v1", "Widget");
        lists.insert_served(gvk.clone(), Err("not served".to_owned()));
        lists.forget_absent(&slices[..2]);
        let known: Vec<bool> = slices.iter().map(|it| lists.get(it).is_some()).collect();
        assert_eq!(known, [true, false, true]);
        assert!(lists.served(&gvk).is_err() && lists.take_asked().kinds.contains(&gvk));
    }
}
