// Reads lists with the rights of the viewer, and watches them.

import type { Read, Wanted } from "./program";

/** The shortest and the longest pause before a list is read again, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 60_000];
/** A connection that was open for this time, in milliseconds, does not count as a failed attempt. */
const STABLE = 10_000;
/** The number of objects in an answer. */
const PAGE = 500;

interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: { uid: string };
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

/** A list that is read, and watched until it is closed. */
export class WatchedList {
  /** What was last read; absent before the first answer. */
  read: Read | undefined;
  private objects = new Map<string, KubeObject>();
  private isClosed = false;
  private pause = FIRST_PAUSE;
  private timer: number | undefined;
  private watch: { cancel(): void } | undefined;

  constructor(
    private readonly request: Wanted,
    private readonly cluster: string,
    private readonly onChange: () => void,
  ) {
    void this.list();
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.watch?.cancel();
  }

  private async list(): Promise<void> {
    try {
      const [objects, version] = await this.readAll();
      if (this.isClosed) return;
      this.objects = new Map(objects.map((object) => [object.metadata.uid, object]));
      this.report({});
      if (!this.request.isImmutable) this.start(version);
    } catch (error) {
      if (this.isClosed) return;
      const { message, status } = error as Error & { status?: number };
      this.report({ error: message, status });
      this.again();
    }
  }

  private async readAll(): Promise<[KubeObject[], string]> {
    const { path, name, isImmutable } = this.request;
    if (isImmutable && name !== null) return [await this.readOne(path, name), ""];
    try {
      return await this.readPages(path);
    } catch (error) {
      // A right to get the object may be all that the viewer has. Its changes are not reported then.
      if (name === null || (error as { status?: number }).status !== 403) throw error;
      return [await this.readOne(path, name), ""];
    }
  }

  private async readPages(path: string): Promise<[KubeObject[], string]> {
    const all: KubeObject[] = [];
    let next: string | undefined;
    do {
      const query = this.query({ limit: String(PAGE), ...(next && { continue: next }) });
      const list = (await this.get(`${path}?${query}`)) as KubeList;
      for (const item of list.items ?? []) {
        // The items of built-in kinds have neither.
        item.apiVersion ??= list.apiVersion;
        item.kind ??= list.kind.replace(/List$/, "");
        all.push(item);
      }
      next = list.metadata.continue;
      if (!next) return [all, list.metadata.resourceVersion];
    } while (!this.isClosed);
    return [all, ""];
  }

  private async readOne(path: string, name: string): Promise<KubeObject[]> {
    try {
      return [(await this.get(`${path}/${encodeURIComponent(name)}`)) as KubeObject];
    } catch (error) {
      if ((error as { status?: number }).status === 404) return [];
      throw error;
    }
  }

  /** A list that the viewer may not read is no reason to log out. */
  private get(path: string): Promise<unknown> {
    const params = { cluster: this.cluster, autoLogoutOnAuthError: false };
    return pluginLib.ApiProxy.clusterRequest(path, params);
  }

  private query(more: Record<string, string>): URLSearchParams {
    const { name, labels, fields } = this.request;
    const query = new URLSearchParams(more);
    if (labels !== null) query.set("labelSelector", labels);
    const selector = name === null ? fields : `metadata.name=${name}`;
    if (selector !== null) query.set("fieldSelector", selector);
    return query;
  }

  private start(version: string): void {
    if (version === "") return;
    const query = this.query({ watch: "1", resourceVersion: version });
    const opened = Date.now();
    const end = (): void => {
      if (this.isClosed || this.watch === undefined) return;
      this.watch.cancel();
      this.watch = undefined;
      if (Date.now() - opened > STABLE) this.pause = FIRST_PAUSE;
      this.again();
    };
    this.watch = pluginLib.ApiProxy.stream(
      `${this.request.path}?${query}`,
      (message) => {
        if (!this.isClosed && !this.take(message as WatchEvent)) end();
      },
      { isJson: true, cluster: this.cluster, reconnectOnFailure: false, failCb: end },
    );
  }

  /** Takes a change; returns false if the list has to be read again. */
  private take({ type, object }: WatchEvent): boolean {
    if (type === "DELETED") this.objects.delete(object.metadata.uid);
    else if (type === "ADDED" || type === "MODIFIED") this.objects.set(object.metadata.uid, object);
    else return false;
    this.report({});
    return true;
  }

  private report(failure: { error?: string; status?: number }): void {
    this.read = { request: this.request, objects: [...this.objects.values()], ...failure };
    this.onChange();
  }

  private again(): void {
    this.timer = window.setTimeout(() => void this.list(), this.pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}
