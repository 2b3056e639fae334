// The level moves everything.
let now = null;
const filled = (sentence, facts) => sentence.replace(/\{(\w+)\}/g, (_, key) => facts[key]);
const fill = (name, facts) => filled(data.sentences[name], facts);
function put(id, text, value) {
  place(id).textContent = text;
  if (value !== undefined) place(id).dataset.value = value;
}
const bestOf = (lines, alpha) => Math.max(0, ...lines.map(([constant, slope]) => 1 - constant - slope * alpha));
const promiseAt = (alpha) => Math.min(...data.losses.map((lines) => bestOf(lines, alpha))); // the worst group's
const chanceText = (chance) => (chance >= NEGLIGIBLE ? number(chance) : "below " + number(NEGLIGIBLE));
const isShort = (promise, least) => promise - least > data.few_points + 1e-9; // too few rows to agree with anything
const points = (promise, least) => number(Math.floor(1000 * (promise - least) + 0.5) / 10);
function verdict(facts, high, promise) {
  // its name; what its sentence says is added to the facts
  if (data.folds) return verdictOnFolds(facts, high, promise);
  if (!data.laws) return "unknown";
  const tail = data.is_upper_open ? data.level : data.level / 2,
    law = coverageLaw(now.covered, data.laws, now.alpha, tail),
    judged = data.laws.reduce((sum, [m]) => sum + m, 0);
  Object.assign(facts, {
    law_low: shareOf(law.low, judged),
    law_high: shareOf(law.high, judged),
    judged: whole(judged),
    left_out: whole(data.rows - judged),
    least: shareOf(law.least, judged),
    points: points(promise, law.least),
  });
  facts.law = fill(data.is_upper_open ? "law_open" : "law", facts);
  Object.assign(place("summary").dataset, { tooLow: law.tooLow, tooHigh: law.tooHigh });
  if (law.isCertain) return "every";
  const isLow = law.tooLow < tail;
  facts.chance = chanceText(isLow ? law.tooLow : law.tooHigh);
  if (isLow || (law.tooHigh < tail && !data.is_upper_open)) return isLow ? "low" : "high";
  return isShort(promise, law.least) ? "few" : "kept";
}
function verdictOnFolds(facts, high, promise) {
  // by the law of each fold; if folds are too small for that, as if they were one
  const { chance, least } = foldsChance(data.folds, columns.folds, now.alpha, data.level);
  place("summary").dataset.chance = chance;
  facts.small = fill("small", facts);
  if (chance === null) {
    facts.least = shareOf(0, data.rows);
    if (!(promise > 0 && promise < 1)) return "few_small";
    const law = coverageLaw(now.covered, [[data.rows, data.n]], 1 - promise, data.level);
    Object.assign(facts, { chance: chanceText(law.tooLow), least: shareOf(law.least, data.rows) });
    return law.tooLow < data.level ? "low_small" : isShort(promise, law.least) ? "few_small" : "agrees_small";
  }
  Object.assign(facts, { chance: chanceText(chance), folds: whole(data.folds.length), least: shareOf(least, data.rows) });
  facts.folds_law = fill("folds", facts);
  if (chance < data.level) return now.coverage < promise ? "low_folds" : "apart";
  if (high < promise) return "few_below";
  return isShort(promise, least) ? "few_folds" : "agrees";
}
function aside(kind, facts, low, high, promise) {
  // why the verdict agrees where the interval excludes the promise
  if (!["kept", "few"].includes(kind) || (low <= promise && promise <= high)) return "";
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
        coverage: shareOf(row.coverage, row.rows),
        rows: whole(row.rows),
        limit,
      }),
    );
  if (found.length > data.most_parts) said.push(fill("parts_more", { more: whole(found.length - data.most_parts) }));
  const isPromised = found.some((row) => row.part === data.within);
  if (found.length) {
    const all = { ...facts, looked_at: whole(lookedAt()), within: data.within === "label" ? "class" : "group" };
    const more = isPromised ? "parts_within" : data.not_contradicted.includes(kind) ? "parts_average" : null;
    said.push(fill(data.laws ? "parts_law" : "parts_open", all) + (more ? fill(more, all) : ""));
  }
  place("parts-row").hidden = !found.length;
  place("parts").replaceChildren(...said.map((text) => element("p", { textContent: text })));
  if (!found.length || !data.not_contradicted.includes(kind)) return kind;
  return isPromised ? "low_parts" : "uneven";
}
const emptyRows = () => now.bySize.find((bin) => bin.size === 0)?.rows || 0;
function advice() {
  // where the model is right more often than was asked for, and sets come out empty
  const empty = emptyRows(),
    singles = now.bySize.find((bin) => bin.size === 1)?.covered || 0,
    facts = { asked: share(1 - now.alpha), empty: shareOf(empty / data.rows, data.rows) };
  if (!empty) return "";
  if (data.right === null)
    return singles > (1 - now.alpha) * (data.rows - empty) ? fill("seems_better", { ...facts, way_out: data.sentences.smaller }) : "";
  if (!(data.rows - data.right < now.alpha * data.rows * (1 - 1e-12))) return "";
  const wayOut = data.stops === null ? data.sentences.never_stops : fill("stops", { stops: number(data.stops) });
  return fill("better", { ...facts, right: shareOf(data.right / data.rows, data.rows), way_out: wayOut });
}
function drawWords() {
  const [low, high] = shareInterval(now.covered, data.rows, data.confidence),
    promise = promiseAt(now.alpha);
  const facts = {
    promise: share(promise),
    rows: whole(data.rows),
    covered: whole(now.covered),
    coverage: shareOf(now.coverage, data.rows),
    low: shareOf(low, data.rows),
    high: shareOf(high, data.rows),
    accuracy: data.right === null ? "" : fill("accuracy", { right: shareOf(data.right / data.rows, data.rows) }),
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
  Object.assign(place("summary").dataset, { kind, state: data.states[kind] });
  put("headline", filled(data.headlines[kind], facts));
  const advised = advice();
  place("advice-row").hidden = !advised;
  put("advice", advised);
  put("live-coverage", shareOf(now.coverage, data.rows), now.coverage);
  put("live-size", number(now.meanSize), now.meanSize);
}
function drawTiles() {
  const bins = new Map(now.bySize.map((bin) => [bin.size, bin])),
    none = { rows: 0, covered: 0 },
    one = bins.get(1) || none,
    empty = bins.get(0) || none;
  const span = ([low, high], write) => `${write(low)} – ${write(high)}`,
    most = data.classes.length,
    level = data.confidence,
    ofRows = (value) => shareOf(value, data.rows),
    ofOnes = (value) => shareOf(value, one.rows);
  const tiles = [
    ["coverage", "Coverage", now.coverage, shareInterval(now.covered, data.rows, level), ofRows],
    ["mean_size", "Labels in a set", now.meanSize, sizeInterval(now.sum, now.squares, data.rows, 0, most, level)],
    ["singleton_rate", "Sets with one label", one.rows / data.rows, shareInterval(one.rows, data.rows, level), ofRows],
    ["singleton_accuracy", "… and it is right", one.covered / one.rows, shareInterval(one.covered, one.rows, level), ofOnes],
    ["empty_rate", "Empty sets", empty.rows / data.rows, shareInterval(empty.rows, data.rows, level), ofRows],
    [
      "size_given_coverage",
      "Size if covered",
      now.coveredSum / now.covered,
      sizeInterval(now.coveredSum, now.coveredSquares, now.covered, 1, most, level),
    ],
  ];
  put("empty-note", empty.rows ? data.sentences[advice() ? "empty_by_level" : "empty"] : "");
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
    element("b", { textContent: `Coverage ${shareOf(coverage, rows)}` }),
    ` there (95 % interval ${shareOf(low, rows)} to ${shareOf(high, rows)}): ${whole(covered)} of the ${whole(rows)} rows that were kept to judge it.`,
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
