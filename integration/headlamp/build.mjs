// Bundles the frontend into `dist`.

import { mkdir, writeFile } from "node:fs/promises";

import { build } from "esbuild";

/** Icons of Headlamp's map, which the tests do not open, are drawn as nothing. */
const icons = {
  name: "icons",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.svg\?react$/ }, () => ({ path: "icon", namespace: "icons" }));
    onLoad({ filter: /.*/, namespace: "icons" }, () => ({ contents: "export default () => null" }));
  },
};

const file = Object.fromEntries(["svg", "png", "ttf", "webp", "woff", "woff2"].map((kind) => [`.${kind}`, "dataurl"]));

await build({
  entryPoints: ["main.tsx"],
  outfile: "dist/main.js",
  bundle: true,
  format: "esm",
  jsx: "automatic",
  logLevel: "error",
  define: { global: "globalThis", "import.meta.env": "{}", "process.env.NODE_ENV": '"production"' },
  alias: { buffer: "buffer", path: "path-browserify", stream: "stream-browserify" },
  loader: file,
  plugins: [icons],
});
await mkdir("dist", { recursive: true });
await writeFile(
  "dist/index.html",
  `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>Headlamp</title><link rel="stylesheet" href="/main.css"></head>
  <body>
    <div id="root"></div>
    <script>globalThis.process = { env: {} };</script>
    <script type="module" src="/main.js"></script>
  </body>
</html>
`,
);
