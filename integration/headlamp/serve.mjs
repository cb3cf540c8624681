// Serves the frontend, the plugin, and the API server with a viewer's token, as Headlamp's backend does.
// Arguments: the address of the API server, and the token. Prints its own address.

import { preview } from "vite";

const [server, token] = process.argv.slice(2);

const plugins = {
  name: "plugins",
  configurePreviewServer({ middlewares }) {
    middlewares.use("/plugins", (request, response, next) => {
      if (request.url !== "/") return next();
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify([{ path: "plugins/baton", type: "user", name: "baton" }]));
    });
  },
};

const running = await preview({
  root: import.meta.dirname,
  configFile: false,
  logLevel: "error",
  plugins: [plugins],
  preview: {
    host: "127.0.0.1",
    port: 0,
    proxy: {
      "/clusters/bed": {
        target: server,
        rewrite: (path) => path.replace(/^\/clusters\/bed/, ""),
        headers: { Authorization: `Bearer ${token}` },
        changeOrigin: true,
        secure: false,
        ws: true,
      },
    },
  },
});
const { port } = running.httpServer.address();
console.log(`http://127.0.0.1:${port}`);
