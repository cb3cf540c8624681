// Reads lists with the rights of the viewer, and watches them.

import type { Read, Wanted } from "./program";

/** The shortest and the longest pause before a list is read again, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 60_000];
/** A watch that was open for this time, in milliseconds, does not count as a failed attempt. */
const STABLE = 10_000;
/** The time after which the server ends a watch, in seconds. */
const WATCH = 290;
/** The time after which a watch is opened again, in milliseconds: a lost connection may stay silent. */
const LONGEST_WATCH = 300_000;
/** The number of objects in an answer. */
const PAGE = 500;
/** The number of lists that are read at the same time. */
const CONCURRENT = 6;

interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: { uid: string; resourceVersion: string; managedFields?: unknown };
}

interface KubeList {
  apiVersion: string;
  kind: string;
  items: KubeObject[] | null;
  metadata: { resourceVersion: string; continue?: string };
}

interface WatchEvent {
  type: string;
  object: KubeObject;
}

type Failure = Error & { status?: number };

/** A list that is read, and watched until it is closed. */
export class WatchedList {
  private objects: Map<string, KubeObject> | undefined;
  private failure: { error?: string; status?: number } | undefined;
  private isClosed = false;
  private pause = FIRST_PAUSE;
  private timer: number | undefined;
  private endWatch: (() => void) | undefined;

  constructor(
    private readonly request: Wanted,
    private readonly cluster: string,
    private readonly onChange: () => void,
  ) {
    void this.list();
  }

  /** The result of the last read; absent before the first answer. */
  get read(): Read | undefined {
    if (this.failure === undefined) return undefined;
    const objects = this.objects && [...this.objects.values()];
    return { request: this.request, objects, ...this.failure };
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.endWatch?.();
  }

  private async list(): Promise<void> {
    try {
      const [objects, version] = await permits.during(() => this.readAll());
      if (this.isClosed) return;
      this.objects = new Map(objects.map((object) => [object.metadata.uid, this.trimmed(object)]));
      this.report({});
      if (version !== undefined) this.watch(version);
      // An object that does not exist may be created, and one that cannot be watched may change.
      else if (!this.request.isImmutable) this.listLater(LONGEST_PAUSE);
      else if (objects.length === 0) this.listLater();
    } catch (error) {
      if (this.isClosed) return;
      this.fail(error as Failure);
    }
  }

  private fail(failure: Failure): void {
    const { status } = failure;
    // There are no objects of a kind that is not served.
    if (status === 404) this.objects = new Map();
    const isKept = this.objects !== undefined && this.failure !== undefined;
    // A list that has changed while it was read, and a server that asks to wait, are no reasons to report.
    if (!(status === 410 || (status === 429 && isKept))) this.report({ error: words(failure), status });
    this.listLater();
  }

  /** The objects, and their version if they can be watched. */
  private async readAll(): Promise<[KubeObject[], string | undefined]> {
    const { path, name, isImmutable } = this.request;
    if (isImmutable && name !== null) return [await this.readOne(path, name), undefined];
    try {
      const [objects, version] = await this.readPages(path);
      return [objects, isImmutable ? undefined : version];
    } catch (error) {
      // A right to get the object may be all that the viewer has.
      if (name === null || (error as Failure).status !== 403) throw error;
      return [await this.readOne(path, name), undefined];
    }
  }

  private async readPages(path: string): Promise<[KubeObject[], string]> {
    const all: KubeObject[] = [];
    let next: string | undefined;
    for (;;) {
      const query = this.query({ limit: String(PAGE), ...(next && { continue: next }) });
      const list = (await this.get(`${path}?${query}`, "PartialObjectMetadataList")) as KubeList;
      for (const item of list.items ?? []) {
        // The items of built-in kinds have neither.
        item.apiVersion ??= list.apiVersion;
        item.kind ??= list.kind.replace(/List$/, "");
        all.push(item);
      }
      next = list.metadata.continue;
      if (!next || this.isClosed) return [all, list.metadata.resourceVersion];
    }
  }

  private async readOne(path: string, name: string): Promise<KubeObject[]> {
    try {
      const object = await this.get(`${path}/${encodeURIComponent(name)}`, "PartialObjectMetadata");
      return [object as KubeObject];
    } catch (error) {
      if ((error as Failure).status === 404) return [];
      throw error;
    }
  }

  private get(path: string, metadata: string): Promise<unknown> {
    const Accept = `application/json;as=${metadata};g=meta.k8s.io;v=v1,application/json`;
    return pluginLib.ApiProxy.clusterRequest(path, {
      cluster: this.cluster,
      headers: this.request.isMetadata ? { Accept } : {},
      // A list that the viewer may not read is no reason to log out.
      autoLogoutOnAuthError: false,
    });
  }

  private query(more: Record<string, string>): URLSearchParams {
    const { name, labels, fields } = this.request;
    const query = new URLSearchParams(more);
    if (labels !== null) query.set("labelSelector", labels);
    const selector = name === null ? fields : `metadata.name=${name}`;
    if (selector !== null) query.set("fieldSelector", selector);
    return query;
  }

  /** Watches the list from a version on. */
  private watch(from: string): void {
    let version = from;
    let isEnded = false;
    let hasEvents = false;
    const opened = Date.now();
    const query = this.query({
      watch: "1",
      allowWatchBookmarks: "true",
      timeoutSeconds: String(WATCH),
      resourceVersion: from,
    });
    const end = (isExpired: boolean): void => {
      if (isEnded) return;
      stop();
      const isStable = Date.now() - opened > STABLE;
      if (isStable) this.pause = FIRST_PAUSE;
      // A list shows if the server can be reached at all.
      const isResumed = !isExpired && (hasEvents || isStable);
      this.later(() => (isResumed ? this.watch(version) : void this.list()));
    };
    const stream = pluginLib.ApiProxy.stream(
      `${this.request.path}?${query}`,
      (message) => {
        // A stream that was cancelled while it was opened is open nevertheless.
        if (isEnded) return stream.cancel();
        const { type, object } = message as WatchEvent;
        if (type === "ERROR") return end(true);
        hasEvents = true;
        version = object.metadata.resourceVersion;
        this.take(type, object);
      },
      { isJson: true, cluster: this.cluster, reconnectOnFailure: false, failCb: () => end(false) },
    );
    const timer = setTimeout(() => end(false), LONGEST_WATCH);
    const stop = (): void => {
      isEnded = true;
      clearTimeout(timer);
      stream.cancel();
      setTimeout(() => stream.cancel(), STABLE);
    };
    this.endWatch = () => {
      if (!isEnded) stop();
    };
  }

  private take(type: string, object: KubeObject): void {
    if (type === "DELETED") this.objects?.delete(object.metadata.uid);
    else if (type !== "BOOKMARK") this.objects?.set(object.metadata.uid, this.trimmed(object));
    if (type !== "BOOKMARK") this.report({});
  }

  /** The parts of an object that pages read. */
  private trimmed({ apiVersion, kind, metadata, ...rest }: KubeObject): KubeObject {
    delete metadata.managedFields;
    return { apiVersion, kind, metadata, ...(this.request.isMetadata ? {} : rest) };
  }

  private report(failure: { error?: string; status?: number }): void {
    this.failure = failure;
    this.onChange();
  }

  private listLater(after?: number): void {
    this.later(() => void this.list(), after);
  }

  private later(work: () => void, after = this.pause): void {
    this.timer = window.setTimeout(work, after * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}

/** The words for a failure: Headlamp puts the text of the status before the message of the server. */
function words({ message, status }: Failure): string {
  if (status === 404) return "the API server does not serve this kind";
  const text = message.replace(/^ - /, "").replace(/ - undefined$/, "");
  return text || (status === undefined ? "the API server cannot be reached" : `the API server answers with ${status}`);
}

/** Permits for requests: browsers have few connections to a server. */
class Permits {
  private free = CONCURRENT;
  private readonly waiting: (() => void)[] = [];

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.free === 0) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.free -= 1;
    try {
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next === undefined) this.free += 1;
      else next();
    }
  }
}

const permits = new Permits();
