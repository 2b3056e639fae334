// Small figures in SVG, and how to take them away. Texts from the data become text nodes, never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const svg = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const place = (id) => document.getElementById(id);
const stripped = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
function fourDigits(value) {
  // exact ties go to the even digit, as in Python; toExponential alone goes up
  const [digits, exponent] = value.toExponential(60).split("e"),
    tie = /^(-?\d\.\d\d[02468])50*$/.exec(digits);
  return tie ? `${tie[1]}e${exponent}` : value.toExponential(3);
}
function number(value) {
  // four digits, as Python's .4g
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  const [digits, exponent] = fourDigits(value).split("e"),
    power = Number(exponent);
  if (power >= -4 && power < 4) return stripped(Number(`${digits}e${exponent}`).toPrecision(4));
  return stripped(digits) + "e" + exponent[0] + exponent.slice(1).padStart(2, "0");
}
const share = (value) => (Number.isFinite(value) ? number(100 * value) + " %" : "–");
const whole = (value) => value.toLocaleString("en-US");
function shareOf(value, rows) {
  // a share of so many rows, with no more digits than one row can move, as Python's percent
  if (!Number.isFinite(value)) return "–";
  const digits = rows < 200 ? 0 : rows < 2000 ? 1 : 2,
    rounded = Math.floor(100 * value * 10 ** digits + 0.5) / 10 ** digits;
  return rounded.toFixed(digits).replace(/\.0+$/, "") + " %";
}
const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

const widthOf = (id) => Math.max(280, Math.min(1100, place(id).clientWidth || 500)); // one unit is one pixel: texts keep their size
const frame = (width, height, title) =>
  svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, xmlns: "http://www.w3.org/2000/svg" },
    svg("title", {}, title),
  );
const words = (x, y, text, more = {}) => svg("text", { x, y, ...more }, text);
function ticks(low, high, count) {
  // about so many round numbers, and never a lonely one
  const raw = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(raw));
  const steps = [0.5, 1, 2, 5, 10].map((f) => f * power);
  const multiples = (step) => {
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9; i++) found.push(Number((i * step).toPrecision(6)));
    return found;
  };
  let chosen = steps.findIndex((step) => step >= raw * 0.999);
  while (chosen > 0 && multiples(steps[chosen]).length < 2) chosen--;
  return multiples(steps[chosen]);
}
function leftAxis(picture, area, low, high, toY) {
  // of shares, which people think of in percent
  for (const tick of ticks(low, high, 5)) {
    picture.append(
      svg("line", { class: "axis", x1: area.left, x2: area.right, y1: toY(tick), y2: toY(tick) }),
      words(area.left - 6, toY(tick) + 4, share(tick), { "text-anchor": "end" }),
    );
  }
}
function saveAs(name, kind, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
function standalone(picture) {
  // the styles of the page, written into the picture itself
  const copy = picture.cloneNode(true),
    from = picture.querySelectorAll("*"),
    to = copy.querySelectorAll("*");
  from.forEach((part, i) => {
    const style = getComputedStyle(part);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight"])
      to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const [, , width, height] = picture.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: getComputedStyle(place("summary")).getPropertyValue("--card").trim() }));
  return new XMLSerializer().serializeToString(copy);
}
function show(id, picture, table, note) {
  // a figure with its two buttons; table() gives the numbers behind it
  const home = place(id);
  const focused = document.activeElement && home.contains(document.activeElement) ? document.activeElement.dataset.does : null;
  const title = picture.getAttribute("aria-label"),
    save = () => saveAs(id + ".svg", "image/svg+xml", standalone(picture));
  const buttons = [toolButton("SVG ↓", "svg", save, `Download SVG: ${title}`), ...(table ? csvButtons(id, title, table) : [])];
  const notes = note ? [element("p", { className: "small", textContent: note })] : [];
  home.replaceChildren(picture, ...notes, element("div", { className: "tools" }, ...buttons));
  if (focused) home.querySelector(`[data-does="${focused}"]`).focus();
}
let waiting = 0;
const later = (action) => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(action);
};
function listenToTheme(draw) {
  // light and dark by button or by system; figures follow the width of the window
  const dark = matchMedia("(prefers-color-scheme: dark)"),
    isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const title = () => {
    place("theme").textContent = isDark() ? "Light" : "Dark";
  };
  place("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    title();
  });
  dark.addEventListener("change", title);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      later(draw);
    }
  });
  title();
}
