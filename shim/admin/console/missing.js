// What is said where there is nothing to be shown.

import { get } from "./api.js";
import { el, setText } from "./dom.js";

/** `say(why)` in words; a link leads on. */
export function sayMissing(title, href, text) {
  const why = el("p", {});
  const node = el("div", { class: "missing" }, el("h1", {}, title), why, el("p", {}, el("a", { href }, text)));
  return { node, say: (words) => setText(why, words) };
}

/** The page for an address that is none. */
export function missingView(root) {
  const missing = sayMissing("There is no such page", "#/", "Overview");
  missing.say(`The console has no page ${location.hash}`);
  root.append(missing.node);
  return { title: "No such page", poll: (signal) => get("v1/access", {}, signal) };
}
