use baton_probes::{Verdict, budget::Budget};
use serde_json::{Value, json};

use super::*;

/// The verdict of the default probes of a kind.
fn verdict(group: &str, kind: &str, object: &Value) -> Verdict {
    let (probes, _) = of_package([(group, kind)].into_iter(), &ProbeOptions::default());
    assert_eq!(probes.len(), 1, "{kind}");
    Probes::compile(&probes)
        .unwrap()
        .evaluate(&mut Budget::default(), group, kind, object)
}

/// States of live objects, as servers and controllers report them, and the verdict that a revision
/// waits for.
#[test]
fn default_probes_decide_about_live_objects() {
    let states: Vec<Value> = serde_saphyr::from_str(include_str!("../testdata/live.yaml")).unwrap();
    let mut passed = 0;
    for state in &states {
        let object = &state["object"];
        let gvk = baton_engine::Gvk::new(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        );
        let name = state["state"].as_str().unwrap();
        match (
            state["passes"].as_bool().unwrap(),
            verdict(&gvk.group, &gvk.kind, object),
        ) {
            (true, Verdict::True) => passed += 1,
            (false, Verdict::False(messages) | Verdict::Unknown(messages)) => {
                assert!(!messages.is_empty());
                if let Some(expected) = state["message"].as_str() {
                    assert_eq!(messages.join(", "), expected, "{}: {name}", gvk.kind);
                }
            }
            (_, verdict) => panic!("{}: {name}: {verdict:?}", gvk.kind),
        }
    }
    assert!(
        passed >= 20 && states.len() - passed >= 20,
        "{passed} of {}",
        states.len()
    );
}

#[test]
fn only_known_kinds_in_the_package_have_probes() {
    let kinds = [
        ("", "ConfigMap"),
        ("batch", "Job"),
        ("apps", "Deployment"),
        ("batch", "Job"),
    ];
    let kinds = || kinds.into_iter();
    let of = |options: &ProbeOptions| {
        let (probes, notes) = of_package(kinds(), options);
        let kinds: Vec<_> = probes
            .iter()
            .map(|probe| probe.selector.kind.kind.clone())
            .collect();
        (kinds.join(" "), probes, notes)
    };
    assert_eq!(of(&ProbeOptions::default()).0, "Deployment Job");
    let wanted = [
        "Job.batch=none",
        "ConfigMap=cel:has(self.data)",
        "Widget.example.com=condition:Ready",
    ];
    let options = ProbeOptions {
        no_defaults: false,
        wanted: wanted.iter().map(|text| text.parse().unwrap()).collect(),
    };
    let (kinds, _, notes) = of(&options);
    assert_eq!(kinds, "ConfigMap Deployment");
    assert_eq!(
        notes,
        ["--probe: there is no object of the kind Widget.example.com"]
    );
    let options = ProbeOptions {
        no_defaults: true,
        wanted: vec![
            "Job.batch=condition:Complete".parse().unwrap(),
            "Job.batch=condition:Failed=False".parse().unwrap(),
        ],
    };
    let (kinds, probes, _) = of(&options);
    assert_eq!(kinds, "Job");
    assert_eq!(
        json!(probes[0].probes),
        json!([
            {"condition": {"type": "Complete", "status": "True"}},
            {"condition": {"type": "Failed", "status": "False"}},
        ])
    );
}

#[test]
fn wanted_probes_are_read() {
    let probe = |text: &str| {
        text.parse::<ProbeFlag>()
            .map(|wanted| json!(wanted.probe.unwrap()))
    };
    assert_eq!(
        probe("Widget.example.com=fields:.status.a=.spec.a"),
        Ok(json!({"fieldsEqual": {"fieldA": ".status.a", "fieldB": ".spec.a"}}))
    );
    assert_eq!(
        probe("Pod=cel:self.status.phase == 'Running'"),
        Ok(
            json!({"cel": {"rule": "self.status.phase == 'Running'", "message": "not true: self.status.phase == \
                 'Running'"}})
        )
    );
    for (text, message) in [
        ("Pod", "\"Pod\" is not KIND.GROUP=PROBE"),
        (
            "pods=none",
            "\"pods\" is not KIND.GROUP, such as Deployment.apps or ConfigMap",
        ),
        (
            "Pod=Ready",
            "\"Ready\" is not a probe: expected condition:TYPE, condition:TYPE=STATUS, fields:.PATH=.PATH, cel:RULE or \
             none",
        ),
        ("Pod=fields:.a", "\".a\" is not .PATH=.PATH"),
        (
            "Pod=cel:self.ready",
            "cel: rule \"self.ready\": must evaluate to bool, but evaluates to dyn: compare the value, as in `... \
                 == true`",
        ),
        (
            "Pod=fields:a..b=.c",
            "fieldsEqual: \"a..b\" is not a field path: map keys separated by single dots are",
        ),
    ] {
        assert_eq!(text.parse::<ProbeFlag>().unwrap_err(), message);
    }
}
