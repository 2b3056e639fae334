// Numbers that can be taken away as CSV.
const quoted = (value) => {
  const text = value === null ? "" : String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};
const asCsv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
function toolButton(text, does, action, title) {
  const button = element("button", { type: "button", textContent: text, onclick: action });
  if (title) button.ariaLabel = title;
  button.dataset.does = does;
  return button;
}
async function copyText(text, button) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // a page from a file may not be allowed to
    const area = element("textarea", { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent,
    title = button.ariaLabel;
  button.textContent = button.ariaLabel = done ? "Copied" : "Copy failed: download instead";
  setTimeout(() => {
    button.textContent = before;
    button.ariaLabel = title;
  }, 1500);
}
const csvButtons = (name, title, table) => [
  toolButton("Copy CSV", "copy", (event) => copyText(asCsv(table()), event.currentTarget), `Copy CSV: ${title}`),
  toolButton("CSV ↓", "csv", () => saveAs(name + ".csv", "text/csv", asCsv(table())), `Download CSV: ${title}`),
];
