//! The part of the tour about Applications: a chart, rolled out over two clusters.

use super::expect::Expect::{At, Complete, Field, Gone, Kept, Runs, Says, Serves};
use super::steps::{Command, Step};

/// The context of the cluster that joins the hub.
pub(crate) const OTHER: &str = "kwok-demo-us";

/// The name under which the other cluster joins.
pub(crate) const OTHER_NAME: &str = "us-1";

/// The kinds in the hub that the steps check.
pub(crate) const KINDS: &str = "applications,releases,deployments,services,endpointslices";

/// The kinds in the other cluster that the steps check.
pub(crate) const KINDS_OF_OTHER: &str = "deployments,services,endpointslices";

const APPLICATION: &str = "Application/bakery";

// The names of Releases contain a hash of their content, so these names are valid as long as the
// samples do not change.
const FIRST: &str = "Release/bakery-9034b7bf-0";
const SECOND: &str = "Release/bakery-2006f3c8-0";
const BROKEN: &str = "Release/bakery-7e96c1aa-0";
const BACK: &str = "Release/bakery-9034b7bf-1";
const FIRST_EU: &str = "Deployment/bakery-9034b7bf-0-test-nginx";
const FIRST_US: &str = "us-1:Deployment/bakery-9034b7bf-0-test-nginx";
const SECOND_EU: &str = "Deployment/bakery-2006f3c8-0-test-nginx";
const SECOND_US: &str = "us-1:Deployment/bakery-2006f3c8-0-test-nginx";
const BROKEN_EU: &str = "Deployment/bakery-7e96c1aa-0-test-nginx";
const BROKEN_US: &str = "us-1:Deployment/bakery-7e96c1aa-0-test-nginx";
const BACK_EU: &str = "Deployment/bakery-9034b7bf-1-test-nginx";
const BACK_US: &str = "us-1:Deployment/bakery-9034b7bf-1-test-nginx";

const SERVICE_EU: &str = "Service/test-nginx-prod";
const SERVICE_US: &str = "us-1:Service/test-nginx-prod";

/// The Release whose pods get all the traffic.
const SELECTED: &str = "/spec/selector/shipper-release";

/// The Release that has installed an object.
const OWNER: &str = "/metadata/labels/shipper-owned-by";

const TREE: Command = ("kubectl baton -n baton-demo tree app/bakery", 0);
const HISTORY: Command = ("kubectl baton -n baton-demo history app/bakery", 0);

/// The third part: an Application creates Releases, which are rolled out to two clusters step by
/// step.
pub(crate) const BAKERY: [Step; 9] = [
    Step {
        title: "Two clusters",
        acts: &[
            ("baton cluster join eu-1 --region eu --allow-same", 0),
            (
                "baton cluster join us-1 --region us --context kwok-demo-us",
                0,
            ),
            (
                "kubectl --context kwok-demo-us apply -f config/samples/00-namespace.yaml",
                0,
            ),
        ],
        expected: &[
            Says("Cluster/eu-1", "Connected", "Connected: "),
            Says("Cluster/us-1", "Connected", "Connected: "),
        ],
        narration: "The Releases go to two clusters: the cluster of the manager, which joins itself as eu-1, and \
            another one, us-1.",
        looks: &[("baton cluster list", 0)],
    },
    Step {
        title: "An Application creates Releases",
        acts: &[("kubectl apply -f config/samples/30-application.yaml", 0)],
        expected: &[At(FIRST, "staging"), Runs(FIRST_EU, 1), Runs(FIRST_US, 1)],
        narration: "helm rendered the chart, and each cluster has the result as a revision in a chain. The Release \
            waits at its first step, with one pod in each cluster, until a user promotes it.",
        looks: &[("kubectl -n baton-demo get applications,releases", 0)],
    },
    Step {
        title: "There is nothing to replace: all at once",
        acts: &[("kubectl baton -n baton-demo promote bakery --full", 0)],
        expected: &[
            Complete(FIRST),
            Runs(FIRST_EU, 4),
            Runs(FIRST_US, 4),
            Field(SERVICE_EU, SELECTED, "bakery-9034b7bf-0"),
            Field(SERVICE_US, SELECTED, "bakery-9034b7bf-0"),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
        ],
        narration: "The first Release went to its last step and skipped the one between. The tree shows both clusters, \
            down to the objects: the Deployment, and the Service, whose traffic all goes to this Release.",
        looks: &[TREE],
    },
    Step {
        title: "The next Release, step 1 of 3: a pod without traffic",
        acts: &[
            (
                "kubectl baton -n baton-demo diff -f config/samples/31-application-next.yaml",
                1,
            ),
            (
                "kubectl apply -f config/samples/31-application-next.yaml",
                0,
            ),
        ],
        expected: &[
            At(SECOND, "staging"),
            Complete(FIRST),
            Runs(SECOND_EU, 1),
            Runs(SECOND_US, 1),
            Runs(FIRST_EU, 4),
            Runs(FIRST_US, 4),
            Field(SERVICE_EU, SELECTED, "bakery-9034b7bf-0"),
            Field(SERVICE_US, SELECTED, "bakery-9034b7bf-0"),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(FIRST_EU),
            Kept(FIRST_US),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "The Service has been handed over to the new revision, and still selects the pods of the old \
            Release.",
        looks: &[TREE],
    },
    Step {
        title: "Step 2 of 3: half of the pods, half of the traffic",
        acts: &[("kubectl baton -n baton-demo promote bakery", 0)],
        expected: &[
            At(SECOND, "50/50"),
            Runs(SECOND_EU, 2),
            Runs(SECOND_US, 2),
            Runs(FIRST_EU, 2),
            Runs(FIRST_US, 2),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(FIRST_EU),
            Kept(FIRST_US),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "First the new Release got its pods, then traffic moved, and only then did the old Release lose \
            pods. Both clusters did this at the same time.",
        looks: &[TREE],
    },
    Step {
        title: "Step 3 of 3: all of it",
        acts: &[("kubectl baton -n baton-demo promote bakery", 0)],
        expected: &[
            Complete(SECOND),
            Runs(SECOND_EU, 4),
            Runs(SECOND_US, 4),
            Runs(FIRST_EU, 0),
            Runs(FIRST_US, 0),
            Field(SERVICE_EU, SELECTED, "bakery-2006f3c8-0"),
            Field(SERVICE_US, SELECTED, "bakery-2006f3c8-0"),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "The old Release stays in the history, without pods. The Service selects the new one by its name, \
            so pods that are created while the manager is down get traffic too.",
        looks: &[HISTORY],
    },
    Step {
        title: "A Release that fails",
        acts: &[(
            "kubectl apply -f config/samples/32-application-failing.yaml",
            0,
        )],
        expected: &[
            Says(APPLICATION, "RollingOut", "to \"bakery-7e96c1aa-0\""),
            Field(BROKEN, "/status/strategy/state/waitingForCapacity", "True"),
            Field(BROKEN_EU, "/spec/replicas", "1"),
            Field(BROKEN_US, "/spec/replicas", "1"),
            Field(SERVICE_EU, OWNER, "bakery-7e96c1aa-0"),
            Field(SERVICE_US, OWNER, "bakery-7e96c1aa-0"),
            Complete(SECOND),
            Runs(SECOND_EU, 4),
            Runs(SECOND_US, 4),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(SECOND_EU),
            Kept(SECOND_US),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "Its pods do not start, so it is in the middle of its first step, and its status contains the \
            reason. It controls the Service already, but gets no traffic.",
        looks: &[("kubectl baton -n baton-demo status app/bakery", 1), TREE],
    },
    Step {
        title: "Abort: the newest Release is deleted",
        acts: &[("kubectl baton -n baton-demo abort bakery --yes", 0)],
        expected: &[
            Gone(BROKEN),
            Gone(BROKEN_EU),
            Gone(BROKEN_US),
            Complete(SECOND),
            Says(
                APPLICATION,
                "RollingOut",
                "Release \"bakery-2006f3c8-0\" is active",
            ),
            Field(APPLICATION, "/spec/template/values/image", "null"),
            Field(SERVICE_EU, OWNER, "bakery-2006f3c8-0"),
            Field(SERVICE_US, OWNER, "bakery-2006f3c8-0"),
            Field(SERVICE_EU, SELECTED, "bakery-2006f3c8-0"),
            Field(SERVICE_US, SELECTED, "bakery-2006f3c8-0"),
            Runs(SECOND_EU, 4),
            Runs(SECOND_US, 4),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(SECOND_EU),
            Kept(SECOND_US),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "The objects that only the deleted Release had are gone. The Service, which it shared with the \
            Release before, was handed back: it is the same object, with the content and the traffic of the remaining \
            Release. The Application has the template of that Release again.",
        looks: &[TREE],
    },
    Step {
        title: "Rollback: an earlier Release as the next one",
        acts: &[
            ("kubectl baton -n baton-demo rollback app/bakery", 0),
            ("kubectl baton -n baton-demo promote bakery --full", 0),
        ],
        expected: &[
            Complete(BACK),
            Runs(BACK_EU, 4),
            Runs(BACK_US, 4),
            Runs(SECOND_EU, 0),
            Runs(SECOND_US, 0),
            Field(SERVICE_EU, SELECTED, "bakery-9034b7bf-1"),
            Field(SERVICE_US, SELECTED, "bakery-9034b7bf-1"),
            Serves(SERVICE_EU, 4),
            Serves(SERVICE_US, 4),
            Kept(SERVICE_EU),
            Kept(SERVICE_US),
        ],
        narration: "Chart and values are those of the first Release, in both clusters. The new Release went through \
            the steps, as any other does: a rollback is a new Release.",
        looks: &[HISTORY, TREE],
    },
];
