// The incomplete beta function and its inverse: all that exact intervals and the law of coverage need.
const logGamma = (x) => {
  if (x < 12) return logGamma(x + 1) - Math.log(x);
  const z = 1 / (x * x); // Stirling's series: good to the last bits from 12 on
  const series = 1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * (691 / 360360 - z / 156)))));
  return (x - 0.5) * Math.log(x) - x + 0.9189385332046727418 + series / x;
};
const logBeta = (a, b) => logGamma(a) + logGamma(b) - logGamma(a + b);

function continuedBeta(a, b, x) {
  // Lentz's method
  const tiny = 1e-300;
  let c = 1,
    d = 1 / (1 - ((a + b) * x) / (a + 1) || tiny),
    h = d;
  for (let m = 1; m < 10000; m++) {
    for (const factor of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 / (1 + factor * d || tiny);
      c = 1 + factor / c || tiny;
      h *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-15) break;
  }
  return h;
}
function incompleteBeta(a, b, x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(a * Math.log(x) + b * Math.log1p(-x) - logBeta(a, b));
  return x < (a + 1) / (a + b + 2) ? (front * continuedBeta(a, b, x)) / a : 1 - (front * continuedBeta(b, a, 1 - x)) / b;
}
function inverseBeta(a, b, chance) {
  // Newton's steps, kept inside a shrinking bracket
  let low = 0,
    high = 1,
    x = a / (a + b);
  const scale = logBeta(a, b);
  for (let step = 0; step < 200; step++) {
    const miss = incompleteBeta(a, b, x) - chance;
    if (miss > 0) high = x;
    else low = x;
    const slope = Math.exp((a - 1) * Math.log(x) + (b - 1) * Math.log1p(-x) - scale);
    let next = x - miss / slope;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (Math.abs(next - x) <= 1e-15 * x) return next;
    x = next;
  }
  return x;
}
const remembered = new Map();
function shareInterval(count, n, confidence) {
  // Clopper and Pearson
  const key = `${count}/${n}/${confidence}`;
  if (n && !remembered.has(key)) {
    const tail = (1 - confidence) / 2;
    remembered.set(key, [
      count > 0 ? inverseBeta(count, n - count + 1, tail) : 0,
      count < n ? inverseBeta(count + 1, n - count, 1 - tail) : 1,
    ]);
  }
  return n ? remembered.get(key) : [0, 1];
}
function sizeInterval(sum, squares, n, least, most, confidence) {
  // as if one more set had come, of the extreme size on that side; moved out by the most that skewness can ask for
  if (!n) return [least, most];
  const y = inverseBeta(0.5, n / 2, confidence),
    t = Math.sqrt((n * y) / (1 - y));
  const end = (extreme, sign) => {
    const mean = (sum + extreme) / (n + 1),
      variance = Math.max(0, (squares + extreme * extreme - mean * (sum + extreme)) / n),
      skewness = ((Math.max(0, t * t - 1) / 3) * Math.abs(extreme - mean)) / (n + 1);
    return mean + sign * (t * Math.sqrt(variance / (n + 1)) + skewness);
  };
  return [Math.max(least, end(least, -1)), Math.min(most, end(most, 1))];
}
// The law of the number of covered rows: a sum of Beta-binomial counts, one for each [test rows, calibration rows].
// Chances below NEGLIGIBLE are left away, as in Python, so that the laws of many groups are quickly joined.
const NEGLIGIBLE = 1e-60;
function betaBinomial(rows, n, k) {
  if (k > n) return Float64Array.from({ length: rows + 1 }, (_, c) => (c === rows ? 1 : 0)); // every set holds every label
  const base = logGamma(rows + 1) - logBeta(k, n + 1 - k);
  return Float64Array.from({ length: rows + 1 }, (_, c) =>
    Math.exp(base - logGamma(c + 1) - logGamma(rows - c + 1) + logBeta(c + k, rows - c + n + 1 - k)),
  );
}
function trimmed(chances) {
  let first = 0,
    last = chances.length - 1;
  while (chances[first] < NEGLIGIBLE) first++;
  while (chances[last] < NEGLIGIBLE) last--;
  return [first, chances.subarray(first, last + 1)];
}
function joined(one, other) {
  const found = new Float64Array(one.length + other.length - 1);
  for (let i = 0; i < one.length; i++) for (let j = 0; j < other.length; j++) found[i + j] += one[i] * other[j];
  return found;
}
function coverageLaw(count, laws, alpha, tail = 0.005) {
  // least: the smallest coverage that does not contradict the promise, at the level of the lower tail
  let first = 0,
    chances = Float64Array.of(1),
    rows = 0;
  for (const [m, n] of laws) {
    const [start, one] = trimmed(betaBinomial(m, n, rankAt(n, alpha))),
      [further, both] = trimmed(joined(chances, one));
    first += start + further;
    rows += m;
    chances = both;
  }
  let below = 0,
    low = -1,
    high = -1,
    least = -1,
    tooLow = 0,
    tooHigh = 0;
  chances.forEach((chance, i) => {
    const c = first + i;
    below += chance;
    if (c <= count) tooLow += chance;
    if (c >= count) tooHigh += chance;
    if (low < 0 && below >= 0.025) low = c;
    if (high < 0 && below >= 0.975) high = c;
    if (least < 0 && below >= tail) least = c;
  });
  const isCertain = laws.every(([, n]) => rankAt(n, alpha) > n);
  return { low: low / rows, high: (high < 0 ? rows : high) / rows, least: least / rows, tooLow, tooHigh, isCertain };
}
// Each fold by itself is a split: the smallest chance of so few covered rows, times the number of folds that can tell,
// and the coverage of a fold below which that chance contradicts a valid calibration.
function foldsChance(folds, below, alpha, level) {
  let smallest = 1,
    able = 0,
    at = 0;
  const isAble = (fold) => !fold.every(([, n]) => rankAt(n, alpha) > n);
  const tail = level / Math.max(1, folds.filter(isAble).length);
  let least = 0;
  for (const fold of folds) {
    let covered = 0;
    for (const [, n] of fold) {
      for (let c = 0; c < Math.min(rankAt(n, alpha), n + 1); c++) covered += below[at + c];
      at += n + 1;
    }
    if (!isAble(fold)) continue;
    able += 1;
    const law = coverageLaw(covered, fold, alpha, tail);
    smallest = Math.min(smallest, law.tooLow);
    least = Math.max(least, law.least);
  }
  return { chance: able ? Math.min(1, able * smallest) : null, least };
}
