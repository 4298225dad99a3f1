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

// Paper is white, and nothing on it can be unfolded.
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

// A custom property is text; only a property that takes a colour resolves it to one.
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

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
    const traces = chart.series.map((series) => trace(series, roles[series.role]));
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
      margin: { l: 52, r: 12, t: 30, b: chart.x ? 44 : 26 },
      paper_bgcolor: sheet, plot_bgcolor: sheet,
      font: { family: font, color: ink, size: 13 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: ink } },
      showlegend: chart.series.length > 1,
      hovermode: "x unified",
      hoverlabel: { bgcolor: sheet, bordercolor: line, font: { color: ink, family: font }, align: "left", namelength: -1 },
      dragmode: touch ? false : "zoom",
    }, { displayModeBar: false, responsive: true, showTips: false });
  }
}

function trace(series, colour) {
  const few = series.x.length <= 40 && series.role === "val";
  return {
    name: series.name, x: series.x, y: series.y, type: "scatter",
    mode: few ? "lines+markers" : "lines",
    line: { color: colour, width: 2 }, marker: { color: colour, size: 6 },
    hovertemplate: "%{y:.4g}",
  };
}
