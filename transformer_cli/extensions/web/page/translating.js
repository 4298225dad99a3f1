// Translates text with SentencePiece models and ONNX graphs: in worker.js, and in Node for tests.

const [UNK, BPE, NORMAL, BYTE] = [0, 2, 1, 6]; // an id, a type of models, and types of pieces
const ADDRESS = /\b(?:https?:|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]+/g; // it stays as it is
const ABBREVIATION = /(?:^|[\s(.])(?:\p{L}|\d+|\p{Lu}?[b-df-hj-np-tvwxz]{1,3}|Prof)\.\s+$/u;
const utf8 = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const lengthOfCharacter = (first) => (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);

// Encodes and decodes like SentencePiece, except for bytes that are not text; see to_web.py.
export class Tokenizer {
  constructor({ type, pieces, replacements }) {
    const texts = pieces.filter(([, , kind]) => kind === NORMAL);
    this.type = type;
    this.pieces = pieces.map(([text, , kind]) => (kind === BYTE ? Number(text.slice(1, 5)) : text));
    this.ids = new Map(this.pieces.map((piece, id) => [piece, id]));
    this.scores = new Map(texts);
    this.longest = Math.max(...texts.map(([text]) => text.length));
    this.unknownScore = Math.fround(Math.min(...this.scores.values()) - 10); // as in SentencePiece
    // The size of a trie, the trie (a double array of Darts-clone), and texts that end with zeros.
    const bytes = Uint8Array.from(atob(replacements), (sign) => sign.charCodeAt(0));
    const end = 4 + (new Uint32Array(bytes.buffer.slice(0, 4))[0] ?? 0);
    this.trie = new Uint32Array(bytes.buffer.slice(4, end));
    this.texts = bytes.subarray(end);
  }

  // Returns the [length, text] of the longest replacement for bytes, or of their first character.
  #replace(bytes) {
    const childrenOf = (unit) => (unit >>> 10) << (unit & 512 ? 8 : 0);
    let [length, start] = [lengthOfCharacter(bytes[0]), null];
    let node = childrenOf(this.trie[0]);
    for (let place = 0; place < bytes.length; place++) {
      node ^= bytes[place];
      const unit = this.trie[node];
      if ((unit & 0x800000ff) !== bytes[place]) break;
      node ^= childrenOf(unit);
      if (unit & 256) [length, start] = [place + 1, this.trie[node] & 0x7fffffff];
    }
    if (start === null) return [length, strict.decode(bytes.subarray(0, length))];
    return [length, strict.decode(this.texts.subarray(start, this.texts.indexOf(0, start)))];
  }

  normalize(text) {
    let [normalized, isAfterSpace] = ["▁", true];
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
      for (const left of [best - 1, best]) if (left in scores) scores[left] = scoreOf(left);
    }
  }

  // Returns the pieces with the greatest sum of scores (the unigram model).
  #segment(characters) {
    const best = [{ total: 0 }]; // the last pieces of the best beginnings
    for (let start = 0; start < characters.length; start++) {
      const last = Math.min(characters.length, start + this.longest);
      for (let end = start + 1, piece = ""; end <= last; end++) {
        piece += characters[end - 1];
        const score = this.scores.get(piece) ?? (end === start + 1 ? this.unknownScore : -Infinity);
        // SentencePiece stores sums as float32, and their rounding may decide.
        const total = Math.fround(score + best[start].total);
        if (total > (best[end]?.total ?? -Infinity)) best[end] = { total, start, piece };
      }
    }
    const pieces = [];
    for (let one = best.at(-1); one.piece; one = best[one.start]) pieces.unshift(one.piece);
    return pieces;
  }

  decode(ids) {
    const bytes = [];
    for (const piece of ids.map((id) => this.pieces[id])) {
      const isFirst = bytes.length === 0;
      if (typeof piece === "number") bytes.push(piece);
      else bytes.push(...utf8.encode(piece.replace(isFirst ? /^▁/ : "", "").replaceAll("▁", " ")));
    }
    return lenient.decode(Uint8Array.from(bytes)).replaceAll("\n", " ");
  }
}

// Returns the places of the greatest finite values, the greatest first.
function greatest(values, count) {
  const places = [];
  for (let place = 0; place < values.length; place++) {
    let rank = places.length;
    while (rank > 0 && values[place] > values[places[rank - 1]]) rank--;
    if (rank < count && values[place] > -Infinity) places.splice(rank, 0, place);
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
    Object.assign(this, parts); // ort, about, languages, encoder, decoder, source, target
    this.segmenter = new Intl.Segmenter(this.languages[0], { granularity: "sentence" });
    this.known = new Map(); // the translations of sentences so far
  }

  // Returns the ids of each hypothesis, best first. It does the same as inference/search.py.
  async search(ids, beamSize) {
    const { about: { search, longest }, ort: { Tensor } } = this;
    const most = Math.floor(ids.length * search.max_length_ratio) + search.max_length_extra;
    const size = search.no_repeat_ngram_size ?? Infinity;
    const isFree = ids.some((id, at) => findRepeats(ids.slice(0, at), size).includes(id));
    const isEnded = (one) => one.written.at(-1) === search.ends_with;
    // Wu et al. 2016, equation 14; the length counts EOS, but not BOS.
    const score = ({ written, total }) => total / ((4 + written.length) / 6) ** search.length_penalty;
    const integers = (values, shape) => new Tensor("int64", BigInt64Array.from(values, BigInt), shape);
    const input = { src: integers([...ids, search.source_ends_with], [1, ids.length + 1]) };
    const { src_mask, ...kept } = await this.encoder.run(input); // all hypotheses share it
    let live = [{ written: [search.starts_with], total: 0, parent: 0 }];
    let past = this.#past(kept, "memory", [0], 0);
    const ended = [];
    const limit = Math.min(most, longest.tgt);
    for (let length = 1; length <= limit && live.length && ended.length < beamSize; length++) {
      if (length % 16 === 1) await this.pause?.();
      const tokens = integers(live.map((one) => one.written.at(-1)), [live.length, 1]);
      const { logits, ...present } = await this.decoder.run({ tokens, src_mask, ...kept, ...past });
      const candidates = live.flatMap(({ written, total }, parent) => {
        const row = logits.data.subarray(parent * logits.dims[1], (parent + 1) * logits.dims[1]);
        const top = row.reduce((one, other) => Math.max(one, other));
        const sum = row.reduce((others, one) => others + Math.exp(one - top), 0);
        const forbidden = isFree ? [] : findRepeats(written, size);
        for (const id of [...search.never_written, ...forbidden]) row[id] = -Infinity;
        const before = total - top - Math.log(sum);
        const extend = (id) => ({ written: [...written, id], total: before + row[id], parent });
        return greatest(row, 2 * beamSize).map(extend);
      });
      const best = candidates.sort((one, other) => other.total - one.total).slice(0, 2 * beamSize);
      ended.push(...best.slice(0, beamSize).filter(isEnded));
      live = best.filter((one) => !isEnded(one)).slice(0, beamSize);
      past = this.#past(present, "present", live.map((one) => one.parent));
    }
    const found = ended.length ? ended.slice(0, beamSize) : live.slice(0, 1);
    found.sort((one, other) => score(other) - score(one));
    return found.map(({ written }) => written.slice(1).filter((id) => id !== search.ends_with));
  }

  // Returns the decoder's keys and values so far: for each hypothesis, those of its parent.
  #past(tensors, kind, parents, length) {
    const select = ([name, { data, dims: [, heads, steps, width] }]) => {
      const shape = [parents.length, heads, length ?? steps, width];
      const size = heads * shape[2] * width;
      const chosen = new Float32Array(parents.length * size);
      parents.forEach((parent, row) => {
        chosen.set(data.subarray(parent * size, (parent + 1) * size), row * size);
      });
      return [name.replace(kind, "past"), new this.ort.Tensor("float32", chosen, shape)];
    };
    return Object.fromEntries(Object.entries(tensors).map(select));
  }

  // Returns translations of a sentence, best first; a sentence that is too long is split.
  async #translateSentence(text, beamSize) {
    const ids = this.source.encode(text);
    const size = Math.ceil(ids.length / Math.ceil(ids.length / (this.about.longest.src - 1)));
    const parts = [];
    for (let start = 0; start < ids.length; start += size) {
      parts.push(await this.search(ids.slice(start, start + size), beamSize));
    }
    const decode = (_, rank) => parts.map((found) => this.target.decode(found[rank] ?? found[0]));
    return (parts[0] ?? []).map(decode).map((texts) => texts.filter(Boolean).join(" "));
  }

  // Returns the sentences of a line; `Intl.Segmenter` would cut it after "Dr." and "3.", too.
  #cutSentences(line) {
    const sentences = [""];
    for (const { segment } of this.segmenter.segment(line)) {
      const last = sentences.at(-1);
      if (!last || ABBREVIATION.test(last)) sentences.push(sentences.pop() + segment);
      else sentences.push(segment);
    }
    return sentences;
  }

  // Translates each sentence of a text, and keeps the white space and the lines between them.
  async translate({ text, alternatives = 0 }) {
    const beamSize = Math.max(this.about.search.beam_size, alternatives ? 4 : 1);
    const parts = []; // translations of each part of the text
    for (const segment of text.split(/(\n)/).flatMap((line) => this.#cutSentences(line))) {
      const [, before, words, after] = segment.match(/^(\s*)(.*?)(\s*)$/su);
      const key = `${beamSize} ${words}`;
      if (!/\p{L}/u.test(words.replace(ADDRESS, ""))) this.known.set(key, [words]);
      if (!this.known.has(key)) this.known.set(key, await this.#translateSentence(words, beamSize));
      parts.push(this.known.get(key).map((one) => before + one + after));
    }
    const ranked = (_, rank) => parts.map((found) => found[rank] ?? found[0]).join("");
    const [translatedText, ...others] = new Set(Array.from({ length: 1 + alternatives }, ranked));
    return { translatedText, alternatives: others };
  }
}
