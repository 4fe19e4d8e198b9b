// The chosen node: its labels, how they differ from the parent's, and what sends examples left and right.

function labelButton(label) {
  return make("button", { type: "button", class: "link", title: "Light up the nodes that hold this label", onclick: () => light(label) }, labelName(label));
}

function frequentTable(node) {
  const { nodes } = D;
  const largest = nodes.top_count[node][0];
  return table("Most frequent labels", ["label", "count", "share"], nodes.top[node].map((label, place) => {
    const number = nodes.top_count[node][place];
    return [make("span", {}, labelButton(label), bar(number, largest)), count(number), percent(number, nodes.mass[node])];
  }));
}

function grownTable(node) {
  const { nodes } = D;
  if (!nodes.grown[node].length) return null;
  return table("Over-represented against its parent", ["label", "lift"], nodes.grown[node].map((label, place) => (
    [labelButton(label), `${nodes.lift[node][place].toFixed(2)}\u00d7`])));
}

function routerLists(node) {
  const features = D.routers.features[node];
  if (!features.length) return null;
  const side = (right) => make("ul", {}, ...features.flatMap((feature, place) => {
    const weight = D.routers.weights[node][place];
    return weight > 0 === right ? [make("li", {}, `${D.routers.names[feature]} `, make("span", { class: "hint" }, digits(weight, 2)))] : [];
  }));
  return make("div", {}, make("h3", {}, "Strongest features of the router"), make("div", { class: "two" },
    make("div", {}, make("b", {}, "\u2190 to the left"), side(false)),
    make("div", {}, make("b", {}, "to the right \u2192"), side(true))));
}

function drawPanel() {
  const node = state.selected;
  const { nodes } = D;
  const facts = [
    ["Node", `${nodes.id[node]}, tree ${treeOf[node] + 1}${turns(node) ? `, way ${turns(node)}` : ""}`],
    ["Depth", String(depthOf[node])],
    ["Mass", `${count(nodes.mass[node])}, ${percent(nodes.mass[node], nodes.mass[treeOf[node]])} of the tree`],
    nodes.rows ? ["Examples", `${count(nodes.rows[node])} of ${whole.format(D.totals.rows)}`] : null,
    ["Leaves", whole.format(nodes.leaves[node]) + (hiddenBelow(node) ? ", too small to show" : "")],
    ["Labels held", whole.format(nodes.labels[node])],
    ...Object.keys(MEASURES).map((name) => [name[0].toUpperCase() + name.slice(1), share(nodes[name][node])]),
    ["Head share", share(nodes["head share"][node])],
  ].filter(Boolean);
  const go = (title, to) => make("button", { type: "button", onclick: () => select(to), disabled: to === undefined || to < 0 }, title);
  at("panel").replaceChildren(...[
    make("h2", {}, titleOf(node, 3)),
    make("div", { class: "actions" },
      make("button", { type: "button", id: "zoom", onclick: () => zoom(node), disabled: !kids[node] || state.focus === node }, "Zoom in here"),
      go("Parent", nodes.parent[node]), go("Left", kids[node]?.[0]), go("Right", kids[node]?.[1])),
    make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    grownTable(node), frequentTable(node), routerLists(node),
  ].filter(Boolean));
}
