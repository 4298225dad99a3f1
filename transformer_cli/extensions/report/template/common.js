"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const $ = (id) => document.getElementById(id);

// --- light and dark ---------------------------------------------------------------------------

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const button = $("theme");
let dark = systemDark.matches;

function paint() {
  button.textContent = dark ? "Light" : "Dark";
  button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
  drawCharts();
}

function choose(isDark) {
  dark = isDark;
  root.style.colorScheme = dark ? "dark" : "light";
  paint();
}

button.addEventListener("click", () => choose(!dark));
systemDark.addEventListener("change", (event) => {
  if (!root.style.colorScheme) {
    dark = event.matches;
    paint();
  }
});

// Paper is white, and what is folded away cannot be unfolded there.
let before = null;
addEventListener("beforeprint", () => {
  before = { dark, chosen: root.style.colorScheme };
  if (dark) choose(false);
});
addEventListener("afterprint", () => {
  if (before && before.dark) choose(true);
  if (before) root.style.colorScheme = before.chosen;
  before = null;
});

// --- charts -----------------------------------------------------------------------------------

// A custom property is text; only a property that takes a colour tells which one it comes to.
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// Roles of the legend whose curves are not to be drawn.
const hidden = new Set();

function drawCharts() {
  const ink = colour("ink"), soft = colour("soft"), line = colour("line"), sheet = colour("sheet");
  const roles = { val: colour("main"), train: colour("second") };
  const font = getComputedStyle(document.body).fontFamily;
  const touch = matchMedia("(pointer: coarse)").matches;
  // 1, 2, 5, 10, …, a million
  const steps = [...Array(19).keys()].map((n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3));
  for (const chart of data.charts) {
    const place = document.querySelector(`[data-chart="${chart.name}"]`);
    if (!place) continue;
    const grouped = chart.kind === "bands";
    const drawn = chart.series.filter((series) => !grouped || !hidden.has(series.role));
    const hue = (series) => roles[series.role] ?? colour(`hue-${series.role % data.drawn}`);
    const traces = [
      ...drawn.filter((series) => grouped && series.low).map((series) => band(series, hue(series))),
      ...drawn.map((series) => trace(chart, series, hue(series))),
    ];
    const axis = {
      gridcolor: line, linecolor: line, zeroline: false, automargin: true,
      tickfont: { color: soft, size: 12 }, fixedrange: touch,
    };
    const title = (text) => ({ text, font: { color: soft, size: 12 }, standoff: 10 });
    const marked = chart.mark !== null;
    Plotly.react(place, traces, {
      xaxis: { ...axis, title: title(chart.x), showgrid: false },
      yaxis: { ...axis, title: title(chart.y), type: chart.log ? "log" : "linear", nticks: 6, rangemode: chart.from_zero ? "tozero" : "normal", ...(chart.log ? { tickmode: "array", tickvals: steps, ticktext: steps.map((each) => each.toLocaleString("en")) } : {}) },
      shapes: marked ? [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: chart.mark, x1: chart.mark, line: { color: soft, width: 1, dash: "dot" } }] : [],
      margin: { l: 52, r: 12, t: grouped ? 12 : 30, b: chart.x ? 44 : 26 },
      paper_bgcolor: sheet, plot_bgcolor: sheet,
      font: { family: font, color: ink, size: 13 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: ink } },
      showlegend: chart.series.length > 1 && !grouped,
      hovermode: grouped ? "closest" : "x unified",
      hoverlabel: { bgcolor: sheet, bordercolor: line, font: { color: ink, family: font }, align: "left", namelength: -1 },
      dragmode: touch ? false : "zoom",
    }, { displayModeBar: false, responsive: true, showTips: false });
  }
}

// Plotly reads text as if it were HTML; a name may look so.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\n", "<br>");

function band(series, colour) {
  return {
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", line: { width: 0 },
    fillcolor: colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.16)"),
    x: [...series.x, ...[...series.x].reverse()], y: [...series.high, ...[...series.low].reverse()],
  };
}

function trace(chart, series, colour) {
  const shared = { name: series.name, x: series.x, y: series.y };
  const labelled = { ...shared, type: "scatter", text: (series.note ?? []).map(plain), hovertemplate: "%{text}<extra></extra>" };
  if (chart.kind === "bands") {
    const alone = series.x.length === 1;
    return { ...labelled, mode: alone ? "markers" : "lines", line: { color: colour, width: 2 }, marker: { color: colour, size: 6 } };
  }
  const few = series.x.length <= 40 && series.role === "val";
  return {
    ...shared, type: "scatter", mode: few ? "lines+markers" : "lines",
    line: { color: colour, width: 2 }, marker: { color: colour, size: 6 },
    hovertemplate: "%{y:.4g}",
  };
}
