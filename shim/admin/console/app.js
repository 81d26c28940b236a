// The frame around the pages: which one is shown, how it is kept up to date, the theme and the token.

import { Failed, get, token } from "./api.js";
import { clientsView } from "./clients.js";
import { askForToken } from "./dialogs.js";
import { el, setText } from "./dom.js";
import { groupView } from "./group.js";
import { groupsView } from "./groups.js";
import { migrationView } from "./migration.js";
import { missingView } from "./missing.js";
import { overviewView } from "./overview.js";

const POLL_MS = 3000;
const REST = 5; // a poll that takes long is followed by a pause of so many times as long

// A view: (root, argument) => {title, poll(signal), stop?()}. `poll` brings it up to date.
const VIEWS = { "": overviewView, groups: groupsView, group: groupView, clients: clientsView, migration: migrationView };

const main = document.getElementById("main");
const problem = document.getElementById("problem");
const live = document.getElementById("live");

let shown = null;
let timer = 0;
let running = null;

function route() {
  const [, view = "", argument = ""] = location.hash.match(/^#\/([^/?]*)(?:\/(.*))?$/) ?? [];
  return { view, argument: decoded(argument) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function open() {
  if (location.hash && !location.hash.startsWith("#/")) return; // a jump within the page
  const again = shown !== null;
  shown?.view.stop?.();
  running?.abort();
  const { view, argument } = route();
  const root = el("div", { class: "view", "data-view": view || "overview" });
  shown = { view: (Object.hasOwn(VIEWS, view) ? VIEWS[view] : missingView)(root, argument, pollNow), root };
  main.replaceChildren(root);
  document.title = `${shown.view.title} · offset-shim`;
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.dataset.view === (view === "group" ? "groups" : view || "overview");
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (again) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  pollNow();
}

/** Bring the page up to date now, and then again and again. */
function pollNow() {
  clearTimeout(timer);
  running?.abort();
  if (document.visibilityState !== "visible" || shown === null) return;
  const mine = (running = new AbortController());
  const begun = performance.now();
  shown.view
    .poll(mine.signal)
    .then(
      () => told(mine, ""),
      (error) => {
        if (error.name === "AbortError") return;
        if (!(error instanceof Failed)) console.error(error);
        told(mine, error instanceof Failed ? error.message : "The page has a fault; the browser's console says more.");
        if (error.status === 401 && !document.querySelector("dialog[open]")) askForToken(error.message).then(pollNow, () => {});
      },
    )
    .finally(() => {
      if (running !== mine || mine.signal.aborted) return;
      timer = setTimeout(pollNow, Math.max(POLL_MS, REST * (performance.now() - begun)));
    });
}

function told(mine, error) {
  if (running !== mine) return;
  problem.hidden = !error;
  setText(problem, error);
  live.dataset.state = error ? "bad" : "good";
  setText(live, error ? "Not up to date" : "Live");
}

const THEMES = ["system", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("offset-shim theme", theme);
  setText(themeButton, `Theme: ${theme}`);
  document.dispatchEvent(new Event("themechange"));
}

themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));

document.getElementById("token").addEventListener("click", () => askForToken("").then(pollNow, () => {}));
document.addEventListener("visibilitychange", () => (document.visibilityState === "visible" ? pollNow() : running?.abort()));
window.addEventListener("hashchange", open);

const kept = localStorage.getItem("offset-shim theme");
setTheme(THEMES.includes(kept) ? kept : "system");
try {
  const { token_for: wanted } = await get("v1/access");
  document.getElementById("token").hidden = wanted === "nothing";
  if (wanted === "all" && !token.get()) await askForToken("This shim tells nothing without its token.").catch(() => {});
} catch (error) {
  if (!(error instanceof Failed)) throw error; // the poll says so, too
}
open();
