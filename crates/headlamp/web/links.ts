// Links of a page lead to the pages of Headlamp.

/** The definitions of the kinds of chains, by their names in addresses. */
const CHAINS: Record<string, string> = {
  od: "objectdeployments.package-operator.run",
  cod: "clusterobjectdeployments.package-operator.run",
  os: "objectsets.package-operator.run",
  cos: "clusterobjectsets.package-operator.run",
};

/** The definitions of other kinds, by their parts of addresses. */
const OTHERS: Record<string, string> = {
  applications: "applications.shipper.booking.com",
  sites: "sitedeployments.baton.run",
};

/** The path of an address in Headlamp; undefined if Headlamp has no such page. */
function pathOf(address: string, cluster: string): string | undefined {
  const [, page = "", ...rest] = address.split("/").map(decodeURIComponent);
  const [crd, namespace, crName] = page === "chains" ? [CHAINS[rest[0] ?? ""], rest[1], rest[2]] : [OTHERS[page], ...rest];
  if (crd === undefined || namespace === undefined || crName === undefined) return undefined;
  return pluginLib.Router.createRouteURL("customresource", { cluster, crd, namespace, crName });
}

/** Turns the links of a page into those of Headlamp. Links to other pages become text. */
export function rewriteLinks(content: DocumentFragment, cluster: string, history: HostHistory | undefined): void {
  for (const link of content.querySelectorAll<HTMLAnchorElement>("a[href]")) {
    const path = pathOf(link.getAttribute("href") ?? "", cluster);
    if (path === undefined) {
      link.replaceWith(...link.childNodes);
    } else {
      link.dataset.path = path;
      link.href = history?.createHref({ pathname: path }) ?? path;
    }
  }
}

/** Follows a link without a load of the whole application. */
export function follow(event: MouseEvent, history: HostHistory | undefined): void {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-path]");
  if (!isPlain || link === null || history === undefined) return;
  event.preventDefault();
  history.push(link.dataset.path ?? "");
}
