// The figures of the report: coverage against the promise, sizes, coverage by difficulty or size, by label and by group.
function drawCurve(now) {
  const width = widthOf("curve"),
    area = { left: 50, right: width - 22, top: 12, bottom: 258 },
    curve = data.curve,
    picture = frame(width, 300, "Measured coverage against 1 - alpha");
  const lowest = Math.min(0.5, ...curve.coverage, ...(curve.low || [])),
    floor = Math.max(0, Math.floor(lowest * 10) / 10);
  const toX = (v) => area.left + ((v - 0.5) / 0.5) * (area.right - area.left),
    toY = (v) => area.bottom - ((v - floor) / (1 - floor)) * (area.bottom - area.top);
  const line = (values) => curve.nominal.map((v, i) => `${toX(v).toFixed(2)},${toY(values[i]).toFixed(2)}`);
  leftAxis(picture, area, floor, 1, toY);
  for (const tick of ticks(0.5, 1, 5)) picture.append(words(toX(tick), area.bottom + 18, share(tick), { "text-anchor": "middle" }));
  picture.append(words((area.left + area.right) / 2, 294, "1 − alpha", { "text-anchor": "middle" }));
  if (curve.low) picture.append(svg("polygon", { class: "band", points: [...line(curve.low), ...line(curve.high).reverse()].join(" ") }));
  picture.append(
    svg("line", { class: "target", x1: toX(0.5), y1: toY(0.5), x2: toX(1), y2: toY(1) }),
    svg("polyline", { class: "curve", points: line(curve.coverage).join(" ") }),
  );
  if (now.alpha <= 0.5) {
    const side = now.alpha < 0.2 ? "end" : "start",
      shift = side === "end" ? -10 : 10;
    picture.append(
      svg("circle", { class: "dot", cx: toX(1 - now.alpha), cy: toY(now.coverage), r: 7 }),
      words(toX(1 - now.alpha) + shift, toY(now.coverage) - 10, shareOf(now.coverage, data.rows), { class: "strong", "text-anchor": side }),
    );
  }
  return picture;
}
function bins(bySize) {
  // at most 30 bars: sizes are joined where there are more
  const largest = bySize.length ? bySize[bySize.length - 1].size : 0,
    step = Math.max(1, Math.ceil(largest / 29)),
    found = new Map();
  for (const { size, rows, covered } of bySize) {
    const first = size === 0 ? 0 : Math.floor((size - 1) / step) * step + 1,
      name = size === 0 || step === 1 ? String(size) : `${first}–${first + step - 1}`;
    const bin = found.get(name) || { name, rows: 0, covered: 0 };
    bin.rows += rows;
    bin.covered += covered;
    found.set(name, bin);
  }
  return [...found.values()];
}
function categories(picture, area, names, toX, title) {
  const every = Math.ceil(
    names.length / Math.max(4, Math.floor((area.right - area.left) / (10 + 7 * Math.max(...names.map((n) => n.length))))),
  );
  names.forEach((name, i) => {
    if (i % every === 0) picture.append(words(toX(i), area.bottom + 18, name, { "text-anchor": "middle" }));
  });
  picture.append(words((area.left + area.right) / 2, 294, title, { "text-anchor": "middle" }));
}
function drawSizes(now) {
  const room = widthOf("sizes"),
    area = { left: 50, right: room - 6, top: 20, bottom: 258 },
    picture = frame(room, 300, "Share of rows by size of the set"),
    shown = bins(now.bySize);
  const most = Math.max(...shown.map((bin) => bin.rows)) / data.rows,
    gap = (area.right - area.left) / shown.length,
    width = Math.min(56, gap * 0.78);
  const toY = (v) => area.bottom - (v / most) * (area.bottom - area.top),
    toX = (i) => area.left + gap * (i + 0.5);
  leftAxis(picture, area, 0, most, toY);
  shown.forEach((bin, i) => {
    const all = bin.rows / data.rows,
      covered = bin.covered / data.rows,
      text = `size ${bin.name}: ${whole(bin.rows)} rows (${shareOf(all, data.rows)}), ${whole(bin.rows - bin.covered)} missed`;
    picture.append(
      svg(
        "g",
        { "data-size": bin.name, "data-rows": bin.rows, "data-covered": bin.covered },
        svg("title", {}, text),
        svg("rect", { class: "bar", x: toX(i) - width / 2, y: toY(covered), width, height: area.bottom - toY(covered) }),
        svg("rect", { class: "miss", x: toX(i) - width / 2, y: toY(all), width, height: toY(covered) - toY(all) }),
      ),
    );
    if (shown.length <= 12) picture.append(words(toX(i), toY(all) - 5, shareOf(all, data.rows), { "text-anchor": "middle", class: "strong" }));
  });
  categories(
    picture,
    area,
    shown.map((bin) => bin.name),
    toX,
    "labels in the set",
  );
  return picture;
}
function drawBySize(now) {
  const room = widthOf("bysize"),
    area = { left: 50, right: room - 6, top: 20, bottom: 258 },
    what = now.byNeed ? "labels that the row needs" : "labels in the set",
    picture = frame(room, 300, "Coverage by " + what),
    shown = bins(now.byNeed || now.bySize).filter((bin) => bin.name !== "0");
  const ends = shown.map((bin) => shareInterval(bin.covered, bin.rows, data.confidence)),
    floor = Math.floor(10 * Math.min(0.8, 1 - now.alpha, ...ends.map(([low]) => low))) / 10;
  const gap = (area.right - area.left) / Math.max(1, shown.length),
    toX = (i) => area.left + gap * (i + 0.5),
    toY = (v) => area.bottom - ((v - floor) / (1 - floor)) * (area.bottom - area.top);
  leftAxis(picture, area, floor, 1, toY);
  picture.append(svg("line", { class: "target", x1: area.left, x2: area.right, y1: toY(1 - now.alpha), y2: toY(1 - now.alpha) }));
  shown.forEach((bin, i) => {
    const [low, high] = ends[i],
      covered = bin.covered / bin.rows;
    picture.append(
      svg(
        "g",
        {},
        svg("title", {}, `${bin.name} ${what}: coverage ${shareOf(covered, bin.rows)} [${shareOf(low, bin.rows)}, ${shareOf(high, bin.rows)}], ${whole(bin.rows)} rows`),
        svg("line", { class: "whisker", x1: toX(i), x2: toX(i), y1: toY(low), y2: toY(high) }),
        svg("circle", { class: "dot", cx: toX(i), cy: toY(covered), r: 6 }),
      ),
    );
  });
  categories(
    picture,
    area,
    shown.map((bin) => bin.name),
    toX,
    what,
  );
  return picture;
}
const MOST_DRAWN = 20;
function drawParts(id, rows, now, title) {
  // one line per label or group, in the order of the table
  const shown = rows.slice(0, MOST_DRAWN),
    width = widthOf(id),
    height = 46 + 24 * shown.length,
    longest = Math.max(4, ...shown.map((row) => row.name.length));
  const left = Math.min(width * 0.36, 16 + 7 * longest),
    area = { left, right: width - 22, top: 8, bottom: height - 38 },
    picture = frame(width, height, title);
  const floor = Math.min(0.9, Math.floor(Math.min(1 - now.alpha, ...shown.map((r) => r.low)) * 10) / 10),
    toX = (v) => area.left + ((v - floor) / (1 - floor)) * (area.right - area.left);
  for (const tick of ticks(floor, 1, width < 500 ? 4 : 8))
    picture.append(
      svg("line", { class: "axis", x1: toX(tick), x2: toX(tick), y1: area.top, y2: area.bottom }),
      words(toX(tick), area.bottom + 16, share(tick), { "text-anchor": "middle" }),
    );
  picture.append(
    svg("line", { class: "target", x1: toX(1 - now.alpha), x2: toX(1 - now.alpha), y1: area.top, y2: area.bottom }),
    words((area.left + area.right) / 2, height - 5, "coverage", { "text-anchor": "middle" }),
  );
  shown.forEach((row, i) => {
    const y = area.top + 14 + 24 * i;
    picture.append(
      svg(
        "g",
        {},
        svg(
          "title",
          {},
          `${row.name}: coverage ${shareOf(row.coverage, row.rows)} [${shareOf(row.low, row.rows)}, ${shareOf(row.high, row.rows)}], ${whole(row.rows)} rows`,
        ),
        words(area.left - 10, y + 4, shorten(row.name, Math.floor((left - 14) / 6.6)), { "text-anchor": "end" }),
        svg("line", { class: "whisker", x1: toX(row.low), x2: toX(row.high), y1: y, y2: y }),
        svg("circle", { class: "dot", cx: toX(row.coverage), cy: y, r: 6 }),
      ),
    );
  });
  return picture;
}
