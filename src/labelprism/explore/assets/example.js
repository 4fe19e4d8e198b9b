// An example: its way through each tree, its candidates, and what made the scores.

const PARTS = { head: "H (classifier)", forest: "F (forest)", centroid: "centroid", frequency: "frequency" };

function exampleLabels(example) {
  const true_ = new Set(example.true.map(([name]) => name));
  const named = [...new Set(example.labels.flatMap((label) => Object.keys(label.parts)))];
  const largest = Math.max(...example.labels.flatMap((label) => Object.values(label.parts).map(Math.abs)), 1e-9);
  const rows = example.labels.map((label, place) => [
    make("span", {}, `${place + 1}. `, make("span", { class: true_.has(label.name) ? "true" : "" }, label.name)),
    ...named.map((part) => make("span", {}, digits(label.parts[part]), bar(label.parts[part] ?? 0, largest))),
    digits(label.score),
    label.filter === null ? "none" : percent(label.filter, 1),
  ]);
  const heads = ["label", ...named.map((part) => PARTS[part] ?? part), "score", "F's probability"];
  const found = table("The best labels: what each part adds to the score", heads, rows);
  found.className = "parts";
  return make("div", { class: "scroll" }, found);
}

function exampleFeatures(example) {
  const told = example.labels.filter((label) => label.features.length);
  if (!told.length) return null;
  return make("details", {}, make("summary", {}, "Which features spoke for them in H"), make("div", { class: "several" }, ...told.map((label) => table(
    label.name, ["feature", "adds to H"], label.features.map(([name, value]) => [name, digits(value)])))));
}

function exampleWay(path, tree) {
  const rows = path.map(([id, margin, probability], place) => {
    const node = nodeOfId(id);
    const title = node === undefined ? `node ${id}` : titleOf(node);
    const name = node === undefined ? title : make("button", { type: "button", class: "link", onclick: () => { openTab("tree"); zoom(node); } }, title);
    const next = path[place + 1];
    const turn = next && probability > 0 ? next[2] / probability : null;
    return [
      make("span", {}, `${place}. `, name),
      next ? digits(margin) : "",
      next ? (margin > 0 ? "right \u2192" : "\u2190 left") : "leaf",
      turn === null ? "" : percent(turn, 1),
      percent(probability, 1),
    ];
  });
  return table(`Its way through tree ${tree + 1}`, ["node", "margin", "turn", "p(turn)", "p(here)"], rows);
}

function exampleCandidates(example) {
  const true_ = new Set(example.true.map(([name]) => name));
  const shown = example.candidates.map(([name, probability]) => make("li", {},
    make("span", { class: true_.has(name) ? "true" : "" }, name), ` ${percent(probability, 1)}`));
  const more = example.n_candidates > shown.length ? `, the ${shown.length} likeliest:` : ":";
  return [make("h3", {}, `${whole.format(example.n_candidates)} candidates${more}`), make("ol", { class: "labels" }, ...shown)];
}

function trueLabels(example) {
  if (!example.true.length) return null;
  const missed = example.true.filter(([, place]) => place === null).length;
  return make("p", {}, make("b", {}, "True labels: "), ...example.true.flatMap(([name, place], n) => [
    n ? ", " : "", `${name} (${place === null ? "no candidate" : `candidate ${place}`})`]),
  missed ? `. F has missed ${missed} of ${example.true.length}.` : ". F has found them all.");
}

function showWay(example) {
  const steps = example.paths.flat().map(([id, , probability]) => [nodeOfId(id), 100 * probability]);
  at("clear").hidden = false;
  at("search").value = "";
  at("lit").replaceChildren(make("p", {}, make("b", {}, "The way of an example: "), shortened(example.title, 160)));
  openTab("tree");
  lightUp({ share: new Map(steps.filter(([node]) => node !== undefined)), say: (part) => `p(here) ${part}` });
}

function drawExample(example) {
  at("example").replaceChildren(...[
    make("h2", {}, example.row ? `Example of row ${whole.format(example.row)}` : "Your text"),
    make("blockquote", {}, example.title),
    trueLabels(example),
    example.paths.length ? make("button", { type: "button", onclick: () => showWay(example) }, "Show its way in the tree") : null,
    exampleLabels(example),
    exampleFeatures(example),
    make("div", { class: "ways" }, ...example.paths.map((path, tree) => make("div", { class: "scroll" }, exampleWay(path, tree)))),
    ...exampleCandidates(example),
  ].filter(Boolean));
  tell(`Explained: ${example.labels.length ? `first label ${example.labels[0].name}` : "no label"}`);
}

function explainer() {
  if (typeof window.labelprismExplain === "function") return window.labelprismExplain;
  if (!D.explain_url) return null;
  return async (text) => {
    const headers = { "Content-Type": "application/json" };
    const token = sessionStorage.getItem("token"); // where the page of labelprism serve has left it
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(D.explain_url, { method: "POST", headers, body: JSON.stringify({ text }) });
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    return answer.json();
  };
}

async function explainPasted(event) {
  event.preventDefault();
  const text = at("text").value.trim();
  const explain = explainer();
  if (!text || !explain) return;
  const note = at("paste-note");
  note.textContent = "Asking the server.";
  try {
    drawExample(await explain(text));
    note.textContent = "";
  } catch (error) {
    note.textContent = `That did not work: ${error.message}.`;
  }
}

function setUpExamples() {
  const pick = at("pick");
  pick.append(...D.examples.map((example, place) => make("option", { value: String(place) }, `${example.row}: ${shortened(example.title, 100)}`)));
  pick.onchange = () => drawExample(D.examples[Number(pick.value)]);
  if (D.examples.length) drawExample(D.examples[0]);
  else at("pick-label").replaceWith(make("p", {}, "This page has no examples: it was made without data. ", make("code", {}, "labelprism explore --data FILE"), " embeds some."));
  const can = explainer() !== null;
  at("text").disabled = at("explain").disabled = !can;
  at("paste-note").textContent = can ? "" : "A page in a file cannot run the model: it can show the examples that were embedded, and new texts only where labelprism serve has made it.";
  at("paste").onsubmit = explainPasted;
}
