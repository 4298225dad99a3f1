// Translates text with SentencePiece models and ONNX graphs: in worker.js, and in Node for tests.

const [BPE, NORMAL, BYTE] = [2, 1, 6]; // a type of models, and types of pieces
const UNK = 0;
const UNKNOWN_PENALTY = 10; // SentencePiece subtracts it from the lowest score
const BEAM_FOR_ALTERNATIVES = 4;
const MOST_KNOWN = 1000; // sentences
const utf8 = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lengthOfCharacter = (first) => (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);

// --- tokens --------------------------------------------------------------------------------------

// Encodes and decodes text exactly like SentencePiece, given what to_web.py writes about a model.
export class Tokenizer {
  constructor({ type, pieces, replacements }) {
    const isText = ([, , kind]) => kind === NORMAL;
    const valueOf = ([text, , kind]) => (kind === BYTE ? parseInt(text.slice(3, 5), 16) : text);
    this.type = type;
    this.pieces = pieces.map(valueOf); // strings, and numbers for bytes
    this.ids = new Map(this.pieces.map((piece, id) => [piece, id]));
    this.scores = new Map(pieces.filter(isText));
    this.longest = Math.max(...pieces.filter(isText).map(([text]) => text.length));
    this.unknownScore = Math.fround(Math.min(...this.scores.values()) - UNKNOWN_PENALTY);
    // The size of a trie, the trie (a double array of Darts-clone), and texts that end with zeros.
    const bytes = Uint8Array.from(atob(replacements), (sign) => sign.charCodeAt(0));
    const end = 4 + (new Uint32Array(bytes.buffer.slice(0, 4))[0] ?? 0);
    this.trie = new Uint32Array(bytes.buffer.slice(4, end));
    this.texts = bytes.subarray(end);
  }

  // Returns the [length, text] of the longest replacement for bytes, or of their first character.
  #replace(bytes) {
    const childrenOf = (node) =>
      node ^ ((this.trie[node] >>> 10) << (this.trie[node] & 512 ? 8 : 0));
    const length = lengthOfCharacter(bytes[0]);
    let found = null;
    for (let place = 0, node = childrenOf(0); place < bytes.length; place++) {
      node ^= bytes[place];
      const unit = this.trie[node];
      if ((unit & 0x800000ff) !== bytes[place]) break;
      node = childrenOf(node);
      if (unit & 256) found = [place + 1, this.trie[node] & 0x7fffffff];
    }
    if (found === null) return [length, strict.decode(bytes.subarray(0, length))];
    return [found[0], strict.decode(this.texts.subarray(found[1], this.texts.indexOf(0, found[1])))];
  }

  normalize(text) {
    let normalized = "▁";
    let isAfterSpace = true;
    for (let bytes = utf8.encode(text); bytes.length; ) {
      let [length, part] = this.#replace(bytes);
      bytes = bytes.subarray(length);
      if (isAfterSpace) part = part.replace(/^ +/, "");
      if (part) isAfterSpace = part.endsWith(" ");
      normalized += part.replaceAll(" ", "▁");
    }
    return normalized.replace(/▁+$/, "");
  }

  encode(text) {
    const characters = [...this.normalize(text)];
    const ids = [];
    for (const piece of this.type === BPE ? this.#merge(characters) : this.#segment(characters)) {
      if (this.scores.has(piece)) ids.push(this.ids.get(piece));
      else if (this.ids.has(0)) ids.push(...[...utf8.encode(piece)].map((byte) => this.ids.get(byte)));
      else if (ids.at(-1) !== UNK) ids.push(UNK);
    }
    return ids;
  }

  // Merges the two neighbours that make the piece with the best score, again and again (BPE).
  #merge(parts) {
    const scoreOf = (left) => this.scores.get(parts[left] + parts[left + 1]) ?? -Infinity;
    const scores = parts.slice(1).map((_, left) => scoreOf(left));
    for (;;) {
      const best = scores.reduce((one, score, other) => (score > scores[one] ? other : one), 0);
      if (!(scores[best] > -Infinity)) return parts;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      scores.splice(best, 1);
      if (best < scores.length) scores[best] = scoreOf(best);
      if (best > 0) scores[best - 1] = scoreOf(best - 1);
    }
  }

  // Returns the pieces with the greatest sum of scores (the unigram model).
  #segment(characters) {
    const best = [{ total: 0 }]; // the best pieces up to each place
    for (let start = 0; start < characters.length; start++) {
      const last = Math.min(characters.length, start + this.longest);
      for (let end = start + 1, text = ""; end <= last; end++) {
        text += characters[end - 1];
        const score = this.scores.get(text) ?? (end === start + 1 ? this.unknownScore : -Infinity);
        // SentencePiece stores sums as float32, and their rounding may decide.
        const total = score + best[start].total;
        if (total > (best[end]?.total ?? -Infinity)) best[end] = { start, text, total: Math.fround(total) };
      }
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = best[end].start) pieces.unshift(best[end].text);
    return pieces;
  }

  decode(ids) {
    const bytes = [];
    for (const piece of ids.map((id) => this.pieces[id])) {
      const word = bytes.length ? piece : String(piece).replace(/^▁/, "");
      if (typeof piece === "number") bytes.push(piece);
      else bytes.push(...utf8.encode(word.replaceAll("▁", " ")));
    }
    let text = "";
    for (let place = 0; place < bytes.length; ) {
      const end = place + lengthOfCharacter(bytes[place]);
      try {
        text += strict.decode(Uint8Array.from(bytes.slice(place, end)));
        place = end;
      } catch {
        text += "\ufffd"; // for each byte that is not UTF-8
        place++;
      }
    }
    return text.replaceAll("\n", " ");
  }
}

// --- search --------------------------------------------------------------------------------------

// Returns the places of the greatest values, the greatest first.
function greatest(values, count) {
  const places = [];
  for (let place = 0; place < values.length; place++) {
    let rank = places.length;
    while (rank > 0 && values[place] > values[places[rank - 1]]) rank--;
    if (rank < count) places.splice(rank, 0, place);
    if (places.length > count) places.pop();
  }
  return places;
}

// Returns the tokens after which the last `size` tokens would be there twice.
function findRepeats(ids, size) {
  const last = ids.slice(1 - size).join();
  return ids.slice(size - 1).filter((_, at) => ids.slice(at, at + size - 1).join() === last);
}

// Translates text. `about` is the content of onnx.json, which has the settings of the search.
export class Translator {
  constructor(parts) {
    Object.assign(this, parts); // ort, about, encoder, decoder, source, target
    const locale = this.about.src_lang.replaceAll("_", "-");
    this.segmenter = new Intl.Segmenter(locale, { granularity: "sentence" });
    this.known = new Map(); // translations of recent sentences
  }

  // Returns {ids, score} of each hypothesis, best first. It does the same as inference/search.py.
  async search(ids, beamSize) {
    const { search, longest } = this.about;
    const size = search.no_repeat_ngram_size ?? Infinity;
    const isFree = ids.some((id, at) => findRepeats(ids.slice(0, at), size).includes(id));
    const most = Math.floor(ids.length * search.max_length_ratio) + search.max_length_extra;
    const src = this.#integers([...ids, search.source_ends_with], [1, ids.length + 1]);
    const memory = await this.encoder.run({ src }); // all hypotheses share it
    const ended = [];
    let live = [{ written: [search.starts_with], total: 0, parent: 0 }];
    let present = null;
    for (let length = 1; length <= Math.min(most, longest.tgt) && ended.length < beamSize; length++) {
      const tokens = this.#integers(live.map((one) => one.written.at(-1)), [live.length, 1]);
      const past = this.#select(present, memory, live.map((one) => one.parent));
      const { logits, ...others } = await this.decoder.run({ tokens, ...memory, ...past });
      present = others;
      const candidates = live.flatMap(({ written, total }, parent) => {
        const values = logits.data.subarray(parent * logits.dims[1], (parent + 1) * logits.dims[1]);
        const top = values.reduce((one, other) => Math.max(one, other));
        const sum = values.reduce((before, one) => before + Math.exp(one - top), 0);
        const forbidden = isFree ? [] : findRepeats(written, size);
        for (const id of [...search.never_written, ...forbidden]) values[id] = -Infinity;
        return greatest(values, 2 * beamSize).map((token) => {
          const ofToken = values[token] - top - Math.log(sum);
          return { written: [...written, token], total: total + ofToken, parent };
        });
      });
      candidates.sort((one, other) => other.total - one.total);
      const best = candidates.slice(0, 2 * beamSize).filter((one) => one.total > -Infinity);
      const isEnded = (one) => one.written.at(-1) === search.ends_with;
      ended.push(...best.slice(0, beamSize).filter(isEnded));
      live = best.filter((one) => !isEnded(one)).slice(0, beamSize);
    }
    const found = ended.length ? ended.slice(0, beamSize) : live.slice(0, 1);
    const hypotheses = found.map(({ written, total }) => {
      const output = written.slice(1).filter((id) => id !== search.ends_with);
      // Wu et al. 2016, equation 14; lengths count EOS.
      return { ids: output, score: total / ((6 + output.length) / 6) ** search.length_penalty };
    });
    return hypotheses.sort((one, other) => other.score - one.score);
  }

  #integers(values, shape) {
    return new this.ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
  }

  // Returns the decoder's keys and values so far, with a row for each hypothesis: its parent's.
  #select(present, memory, parents) {
    const past = {};
    for (const name of this.decoder.inputNames.filter((one) => one.startsWith("past_"))) {
      const tensor = present?.[name.replace("past", "present")];
      const [, heads, , width] = memory[name.replace("past", "memory")].dims;
      const shape = [parents.length, heads, tensor?.dims[2] ?? 0, width];
      const data = new Float32Array(shape.reduce((one, other) => one * other));
      const size = data.length / parents.length;
      parents.forEach((parent, row) => {
        if (tensor) data.set(tensor.data.subarray(parent * size, (parent + 1) * size), row * size);
      });
      past[name] = new this.ort.Tensor("float32", data, shape);
    }
    return past;
  }

  // Returns translations of a sentence, best first; a sentence that is too long is split.
  async #translateSentence(text, beamSize) {
    const ids = this.source.encode(text);
    const count = Math.ceil(ids.length / (this.about.longest.src - 1));
    const parts = [];
    for (let part = 0; part < count; part++) {
      const [start, end] = [part, part + 1].map((each) => Math.floor((ids.length * each) / count));
      parts.push(await this.search(ids.slice(start, end), beamSize));
    }
    return (parts[0] ?? []).map((_, rank) => {
      const ofRank = parts.map((found) => found[Math.min(rank, found.length - 1)]);
      return ofRank.map((one) => this.target.decode(one.ids)).filter(Boolean).join(" ");
    });
  }

  // Translates each sentence of a text, and keeps the white space and the lines between them.
  async translate({ text, alternatives = 0 }) {
    const beamSize = Math.max(this.about.search.beam_size, alternatives ? BEAM_FOR_ALTERNATIVES : 1);
    const parts = []; // translations of each part of the text
    for (const { segment } of text.split(/(\n)/).flatMap((line) => [...this.segmenter.segment(line)])) {
      const [, before, words, after] = segment.match(/^(\s*)(.*?)(\s*)$/su);
      const key = `${beamSize} ${words}`;
      if (this.known.size > MOST_KNOWN) this.known.clear();
      if (!/\p{L}/u.test(words)) this.known.set(key, [words]);
      if (!this.known.has(key)) this.known.set(key, await this.#translateSentence(words, beamSize));
      parts.push(this.known.get(key).map((one) => before + one + after));
    }
    const texts = Array.from({ length: 1 + alternatives }, (_, rank) =>
      parts.map((found) => found[rank] ?? found[0]).join(""),
    );
    const [translatedText, ...others] = new Set(texts);
    return { translatedText, alternatives: others };
  }
}
