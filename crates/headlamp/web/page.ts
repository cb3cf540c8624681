// The page of an object, as an element.

import { apply } from "./change";
import style from "./dashboard.css";
import { follow, rewriteLinks } from "./links";
import { WatchedList } from "./lists";
import { run, type Discovery, type Output, type Read, type Subject } from "./program";
import { tick } from "./times";

/** The time from a change to the next rendering, in milliseconds: changes come in bursts. */
const BURST = 100;
/** The longest time between two renderings, in milliseconds, as states depend on the time. */
const LONGEST = 30_000;
/** The pause after a rendering, as a multiple of its time. */
const PAUSES = 4;
/** The shortest time between two reads of the kinds of the server, in milliseconds. */
const KINDS_VALID = 25_000;
/** The format of the documents about all kinds. */
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** Shows the page of the object that its attributes name: `kind`, `namespace`, `name`, `cluster`. */
export class PageElement extends HTMLElement {
  static readonly observedAttributes = ["kind", "namespace", "name", "cluster"];

  history: HostHistory | undefined;
  private session: Session | undefined;
  private clock: number | undefined;
  /** True if the content is a page, which stays while a later one cannot be drawn. */
  private hasPage = false;
  private content: HTMLElement | undefined;
  private trouble: HTMLElement | undefined;

  connectedCallback(): void {
    if (this.content === undefined) this.build();
    this.clock = window.setInterval(() => this.content && tick(this.content), 1000);
    this.restart();
  }

  disconnectedCallback(): void {
    clearInterval(this.clock);
    this.session?.close();
    this.session = undefined;
  }

  attributeChangedCallback(): void {
    if (this.isConnected && this.content !== undefined) this.restart();
  }

  private build(): void {
    const root = this.attachShadow({ mode: "open" });
    const sheet = document.createElement("style");
    sheet.textContent = style;
    this.trouble = document.createElement("p");
    this.trouble.className = "trouble";
    this.trouble.setAttribute("role", "alert");
    this.content = document.createElement("div");
    root.append(sheet, this.trouble, this.content);
    root.addEventListener("click", (event) => follow(event as MouseEvent, this.history));
  }

  private restart(): void {
    this.session?.close();
    this.hasPage = false;
    this.content?.replaceChildren("Reading …");
    this.say("");
    const subject = {
      kind: this.getAttribute("kind") ?? "",
      namespace: this.getAttribute("namespace") ?? undefined,
      name: this.getAttribute("name") ?? "",
    };
    const cluster = this.getAttribute("cluster") ?? "";
    this.session = new Session(subject, cluster, (output) => this.show(output));
  }

  private say(trouble: string): void {
    if (this.trouble === undefined) return;
    this.trouble.hidden = trouble === "";
    this.trouble.textContent = trouble;
  }

  private show({ html, trouble, isGone }: Output): void {
    if (this.content === undefined) return;
    this.hasPage = !isGone && (this.hasPage || html !== undefined);
    const prefix = this.hasPage ? "Not up to date: " : "";
    // While lists are missing, the page stays as it is.
    if (trouble !== undefined) this.say(prefix + trouble);
    else if (html !== undefined) this.say("");
    if (html !== undefined) {
      const page = document.createElement("template");
      page.innerHTML = html;
      rewriteLinks(page.content, this.getAttribute("cluster") ?? "", this.history);
      apply(this.content, { page: page.innerHTML });
      tick(this.content);
    } else if (trouble !== undefined && !this.hasPage) {
      this.content.replaceChildren();
    }
  }
}

/** Reads the lists of a page, and renders them after each change. */
class Session {
  private lists = new Map<string, WatchedList>();
  private discovery: Discovery | undefined;
  private discoveredAt = -Infinity;
  private isClosed = false;
  private isRunning = false;
  private isChanged = false;
  private timer: number | undefined;
  private readonly clock = setInterval(() => this.changed(), LONGEST);

  constructor(
    private readonly subject: Subject,
    private readonly cluster: string,
    private readonly show: (output: Output) => void,
  ) {
    this.changed(0);
  }

  close(): void {
    this.isClosed = true;
    clearInterval(this.clock);
    clearTimeout(this.timer);
    for (const list of this.lists.values()) list.close();
  }

  private changed(after = BURST): void {
    if (this.isRunning) this.isChanged = true;
    else this.timer ??= window.setTimeout(() => void this.render(), after);
  }

  private async render(): Promise<void> {
    this.timer = undefined;
    this.isRunning = true;
    const start = performance.now();
    try {
      const reads = [...this.lists.values()].map(({ read }) => read);
      const output = await run({
        subject: this.subject,
        now: new Date().toISOString(),
        reads: reads.filter((read): read is Read => read !== undefined),
        discovery: this.discovery,
      });
      if (this.isClosed) return;
      this.read(output);
      const isOld = performance.now() - this.discoveredAt > KINDS_VALID;
      if (output.discovery !== undefined && isOld) void this.discover(output.discovery);
      this.show(output);
    } catch (error) {
      const trouble = `the page cannot be drawn: ${String(error)}`;
      if (!this.isClosed) this.show({ trouble, isGone: false, lists: [] });
    } finally {
      this.isRunning = false;
      const time = performance.now() - start;
      if (this.isChanged && !this.isClosed) {
        this.isChanged = false;
        this.changed(Math.max(BURST, time * PAUSES));
      }
    }
  }

  /** Reads and watches the lists of a page. Those of an incomplete page are added to the others. */
  private read({ lists, html }: Output): void {
    const keys = new Map(lists.map((request) => [JSON.stringify(request), request]));
    for (const [key, list] of this.lists) {
      if (html === undefined || keys.has(key)) continue;
      list.close();
      this.lists.delete(key);
    }
    for (const [key, request] of keys) {
      if (this.lists.has(key)) continue;
      this.lists.set(key, new WatchedList(request, this.cluster, () => this.changed()));
    }
  }

  private async discover(paths: string[]): Promise<void> {
    this.discoveredAt = performance.now();
    const params = { cluster: this.cluster, headers: { Accept: DISCOVERY }, autoLogoutOnAuthError: false };
    const read = paths.map((path) => pluginLib.ApiProxy.clusterRequest(path, params));
    try {
      this.discovery = { documents: await Promise.all(read) };
    } catch (error) {
      const { documents = [] } = this.discovery ?? {};
      this.discovery = { documents, error: (error as Error).message };
    }
    if (!this.isClosed) this.changed();
  }
}
