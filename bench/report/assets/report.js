// The script of the report: filters, the theme, and the two views of plans. It
// aligns nothing itself: which node of one plan belongs to which of another
// comes from plan.Diff, as lists of indices (see pack.go). It writes text nodes
// only, never markup, and asks for nothing: without it all is readable but the
// two views.
(() => {
"use strict";

const root = document.documentElement;
root.classList.add("js");
const $ = (id) => document.getElementById(id);

// el makes an element. Properties that start with "on" are listeners, "class"
// and others are attributes; null children are left out.
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat()) {
    if (c !== null && c !== undefined) e.append(c);
  }
  return e;
}

// figure, ms and times write numbers as plan.Figure and plan.Milliseconds do.
function figure(f) {
  if (f < 0) return "-" + figure(-f);
  if (f >= 1e15) return f.toExponential(2);
  if (f < 100) return String(Number(f.toPrecision(3)));
  return f.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
}
function ms(f) {
  if (f >= 10000) return figure(f / 1000) + " s";
  if (f !== 0 && f < 0.1) return figure(f * 1000) + " µs";
  return figure(f) + " ms";
}
function times(ratio) {
  if (!ratio || (ratio > 0.995 && ratio < 1.005)) return "";
  return ratio > 1 ? figure(ratio) + " times more" : figure(1 / ratio) + " times less";
}
const radius = (m) => {
  const n = Number(m.replace(/m$/, ""));
  if (Number.isNaN(n)) return m;
  return n >= 1000 ? figure(n / 1000) + " km" : figure(n) + " m";
};

// ---- theme ----

const themes = ["auto", "light", "dark"];
function setTheme(t) {
  if (t === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", t);
  $("theme").textContent = "Theme: " + t;
  $("theme").setAttribute("data-now", t);
}
function keep(t) {
  try { localStorage.setItem("nearjob-theme", t); } catch { /* a file may have no storage: then it lasts for this page */ }
}
let theme = "auto";
try { theme = localStorage.getItem("nearjob-theme") || "auto"; } catch { /* as above */ }
setTheme(themes.includes(theme) ? theme : "auto");
$("theme").addEventListener("click", () => {
  const t = themes[(themes.indexOf($("theme").getAttribute("data-now")) + 1) % themes.length];
  setTheme(t);
  keep(t);
});

// ---- printing: what is folded is opened, and folded again after ----

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((d) => { d.open = true; });
});
addEventListener("afterprint", () => {
  opened.forEach((d) => { d.open = false; });
  opened = [];
});

// ---- filters of the measurements ----

const filters = [...document.querySelectorAll("select[data-filter]")];
function filter() {
  let shown = 0, all = 0;
  for (const body of document.querySelectorAll("#cases tbody")) {
    let any = false;
    for (const tr of body.querySelectorAll("tr[data-strategy]")) {
      const ok = filters.every((f) => f.value === "" || tr.dataset[f.dataset.filter] === f.value);
      tr.hidden = !ok;
      any = any || ok;
      all++;
      if (ok) shown++;
    }
    body.hidden = !any;
  }
  if ($("shown")) $("shown").textContent = shown === all ? all + " searches" : shown + " of " + all + " searches";
}
filters.forEach((f) => f.addEventListener("change", filter));
if (filters.length) {
  filters[0].form.addEventListener("reset", () => setTimeout(filter));
  filter();
}

// ---- copying ----

for (const b of document.querySelectorAll("button.copy")) {
  b.addEventListener("click", async () => {
    const code = b.parentElement.querySelector("code");
    let done = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // No clipboard for this page: mark the text, so that one key copies it.
      getSelection().selectAllChildren(code);
      done = false;
    }
    b.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { b.textContent = "Copy"; }, 2000);
  });
}

// ---- plans ----

const D = JSON.parse($("plans-data").textContent);
const text = (i) => D.t[i || 0];
const byID = new Map(D.p.map((p, i) => [p.id, i]));
const nameOf = (p) => p.l;

// node joins what all plans of a shape have with the figures of one.
function node(p, i) {
  return { ...D.s[p.h].n[i], f: p.n[i] };
}
const label = (n) => n.e ? n.h + " [" + n.e + "]" : n.h;

const fields = [
  ["Data set", (p) => p.s, (v) => v],
  ["Rows", (p) => p.r, (v) => figure(v)],
  ["Radius", (p) => p.m, (v) => radius(v)],
  ["Strategy", (p) => p.y, (v) => v],
  ["Index", (p) => p.f ? "forced" : "free", (v) => v === "forced" ? "forced" : "optimizer's choice"],
  ["Statement", (p) => p.i, (v) => String(v)],
];

// picker is a row of selects that names one plan.
function picker(box, title, changed) {
  let now = 0;
  const selects = fields.map(([name, of], at) => {
    const s = el("select", { "aria-label": title ? title + ": " + name : null, onchange: () => choose(at, s.value) });
    box.append(el("label", null, el("span", null, name), s));
    return s;
  });
  function choose(at, value) {
    // The plan with that value that is most like the one before.
    let best = now, most = -1;
    D.p.forEach((p, i) => {
      if (String(fields[at][1](p)) !== value) return;
      let like = 0;
      fields.forEach(([, of], k) => { if (k !== at && of(p) === of(D.p[now])) like += 1 << (fields.length - k); });
      if (like > most) { most = like; best = i; }
    });
    set(best);
    changed();
  }
  function set(i) {
    now = i;
    fields.forEach(([, of, write], at) => {
      const values = at === fields.length - 1
        ? Array.from({ length: D.p[now].o }, (_, k) => k + 1)
        : [...new Set(D.p.map(of))];
      const s = selects[at];
      const known = [...s.options].map((o) => o.value).join("\n");
      if (known !== values.join("\n")) s.replaceChildren(...values.map((v) => el("option", { value: v }, write(v))));
      s.value = String(of(D.p[now]));
      s.disabled = values.length === 1;
    });
  }
  return { set, get: () => now };
}

const badge = (off) => off ? el("span", { class: "off off" + off }, "×" + figure(off)) : null;

function details(n) {
  const f = n.f;
  const rows = [["condition", f.q], ["lookup", f.k], ["ranges", f.g], ["checked in the index", f.p], ["detail", f.d]]
    .filter(([, t]) => t)
    .map(([name, t]) => el("div", null, el("dt", null, name), el("dd", null, el("code", null, text(t)))));
  return rows.length ? el("dl", { class: "texts" }, rows) : null;
}

// access says what MySQL's text of the operation does not.
function access(n) {
  const said = n.h.toLowerCase();
  const words = [];
  if (n.rd && !said.includes(n.k)) words.push(n.k);
  if (n.i && !n.h.includes(n.i)) words.push("index " + n.i);
  if (n.sp) words.push("spatial");
  if (n.c && !said.includes("covering")) words.push("covering");
  if (n.r) words.push("backwards");
  if (n.j && !said.includes(n.j)) words.push(n.j + " join");
  return words.join(" · ");
}

function notesAt(p, i) {
  const list = (p.k || []).filter((k) => k.n === i);
  if (!list.length) return null;
  return el("ul", { class: "notes" }, list.map((k) =>
    el("li", { class: k.w ? "warn" : null }, k.w ? el("b", null, "Warning: ") : null, k.t.map(text).join(""))));
}

function indent(e, depth) {
  e.style.setProperty("--depth", depth);
  return e;
}

const actual = (f) => f.v ? "never run" : f.r === undefined ? "–" : figure(f.r);

// tree draws one plan as a table, one operation a row.
function tree(p) {
  const total = Math.max(...p.n.map((f) => f.t || 0)) || 1;
  const rows = p.n.flatMap((f, i) => {
    const n = node(p, i);
    const part = (f.s || 0) / total;
    const bar = el("span", { class: "bar" });
    bar.style.setProperty("--part", Math.min(1, part));
    const extra = f.l > 1 ? " × " + figure(f.l) : "";
    const more = [details(n), notesAt(p, i)].filter((x) => x);
    return [
      indent(el("tr", { role: "row", class: (f.v ? "never " : "") + (more.length ? "continued" : "") },
        el("th", { scope: "row", role: "rowheader" },
          n.e ? el("span", { class: "heading" }, n.e) : null,
          el("span", { class: "op" }, n.h),
          access(n) ? el("span", { class: "access" }, access(n)) : null),
        el("td", { role: "cell", class: "time", "data-name": "own time" }, p.z ? el("span", null, f.v ? "–" : ms(f.s || 0)) : "–",
          p.z && !f.v ? el("small", null, Math.round(part * 100) + " %") : null, bar),
        el("td", { role: "cell", class: "num", "data-name": "with inputs" }, p.z && !f.v ? ms(f.t || 0) : "–"),
        el("td", { role: "cell", class: "num", "data-name": "estimated" }, f.e === undefined ? "–" : figure(f.e), p.f && n.rd && f.e !== undefined ? el("small", null, "index forced") : null),
        el("td", { role: "cell", class: "num", "data-name": "actual rows" }, actual(f) + extra, badge(f.o)),
        el("td", { role: "cell", class: "num", "data-name": "cost" }, f.c === undefined ? "–" : figure(f.c))), n.d),
      more.length ? indent(el("tr", { role: "row", class: "more" }, el("td", { role: "cell", colspan: 6 }, more)), n.d) : null,
    ];
  });
  const heads = ["Operation", "Own time", "With inputs", "Estimated rows", "Actual rows", "Cost"];
  return el("table", { class: "tree", role: "table" },
    el("caption", null, "The operations of the plan. Inputs stand below the operation that reads them. Rows are for one loop, × loops; times are of all loops."),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map((h, i) => el("th", { scope: "col", role: "columnheader", class: i > 1 ? "num" : null }, h)))),
    el("tbody", { role: "rowgroup" }, rows));
}

function traceOf(p) {
  const c = p.c;
  if (!c) return null;
  const outcome = (a) => {
    const cause = a.w ? ": " + text(a.w) : "";
    if (a.h) return "cheaper than those above";
    return (a.u ? "not taken" : "not usable") + cause;
  };
  const priced = (a) => a.u && (a.r || a.c); // an index without a range has no price
  return el("section", { class: "trace", "aria-label": "Optimizer trace" },
    el("h4", null, "Why this access"),
    c.w ? el("p", null, text(c.w)) : null,
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Costs compared by the optimizer" },
      el("table", null,
        el("caption", null, "What the optimizer compared (optimizer trace)"),
        el("thead", null, el("tr", null, ["Access", "Rows", "Cost", "Ranges", "Outcome"].map((h, i) => el("th", { scope: "col", class: i > 0 && i < 4 ? "num" : null }, h)))),
        el("tbody", null,
          el("tr", null, el("th", { scope: "row" }, "table scan"), el("td", { class: "num" }, figure(c.r)), el("td", { class: "num" }, figure(c.c)), el("td", { class: "num" }, "–"),
            el("td", null, text(c.h) === "table scan" ? "chosen" : "")),
          (c.a || []).map((a) => el("tr", { class: a.h ? "chosen" : null },
            el("th", { scope: "row" }, text(a.i), a.o ? el("small", null, " covering") : null),
            el("td", { class: "num" }, priced(a) ? figure(a.r || 0) : "–"), el("td", { class: "num" }, priced(a) ? figure(a.c || 0) : "–"),
            el("td", { class: "num" }, a.g ? figure(a.g) : "–"),
            el("td", null, outcome(a), priced(a) ? el("small", null, a.d ? "rows counted in the index" : "rows guessed from statistics") : null)))))),
    el("p", { class: "quiet" }, "Chosen: " + text(c.h) + (c.hc ? ", cost " + figure(c.hc) : "") + "."
      + (c.m ? " The server cut " + figure(c.m) + " bytes off the trace." : "")));
}

function pick(id, name) { // a link to a plan
  return el("a", { href: "#plan:" + encodeURIComponent(id) }, name);
}

function showPlan() {
  const p = D.p[planPicker.get()];
  const other = D.p.findIndex((q) => q.s === p.s && q.r === p.r && q.m === p.m && q.y === p.y && !q.f === !!p.f && q.i === p.i);
  const worst = p.n.reduce((w, f, i) => (f.s || 0) > (p.n[w].s || 0) ? i : w, 0);
  $("plan-view").replaceChildren(
    el("h3", { id: "plan-title", tabindex: "-1" }, nameOf(p)),
    el("p", { class: "sum" },
      p.z && p.n.length ? ms(p.n[0].t || 0) + " under EXPLAIN ANALYZE" : "not executed",
      p.ms ? ", " + ms(p.ms) + " without it" : "", p.z ? "; " + figure(p.x) + " rows read for " + figure(p.rr) + " returned" : "",
      p.o > 1 ? "; statement " + p.i + " of " + p.o + " (round " + p.d + ")" : "",
      p.z && p.n.length > 1 && p.n[worst].s ? "; most time in: " + node(p, worst).h : "", "."),
    el("p", { class: "links" },
      el("a", { href: "#diff:" + encodeURIComponent(p.id) + ":" + encodeURIComponent(D.p[other < 0 ? diffB.get() : other].id) },
        other < 0 ? "Compare with another plan" : "Compare with the " + (p.f ? "optimizer's choice" : "forced index"))),
    notesAt(p, -1) || "",
    el("div", { class: "beside" },
      el("div", { class: "main" }, p.n.length ? tree(p) : el("p", null, "The plan could not be read; its text is in report.json.")),
      el("div", { class: "aside" },
        el("section", { "aria-label": "Statement" },
          el("h4", null, "Statement"), el("pre", { tabindex: "0", "aria-label": "SQL" }, el("code", null, text(p.q))),
          p.a ? el("h4", null, "Arguments") : null,
          p.a ? el("pre", { class: "args", tabindex: "0", "aria-label": "Arguments" }, el("code", null, text(p.a))) : null,
          p.w ? el("h4", null, "The server's warnings") : null,
          p.w ? el("ul", { class: "notes" }, p.w.map((w) => el("li", { class: "warn" }, text(w)))) : null),
        traceOf(p))));
}

// ---- two plans ----

// pairsOf returns plan.Diff's pairs for two plans.
function pairsOf(a, b) {
  let u = D.u[a.h][b.h];
  if (typeof u !== "number") {
    const same = (x, y) => (x.q || 0) === (y.q || 0) && (x.k || 0) === (y.k || 0) && (x.d || 0) === (y.d || 0);
    u = u.v[u.e.map(([i, j]) => same(a.n[i], b.n[j]) ? "1" : "0").join("")];
  }
  const g = D.g[u], pairs = [];
  for (let i = 0; i < g.length; i += 3) pairs.push({ a: g[i], b: g[i + 1], twin: g[i + 2], status: g[i] < 0 ? "added" : g[i + 1] < 0 ? "removed" : "same", changes: [] });
  return pairs;
}

const joins = (k) => k === "nested loop" || k === "hash join" || k === "batched key access join";

// compare fills in what differs, by the rules of plan.Diff: figures that repeated
// runs change as much are no difference.
function compare(a, b, pairs) {
  const formatA = D.s[a.h].f, formatB = D.s[b.h].f;
  pairs.forEach((p, i) => {
    const add = (cls, what, x, y, ratio) => p.changes.push({ cls, what, a: x, b: y, ratio: ratio || 0, pair: i });
    if (p.status === "removed") {
      add("shape", p.twin >= 0 ? "moved from here" : "removed", label(node(a, p.a)), "");
      return;
    }
    const y = node(b, p.b);
    let from = p.a;
    if (p.status === "added") {
      if (p.twin < 0) { add("shape", "added", "", label(y)); return; }
      add("shape", "moved to here", "", label(y));
      from = pairs[p.twin].a;
    }
    const x = node(a, from);
    if (x.k !== y.k) add(x.rd && y.rd ? "access" : "shape", "operation", label(x), label(y));
    else if ((x.j || "") !== (y.j || "") && formatA === formatB) add("shape", "join type", x.j || "", y.j || "");
    const words = (what, v, w) => { if (v !== w) add("access", what, v, w); };
    const texts = (what, v, w) => { if ((v || 0) !== (w || 0)) add("access", what, text(v), text(w)); };
    words("table", x.t || "", y.t || "");
    words("index", x.i || "", y.i || "");
    if (x.rd && y.rd) {
      words("covering", x.c ? "yes" : "no", y.c ? "yes" : "no");
      words("direction", x.r ? "backwards" : "forwards", y.r ? "backwards" : "forwards");
    }
    if (formatA === formatB || (formatA !== "json-v1" && formatB !== "json-v1")) {
      texts("condition", x.f.q, y.f.q);
      texts("lookup", x.f.k, y.f.k);
      texts("index condition", x.f.p, y.f.p);
      const cut = (t) => text(t).endsWith(" more)");
      if (formatA === formatB || (!cut(x.f.g) && !cut(y.f.g))) texts("ranges", x.f.g, y.f.g);
      if (x.k === y.k) texts("detail", x.f.d, y.f.d);
    }
    if (p.changes.length && p.status === "same") p.status = "changed";
    const number = (cls, what, v, w, noise, write) => {
      const [ratio, differ] = ratioOf(v, w, noise);
      if (differ) add(cls, what, write(v), write(w), ratio);
    };
    // With a forced index MySQL does not estimate rows.
    if (!a.f && !b.f && x.f.e !== undefined && y.f.e !== undefined) number("rows", "estimated rows", x.f.e, y.f.e, 1.1, figure);
    if (!x.f.v !== !y.f.v && a.z && b.z) {
      const w = ["executed", "never executed"];
      add("rows", "execution", w[x.f.v ? 1 : 0], w[y.f.v ? 1 : 0]);
      return;
    }
    if (x.f.r === undefined || y.f.r === undefined) return;
    number("rows", "actual rows", x.f.r * x.f.l, y.f.r * y.f.l, 1.1, figure);
    number("rows", "loops", x.f.l, y.f.l, 1.1, figure);
    const s = [x.f.s || 0, y.f.s || 0], t = [x.f.t || 0, y.f.t || 0];
    if (Math.abs(s[0] - s[1]) >= 0.05) number("time", "own time", s[0], s[1], 1.25, ms);
    if (Math.abs(t[0] - t[1]) >= 0.05) number("time", "total time", t[0], t[1], 1.25, ms);
  });
}

function ratioOf(x, y, noise) {
  if (x === y) return [1, false];
  if (x <= 0 || y <= 0) return [0, true];
  return [y / x, y / x >= noise || y / x <= 1 / noise];
}

const marks = { same: ["=", "the same"], changed: ["~", "changed"], removed: ["−", "only in A"], added: ["+", "only in B"], moved: ["↕", "moved"] };
const statusOf = (p) => p.twin >= 0 ? "moved" : p.status;

function sideCell(p, i, changes, which) {
  if (i < 0) return el("td", { role: "cell", class: "side none", "data-name": which }, el("span", { class: "quiet" }, "no such operation"));
  const n = node(p, i), f = n.f;
  const differs = new Set(changes.map((c) => c.what));
  const fig = (name, value, what) => value === null ? null : el("span", { class: differs.has(what) ? "differs" : null }, name + " " + value);
  return indent(el("td", { role: "cell", class: "side", "data-name": which },
    n.e ? el("span", { class: "heading" }, n.e) : null,
    el("span", { class: "op" + (differs.has("operation") || differs.has("index") || differs.has("table") ? " differs" : "") }, n.h),
    access(n) ? el("span", { class: "access" }, access(n)) : null,
    el("span", { class: "figs" },
      fig("est.", f.e === undefined ? null : figure(f.e), "estimated rows"),
      fig("rows", f.v ? "never run" : f.r === undefined ? null : figure(f.r) + (f.l > 1 ? " × " + figure(f.l) : ""), "actual rows"),
      p.z && !f.v ? fig("own", ms(f.s || 0), "own time") : null, badge(f.o)),
    ), n.d);
}

// changeItem shows one change. The node is named unless the change before was of
// the same one; long texts are folded.
function changeItem(c, before, pairs, a, b) {
  const p = pairs[c.pair];
  const n = p.a >= 0 ? node(a, p.a) : node(b, p.b);
  const named = (c.cls === "shape" && (!c.a || !c.b)) || (before && before.pair === c.pair);
  const write = (v) => v === "" ? "none" : c.cls === "rows" || c.cls === "time" ? v : el("code", null, v);
  const length = c.a.length + c.b.length, more = times(c.ratio);
  let what;
  if (c.cls === "shape" && (c.a === "" || c.b === "")) {
    what = el("span", { class: "what" }, el("b", null, c.what), " ", write(c.a || c.b));
  } else if (length <= 60) {
    what = el("span", { class: "what" }, el("b", null, c.what), " ", write(c.a), " → ", write(c.b), more ? el("em", null, ", " + more) : null);
  } else {
    const both = [el("div", null, el("b", null, "A "), write(c.a)), el("div", null, el("b", null, "B "), write(c.b))];
    what = length <= 240
      ? el("div", { class: "what" }, el("b", null, c.what), both)
      : el("details", { class: "what" }, el("summary", null, el("b", null, c.what), " differs"), both);
  }
  return el("li", { "data-class": c.cls, "data-what": c.what, "data-pair": c.pair, class: named && before ? "same" : null },
    named ? null : el("span", { class: "where" }, label(n)), what);
}

function showDiff() {
  const a = D.p[diffA.get()], b = D.p[diffB.get()];
  const pairs = pairsOf(a, b);
  compare(a, b, pairs);
  const all = pairs.flatMap((p) => p.changes);
  const group = (title, classes, none) => {
    const list = classes.flatMap((c) => all.filter((x) => x.cls === c));
    return el("section", { class: "changes" }, el("h4", null, title),
      list.length ? el("ul", null, list.map((c, i) => changeItem(c, list[i - 1], pairs, a, b))) : el("p", { class: "quiet" }, none));
  };
  const totals = [];
  const total = (what, x, y, write) => totals.push(el("tr", null, el("th", { scope: "row" }, what), el("td", { class: "num" }, write(x)), el("td", { class: "num" }, write(y)), el("td", null, times(ratioOf(x, y, 1)[0]) || "equal")));
  if (a.z && b.z && a.n.length && b.n.length) {
    total("total time", a.n[0].t || 0, b.n[0].t || 0, ms);
    total("rows read", a.x, b.x, figure);
    total("rows returned", a.rr, b.rr, figure);
  }
  if (!a.f && !b.f && a.n.length && b.n.length && a.n[0].c !== undefined && b.n[0].c !== undefined) total("estimated cost", a.n[0].c, b.n[0].c, figure);
  const remarks = [];
  if (a.z !== b.z) remarks.push("Only one of the plans was executed (EXPLAIN ANALYZE): rows and times cannot be compared.");
  if (a.f || b.f) remarks.push("With a forced index MySQL does not estimate rows but shows one: estimates and costs are not compared.");
  if (a.s !== b.s || a.r !== b.r || a.m !== b.m) remarks.push("The plans are of different searches: rows and times differ for that reason too.");
  $("diff-view").replaceChildren(
    el("h3", { id: "diff-title", tabindex: "-1" }, a === b ? "A plan beside itself" : "A beside B"),
    el("p", { class: "links" }, "A: ", pick(a.id, nameOf(a)), el("br"), "B: ", pick(b.id, nameOf(b))),
    remarks.length ? el("ul", { class: "notes" }, remarks.map((r) => el("li", null, r))) : "",
    totals.length ? el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Totals" }, el("table", { class: "totals" }, el("caption", null, "The plans as a whole"),
      el("thead", null, el("tr", null, el("th", { scope: "col" }, ""), el("th", { scope: "col", class: "num" }, "A"), el("th", { scope: "col", class: "num" }, "B"), el("th", { scope: "col" }, "B against A"))),
      el("tbody", null, totals))) : "",
    el("div", { class: "groups" },
      group("Shape and access", ["shape", "access"], "No difference."),
      el("div", null, group("Rows", ["rows"], "No difference of 10 % or more."),
        group("Time", ["time"], a.z && b.z ? "No difference of 25 % or more." : "Not measured: both plans need EXPLAIN ANALYZE."))),
    el("table", { class: "pairs", role: "table" },
      el("caption", null, "Node against node: = the same, ~ changed, − only in A, + only in B, ↕ moved. What differs is underlined."),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "A: " + a.y + (a.f ? ", forced" : "")), el("th", { scope: "col", role: "columnheader", class: "mark" }, el("span", { class: "sr" }, "Difference")), el("th", { scope: "col", role: "columnheader" }, "B: " + b.y + (b.f ? ", forced" : "")))),
      el("tbody", { role: "rowgroup" }, pairs.map((p) => {
        const st = statusOf(p);
        return el("tr", { role: "row", class: st, "data-a": p.a, "data-b": p.b, "data-twin": p.twin, "data-status": p.status },
          sideCell(a, p.a, p.changes, "A"),
          el("td", { role: "cell", class: "mark" }, el("span", { "aria-hidden": "true" }, marks[st][0]), el("span", { class: "sr" }, marks[st][1])),
          sideCell(b, p.b, p.changes, "B"));
      }))));
}

// ---- fragments: #plan:ID and #diff:ID:ID ----

let planPicker, diffA, diffB;
function remember(hash) {
  try { history.replaceState(null, "", hash); } catch { location.hash = hash; }
}
const planHash = () => "#plan:" + encodeURIComponent(D.p[planPicker.get()].id);
const diffHash = () => "#diff:" + encodeURIComponent(D.p[diffA.get()].id) + ":" + encodeURIComponent(D.p[diffB.get()].id);

function go() {
  const parts = location.hash.slice(1).split(":").map((s) => { try { return decodeURIComponent(s); } catch { return s; } });
  const known = parts.slice(1).map((id) => byID.get(id));
  if (parts[0] === "plan" && known.length === 1 && known[0] !== undefined) {
    planPicker.set(known[0]);
    showPlan();
    arrive("plans", "plan-title");
  } else if (parts[0] === "diff" && known.length === 2 && !known.includes(undefined)) {
    diffA.set(known[0]);
    diffB.set(known[1]);
    showDiff();
    arrive("diff", "diff-title");
  }
}
function arrive(section, title) {
  $(title).focus({ preventScroll: true });
  $(section).scrollIntoView();
}

if (D.p.length) {
  const show = () => { showDiff(); remember(diffHash()); };
  planPicker = picker($("plan-pick"), "", () => { showPlan(); remember(planHash()); });
  diffA = picker($("diff-a"), "Plan A", show);
  diffB = picker($("diff-b"), "Plan B", show);
  $("swap").addEventListener("click", () => {
    const a = diffA.get();
    diffA.set(diffB.get());
    diffB.set(a);
    show();
  });
  planPicker.set(byID.get($("plans").dataset.first) ?? 0);
  diffA.set(byID.get($("diff").dataset.a) ?? 0);
  diffB.set(byID.get($("diff").dataset.b) ?? 0);
  showPlan();
  showDiff();
  addEventListener("hashchange", go);
  go();
}
})();
