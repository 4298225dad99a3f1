// --- the legend -------------------------------------------------------------------------------

function legend() {
  const keys = [...document.querySelectorAll(".key")];
  const press = (pressed, isPressed) => {
    for (const key of pressed) {
      key.setAttribute("aria-pressed", String(isPressed));
      hidden[isPressed ? "delete" : "add"](key.dataset.group);
    }
  };
  press(keys.filter((key) => key.getAttribute("aria-pressed") === "false"), false);
  if (!keys.length) return;
  for (const key of keys) {
    key.addEventListener("click", () => {
      press([key], hidden.has(key.dataset.group));
      drawCharts();
    });
  }
  for (const [id, isPressed] of [["all", true], ["none", false]]) {
    $(id).addEventListener("click", () => {
      press(keys, isPressed);
      drawCharts();
    });
  }
}

// --- the table --------------------------------------------------------------------------------

function table() {
  const body = document.querySelector(".groups tbody");
  const heads = [...document.querySelectorAll(".groups thead th")];
  const rows = [...body.rows];

  function sort(column) {
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    for (const head of heads) head.setAttribute("aria-sort", "none");
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const values = new Map(rows.map((row) => [row, row.cells[column].dataset.value]));
    const isMissing = (row) => values.get(row) === "";
    const areNumbers = rows.every((row) => Number.isFinite(Number(values.get(row))));
    const order = areNumbers
      ? (one, other) => Number(values.get(one)) - Number(values.get(other))
      : (one, other) => values.get(one).localeCompare(values.get(other), "en", { numeric: true });
    // What is missing stays at the end, whichever way it is sorted.
    const sorted = [...rows].sort((one, other) => isMissing(one) - isMissing(other) || (down ? -1 : 1) * order(one, other));
    body.replaceChildren(...sorted);
  }

  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => sort(column)));
  const menu = $("metric");
  if (!menu) return;
  const cells = [...document.querySelectorAll(".groups [data-metric]")];
  const show = () => {
    for (const cell of cells) cell.hidden = cell.dataset.metric !== menu.value;
  };
  menu.addEventListener("change", show);
  show();
}

legend();
table();
paint();
