// Sortable tables by label and by group.
const HEADS = [
  ["name", ""],
  ["rows", "rows"],
  ["coverage", "coverage"],
  ["interval", "95 % interval"],
  ["size", "mean size"],
  ["sizeInterval", "95 % interval"],
];
const states = {};
function partRows(name, now) {
  // without intervals, which are worked out for rows that are shown
  const part = now.parts[name];
  return data.names[name].map((title, i) => ({
    name: title,
    i,
    rows: part.rows[i],
    covered: part.covered[i],
    coverage: part.covered[i] / part.rows[i],
    size: part.sum[i] / part.rows[i],
    sum: part.sum[i],
    squares: part.squares[i],
  }));
}
const lookedAt = () => Object.values(data.names).reduce((sum, names) => sum + names.length, 0);
function chanceOf(name, row, now) {
  // of so few covered rows: by the law, if the part is scored like the rows that calibrated, else at the promise
  if (data.laws_of_parts) return coverageLaw(row.covered, data.laws_of_parts[name][row.i], now.alpha).tooLow;
  return row.covered < row.rows ? incompleteBeta(row.rows - row.covered, row.covered + 1, 1 - promiseAt(now.alpha)) : 1;
}
const isTooLow = (name, row, now) => chanceOf(name, row, now) < data.level / lookedAt(); // for all tables together
function partsTooLow(now) {
  // rarest first
  const found = [];
  for (const name of Object.keys(data.names))
    for (const row of partRows(name, now)) {
      const chance = chanceOf(name, row, now);
      if (chance < data.level / lookedAt()) found.push({ part: name, ...row, chance });
    }
  return found.sort((a, b) => a.chance - b.chance);
}
function withIntervals(row) {
  [row.low, row.high] = shareInterval(row.covered, row.rows, data.confidence);
  [row.sizeLow, row.sizeHigh] = sizeInterval(row.sum, row.squares, row.rows, 0, data.classes.length, data.confidence);
  return row;
}
function drawTable(name, now) {
  const state = (states[name] = states[name] || { by: "coverage", up: true, all: false }),
    rows = partRows(name, now);
  const key = (row) => row[state.by],
    sign = state.up ? 1 : -1;
  rows.sort((a, b) => sign * (state.by === "name" ? key(a).localeCompare(key(b), "en", { numeric: true }) : key(a) - key(b)) || a.i - b.i);
  const shown = (state.all ? rows : rows.slice(0, 25)).map(withIntervals);
  const head = element(
    "tr",
    {},
    ...HEADS.map(([by, text]) => headCell(name, by, text || (name === "label" ? "true label" : "group"), state, now)),
  );
  const body = shown.map((row) => {
    const line = element("tr", { className: isTooLow(name, row, now) ? "off" : "" });
    const cells = [
      row.name,
      whole(row.rows),
      shareOf(row.coverage, row.rows),
      `${shareOf(row.low, row.rows)} – ${shareOf(row.high, row.rows)}`,
      number(row.size),
      `${number(row.sizeLow)} – ${number(row.sizeHigh)}`,
    ];
    line.append(...cells.map((text) => element("td", { textContent: text })));
    Object.assign(line.dataset, {
      name: row.name,
      coverage: row.coverage,
      size: row.size,
      low: row.low,
      high: row.high,
      sizeLow: row.sizeLow,
      sizeHigh: row.sizeHigh,
    });
    return line;
  });
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  const numbers = () => [
    ["name", "rows", "covered", "coverage", "low", "high", "mean_size", "size_low", "size_high"],
    ...rows.map(withIntervals).map((r) => [r.name, r.rows, r.covered, r.coverage, r.low, r.high, r.size, r.sizeLow, r.sizeHigh]),
  ];
  const tools = element("div", { className: "tools" }, ...csvButtons("by-" + name, `coverage and size by ${name}`, numbers));
  const more =
    rows.length > 25
      ? [
          element(
            "div",
            { className: "more" },
            toolButton(state.all ? "Show fewer" : `Show all ${whole(rows.length)}`, "all", () => {
              state.all = !state.all;
              drawTable(name, now);
            }),
          ),
        ]
      : [];
  const home = place(name + "-table"),
    focused = document.activeElement && home.contains(document.activeElement) ? document.activeElement.dataset.does : null;
  home.replaceChildren(
    element(
      "div",
      { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `Table by ${name === "label" ? "true label" : "group"}` },
      table,
    ),
    ...more,
    tools,
  );
  if (focused) home.querySelector(`[data-does="${focused}"]`)?.focus();
  const note = rows.length > MOST_DRAWN ? `The first ${MOST_DRAWN} of ${whole(rows.length)}, in the order of the table.` : "";
  show(name + "-figure", drawParts(name + "-figure", shown, now, "Coverage by " + name), null, note);
}
function headCell(name, by, text, state, now) {
  const cell = element("th", { scope: "col" });
  if (by === "interval" || by === "sizeInterval") {
    cell.textContent = text;
    return cell;
  }
  if (state.by === by) cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  cell.append(
    toolButton(text, "sort-" + by, () => {
      state.up = state.by === by ? !state.up : by === "name" || by === "coverage";
      state.by = by;
      drawTable(name, now);
    }),
  );
  return cell;
}
