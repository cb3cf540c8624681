// The pages of our kinds in Headlamp: its own details of an object, and the page of the dashboard for it.

import { PageElement } from "./page";

/** The kinds with a page: group, version, kind, plural. Those of a cluster have no namespace. */
const KINDS = [
  ["package-operator.run", "v1alpha1", "ObjectSet", "objectsets"],
  ["package-operator.run", "v1alpha1", "ClusterObjectSet", "clusterobjectsets"],
  ["package-operator.run", "v1alpha1", "ObjectDeployment", "objectdeployments"],
  ["package-operator.run", "v1alpha1", "ClusterObjectDeployment", "clusterobjectdeployments"],
  ["shipper.booking.com", "v1alpha1", "Application", "applications"],
] as const;

const TAG = "baton-page";

const { CommonComponents, Crd, MuiMaterial, React, ReactRouter } = pluginLib;

// Headlamp may load the plugin again.
if (customElements.get(TAG) === undefined) customElements.define(TAG, PageElement);

for (const [group, version, kind, plural] of KINDS) {
  const isNamespaced = !kind.startsWith("Cluster");
  const resourceType = Crd.makeCustomResourceClass({
    apiInfo: [{ group, version }],
    isNamespaced,
    singularName: kind.toLowerCase(),
    pluralName: plural,
    kind,
  });
  // Headlamp's own page for all custom resources has no sections of plugins.
  pluginLib.registerRoute({
    path: `/customresources/${plural}.${group}/:namespace/:crName`,
    exact: true,
    // Headlamp finds routes by their names too.
    name: `Baton ${kind}`,
    sidebar: "customresources",
    component: () => {
      const { namespace, crName } = ReactRouter.useParams();
      return React.createElement(CommonComponents.DetailsGrid, {
        resourceType,
        name: crName,
        namespace: isNamespaced ? namespace : undefined,
        backLink: "",
      });
    },
  });
}

pluginLib.registerDetailsViewSection(({ resource }) => {
  const { apiVersion = "", kind = resource?.kind, metadata } = resource?.jsonData ?? {};
  const isOurs = KINDS.some(([group, , name]) => apiVersion.startsWith(`${group}/`) && name === kind);
  if (!isOurs || metadata?.name === undefined) return null;
  const { name, namespace } = metadata;
  const subject = { kind, namespace, name, cluster: resource?.cluster };
  return React.createElement(
    CommonComponents.SectionBox,
    { title: "Rollout" },
    React.createElement(Page, { subject }),
  );
});

function Page({ subject }: { subject: Record<string, string | undefined> }): unknown {
  const history = ReactRouter.useHistory();
  const scheme = MuiMaterial.styles.useTheme().palette.mode;
  const ref = (element: PageElement | null): void => {
    if (element !== null) element.history = history;
  };
  return React.createElement(TAG, { ...subject, scheme, ref });
}
