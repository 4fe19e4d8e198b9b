// The whole model: by depth, by leaf, by label. Every chart has its numbers beside it.

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x"];
const LINES = { light: ["#0b57a4", "#b3261e", "#1b6e3c", "#6a3fa0", "#7a5900"], dark: ["#8ab8f0", "#ffb4ab", "#8fd6a5", "#cdb4f0", "#e6c46a"] };
const lineColour = (place) => LINES[isDark() ? "dark" : "light"][place % 5];
const known = (thousandths) => (thousandths === null ? null : thousandths / 1000);
const treeTitle = (tree) => (D.model.levels.length > 1 ? `tree ${tree + 1}` : "the tree");

function byDepth(name) {
  return D.model.levels.map((level, tree) => ({
    type: "scatter", mode: "lines+markers", name: treeTitle(tree),
    x: level[name].map((_, depth) => depth), y: level[name].map(known),
    line: { dash: DASHES[tree % 5], color: lineColour(tree) }, marker: { symbol: SYMBOLS[tree % 5], size: 7 },
  }));
}

function depthTable(names) {
  const longest = Math.max(...D.model.levels.map((level) => level.nodes.length));
  const heads = ["depth", ...D.model.levels.flatMap((_, tree) => names.map((name) => `${treeTitle(tree)}: ${name}`))];
  const rows = Array.from({ length: longest }, (_, depth) => [String(depth), ...D.model.levels.flatMap((level) => names.map((name) => {
    const value = level[name][depth];
    return value === undefined || value === null ? "" : name === "nodes" ? whole.format(value) : share(value);
  }))]);
  return table("", heads, rows);
}

function charts() {
  const { candidates, coverage } = D.model;
  const source = D.totals.rows ? `on ${whole.format(D.totals.rows)} examples` : "on what the leaves remember of training";
  const bars = (name, x, y, place) => ({ type: "bar", name, x, y, marker: { color: lineColour(place), pattern: { shape: ["", "/", ".", "x", "-"][place % 5] } } });
  return [
    {
      title: "Recall by depth",
      text: `The share of labels that would be candidates if the tree ended at a depth and each inner node had ${whole.format(D.totals.budget)} candidates, as leaves have on average; ${source}.`,
      traces: byDepth("recall"), x: "depth", y: "recall", numbers: () => depthTable(["recall", "nodes"]),
    },
    {
      title: "Purity and balance by depth",
      text: `Means over the splits of a depth, weighted by mass, ${source}. Purity is best at 1, balance at 0.5.`,
      traces: [...byDepth("purity").map((one) => ({ ...one, name: `purity, ${one.name}` })),
        ...byDepth("balance").map((one) => ({ ...one, name: `balance, ${one.name}`, line: { ...one.line, width: 1 }, marker: { ...one.marker, symbol: `${one.marker.symbol}-open` } }))],
      x: "depth", y: "", numbers: () => depthTable(["purity", "balance"]),
    },
    {
      title: "Candidates per leaf",
      text: `How many leaves have how many candidates. ${whole.format(D.totals.leaves)} leaves altogether.`,
      traces: candidates.counts.map((counts, tree) => bars(treeTitle(tree), candidates.titles, counts, tree)),
      x: "candidates", y: "leaves",
      numbers: () => table("", ["candidates", ...candidates.counts.map((_, tree) => treeTitle(tree))],
        candidates.titles.map((title, place) => [title, ...candidates.counts.map((counts) => whole.format(counts[place]))])),
    },
    {
      title: "Label coverage",
      text: "How many labels are candidates in how many leaves, of all trees together. " + coverage.groups.map(([group, examples, n, covered]) => (
        `${group} (${examples} training examples): ${whole.format(covered)} of ${whole.format(n)} labels are in some leaf`)).join("; ") + ".",
      traces: coverage.groups.map(([group, , , , counts], place) => bars(group, coverage.titles, counts, place)),
      x: "leaves that hold the label", y: "labels", log: true,
      numbers: () => table("", ["leaves", ...coverage.groups.map(([group]) => group)],
        coverage.titles.map((title, place) => [title, ...coverage.groups.map((group) => whole.format(group[4][place]))])),
    },
  ];
}

function drawCharts() {
  const axis = (title, more = {}) => ({ title: { text: title }, gridcolor: theme("faint"), linecolor: theme("line"), zerolinecolor: theme("faint"), automargin: true, ...more });
  const found = charts();
  const sections = found.map((chart) => make("section", {}, make("h2", {}, chart.title), make("p", { class: "hint" }, chart.text),
    make("div", { class: "chart", role: "img", "aria-label": `${chart.title}, as a chart; the numbers follow` }),
    make("details", {}, make("summary", {}, "Numbers"), make("div", { class: "scroll" }, chart.numbers()))));
  const overall = D.totals.filter_recall === null ? null : make("p", {}, make("b", {}, `Recall of F: ${share(Math.round(1000 * D.totals.filter_recall))}. `),
    "The share of an example's labels among its candidates, of all trees and leaves together.");
  at("charts").replaceChildren(...[overall, make("div", { class: "charts" }, ...sections)].filter(Boolean));
  found.forEach((chart, place) => Plotly.newPlot(sections[place].querySelector(".chart"), chart.traces, {
    margin: { t: 10, r: 10, l: 60, b: 50 }, barmode: "group", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: theme("ink") }, legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
    xaxis: axis(chart.x, typeof chart.traces[0].x[0] === "string" ? { type: "category" } : {}), yaxis: axis(chart.y, chart.log ? { type: "log", dtick: 1 } : {}),
  }, { responsive: true, displayModeBar: false }));
}
