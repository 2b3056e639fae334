// The level moves everything.
let now = null;
const fill = (name, facts) => data.sentences[name].replace(/\{(\w+)\}/g, (_, key) => facts[key]);
function put(id, text, value) {
  place(id).textContent = text;
  if (value !== undefined) place(id).dataset.value = value;
}
const bestOf = (lines, alpha) => Math.max(0, ...lines.map(([constant, slope]) => 1 - constant - slope * alpha));
const promiseAt = (alpha) => Math.min(...data.losses.map((lines) => bestOf(lines, alpha))); // the worst group's
const chanceText = (chance) => (chance >= NEGLIGIBLE ? number(chance) : "below " + number(NEGLIGIBLE));
function verdict(facts, high, promise) {
  // its name; what its sentence says is added to the facts
  if (data.folds) return verdictOnFolds(facts, high, promise);
  if (!data.laws) return "unknown";
  const law = coverageLaw(now.covered, data.laws, now.alpha),
    judged = data.laws.reduce((sum, [m]) => sum + m, 0);
  Object.assign(facts, {
    law_low: share(law.low),
    law_high: share(law.high),
    judged: whole(judged),
    left_out: whole(data.rows - judged),
  });
  facts.law = fill(data.is_upper_open ? "law_open" : "law", facts);
  Object.assign(place("summary").dataset, { tooLow: law.tooLow, tooHigh: law.tooHigh });
  if (law.isCertain) return "every";
  const isLow = law.tooLow < (data.is_upper_open ? data.level : data.level / 2);
  facts.chance = chanceText(isLow ? law.tooLow : law.tooHigh);
  return isLow ? "low" : law.tooHigh < data.level / 2 && !data.is_upper_open ? "high" : "kept";
}
function verdictOnFolds(facts, high, promise) {
  // by the law of each fold; if folds are too small for that, as if they were one
  const chance = foldsChance(data.folds, columns.folds, now.alpha);
  place("summary").dataset.chance = chance;
  if (chance === null) {
    if (!(promise > 0 && promise < 1)) return "agrees_small";
    const law = coverageLaw(now.covered, [[data.rows, data.n]], 1 - promise);
    facts.chance = chanceText(law.tooLow);
    return law.tooLow < data.level ? "low_small" : "agrees_small";
  }
  Object.assign(facts, { chance: chanceText(chance), folds: whole(data.folds.length) });
  facts.folds_law = fill("folds", facts);
  if (chance < data.level) return now.coverage < promise ? "low_folds" : "apart";
  return high < promise ? "below" : "agrees";
}
function aside(kind, facts, low, high, promise) {
  // why the verdict agrees where the interval excludes the promise
  if (kind !== "kept" || (low <= promise && promise <= high)) return "";
  return fill(high < promise ? "aside_low" : data.is_upper_open ? "aside_open" : "aside_high", facts);
}
function nameParts(kind, facts) {
  // names labels and groups that are covered too little, and returns the name of the verdict with them in mind
  const found = partsTooLow(now),
    limit = data.laws ? "chance allows" : facts.promise,
    said = found.slice(0, data.most_parts).map((row) =>
      fill("part", {
        part: row.part === "label" ? "class" : "group",
        name: row.name,
        coverage: share(row.coverage),
        rows: whole(row.rows),
        limit,
      }),
    );
  if (found.length > data.most_parts) said.push(fill("parts_more", { more: whole(found.length - data.most_parts) }));
  const isPromised = found.some((row) => row.part === data.within);
  if (found.length) {
    const all = { ...facts, looked_at: whole(lookedAt()), within: data.within === "label" ? "class" : "group" };
    const more = isPromised ? "parts_within" : data.agrees.includes(kind) ? "parts_average" : null;
    said.push(fill(data.laws ? "parts_law" : "parts_open", all) + (more ? fill(more, all) : ""));
  }
  place("parts-row").hidden = !found.length;
  place("parts").replaceChildren(...said.map((text) => element("p", { textContent: text })));
  if (!found.length || !data.agrees.includes(kind)) return kind;
  return isPromised ? "low_parts" : "uneven";
}
function drawWords() {
  const [low, high] = shareInterval(now.covered, data.rows, data.confidence),
    promise = promiseAt(now.alpha);
  const facts = {
    promise: share(promise),
    rows: whole(data.rows),
    covered: whole(now.covered),
    coverage: share(now.coverage),
    low: share(low),
    high: share(high),
    accuracy: data.accuracy === null ? "" : fill("accuracy", { right: share(data.accuracy) }),
    size: number(now.meanSize),
    n: data.n === null ? "" : whole(data.n),
    left_out: "0",
    level: number(100 * data.level) + " %",
  };
  const first = verdict(facts, high, promise),
    others = facts.left_out === "0" ? "" : fill("left_out", facts);
  put("promise", fill("promise", facts));
  put("measured", fill("measured", facts));
  put("verdict", fill(first, facts) + aside(first, facts, low, high, promise) + others);
  const kind = nameParts(first, facts);
  place("summary").dataset.kind = kind;
  put("headline", data.headlines[kind]);
  put("live-coverage", share(now.coverage), now.coverage);
  put("live-size", number(now.meanSize), now.meanSize);
}
function drawTiles() {
  const bins = new Map(now.bySize.map((bin) => [bin.size, bin])),
    none = { rows: 0, covered: 0 },
    one = bins.get(1) || none,
    empty = bins.get(0) || none;
  const span = ([low, high], write) => `${write(low)} – ${write(high)}`,
    most = data.classes.length,
    level = data.confidence;
  const tiles = [
    ["coverage", "Coverage", now.coverage, shareInterval(now.covered, data.rows, level), share],
    ["mean_size", "Labels in a set", now.meanSize, sizeInterval(now.sum, now.squares, data.rows, 0, most, level)],
    ["singleton_rate", "Sets with one label", one.rows / data.rows, shareInterval(one.rows, data.rows, level), share],
    ["singleton_accuracy", "… and it is right", one.covered / one.rows, shareInterval(one.covered, one.rows, level), share],
    ["empty_rate", "Empty sets", empty.rows / data.rows, shareInterval(empty.rows, data.rows, level), share],
    [
      "size_given_coverage",
      "Size if covered",
      now.coveredSum / now.covered,
      sizeInterval(now.coveredSum, now.coveredSquares, now.covered, 1, most, level),
    ],
  ];
  place("tiles").replaceChildren(
    ...tiles.map(([name, title, value, interval, write = number]) => {
      const tile = element(
        "div",
        { className: "tile" },
        element("span", { textContent: title }),
        element("b", { textContent: write(value) }),
        element("span", { textContent: span(interval, write), title: "95 % interval" }),
      );
      Object.assign(tile.dataset, { name, value, low: interval[0], high: interval[1] });
      return tile;
    }),
  );
}
function drawSlice() {
  if (!data.slice) return;
  const { rows, covered } = now.slice,
    [low, high] = shareInterval(covered, rows, data.confidence),
    coverage = covered / rows;
  const head = element(
    "p",
    {},
    element("b", { textContent: `Coverage ${share(coverage)}` }),
    ` there (95 % interval ${share(low)} to ${share(high)}): ${whole(covered)} of the ${whole(rows)} rows that were kept to judge it.`,
  );
  const note = now.alpha === data.alpha ? "" : `It was found at alpha = ${data.alpha} and is judged here at alpha = ${now.alpha}.`;
  const home = place("slice");
  home.replaceChildren(head, element("p", { className: "small", textContent: note }));
  Object.assign(home.dataset, { coverage, rows, covered });
}
function draw() {
  drawWords();
  drawTiles();
  const size = (bin) => [bin.size, bin.rows, bin.covered, ...shareInterval(bin.covered, bin.rows, data.confidence)];
  const table = (name, bins) => () => [[name, "rows", "covered", "low", "high"], ...bins.map(size)];
  const sizes = table("size", now.bySize);
  const curve = () => [Object.keys(data.curve), ...data.curve.nominal.map((_, i) => Object.values(data.curve).map((values) => values[i]))];
  show("curve", drawCurve(now), curve);
  show("sizes", drawSizes(now), sizes);
  show("bysize", drawBySize(now), now.byNeed ? table("labels_needed", now.byNeed) : sizes);
  drawSlice();
  for (const name of Object.keys(data.names)) drawTable(name, now);
  drawExamples(now);
}
function moveTo(alpha, from) {
  const isLevel = alpha > 0 && alpha < 1;
  place("alpha-number").setAttribute("aria-invalid", String(!isLevel));
  put("alpha-error", isLevel ? "" : "alpha must lie between 0 and 1; the page still shows the last level.");
  if (!isLevel) return;
  const level = nearestLevel(alpha);
  if (from !== "alpha") place("alpha").value = level;
  if (from !== "alpha-number" || level !== alpha) place("alpha-number").value = level;
  now = measure(level);
  draw();
  document.documentElement.dataset.alpha = level;
}
function listen() {
  for (const id of ["alpha", "alpha-number"])
    place(id).addEventListener(id === "alpha" ? "input" : "change", () => later(() => moveTo(Number(place(id).value), id)));
  place("reset").addEventListener("click", () => moveTo(data.alpha));
  place("search").addEventListener("input", () => {
    view.text = place("search").value;
    view.most = 20;
    drawExamples(now);
  });
  place("filters").append(
    ...FILTERS.map(([name]) => {
      const button = toolButton(name, "filter-" + name, () => {
        view.filter = name;
        view.most = 20;
        drawExamples(now);
      });
      button.dataset.filter = name;
      return button;
    }),
  );
  listenToTheme(draw);
}
unpackAll()
  .then(() => {
    listen();
    moveTo(data.alpha);
    document.documentElement.dataset.ready = "true";
  })
  .catch((error) => {
    // a browser from before 2023 cannot unpack the data
    place("failure").hidden = false;
    put("failure", `The figures could not be drawn: ${error.message}. A newer browser can; the summary and the guarantee hold.`);
  });
