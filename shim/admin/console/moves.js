// The buttons that move a group.

import { Failed } from "./api.js";
import { askToMove, showDifferences, tell } from "./dialogs.js";
import { el } from "./dom.js";
import { MOVES, stepOf } from "./words.js";

const LABELS = { start: "Start", advance: "Advance", rollback: "Roll back" };

/** `update(row)` shows those that the group can take; `moved()` is called when one was made. */
export function moveButtons(moved) {
  const node = el("div", { class: "actions" });
  let row = null;
  let shown = "";
  const problem = (error) => {
    if (!(error instanceof Failed)) throw error;
    tell(error.message);
  };
  const buttons = {
    verify: el("button", { type: "button", onclick: () => showDifferences(row.group).catch(problem) }, "Compare"),
  };
  for (const move of Object.keys(LABELS)) {
    buttons[move] = el("button", { type: "button", "data-move": move, onclick: () => make(move) }, LABELS[move]);
  }

  async function make(move) {
    try {
      const now = await askToMove(move, row);
      tell(`${now.group} is at ${stepOf(now)} now.`);
    } catch (error) {
      problem(error);
    }
    moved();
  }

  return {
    node,
    update(now) {
      row = now;
      const wanted = [...(stepOf(now) === "upstream" ? [] : ["verify"]), ...MOVES[stepOf(now)]];
      for (const [move, button] of Object.entries(buttons)) button.setAttribute("aria-label", `${button.textContent} ${now.group}`);
      if (wanted.join() === shown) return;
      const had = [...node.children].indexOf(document.activeElement);
      shown = wanted.join();
      node.replaceChildren(...wanted.map((move) => buttons[move]));
      if (had >= 0) (node.children[had] ?? node.lastElementChild)?.focus();
    },
  };
}
