"use strict";
/* Line charts with bands, and dots with intervals. */

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"); // Plotly reads tags
const transparent = (colour, share) => colour + Math.round(share * 255).toString(16).padStart(2, "0");
const narrow = () => innerWidth < 640;
const settings = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: "reset" };

/** Draw a chart as wide as its place is now: on paper that is narrower than in the window, and Plotly keeps its first width. */
const drawChart = (plot, traces, look) => Plotly.react(plot, traces, { width: plot.clientWidth || undefined, ...look }, settings);

/** The look that all charts share. */
function layout(more = {}) {
  const axis = { gridcolor: css("--rule"), linecolor: css("--rule"), zeroline: false, ticks: "", automargin: true, tickfont: { size: 11.5 } };
  const { xaxis, yaxis, ...rest } = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--sans"), size: 12.5, color: css("--muted") },
    margin: { l: 8, r: 10, t: 8, b: 8 }, showlegend: false, hovermode: "x unified",
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--rule"), font: { color: css("--ink"), size: 12.5, family: css("--sans") }, align: "left" },
    xaxis: { ...axis, showgrid: false, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...rest,
  };
}

const title = (text) => ({ text: escaped(text || ""), font: { size: 12 }, standoff: 8 });

function lineTraces(chart, hidden) {
  const traces = [];
  for (const line of chart.lines.filter((one) => !hidden.has(one.group))) {
    const colour = line.colour[theme()];
    const plain = { x: line.x, mode: "lines", hoverinfo: "skip", line: { width: 0, color: colour } };
    if (line.low) {
      traces.push({ ...plain, y: line.high });
      traces.push({ ...plain, y: line.low, fill: "tonexty", fillcolor: transparent(colour, line.dash ? 0.08 : 0.16) });
    }
    for (const run of line.runs) traces.push({ ...plain, x: run.x, y: run.y, line: { width: 1, color: transparent(colour, 0.4) } });
    const seeds = (i) => (Array.isArray(line.n) ? line.n[i] : line.n);
    const about = line.x.map((_, i) => (line.low && line.low[i] !== null ? ` [${number(line.low[i])}, ${number(line.high[i])}], ${seeds(i)} seeds` : ""));
    traces.push({
      x: line.x, y: line.y, name: escaped(line.name), customdata: about, meta: line.name,
      mode: line.x.length < 3 ? "lines+markers" : "lines", line: { width: 2.2, color: colour, dash: line.dash ? "5px,4px" : "solid" },
      hovertemplate: "%{y:.4~g}%{customdata}",
    });
  }
  return traces;
}

function lineLayout(chart) {
  const reference = { type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.reference, y1: chart.reference, line: { color: css("--muted"), width: 1, dash: "dot" } };
  const xs = chart.lines.flatMap((line) => [line.x[0], line.x.at(-1)]), [first, last] = [Math.min(0, ...xs), Math.max(...xs)];
  return layout({
    uirevision: chart.id, // newer content does not undo what the reader has zoomed into
    xaxis: { title: title(chart.x), range: [first, last + 0.015 * (last - first || 1)], exponentformat: "SI", nticks: narrow() ? 5 : 8, hoverformat: chart.x === "environment frames" ? ",.0f" : "" },
    yaxis: { title: title(chart.y), rangemode: chart.lines.some((line) => line.y.some((y) => y < 0)) ? "normal" : "tozero", nticks: 6, exponentformat: "SI" },
    shapes: chart.reference === null ? [] : [reference],
  });
}

/** Charts of one task, with one legend that switches groups on and off in all of them. */
function chartsBlock(block) {
  const hidden = new Set();
  const parts = block.charts.map((chart) => lineChart(chart, hidden, block.title ? "h4" : "h3"));
  const drawn = new Set(block.charts.flatMap((chart) => chart.lines.map((line) => line.group)));
  const buttons = block.legend.filter(([name]) => drawn.has(name)).map(([name, colour]) => {
    const button = el("button", { type: "button", "aria-pressed": "true", title: "Show or hide in the charts below" }, swatch(colour), name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      parts.forEach((part) => part.draw());
    });
    return el("li", {}, button);
  });
  const element = el("div", {}, block.title ? el("h3", {}, block.title) : null, el("ul", { class: "legend", "aria-label": "Groups" }, ...buttons),
    el("div", { class: "grid" }, ...parts.map((part) => part.element)), el("p", { class: "note" }, block.note));
  return {
    element,
    drawn: () => parts.forEach((part) => part.draw()),
    update: (newer) => newer.charts.forEach((chart, i) => parts[i].update(chart)),
  };
}

function lineChart(chart, hidden, heading) {
  const plot = el("div", { class: "plot", id: chart.id, role: "img", tabindex: "0" });
  const note = el("p", {});
  const numbers = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers: ${chart.title}` });
  const dashes = chart.dashes.length ? el("p", { class: "dashes" }, el("span", {}, el("i", { "aria-hidden": "true" }), chart.dashes[0]), el("span", {}, el("i", { class: "dashed", "aria-hidden": "true" }), chart.dashes[1])) : null;
  const element = el("figure", {}, el("figcaption", {}, el(heading, {}, chart.title), el("p", {}, chart.read), note, dashes), plot,
    el("details", {}, el("summary", {}, "Numbers"), numbers));
  const draw = () => drawChart(plot, lineTraces(chart, hidden), lineLayout(chart));
  const update = (newer) => {
    chart = newer;
    note.textContent = chart.note;
    plot.setAttribute("aria-label", `${chart.title} against ${chart.x}. ${chart.lines.map((line) => `${line.name}: ${number(line.y.at(-1))} at the end`).join("; ")}. Arrow keys move along the curves.`);
    numbers.replaceChildren(numbersTable(chart));
    if (plot.classList.contains("js-plotly-plot")) draw();
  };
  update(chart);
  redraws.add(draw);
  keyboard(plot, () => chart.lines.filter((line) => !hidden.has(line.group)).reduce((most, line) => (line.x.length > most.length ? line.x : most), []));
  return { element, draw, update };
}

function numbersTable(chart) {
  const rows = chart.lines.map((line) => {
    const known = line.y.filter((y) => y !== null);
    return el("tr", {}, el("td", {}, line.name), ...[known[0], known.at(-1), Math.min(...known), Math.max(...known)].map((y) => el("td", { class: "number" }, number(y))));
  });
  const head = ["line", "first", "last", "lowest", "highest"].map((name, i) => el("th", { scope: "col", class: i ? "number" : null }, name));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}

/** Left and right move a cursor over a chart that has the focus. */
function keyboard(plot, positions) {
  let index = -1;
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const xs = positions();
    if (step === undefined || !xs.length) return;
    event.preventDefault();
    index = Math.max(0, Math.min(xs.length - 1, index < 0 ? (step > 0 ? 0 : xs.length - 1) : index + step));
    Plotly.Fx.hover(plot, { xval: xs[index] }, "xy");
  });
  plot.addEventListener("blur", () => plot.classList.contains("js-plotly-plot") && Plotly.Fx.unhover(plot));
}

/** Charts of dots, side by side. */
function dotsBlock(block) {
  const parts = block.dots.map(dotsChart);
  return {
    element: el("div", { class: "grid" }, ...parts.map((part) => part.element)),
    drawn: () => parts.forEach((part) => part.draw()),
    update: (newer) => newer.dots.forEach((chart, i) => parts[i].update(chart)),
  };
}

/** One row per group: seeds, their mean and its interval; the paper's figure beside it where there is one. */
function dotsChart(block) {
  const plot = el("div", { class: "plot", id: block.id, role: "img" });
  const element = el("figure", {}, el("figcaption", {}, el("h3", {}, block.title), el("p", {}, block.read)), plot);
  const draw = () => {
    plot.style.height = `${70 + 40 * block.rows.length}px`;
    const label = (text) => escaped(narrow() && text.length > 22 ? `${text.slice(0, 21)}…` : text);
    const traces = block.rows.flatMap((row, i) => dotTraces(row, block.rows.length - 1 - i));
    const ticks = { tickvals: block.rows.map((_, i) => block.rows.length - 1 - i), ticktext: block.rows.map((row) => label(row.name)) };
    const values = block.rows.flatMap((row) => [row.value, row.low, row.high, row.paper, ...row.points]).filter((value) => typeof value === "number");
    const alone = Math.min(...values) === Math.max(...values) && values[0] >= 0; // Plotly would begin below 0
    drawChart(plot, traces, layout({
      hovermode: "closest", dragmode: false,
      xaxis: { ...(alone ? { range: [-0.02 * Math.max(1, 1.2 * values[0]), Math.max(1, 1.2 * values[0])] } : {}), title: title(block.x), showgrid: true, fixedrange: true, nticks: narrow() ? 5 : 9, exponentformat: "SI" },
      yaxis: { ...ticks, showgrid: false, range: [-0.6, block.rows.length - 0.4], fixedrange: true, tickfont: { size: 13, color: css("--ink") } },
    }));
  };
  const update = (newer) => {
    block = newer;
    plot.setAttribute("aria-label", `${block.title}. ${block.rows.map((row) => `${row.name}: ${number(row.value)}`).join("; ")}`);
    if (plot.classList.contains("js-plotly-plot")) draw();
  };
  update(block);
  redraws.add(draw);
  return { element, draw, update };
}

function dotTraces(row, height) {
  const colour = row.colour[theme()];
  const interval = row.low !== null && row.low !== undefined;
  const range = interval ? ` [${number(row.low)}, ${number(row.high)}]` : "";
  const seeds = { x: row.points, y: row.points.map(() => height - 0.26), mode: "markers", marker: { size: 5, color: transparent(colour, 0.55) }, hovertemplate: "one seed: %{x:.4~g}<extra></extra>" };
  const mean = { x: [row.value], y: [height], mode: "markers", marker: { size: 12, color: colour }, text: [range], name: escaped(row.name), hovertemplate: "%{fullData.name}: %{x:.4~g}%{text}<extra></extra>" };
  const bar = { x: [row.low, row.high], y: [height, height], mode: "lines", line: { width: 3, color: transparent(colour, 0.6) }, hoverinfo: "skip" };
  const paper = { x: [row.paper], y: [height], mode: "markers", marker: { size: 11, symbol: "diamond-open", color: css("--ink"), line: { width: 1.6 } }, hovertemplate: "the paper: %{x:.4~g}<extra></extra>" };
  return [...(interval ? [bar] : []), ...(row.points.length > 1 ? [seeds] : []), ...(row.value === null ? [] : [mean]), ...(row.paper === null || row.paper === undefined ? [] : [paper])];
}
