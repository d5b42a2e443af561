"use strict";
// Tables: a button in each header sorts by its column, a second click the other way. Numbers come before words, and
// cells without a value last, either way. data-first="descending" on a table begins with the largest.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const first = table.dataset.first ?? "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const way = head.getAttribute("aria-sort") === first ? second : first;
    const read = row => {
      const text = row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
      const kind = text === "" || text === "·" ? 2 : Number.isNaN(Number(text)) ? 1 : 0;
      return { row, text, kind };
    };
    const order = (a, b) => a.kind === 0 ? a.text - b.text : a.text.localeCompare(b.text, "en", { numeric: true });
    const sorted = [...body.rows].map(read).sort(
      (a, b) => a.kind - b.kind || (way === "ascending" ? order(a, b) : order(b, a)));
    body.append(...sorted.map(cell => cell.row));
    heads.forEach(other => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", way);
  }));
}
