// --- attention --------------------------------------------------------------------------------

const MEAN = "mean";

function unpacked(kind) {
  if (typeof kind.weights === "string") {
    kind.weights = Uint8Array.from(atob(kind.weights), (each) => each.charCodeAt(0));
  }
  return kind.weights;
}

/* Weights (0 to 1) of one head, or the mean of all heads of a layer: query -> key -> weight. */
function weightsOf(kind, layer, head) {
  const bytes = unpacked(kind);
  const rows = kind.queries.length, columns = kind.keys.length;
  const heads = head === MEAN ? [...Array(kind.heads).keys()] : [Number(head)];
  return (query, key) => {
    let sum = 0;
    for (const each of heads) {
      sum += bytes[((layer * kind.heads + each) * rows + query) * columns + key];
    }
    return sum / heads.length / 255;
  };
}

function options(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    option.selected = String(value) === String(chosen);
    return option;
  }));
}

const percent = (weight) => `${Math.round(100 * weight)}\u00a0%`;

function attention() {
  const menus = { sentence: $("sentence"), kind: $("kind"), layer: $("layer"), head: $("head") };
  const rows = { queries: $("queries"), keys: $("keys") };
  const tokens = { queries: [], keys: [] };
  let current, weight, pinned = null;

  options(menus.sentence, data.attention.map((each, n) => [n, each.title]), 0);

  function show() {
    current = data.attention[menus.sentence.value].kinds[menus.kind.value];
    const layers = [...Array(current.layers).keys()], heads = [...Array(current.heads).keys()];
    const layer = Math.min(menus.layer.value === "" ? current.layers - 1 : Number(menus.layer.value), current.layers - 1);
    const head = menus.head.value === "" || Number(menus.head.value) >= current.heads ? MEAN : menus.head.value;
    options(menus.layer, layers.map((n) => [n, n + 1]), layer);
    options(menus.head, [[MEAN, "mean of all"], ...heads.map((n) => [n, n + 1])], head);
    weight = weightsOf(current, layer, head);
    fill("queries");
    fill("keys");
    pinned = null;
    look(null);
  }

  function fill(side) {
    tokens[side] = current[side].map((text, n) => {
      const token = document.createElement("button");
      token.type = "button";
      token.className = isMark(text) ? "token special" : "token";
      if (isMark(text)) token.dir = "ltr"; // so it does not set the row's direction
      token.dataset.number = n;
      token.tabIndex = n === 0 ? 0 : -1;
      const share = document.createElement("small");
      share.setAttribute("aria-hidden", "true");
      share.dir = "ltr";
      token.append(shown(text), share);
      return token;
    });
    // Keep the subwords of a word together.
    const words = [];
    tokens[side].forEach((token, n) => {
      const text = current[side][n];
      const joined = data.subwords && n > 0 && !isMark(text) && !isMark(current[side][n - 1]) && !text.startsWith("▁");
      if (!joined) words.push(document.createElement("span"));
      words.at(-1).className = "word";
      words.at(-1).append(token);
    });
    rows[side].replaceChildren(...words);
  }

  // Not `in`: a word may have the name of an object's own property, such as `constructor`.
  const isMark = (text) => Object.hasOwn(data.marks, text);

  function shown(text) {
    if (isMark(text)) return data.marks[text];
    if (!data.subwords) return text;
    return text === "▁" ? "␣" : text.replace(/^▁/, "");
  }

  // Without isolation, right-to-left text would reverse the order of the text after it.
  const isolated = (text) => `\u2068${shown(text)}\u2069`;

  /* Shade what a word of one row looks at, or is looked at by, in the other row. */
  function look(at) {
    for (const side of ["queries", "keys"]) {
      tokens[side].forEach((token, n) => {
        const chosen = at !== null && at.side === side && at.number === n;
        token.classList.toggle("chosen", chosen);
        token.setAttribute("aria-pressed", String(pinned !== null && pinned.side === side && pinned.number === n));
        const own = at === null || at.side === side ? null
          : side === "keys" ? weight(at.number, n) : weight(n, at.number);
        // To the eye, the square root looks even, so that a tenth is visible, too.
        token.style.setProperty("--shown", own === null ? 0 : Math.sqrt(own).toFixed(4));
        token.dataset.weight = own === null ? "" : own.toFixed(4);
        token.lastChild.textContent = own !== null && own >= 0.01 ? percent(own) : "";
      });
    }
    $("looks").textContent = at === null ? "" : told(at);
  }

  function told(at) {
    const other = at.side === "queries" ? "keys" : "queries";
    const found = current[other].map((text, n) => [text, at.side === "queries" ? weight(at.number, n) : weight(n, at.number)]);
    found.sort((one, another) => another[1] - one[1]);
    const most = found.slice(0, 4).filter(([, own]) => own >= 0.01).map(([text, own]) => `${isolated(text)} ${percent(own)}`);
    const word = `“${isolated(current[at.side][at.number])}”`;
    if (!most.length) return at.side === "queries" ? `${word} looks at nothing in particular.` : `Nothing looks at ${word}.`;
    return at.side === "queries" ? `${word} looks at: ${most.join(", ")}` : `${word} is looked at by: ${most.join(", ")}`;
  }

  for (const [side, row] of Object.entries(rows)) {
    const of = (event) => {
      const token = event.target.closest(".token");
      return token && { side, number: Number(token.dataset.number) };
    };
    row.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse" && of(event)) look(of(event)); });
    row.addEventListener("pointerleave", () => look(pinned));
    row.addEventListener("focusin", (event) => { if (of(event)) look(of(event)); });
    row.addEventListener("focusout", () => look(pinned));
    row.addEventListener("click", (event) => {
      const at = of(event);
      if (!at) return;
      const same = pinned !== null && pinned.side === at.side && pinned.number === at.number;
      pinned = same ? null : at;
      look(at);
    });
    row.addEventListener("keydown", (event) => {
      const forward = getComputedStyle(row).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
      const by = { ArrowRight: -1, ArrowLeft: -1, [forward]: 1 }[event.key];
      const token = event.target.closest(".token");
      const next = by && token && tokens[side][Number(token.dataset.number) + by];
      if (!next) return;
      event.preventDefault();
      token.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }
  for (const menu of Object.values(menus)) menu.addEventListener("change", show);
  show();
  // Show something at first.
  const first = current.queries.length > 2 ? 1 : 0;
  pinned = { side: "queries", number: first };
  look(pinned);
}

paint();
if (data.attention.length) attention();
