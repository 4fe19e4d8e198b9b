// The same tree as a list, for the keyboard and for screen readers; branches are made when they are opened.

function item(node) {
  const level = depthOf[node] + 1;
  const row = make("span", { class: "row" },
    make("span", { class: "mark", "aria-hidden": "true" }, kids[node] ? "\u25b8" : "\u00b7"),
    make("span", { class: "name" }, titleOf(node)),
    make("span", { class: "share" }, percent(D.nodes.mass[node], D.nodes.mass[treeOf[node]])));
  const element = make("li", { role: "treeitem", "aria-level": String(level), "aria-selected": "false", tabIndex: -1 }, row);
  element.dataset.node = String(node);
  if (kids[node]) element.setAttribute("aria-expanded", "false");
  return element;
}

const nodeAt = (element) => Number(element.dataset.node);
const itemOf = (node) => at("outline").querySelector(`li[data-node="${node}"]`);

function setOpen(element, open) {
  if (!element.hasAttribute("aria-expanded")) return;
  element.setAttribute("aria-expanded", String(open));
  element.querySelector(".mark").textContent = open ? "\u25be" : "\u25b8";
  const below = element.querySelector(":scope > ul");
  if (open && !below) element.append(make("ul", { role: "group" }, ...kids[nodeAt(element)].map(item)));
  else if (below) below.hidden = !open;
}

function drawOutline() {
  const roots = D.nodes.parent.flatMap((parent, node) => (parent < 0 ? [node] : []));
  at("outline").replaceChildren(...roots.map(item));
  for (const root of roots.slice(0, 1)) setOpen(itemOf(root), true);
}

// Show a node in the list, without taking the focus.
function reveal(node) {
  const outline = at("outline");
  for (const above of pathOf(node).slice(0, -1)) setOpen(itemOf(above), true);
  for (const old of outline.querySelectorAll('[aria-selected="true"]')) old.setAttribute("aria-selected", "false");
  for (const old of outline.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
  const element = itemOf(node);
  element.setAttribute("aria-selected", "true");
  element.tabIndex = 0;
  const row = element.firstChild.getBoundingClientRect();
  const box = outline.getBoundingClientRect();
  if (row.top < box.top || row.bottom > box.bottom) outline.scrollTop += row.top - box.top - box.height / 3;
}

function moveTo(element) {
  if (!element) return;
  for (const old of at("outline").querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
  element.tabIndex = 0;
  element.focus();
}

function outlineKey(event) {
  const element = event.target.closest("li");
  if (!element || event.ctrlKey || event.altKey || event.metaKey) return;
  const shown = [...at("outline").querySelectorAll("li")].filter((one) => !one.closest("ul[hidden]"));
  const place = shown.indexOf(element);
  const open = element.getAttribute("aria-expanded");
  const actions = {
    ArrowDown: () => moveTo(shown[place + 1]),
    ArrowUp: () => moveTo(shown[place - 1]),
    Home: () => moveTo(shown[0]),
    End: () => moveTo(shown[shown.length - 1]),
    ArrowRight: () => (open === "false" ? setOpen(element, true) : open && moveTo(element.querySelector("li"))),
    ArrowLeft: () => (open === "true" ? setOpen(element, false) : moveTo(element.parentElement.closest("li"))),
    Enter: () => (event.shiftKey ? zoom(nodeAt(element)) : select(nodeAt(element))),
    " ": () => select(nodeAt(element)),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function outlineClick(event) {
  const element = event.target.closest("li");
  if (!element) return;
  const open = element.getAttribute("aria-expanded");
  if (event.target.closest(".mark") || nodeAt(element) === state.selected) setOpen(element, open !== "true");
  select(nodeAt(element));
}
