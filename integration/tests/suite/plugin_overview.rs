//! The plugin's `status` and `tree` for many deployments, and shell completion.

use baton_integration::faults::ObservedRequest;
use baton_integration::plugin::snapshots;
use baton_integration::prelude::*;

/// Creates the deployment `web`, whose second revision fails, the deployment `api`, which is
/// available, and the revision `v1` without a deployment.
async fn create_all_kinds_of_owners(ns: &TestNamespace) {
    let content = |name: &str| {
        ns.content()
            .phase("a", [configmap(name), configmap(&format!("{name}-fine"))])
            .probe(name_annotation_probe())
    };
    for name in ["api", "web"] {
        let labelled = ns.deployment(name).template_label("app", name);
        labelled.content(content(name)).create().await;
        for object in [name, &format!("{name}-fine")] {
            let object = configmap(object);
            ns.object_becomes(&object, "written", |_| true).await;
            ns.annotate_with_name(&object).await;
        }
        ns.existing(name).concluded().await;
    }
    ns.revision(1)
        .phase("a", [configmap("lone")])
        .available()
        .await;
    let web = ns.existing("web");
    let failing = ns
        .content()
        .phase("a", [configmap("web-fine"), configmap("web-failing")])
        .probe(name_annotation_probe());
    web.edit(failing).await;
    web.set_reaches(2, &[Because("Available", "False", "ProbeFailure")])
        .await;
    web.set_reaches(1, &[Is("InTransition", "True"), Is("Available", "True")])
        .await;
    web.reaches(&[Is("Available", "True"), Is("Progressing", "True")])
        .await;
}

#[tokio::test]
async fn the_overview_shows_one_line_each_and_filters_by_labels() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_all_kinds_of_owners(&ns).await;
    let status = ns.plugin(&["status"]);
    assert_eq!((status.code, &*status.stderr), (1, ""), "{status:?}");
    snapshots(&ns).bind(|| {
        insta::assert_snapshot!("overview", status.stdout);
        let unhealthy = ns.plugin(&["status", "--unhealthy"]);
        assert_eq!(unhealthy.code, 1);
        insta::assert_snapshot!("overview_unhealthy", unhealthy.stdout);
        let tree = ns.plugin(&["tree", "--unhealthy"]).success();
        insta::assert_snapshot!("overview_tree", tree);
    });
    let names = |ran: &str| -> Vec<String> {
        let lines = ran.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    for (selector, expected, code) in [
        ("app=api", &["od/api"][..], 0),
        ("app=web", &["od/web"], 1),
        ("app in (api,web)", &["od/api", "od/web"], 1),
        ("!app", &["os/v1"], 0),
        ("app,app!=web", &["od/api"], 0),
    ] {
        let ran = ns.plugin(&["status", "-l", selector]);
        assert_eq!(
            (names(&ran.stdout), ran.code),
            (expected.iter().map(ToString::to_string).collect(), code)
        );
        let tree = ns.plugin(&["tree", "-l", selector, "-o", "json"]).success();
        let tree: Value = serde_json::from_str(&tree).unwrap();
        assert_eq!(
            tree["chains"].as_array().unwrap().len(),
            expected.len(),
            "{selector}"
        );
    }
    let all = ns.plugin(&["status", "-A", "-o", "json"]).stdout;
    let all: Value = serde_json::from_str(&all).unwrap();
    let own = all["chains"].as_array().unwrap().iter();
    let own: Vec<_> = own
        .filter(|chain| chain["namespace"] == ns.name())
        .collect();
    let verdicts: Vec<_> = own
        .iter()
        .map(|chain| chain["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["RolledOut", "Underway", "RolledOut"], "{own:?}");
    assert_eq!(ns.plugin(&["status", "api", "v1"]).code, 0);

    let fine = ns.plugin(&["status", "-l", "app=api", "--unhealthy"]);
    assert_eq!(
        (fine.code, &*fine.stderr),
        (0, "All 1 are rolled out.\n"),
        "{fine:?}"
    );
    let fine = ns.plugin(&["tree", "-l", "app=api", "--unhealthy"]);
    assert_eq!(
        (fine.code, &*fine.stderr),
        (0, "No unhealthy objects found.\n"),
        "{fine:?}"
    );
    for (args, expected) in [
        (
            &["status", "--watch"][..],
            "--watch needs exactly one TARGET",
        ),
        (
            &["status", "web", "-l", "a"],
            "a TARGET and -l cannot be used together",
        ),
        (
            &["tree", "web", "-l", "a"],
            "a TARGET and -l cannot be used together",
        ),
        (
            &["status", "app/web", "-A"],
            "a TARGET and -A cannot be used together",
        ),
    ] {
        let said = ns.plugin(args).failed();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// The number of requests does not depend on the number of deployments: one list for each kind. The
/// Releases of Applications are read only if there are Applications, as in other namespaces.
#[tokio::test]
async fn the_overview_costs_one_list_request_per_kind() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_all_kinds_of_owners(&ns).await;
    let plugin = ns.seen_plugin().await;
    let both = [
        "applications",
        "objectdeployments",
        "objectsets",
        "sitedeployments",
    ];
    let everywhere = [
        "applications",
        "clusterobjectdeployments",
        "clusterobjectsets",
        "objectdeployments",
        "objectsets",
        "sitedeployments",
    ];
    for args in [&["status"][..], &["status", "-l", "app=web", "--unhealthy"]] {
        assert_eq!(plugin.asks_for(args).await, both, "{args:?}");
    }
    // Deployments of other tests may need their slices or Releases, and fill further pages of a list.
    let mut asked = plugin.asks_for(&["status", "-A"]).await;
    asked.retain(|it| everywhere.contains(&&**it));
    asked.dedup();
    assert_eq!(asked, everywhere);
}

/// The other revisions of the namespace are not read, because they can be many and large.
#[tokio::test]
async fn commands_about_one_deployment_read_only_its_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_all_kinds_of_owners(&ns).await;
    let plugin = ns.seen_plugin().await;
    for args in [
        &["status", "web"][..],
        &["status", "od/web", "od/api"],
        &["tree", "od/web"],
        &["history", "web"],
        &["diff", "web"],
        &["drift", "web"],
        &["events", "web"],
        &[
            "wait",
            "web",
            "--for=condition=Available=False",
            "--timeout=1s",
        ],
        &["rollback", "web", "--dry-run"],
    ] {
        let before = plugin.requests().len();
        plugin.asks_for(args).await;
        let requests = plugin.requests().split_off(before);
        let is_list = |request: &&ObservedRequest| request.path.ends_with("/objectsets");
        let lists: Vec<&ObservedRequest> = requests.iter().filter(is_list).collect();
        let is_narrow = |request: &&ObservedRequest| request.query.contains("labelSelector=");
        assert!(!lists.is_empty(), "{args:?}: {requests:?}");
        assert!(lists.iter().all(is_narrow), "{args:?}: {lists:?}");
    }
}

/// A user who may write a revision may remove its label. The controller reference decides.
#[tokio::test]
async fn a_revision_without_the_label_of_its_deployment_is_shown() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_all_kinds_of_owners(&ns).await;
    let web = ns.existing("web");
    let sets = web.sets().await;
    let shown = || {
        let history = ns.plugin(&["history", "web"]).success();
        let status = ns.plugin(&["status", "web", "-o", "json"]).stdout;
        let status: Value = serde_json::from_str(&status).unwrap();
        let status =
            ["verdict", "message", "revision", "otherHolders"].map(|field| status[field].clone());
        (history.lines().count(), status)
    };
    let before = shown();
    let unlabelled =
        json!({ "metadata": { "labels": { "package-operator.run/object-deployment": null } } });
    for set in &sets {
        ns.patch_set(set.name(), &unlabelled).await.unwrap();
        assert_eq!(shown(), before, "without the label of {}", set.name());
    }
    assert!(web.sets().await.is_empty());
}

/// Completion offers values from the cluster, and nothing to users without rights.
#[tokio::test]
async fn values_of_flags_are_completed_with_what_the_cluster_has() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_all_kinds_of_owners(&ns).await;
    let complete = |words: &[&str], more: &[&str]| {
        let words = [&["__complete", "-n", ns.name()], more, words].concat();
        ns.plugin(&words).success()
    };
    let revisions = "1\tAvailable\n2\tNotReady\n:4\n";
    for (words, expected) in [
        (&["rollback", "web", "--to-revision", ""][..], revisions),
        (&["rollback", "od", "web", "--to-revision="], revisions),
        (&["diff", "od/web", "--from", "2"], "2\tNotReady\n:4\n"),
        (
            &["history", "os/v1", "--revision", ""],
            "1\tAvailable\n:4\n",
        ),
        (
            &["wait", "web", "--for=revision="],
            "revision=1\tAvailable\nrevision=2\tNotReady\n:4\n",
        ),
        (
            &["wait", "web", "--for", "rol"],
            "rolled-out\tthe newest content is available\n:4\n",
        ),
        (&["rollback", "none", "--to-revision", ""], ":4\n"),
        (&["rollback", "--to-revision", ""], ":4\n"),
        (&["rollback", "app/web", "--to-revision", ""], ":4\n"),
    ] {
        assert_eq!(complete(words, &[]), expected, "{words:?}");
        if expected.contains("NotReady") || expected.contains("Available\n") {
            let nobody = format!("--as=system:serviceaccount:{}:nobody", ns.name());
            assert_eq!(complete(words, &[&nobody]), ":4\n", "{words:?}");
        }
    }
    let contexts = complete(&["tree", "--context", ""], &[]);
    assert!(
        contexts.lines().count() > 1 && contexts.ends_with(":4\n"),
        "{contexts}"
    );
    assert_eq!(
        complete(&["tree", "--context", ""], &["--kubeconfig=/none"]),
        ":4\n"
    );
}
