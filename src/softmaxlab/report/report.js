"use strict";
// Filters: which rows of the table that follows are shown.
for (const group of document.querySelectorAll(".filters")) {
  const rows = document.getElementById(group.dataset.of).tBodies[0].rows;
  const buttons = [...group.querySelectorAll("button")];
  buttons.forEach(button => button.addEventListener("click", () => {
    buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
    for (const row of rows) row.hidden = button.dataset.show !== "" && row.dataset.kind !== button.dataset.show;
  }));
}
// Pictures: a dialog, which Esc closes by itself.
for (const button of document.querySelectorAll("button.picture")) {
  button.addEventListener("click", () => {
    const dialog = document.createElement("dialog");
    dialog.className = "zoom";
    dialog.setAttribute("aria-label", button.getAttribute("aria-label"));
    const bar = document.createElement("div");
    bar.className = "bar";
    const image = button.querySelector("img").cloneNode();
    const larger = document.createElement("button");
    larger.textContent = "Larger";
    const resize = () => { larger.textContent = dialog.classList.toggle("full") ? "Fit" : "Larger"; };
    larger.addEventListener("click", resize);
    image.addEventListener("click", resize);
    const close = document.createElement("button");
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    bar.append(larger, close);
    dialog.append(bar, image);
    dialog.addEventListener("close", () => { dialog.remove(); button.focus(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
// Commands: one click takes them along.
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      getSelection().selectAllChildren(text); // no right to the clipboard: selected, so that Ctrl-C takes it
      button.textContent = "Selected";
      return;
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
