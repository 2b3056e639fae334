// Everything about the sets of one level, over all rows: from the p-values themselves, or from tables at fixed levels.
const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };
const columns = {};
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const plain = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
  const planes = new Uint8Array(await plain.arrayBuffer()),
    width = KINDS[packed.kind].BYTES_PER_ELEMENT;
  const whole = new Uint8Array(planes.length);
  for (let byte = 0; byte < width; byte++)
    for (let i = 0; i < packed.length; i++) whole[i * width + byte] = planes[byte * packed.length + i];
  return new KINDS[packed.kind](whole.buffer);
}
async function unpackAll() {
  await Promise.all(
    Object.entries(data.columns).map(async ([name, packed]) => {
      columns[name] = await unpack(packed);
    }),
  );
}
function upTo(sorted, value) {
  // how many are not above the value
  let low = 0,
    high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
// All that rows are broken down by: labels, groups, and how many labels they need.
const brokenDown = () => (data.needed ? { ...data.names, needed: data.needed } : data.names);
const emptyPart = (names) => ({
  rows: new Float64Array(names),
  covered: new Float64Array(names),
  sum: new Float64Array(names),
  squares: new Float64Array(names),
});

let sizesOfRows = null;
function measureRows(alpha) {
  const m = data.rows,
    cut = upTo(columns.levels, alpha),
    steps = columns.steps,
    truth = columns.truth,
    saved = columns.saved;
  sizesOfRows = sizesOfRows || new Uint32Array(m);
  sizesOfRows.fill(0);
  for (let start = 0; start < steps.length; start += m) {
    // the largest p-values of all rows, then the second largest, ...
    let any = false;
    for (let i = 0; i < m; i++)
      if (steps[start + i] > cut) {
        sizesOfRows[i]++;
        any = true;
      }
    if (!any) break;
  }
  const found = { alpha, histogram: new Float64Array(2 * data.classes.length + 2), slice: { rows: 0, covered: 0 }, parts: {} };
  const every = brokenDown(),
    names = Object.keys(every);
  for (const name of names) found.parts[name] = emptyPart(every[name].length);
  for (let i = 0; i < m; i++) {
    let covered = truth[i] > cut ? 1 : 0,
      size = sizesOfRows[i];
    if (saved && size === 0) {
      size = sizesOfRows[i] = 1;
      covered = saved[i];
    }
    found.histogram[2 * size + covered]++;
    for (const name of names) {
      const part = found.parts[name],
        which = columns[name][i];
      part.rows[which]++;
      part.covered[which] += covered;
      part.sum[which] += size;
      part.squares[which] += size * size;
    }
    if (columns.slice && columns.slice[i]) {
      found.slice.rows++;
      found.slice.covered += covered;
    }
  }
  return found;
}
function measureTables(alpha) {
  const at = data.alphas.indexOf(alpha),
    levels = data.alphas.length,
    width = 2 * data.classes.length + 2;
  const found = {
    alpha,
    at,
    histogram: columns.histogram.subarray(at * width, (at + 1) * width),
    slice: { rows: 0, covered: 0 },
    parts: {},
  };
  for (const [name, values] of Object.entries(brokenDown())) {
    const part = (found.parts[name] = emptyPart(values.length));
    for (let i = 0; i < part.rows.length; i++) {
      part.rows[i] = columns[name + "_rows"][i];
      for (const what of ["covered", "sum", "squares"]) part[what][i] = columns[name + "_" + what][i * levels + at];
    }
  }
  if (columns.slice_covered) found.slice = { rows: data.slice.rows, covered: columns.slice_covered[at] };
  return found;
}
const nearestLevel = (alpha) =>
  data.mode === "rows" ? alpha : data.alphas.reduce((a, b) => (Math.abs(b - alpha) < Math.abs(a - alpha) ? b : a));
function measure(alpha) {
  const found = data.mode === "rows" ? measureRows(alpha) : measureTables(alpha);
  found.covered = found.sum = found.squares = found.coveredSum = found.coveredSquares = 0;
  found.bySize = [];
  for (let size = 0; 2 * size < found.histogram.length; size++) {
    const missed = found.histogram[2 * size],
      covered = found.histogram[2 * size + 1],
      rows = missed + covered;
    found.covered += covered;
    found.sum += size * rows;
    found.squares += size * size * rows;
    found.coveredSum += size * covered;
    found.coveredSquares += size * size * covered;
    if (rows) found.bySize.push({ size, rows, covered });
  }
  const needed = found.parts.needed;
  found.byNeed = data.needed && data.needed.map((size, i) => ({ size, rows: needed.rows[i], covered: needed.covered[i] }));
  found.coverage = found.covered / data.rows;
  found.meanSize = found.sum / data.rows;
  return found;
}
// ceil((1 - alpha)(n + 1)) from the decimal that alpha prints as, in whole numbers.
function rankAt(n, alpha) {
  let [digits, exponent] = String(alpha).split("e");
  const [whole, fraction = ""] = digits.split(".");
  const power = BigInt(fraction.length - Number(exponent || 0)),
    bottom = 10n ** power;
  const top = (bottom - BigInt(whole + fraction)) * BigInt(n + 1);
  return Number((top + bottom - 1n) / bottom);
}
