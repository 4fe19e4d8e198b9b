// The picture of the tree: only what is large enough to be seen is given to plotly.

const MOST_SECTORS = 900;
const LETTER = 7.5; // pixels, about
const LINE = 17;
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const ranges = {};

// How many levels below its root the picture has: in an icicle each must be wide enough for a few words.
function levelsShown() {
  if (state.shape === "treemap") return 4;
  return Math.min(7, Math.max(3, Math.floor(at("plot").clientWidth / 115) - 1));
}

// The nodes from `root` down that are at least some pixels high.
function visible(root) {
  const levels = levelsShown();
  const { mass } = D.nodes;
  const smallest = mass[root] / 300;
  const found = [root];
  for (let place = 0; place < found.length && found.length < MOST_SECTORS; place += 1) {
    const node = found[place];
    if (kids[node] && depthOf[node] - depthOf[root] < levels && mass[node] > smallest) found.push(...kids[node]);
  }
  return found;
}

// The range of colours is that of all nodes by their mass, but for the outermost twentieths.
function rangeOf(measure) {
  if (!ranges[measure]) {
    const known = D.nodes[measure].flatMap((value, node) => (value === null ? [] : [[value, D.nodes.mass[node]]])).sort((a, b) => a[0] - b[0]);
    if (!known.length) return [0, 1000];
    const total = known.reduce((sum, [, mass]) => sum + mass, 0);
    let sum = 0;
    let low = null;
    let high = known[known.length - 1][0];
    for (const [value, mass] of known) {
      sum += mass;
      if (low === null && sum >= 0.05 * total) low = value;
      if (sum >= 0.95 * total) { high = value; break; }
    }
    const range = [Math.floor(low / 50) * 50, Math.ceil(high / 50) * 50];
    ranges[measure] = range[0] < range[1] ? range : [Math.max(0, range[1] - 50), Math.max(50, range[1])];
  }
  return ranges[measure];
}

const parts = (hex) => [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16));
const mixed = (a, b, t) => a.map((value, place) => Math.round(value + (b[place] - value) * t));
const rgb = (values) => `rgb(${values.join(",")})`;

function luminance(values) {
  const [r, g, b] = values.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const isDark = () => document.documentElement.dataset.theme === "dark";
const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function colourOf(value, [low, high]) {
  if (value === null) return isDark() ? [70, 77, 86] : [205, 210, 217];
  const t = Math.min(1, Math.max(0, (value - low) / (high - low))) * (VIRIDIS.length - 1);
  const from = Math.min(VIRIDIS.length - 2, Math.floor(t));
  return mixed(parts(VIRIDIS[from]), parts(VIRIDIS[from + 1]), t - from);
}

function sectorText(node) {
  const { lit, measure } = state;
  if (lit && lit.share.has(node)) {
    const known = lit.share.get(node);
    return `\u25cf ${known === null ? "here" : lit.say(percent(known, 100))}`;
  }
  const value = D.nodes[measure][node];
  return value === null ? `leaf, ${D.nodes.labels[node]} labels` : `${measure} ${share(value)}`;
}

// Lines of at most so many letters; what does not fit is cut.
function wrapped(text, letters, lines) {
  const found = [""];
  for (const word of text.split(/\s+/)) {
    const last = found[found.length - 1];
    if (!last) found[found.length - 1] = word;
    else if (last.length + word.length < letters) found[found.length - 1] = `${last} ${word}`;
    else found.push(word);
  }
  const shown = found.slice(0, lines).map((line) => shortened(line, letters));
  if (found.length > lines) shown[lines - 1] = shortened(`${shown[lines - 1]} \u2026`, letters);
  return shown;
}

// What stands in a sector: its name and what is measured, as far as there is room.
function inside(node, root, isOpen) {
  const title = titleOf(node, 3);
  if (state.shape === "treemap") {
    const lines = isOpen ? [shortened(title, 44)] : [...wrapped(title, 18, 4), sectorText(node)];
    return lines.map(plain).join("<br>");
  }
  const room = at("plot");
  const letters = Math.floor(room.clientWidth / (levelsShown() + 1) / LETTER) - 1;
  const lines = Math.floor((room.clientHeight * D.nodes.mass[node]) / (D.nodes.mass[root] || 1) / LINE);
  if (lines < 1) return "";
  const said = lines > 1 ? wrapped(sectorText(node), letters, 2) : [];
  const named = wrapped(title, letters, Math.min(5, Math.max(1, lines - said.length)));
  return [...named, ...said].slice(0, lines).map(plain).join("<br>");
}

function hoverText(node) {
  const { nodes } = D;
  const lines = [
    `<b>${plain(shortened(titleOf(node, 3), 90))}</b>`,
    `node ${nodes.id[node]}, depth ${depthOf[node]}, mass ${count(nodes.mass[node])}`,
    ...Object.keys(MEASURES).map((name) => `${name} ${share(nodes[name][node])}`),
    hiddenBelow(node),
  ];
  return lines.filter(Boolean).join("<br>");
}

function hiddenBelow(node) {
  return D.nodes.end[node] && D.nodes.leaves[node] > 1 ? `${whole.format(D.nodes.leaves[node])} leaves folded in` : "";
}

function sectors(root) {
  const found = visible(root);
  const opened = new Set(found.slice(1).map((node) => D.nodes.parent[node]));
  const range = rangeOf(state.measure);
  const ground = parts(isDark() ? "#14171b" : "#ffffff");
  const colours = found.map((node) => {
    const own = colourOf(D.nodes[state.measure][node], range);
    return state.lit && !state.lit.share.has(node) ? mixed(own, ground, 0.75) : own;
  });
  const bold = (node) => node === state.selected || (state.lit && state.lit.share.has(node));
  return {
    type: state.shape,
    ids: found.map(String),
    labels: found.map((node) => inside(node, root, opened.has(node))),
    parents: found.map((node) => (node === root ? "" : String(D.nodes.parent[node]))),
    values: found.map((node) => (opened.has(node) ? 0 : D.nodes.mass[node] || 1e-9)), // the others are sums
    customdata: found.map(hoverText),
    branchvalues: "remainder",
    sort: false,
    textinfo: "label",
    hovertemplate: "%{customdata}<extra></extra>",
    textfont: { color: colours.map((own) => (luminance(own) > 0.179 ? "#000000" : "#ffffff")) },
    marker: {
      colors: colours.map(rgb),
      line: {
        width: found.map((node) => (bold(node) ? 3 : 0.7)),
        color: found.map((node) => (bold(node) ? theme("ink") : theme("ground"))),
      },
      pad: { t: 22, l: 3, r: 3, b: 3 },
    },
    tiling: state.shape === "icicle" ? { orientation: "h", pad: 0 } : { packing: "squarify", pad: 1 },
    pathbar: { visible: false },
    leaf: { opacity: 1 },
    root: { color: "rgba(0,0,0,0)" },
  };
}

function draw() {
  const layout = {
    margin: { t: 0, l: 0, r: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: theme("ink") },
    uniformtext: { minsize: 10, mode: "hide" },
    hoverlabel: { bgcolor: theme("raised"), bordercolor: theme("line"), font: { color: theme("ink"), size: 13 }, align: "left" },
  };
  const plot = at("plot");
  const isNew = !plot.data;
  Plotly.react(plot, [sectors(state.focus)], layout, {
    responsive: true, displaylogo: false, modeBarButtons: [["toImage"]],
    toImageButtonOptions: { filename: "label-tree", scale: 2 },
  });
  if (isNew) {
    for (const shape of ["icicle", "treemap"]) {
      plot.on(`plotly_${shape}click`, (event) => {
        const node = Number(event.points[0].id);
        if (node === state.selected) zoom(node);
        else select(node);
        return false; // plotly need not zoom by itself
      });
    }
  }
  drawLegend();
  drawCrumbs();
}

function drawLegend() {
  const [low, high] = rangeOf(state.measure);
  const scale = make("i");
  scale.style.background = `linear-gradient(90deg, ${VIRIDIS.join(",")})`;
  const leaf = make("i", { class: "leaf" });
  leaf.style.background = rgb(colourOf(null, [0, 1]));
  const hasNone = D.nodes[state.measure].includes(null);
  at("legend").replaceChildren(
    make("div", { class: "scale" }, make("span", {}, share(low)), scale, make("span", {}, share(high)),
      hasNone ? leaf : null, hasNone ? make("span", {}, "none") : null),
    make("p", {}, make("b", {}, `${state.measure}: `), MEASURES[state.measure], ". Sizes are masses: labels of training examples. ",
      "Click a node to read about it, click it again to zoom."),
  );
}

function drawCrumbs() {
  const path = pathOf(state.focus);
  at("crumbs").replaceChildren(...path.map((node, place) => {
    const title = shortened(titleOf(node), 40);
    const last = place === path.length - 1;
    return make("li", {}, last
      ? make("span", { "aria-current": "true" }, title)
      : make("button", { type: "button", class: "link", onclick: () => zoom(node) }, title));
  }));
}

function zoom(node) {
  state.focus = kids[node] ? node : Math.max(0, D.nodes.parent[node]);
  select(node);
}

function select(node) {
  state.selected = node;
  if (treeOf[node] !== treeOf[state.focus]) state.focus = treeOf[node];
  if (!visible(state.focus).includes(node)) state.focus = Math.max(D.nodes.parent[node], treeOf[node]);
  at("which").value = String(treeOf[node]);
  draw();
  drawPanel();
  reveal(node);
  tell(`Node ${D.nodes.id[node]}: ${titleOf(node, 3)}. Mass ${count(D.nodes.mass[node])}, ${state.measure} ${share(D.nodes[state.measure][node])}.`);
}
