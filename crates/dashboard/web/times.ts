// Ages of objects, as kubectl prints them.

/** The difference between the clock of the server and that of this machine, in milliseconds. */
const offset = Date.parse(document.body.dataset.now ?? "") - Date.now();

const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
const YEAR = 365 * DAY;

/** A duration in seconds, with two or three significant digits. */
export function age(seconds: number): string {
  const pair = (unit: number, letter: string, next: number, small: string): string => {
    const [whole, rest] = [Math.floor(seconds / unit), Math.floor((seconds % unit) / next)];
    return rest === 0 ? `${whole}${letter}` : `${whole}${letter}${rest}${small}`;
  };
  if (seconds < 120) return `${Math.max(0, Math.floor(seconds))}s`;
  if (seconds < 600) return pair(MINUTE, "m", 1, "s");
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return pair(HOUR, "h", MINUTE, "m");
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return pair(DAY, "d", HOUR, "h");
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return pair(YEAR, "y", DAY, "d");
  return `${Math.floor(seconds / YEAR)}y`;
}

/** Brings all ages in a part of the page up to date. */
export function tick(part: ParentNode = document): void {
  const now = Date.now() + (Number.isFinite(offset) ? offset : 0);
  for (const element of part.querySelectorAll("time")) {
    const text = age((now - Date.parse(element.dateTime)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}
