// Loads the model and ONNX Runtime, and answers backend.js. The text stays on the user's machine.

import { Tokenizer, Translator } from "./translating.js";

let translator = null;
let last = Promise.resolve();

// Messages are answered one by one, because ONNX Runtime computes one thing at a time.
onmessage = ({ data: { id, name, argument } }) => {
  last = last.then(async () => {
    try {
      translator ??= await open();
      const result = name === "settings" ? settings() : await translator.translate(argument);
      postMessage({ id, result });
    } catch (error) {
      postMessage({ id, error: error.message });
    }
  });
};

function settings() {
  const { src_lang, tgt_lang } = translator.about;
  const [source, target] = [src_lang, tgt_lang].map((code) => code.replaceAll("_", "-"));
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const describe = (code, targets) => ({ code, name: names.of(code), targets });
  return { languages: [describe(source, [target]), describe(target, [])], charLimit: 5000 };
}

async function open() {
  const { files } = await (await download("web.json", { cache: "no-cache" })).json();
  const total = Object.values(files).reduce((sum, { size }) => sum + size, 0);
  let loaded = 0;
  const progress = (size) => postMessage({ progress: [(loaded += size), total] });
  const load = async ([name, file]) => [name, await read(file, progress)];
  const bytes = Object.fromEntries(await Promise.all(Object.entries(files).map(load)));

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
  return new Translator({ ort, about: json("onnx.json"), encoder, decoder, source, target });
}

async function download(url, options) {
  const response = await fetch(url, options).catch(() => null);
  if (response?.ok) return response;
  const problem = response ? `the server answers ${response.status}` : "check the connection";
  throw new Error(`Cannot load ${url.replace(/\?.*/, "")}: ${problem}. Then load this page again.`);
}

// Returns the bytes of a file from the cache or the network. Its address contains its version.
async function read({ url, integrity }, progress) {
  // Browsers offer no cache to pages that came over plain HTTP from another machine.
  const cache = await globalThis.caches?.open(new URL("./", location).href);
  const stored = await cache?.match(url);
  const response = stored ?? (await download(url, { integrity }));
  const transform = (part, output) => {
    progress(part.length);
    output.enqueue(part);
  };
  const counted = response.body.pipeThrough(new TransformStream({ transform }));
  const bytes = await new Response(counted).arrayBuffer();
  if (!stored) await cache?.delete(url, { ignoreSearch: true }); // an earlier version
  if (!stored) await cache?.put(url, new Response(bytes));
  return new Uint8Array(bytes);
}
