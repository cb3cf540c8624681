// Steers a headless Chromium: reads a command per line, as JSON, and answers each with a line.

import { createInterface } from "node:readline";

import axe from "axe-core";
import { chromium } from "playwright-core";

/** The longest time to wait for a content of a page, in milliseconds. */
const PATIENCE = 60_000;

const browser = await chromium.launch({ executablePath: process.env.BATON_CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ignoreHTTPSErrors: true });
context.setDefaultTimeout(PATIENCE);
const page = await context.newPage();

/** Errors of scripts, lines of the console, dialogs, and requests to other servers. */
let problems = [];
page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
page.on("dialog", (dialog) => {
  problems.push(`dialog: ${dialog.message()}`);
  void dialog.dismiss();
});
page.on("console", (message) => {
  // Chromium reports each response with an error, and each lost connection.
  const isNetwork = message.text().startsWith("Failed to load resource");
  if (["error", "warning"].includes(message.type()) && !isNetwork) problems.push(`console: ${message.text()}`);
});
page.on("request", (request) => {
  const url = new URL(request.url());
  if (!["127.0.0.1", "localhost"].includes(url.hostname)) problems.push(`request: ${url.href}`);
});

/** Waits until a condition holds. The policy of the pages permits no conditions that are evaluated there. */
async function until(holds) {
  const end = Date.now() + PATIENCE;
  // A page that leads to another one ends what is evaluated on it.
  const isNavigation = (error) => {
    if (!error.message.includes("navigation")) throw error;
    return false;
  };
  while (!(await holds().catch(isNavigation))) {
    if (Date.now() > end) throw new Error("it is not so");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const commands = {
  /** Opens an address. Returns the status code. */
  async open({ url }) {
    const response = await page.goto(url, { waitUntil: "load" });
    return response?.status() ?? 0;
  },
  /** Waits until the page has a text, in itself or in one of its elements with a root of their own. */
  async see({ text }) {
    const has = (text) => {
      const roots = [...document.querySelectorAll("*")].flatMap(({ shadowRoot }) => [...(shadowRoot?.children ?? [])]);
      const all = [document.body, ...roots].map((part) => part.innerText).join(" ");
      return all.replace(/\s+/g, " ").includes(text);
    };
    const wanted = text.replace(/\s+/g, " ");
    await until(() => page.evaluate(has, wanted));
  },
  /** The value of an expression on the page. */
  async value({ code }) {
    return (await page.evaluate(code)) ?? null;
  },
  /** Waits until an expression on the page is true. */
  async until({ code }) {
    await until(() => page.evaluate(code));
  },
  async click({ name }) {
    const found = page.getByRole("button", { name, exact: true }).or(page.getByRole("link", { name, exact: true }));
    await found.first().click();
  },
  async fill({ label, text }) {
    await page.getByLabel(label).fill(text);
  },
  async width({ width }) {
    await page.setViewportSize({ width, height: 900 });
  },
  /** The violations of accessibility, in a line each. */
  async axe() {
    // The policy of the page permits no scripts of others: this one is evaluated by the browser itself.
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  },
  async shot({ path }) {
    await page.screenshot({ path });
  },
  async problems() {
    const found = problems;
    problems = [];
    return found;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command.do](command)) ?? null };
  } catch (error) {
    const text = await page.evaluate(() => document.body.innerText).catch(() => "");
    answer = { error: `${error.message}\nat ${page.url()}:\n${text}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
