// The picture of the tree: only what is large enough to be seen is given to plotly.

const LEVELS_SHOWN = 6;
const MOST_SECTORS = 900;
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const ranges = {};

// The nodes from `root` down that are at least some pixels high.
function visible(root) {
  const { mass } = D.nodes;
  const smallest = mass[root] / 300;
  const found = [root];
  for (let place = 0; place < found.length && found.length < MOST_SECTORS; place += 1) {
    const node = found[place];
    if (kids[node] && depthOf[node] - depthOf[root] < LEVELS_SHOWN && mass[node] > smallest) found.push(...kids[node]);
  }
  return found;
}

// The range of colours is that of all nodes, but for the outermost twentieths.
function rangeOf(measure) {
  if (!ranges[measure]) {
    const values = D.nodes[measure].filter((value) => value !== null).sort((a, b) => a - b);
    if (!values.length) return [0, 1000];
    const low = Math.floor(values[Math.floor(values.length * 0.05)] / 50) * 50;
    const high = Math.ceil(values[Math.floor((values.length - 1) * 0.95)] / 50) * 50;
    ranges[measure] = low < high ? [low, high] : [Math.max(0, high - 50), Math.max(50, high)];
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
    return `\u25cf ${known === null ? "here" : `${known}% of it`}`;
  }
  const value = D.nodes[measure][node];
  return value === null ? `leaf, ${D.nodes.labels[node]} labels` : `${measure} ${share(value)}`;
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
    labels: found.map((node) => plain(shortened(titleOf(node), 60))),
    parents: found.map((node) => (node === root ? "" : String(D.nodes.parent[node]))),
    values: found.map((node) => (opened.has(node) ? 0 : D.nodes.mass[node] || 1e-9)), // the others are sums
    text: found.map((node) => plain(sectorText(node))),
    customdata: found.map(hoverText),
    branchvalues: "remainder",
    sort: false,
    textinfo: "label+text",
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
