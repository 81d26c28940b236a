"use strict";
(() => {
  const words = document.getElementById("words");
  if (!words) return;
  const verdict = document.getElementById("verdict");
  const left = document.getElementById("left");
  const rows = [...document.querySelectorAll("#differences tbody tr")].map((row) => ({
    row,
    text: (row.cells[0].textContent + " " + row.cells[1].textContent).toLowerCase(),
    verdicts: row.dataset.verdicts.split("|"),
  }));
  const filter = () => {
    const wanted = words.value.trim().toLowerCase();
    let shown = 0;
    for (const each of rows) {
      const fits = each.text.includes(wanted) && (!verdict.value || each.verdicts.includes(verdict.value));
      each.row.hidden = !fits;
      shown += fits;
    }
    left.textContent = shown.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " shown";
  };
  words.addEventListener("input", filter);
  verdict.addEventListener("change", filter);
  filter();
})();
