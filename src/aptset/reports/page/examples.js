// Rows one by one: their labels with probability and p-value, filtered and searched.
const FILTERS = [
  ["all", "All"],
  ["empty", "Empty"],
  ["one", "One label"],
  ["large", "Large"],
  ["missed", "Missed"],
];
const view = { filter: "all", text: "", most: 20 };
function outcome(example, e, now) {
  let size = data.mode === "rows" ? sizesOfRows[example.position] : columns.shown[e * data.alphas.length + now.at];
  const members = example.labels.filter((_, i) => example.p[i] > now.alpha);
  let covered = example.truth_p > now.alpha;
  if (!members.length && example.most_likely !== undefined) {
    members.push(example.most_likely);
    covered = example.most_likely === example.column;
  }
  const kinds = new Set(["all"]);
  if (size === 0) kinds.add("empty");
  if (size === 1) kinds.add("one");
  if (size > Math.max(1, 2 * now.meanSize)) kinds.add("large");
  if (!covered) kinds.add("missed");
  return { example, size, members: new Set(members), covered, kinds };
}
// The members of a set with whole nodes of the tree in the place of all labels below them.
function nodesOf(members) {
  const { parent, size, of_class, lowest, names } = data.tree,
    counts = new Map(),
    nodes = new Set();
  for (const column of members)
    for (let node = of_class[column]; node >= 0; node = parent[node]) counts.set(node, (counts.get(node) || 0) + 1);
  for (const column of members) {
    let node = of_class[column];
    while (parent[node] >= 0 && counts.get(parent[node]) === size[parent[node]]) node = parent[node];
    nodes.add(lowest[node]);
  }
  return [...nodes].sort((a, b) => a - b).map((node) => names[node]);
}
const searchable = (found) =>
  [found.example.row, found.example.id || "", found.example.truth, found.example.group || "", found.example.text, ...[...found.members].map((c) => data.classes[c]), ...(data.tree ? nodesOf(found.members) : [])]
    .join(" ")
    .toLowerCase();
function bar(kind, value, mark) {
  const track = element("div", { className: "track " + kind }),
    fill = element("i");
  fill.style.width = Math.min(100, 100 * value) + "%";
  track.append(fill);
  if (mark !== undefined) {
    const line = element("u");
    line.style.left = Math.min(100, 100 * mark) + "%";
    track.append(line);
  }
  return track;
}
function labelBox(found, i, now) {
  const { example } = found,
    column = example.labels[i],
    name = data.classes[column];
  const box = element("div", {
    className: "label" + (found.members.has(column) ? " in" : "") + (column === example.column ? " true" : ""),
    title: name,
  });
  const chance = example.probability ? `${share(example.probability[i])} · ` : "";
  box.append(element("span", { className: "name", textContent: name }));
  const said = [...(found.members.has(column) ? ["in the set"] : []), ...(column === example.column ? ["true label"] : [])];
  if (said.length) box.append(element("span", { className: "visually-hidden", textContent: ` (${said.join(", ")})` }));
  if (example.probability) box.append(bar("", example.probability[i]));
  box.append(bar("p", example.p[i], now.alpha), element("span", { className: "value", textContent: `${chance}p ${number(example.p[i])}` }));
  return box;
}
function rowBox(found, now) {
  const { example, size, covered, members } = found;
  const tags = [
    element("span", { className: covered ? "tag" : "tag missed", textContent: covered ? "covered" : "missed" }),
    ...(size ? [] : [element("span", { className: "tag empty", textContent: "empty: no label fits well enough" })]),
  ];
  const what = element(
    "div",
    { className: "what" },
    element("b", { textContent: example.id === null ? "Row " + example.row : example.id }),
    " ",
    ...tags,
    element("br"),
    `true label: ${example.truth}`,
    element("br"),
    `${whole(size)} label${size === 1 ? "" : "s"}`,
  );
  if (example.group !== null) what.append(element("br"), "group: " + example.group);
  if (example.text) what.append(element("br"), example.text);
  if (data.tree && size) {
    const unknown = size - members.size; // of many labels, a row has the most likely ones only
    const nodes = nodesOf(members).join(", ") + (unknown > 0 ? ` and ${whole(unknown)} more labels` : "");
    what.append(element("br"), element("span", { className: "nodes", textContent: "in the tree: " + nodes }));
  }
  const order = example.labels.map((_, i) => i),
    inside = order.filter((i) => members.has(example.labels[i])),
    outside = order.filter((i) => !members.has(example.labels[i]));
  const shown = [...inside.slice(0, 12), ...outside.slice(0, Math.max(0, Math.min(3, 6 - inside.length)))];
  const labels = element("div", { className: "labels" }, ...shown.map((i) => labelBox(found, i, now)));
  const hidden = size - Math.min(12, inside.length);
  if (hidden > 0) labels.append(element("div", { className: "label in", textContent: `and ${whole(hidden)} more` }));
  const row = element("div", { className: "row", tabIndex: -1 }, what, labels);
  Object.assign(row.dataset, { row: example.row, size, covered });
  return row;
}
function drawExamples(now) {
  const found = data.examples.map((example, e) => outcome(example, e, now)),
    text = view.text.trim().toLowerCase();
  const chosen = found.filter((one) => one.kinds.has(view.filter) && (!text || searchable(one).includes(text)));
  for (const button of place("filters").children) {
    const count = found.filter((one) => one.kinds.has(button.dataset.filter)).length;
    button.textContent = `${FILTERS.find(([name]) => name === button.dataset.filter)[1]} ${whole(count)}`;
    button.setAttribute("aria-pressed", String(view.filter === button.dataset.filter));
  }
  place("shown").textContent =
    chosen.length > view.most ? `${view.most} of ${whole(chosen.length)} shown` : `${whole(chosen.length)} shown`;
  const more =
    chosen.length > view.most
      ? [
          element(
            "div",
            { className: "more" },
            toolButton("Show more", "more", () => {
              view.most += 40;
              drawExamples(now);
            }),
          ),
        ]
      : [];
  const rows = chosen.slice(0, view.most).map((one) => rowBox(one, now));
  const head = ["row", "id", "true_label", "covered", "size", "labels", "labels_left_out", ...(data.tree ? ["nodes"] : [])];
  const line = (one) => {
    // labels as a JSON list: any text may stand in a label
    const labels = [...one.members].map((c) => data.classes[c]);
    return [one.example.row, one.example.id, one.example.truth, one.covered, one.size, JSON.stringify(labels), one.size - labels.length, ...(data.tree ? [JSON.stringify(nodesOf(one.members))] : [])];
  };
  const home = place("examples"),
    wasMore = document.activeElement?.dataset.does === "more",
    before = home.querySelectorAll(".row").length;
  const tools = csvButtons("rows", "rows to look at", () => [head, ...chosen.map(line)]);
  home.replaceChildren(...rows, ...more, element("div", { className: "tools" }, ...tools));
  if (wasMore) home.querySelectorAll(".row")[before]?.focus(); // on to the first row that is new
}
