// The part of Headlamp that the plugin uses. Headlamp provides it in a global variable, as its plugin kit
// (@kinvolk/headlamp-plugin, tested with 0.14.0) expects of all plugins.

interface ClusterRequest {
  cluster: string;
  headers?: Record<string, string>;
  autoLogoutOnAuthError?: boolean;
}

interface HostHistory {
  push(path: string): void;
  createHref(location: { pathname: string }): string;
}

interface HostResource {
  kind: string;
  cluster?: string;
  jsonData?: {
    apiVersion?: string;
    kind?: string;
    metadata?: { name?: string; namespace?: string };
  };
}

interface Host {
  ApiProxy: {
    /** Fails with an error that has the HTTP status. */
    clusterRequest(path: string, params: ClusterRequest): Promise<unknown>;
    stream(
      url: string,
      onMessage: (message: unknown) => void,
      args: { isJson: boolean; cluster: string; reconnectOnFailure: boolean; failCb: () => void },
    ): { cancel(): void };
  };
  CommonComponents: { DetailsGrid: unknown; SectionBox: unknown };
  Crd: {
    makeCustomResourceClass(definition: {
      apiInfo: { group: string; version: string }[];
      isNamespaced: boolean;
      singularName: string;
      pluralName: string;
      kind: string;
    }): unknown;
  };
  MuiMaterial: { styles: { useTheme(): { palette: { mode: string } } } };
  React: { createElement(type: unknown, props: object | null, ...children: unknown[]): unknown };
  ReactRouter: { useHistory(): HostHistory; useParams(): Record<string, string> };
  Router: { createRouteURL(name: string, params: Record<string, string>): string };
  registerRoute(route: {
    path: string;
    exact: boolean;
    name: string;
    sidebar: string;
    component: () => unknown;
  }): void;
  registerDetailsViewSection(section: (props: { resource: HostResource | null }) => unknown): void;
}

declare const pluginLib: Host;

declare module "*.wasm.gz" {
  const bytes: Uint8Array<ArrayBuffer>;
  export default bytes;
}

declare module "*.css" {
  const text: string;
  export default text;
}
