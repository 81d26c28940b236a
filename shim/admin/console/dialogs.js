// What is asked before something is changed, and for the token.

import { Failed, get, ofOne, token } from "./api.js";
import { cell, el, name, setText, table } from "./dom.js";
import { after, consequences, count, plural, stepOf } from "./words.js";

const VERBS = { start: "Start", advance: "Advance", rollback: "Roll back" };

/** A dialog that goes when it is closed. `submit()` is awaited; while it throws Failed, the dialog stays and says why. */
function dialog(title, content, submitText, submit) {
  return new Promise((resolve, reject) => {
    const error = el("p", { class: "problem", role: "alert", hidden: true });
    const cancel = el("button", { type: "button" }, submitText === null ? "Close" : "Cancel");
    const agree = submitText === null ? null : el("button", { type: "submit", class: "strong" }, submitText);
    const form = el("form", { method: "dialog" }, el("h2", { id: "dialog-title" }, title), ...content, error, el("div", { class: "actions" }, cancel, agree));
    const node = el("dialog", { "aria-labelledby": "dialog-title" }, form);
    let result;
    let done = false;
    cancel.addEventListener("click", () => node.close());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (agree === null || agree.disabled) return;
      agree.disabled = true;
      agree.setAttribute("aria-busy", "true");
      error.hidden = true;
      try {
        result = await submit();
        done = true;
        node.close();
      } catch (failure) {
        if (!(failure instanceof Failed)) throw failure;
        setText(error, failure.message);
        error.hidden = false;
      } finally {
        agree.disabled = false;
        agree.removeAttribute("aria-busy");
      }
    });
    node.addEventListener("close", () => {
      node.remove();
      if (done) resolve(result);
      else reject(new Failed("Nothing was done."));
    });
    document.body.append(node);
    node.showModal();
  });
}

function tokenField(required) {
  const input = el("input", { type: "password", autocomplete: "off", spellcheck: "false", id: "token-field", required, value: token.get() });
  return { input, node: el("p", { class: "field" }, el("label", { for: "token-field" }, "Token of this shim"), input) };
}

/** Resolves once a token was given; rejects where none was. */
export function askForToken(why) {
  const { input, node } = tokenField(false);
  const text = "It is in the file that the setting admin.token.file names, and is kept in this tab until that is closed.";
  return dialog("Token", [why ? el("p", {}, why) : null, el("p", { class: "quiet" }, text), node], "Use it", async () => token.set(input.value.trim()));
}

/** Resolves to the group's new row; rejects with Failed where nothing was done. */
export async function askToMove(move, row) {
  const { token_for: wanted } = await get("v1/access");
  const step = stepOf(row);
  const to = after(move, step);
  const cause = el("input", { type: "text", id: "cause-field", maxlength: "500", autocomplete: "off" });
  const needed = wanted === "nothing" ? null : tokenField(true);
  const compared = el("p", { class: "compared", role: "status" });
  const content = [
    el("p", {}, "Group ", name(row.group), `, ${row.state.toLowerCase()}, with ${plural(row.members, "member")}.`),
    el("ul", {}, ...consequences(move, step).map((each) => el("li", {}, each))),
    compared,
    el("p", { class: "field" }, el("label", { for: "cause-field" }, "Why (kept with the group, and shown to others)"), cause),
    needed?.node,
  ].filter(Boolean);
  if (step !== "upstream" && !(wanted === "all" && !token.get())) compare(row.group, compared);
  return dialog(`${VERBS[move]} ${row.group}${to === null ? "" : ` to ${to}`}?`, content, VERBS[move], async () => {
    if (needed !== null) token.set(needed.input.value.trim());
    return ofOne(`v1/migrate/${move}`, row.group, { cause: cause.value.trim() || `${move}, at the console` });
  });
}

async function compare(group, node) {
  setText(node, "Comparing its offsets…");
  try {
    const verified = await ofOne("v1/migrate/verify", group);
    node.dataset.kind = verified.differing ? "bad" : "good";
    setText(node, verified.differing ? `${count(verified.differing)} of ${plural(verified.offsets, "offset")} differ now.` : `Compared just now: ${plural(verified.offsets, "offset")}, none differs.`);
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    setText(node, `Not compared: ${error.message}`);
  }
}

/** Shows what differs of a group between the places that its offsets are in. */
export async function showDifferences(group) {
  const verified = await ofOne("v1/migrate/verify", group);
  const content = [el("p", {}, verified.differing ? `${count(verified.differing)} of ${plural(verified.offsets, "offset")} differ.` : `${plural(verified.offsets, "offset")} compared, none differs.`)];
  if (verified.differences.length) {
    const shown = table("Differences", ["Topic", "Partition", "In the log", "Elsewhere", "Where"].map((label) => ({ label })));
    shown.body.append(
      ...verified.differences.map((each) =>
        el("tr", { role: "row" }, cell("Topic", "", name(each.topic)), cell("Partition", "number", String(each.partition)), cell("In the log", "number", count(each.log)), cell("Elsewhere", "number", count(each.elsewhere)), cell("Where", "", each.where)),
      ),
    );
    content.push(shown.node);
  }
  await dialog(`Differences of ${group}`, content, null, async () => {}).catch((error) => {
    if (!(error instanceof Failed)) throw error; // closed: that is all that can be done with it
  });
}

/** Says in a line what was done. */
export function tell(text) {
  const node = document.getElementById("told");
  setText(node, text);
  node.classList.add("shown");
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => node.classList.remove("shown"), 8000);
}
