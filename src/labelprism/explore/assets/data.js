// The data of the page, and small things that all other parts use.

const MEASURES = {
  purity: "how far the split keeps the examples of each label together; 1 is ideal, 0.5 the worst",
  balance: "the share of the larger side of the split; 0.5 is ideal, 1 the worst",
  recall: "the share of labels that are candidates of the leaf that their example comes to",
  "tail share": "the share of rare labels among the labels held",
};
const state = { focus: 0, selected: 0, shape: "icicle", measure: "purity", lit: null };
let D = null; // what the page holds
let kids = []; // of each node the two children that are shown, or null
let depthOf = [];
let treeOf = [];

async function unpacked(id) {
  const element = document.getElementById(id);
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  element.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function link() {
  const { parent } = D.nodes;
  kids = parent.map(() => null);
  parent.forEach((above, node) => {
    depthOf[node] = above < 0 ? 0 : depthOf[above] + 1;
    treeOf[node] = above < 0 ? node : treeOf[above];
    if (above >= 0) (kids[above] ??= []).push(node);
  });
}

const at = (id) => document.getElementById(id);

// An element with properties, attributes (aria-..., role) and children; text is always text, never markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class" || name.includes("-") || name === "role" || name === "scope" || name === "colspan") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (value) => (value >= 100 ? whole.format(value) : String(Math.round(value * 10) / 10));
const share = (thousandths) => (thousandths === null ? "none" : (thousandths / 1000).toFixed(3));
const percent = (part, all) => {
  const value = all > 0 ? (100 * part) / all : 0;
  return value >= 10 ? `${value.toFixed(0)}%` : value >= 0.1 ? `${value.toFixed(1)}%` : value > 0 ? "under 0.1%" : "0%";
};
const digits = (value, n = 3) => (value === null || value === undefined ? "none" : (value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(n));
const labelName = (label) => D.labels.names[label];

function pathOf(node) {
  const path = [];
  for (let at = node; at >= 0; at = D.nodes.parent[at]) path.unshift(at);
  return path;
}

function turns(node) {
  return pathOf(node).slice(1).map((below) => (kids[D.nodes.parent[below]][0] === below ? "L" : "R")).join("");
}

// What a node is called: what it has more of than its parent.
function titleOf(node, n = 2) {
  if (D.nodes.parent[node] < 0) return D.totals.trees > 1 ? `tree ${treeOf[node] + 1}` : "root";
  const labels = D.nodes.grown[node].length ? D.nodes.grown[node] : D.nodes.top[node];
  return labels.length ? labels.slice(0, n).map(labelName).join(" \u00b7 ") : `node ${D.nodes.id[node]}`;
}

const nodeOfId = (id) => {
  const place = D.places.byId ??= new Map(D.nodes.id.map((own, index) => [own, index]));
  return place.get(id);
};

const tell = (text) => { at("status").textContent = text; };
// Plotly reads a little markup in texts; names of labels are not meant as such.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const shortened = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}\u2026` : text);

function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((cell, column) => make("th", { scope: "col", class: column ? "number" : "" }, cell)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, column) => (
    column ? make("td", { class: "number" }, cell) : make("th", { scope: "row" }, cell)))));
  return make("table", {}, caption ? make("caption", {}, caption) : null, make("thead", {}, head), make("tbody", {}, ...body));
}

function bar(value, largest) {
  const element = make("span", { class: value < 0 ? "bar minus" : "bar", "aria-hidden": "true" });
  element.style.width = `${Math.max(2, (100 * Math.abs(value)) / (largest || 1))}%`;
  return element;
}
