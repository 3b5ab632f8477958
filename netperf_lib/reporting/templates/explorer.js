"use strict";
// The explorer. One row is one condition, always: rows, colour, panels and filters arrange conditions and never pool
// them, so the medians and intervals that the library wrote stay right. No statistic is computed here. Text from the
// data enters the page by textContent or setAttribute only.

const SVG_TAGS = new Set(["svg", "g", "path", "line", "circle", "text", "title", "rect"]);

function node(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

const shorten = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

function folded(text, most) { // lines of words
  const rows = [""];
  for (const word of text.split(" "))
    if (`${rows.at(-1)} ${word}`.length > most) rows.push(word); else rows.push(`${rows.pop()} ${word}`.trim());
  return rows.map(row => shorten(row, most));
}

function format(units, value, unit) { // as the library writes a value
  if (value === null || value === undefined) return "–";
  if (unit === "ratio") return `${+(100 * value).toPrecision(3)} %`;
  const sizes = units[unit] || [["", 1]];
  const [suffix, size] = sizes.find(([, one]) => Math.abs(value) >= one) || sizes.at(-1);
  const scaled = value / size;
  const digits = Math.abs(scaled) >= 1000 ? Math.round(scaled).toLocaleString("en") : String(+scaled.toPrecision(3));
  return `${digits} ${suffix}`.trim();
}

function ticks(low, high, logarithmic, binary) { // round numbers in the unit that is read; powers of two for bytes
  const positions = [];
  if (logarithmic) {
    const radix = binary ? 4 : 10, steps = binary || high / low > 200 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log(low) / Math.log(radix)); radix ** power <= high; power++)
      for (const step of steps) if (step * radix ** power >= low && step * radix ** power <= high) positions.push(step * radix ** power);
    if (positions.length > 1) return positions;
    positions.length = 0;
  }
  const rough = (high - low) / 4, power = binary ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
  const step = binary ? power : power * [1, 2, 5, 10].find(multiple => multiple * power >= rough);
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) positions.push(value);
  return positions;
}

function mount(root, data, readLog, start, onChange) {
  const { factors, metrics, runs } = data;
  const factorAt = name => factors.findIndex(factor => factor.name === name);
  const factorsOf = metric => metric.by.map(index => factors[index]);
  const levelOf = (metric, condition, name) => name ? condition.levels[metric.by.indexOf(factorAt(name))] ?? 0 : 0;
  const initial = () => ({ metric: metrics[0].name, rows: null, colour: null, panels: "", axis: "auto", off: {} });
  const state = { ...initial(), ...valid(start) };
  let metric, shown = [], pointAt = null, tipRow = null;

  function valid(wish) { // a state from an address may hold anything
    const result = {}, isFactor = name => name === "" || factorAt(name) >= 0;
    if (!wish || typeof wish !== "object") return result;
    if (metrics.some(one => one.name === wish.metric)) result.metric = wish.metric;
    for (const key of ["rows", "colour", "panels"]) if (isFactor(wish[key])) result[key] = wish[key];
    if (["auto", "linear", "log"].includes(wish.axis)) result.axis = wish.axis;
    if (wish.off && typeof wish.off === "object") result.off = Object.fromEntries(Object.entries(wish.off).filter(
      ([name, list]) => factorAt(name) >= 0 && Array.isArray(list)).map(([name, list]) => [name, list.filter(Number.isInteger)]));
    return result;
  }
  const isShown = condition => factorsOf(metric).every(factor => !(state.off[factor.name] || []).includes(levelOf(metric, condition, factor.name)));
  const varying = list => factorsOf(metric).filter(factor => new Set(list.map(one => levelOf(metric, one, factor.name))).size > 1);
  const role = key => { // the factor chosen for rows, colour or panels; the first two factors where nothing was chosen
    const names = factorsOf(metric).map(factor => factor.name);
    if (state[key] === null) return names[{ rows: 0, colour: 1 }[key]] || "";
    return names.includes(state[key]) ? state[key] : "";
  };
  const ink = condition => role("colour") ? factors[factorAt(role("colour"))].colours[levelOf(metric, condition, role("colour"))] : "#0072b2";

  const ui = { controls: node("div", { class: "controls" }), filters: node("div", { class: "filters" }),
    note: node("p", { class: "note", "aria-live": "polite" }),
    figure: node("figure"), tip: node("div", { class: "tip", role: "status", hidden: true }),
    log: node("section", { class: "log", hidden: true }), code: node("div", { class: "code" }) };
  root.append(node("h1", {}, data.name), data.notice ? node("p", { class: "notice" }, data.notice) : "",
    node("div", { class: "page" }, node("aside", {}, ui.controls, node("details", { open: innerWidth >= 1000 },
      node("summary", {}, "Levels shown"), ui.filters)), node("div", { class: "picture" }, ui.note, ui.figure, ui.log, ui.code)), ui.tip,
    ...data.lead.map(line => node("p", { class: "lead" }, line)),
    data.root ? node("p", { class: "note" }, `Digest ${data.root}`) : "");

  function menu(label, key, value, options) {
    const box = node("select", { name: key, onchange: event => { state[key] = event.target.value; draw(); } },
      ...options.map(([one, words]) => node("option", { value: one, selected: value === one }, words)));
    return node("label", {}, label, box);
  }
  function drawControls() {
    const list = factorsOf(metric).map(factor => [factor.name, factor.label]), none = ["", "none"];
    ui.controls.replaceChildren(menu("Metric", "metric", state.metric, metrics.map(one => [one.name, one.label])),
      menu("Rows by", "rows", role("rows"), list.length ? list : [none]), menu("Colour", "colour", role("colour"), [none, ...list]),
      menu("Panels", "panels", role("panels"), [none, ...list]),
      menu("Axis", "axis", state.axis, [["auto", "as fits"], ["linear", "linear"], ["log", "logarithmic"]]),
      node("button", { onclick: () => { Object.assign(state, initial()); draw(); } }, "Start again"));
  }
  function drawFilters() {
    ui.filters.replaceChildren(...factorsOf(metric).map(factor => {
      const levels = [...new Set(metric.conditions.map(one => levelOf(metric, one, factor.name)))].sort((a, b) => a - b);
      return levels.length < 2 ? null : node("fieldset", {}, node("legend", {}, factor.label), ...levels.map(level => filter(factor, level)));
    }).filter(one => one));
  }
  function filter(factor, level) {
    const off = state.off[factor.name] || [], coloured = role("colour") === factor.name;
    const box = node("input", { type: "checkbox", name: factor.name, value: level, onchange: () => {
      state.off[factor.name] = box.checked ? off.filter(one => one !== level) : [...off, level];
      draw();
      ui.filters.querySelector(`[name="${CSS.escape(factor.name)}"][value="${level}"]`)?.focus();
    } });
    box.checked = !off.includes(level);
    const swatch = node("span", { class: "swatch" });
    if (coloured) swatch.style.background = factor.colours[level];
    return node("label", {}, box, coloured ? swatch : "", factor.words[level]);
  }
  function draw() {
    const width = ui.figure.clientWidth; // read before the page changes: later it would be laid out twice
    metric = metrics.find(one => one.name === state.metric);
    shown = metric.conditions.filter(isShown);
    const by = ["panels", "rows", "colour"].map(role).filter(name => name);
    const key = one => [...by.map(name => levelOf(metric, one, name)), ...one.levels];
    shown.sort((a, b) => { const x = key(a), y = key(b), i = x.findIndex((value, n) => value !== y[n]); return i < 0 ? 0 : x[i] - y[i]; });
    drawControls(); drawFilters();
    const others = varying(shown).filter(factor => !by.includes(factor.name)).map(factor => factor.label);
    const count = list => list.reduce((sum, one) => sum + one.n, 0);
    ui.note.textContent = `${shown.length} of ${metric.conditions.length} conditions, ${count(shown).toLocaleString("en")} of ${count(metric.conditions).toLocaleString("en")} runs. ` +
      "Each row is one condition: a point is a run, the bar the median with its interval" + (others.length ? `; rows also differ in ${others.join(", ")}.` : ".") +
      (metric.notes.length ? ` ${metric.notes.join(". ")}.` : "");
    drawFigure(width); drawCode(); hideTip();
    onChange(state);
  }

  function drawFigure(space) {
    const width = Math.max(300, Math.min(space || 900, 1400)), margin = 10;
    let low = Infinity, high = -Infinity;
    for (const one of shown) for (const value of one.values) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    if (low > high) return ui.figure.replaceChildren(node("p", { class: "notice" }, "No run is left: switch a level on."));
    const logarithmic = low > 0 && (state.axis === "log" || (state.axis === "auto" && high / low > 12));
    const pad = logarithmic ? (high / low) ** 0.03 || 1.01 : (high - low || Math.abs(high) || 1) * 0.03;
    [low, high] = logarithmic ? [low / pad, high * pad] : [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
    const scale = logarithmic ? Math.log : value => value;
    const x = value => margin + (width - 2 * margin) * (scale(value) - scale(low)) / (scale(high) - scale(low));
    const marks = ticks(low, high, logarithmic, metric.unit === "bytes").filter((_, i, list) => i % Math.ceil(list.length * 80 / width) === 0);
    const panels = new Map();
    for (const one of shown) {
      const level = levelOf(metric, one, role("panels"));
      panels.set(level, [...(panels.get(level) || []), one]);
    }
    ui.figure.replaceChildren(node("figcaption", {}, `${metric.label}${metric.better ? ` (${metric.better} is better)` : ""}${logarithmic ? ", logarithmic" : ""}`),
      ...[...panels].map(([level, list]) => panel(level, list, width, x, marks)));
  }
  function panel(level, list, width, x, marks) {
    const rows = role("rows"), title = role("panels") ? factors[factorAt(role("panels"))].words[level] : metric.label, parts = [];
    let y = 6, last = null;
    for (const one of list) {
      const heading = levelOf(metric, one, rows);
      if (rows && rows !== role("panels") && heading !== last) {
        parts.push(node("text", { class: "heading", x: 0, y: y + 16 }, shorten(factors[factorAt(rows)].words[heading], width / 8)));
        last = heading; y += 22;
      }
      const extra = one.name.length * 7.2 + 130 + (width > 560 ? 130 : 0) + (one.held ? 100 + one.held.length * 7.2 : 0) > width ? 16 : 0; // a long name has a line of its own
      parts.push(row(one, y, width, x, extra)); y += 44 + extra;
    }
    const axis = marks.flatMap(value => [node("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: y }),
      node("text", { class: "tick", x: x(value), y: y + 16, "text-anchor": x(value) < 30 ? "start" : x(value) > width - 40 ? "end" : "middle" }, format(data.units, value, metric.unit))]);
    const caveat = data.notice ? folded(data.notice, width / 7.6).map((line, i) => node("text", { class: "tick caveat", x: width - 4, y: y + 34 + 13 * i, "text-anchor": "end" }, line)) : [];
    const picture = node("svg", { viewBox: `0 0 ${width} ${y + 24 + 13 * caveat.length}`, width: "100%", role: "group", "aria-label": title,
      onmousemove: event => pointed(event, false), onclick: event => pointed(event, true), onmouseleave: hideTip }, ...axis, ...parts, ...caveat);
    return role("panels") ? node("section", {}, node("h2", {}, title), picture) : picture;
  }
  function row(one, y, width, x, extra) {
    const middle = y + 30 + extra, n = one.values.length;
    const points = one.values.map((value, i) => value === null ? null : [x(value), middle - 8 + 16 * (n > 1 ? i / (n - 1) : 0.5), i]).filter(point => point);
    const lost = [one.failed ? `${one.failed} failed` : "", one.missing ? `${one.missing} missing` : ""].filter(words => words).join(", ");
    const interval = one.low === null ? "" : ` (${format(data.units, one.low, metric.unit)} to ${format(data.units, one.high, metric.unit)})`;
    const value = one.n ? format(data.units, one.median, metric.unit) + (width > 560 ? interval : "") : "no value";
    const sure = one.confidence !== null && one.confidence < 0.949 ? `, ${Math.round(100 * one.confidence)} %` : "";
    const held = one.held ? `, limited by: ${one.held}` : "";
    const group = node("g", { class: "row", tabindex: 0, role: "img", "data-condition": one.name,
      "aria-label": `${one.name}: ${value}${interval}, ${one.n} runs${lost ? `, ${lost}` : ""}${held}`, onkeydown: event => keys(event, one), onfocus: () => { pointAt = null; } },
      node("title", {}, one.name + held),
      node("rect", { class: "back", x: 0, y, width, height: 42 + extra }),
      node("text", { class: "name", x: 4, y: y + 14 }, shorten(one.name, width / 7.2)),
      node("text", { class: "value", x: width - 4, y: y + 14 + extra, "text-anchor": "end" }, `${value}${sure}, n = ${one.n}${lost ? ` (${lost})` : ""}${width > 560 ? held : ""}`),
      node("path", { class: "runs", stroke: ink(one), d: points.map(([px, py]) => `M${Math.round(10 * px) / 10} ${Math.round(10 * py) / 10}h0`).join("") }),
      one.low === null ? null : node("line", { class: "interval", x1: x(one.low), x2: x(one.high), y1: middle, y2: middle }),
      one.n ? node("line", { class: "median", x1: x(one.median), x2: x(one.median), y1: middle - 9, y2: middle + 9 }) : null);
    return Object.assign(group, { points, condition: one });
  }

  function nearest(event) {
    const target = event.target.closest?.(".row");
    if (!target) return null;
    const box = target.ownerSVGElement.getBoundingClientRect(), zoom = target.ownerSVGElement.viewBox.baseVal.width / box.width;
    const px = (event.clientX - box.left) * zoom, py = (event.clientY - box.top) * zoom;
    let point = null, least = 14 ** 2;
    for (const one of target.points) { const d = (one[0] - px) ** 2 + (one[1] - py) ** 2; if (d < least) [point, least] = [one, d]; }
    return point && { row: target, point };
  }
  function pointed(event, clicked) {
    const hit = nearest(event);
    if (!hit) return hideTip();
    ring(hit.row, hit.point);
    if (clicked) openLog(hit.row.condition, hit.point[2]); else showTip(hit.row.condition, hit.point[2], event.clientX, event.clientY);
  }
  function ring(target, point) { root.querySelector(".ring")?.remove(); target.append(node("circle", { class: "ring", cx: point[0], cy: point[1], r: 6 })); }
  function describe(one, i) {
    const run = one.runs[i];
    return `${format(data.units, one.values[i], metric.unit)} · ${one.name} · round ${runs.round[run] ?? "–"} · ${runs.utc[run]}`;
  }
  function showTip(one, i, px, py) {
    ui.tip.textContent = `${describe(one, i)} · ${runs.id[one.runs[i]]}`;
    ui.tip.hidden = false;
    ui.tip.style.left = `${Math.max(4, Math.min(px + 12, innerWidth - 300))}px`; ui.tip.style.top = `${py + 14}px`;
  }
  function hideTip() { ui.tip.hidden = true; root.querySelector(".ring")?.remove(); }
  async function openLog(one, i) {
    ui.log.replaceChildren(node("h2", {}, describe(one, i)), node("p", {}, runs.id[one.runs[i]]), node("pre", { tabindex: 0 }, await readLog(one.runs[i])),
      node("button", { onclick: () => { ui.log.hidden = true; } }, "Close"));
    ui.tip.hidden = true; ui.log.hidden = false; ui.log.scrollIntoView?.({ block: "nearest" });
  }
  function openRun(id) { // a link from a report names a run
    const run = runs.id.indexOf(id);
    for (const one of metrics) for (const condition of one.conditions) {
      const i = condition.runs.indexOf(run);
      if (run < 0 || i < 0 || condition.values[i] === null) continue;
      Object.assign(state, initial(), { metric: one.name }); draw(); openLog(condition, i);
      return;
    }
  }
  function keys(event, one) {
    const target = event.currentTarget, rows = [...root.querySelectorAll(".row")], sorted = [...target.points].sort((a, b) => a[0] - b[0]);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") rows[rows.indexOf(target) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const step = event.key === "ArrowRight" ? 1 : -1, next = pointAt === null ? (step > 0 ? 0 : sorted.length - 1) : pointAt + step;
      pointAt = Math.max(0, Math.min(sorted.length - 1, next));
      const point = sorted[pointAt], box = target.getBoundingClientRect();
      if (point) { ring(target, point); showTip(one, point[2], box.left + 30, box.bottom); }
    } else if (event.key === "Enter" && pointAt !== null && sorted[pointAt]) openLog(one, sorted[pointAt][2]);
    else if (event.key === "Escape") { hideTip(); pointAt = null; ui.log.hidden = true; }
    else return;
    event.preventDefault();
  }

  const python = value => value === null ? "None" : value === true ? "True" : value === false ? "False" : JSON.stringify(value);
  function asPython() {
    const where = factorsOf(metric).filter(factor => (state.off[factor.name] || []).length).map(factor => {
      const used = new Set(metric.conditions.map(one => levelOf(metric, one, factor.name)));
      const on = factor.levels.filter((_, level) => used.has(level) && !state.off[factor.name].includes(level));
      return `${JSON.stringify(factor.name)}: [${on.map(python).join(", ")}]`;
    });
    const by = [...new Set(["rows", "colour", "panels"].map(role))].filter(name => varying(shown).some(factor => factor.name === name));
    return `import netperf_lib as npl\n\nobs = npl.observe(${JSON.stringify(data.path)}, ${JSON.stringify(metric.name)}, by=${JSON.stringify(by)}` +
      (where.length ? `, where={${where.join(", ")}}` : "") + ")\nlevels = npl.levels(obs)\nnpl.plots.rounds(obs)\n";
  }
  function drawCode() {
    const part = (title, text) => node("details", {}, node("summary", {}, title), node("pre", { tabindex: 0 }, text),
      node("button", { onclick: event => copy(text, event.target) }, "Copy"));
    ui.code.replaceChildren(part("As Python", asPython()));
  }
  async function copy(text, button) {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(button.previousSibling); button.textContent = "Selected: press Ctrl+C"; }
  }
  addEventListener("resize", () => drawFigure(ui.figure.clientWidth));
  draw();
  return { state, openRun, set: wish => { Object.assign(state, initial(), valid(wish)); draw(); } };
}

async function unpack(element) { // gzip in base64
  const bytes = Uint8Array.from(atob(element.textContent), character => character.charCodeAt(0));
  return JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
}

async function boot() { // the state is in the address
  const block = id => document.getElementById(id);
  const fromAddress = () => { try { return JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return null; } };
  let logs = null, own = "";
  const readLog = async run => {
    logs ||= await unpack(block("logs"));
    return logs[run] || "No log is kept for this run.";
  };
  const remember = state => {
    own = "#" + encodeURIComponent(JSON.stringify(state));
    try { if (own !== location.hash) history.replaceState(null, "", own); } catch { /* a frame in a notebook has no address */ }
  };
  const data = JSON.parse(block("data").textContent), run = location.hash.match(/^#run=(.+)$/);
  const page = mount(document.querySelector("main"), data, readLog, fromAddress(), remember);
  if (run) page.openRun(decodeURIComponent(run[1]));
  addEventListener("hashchange", () => { if (location.hash !== own) page.set(fromAddress()); });
}
boot();
