// The reads and the watches of a list, with a Headlamp that answers as a test says.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { WatchedList } from "./lists";
import type { Wanted } from "./program";

const SETS: Wanted = {
  path: "/sets",
  name: null,
  labels: null,
  fields: null,
  isImmutable: false,
  isMetadata: false,
};

interface Stream {
  url: string;
  send: (message: unknown) => void;
  fail: () => void;
  isCancelled: boolean;
}

interface Answer {
  items?: unknown[];
  next?: string;
  error?: Error & { status?: number };
}

/** A Headlamp with these answers to requests, one after the other; the last one repeats. */
function headlamp(answers: Answer[]): { requests: string[]; streams: Stream[] } {
  const [requests, streams]: [string[], Stream[]] = [[], []];
  const lib = {
    ApiProxy: {
      clusterRequest(path: string): Promise<unknown> {
        requests.push(path);
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer?.error !== undefined) return Promise.reject(answer.error);
        const metadata = { resourceVersion: "7", continue: answer?.next };
        return Promise.resolve({ apiVersion: "v1", kind: "SetList", items: answer?.items ?? [], metadata });
      },
      stream(url: string, send: (message: unknown) => void, { failCb }: { failCb: () => void }): unknown {
        const stream: Stream = { url, send, fail: failCb, isCancelled: false };
        streams.push(stream);
        return {
          cancel: () => {
            stream.isCancelled = true;
          },
        };
      },
    },
  };
  Object.assign(globalThis, { pluginLib: lib, window: globalThis });
  return { requests, streams };
}

function object(uid: string, resourceVersion = "1"): { metadata: { uid: string; resourceVersion: string } } {
  return { metadata: { uid, resourceVersion } };
}

function refused(status: number, message: string): Answer {
  return { error: Object.assign(new Error(message), { status }) };
}

/** Runs what is due, and lets answers arrive. */
async function pass(time: number): Promise<void> {
  mock.timers.tick(time);
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

function uids(list: WatchedList): unknown[] {
  return (list.read?.objects ?? []).map((it) => (it as ReturnType<typeof object>).metadata.uid);
}

function check(name: string, work: () => Promise<void>): void {
  test(name, async () => {
    mock.timers.enable({ apis: ["setTimeout", "Date"] });
    try {
      await work();
    } finally {
      mock.timers.reset();
    }
  });
}

check("changes are taken, and a watch that ends goes on from its last version", async () => {
  const { requests, streams } = headlamp([{ items: [object("a")], next: "n" }, { items: [object("b")] }]);
  const list = new WatchedList(SETS, "bed", () => {});
  await pass(0);
  assert.deepEqual(uids(list), ["a", "b"]);
  assert.match(requests[1] ?? "", /continue=n/);
  assert.match(streams[0]?.url ?? "", /resourceVersion=7/);
  streams[0]?.send({ type: "ADDED", object: object("c", "8") });
  streams[0]?.send({ type: "DELETED", object: object("a", "9") });
  streams[0]?.send({ type: "BOOKMARK", object: { metadata: { resourceVersion: "12" } } });
  assert.deepEqual(uids(list), ["b", "c"]);
  streams[0]?.fail();
  await pass(60_000);
  assert.match(streams[1]?.url ?? "", /resourceVersion=12/);
  assert.equal(requests.length, 2);
  list.close();
});

check("a version that has expired leads to a new list", async () => {
  const { requests, streams } = headlamp([{ items: [object("a")] }, refused(410, "Gone"), { items: [object("b")] }]);
  const list = new WatchedList(SETS, "bed", () => {});
  await pass(0);
  streams[0]?.send({ type: "ERROR", object: { code: 410 } });
  await pass(60_000);
  assert.equal(list.read?.error, undefined);
  await pass(60_000);
  assert.equal(requests.length, 3);
  assert.deepEqual(uids(list), ["b"]);
  list.close();
});

check("failures are reported with the objects that were last read", async () => {
  const { streams } = headlamp([
    { items: [object("a")] },
    refused(429, "Too Many Requests - wait"),
    refused(500, " - it is broken"),
    refused(404, "Not Found"),
  ]);
  const list = new WatchedList(SETS, "bed", () => {});
  assert.equal(uids(list).length, 0);
  await pass(0);
  streams[0]?.fail();
  await pass(60_000);
  assert.equal(list.read?.error, undefined);
  await pass(60_000);
  assert.deepEqual([list.read?.error, uids(list)], ["it is broken", ["a"]]);
  await pass(60_000);
  assert.deepEqual([list.read?.error, uids(list)], ["the API server does not serve this kind", []]);
  list.close();
});

check("objects that were never read are unknown", async () => {
  headlamp([refused(403, "Forbidden - no right")]);
  const list = new WatchedList(SETS, "bed", () => {});
  await pass(0);
  assert.deepEqual([list.read?.error, list.read?.objects], ["Forbidden - no right", undefined]);
  list.close();
});

check("a closed list ends its watch, also one that is being opened", async () => {
  const { requests, streams } = headlamp([{}]);
  const list = new WatchedList(SETS, "bed", () => assert.equal(streams.length, 0));
  await pass(0);
  list.close();
  const [stream] = streams;
  assert.ok(stream?.isCancelled);
  stream.isCancelled = false;
  stream.send({ type: "ADDED", object: object("a") });
  assert.ok(stream.isCancelled);
  stream.fail();
  await pass(600_000);
  assert.deepEqual([requests.length, streams.length], [1, 1]);
});

check("a silent watch is opened again", async () => {
  const { streams } = headlamp([{}]);
  const list = new WatchedList(SETS, "bed", () => {});
  await pass(0);
  await pass(300_000);
  await pass(60_000);
  assert.ok(streams[0]?.isCancelled);
  assert.equal(streams.length, 2);
  list.close();
});

check("an object that does not exist yet is read again, and then no more", async () => {
  const { requests, streams } = headlamp([refused(404, "Not Found"), {}]);
  const list = new WatchedList({ ...SETS, name: "s/1", isImmutable: true }, "bed", () => {});
  await pass(0);
  assert.deepEqual([uids(list), list.read?.error], [[], undefined]);
  await pass(60_000);
  await pass(600_000);
  assert.deepEqual(requests, ["/sets/s%2F1", "/sets/s%2F1"]);
  assert.equal(streams.length, 0);
  list.close();
});
