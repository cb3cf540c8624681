// Runs the program that renders pages. It has no access to anything but its input.

import { ConsoleStdout, File, OpenFile, WASI } from "@bjorn3/browser_wasi_shim";

import packed from "./baton-headlamp.wasm.gz";

/** A list that the page needs. */
export interface Wanted {
  path: string;
  name: string | null;
  labels: string | null;
  fields: string | null;
  /** True if the objects never change, so that they are read once. */
  isImmutable: boolean;
  /** True if only the metadata is read. */
  isMetadata: boolean;
}

/** A list as it was last read. */
export interface Read {
  request: Wanted;
  /** Absent if all reads have failed. */
  objects?: unknown[];
  error?: string;
  status?: number;
}

/** The kinds that the server serves, and the reason that they cannot be read now. */
export interface Discovery {
  documents: unknown[];
  error?: string;
}

export interface Subject {
  kind: string;
  namespace?: string;
  name: string;
}

export interface Input {
  subject: Subject;
  now: string;
  reads: Read[];
  discovery?: Discovery;
}

export interface Output {
  /** The page; absent while lists are missing. */
  html?: string;
  /** The reason that there is no page, or that it is not up to date. */
  trouble?: string;
  /** True if there is no page any more. */
  isGone: boolean;
  /** The lists of the page; all of them if there is one. */
  lists: Wanted[];
  /** The discovery documents, if they are missing, or lack a kind. */
  discovery?: string[];
}

let compiled: Promise<WebAssembly.Module> | undefined;

/** Renders what was read. Fails if the program cannot be started, or ends early. */
export async function run(input: Input): Promise<Output> {
  compiled ??= compile().catch((error) => {
    compiled = undefined;
    throw error;
  });
  const stdin = new OpenFile(new File(new TextEncoder().encode(JSON.stringify(input))));
  const [out, err] = [text(), text()];
  const wasi = new WASI([], [], [stdin, out.file, err.file], { debug: false });
  const instance = await WebAssembly.instantiate(await compiled, {
    wasi_snapshot_preview1: wasi.wasiImport,
  });
  try {
    const code = wasi.start(instance as Parameters<WASI["start"]>[0]);
    if (code !== 0) throw new Error(`the program has ended with code ${code}`);
  } catch (error) {
    throw new Error(err.read().trim() || String(error));
  }
  return JSON.parse(out.read()) as Output;
}

function compile(): Promise<WebAssembly.Module> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const headers = { "Content-Type": "application/wasm" };
  return WebAssembly.compileStreaming(new Response(stream, { headers }));
}

/** A file that collects text. */
function text(): { file: ConsoleStdout; read: () => string } {
  const decoder = new TextDecoder();
  let all = "";
  const file = new ConsoleStdout((part) => {
    all += decoder.decode(part, { stream: true });
  });
  return { file, read: () => all };
}
