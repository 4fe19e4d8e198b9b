"use strict";
// Labels as you type. Names of labels and features come from models, so they are only ever put in as text.

const byId = (id) => document.getElementById(id);
const field = { model: byId("model"), k: byId("k"), text: byId("text"), token: byId("token") };
let models = [];
let running = null; // the request under way; typing on makes it needless
let timer = null;
let shownNode = null;

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers });
  const answer = await response.json();
  if (response.status === 401) document.querySelector(".token").hidden = false;
  if (!response.ok) throw new Error(answer.error || `the server answered ${response.status}`);
  return answer;
}

function tell(message) {
  const problem = byId("problem");
  problem.hidden = !message;
  problem.textContent = message || "";
}

function current() {
  return models.find((model) => model.name === field.model.value);
}

async function loadModels() {
  try {
    models = (await ask("v1/models")).models;
  } catch (error) {
    tell(error.message);
    return;
  }
  tell("");
  const chosen = field.model.value;
  field.model.replaceChildren(...models.map((model) => element("option", { value: model.name }, model.name)));
  if (models.some((model) => model.name === chosen)) field.model.value = chosen;
  showModel();
}

function showModel() {
  const model = current();
  const takesTexts = model.input === "texts";
  byId("explorer").href = `explore/${encodeURIComponent(model.name)}`;
  byId("about").textContent =
    `${model.labels.toLocaleString("en")} labels, ${model.features.toLocaleString("en")} features, ` +
    `version ${model.version}. ` + (takesTexts ? "" : "This model takes rows: index:value pairs, as 3:0.5 17:1.");
  byId("text-label").textContent = takesTexts ? "Text" : "Row";
  suggest();
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(suggest, 120);
}

function question() {
  const common = { k: Math.min(50, Math.max(1, Number.parseInt(field.k.value, 10) || 8)), probabilities: true, explain: true };
  if (current().input === "texts") return { text: field.text.value, ...common };
  const pairs = field.text.value.trim().split(/\s+/).map((pair) => pair.split(":").map(Number));
  if (pairs.some((pair) => pair.length !== 2 || pair.some(Number.isNaN))) throw new Error("expected index:value pairs, as 3:0.5 17:1");
  return { row: { indices: pairs.map((pair) => pair[0]), values: pairs.map((pair) => pair[1]) }, ...common };
}

async function suggest() {
  running?.abort();
  if (!current()) return;
  if (!field.text.value.trim()) {
    byId("labels").replaceChildren();
    byId("ways").replaceChildren(element("p", { className: "quiet" }, "No text yet."));
    byId("node").hidden = true;
    byId("status").textContent = "Labels appear as you type.";
    tell("");
    return;
  }
  const mine = new AbortController();
  running = mine;
  try {
    const answer = await ask(`v1/models/${encodeURIComponent(field.model.value)}/predict`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question()),
      signal: mine.signal,
    });
    tell("");
    showLabels(answer.predictions[0]);
    showWays(answer.predictions[0].explanation.paths);
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message);
  }
}

function showLabels(prediction) {
  const reasons = new Map(prediction.explanation.labels.map((label) => [label.label, label]));
  byId("labels").replaceChildren(...prediction.labels.map((label) => {
    const row = element("div", { className: "label" },
      element("b", {}, label.name), element("span", { title: "probability" }, percent(label.score)),
      element("progress", { max: 1, value: label.score, "aria-hidden": "true" }));
    const why = reasons.get(label.label);
    return element("li", {}, row, ...(why && why.features.length ? [reason(why)] : []));
  }));
  const best = prediction.labels[0];
  byId("status").textContent = best ? `${prediction.labels.length} labels; the best is ${best.name}.` : "No labels.";
}

function percent(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;
}

function reason(why) {
  const features = why.features.map((share) => element("li", { className: share.value > 0 ? "up" : "down" },
    `${share.name ?? `feature ${share.feature}`} ${share.value > 0 ? "+" : "−"}${Math.abs(share.value).toFixed(2)}`));
  return element("details", { className: "why" }, element("summary", {}, "why"), element("ul", {}, ...features));
}

function showWays(paths) {
  byId("ways").replaceChildren(...paths.map((path, tree) => {
    const steps = path.map((step, place) => {
      const isLeaf = place === path.length - 1;
      const turn = isLeaf ? "leaf" : step.margin > 0 ? "goes right" : "goes left";
      const button = element("button", { type: "button", className: isLeaf ? "leaf" : "", "aria-pressed": "false" },
        isLeaf ? `leaf ${step.node}` : `node ${step.node}`,
        element("small", {}, `${isLeaf ? "reached" : turn} ${isLeaf ? `with ${(100 * step.probability).toFixed(0)}%` : `(${step.margin.toFixed(2)})`}`));
      button.dataset.node = step.node;
      button.addEventListener("click", () => showNode(step.node));
      return element("li", {}, button, ...(isLeaf ? [] : [element("span", { "aria-hidden": "true" }, step.margin > 0 ? "↘" : "↙")]));
    });
    const list = element("ol", { className: "way", "aria-labelledby": `tree-${tree}` }, ...steps);
    list.addEventListener("keydown", walk);
    return element("div", { className: "tree" }, element("h3", { id: `tree-${tree}` }, `Tree ${tree + 1}`), list);
  }));
  markNode();
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (next) next.focus();
  event.preventDefault();
}

function markNode() {
  for (const button of document.querySelectorAll(".way button")) {
    button.setAttribute("aria-pressed", String(shownNode !== null && Number(button.dataset.node) === shownNode));
  }
}

function table(caption, rows) {
  return element("table", {}, element("caption", {}, caption),
    ...rows.map(([name, value, kind]) => element("tr", {}, element("th", { scope: "row", className: kind || "" }, name), element("td", {}, value))));
}

async function showNode(number) {
  let node;
  try {
    node = await ask(`v1/models/${encodeURIComponent(field.model.value)}/nodes/${number}`);
  } catch (error) {
    tell(error.message);
    return;
  }
  shownNode = number;
  markNode();
  const title = node.left === null ? `Leaf ${node.node}` : `Node ${node.node}`;
  const about = `${title} at depth ${node.depth}: ${node.n_labels.toLocaleString("en")} labels in ${node.leaves.toLocaleString("en")} ${node.leaves === 1 ? "leaf" : "leaves"}`;
  const parts = [
    element("h3", { id: "node-title" }, about),
    table("Most frequent labels below it, by share", node.labels.map((label) => [label.name, percent(label.share)])),
  ];
  if (node.features.length) {
    parts.push(table("What decides: features to the left and to the right", node.features.map((each) =>
      [each.name ?? `feature ${each.feature}`, `${each.weight > 0 ? "right" : "left"} ${Math.abs(each.weight).toFixed(3)}`])));
  }
  byId("node").replaceChildren(...parts);
  byId("node").hidden = false;
}

// A link cannot carry a token: it gets a ticket then. The window that opens has a copy of the token, as of all that
// this session has stored.
byId("explorer").addEventListener("click", async (event) => {
  if (!sessionStorage.getItem("token")) return;
  event.preventDefault();
  const address = event.currentTarget.href;
  try {
    const { ticket } = await ask(`${address}/ticket`, { method: "POST" });
    window.open(`${address}?ticket=${encodeURIComponent(ticket)}`);
  } catch (error) {
    tell(error.message);
  }
});
field.text.addEventListener("input", later);
field.k.addEventListener("input", later);
field.model.addEventListener("change", () => {
  shownNode = null;
  byId("node").hidden = true;
  showModel();
});
field.token.addEventListener("change", () => {
  sessionStorage.setItem("token", field.token.value);
  loadModels();
});
loadModels();
