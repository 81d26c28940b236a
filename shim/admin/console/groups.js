// All groups: searched, sorted and paged by the shim, so that a page of them costs the same however many there are.

import { get } from "./api.js";
import { spark } from "./charts.js";
import { badge, cell, el, keyed, name, pager, setBadge, setText, table } from "./dom.js";
import { Samples } from "./lag.js";
import { STEPS, count, kindOf } from "./words.js";

const LIMIT = 50;
const TYPING_MS = 200;
const MOST_SEEN = 60;
const COLUMNS = [
  { label: "Group", sort: "group" },
  { label: "Step", sort: "step" },
  { label: "State", sort: "state" },
  { label: "Members", sort: "members", class: "number" },
  { label: "Lag", sort: "lag", class: "number" },
  { label: "Lag over time" },
];
const DOWN_FIRST = new Set(["lag", "members"]);

export function groupsView(root, _, pollNow) {
  const asked = { search: "", step: "", state: "", sort: "lag", order: "desc", offset: 0, limit: LIMIT };
  const change = (more) => {
    Object.assign(asked, { offset: 0 }, more);
    pollNow();
  };
  let typing = 0;
  const search = el("input", {
    type: "search", id: "search", placeholder: "A part of the name", autocomplete: "off",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ search: search.value }), TYPING_MS);
    },
  });
  const step = choice("Step", "step", STEPS, (value) => change({ step: value }));
  const state = choice("State", "state", [], (value) => change({ state: value }));
  const list = table("Groups", COLUMNS, "stack dense");
  const parts = pager((offset) => change({ offset }));
  const nothing = el("p", { class: "quiet", hidden: true }, "No group.");
  const sorting = sortable(list.heads, asked, change);
  const rows = keyed(list.body, (row) => row.group, groupRow);

  root.append(
    el("h1", {}, "Groups"),
    el("div", { class: "controls", role: "search" }, el("p", { class: "field wide" }, el("label", { for: "search" }, "Search"), search), step.node, state.node),
    list.node, nothing, parts.node,
  );

  async function poll(signal) {
    const told = await get("v1/groups/summary", asked, signal);
    if (asked.offset > 0 && asked.offset >= told.matching) {
      asked.offset = 0;
      return poll(signal);
    }
    state.choose(Object.keys(told.states));
    sorting();
    rows(told.groups);
    nothing.hidden = told.groups.length > 0;
    parts.show(told.offset, LIMIT, told.matching);
    return undefined;
  }

  return { title: "Groups", poll, stop: () => clearTimeout(typing) };
}

function groupRow(row) {
  const step = badge(row.step);
  const state = badge(row.state);
  const kind = badge("");
  const members = cell("Members", "number");
  const lag = cell("Lag", "number");
  const line = spark();
  const seen = new Samples(MOST_SEEN);
  const alarm = el("span", { class: "alarm", hidden: true });
  const link = el("a", { href: `#/group/${encodeURIComponent(row.group)}` }, name(row.group));
  const node = el("tr", { role: "row" }, cell("Group", "first", link, alarm), cell("Step", "", step), cell("State", "", state, " ", kind), members, lag, cell("Lag over time", "", line.node));
  return {
    node,
    update(now) {
      setBadge(step, now.step);
      setBadge(state, now.state);
      setBadge(kind, kindOf(now));
      kind.hidden = kindOf(now) === "";
      setText(members, count(now.members));
      setText(lag, count(now.lag));
      if (now.lag !== null) seen.add(Date.now(), now.lag);
      line.show(seen.after(now.recent));
      alarm.hidden = !now.alarm;
      setText(alarm, now.alarm);
    },
  };
}

function choice(label, id, options, chosen) {
  const select = el("select", { id, onchange: () => chosen(select.value) });
  const choose = (names) => {
    const wanted = ["", ...names];
    if (wanted.join("\n") === [...select.options].map((each) => each.value).join("\n")) return;
    const now = select.value;
    select.replaceChildren(...wanted.map((each) => el("option", { value: each }, each || "any")));
    select.value = wanted.includes(now) ? now : "";
  };
  choose(options);
  return { node: el("p", { class: "field" }, el("label", { for: id }, label), select), choose };
}

/** The headings become buttons; gives what shows by which of them it is sorted. */
function sortable(heads, asked, change) {
  COLUMNS.forEach((column, index) => {
    if (!column.sort) return;
    const press = () => {
      const same = asked.sort === column.sort;
      const first = DOWN_FIRST.has(column.sort) ? "desc" : "asc";
      change({ sort: column.sort, order: same ? (asked.order === "asc" ? "desc" : "asc") : first });
    };
    heads[index].replaceChildren(el("button", { type: "button", class: "sort", onclick: press }, column.label));
  });
  return () =>
    COLUMNS.forEach((column, index) => {
      if (column.sort && column.sort === asked.sort) heads[index].setAttribute("aria-sort", asked.order === "asc" ? "ascending" : "descending");
      else heads[index].removeAttribute("aria-sort");
    });
}
