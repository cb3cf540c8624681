//! The part of the tour about sites: versions of an application, rolled out over three clusters in waves.

use super::expect::Expect::{Field, Is, Kept, Pods, Runs, Says};
use super::steps::{Command, Step};

/// The context of the cluster that an agent serves.
pub(crate) const EDGE_CONTEXT: &str = "kwok-demo-edge";

/// The name under which the site joins.
pub(crate) const EDGE: &str = "edge-1";

/// The kinds in the hub, which is a site itself, that the steps check.
pub(crate) const KINDS: &str = "siteapplications,sitedeployments,objectsets,deployments";

/// The kinds in the other sites that the steps check.
pub(crate) const KINDS_OF_SITE: &str = "deployments";

const DEPLOYMENT: &str = "SiteDeployment/till";
const EDGE_CLUSTER: &str = "Cluster/edge-1";

const EU: &str = "Deployment/till";
const US: &str = "us-1:Deployment/till";
const EDGE_TILL: &str = "edge-1:Deployment/till";

const V2: &str = "registry.example/till:1.2.0";
const V3: &str = "registry.example/till:1.3.0";

const UPDATED: &str = "/status/counts/updated";
const OFFLINE: &str = "/status/counts/offline";
const QUEUED: &str = "/status/counts/queued";
const REPLICAS: &str = "/spec/replicas";

const TREE: Command = ("kubectl baton -n baton-demo tree sitedeploy/till", 0);
const SITES: Command = ("kubectl baton -n baton-demo sites", 0);
const HISTORY: Command = ("kubectl baton -n baton-demo history sitedeploy/till", 0);

/// The fourth part: a fleet of three sites.
pub(crate) const TILL: [Step; 8] = [
    Step {
        title: "Three sites",
        acts: &[
            (
                "baton cluster join edge-1 --pull --apply --region edge --context kwok-demo-edge",
                0,
            ),
            (
                "kubectl --context kwok-demo-edge apply -f config/samples/00-namespace.yaml",
                0,
            ),
            (
                "kubectl label clusters.shipper.booking.com eu-1 us-1 edge-1 system/type=edge",
                0,
            ),
            (
                "kubectl label clusters.shipper.booking.com eu-1 canary=true",
                0,
            ),
        ],
        expected: &[Says(EDGE_CLUSTER, "Connected", "Connected: ")],
        narration: "A site is a cluster with labels. The manager connects to eu-1 and us-1; edge-1 has an agent, which \
            connects to the hub, so the hub needs no connection to that cluster.",
        looks: &[("kubectl get clusters.shipper.booking.com --show-labels", 0)],
    },
    Step {
        title: "The first version goes to all sites",
        acts: &[
            (
                "kubectl apply -f config/samples/40-site-application.yaml",
                0,
            ),
            ("kubectl apply -f config/samples/41-site-deployment.yaml", 0),
        ],
        expected: &[
            Says(DEPLOYMENT, "Progressing", "Complete: "),
            Field(DEPLOYMENT, UPDATED, "3"),
            Pods(EU, V2),
            Pods(US, V2),
            Pods(EDGE_TILL, V2),
        ],
        narration: "The placement chose the sites by their labels. The canary, eu-1, got the version first; when it \
            had been healthy for three seconds the two others followed.",
        looks: &[TREE],
    },
    Step {
        title: "One site goes offline, another one closes its window",
        acts: &[
            (
                "kubectl --context kwok-demo-edge -n baton-system scale deployment baton-agent --replicas=0",
                0,
            ),
            (
                "kubectl patch clusters.shipper.booking.com us-1 --type merge \
                 -p {\"spec\":{\"upgradeWindows\":[{\"cron\":\"@yearly\",\"duration\":\"1m\"}]}}",
                0,
            ),
        ],
        expected: &[
            Says(EDGE_CLUSTER, "Connected", "AgentSilent: "),
            Field(DEPLOYMENT, OFFLINE, "1"),
        ],
        narration: "The agent of edge-1 is gone, and the provider of us-1 allows upgrades in the first minute of a \
            year only. The workloads in both continue to run.",
        looks: &[SITES],
    },
    Step {
        title: "The next version: the canary first",
        acts: &[
            (
                "kubectl baton -n baton-demo diff -f config/samples/42-site-application-next.yaml",
                1,
            ),
            (
                "kubectl apply -f config/samples/42-site-application-next.yaml",
                0,
            ),
        ],
        expected: &[
            Field(DEPLOYMENT, UPDATED, "1"),
            Field(DEPLOYMENT, QUEUED, "2"),
            Pods(EU, V3),
            Pods(US, V2),
            Pods(EDGE_TILL, V2),
            Kept(EU),
            Kept(US),
            Kept(EDGE_TILL),
        ],
        narration: "The canary has the new version. Both others have it in their queues: us-1 waits for its window, \
            edge-1 for its agent. A site that is offline has not failed, and delays no other site.",
        looks: &[TREE, SITES],
    },
    Step {
        title: "The window opens",
        acts: &[(
            "kubectl patch clusters.shipper.booking.com us-1 --type merge \
                 -p {\"spec\":{\"upgradeWindows\":[{\"cron\":\"@hourly\",\"duration\":\"1h\"}]}}",
            0,
        )],
        expected: &[
            Says(DEPLOYMENT, "Progressing", "Complete: "),
            Field(DEPLOYMENT, UPDATED, "2"),
            Pods(US, V3),
            Pods(EDGE_TILL, V2),
            Kept(US),
        ],
        narration: "A window that opens every hour for an hour is always open. Its service \"ledger\" was stopped \
            before its new version was written, as the application requests. The pods of the till were replaced one \
            by one.",
        looks: &[TREE],
    },
    Step {
        title: "The site comes back",
        acts: &[(
            "kubectl --context kwok-demo-edge -n baton-system scale deployment baton-agent --replicas=1",
            0,
        )],
        expected: &[
            Field(DEPLOYMENT, UPDATED, "3"),
            Field(DEPLOYMENT, OFFLINE, "0"),
            Is(DEPLOYMENT, "Ready", "True"),
            Pods(EDGE_TILL, V3),
            Kept(EDGE_TILL),
        ],
        narration: "The agent found the version in its queue and rolled it out, without any command.",
        looks: &[TREE],
    },
    Step {
        title: "A version that fails: abort",
        acts: &[(
            "kubectl apply -f config/samples/43-site-application-failing.yaml",
            0,
        )],
        expected: &[
            Says(DEPLOYMENT, "Aborted", "SiteFailed: "),
            Field(EU, REPLICAS, "2"),
            Pods(US, V3),
            Pods(EDGE_TILL, V3),
            Kept(US),
            Kept(EDGE_TILL),
        ],
        narration: "The pods of the canary did not start within the deadline, so the rollout was aborted: no other \
            site gets this version, even if the manager is restarted now.",
        looks: &[
            ("kubectl baton -n baton-demo status sitedeploy/till", 1),
            TREE,
        ],
    },
    Step {
        title: "Rollback: an earlier version as the next one",
        acts: &[("kubectl baton -n baton-demo rollback sitedeploy/till", 0)],
        expected: &[
            Says(DEPLOYMENT, "Progressing", "Complete: "),
            Field(DEPLOYMENT, "/status/version", "1.3.0"),
            Field(DEPLOYMENT, UPDATED, "3"),
            Runs(EU, 2),
            Pods(EU, V3),
            Pods(US, V3),
            Pods(EDGE_TILL, V3),
            Kept(EU),
            Kept(US),
            Kept(EDGE_TILL),
        ],
        narration: "The spec of the deployment names the earlier version now, and the canary has it again. In sites \
            that still ran it, nothing was written.",
        looks: &[HISTORY, SITES],
    },
];
