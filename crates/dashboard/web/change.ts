// Applies changes to the page, and shows objects that move to another lane.

import { Idiomorph } from "idiomorph";

/** New content of a page. */
export interface Content {
  title?: string;
  /** The whole content. */
  page?: string;
  /** The elements that have changed, by their ids. */
  regions?: Record<string, string>;
}

/** The data of an event of the server. */
export interface Change extends Content {
  version: string;
  trouble: string | null;
}

/** What the user has changed stays: open lists, and filters that are being filled in. */
const OPTIONS = {
  restoreFocus: true,
  callbacks: {
    beforeNodeMorphed: (node: Node): boolean => !(node instanceof HTMLFormElement),
    beforeAttributeUpdated: (name: string, node: Element): boolean =>
      !(node instanceof HTMLDetailsElement && name === "open"),
  },
} as const;

/** The time of a move, in milliseconds. */
const MOVE = 600;

export function apply(page: HTMLElement, change: Content): void {
  const before = places(page);
  if (change.page !== undefined) {
    Idiomorph.morph(page, change.page, { ...OPTIONS, morphStyle: "innerHTML" });
  }
  for (const [id, html] of Object.entries(change.regions ?? {})) {
    const element = page.querySelector(`#${CSS.escape(id)}`);
    if (element !== null) Idiomorph.morph(element, html, { ...OPTIONS, morphStyle: "outerHTML" });
  }
  if (change.title !== undefined) document.title = `${change.title} · Baton`;
  animate(page, before);
}

interface Place {
  /** The element with the objects of a phase in a lane. */
  cell: string | undefined;
  box: DOMRect;
}

/** The places of all objects that are in the lane of their owner. */
function places(page: HTMLElement): Map<string, Place> {
  const all = new Map<string, Place>();
  for (const element of page.querySelectorAll<HTMLElement>("[data-key]")) {
    all.set(element.dataset.key ?? "", {
      cell: element.closest("td")?.id,
      box: element.getBoundingClientRect(),
    });
  }
  return all;
}

/** Shows the moves of objects from one lane to another. */
function animate(page: HTMLElement, before: Map<string, Place>): void {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const element of page.querySelectorAll<HTMLElement>("[data-key]")) {
    const from = before.get(element.dataset.key ?? "");
    if (from === undefined || from.cell === element.closest("td")?.id) continue;
    const to = element.getBoundingClientRect();
    const [x, y] = [from.box.x - to.x, from.box.y - to.y];
    element.animate(
      [
        { transform: `translate(${x}px, ${y}px) scale(1.6)`, zIndex: 1 },
        { transform: "none", zIndex: 1 },
      ],
      { duration: MOVE, easing: "ease-in-out" },
    );
  }
}
