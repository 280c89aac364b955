"use strict";
// Sorting: heads of a table become buttons. Without this script rows stay in order of epsilon.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const said = document.createElement("p");
  said.className = "skip";
  said.setAttribute("role", "status");
  table.parentElement.after(said);
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    const title = head.textContent.trim();
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rank = (row) => {
        const cell = row.cells[column];
        const words = (cell.querySelector(".name") ?? cell).textContent.trim();
        return [words, parseFloat(words.replace("∞", "Infinity"))];
      };
      const number = !head.classList.contains("text");
      const rows = [...body.rows].sort((a, b) => {
        const [[s, x], [t, y]] = [rank(a), rank(b)];
        // A cell without a number goes last.
        if (number) return isNaN(x) - isNaN(y) || sign * (x - y || 0);
        return sign * (isNaN(x) || isNaN(y) ? s.localeCompare(t) : x - y || 0);
      });
      body.append(...rows);
      said.textContent = `Sorted by ${title}, ${down ? "descending" : "ascending"}.`;
    });
  });
}
// A link to a run card opens its fold, and the fold around it.
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));  // null without one
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
// Paper has no folds; a thousand run cards are not for paper.
addEventListener("beforeprint", () => {
  const folds = [...document.querySelectorAll("details")];
  if (folds.length <= 40) folds.forEach((fold) => { fold.open = true; });
});
