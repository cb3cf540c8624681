// Reads the events of the page.

import { createParser } from "eventsource-parser";

import { say, trouble } from "./notice";

/** The longest silence of a live connection, in milliseconds. The server sends an event every 15 seconds. */
const SILENCE = 40_000;
/** The shortest and the longest pause before another attempt, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 30_000];
/** The time between two loads of a page whose events do not arrive, in milliseconds. */
const RELOAD = 15_000;

export interface Listener {
  signal: AbortSignal;
  /** The name of the content that the page shows. */
  version: () => string;
  /** "again": the page cannot be read now; "end": it will not change any more. */
  change: (name: string, data: string) => "go on" | "again" | "end";
  /** The page was loaded again. */
  reload: (html: string) => void;
}

/** Reads events until the page is left, or will not change any more. */
export async function listen(listener: Listener): Promise<void> {
  let pause = FIRST_PAUSE;
  while (!listener.signal.aborted) {
    const end = await read(listener, () => {
      pause = FIRST_PAUSE;
    });
    if (end === "end" || listener.signal.aborted) return;
    if (end === "silent") {
      await reload(listener);
      await wait(RELOAD, listener.signal);
      continue;
    }
    say("reconnecting");
    await wait(pause * (0.5 + Math.random() / 2), listener.signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

/** Reads the events of one connection. "silent": none arrived, as a proxy may hold them back. */
async function read(listener: Listener, onEvent: () => void): Promise<"end" | "broken" | "silent"> {
  const connection = new AbortController();
  const abort = (): void => connection.abort();
  listener.signal.addEventListener("abort", abort);
  let silence: number | undefined;
  let isSilent = false;
  const restart = (): void => {
    clearTimeout(silence);
    silence = window.setTimeout(() => {
      isSilent = true;
      abort();
    }, SILENCE);
  };
  try {
    restart();
    const response = await fetch(location.href, {
      headers: { Accept: "text/event-stream", "Last-Event-ID": listener.version() },
      cache: "no-store",
      signal: connection.signal,
    });
    if (!response.ok || response.body === null) {
      await refused(response);
      return "broken";
    }
    let end: "go on" | "again" | "end" = "go on";
    const parser = createParser({
      onEvent: ({ event, data }) => {
        if (event !== "alive") end = listener.change(event ?? "", data);
        if (end !== "go on") return;
        say("live");
        onEvent();
      },
    });
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "broken";
      restart();
      parser.feed(decoder.decode(value, { stream: true }));
      if (end !== "go on") return end === "end" ? "end" : "broken";
    }
  } catch {
    return isSilent ? "silent" : "broken";
  } finally {
    abort();
    clearTimeout(silence);
    listener.signal.removeEventListener("abort", abort);
  }
}

/** Loads the whole page again. */
async function reload(listener: Listener): Promise<void> {
  try {
    const response = await fetch(location.href, { cache: "no-store", signal: listener.signal });
    if (!response.ok) {
      await refused(response);
    } else {
      listener.reload(await response.text());
      say("read again every 15 seconds, as its events do not arrive");
    }
  } catch {
    say("reconnecting");
  }
}

function wait(time: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** States the reason that the server refuses the page, for instance because the login has ended. */
async function refused(response: Response): Promise<void> {
  const isText = response.headers.get("Content-Type")?.startsWith("text/plain") ?? false;
  const why = isText ? await response.text() : `error ${response.status}`;
  trouble(`Not up to date: ${why}`);
}
