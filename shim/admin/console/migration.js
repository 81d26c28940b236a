// The migration board: a column for each step, a card for each group.

import { get } from "./api.js";
import { badge, el, keyed, name, setBadge, setText } from "./dom.js";
import { moveButtons } from "./moves.js";
import { IN_SHORT, STEPS, ago, count, duration, plural } from "./words.js";

const FIRST = 10;
const MOST = 200;
const TYPING_MS = 200;

export function migrationView(root, _, pollNow) {
  let text = "";
  let typing = 0;
  const search = el("input", {
    type: "search", id: "search", placeholder: "A part of the name", autocomplete: "off",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        text = search.value;
        pollNow();
      }, TYPING_MS);
    },
  });
  const columns = STEPS.map((step) => column(step, pollNow));
  root.append(
    el("h1", {}, "Migration"),
    el("p", { class: "quiet" }, "Where each group's offsets are, from ZooKeeper on the left to the cluster's own coordinator on the right. What a button does is said, and asked, before it is done."),
    el("div", { class: "controls", role: "search" }, el("p", { class: "field wide" }, el("label", { for: "search" }, "Search"), search)),
    el("div", { class: "board" }, ...columns.map((each) => each.node)),
  );

  async function poll(signal) {
    const told = await Promise.all(columns.map((each) => get("v1/groups/summary", { search: text, step: each.step, limit: each.limit }, signal)));
    told.forEach((each, index) => columns[index].show(each));
  }

  return { title: "Migration", poll, stop: () => clearTimeout(typing) };
}

function column(step, pollNow) {
  const self = { step, limit: FIRST };
  const total = el("span", { class: "total" });
  const cards = el("ul", { class: "cards" });
  const show = keyed(cards, (row) => row.group, (row) => card(row, pollNow));
  const rest = el("p", { class: "quiet", hidden: true });
  const more = el("button", { type: "button", hidden: true, onclick: () => {
    self.limit = MOST;
    pollNow();
  } }, "Show more");
  const heading = `step-${step.replace("+", "-")}`;
  self.node = el("section", { "aria-labelledby": heading, "data-step": step },
    el("h2", { id: heading }, badge(step), total), el("p", { class: "quiet" }, IN_SHORT[step]), cards, rest, more);
  self.show = (told) => {
    setText(total, count(told.matching));
    self.node.classList.toggle("empty", told.matching === 0);
    show(told.groups);
    const left = told.matching - told.groups.length;
    rest.hidden = left <= 0;
    setText(rest, left > 0 ? `and ${plural(left, "group")} more${self.limit === MOST ? ": search for them" : ""}` : "");
    more.hidden = left <= 0 || self.limit === MOST;
  };
  return self;
}

function card(row, moved) {
  const state = badge(row.state);
  const facts = el("p", { class: "quiet" });
  const since = el("p", { class: "quiet" });
  const alarm = el("p", { class: "alarm", hidden: true });
  const buttons = moveButtons(moved);
  const link = el("a", { href: `#/group/${encodeURIComponent(row.group)}` }, name(row.group));
  const node = el("li", { class: "card", "data-group": row.group }, el("h3", {}, link), el("p", {}, state), facts, since, alarm, buttons.node);
  return {
    node,
    update(now) {
      setBadge(state, now.state);
      const waits = now.lag_seconds === null || now.lag_seconds < 1 ? "" : `, a change waits for ${duration(now.lag_seconds)}`;
      setText(facts, `${plural(now.members, "member")}, lag ${count(now.lag)}${waits}`);
      setText(since, now.changed_ms === null ? "" : `since ${ago(now.changed_ms)}${now.cause ? `: ${now.cause}` : ""}`);
      alarm.hidden = !now.alarm;
      setText(alarm, now.alarm);
      buttons.update(now);
    },
  };
}
