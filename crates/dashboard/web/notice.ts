// Notices about the page itself.

/** States if the page is up to date. */
export function say(state: string): void {
  const place = document.getElementById("live");
  if (place === null || place.textContent === state) return;
  place.textContent = state;
  place.dataset.state = state.split(" ", 1)[0];
}

/** Shows the reason that the page is not up to date; hides it if the text is empty. */
export function trouble(text: string): void {
  const place = document.getElementById("trouble");
  if (place === null) return;
  place.hidden = text === "";
  if (place.textContent !== text) place.textContent = text;
}
