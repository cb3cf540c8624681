use crate::pack::{self, documents::InputText, tests::options};

use super::*;

const NEEDS: &str = "
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: shop}
stringData: {password: hunter2-in-the-clear}
---
apiVersion: v1
kind: Secret
metadata: {name: spare, namespace: shop}
data: {key: aHVudGVyMw==}
---
apiVersion: v1
kind: Secret
metadata: {name: to-be-filled, namespace: shop}
type: Opaque
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: i, env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: password}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup, namespace: shop}
spec:
  schedule: '@daily'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never,
    containers: [{name: c, image: i, envFrom: [{secretRef: {name: db}}]}]}}}}
";

fn packed(no_secrets: bool) -> (Vec<String>, String) {
    let source = InputText {
        name: "a.yaml".into(),
        text: NEEDS.to_owned(),
    };
    let mut collected = pack::read(&[source], false);
    collected.no_secrets = no_secrets;
    let packed = pack::pack(collected, &options("web")).unwrap();
    let text = format!("{:?}", packed.objects());
    (packed.notes, text)
}

#[test]
fn secrets_in_revisions_are_named_and_not_quoted() {
    let (notes, package) = packed(false);
    assert_eq!(
        notes,
        [
            "Secret/db and Secret/spare are stored in clear text in revisions, also in old ones, and every reader of \
             revisions can read them; --no-secrets leaves them out"
        ]
    );
    assert!(package.contains("hunter2"));
}

#[test]
fn omitted_secrets_are_noted_with_the_objects_that_need_them() {
    let (notes, package) = packed(true);
    assert_eq!(
        notes,
        [
            "a.yaml:2: document 1: Secret/db is left out, and must be created by other means in namespace shop; \
             Deployment/web cannot become ready without it; CronJob/backup needs it, and no probe waits for it",
            "a.yaml:7: document 2: Secret/spare is left out, and must be created by other means in namespace shop; no \
             object of the package waits for it",
        ]
    );
    assert!(!package.contains("hunter2") && !package.contains("aHVudGVyMw"));
    assert!(package.contains("to-be-filled"), "{package}");
}

#[test]
fn a_package_of_only_secrets_is_refused_with_no_secrets() {
    let source = InputText {
        name: "a.yaml".into(),
        text: NEEDS.split("---").next().unwrap().to_owned(),
    };
    let mut collected = pack::read(&[source], false);
    collected.no_secrets = true;
    let error = pack::pack(collected, &options("web")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--no-secrets: the input contains only Secrets"
    );
}

#[test]
fn pods_need_secrets_that_are_not_optional() {
    for (pod, expected) in [
        ("{}", &[][..]),
        (
            "{containers: [{env: [{valueFrom: {secretKeyRef: {name: a}}}, {value: x},
              {valueFrom: {secretKeyRef: {name: b, optional: true}}}]}]}",
            &["a"],
        ),
        (
            "{initContainers: [{envFrom: [{secretRef: {name: a}}, {configMapRef: {name: b}}]}]}",
            &["a"],
        ),
        (
            "{volumes: [{secret: {secretName: a}}, {secret: {secretName: b, optional: true}},
              {projected: {sources: [{secret: {name: c}}, {secret: {name: d, optional: true}}]}},
              {csi: {nodePublishSecretRef: {name: e}}}, {emptyDir: {}}]}",
            &["a", "c", "e"],
        ),
        ("{imagePullSecrets: [{name: a}]}", &[]),
        ("{containers: [{env: {}}], volumes: [1]}", &[]),
    ] {
        let pod: Value = serde_saphyr::from_str(pod).unwrap();
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let workload = serde_json::json!({"spec": {"template": {"spec": pod}}});
        assert_eq!(needed_by(&workload), expected, "{pod}");
        let bare = serde_json::json!({ "spec": pod });
        assert_eq!(needed_by(&bare), expected, "{pod}");
    }
}
