use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use input::Input;

pub(super) fn options(name: &str) -> Options {
    Options::named(name.to_owned())
}

fn testdata(name: &str) -> Vec<InputText> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pack/testdata");
    let mut sources = input::read(&[Input::Path(root.join(name))], false).unwrap();
    for source in &mut sources {
        let path = Path::new(&*source.name).strip_prefix(&root).unwrap();
        source.name = path.to_str().unwrap().into();
    }
    sources
}

fn text(text: &str) -> Vec<InputText> {
    vec![InputText {
        name: "a.yaml".into(),
        text: text.to_owned(),
    }]
}

/// The output of the command: the notes as comments, and the objects.
fn printed(sources: &[InputText], options: &Options) -> String {
    let packed = pack(read(sources, false), options).unwrap();
    let notes = packed.notes.iter().map(|note| format!("# note: {note}\n"));
    let mut text: String = notes.collect();
    text.push_str(&emit::yaml(&packed.objects()).unwrap());
    text
}

fn errors(sources: &[InputText], options: &Options) -> String {
    pack(read(sources, false), options).unwrap_err().to_string()
}

#[test]
fn former_managers_are_named_on_each_object() {
    let input = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n";
    let options = Options {
        former_managers: vec!["argocd-controller".to_owned(), "flux".to_owned()],
        ..options("web")
    };
    let packed = printed(&text(input), &options);
    let annotation = "baton.run/former-managers: argocd-controller,flux";
    assert!(packed.contains(annotation), "{packed}");
}

#[test]
fn a_version_for_sites_contains_all_objects() {
    let input = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
                 apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n";
    let site = |version: Option<&str>| Options {
        form: PackagedKind::Site {
            version: version.map(str::to_owned),
        },
        scope: scope::ScopeOptions {
            site: true,
            namespace: Some("shop".to_owned()),
            ..scope::ScopeOptions::default()
        },
        slice_limit: 1,
        ..options("web")
    };
    let expected = "\
# note: Namespace/b is cluster-scoped: a SiteAssignment has to allow this in the sites
apiVersion: baton.run/v1alpha1
kind: SiteApplication
metadata:
  name: web
  namespace: shop
spec:
  version: \"1.2\"
  template:
    spec:
      phases:
      - name: namespaces
        objects:
        - object:
            apiVersion: v1
            kind: Namespace
            metadata:
              name: b
      - name: config
        objects:
        - object:
            apiVersion: v1
            kind: ConfigMap
            metadata:
              name: a
              namespace: shop
";
    assert_eq!(printed(&text(input), &site(Some("1.2"))), expected);
    let derived = |input: &str| {
        let packed = pack(read(&text(input), false), &site(None)).unwrap();
        packed.package.object["spec"]["version"].clone()
    };
    assert_eq!(derived(input), derived(input));
    assert_ne!(derived(input), derived(&input.replace("a}", "c}")));
    let big = "x".repeat(800_000);
    let map = |name| {
        format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: {name}}}\ndata: {{a: {big}}}\n")
    };
    let big = format!("{}---\n{}", map("a"), map("b"));
    let error = errors(&text(&big), &site(None));
    assert!(
        error.starts_with("--site: a SiteApplication contains all"),
        "{error}"
    );
}

#[test]
fn a_directory_is_packed_into_phases() {
    let options = Options {
        phase_order: vec!["config".to_owned(), "migrate".to_owned()],
        change_cause: Some("the first one".to_owned()),
        ..options("shop")
    };
    insta::assert_snapshot!(printed(&testdata("shop"), &options));
}

#[test]
fn output_of_helm_is_packed() {
    insta::assert_snapshot!(printed(&testdata("helm.yaml"), &options("my-shop")));
    let collected = read(&testdata("helm.yaml"), false);
    assert_eq!(
        common_name(&collected.manifests).as_deref(),
        Some("my-shop")
    );
    let plain = read(&testdata("helm.yaml"), true);
    assert_eq!(plain.manifests.len(), 2);
}

#[test]
fn an_operator_is_packed_with_its_definitions() {
    insta::assert_snapshot!(printed(&testdata("operator"), &options("widgets")));
}

#[test]
fn a_revision_with_slices() {
    let options = Options {
        form: PackagedKind::Revision {
            number: Some(2),
            previous: vec!["shop-v1".to_owned()],
        },
        scope: scope::ScopeOptions {
            namespace: Some("shops".to_owned()),
            ..scope::ScopeOptions::default()
        },
        service_account_name: Some("deployer".to_owned()),
        success_delay_seconds: Some(10),
        slice_limit: 1500,
        collision_protection: CollisionProtection::IfNoController,
        probes: probes::ProbeOptions {
            no_defaults: true,
            wanted: Vec::new(),
        },
        ..options("shop-v2")
    };
    insta::assert_snapshot!(printed(&testdata("shop"), &options));
}

/// A cluster-scoped result has no account, as only administrators can create it.
#[test]
fn an_account_needs_a_namespace() {
    let options = Options {
        service_account_name: Some("deployer".to_owned()),
        ..options("a")
    };
    let namespace = text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}");
    let said = errors(&namespace, &options);
    assert!(said.contains("--service-account"), "{said}");
}

/// The controller can read the packed objects, and finds no error in them.
#[test]
fn packed_results_are_valid_for_the_engine() {
    use baton_engine::revision;
    use baton_probes::Probes;
    for name in ["shop", "helm.yaml", "operator"] {
        let packed = pack(read(&testdata(name), false), &options("package")).unwrap();
        let spec: baton_apis::ObjectSetTemplateSpec =
            serde_json::from_value(packed.package.object["spec"]["template"]["spec"].clone())
                .unwrap();
        Probes::compile(&spec.availability_probes.unwrap()).unwrap();
        let phases = revision::prepare(&revision::Revision::default(), spec.phases.unwrap());
        assert_eq!(revision::duplicates(&phases), [""; 0]);
        let violations: Vec<_> = phases
            .iter()
            .flat_map(|phase| &phase.objects)
            .flat_map(|object| &object.violations)
            .collect();
        assert!(violations.is_empty(), "{violations:?}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let sources = text(
        "apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
---
a: [
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: a}
",
    );
    insta::assert_snapshot!(errors(&sources, &options("a")));
}

#[test]
fn no_objects_are_an_error() {
    let nothing = text("---\n# nothing\n");
    assert_eq!(
        errors(&nothing, &options("a")),
        "there are no objects in the input"
    );
}

#[test]
fn duplicates_are_found_in_the_namespace_that_they_end_up_in() {
    let sources = text(
        "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: x}}\n---\n{apiVersion: v1, kind: Secret, \
             metadata: {name: a}}\n",
    );
    assert_eq!(
        errors(&sources, &options("a")),
        "a.yaml:3: document 2: Secret/a is in a.yaml:1: document 1 already"
    );
}

#[test]
fn an_object_above_the_size_limit_is_refused() {
    let sources = text(&format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{a: {}}}}}",
        "x".repeat(slices::LARGEST_OBJECT)
    ));
    assert_eq!(
        errors(&sources, &options("a")),
        "a.yaml:1: document 1: ConfigMap/a has 1500090 bytes of JSON; API servers take at most 1500000"
    );
}

#[test]
fn a_phase_order_without_objects_is_noted() {
    let options = Options {
        phase_order: vec!["migrate".to_owned()],
        ..options("a")
    };
    let sources = text("{apiVersion: v1, kind: Secret, metadata: {name: a}}");
    let packed = pack(read(&sources, false), &options).unwrap();
    assert_eq!(
        packed.notes,
        ["--phase-order: no object is in the phase migrate"]
    );
}

#[test]
fn names_are_checked() {
    for name in ["a", "shop", "shop-v2", "1a", "a.b", "a--b", &"x".repeat(63)] {
        assert_eq!(name_problem(name), None, "{name}");
    }
    for name in [
        "",
        "-a",
        "a-",
        "a_b",
        "Shop",
        ".a",
        "a.",
        "a..b",
        "a.-b",
        "ä",
        &"x".repeat(64),
    ] {
        assert!(name_problem(name).is_some(), "{name}");
    }
}

/// An application as Helm would print it, with more objects and kinds than the fixtures.
fn manifests() -> impl Strategy<Value = Vec<(usize, u32, u32)>> {
    prop::collection::vec((0..6_usize, 0..50_u32, any::<u32>()), 1..40)
}

fn stream(objects: &[(usize, u32, u32)]) -> Vec<InputText> {
    let kinds = [
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "Ingress"),
        ("example.com/v1", "Widget"),
    ];
    let mut keys = std::collections::BTreeSet::new();
    let documents = objects
        .iter()
        .filter(|(kind, name, _)| keys.insert((*kind, *name)))
        .map(|(kind, name, content)| {
            let (api_version, kind) = kinds[*kind];
            let object = json!({
                "apiVersion": api_version, "kind": kind, "metadata": {"name": format!("a-{name}")},
                "data": {"content": format!("{content:x}\n")},
            });
            emit::yaml(&[object]).unwrap()
        });
    text(&documents.collect::<Vec<_>>().join("---\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same objects give the same bytes, and another order of the documents gives the same
    /// phases.
    #[test]
    fn packing_is_deterministic(objects in manifests()) {
        let options = options("a");
        let once = printed(&stream(&objects), &options);
        prop_assert_eq!(&once, &printed(&stream(&objects), &options));
        let names = |sources: &[InputText]| {
            let package = pack(read(sources, false), &options).unwrap().package.object;
            let phases = package["spec"]["template"]["spec"]["phases"].as_array().unwrap().clone();
            phases.into_iter().map(|phase| (phase["name"].clone(),
                phase["objects"].as_array().unwrap().len())).collect::<Vec<_>>()
        };
        let mut backwards = objects.clone();
        backwards.reverse();
        prop_assert_eq!(names(&stream(&objects)), names(&stream(&backwards)));
    }

    /// A change of one value changes one line.
    #[test]
    fn a_small_change_is_a_small_difference(objects in manifests(), index in 0..1000_usize) {
        let options = options("a");
        let before = printed(&stream(&objects), &options);
        let mut changed = objects.clone();
        let index = index % objects.len();
        changed[index].2 = objects[index].2.wrapping_add(1);
        // Only the first object of a name is packed.
        let first = objects.iter().position(|other| other.0 == objects[index].0 && other.1 == objects[index].1);
        let after = printed(&stream(&changed), &options);
        let different = before.lines().zip(after.lines()).filter(|(a, b)| a != b).count();
        prop_assert_eq!(before.lines().count(), after.lines().count());
        prop_assert_eq!(different, usize::from(first == Some(index)));
    }
}
