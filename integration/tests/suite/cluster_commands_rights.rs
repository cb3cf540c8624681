//! `baton cluster join --rights`: the rights of the account that delivers into a cluster.

use std::path::Path;

use baton_integration::prelude::*;
use baton_integration::sites::{CLUSTERS_NAMESPACE, Joined, PUSH, Site, TemporaryKubeconfig};

use crate::cluster_commands::{baton, messages, turn, value};
use crate::cluster_commands_pull::home;
use crate::tenants::{ALL, DEPLOYER, allow, user};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A cluster that is joined for tenants.
struct ForTenants<'a> {
    ns: &'a TestNamespace,
    joined: &'a Joined,
    /// The account that delivers in the cluster.
    account: &'static str,
    /// Additional flags of the join.
    flags: &'static [&'static str],
}

impl ForTenants<'_> {
    /// Runs `baton cluster join`, and returns its messages.
    fn join(&self, flags: &[&str]) -> String {
        let path = self.joined.site().kubeconfig();
        let args = [
            &["join", self.joined.name(), "-n", CLUSTERS_NAMESPACE],
            self.flags,
            flags,
        ];
        messages(baton(self.ns, Some(&path), &args.concat()))
    }

    fn role(&self) -> Value {
        object(RBAC, "ClusterRole", self.account).manifest
    }

    /// Returns the identity of the role binding that lets the account impersonate accounts in a
    /// namespace.
    fn binding(&self, namespace: &str) -> Value {
        let name = format!("{}-tenant", self.account);
        object(RBAC, "RoleBinding", &name)
            .within(namespace)
            .manifest
    }

    async fn there(&self) -> Cluster {
        self.joined.site().cluster().await
    }

    /// A revision without an account is refused; one with an account is delivered, handed over,
    /// archived and deleted.
    async fn delivers_as_accounts_only(&self) {
        let Self { ns, joined, .. } = self;
        let (site, there) = (joined.site(), self.there().await);
        allow(&there, ns.name(), DEPLOYER, &["configmaps"], &ALL).await;
        let own = configmap("own");
        ns.set("without")
            .delegated("a", &joined.class(), [own.clone()])
            .reaching(&[
                Is("Available", "False"),
                Says(
                    "Available",
                    &format!("serviceaccount:baton-system:{}", self.account),
                ),
                Says("Available", "forbidden"),
            ])
            .await;
        assert_eq!(site.read(ns, &own).await, None);
        ns.delete_set("without", "Background").await;

        let (kept, gone) = (configmap("kept"), configmap("gone"));
        let revision = |number, objects: &[Entry]| {
            ns.revision(number)
                .delegated("a", &joined.class(), objects.to_vec())
                .spec("serviceAccountName", DEPLOYER)
        };
        revision(1, &[kept.clone(), gone.clone()]).available().await;
        let before = site.live(ns, &kept).await;
        revision(2, &[kept.clone().data("k", "2")])
            .available()
            .await;
        let after = site.live(ns, &kept).await;
        assert_eq!(
            (uid(&after), &after["data"]["k"]),
            (uid(&before), &json!("2"))
        );
        ns.set_lifecycle("v1", "Archived").await;
        ns.reaches("v1", &[Is("Archived", "True")]).await;
        assert_eq!(site.read(ns, &gone).await, None);

        // The rights of the revision's account apply, not those of the delivering account.
        let hidden = secret("hidden");
        ns.set("more")
            .delegated("a", &joined.class(), [hidden.clone()])
            .spec("serviceAccountName", DEPLOYER)
            .reaching(&[
                Is("Available", "False"),
                Says("Available", &user(ns, DEPLOYER)),
                Says("Available", "secrets"),
            ])
            .await;
        assert_eq!(site.read(ns, &hidden).await, None);
        for name in ["more", "v2", "v1"] {
            ns.delete_set(name, "Background").await;
        }
        assert_eq!(site.read(ns, &kept).await, None);
    }

    /// The token of the delivering account can change nothing by itself, and can impersonate no
    /// account outside of the namespaces.
    async fn token_has_no_other_rights(&self, token: &str) {
        let kubeconfig = self.joined.site().endpoint().kubeconfig(token);
        let connected = async |kubeconfig: &str| {
            let file = TemporaryKubeconfig::new(kubeconfig);
            Cluster::connect(file.path()).await
        };
        let subject = json!({
            "kind": "ServiceAccount", "name": self.account, "namespace": "baton-system",
        });
        let administrator = object(RBAC, "ClusterRoleBinding", "administrator")
            .with("/roleRef", json!({
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
            }))
            .with("/subjects", json!([subject]))
            .manifest;
        let cm = |namespace: &str| configmap("theirs").within(namespace).manifest;
        let itself = connected(&kubeconfig).await;
        itself.list(&cm(self.ns.name()), "").await;
        for write in [&administrator, &cm(self.ns.name()), &cm("kube-system")] {
            let refused = itself.create(write).await.unwrap_err();
            assert_eq!(refused.code, 403, "{refused:?}");
        }
        let refused = itself.merge(&self.role(), &json!({ "rules": [] })).await;
        assert_eq!(refused.unwrap_err().code, 403);
        let refused = itself.try_delete(&self.role()).await;
        assert_eq!(refused.unwrap_err().code, 403);

        // Impersonation is allowed for a tenant's account, but not for a controller's account.
        for (namespace, account, expected) in [
            (self.ns.name(), DEPLOYER, None),
            (
                "kube-system",
                "clusterrole-aggregation-controller",
                Some(403),
            ),
            ("baton-system", self.account, Some(403)),
        ] {
            let mut config: Value = serde_json::from_str(&kubeconfig).unwrap();
            config["users"][0]["user"]["as"] =
                format!("system:serviceaccount:{namespace}:{account}").into();
            let other = connected(&config.to_string()).await;
            let written = other.create(&cm(self.ns.name())).await;
            assert_eq!(
                written.err().map(|refused| refused.code),
                expected,
                "{account}"
            );
        }
    }

    /// Requested rights are applied, and everything else stays unchanged.
    async fn rights_are_what_was_asked_for(&self) {
        let there = self.there().await;
        let rules = async || there.get(&self.role()).await.unwrap()["rules"].clone();
        let (for_tenants, bound) = (rules().await, self.binding(self.ns.name()));
        assert!(!for_tenants.to_string().contains(r#""*""#), "{for_tenants}");
        for flags in [
            &[][..],
            &["--rights=tenants"],
            &["--for-namespaces", self.ns.name()],
        ] {
            let again = self.join(flags);
            assert!(
                again.ends_with("was joined already; nothing was changed\n"),
                "{again}"
            );
        }

        // Kinds that a user has added stay, until the mode is requested again.
        let mut wider = for_tenants.clone();
        wider[0]["resources"] = json!(["configmaps", "pods"]);
        let edit = json!({ "rules": wider });
        there.merge(&self.role(), &edit).await.unwrap();
        let again = self.join(&[]);
        assert!(
            again.contains("its rules belong to a-user. Skipping"),
            "{again}"
        );
        assert_eq!(rules().await, wider);
        let title = format!("Updating cluster role {}... done", self.account);
        let again = self.join(&["--rights=tenants"]);
        assert!(again.contains(&title), "{again}");
        assert_eq!(rules().await, for_tenants);

        // The bindings are exactly those for these namespaces.
        let other = self.ns.unique("other");
        let again = self.join(&["--for-namespaces", &other]);
        let deleted = format!(
            "Deleting role binding {}-tenant in namespace {}... done",
            self.account,
            self.ns.name()
        );
        assert!(again.contains(&deleted), "{again}");
        assert_eq!(there.get(&bound).await, None);
        assert!(there.get(&self.binding(&other)).await.is_some());

        let again = self.join(&["--rights=trusted"]);
        assert!(again.contains(&title), "{again}");
        assert!(rules().await.to_string().contains(r#""*""#));
        assert_eq!(there.get(&self.binding(&other)).await, None);
        let again = self.join(&["--rights=tenants", "--for-all"]);
        assert!(
            again.contains("Note: objects are written as service accounts of"),
            "{again}"
        );
        assert_eq!(rules().await, for_tenants);
        self.join(&["--for-namespaces", &other]);
        self.joined.site().forget(&other).await;
    }

    /// No rights are left after the removal.
    async fn removed(&self, path: &Path) {
        let name = self.joined.name();
        let args = ["remove", name, "-n", CLUSTERS_NAMESPACE];
        messages(baton(self.ns, Some(path), &args));
        let there = self.there().await;
        let tenant = object(RBAC, "ClusterRole", &format!("{}-tenant", self.account)).manifest;
        for object in [self.role(), tenant, self.binding(self.ns.name())] {
            assert_eq!(there.get(&object).await, None, "{object}");
        }
    }
}

#[tokio::test]
async fn the_hub_delivers_into_a_cluster_of_tenants_with_their_rights_only() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let secrets = object("v1", "Namespace", CLUSTERS_NAMESPACE).manifest;
    ns.cluster().apply(&secrets, "tests").await.unwrap();
    let joined = site.join(&ns).without_secret().create().await;
    let cluster = ForTenants {
        ns: &ns,
        joined: &joined,
        account: "baton-hub",
        flags: &[],
    };
    let first = cluster.join(&["--rights=tenants", "--for-namespaces", ns.name()]);
    let bound = format!(
        "Creating role binding baton-hub-tenant in namespace {}... done",
        ns.name()
    );
    assert!(first.contains(&bound), "{first}");
    joined.becomes("Connected", "True").await;
    cluster.delivers_as_accounts_only().await;
    let secret = ns.cluster().get(&joined.secret_reference()).await.unwrap();
    cluster
        .token_has_no_other_rights(&value(&secret, "token"))
        .await;
    cluster.rights_are_what_was_asked_for().await;
    cluster.removed(&site.kubeconfig()).await;
}

#[tokio::test]
async fn an_agent_delivers_in_a_cluster_of_tenants_with_their_rights_only() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).pull().create().await;
    let cluster = ForTenants {
        ns: &ns,
        joined: &joined,
        account: "baton-agent",
        flags: &["--pull", "--apply"],
    };
    cluster.join(&["--rights=tenants", "--for-namespaces", ns.name()]);
    let agent_token = secret("agent-token").within(&home(joined.name())).manifest;
    let hub_token = value(&ns.cluster().get(&agent_token).await.unwrap(), "token");
    let token = cluster
        .there()
        .await
        .token("baton-system", "baton-agent")
        .await;
    let agent = joined.agent().hub_token(&hub_token).site_token(&token);
    let agent = agent.with_lease().start().await;
    joined.becomes("Connected", "True").await;
    cluster.delivers_as_accounts_only().await;
    cluster.token_has_no_other_rights(&token).await;
    drop(agent);
    cluster.rights_are_what_was_asked_for().await;
    cluster.removed(&site.kubeconfig()).await;
}
