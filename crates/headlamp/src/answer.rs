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
    /// True if there is no content any more, for instance because the object was deleted. Otherwise, an
    /// earlier content stays until the next one.
    is_gone: bool,
    /// The lists of the page: with a content all of them, so that others need not be watched any more.
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
        let trouble = Some(format!("{kind} {name:?} has no page"));
        return Output {
            trouble,
            is_gone: true,
            ..Output::default()
        };
    };
    let failed = input.reads.iter().filter(|read| read.has_failed());
    let failed: BTreeSet<Wanted> = failed.map(|read| read.request.clone()).collect();
    let reads = input.reads.into_iter();
    let reads = reads.map(|read| (read.request.clone(), read.list(P::trim)));
    let reads: BTreeMap<Wanted, List> = reads.collect();
    let mut lists = Lists::default();
    let mut used = BTreeSet::new();
    // The requests whose objects are unknown.
    let mut unknown = BTreeSet::new();
    let mut discovery = None;
    loop {
        let answer = page.answer(&lists);
        let mut to_read = lists.take_requests();
        let all = to_read.lists.iter();
        let required = all.filter(|(_, need)| **need == Necessity::Required);
        let required = required.map(|(request, _)| request);
        let troubles = required.filter_map(|it| Some((it, lists.get(it)?.trouble.clone()?)));
        let troubles: Vec<_> = troubles.collect();
        let trouble = troubles.first().map(|(_, why)| why.clone());
        let output = Output {
            lists: used.iter().cloned().collect(),
            trouble,
            is_gone: false,
            discovery,
            html: None,
        };
        // Without a list that it requires, an answer is wrong.
        if troubles
            .iter()
            .any(|(request, _)| unknown.contains(*request))
        {
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
            // The object of a list that cannot be read now may exist.
            Err(NoAnswer::Missing(_)) if output.trouble.is_some() => return output,
            Err(NoAnswer::Missing(missing)) => {
                return Output {
                    trouble: Some(missing.to_string()),
                    is_gone: true,
                    ..output
                };
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
            let wanted = Wanted::of(request, &answered);
            if let Some(list) = reads.get(&wanted) {
                for request in answered {
                    let part = list.named(request.query.name.as_deref());
                    if failed.contains(&wanted) {
                        unknown.insert(request.clone());
                    }
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

    fn output(reads: &[Value], discovery: &Value) -> Value {
        let input = json!({
            "subject": {"kind": "ObjectSet", "namespace": "shop", "name": "web-1"},
            "now": "2026-01-01T00:00:00Z", "reads": reads, "discovery": discovery,
        });
        serde_json::to_value(answer(serde_json::from_value(input).unwrap())).unwrap()
    }

    /// A server with ConfigMaps.
    fn known() -> Value {
        let resource = json!({"resource": "configmaps", "scope": "Namespaced", "verbs": ["list"],
            "responseKind": {"group": "", "version": "", "kind": "ConfigMap"}});
        let core = json!({"items": [{"metadata": {}, "versions": [
            {"version": "v1", "resources": [resource]},
        ]}]});
        json!({"documents": [core]})
    }

    /// Answers all lists that the program asks for: those of revisions, and no others. Returns the
    /// last output with all reads.
    fn until_done(sets: &Value) -> (Value, Vec<Value>) {
        let (mut reads, mut discovery) = (Vec::new(), Value::Null);
        for _ in 0..10 {
            let output = output(&reads, &discovery);
            if output.get("html").is_some() || output.get("trouble").is_some() {
                return (output, reads);
            }
            if output.get("discovery").is_some() {
                assert_eq!(output["discovery"], json!(PATHS));
                discovery = known();
            }
            let wanted = output["lists"].as_array().unwrap();
            let read = wanted.iter().map(|request| {
                let is_sets = request["path"] == SETS;
                let objects = if is_sets { sets.clone() } else { json!([]) };
                json!({"request": request, "objects": objects})
            });
            reads = read.collect();
        }
        panic!("the program does not end: {reads:?}");
    }

    /// The same reads, of which those of a path have failed since.
    fn failed_since(reads: &[Value], path: &str) -> Vec<Value> {
        let mut reads = reads.to_vec();
        let of_path = reads.iter_mut().filter(|it| it["request"]["path"] == path);
        of_path.for_each(|read| read["error"] = "the server is away".into());
        reads
    }

    #[test]
    fn a_page_is_rendered_once_all_lists_are_read() {
        let first = output(&[], &Value::Null);
        let wanted = first["lists"].as_array().unwrap();
        assert!(wanted.iter().any(|list| list["path"] == SETS), "{first}");
        assert!(first.get("html").is_none(), "{first}");
        let (done, _) = until_done(&json!([set()]));
        let html = done["html"].as_str().unwrap_or_default();
        let is_escaped = html.contains("&lt;b&gt;cafe") && !html.contains("<b>cafe");
        assert!(is_escaped, "{html}");
        assert!(html.contains("missing"), "there is no ConfigMap: {html}");
        let mut lists = done["lists"].as_array().unwrap().iter();
        let children = "/api/v1/namespaces/shop/configmaps";
        assert!(lists.any(|list| list["path"] == children), "{done}");
    }

    #[test]
    fn an_object_that_is_gone_is_named() {
        let (done, reads) = until_done(&json!([]));
        assert!(done.get("html").is_none(), "{done}");
        let trouble = done["trouble"].as_str().unwrap_or_default();
        assert!(trouble.contains("\"web-1\" not found"), "{trouble}");
        assert_eq!(done["isGone"], true);
        // An object of a list that cannot be read now may exist.
        let later = output(&failed_since(&reads, SETS), &known());
        assert_eq!(later["isGone"], false);
        assert_eq!(later["trouble"], "the server is away");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_no_empty_list() {
        let first = output(&[], &Value::Null);
        let mut refused = first["lists"].as_array().unwrap().clone();
        for request in &mut refused {
            *request = json!({"request": request, "error": "no right to list them", "status": 403});
        }
        let done = output(&refused, &Value::Null);
        assert!(done.get("html").is_none(), "{done}");
        assert_eq!(done["trouble"], "no right to list them");
        assert_eq!(done["isGone"], false);
    }

    #[test]
    fn a_page_stays_while_lists_cannot_be_read_again() {
        let (_, reads) = until_done(&json!([set()]));
        // The revision has no deployment, so the list of deployments is empty.
        for path in [SETS.to_owned(), SETS.replace("sets", "deployments")] {
            let later = output(&failed_since(&reads, &path), &known());
            assert_eq!(later["trouble"], "the server is away", "{path}");
            assert!(later.get("html").is_some(), "{path}: {later}");
        }
    }

    #[test]
    fn many_objects_that_never_change_are_one_list_that_is_read_once() {
        let slices: Vec<String> = (0..20).map(|number| format!("slice-{number}")).collect();
        let mut set = set();
        set["spec"]["phases"][0]["slices"] = json!(slices);
        let (_, reads) = until_done(&json!([set]));
        let path = SETS.replace("objectsets", "objectslices");
        let of_slices = reads.iter().map(|read| &read["request"]);
        let of_slices = of_slices.filter(|it| it["path"] == path);
        let of_slices: Vec<_> = of_slices
            .map(|it| (&it["name"], &it["isImmutable"]))
            .collect();
        assert_eq!(of_slices, [(&Value::Null, &Value::Bool(true))]);
    }

    #[test]
    fn kinds_with_a_page_have_lists() {
        for (kind, namespace) in [
            ("ObjectDeployment", Some("shop")),
            ("ClusterObjectDeployment", None),
            ("ClusterObjectSet", None),
            ("Application", Some("shop")),
        ] {
            let subject = json!({"kind": kind, "namespace": namespace, "name": "web"});
            let input = json!({"subject": subject, "now": "2026-01-01T00:00:00Z"});
            let output = answer(serde_json::from_value(input).unwrap());
            let has_lists = output.trouble.is_none() && !output.lists.is_empty();
            assert!(has_lists, "{output:?}");
        }
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
            assert!(output.is_gone && output.lists.is_empty(), "{output:?}");
        }
    }
}
