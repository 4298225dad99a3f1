// The page: it shows what the backend returns, and never as HTML.

import * as backend from "./backend.js";

const WAIT = 300; // milliseconds without a key press, after which the text is translated
const at = (id) => document.getElementById(id);
const field = at("text");
const output = at("translation");
let languages = [];
let shown = { text: "", source: "", details: null }; // what was translated last
let request = 0;
let timer;
let polling;

const pair = () => ({ source: at("source").value, target: at("target").value });
const knownPair = () => (pair().source === "auto" ? { ...pair(), source: shown.source } : pair());
const nameOf = new Intl.DisplayNames(navigator.languages, { type: "language" });

function say(what, isError = false) {
  at("notes").textContent = what;
  at("notes").classList.toggle("error", isError);
}

function fill(select, codes, extra = []) {
  const chosen = select.value;
  const options = codes.map((code) => new Option(nameOf.of(code), code));
  select.replaceChildren(...extra, ...options);
  if ([...select.options].some((one) => one.value === chosen)) select.value = chosen;
}

function listTargets() {
  const { source } = pair();
  const from = languages.filter((one) => source === "auto" || one.code === source);
  fill(at("target"), [...new Set(from.flatMap((one) => one.targets))]);
  field.lang = source === "auto" ? "" : source;
}

// --- translating ---------------------------------------------------------------------------------

async function translate() {
  const own = ++request;
  const text = field.value;
  const chosen = pair();
  if (!text.trim()) return show({ text, ...chosen }, { translatedText: "", alternatives: [] });
  say("Translating…");
  try {
    const found = await backend.translate({ text, ...chosen, alternatives: 3 });
    if (own !== request) return; // the text has changed meanwhile
    const source = found.detectedLanguage?.language ?? chosen.source;
    show({ text, source, target: chosen.target }, found);
  } catch (error) {
    if (own === request) say(error.message, true);
  }
}

function show(what, { translatedText, alternatives = [], details = null }) {
  const isOther = what.source !== shown.source;
  shown = { ...what, details };
  if (isOther) showLearning();
  output.lang = what.target;
  const doubtful = new Set(details?.doubtful);
  output.replaceChildren(...cut(translatedText, details?.target ?? [], (word, index) => {
    const span = document.createElement("span");
    span.textContent = word;
    span.dataset.index = index;
    if (doubtful.has(index)) span.className = "doubtful";
    return span;
  }));
  const words = [...output.querySelectorAll(".doubtful")].map((span) => span.textContent);
  const notes = [...(details?.doubts ?? [])];
  if (words.length) notes.push(`Doubtful: ${words.join(", ")}`);
  say(notes.join("; "));
  at("alternatives").replaceChildren(...alternatives.map((one) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.textContent = one;
    button.dir = "auto";
    button.onclick = () => { output.textContent = one; };
    item.append(button);
    return item;
  }));
  at("correcting").hidden = !backend.features.corrections || !translatedText;
  highlight([]);
}

// Return a text's parts: between its words as they are, and each word as `wrap` returns it.
function cut(text, spans, wrap) {
  const signs = Array.from(text); // positions count characters, not UTF-16 units
  const parts = [];
  let end = 0;
  spans.forEach(([first, last], index) => {
    parts.push(signs.slice(end, first).join(""), wrap(signs.slice(first, last).join(""), index));
    end = last;
  });
  return [...parts, signs.slice(end).join("")];
}

// --- source words of a translated word -----------------------------------------------------------

function highlight(indices) {
  const words = new Set(indices);
  at("marks").replaceChildren(...cut(shown.text, shown.details?.source ?? [], (word, index) => {
    if (!words.has(index)) return word;
    const mark = document.createElement("mark");
    mark.textContent = word;
    return mark;
  }));
  at("marks").scrollTop = field.scrollTop;
}

function highlightSourcesOf(node) {
  const index = node?.closest?.("[data-index]")?.dataset.index;
  const links = field.value === shown.text ? shown.details?.links ?? [] : [];
  highlight(links.filter(([, word]) => word === Number(index)).map(([word]) => word));
}

// --- corrections and files -----------------------------------------------------------------------

// Returns a function that does the same as `act`, and shows its errors.
const trying = (act) => (...given) => act(...given).catch((error) => say(error.message, true));

const sendCorrection = trying(async () => {
  const translation = output.innerText.trim();
  const { text, source, target } = shown;
  if (!backend.features.corrections || !translation || !text.trim()) return;
  const { translatedText } = await backend.correct({ text, translation, source, target });
  say(`Thank you. This text is now translated as: ${translatedText}`);
  await showLearning();
});

async function showLearning() {
  if (!backend.features.corrections) return;
  const facts = await backend.learning(knownPair()).catch(() => null);
  at("learning").hidden = !facts;
  if (!facts) return;
  const { corrections, run, last, is_growing: isGrowing } = facts;
  const now = isGrowing ? "; it is learning from them now" : "";
  clearTimeout(polling);
  if (isGrowing) polling = setTimeout(showLearning, 10_000);
  const ending = corrections === 1 ? "" : "s";
  at("learned").textContent = `${run}: ${corrections} correction${ending}${now}. ${last}`;
  at("undo").hidden = !facts.grown;
}

const translateFile = trying(async () => {
  const [file] = at("file").files;
  at("link").hidden = true;
  if (!file) return;
  at("file").value = ""; // so that the same file can be chosen again
  say(`Translating ${file.name}…`);
  at("link").href = await backend.translateFile({ file, ...pair() });
  at("link").textContent = `Translation of ${file.name}`;
  at("link").hidden = false;
  say("");
});

// --- start ---------------------------------------------------------------------------------------

async function start() {
  const progress = (loaded, total) => say(`Loading the model: ${10 * Math.round((10 * loaded) / total)} %`);
  const about = await backend.settings({ onProgress: progress });
  languages = about.languages;
  const sources = languages.filter((one) => one.targets.length).map((one) => one.code);
  fill(at("source"), sources, sources.length > 1 ? [new Option("Detect language", "auto")] : []);
  listTargets();
  say("");
  field.maxLength = about.charLimit;
  field.disabled = false;
  field.focus();
  at("files").hidden = !backend.features.files;
  at("file").accept = about.fileEndings?.join() ?? "";
  at("key-label").hidden = !about.keyRequired;
  if (backend.features.corrections) output.contentEditable = "plaintext-only";
  output.ariaReadOnly = !backend.features.corrections;
  await showLearning();
  if (field.value) translate();
}

field.addEventListener("input", () => {
  highlight([]);
  at("count").textContent = `${field.value.length} of ${field.maxLength}`;
  clearTimeout(timer);
  timer = setTimeout(translate, WAIT);
});
field.addEventListener("scroll", () => { at("marks").scrollTop = field.scrollTop; });
output.addEventListener("pointerover", (event) => highlightSourcesOf(event.target));
output.addEventListener("pointerleave", () => highlight([]));
output.addEventListener("click", (event) => highlightSourcesOf(event.target));
document.addEventListener("selectionchange", () => {
  if (document.activeElement === output) highlightSourcesOf(getSelection().anchorNode?.parentElement);
});
output.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sendCorrection();
});
at("send").addEventListener("click", sendCorrection);
at("undo").addEventListener("click", trying(() => backend.undo(knownPair()).then(showLearning)));
at("source").addEventListener("change", () => { listTargets(); translate(); showLearning(); });
at("target").addEventListener("change", () => { translate(); showLearning(); });
at("choices").addEventListener("submit", (event) => event.preventDefault());
at("file").addEventListener("change", translateFile);
at("key").addEventListener("change", () => { backend.useKey(at("key").value); translate(); showLearning(); });
trying(start)();
