// Find a label, and light up the nodes that hold it.

const MOST_FOUND = 50;
let firstPlace = null; // of each label in the list of places
let lowered = null;

function matches(query) {
  const wanted = query.trim().toLowerCase();
  if (!wanted) return [];
  lowered ??= D.labels.names.map((name) => name.toLowerCase());
  const begins = [];
  const holds = [];
  for (let label = 0; label < lowered.length && begins.length < MOST_FOUND; label += 1) {
    const place = lowered[label].indexOf(wanted);
    if (place === 0) begins.push(label);
    else if (place > 0 && holds.length < MOST_FOUND) holds.push(label);
  }
  const exact = begins.filter((label) => lowered[label] === wanted);
  return [...exact, ...begins.filter((label) => lowered[label] !== wanted), ...holds].slice(0, MOST_FOUND);
}

function showFound(list) {
  const box = at("found");
  const input = at("search");
  const rows = list.map((label, place) => {
    const row = make("li", { role: "option", id: `found-${place}`, "aria-selected": "false" },
      make("span", {}, labelName(label)), make("span", {}, count(D.labels.counts[label])));
    row.dataset.label = String(label);
    return row;
  });
  if (!rows.length && input.value.trim()) rows.push(make("li", { class: "none", role: "option", "aria-disabled": "true" }, "no such label"));
  box.replaceChildren(...rows);
  box.hidden = !rows.length;
  input.setAttribute("aria-expanded", String(rows.length > 0));
  input.removeAttribute("aria-activedescendant");
  if (input.value.trim()) tell(`${list.length === MOST_FOUND ? "50 or more" : list.length} labels found`);
}

function searchKey(event) {
  const options = [...at("found").querySelectorAll("li[data-label]")];
  const active = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") { showFound([]); at("found").hidden = true; return; }
  if (event.key === "Enter") {
    event.preventDefault();
    const chosen = options[Math.max(0, active)];
    if (chosen) light(Number(chosen.dataset.label));
    return;
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !options.length) return;
  event.preventDefault();
  const next = (active + step + options.length) % options.length;
  options.forEach((option, place) => option.setAttribute("aria-selected", String(place === next)));
  options[next].scrollIntoView({ block: "nearest" });
  at("search").setAttribute("aria-activedescendant", options[next].id);
}

function placesOf(label) {
  if (!firstPlace) {
    firstPlace = [0];
    for (const n of D.places.count) firstPlace.push(firstPlace[firstPlace.length - 1] + n);
  }
  const places = [];
  for (let place = firstPlace[label]; place < firstPlace[label + 1]; place += 1) places.push([D.places.node[place], D.places.percent[place]]);
  return places;
}

// The share of a label's examples in every node that is known to hold it, in percent of its tree.
function sharesOf(label) {
  const found = new Map();
  for (const [node, value] of placesOf(label)) for (const above of pathOf(node)) found.set(above, (found.get(above) ?? 0) + value);
  D.nodes.top.forEach((labels, node) => { // head labels are in more nodes than there are places
    if (labels.includes(label)) for (const above of pathOf(node)) if (!found.has(above)) found.set(above, null);
  });
  for (const [node, value] of found) if (value !== null) found.set(node, Math.min(100, value));
  D.nodes.parent.forEach((parent, node) => { if (parent < 0 && found.has(node)) found.set(node, 100); });
  return found;
}

function light(label) {
  showFound([]);
  at("found").hidden = true;
  at("search").value = labelName(label);
  at("clear").hidden = false;
  state.focus = treeOf[state.focus]; // what is lit may be anywhere
  lightUp({ share: sharesOf(label), say: (part) => `${D.places.all || part === "100%" ? "" : "at least "}${part} of it` });
  const places = placesOf(label).sort((a, b) => b[1] - a[1]).slice(0, 5);
  at("lit").replaceChildren(
    make("p", {}, make("b", {}, labelName(label)), `: ${count(D.labels.counts[label])} training examples; ${whole.format(state.lit.share.size)} of the nodes shown here ${D.places.all ? "hold it" : "are known to hold it, and others may hold a little"}.`),
    places.length ? make("p", {}, "Where most of it is, in percent of its examples in that tree:") : make("p", {}, "No leaf has it as a candidate."),
    make("ul", {}, ...places.map(([node, value]) => make("li", {},
      make("button", { type: "button", class: "link", onclick: () => select(node) }, titleOf(node, 3)),
      ` (tree ${treeOf[node] + 1}, depth ${depthOf[node]}): ${percent(value, 100)}`))),
  );
  tell(`${labelName(label)}: held by ${state.lit.share.size} nodes`);
  openTab("tree");
}

function lightUp(lit) {
  state.lit = lit;
  at("lit").hidden = false;
  draw();
}

function clearLight() {
  state.lit = null;
  at("lit").hidden = true;
  at("clear").hidden = true;
  at("search").value = "";
  draw();
  at("search").focus();
}
