"use strict";
// Shows a node in the side panel. Text is only ever set as text, never as mark-up.
(() => {
  const panel = document.getElementById("panel");
  if (!panel) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = new Map(data.nodes.map((node) => [String(node.id), node]));

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const foldable = (title, text, open) => {
    const details = element("details");
    details.open = open;
    details.append(element("summary", title), element("pre", text));
    return details;
  };

  const show = (id, scroll) => {
    const node = nodes.get(id);
    if (!node) return;
    const facts = element("dl");
    for (const [name, value] of node.facts) facts.append(element("dt", name), element("dd", value));
    const title = element("h3", `Node ${node.id} `, `k-${node.kind}`);
    title.append(element("span", node.kind.replaceAll("_", " "), "badge"));
    panel.replaceChildren(title);
    if (node.reason) panel.append(element("p", node.reason, "reason"));
    panel.append(facts);
    if (node.detail) panel.append(foldable("What the judge saw", node.detail, true));
    panel.append(
      node.source === null
        ? element("p", `The source is not in this file; see it with: kernelevolve show ${data.run} --node ${node.id}`, "note")
        : foldable("Source", data.sources[node.source], false),
    );
    for (const chosen of document.querySelectorAll("a.chosen")) chosen.classList.remove("chosen");
    for (const link of document.querySelectorAll(`svg a[data-node="${node.id}"]`)) link.classList.add("chosen");
    if (scroll) panel.scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-node]");
    if (!link) return;
    event.preventDefault();
    history.replaceState(null, "", `#node-${link.dataset.node}`);
    show(link.dataset.node, true);
  });

  // The best node is drawn inside its tree's scrolling frame wherever that frame begins.
  const best = document.querySelector(".tree a.best circle");
  const asked = /^#node-(\d+)$/.exec(location.hash);
  const first = asked ? asked[1] : document.querySelector(".tree a.best")?.dataset.node;
  if (best) {
    const frame = document.querySelector(".tree");
    frame.scrollLeft = best.cx.baseVal.value - frame.clientWidth / 2;
    frame.scrollTop = best.cy.baseVal.value - frame.clientHeight / 2;
  }
  if (first) show(first, false);
})();
