// Answers one request of exporting.py with the page's modules: tokens of lines, or translations.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { Tokenizer, Translator } from "./translating.mjs";

const json = (file) => JSON.parse(fs.readFileSync(file, "utf8"));
const request = json(0);

async function load({ directory, dist, search }) {
  const ort = await import(pathToFileURL(path.join(dist, "ort.node.min.mjs")));
  ort.env.wasm.numThreads = 1;
  const about = json(path.join(directory, "onnx.json"));
  Object.assign(about.search, search);
  const data = fs.readFileSync(path.join(directory, "weights.bin"));
  const externalData = [{ path: "weights.bin", data }];
  const session = (name) =>
    ort.InferenceSession.create(fs.readFileSync(path.join(directory, name)), { externalData });
  const { files, languages } = json(path.join(directory, "web.json"));
  const [source, target = source] = Object.keys(files)
    .filter((name) => name.startsWith("tokenizer/"))
    .map((name) => new Tokenizer(json(path.join(directory, name))));
  const [encoder, decoder] = [await session("encoder.onnx"), await session("decoder_step.onnx")];
  return new Translator({ ort, about, languages, encoder, decoder, source, target });
}

const answers = [];
if (request.tokenizer) {
  const tokenizer = new Tokenizer(request.tokenizer);
  for (const line of request.lines) {
    const ids = tokenizer.encode(line);
    answers.push([ids, tokenizer.decode(ids)]);
  }
} else {
  const translator = await load(request);
  for (const text of request.texts) {
    answers.push(await translator.translate({ text, alternatives: request.alternatives }));
  }
}
console.log(JSON.stringify(answers));
