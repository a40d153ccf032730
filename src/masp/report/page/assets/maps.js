/* Heat maps: the similarity of actions over training time, and what was decided on. */

const SCALES = { // light and dark: no similarity is the card's own colour
  similarity: [["#ffffff", "#f6d9c6", "#e79a7b", "#c0504d", "#7a1f3d", "#31102b"], ["#17191d", "#43213f", "#8a2a52", "#cf4b4b", "#f0925f", "#fde6b0"]],
  usage: [["#ffffff", "#d3e4ea", "#8fbfce", "#4690a8", "#1f6079", "#0c3145"], ["#17191d", "#143845", "#1f6079", "#3f94ab", "#8cc7d0", "#e6f6ee"]],
};
const colourScale = (name) => SCALES[name][theme()].map((colour, i, all) => [i / (all.length - 1), colour]);
let unpacked = { text: "", bytes: new Uint8Array(0) }; // the newest, because pointing at a map asks for the same again and again
function bytesOf(text) {
  if (unpacked.text !== text) unpacked = { text, bytes: Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)) };
  return unpacked.bytes;
}
const shortened = (text, most) => escaped([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

/** A strip that shows what the colours mean. */
function scaleStrip(name) {
  const canvas = el("canvas", { width: "180", height: "1", "aria-hidden": "true" });
  const low = el("span", {}), high = el("span", {});
  const paint = () => {
    const context = canvas.getContext("2d");
    const gradient = context.createLinearGradient(0, 0, 180, 0);
    colourScale(name).forEach(([at, colour]) => gradient.addColorStop(at, colour));
    context.fillStyle = gradient;
    context.fillRect(0, 0, 180, 1);
  };
  redraws.add(paint);
  const set = (from, to) => { low.textContent = from; high.textContent = to; paint(); };
  return { element: el("div", { class: "scale" }, low, canvas, high), set };
}

/** A select of labels; hidden if there is only one. */
function chooser(labels, text, changed) {
  const select = el("select", {}, ...labels.map((label, i) => el("option", { value: i }, label)));
  select.addEventListener("change", () => changed(Number(select.value)));
  return el("label", { hidden: labels.length < 2 }, text, select);
}

/** Hover and arrow keys on a heat map: both show a tooltip and the same text below the map. Once for every map. */
function explore(plot, readout, size, describe) {
  if (plot.onkeydown) return;
  const tip = document.getElementById("tip");
  let cursor = null;
  const say = (row, column, x, y) => {
    const text = describe(row, column);
    readout.textContent = text.replaceAll("\n", " ");
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18}px`;
  };
  const hide = () => { tip.hidden = true; };
  plot.on("plotly_hover", (event) => {
    const point = event.points.find((one) => one.data.type === "heatmap");
    if (point) say(point.pointNumber[0], point.pointNumber[1], event.event.clientX || 0, event.event.clientY || 0);
  });
  plot.on("plotly_unhover", hide);
  plot.onkeydown = (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    const [rows, columns] = size();
    cursor = cursor ? [cursor[0] + move[0], cursor[1] + move[1]] : [0, Math.min(1, columns - 1)];
    cursor = [Math.max(0, Math.min(rows - 1, cursor[0])), Math.max(0, Math.min(columns - 1, cursor[1]))];
    const box = plot.getBoundingClientRect();
    const { xaxis, yaxis } = plot._fullLayout;
    const [x, y] = [xaxis.l2p(plot.data[0].x[cursor[1]]) + xaxis._offset, yaxis.l2p(plot.data[0].y[cursor[0]]) + yaxis._offset];
    Plotly.relayout(plot, { shapes: [{ type: "circle", xref: "paper", yref: "paper", ...around(plot, x, y), line: { color: css("--focus"), width: 2 } }] });
    say(cursor[0], cursor[1], box.left + x, box.top + y);
  };
  plot.onblur = hide;
}

/** A small circle around a pixel, in shares of the plotting area. */
function around(plot, x, y) {
  const { l, t, w, h } = plot._fullLayout._size;
  return { x0: (x - l - 6) / w, x1: (x - l + 6) / w, y0: 1 - (y - t - 6) / h, y1: 1 - (y - t + 6) / h };
}

function mapsBlock(block) {
  let chosen = 0, moment = null; // null: the newest
  const plot = el("div", { class: "plot square", id: "similarity-map", role: "img", tabindex: "0" });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const note = el("p", { class: "note" });
  const alike = el("div", { class: "alike" });
  const strip = scaleStrip("similarity");
  const slider = el("input", { type: "range", min: "0", step: "1", id: "similarity-time" });
  const when = el("output", { for: "similarity-time" });
  const map = () => block.maps[chosen];
  const at = () => (moment === null ? map().frames.length - 1 : Math.min(moment, map().frames.length - 1));
  const choose = chooser(block.maps.map((one) => one.label), "Run", (i) => { chosen = i; moment = null; draw(); });
  slider.addEventListener("input", () => { moment = Number(slider.value) === map().frames.length - 1 ? null : Number(slider.value); draw(); });
  const time = el("label", { class: "time" }, "After", slider, when);
  const element = el("figure", {}, el("figcaption", {}, el("h3", {}, "Learned similarity of pairs of actions"),
    el("p", {}, "Each row and column is an action; dark squares (bright ones on a dark page) are pairs of actions that the agent treats alike. "
      + "They are ordered so that alike actions are neighbours at the end of training; the tree above joins the most alike ones first. "
      + "Move the slider to see when the pattern appeared. The diagonal, always 1, is left out.")),
    el("div", { class: "controls" }, choose, time),
    el("div", { class: "beside" }, el("div", { class: "map" }, plot, readout, strip.element, note), alike));
  const draw = () => {
    const one = map(), k = at();
    alike.replaceChildren(tableBlock(mostAlike(one, k)).element);
    slider.max = one.frames.length - 1;
    slider.value = k;
    time.hidden = one.frames.length < 2;
    when.textContent = `${number(one.frames[k])} frames`;
    slider.setAttribute("aria-valuetext", when.textContent);
    strip.set("0", one.clipped ? `${number(one.top)} and above` : number(one.top));
    note.textContent = [one.note, one.clipped ? "A few pairs are above the end of the colour scale." : "", block.note].filter(Boolean).join(" ");
    plot.setAttribute("aria-label", `Similarity of ${one.names.length} actions after ${when.textContent}. Arrow keys move over the pairs.`);
    readout.textContent = "Point at a square, or use the arrow keys, to read its pair.";
    drawChart(plot, mapTraces(one, k), mapLayout(one, plot));
    explore(plot, readout, () => [map().order.length, map().order.length], (row, column) => describePair(map(), at(), map().order[row], map().order[column]));
  };
  redraws.add(draw);
  return { element, drawn: draw, update: (newer) => { block = newer; draw(); } };
}

/** Similarity of two actions at a moment; pairs are the rows of the upper triangle. */
function pair(map, bytes, k, a, b) {
  const [i, j] = a < b ? [a, b] : [b, a], count = map.names.length;
  return (bytes[i * count - (i * (i + 1)) / 2 + (j - i - 1)] * map.scales[k]) / 255;
}

function describePair(map, k, a, b) {
  const say = (i) => (map.names[i] === map.sequences[i] ? map.names[i] : `${map.names[i]} (plays ${map.sequences[i]})`);
  return a === b ? `${say(a)}, with itself` : `${say(a)}\n${say(b)}\nsimilarity ${pair(map, bytesOf(map.pairs[k]), k, a, b).toFixed(3)}`;
}

/** The pairs with the largest similarity at a moment, as a table. */
function mostAlike(map, k, most = 12) {
  const bytes = bytesOf(map.pairs[k]), best = [];
  let index = 0;
  for (let a = 0; a < map.names.length; a += 1) {
    for (let b = a + 1; b < map.names.length; b += 1, index += 1) {
      if (best.length === most && bytes[index] <= best[most - 1][0]) continue;
      best.push([bytes[index], a, b]);
      best.sort((one, other) => other[0] - one[0]);
      best.length = Math.min(best.length, most);
    }
  }
  const rows = best.map(([byte, a, b]) => [map.names[a], map.names[b], ((byte * map.scales[k]) / 255).toFixed(3)]);
  return { caption: "Most alike at this time", columns: ["action", "action", "similarity"], rows, plain: true };
}

function mapTraces(map, k) {
  const bytes = bytesOf(map.pairs[k]), places = map.order.map((_, i) => i);
  const z = map.order.map((a) => Float32Array.from(map.order, (b) => (a === b ? NaN : pair(map, bytes, k, a, b))));
  const heat = { type: "heatmap", x: places, y: places, z, zmin: 0, zmax: map.top, colorscale: colourScale("similarity"), showscale: false, hoverinfo: "none", xgap: places.length <= 48 ? 1 : 0, ygap: places.length <= 48 ? 1 : 0 };
  const tree = { ...treeLines(map), type: "scatter", mode: "lines", yaxis: "y2", hoverinfo: "skip", line: { width: 1, color: css("--muted") } };
  return map.tree.length ? [heat, tree] : [heat];
}

/** The dendrogram as one line with gaps. */
function treeLines(map) {
  const place = new Map(map.order.map((action, i) => [action, i])), height = new Map();
  const x = [], y = [];
  const tops = map.tree.map((merge) => merge[2]), lowest = Math.min(...tops), range = Math.max(...tops) - lowest || 1;
  map.tree.forEach(([a, b, distance], i) => {
    const top = 0.15 + (distance - lowest) / range;
    const node = map.names.length + i, [xa, xb] = [place.get(a), place.get(b)];
    x.push(xa, xa, xb, xb, null);
    y.push(height.get(a) || 0, top, top, height.get(b) || 0, null);
    place.set(node, (xa + xb) / 2);
    height.set(node, top);
  });
  return { x, y };
}

function mapLayout(map, plot) {
  const count = map.order.length, width = plot.clientWidth || 600;
  const named = count <= (narrow() ? 20 : 50);
  const most = narrow() ? 10 : 22;
  const ticks = named ? { tickvals: map.order.map((_, i) => i), ticktext: map.order.map((i) => shortened(map.names[i], most)) } : { showticklabels: false };
  const cluster = (name, more) => shortened(name, most) + (narrow() || !more ? "" : ` and ${more} more`);
  const rows = named ? ticks : { tickvals: map.clusters.map(([middle]) => middle), ticktext: map.clusters.map(([, name, more]) => cluster(name, more)), tickangle: -90 };
  const axis = { showgrid: false, fixedrange: narrow(), tickfont: { size: named && count > 30 ? 9 : 11 } };
  const side = Math.min(width, 740);
  return layout({
    hovermode: "closest", height: side * 1.08, width: side,
    xaxis: { ...axis, ...ticks, range: [-0.5, count - 0.5], tickangle: -90 },
    yaxis: { ...axis, ...rows, range: [count - 0.5, -0.5], domain: [0, map.tree.length ? 0.86 : 1] },
    yaxis2: { domain: [0.88, 1], visible: false, fixedrange: true, rangemode: "tozero" },
  });
}

function usagesBlock(block) {
  let chosen = 0;
  const plot = el("div", { class: "plot square", id: "usage-map", role: "img", tabindex: "0" });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const finding = el("p", { class: "note" });
  const strip = scaleStrip("usage");
  const numbers = el("div", {});
  const choose = chooser(block.usages.map((one) => one.label), "Run", (i) => { chosen = i; draw(); });
  const element = el("figure", {}, el("figcaption", {}, el("h3", {}, "Which actions were chosen over training time"),
    el("p", {}, "One row per action, the most used at the top; darker (brighter on a dark page) means a larger share of the decisions since the column before.")),
    el("div", { class: "controls" }, choose), finding, plot, readout, strip.element, numbers);
  const shown = () => block.usages[chosen];
  const draw = () => {
    const one = shown();
    finding.textContent = usageFinding(one);
    strip.set("0 %", `${number(100 * one.scale)} % of decisions`);
    plot.setAttribute("aria-label", `Shares of decisions of ${one.names.length} actions over training time. Arrow keys move over them.`);
    readout.textContent = "Point at a square, or use the arrow keys, to read it.";
    const z = one.names.map((_, row) => one.frames.map((_, column) => share(one, row, column)));
    drawChart(plot, [{ type: "heatmap", x: one.frames.map((_, i) => i), y: one.names.map((_, i) => i), z, zmin: 0, zmax: one.scale, colorscale: colourScale("usage"), showscale: false, hoverinfo: "none", xgap: 1, ygap: 1 }], usageLayout(one));
    explore(plot, readout, () => [shown().names.length, shown().frames.length], (row, column) => describeShare(shown(), row, column));
    const table = usageTable(one);
    numbers.replaceChildren(tableBlock(table).element);
  };
  redraws.add(draw);
  return { element, drawn: draw, update: (newer) => { block = newer; draw(); } };
}

/** Share of the decisions of a column of time that were some action. */
const share = (one, row, column) => (bytesOf(one.shares)[row * one.frames.length + column] * one.scale) / 255;

function describeShare(one, row, column) {
  const name = one.names[row] === one.sequences[row] ? one.names[row] : `${one.names[row]} (plays ${one.sequences[row]})`;
  return `${name}\n${number(100 * share(one, row, column))} % of decisions up to ${number(one.frames[column])} frames`;
}

function usageFinding(one) {
  const parts = [`Macros: ${number(100 * one.macros)} % of decisions`, `${number(100 * one.macro_steps)} % of steps`];
  if (one.macro_rewards !== null) parts.push(`${number(100 * one.macro_rewards)} % of the reward`);
  return `${parts.join(", ")}, over the whole run.${one.left_out ? ` ${one.left_out} less used actions are left out below.` : ""}`;
}

function usageLayout(one) {
  const columns = one.frames.length, step = Math.max(1, Math.ceil(columns / (narrow() ? 4 : 8)));
  const shownColumns = one.frames.map((_, i) => i).filter((i) => (columns - 1 - i) % step === 0);
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
  return layout({
    hovermode: "closest", height: 60 + 18 * one.names.length,
    xaxis: { title: title("environment frames"), tickvals: shownColumns, ticktext: shownColumns.map((i) => compact.format(one.frames[i])), fixedrange: true },
    yaxis: { tickvals: one.names.map((_, i) => i), ticktext: one.names.map((name) => shortened(name, narrow() ? 12 : 26)), autorange: "reversed", showgrid: false, fixedrange: true, tickfont: { size: 11 } },
  });
}

function usageTable(one) {
  const rewarded = one.table.some((row) => row.rewards !== undefined), valued = one.table.some((row) => row.advantage !== undefined);
  const percent = (share) => ({ text: `${number(100 * share)} %`, bar: share / Math.max(...one.table.map((row) => row.decisions), 1e-9) });
  const rows = one.table.map((row, i) => [one.names[i], one.sequences[i], percent(row.decisions), `${number(100 * row.steps)} %`,
    ...(rewarded ? [number(row.rewards)] : []), ...(valued ? [number(row.advantage)] : [])]);
  const columns = ["action", "plays", "share of decisions", "share of steps", ...(rewarded ? ["reward while played"] : []), ...(valued ? ["value above mean"] : [])];
  return { caption: "The most used actions, over the whole run", columns, rows, closed: true, plain: true };
}
