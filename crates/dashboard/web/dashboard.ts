// Keeps a page up to date. Without it, a page shows the state at the time when it was loaded.

import { apply, type Change } from "./change";
import { listen } from "./listen";
import { say, trouble } from "./notice";
import { tick } from "./times";

/** The time for which a page that nobody sees goes on, in milliseconds. Browsers have few connections. */
const HIDDEN = 5_000;

const main = document.getElementById("main");

function start(page: HTMLElement): void {
  let version = page.dataset.version ?? "";
  let connection: AbortController | undefined;

  const connect = (): void => {
    if (connection !== undefined) return;
    connection = new AbortController();
    void listen({
      signal: connection.signal,
      version: () => version,
      change: (name: string, data: string) => {
        if (name === "again") return "again";
        if (name === "ended" || name === "failed") {
          trouble(`Not up to date: ${data}`);
          if (name === "failed") return "again";
          say("ended");
          return "end";
        }
        const change = JSON.parse(data) as Change;
        apply(page, change);
        version = change.version;
        trouble(change.trouble === null ? "" : `Not up to date: ${change.trouble}`);
        tick();
        return "go on";
      },
      reload: (html: string) => {
        const read = new DOMParser().parseFromString(html, "text/html");
        const now = read.getElementById("main");
        if (now === null) return;
        trouble(read.getElementById("trouble")?.textContent ?? "");
        apply(page, { page: now.innerHTML });
        version = now.dataset.version ?? "";
        tick();
      },
    });
  };

  const disconnect = (): void => {
    connection?.abort();
    connection = undefined;
  };

  let hidden: number | undefined;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = window.setTimeout(disconnect, HIDDEN);
    else connect();
  });
  if (!document.hidden) connect();
}

if (main?.dataset.version !== undefined) start(main);
tick();
setInterval(tick, 1000);
