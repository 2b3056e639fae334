// Numbers that can be taken away as CSV.
const quoted = (value) => { const text = String(value); return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text; };
const asCsv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
function toolButton(text, does, action) {
  const button = element("button", { type: "button", textContent: text, onclick: action });
  button.dataset.does = does;
  return button;
}
async function copyText(text, button) {
  let done = false;
  try { await navigator.clipboard.writeText(text); done = true; } catch { // a page from a file may not be allowed to
    const area = element("textarea", { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = done ? "Copied" : "Copy failed: download instead";
  setTimeout(() => { button.textContent = before; }, 1500);
}
const csvButtons = (name, table) => [
  toolButton("Copy CSV", "copy", (event) => copyText(asCsv(table()), event.currentTarget)),
  toolButton("CSV ↓", "csv", () => saveAs(name + ".csv", "text/csv", asCsv(table()))),
];
