// Loads the model and ONNX Runtime, and answers backend.js. The text stays on the user's machine.

import { Tokenizer, Translator } from "./translating.js";

let translator = null;
let newest = 0;
let last = Promise.resolve();
const directory = new URL("./", location).href;

// Messages are answered one by one, because ONNX Runtime computes one thing at a time.
onmessage = ({ data: { id, name, argument } }) => {
  newest = id;
  const pause = async () => {
    await new Promise((go) => setTimeout(go)); // so that later messages arrive
    if (id !== newest) throw new Error("The text has changed.");
  };
  last = last.then(async () => {
    try {
      translator ??= await open();
      translator.pause = pause;
      const result = name === "settings" ? settings() : await translator.translate(argument);
      postMessage({ id, result });
    } catch (error) {
      postMessage({ id, error: error?.message || String(error) });
    }
  });
};

function settings() {
  const [source, target] = translator.languages;
  const languages = [{ code: source, targets: [target] }, { code: target, targets: [] }];
  return { languages, charLimit: 5000 };
}

async function open() {
  const cache = await globalThis.caches?.open(directory).catch(() => null);
  try {
    return await build(cache, await download("web.json", { cache: "no-cache" }));
  } catch (error) {
    const stored = await cache?.match("web.json"); // an earlier version, all of which is stored
    if (!stored) throw error;
    return build(cache, stored);
  }
}

async function build(cache, list) {
  const { files, languages } = await list.clone().json();
  const total = Object.values(files).reduce((sum, { size }) => sum + size, 0);
  let loaded = 0;
  const progress = (size) => postMessage({ progress: [(loaded += size), total] });
  const load = async ([name, file]) => [name, await read(cache, file, progress)];
  const bytes = Object.fromEntries(await Promise.all(Object.entries(files).map(load)));
  await cache?.put("web.json", list).catch(() => {}); // only now, so that an update is whole
  const current = new Set(Object.values(files).map(({ url }) => new URL(url, location).href));
  for (const { url } of (await cache?.keys()) ?? []) {
    if ((url.includes("?") || !url.startsWith(directory)) && !current.has(url)) cache.delete(url);
  }

  const script = (name) => URL.createObjectURL(new Blob([bytes[name]], { type: "text/javascript" }));
  const ort = await import(script("ort.wasm.min.mjs"));
  ort.env.wasm.numThreads = 1; // more threads need special headers
  ort.env.wasm.wasmPaths = { mjs: script("ort-wasm-simd-threaded.mjs") };
  ort.env.wasm.wasmBinary = bytes["ort-wasm-simd-threaded.wasm"];
  const externalData = [{ path: "weights.bin", data: bytes["weights.bin"] }];
  const session = (name) => ort.InferenceSession.create(bytes[name], { externalData });
  const json = (name) => JSON.parse(new TextDecoder().decode(bytes[name]));
  const names = Object.keys(files).filter((name) => name.startsWith("tokenizer/")); // one or two
  const [source, target = source] = names.map((name) => new Tokenizer(json(name)));
  const [encoder, decoder] = [await session("encoder.onnx"), await session("decoder_step.onnx")];
  const about = json("onnx.json");
  return new Translator({ ort, about, languages, encoder, decoder, source, target });
}

async function download(url, options) {
  const response = await fetch(url, options).catch(() => null);
  if (response?.ok) return response;
  const problem = response ? `the server answers ${response.status}` : "check the connection";
  throw new Error(`Cannot load ${url.replace(/\?.*/, "")}: ${problem}. Then load this page again.`);
}

// Returns the bytes of a file from the cache or the network. Its address contains its version.
async function read(cache, { url, integrity }, progress) {
  const stored = await cache?.match(url);
  const response = stored ?? (await download(url, { integrity, cache: "no-cache" }));
  const transform = (part, output) => {
    progress(part.length);
    output.enqueue(part);
  };
  const counted = response.body.pipeThrough(new TransformStream({ transform }));
  const bytes = await new Response(counted).arrayBuffer();
  if (!stored) await cache?.put(url, new Response(bytes)).catch(() => {}); // if it is full
  return new Uint8Array(bytes);
}
