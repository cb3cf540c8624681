//! The page of an object, or what is to be read for it.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::kinds;
use baton_pages::{
    applications::ApplicationPage,
    chain::ChainPage,
    page::{Frame, Page},
    subject::ChainSubject,
};
use baton_view::{
    chain::kind::ChainKind,
    lists::{List, Lists, Necessity, NoAnswer, requests},
};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    discovery::{Discovery, PATHS},
    question::{Read, Wanted},
};

/// All that the plugin has read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Input {
    /// The object that Headlamp shows.
    subject: Subject,
    /// The present time.
    now: Timestamp,
    /// The lists, as they were last read.
    #[serde(default)]
    reads: Vec<Read>,
    /// The kinds that the server serves; absent before they are read.
    discovery: Option<Discovery>,
}

/// An object of one of our kinds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    kind: String,
    /// Absent for a cluster-scoped object.
    namespace: Option<String>,
    name: String,
}

/// The next step of the plugin.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Output {
    /// The content of the page; absent while lists are missing, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    /// The reason that there is no content, or that it is not up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// All lists of the page. Others need not be read any more.
    lists: Vec<Wanted>,
    /// The discovery documents, if they are missing, or lack a kind, which may be served later.
    #[serde(skip_serializing_if = "Option::is_none")]
    discovery: Option<[&'static str; 2]>,
}

/// Renders the page of an object as far as its lists are read.
pub(crate) fn answer(input: Input) -> Output {
    let Subject {
        kind,
        namespace,
        name,
    } = &input.subject;
    let in_namespace = namespace.clone().unwrap_or_default();
    let of_chain = ChainKind::ALL.into_iter().find(|it| it.name == *kind);
    if let Some(kind) = of_chain {
        let subject = ChainSubject::new(kind.shortest(), &in_namespace, name);
        render(subject.map(ChainPage::new), input)
    } else if *kind == kinds::APPLICATION.name {
        render(ApplicationPage::new(&in_namespace, name), input)
    } else {
        render(None::<ChainPage>, input)
    }
}

/// Renders a page; `None` if the object can have none.
fn render<P: Page>(page: Option<P>, input: Input) -> Output {
    let Some(page) = page else {
        let Subject { kind, name, .. } = input.subject;
        return failed(format!("{kind} {name:?} has no page"));
    };
    let reads = input.reads.into_iter();
    let reads = reads.map(|read| (read.request.clone(), read.list(P::trim)));
    let reads: BTreeMap<Wanted, List> = reads.collect();
    let mut lists = Lists::default();
    let mut used = BTreeSet::new();
    let mut discovery = None;
    loop {
        let answer = page.answer(&lists);
        let mut to_read = lists.take_requests();
        let all = to_read.lists.iter();
        let required = all.filter(|(_, need)| **need == Necessity::Required);
        let required = required.filter_map(|(request, _)| lists.get(request));
        let in_trouble: Vec<&List> = required.filter(|it| it.trouble.is_some()).collect();
        let trouble = in_trouble.first().and_then(|list| list.trouble.clone());
        let output = Output {
            lists: used.iter().cloned().collect(),
            trouble,
            discovery,
            html: None,
        };
        // Without a list that it requires, an answer is wrong.
        if in_trouble.iter().any(|list| list.first().is_none()) {
            return output;
        }
        match answer {
            Ok(answer) => {
                let frame = Frame::default();
                let notes: Vec<String> = to_read.warnings.into_iter().collect();
                let html = page.render(&answer, &frame, &notes, input.now).html();
                let html = Some(html);
                return Output { html, ..output };
            }
            Err(NoAnswer::Missing(missing)) => {
                let trouble = Some(missing.to_string());
                return Output { trouble, ..output };
            }
            Err(NoAnswer::Unreadable(why)) => {
                let trouble = Some(why);
                return Output { trouble, ..output };
            }
            Err(NoAnswer::Unread) => {}
        }
        let mut is_new = false;
        for gvk in to_read.kinds {
            let served = input.discovery.as_ref().map(|known| known.locate(&gvk));
            if !matches!(served, Some(Ok(_))) {
                discovery = Some(PATHS);
            }
            if let Some(served) = served {
                lists.insert_served(gvk, served);
                is_new = true;
            }
        }
        to_read.lists.retain(|it, _| lists.get(it).is_none());
        for (request, answered) in requests(to_read.lists.into_keys()) {
            let wanted = Wanted::of(request);
            if let Some(list) = reads.get(&wanted) {
                for request in answered {
                    let part = list.named(request.query.name.as_deref());
                    lists.insert(request, part);
                }
                is_new = true;
            }
            used.insert(wanted);
        }
        if !is_new {
            return Output {
                lists: used.into_iter().collect(),
                discovery,
                ..output
            };
        }
    }
}

/// The output for an object without a page.
fn failed(why: String) -> Output {
    Output {
        trouble: Some(why),
        ..Output::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SETS: &str = "/apis/package-operator.run/v1alpha1/namespaces/shop/objectsets";

    /// A revision with a ConfigMap.
    fn set() -> Value {
        json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": {"revision": 1, "phases": [{"name": "first", "objects": [{"object": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "<b>cafe"},
            }}]}]},
        })
    }

    fn output(reads: &Value, discovery: &Value) -> Value {
        let input = json!({
            "subject": {"kind": "ObjectSet", "namespace": "shop", "name": "web-1"},
            "now": "2026-01-01T00:00:00Z", "reads": reads, "discovery": discovery,
        });
        serde_json::to_value(answer(serde_json::from_value(input).unwrap())).unwrap()
    }

    /// Answers all lists that the program asks for: those of revisions, and no others.
    fn until_done(objects: &Value) -> Value {
        let resource = json!({"resource": "configmaps", "scope": "Namespaced", "verbs": ["list"],
            "responseKind": {"group": "", "version": "", "kind": "ConfigMap"}});
        let core = json!({"items": [{"metadata": {}, "versions": [
            {"version": "v1", "resources": [resource]},
        ]}]});
        let known = json!({"documents": [core]});
        let (mut reads, mut discovery) = (Vec::new(), Value::Null);
        for _ in 0..10 {
            let output = output(&reads.clone().into(), &discovery);
            if output.get("html").is_some() || output.get("trouble").is_some() {
                return output;
            }
            if output.get("discovery").is_some() {
                assert_eq!(output["discovery"], json!(PATHS));
                discovery = known.clone();
            }
            let wanted = output["lists"].as_array().unwrap();
            let read = wanted.iter().map(|request| {
                let is_sets = request["path"] == SETS;
                let objects = if is_sets { objects.clone() } else { json!([]) };
                json!({"request": request, "objects": objects})
            });
            reads = read.collect();
        }
        panic!("the program does not end: {reads:?}");
    }

    #[test]
    fn a_page_is_rendered_once_all_lists_are_read() {
        let first = output(&json!([]), &Value::Null);
        let wanted = first["lists"].as_array().unwrap();
        assert!(wanted.iter().any(|list| list["path"] == SETS), "{first}");
        assert!(first.get("html").is_none(), "{first}");
        let done = until_done(&json!([set()]));
        let html = done["html"].as_str().unwrap_or_default();
        assert!(
            html.contains("&lt;b&gt;cafe") && !html.contains("<b>cafe"),
            "{html}"
        );
        assert!(
            html.contains("missing"),
            "the ConfigMap does not exist: {html}"
        );
        let lists = done["lists"].as_array().unwrap();
        let children = lists
            .iter()
            .any(|list| list["path"] == "/api/v1/namespaces/shop/configmaps");
        assert!(children, "{done}");
    }

    #[test]
    fn an_object_that_is_gone_is_named() {
        let done = until_done(&json!([]));
        assert!(done.get("html").is_none(), "{done}");
        let trouble = done["trouble"].as_str().unwrap_or_default();
        assert!(trouble.contains("\"web-1\" not found"), "{trouble}");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_no_empty_list() {
        let first = output(&json!([]), &Value::Null);
        let refused = first["lists"].as_array().unwrap().iter().map(
            |request| json!({"request": request, "error": "no right to list them", "status": 403}),
        );
        let done = output(&refused.collect::<Vec<_>>().into(), &Value::Null);
        assert!(done.get("html").is_none(), "{done}");
        assert_eq!(done["trouble"], "no right to list them");
    }

    #[test]
    fn other_objects_have_no_page() {
        for (kind, namespace, name) in [
            ("Pod", "shop", "web"),
            ("ObjectSet", "shop", "a/b"),
            ("ObjectSet", "", "web"),
            ("Application", "..", "web"),
        ] {
            let subject = json!({"kind": kind, "namespace": namespace, "name": name});
            let input = json!({"subject": subject, "now": "2026-01-01T00:00:00Z"});
            let output = answer(serde_json::from_value(input).unwrap());
            assert!(
                output.trouble.is_some() && output.lists.is_empty(),
                "{output:?}"
            );
        }
    }
}
