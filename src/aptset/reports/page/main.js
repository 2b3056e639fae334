// The level moves everything.
let now = null;
const fill = (name, facts) => data.sentences[name].replace(/\{(\w+)\}/g, (_, key) => facts[key]);
function put(id, text, value) {
  place(id).textContent = text;
  if (value !== undefined) place(id).dataset.value = value;
}
function verdict(facts, high, promise) {
  // its name; what its sentence says is added to the facts
  if (!data.laws) return !data.is_stated ? "unknown" : high < promise ? "below" : "agrees";
  const law = coverageLaw(now.covered, data.laws, now.alpha),
    judged = data.laws.reduce((sum, [m]) => sum + m, 0);
  Object.assign(facts, {
    law_low: number(law.low),
    law_high: number(law.high),
    judged: whole(judged),
    left_out: whole(data.rows - judged),
  });
  facts.law = fill(data.is_upper_open ? "law_open" : "law", facts);
  Object.assign(place("summary").dataset, { tooLow: law.tooLow, tooHigh: law.tooHigh });
  if (law.isCertain) return "every";
  const isLow = law.tooLow < (data.is_upper_open ? data.level : data.level / 2),
    chance = isLow ? law.tooLow : law.tooHigh;
  facts.chance = chance >= NEGLIGIBLE ? number(chance) : "below " + number(NEGLIGIBLE);
  return isLow ? "low" : law.tooHigh < data.level / 2 && !data.is_upper_open ? "high" : "kept";
}
function drawWords() {
  const [low, high] = shareInterval(now.covered, data.rows, data.confidence);
  const best = (lines) => Math.max(0, ...lines.map(([constant, slope]) => 1 - constant - slope * now.alpha));
  const promise = Math.min(...data.losses.map(best));
  const facts = {
    promise: number(promise),
    rows: whole(data.rows),
    covered: whole(now.covered),
    coverage: number(now.coverage),
    low: number(low),
    high: number(high),
    size: number(now.meanSize),
    n: data.n === null ? "" : whole(data.n),
    left_out: "0",
  };
  const kind = verdict(facts, high, promise);
  place("summary").dataset.kind = kind;
  put("headline", data.headlines[kind]);
  put("promise", fill("promise", facts));
  put("measured", fill("measured", facts));
  put("verdict", fill(kind, facts) + (facts.left_out === "0" ? "" : fill("left_out", facts)));
  put("live-coverage", number(now.coverage), now.coverage);
  put("live-size", number(now.meanSize), now.meanSize);
}
function drawTiles() {
  const bins = new Map(now.bySize.map((bin) => [bin.size, bin])),
    none = { rows: 0, covered: 0 },
    one = bins.get(1) || none,
    empty = bins.get(0) || none;
  const span = ([low, high]) => `${number(low)} – ${number(high)}`,
    level = data.confidence;
  const tiles = [
    ["coverage", "Coverage", now.coverage, shareInterval(now.covered, data.rows, level)],
    ["mean_size", "Labels in a set", now.meanSize, meanInterval(now.sum, now.squares, data.rows, level)],
    ["singleton_rate", "Sets with one label", one.rows / data.rows, shareInterval(one.rows, data.rows, level)],
    ["singleton_accuracy", "… and it is right", one.covered / one.rows, shareInterval(one.covered, one.rows, level)],
    ["empty_rate", "Empty sets", empty.rows / data.rows, shareInterval(empty.rows, data.rows, level)],
    [
      "size_given_coverage",
      "Size if covered",
      now.coveredSum / now.covered,
      meanInterval(now.coveredSum, now.coveredSquares, now.covered, level),
    ],
  ];
  place("tiles").replaceChildren(
    ...tiles.map(([name, title, value, interval]) => {
      const tile = element(
        "div",
        { className: "tile" },
        element("span", { textContent: title }),
        element("b", { textContent: number(value) }),
        element("span", { textContent: span(interval), title: "95 % interval" }),
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
    share = covered / rows;
  const head = element(
    "p",
    {},
    element("b", { textContent: `Coverage ${number(share)}` }),
    ` there (95 % interval ${number(low)} to ${number(high)}): ${whole(covered)} of the ${whole(rows)} rows that were kept to judge it.`,
  );
  const note = now.alpha === data.alpha ? "" : `It was found at alpha = ${data.alpha} and is judged here at alpha = ${now.alpha}.`;
  const home = place("slice");
  home.replaceChildren(head, element("p", { className: "small", textContent: note }));
  Object.assign(home.dataset, { coverage: share, rows, covered });
}
function draw() {
  drawWords();
  drawTiles();
  const size = (bin) => [bin.size, bin.rows, bin.covered, ...shareInterval(bin.covered, bin.rows, data.confidence)];
  const sizes = () => [["size", "rows", "covered", "low", "high"], ...now.bySize.map(size)];
  const curve = () => [Object.keys(data.curve), ...data.curve.nominal.map((_, i) => Object.values(data.curve).map((values) => values[i]))];
  show("curve", drawCurve(now), curve);
  show("sizes", drawSizes(now), sizes);
  show("bysize", drawBySize(now), sizes);
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
