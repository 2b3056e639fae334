// Pages about many random splits: an audit, or a comparison of candidates.
function span(values, ...more) {
  // a range with a little room
  const all = [...values.filter(Number.isFinite), ...more],
    low = Math.min(...all),
    high = Math.max(...all),
    room = 0.04 * (high - low || 1);
  return [low - room, high + room];
}
function rowsFrame(id, names, low, high, title, mark, asText = share) {
  // one line per name, x from low to high
  const width = widthOf(id),
    height = 34 + 34 * names.length,
    longest = Math.max(4, ...names.map((name) => name.length));
  const left = Math.min(width * 0.36, 16 + 7 * longest),
    area = { left, right: width - 22, top: 6, bottom: height - 26 },
    picture = frame(width, height, title);
  const toX = (v) => area.left + ((v - low) / (high - low)) * (area.right - area.left),
    toY = (i) => area.top + 18 + 34 * i;
  for (const tick of ticks(low, high, width < 500 ? 4 : 7))
    picture.append(
      svg("line", { class: "axis", x1: toX(tick), x2: toX(tick), y1: area.top, y2: area.bottom }),
      words(toX(tick), area.bottom + 16, asText(tick), { "text-anchor": "middle" }),
    );
  if (mark !== undefined) picture.append(svg("line", { class: "target", x1: toX(mark), x2: toX(mark), y1: area.top, y2: area.bottom }));
  names.forEach((name, i) =>
    picture.append(words(area.left - 10, toY(i) + 4, shorten(name, Math.floor((left - 14) / 6.6)), { "text-anchor": "end" })),
  );
  return { picture, toX, toY };
}
const textOf = (metric) => (data.shares.includes(metric) ? share : number);
function drawMetric(metric) {
  const names = data.candidates,
    mark = data.marked.includes(metric) ? 1 - data.alpha : undefined;
  const [low, high] = span(
    names.flatMap((name) => data.values[metric][name]),
    ...(mark === undefined ? [] : [mark]),
  );
  const { picture, toX, toY } = rowsFrame("metric-" + metric, names, low, high, data.metrics[metric], mark, textOf(metric));
  names.forEach((name, i) => {
    const row = data.summary.find((r) => r.candidate === name && r.part === "all" && r.metric === metric);
    data.values[metric][name].forEach((v, j) => {
      if (Number.isFinite(v))
        picture.append(svg("circle", { class: "bar", opacity: 0.35, cx: toX(v), cy: toY(i) + 9 * Math.sin(12.9898 * j), r: 3 }));
    });
    if (row.mean === null) return;
    picture.append(
      svg("line", { class: "whisker", x1: toX(row.q05), x2: toX(row.q95), y1: toY(i), y2: toY(i) }),
      svg("circle", { class: "dot", cx: toX(row.mean), cy: toY(i), r: 6 }),
      svg("title", {}, `${name}: mean ${textOf(metric)(row.mean)}`),
    );
  });
  return picture;
}
const MOST_DRAWN = 40;
function rowsOfPart(part) {
  // the lowest coverages of each candidate, and how many are left out
  const all = data.summary.filter((r) => r.part === part && r.metric === "coverage" && r.mean !== null).sort((a, b) => a.mean - b.mean);
  const most = Math.max(1, Math.floor(MOST_DRAWN / data.candidates.length)),
    seen = {};
  const shown = all.filter((r) => (seen[r.candidate] = (seen[r.candidate] || 0) + 1) <= most);
  return {
    shown,
    note:
      shown.length < all.length ? `The lowest ${most} of each candidate; ${all.length - shown.length} more are in the table below.` : "",
  };
}
function drawPart(part) {
  const rows = rowsOfPart(part).shown;
  const names = rows.map((r) => (data.candidates.length > 1 ? `${r.name} · ${r.candidate}` : r.name)),
    [low, high] = span(
      rows.flatMap((r) => [r.q05, r.q95]),
      1 - data.alpha,
    );
  const { picture, toX, toY } = rowsFrame("part-" + part, names, low, high, "Coverage by " + part, 1 - data.alpha);
  rows.forEach((r, i) =>
    picture.append(
      svg("line", { class: "whisker", x1: toX(r.q05), x2: toX(r.q95), y1: toY(i), y2: toY(i) }),
      svg("circle", { class: "dot", cx: toX(r.mean), cy: toY(i), r: 6 }),
    ),
  );
  return picture;
}
function drawDifference(metric) {
  const rows = data.differences.filter((r) => r.metric === metric && r.difference !== null),
    [low, high] = span(
      rows.flatMap((r) => [r.low, r.high]),
      0,
    );
  const { picture, toX, toY } = rowsFrame(
    "difference-" + metric,
    rows.map((r) => r.candidate),
    low,
    high,
    `Difference in ${data.metrics[metric]}`,
    0,
    textOf(metric),
  );
  rows.forEach((r, i) =>
    picture.append(
      svg("line", { class: "whisker", x1: toX(r.low), x2: toX(r.high), y1: toY(i), y2: toY(i) }),
      svg("circle", { class: "dot", cx: toX(r.difference), cy: toY(i), r: 6 }),
    ),
  );
  return picture;
}
function drawDrift() {
  const width = widthOf("drift"),
    area = { left: 52, right: width - 12, top: 12, bottom: 168 },
    picture = frame(width, 200, "Coverage along the order of the rows"),
    values = data.drift;
  const [low, high] = span(values, 1 - data.alpha),
    toX = (i) => area.left + ((i + 0.5) / values.length) * (area.right - area.left),
    toY = (v) => area.bottom - ((v - low) / (high - low)) * (area.bottom - area.top);
  leftAxis(picture, area, low, high, toY);
  picture.append(svg("line", { class: "target", x1: area.left, x2: area.right, y1: toY(1 - data.alpha), y2: toY(1 - data.alpha) }));
  const known = values.map((v, i) => [toX(i), toY(v)]).filter((_, i) => values[i] !== null);
  picture.append(
    svg("polyline", { class: "curve", points: known.map((point) => point.join(",")).join(" ") }),
    ...known.map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: 5 })),
  );
  picture.append(words(area.left, 192, "first rows"), words(area.right, 192, "last rows", { "text-anchor": "end" }));
  return picture;
}
function plainTable(id, name, heads, rows) {
  const shownAs = (text) => (typeof text === "number" ? number(text) : text === null ? "–" : text);
  const line = (cells, tag) =>
    element("tr", {}, ...cells.map((text) => element(tag, { textContent: shownAs(text), ...(tag === "th" ? { scope: "col" } : {}) })));
  const shown = element("table", {}, element("thead", {}, line(heads, "th")), element("tbody", {}, ...rows.map((row) => line(row, "td"))));
  place(id).replaceChildren(
    element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: name }, shown),
    element("div", { className: "tools" }, ...csvButtons(name, name, () => [heads, ...rows])),
  );
}
function draw() {
  for (const metric of Object.keys(data.metrics))
    show("metric-" + metric, drawMetric(metric), () => [
      data.candidates,
      ...data.values[metric][data.candidates[0]].map((_, i) => data.candidates.map((name) => data.values[metric][name][i])),
    ]);
  for (const part of data.parts) show("part-" + part, drawPart(part), null, rowsOfPart(part).note);
  if (data.drift) show("drift", drawDrift(), () => [["piece", "coverage"], ...data.drift.map((v, i) => [i + 1, v])]);
  if (data.differences) {
    for (const metric of ["size", "worst_slice"]) if (data.metrics[metric]) show("difference-" + metric, drawDifference(metric));
    const heads = ["candidate", "against", "metric", "difference", "low", "high", "low_on_other_data", "high_on_other_data"];
    plainTable(
      "differences",
      "differences",
      heads,
      data.differences.map((r) => heads.map((name) => r[name])),
    );
  }
  const heads = ["candidate", "part", "name", "metric", "mean", "low", "high", "q05", "median", "q95"];
  plainTable(
    "table",
    "splits",
    heads,
    data.summary.map((r) => heads.map((name) => r[name])),
  );
}
listenToTheme(draw);
draw();
document.documentElement.dataset.ready = "true";
