// Tabs, themes, and the beginning.

const TABS = ["tree", "example", "model", "about"];

function openTab(name) {
  for (const tab of TABS) {
    const chosen = tab === name;
    at(`view-${tab}`).hidden = !chosen;
    at(`tab-${tab}`).setAttribute("aria-selected", String(chosen));
    at(`tab-${tab}`).tabIndex = chosen ? 0 : -1;
  }
  if (name === "tree") draw();
  if (name === "model") drawCharts(); // plotly measures the room it has, so that it must be seen
}

function tabKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const now = TABS.findIndex((tab) => at(`tab-${tab}`) === event.target);
  const next = TABS[(now + step + TABS.length) % TABS.length];
  openTab(next);
  at(`tab-${next}`).focus();
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  at("theme").textContent = dark ? "Light" : "Dark";
  at("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
  if (!D) return;
  if (!at("view-tree").hidden) draw();
  if (!at("view-model").hidden) drawCharts();
}

function about() {
  const { totals, labels, nodes } = D;
  const line = (name, text) => [make("dt", {}, name), make("dd", {}, text)];
  const left = [];
  if (nodes.id.length < totals.nodes) left.push(`It shows ${whole.format(nodes.id.length)} of ${whole.format(totals.nodes)} nodes: what is below the lightest is folded into them.`);
  if (labels.names.length < labels.total) left.push(`${whole.format(labels.names.length)} of ${whole.format(labels.total)} labels can be searched for, the most frequent ones.`);
  if (!D.places.all) left.push("A label lights up the nodes that hold most of it; there may be others that hold little.");
  const [low, high] = labels.groups;
  at("about").replaceChildren(
    make("h2", {}, "What is what"),
    make("p", {}, "The model narrows all labels down to a few candidates by sending an example from the root of each tree to a leaf, and then scores the candidates. This page shows which labels live together in the nodes."),
    make("dl", { class: "facts" }, ...[
      line("Mass", "the labels of the training examples that came to a node. Sizes in the picture are masses."),
      line("Names of nodes", "the labels that a node has more of than its parent."),
      line("Lift", "the share of a label in a node over its share in the parent. Labels are in the order of share times log lift, so that one that occurs once does not lead."),
      ...Object.entries(MEASURES).map(([name, text]) => line(name[0].toUpperCase() + name.slice(1), `${text}.`)),
      line("Rare, frequent", `at most ${whole.format(low)} training examples; more than ${whole.format(high)}.`),
      line("Margin", "how far an example lies from the boundary of a node: to the right if above 0, and the farther the surer."),
      line("p(turn), p(here)", "how probable it is that the example goes this way at the node, and that it comes to the node at all."),
      line("H, F, centroid, frequency", "the parts of a score, which add up to it: the classifier of the label, the forest, the likeness to the label's examples, and how frequent the label is."),
    ].flat()),
    make("p", {}, totals.rows
      ? `Purity, balance and recall were measured on ${whole.format(totals.rows)} examples, each with the probabilities of its routes.`
      : "Purity, balance and recall are what the leaves remember of training, where they are better than on new examples; --data measures them on examples."),
    ...left.map((text) => make("p", {}, text)),
    make("h2", {}, "Keys"),
    make("p", {}, "In the list of nodes: up and down move, right and left open and close, Home and End go to the ends, Enter shows a node, Shift+Enter zooms. In the search: up and down choose, Enter lights up, Escape closes. The parts of the page: right and left."),
  );
}

function setUpTools() {
  const roots = nodesOfRoots();
  at("which").append(...roots.map((node) => make("option", { value: String(node) }, `${treeOf[node] + 1} of ${roots.length}`)));
  at("which").onchange = (event) => { state.focus = Number(event.target.value); select(state.focus); };
  at("shape").onchange = (event) => { state.shape = event.target.value; draw(); };
  at("colour").append(...Object.keys(MEASURES).map((name) => make("option", { value: name }, name)));
  at("colour").onchange = (event) => { state.measure = event.target.value; draw(); };
  at("search").oninput = (event) => showFound(matches(event.target.value));
  at("search").onkeydown = searchKey;
  at("search").onblur = () => setTimeout(() => { at("found").hidden = true; at("search").setAttribute("aria-expanded", "false"); }, 200);
  at("found").onmousedown = (event) => {
    const row = event.target.closest("li[data-label]");
    event.preventDefault();
    if (row) light(Number(row.dataset.label));
  };
  at("clear").onclick = clearLight;
  at("outline").onkeydown = outlineKey;
  at("outline").onclick = outlineClick;
  at("tabs").onkeydown = tabKey;
  for (const tab of TABS) at(`tab-${tab}`).onclick = () => openTab(tab);
}

const nodesOfRoots = () => D.nodes.parent.flatMap((parent, node) => (parent < 0 ? [node] : []));

async function begin() {
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(prefersDark.matches);
  prefersDark.onchange = (event) => setTheme(event.matches);
  at("theme").onclick = () => setTheme(!isDark());
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack the page; one of 2023 or later can");
  D = JSON.parse(await unpacked("data"));
  document.head.append(make("script", { textContent: await unpacked("plotly") }));
  link();
  const { totals, labels } = D;
  const several = totals.trees > 1 ? `${totals.trees} trees, ` : "";
  at("facts").textContent = `${several}${whole.format(totals.leaves)} leaves, ${whole.format(labels.total)} labels${totals.rows ? `; measured on ${whole.format(totals.rows)} examples` : ""}`;
  setUpTools();
  setUpExamples();
  about();
  drawOutline();
  at("loading").remove();
  openTab("tree");
  select(0);
  document.documentElement.dataset.ready = "yes";
}

begin().catch((error) => {
  at("loading").textContent = `The page cannot be shown: ${error.message}.`;
  at("loading").className = "error";
  throw error;
});
