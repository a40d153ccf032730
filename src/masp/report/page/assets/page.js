/* The page from its content: sections of blocks. A block's maker returns its element and a function that takes newer
   content of the same shape, which is how the live page changes without losing what its reader has chosen. */

const dark = matchMedia("(prefers-color-scheme: dark)");
const printing = matchMedia("print");
const theme = () => (dark.matches && !printing.matches ? 1 : 0); // index into pairs of colours
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const redraws = new Set(); // functions that draw again when the theme changes

/** An element with text or children; text is never read as HTML. */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Four significant digits, thousands separated. */
function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
}

/** Text in which what is between backticks is code. */
const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));

const isNumber = (text) => typeof text === "string" && /^[–\-−]?\d[\d,]*(\.\d+)?( ?%| MB)?([ \n]\[[^\]]*\])?( \*)?(\npaper: .*)?$/.test(text);

/** A dot in a pair of colours, of which page.css takes one. */
function swatch([light, night]) {
  const dot = el("span", { class: "swatch", "aria-hidden": "true" });
  dot.style.setProperty("--light", light);
  dot.style.setProperty("--night", night);
  return dot;
}

function textBlock(block) {
  const element = el("p", { class: block.tone === "finding" ? "finding" : "note" }, block.text);
  return { element, update: (newer) => { element.textContent = newer.text; } };
}

function tableBlock(block) {
  const body = el("tbody");
  const numeric = block.columns.map((_, i) => block.rows.length > 0 && block.rows.every((row) => /^–?(\npaper: .*)?$/.test(row[i]) || isNumber(row[i])));
  const head = block.columns.map((name, i) => el("th", { scope: "col", class: numeric[i] ? "number" : null }, name));
  const table = el("table", { "aria-label": block.caption }, el("thead", {}, el("tr", {}, ...head)), body);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.caption }, table);
  const update = (newer) => body.replaceChildren(...newer.rows.map((row) => el("tr", {}, ...row.map((cell, i) => tableCell(cell, numeric[i])))));
  update(block);
  const caption = el(block.closed ? "summary" : "p", { class: "caption" }, block.caption);
  const element = el(block.closed ? "details" : "div", { class: block.plain ? null : "card" }, caption, scroll);
  return { element, update };
}

/** Figures in which a narrow cell breaks before an interval, but not within it. */
const unbroken = (text) => text.replace(/\[[^\]]*\]/g, (interval) => interval.replaceAll(" ", "\u00a0"));

function tableCell(cell, numeric) {
  const plain = typeof cell === "string";
  const children = plain ? [numeric ? unbroken(cell) : cell] : [cell.colour ? swatch(cell.colour) : null, cell.text, cell.note ? el("small", {}, cell.note) : null];
  if (!plain && cell.bar !== undefined) {
    const bar = el("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0, Math.min(1, cell.bar)) * 100}%`;
    children.push(bar);
  }
  return el("td", { class: numeric || (!plain && cell.bar !== undefined) ? "number" : null }, ...children);
}

function videosBlock(block) {
  const film = (video) => el("figure", { class: "film" },
    video.type.startsWith("video/")
      ? el("video", { controls: true, muted: true, loop: true, playsinline: true, src: `data:${video.type};base64,${video.data}`, "aria-label": video.label })
      : el("img", { src: `data:${video.type};base64,${video.data}`, alt: `One episode, animated: ${video.label}` }),
    el("figcaption", {}, el("p", {}, video.label)));
  const grid = el("div", { class: "grid" });
  const update = (newer) => grid.replaceChildren(...newer.videos.map(film));
  update(block);
  return { element: el("div", {}, grid, block.note ? el("p", { class: "note" }, block.note) : null), update };
}

const makers = {
  text: textBlock, table: tableBlock, videos: videosBlock,
  charts: (block) => chartsBlock(block), dots: (block) => dotsBlock(block),
  maps: (block) => mapsBlock(block), usages: (block) => usagesBlock(block),
};

/** What must stay the same for newer content to be put into the page that is there. */
const shape = (page) => JSON.stringify(page.sections.map((section) => [section.id, section.blocks.map((block) => [
  block.kind, block.title, block.tone, (block.columns || []).length, (block.charts || []).map((chart) => [chart.id, chart.lines.map((line) => line.name)]),
  (block.maps || block.usages || block.videos || []).map((part) => part.label), (block.dots || []).map((chart) => chart.rows.map((row) => row.name)),
])]));

let shown = null; // {shape, updates}

function show(page) {
  document.title = page.title;
  document.getElementById("head").replaceChildren(...heading(page));
  if (shown && shown.shape === shape(page)) {
    page.sections.forEach((section, s) => section.blocks.forEach((block, b) => shown.updates[s][b](block)));
    return;
  }
  document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.purge(plot));
  redraws.clear();
  const main = document.getElementById("main");
  main.replaceChildren();
  const updates = page.sections.map((section) => {
    const parts = section.blocks.map((block) => makers[block.kind](block));
    main.append(el("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
      el("h2", { id: `${section.id}-title` }, section.title), el("div", { class: "stack" }, ...parts.map((part) => part.element))));
    parts.forEach((part) => part.drawn && part.drawn());
    return parts.map((part) => part.update);
  });
  const links = page.sections.map((section) => el("li", {}, el("a", { href: `#${section.id}` }, section.title)));
  document.getElementById("nav").replaceChildren(el("ul", {}, ...links));
  document.getElementById("foot").replaceChildren(el("p", {}, `${page.made}. Charts: Plotly. This file needs no network.`));
  followScroll();
  shown = { shape: shape(page), updates };
}

function heading(page) {
  const live = document.body.dataset.live === "yes";
  const state = live ? el("span", { class: "live", id: "live", "aria-hidden": "true" }) : null;
  return [
    el("h1", {}, page.title),
    el("p", { class: "made" }, state, page.subtitle, " · ", el("span", { id: "state", role: "status" }, live ? "follows training" : page.made)),
    el("div", { class: "story" }, ...page.story.map(([lead, text]) => el("p", {}, lead ? el("strong", {}, `${lead}. `) : null, ...withCode(text)))),
  ];
}

/** Mark the section that is being read. */
function followScroll() {
  const links = [...document.querySelectorAll("nav a")];
  const mark = (id) => links.forEach((link) => {
    if (link.getAttribute("href") === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => entry.isIntersecting && mark(entry.target.id)), { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main section").forEach((section) => observer.observe(section));
}

async function unpack(id) {
  const packed = document.getElementById(id);
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  packed.remove();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** Ask the server of the live page for newer content, again and again; what is shown stays when it has ended. */
async function follow(milliseconds) {
  let tag = "";
  for (let failures = 0; ;) {
    await new Promise((done) => setTimeout(done, milliseconds * Math.min(1 + failures, 10)));
    try {
      const answer = await fetch("data", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        show(await answer.json());
      }
      failures = 0;
    } catch (error) {
      failures += 1;
    }
    const ended = failures > 1;
    document.getElementById("live").classList.toggle("ended", ended);
    document.getElementById("state").textContent = ended ? "masp watch has ended; this is its last state" : "follows training";
  }
}

async function main() {
  const script = document.createElement("script");
  script.textContent = await unpack("plotly");
  document.head.append(script);
  show(JSON.parse(await unpack("content")));
  const redraw = () => redraws.forEach((draw) => draw());
  dark.addEventListener("change", redraw);
  printing.addEventListener("change", redraw);
  document.body.dataset.ready = "yes";
  if (document.body.dataset.live === "yes") follow(2000);
}

main().catch((error) => {
  document.getElementById("main").replaceChildren(el("p", {}, `The page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`));
  throw error;
});
