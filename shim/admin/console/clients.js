// The clients that have come: by what software they say they are, or by client id where they say nothing of the kind.

import { get } from "./api.js";
import { badge, cell, el, keyed, name, pager, setBadge, setText, table } from "./dom.js";
import { ago, count, plural } from "./words.js";

const LIMIT = 50;
const TELLING = 4;
const COLUMNS = [
  { label: "Client" },
  { label: "Version" },
  { label: "Speaks as" },
  { label: "Lowest versions" },
  { label: "Open", class: "number" },
  { label: "Seen", class: "number" },
  { label: "Last seen" },
  { label: "For example" },
];
const SHOWN = { all: "all", old: "before Kafka 2.1", dropped: "not with Kafka 4" };
const FITS = { all: () => true, old: (row) => row.speaks_as !== null, dropped: (row) => row.dropped };

export function clientsView(root) {
  const search = el("input", { type: "search", id: "search", placeholder: "Software, client id, host, principal", autocomplete: "off", oninput: () => go(0) });
  const which = el("select", { id: "which", onchange: () => go(0) }, ...Object.entries(SHOWN).map(([value, text]) => el("option", { value }, text)));
  const told = el("p", { class: "quiet", role: "status" });
  const list = table("Clients", COLUMNS, "stack");
  const nothing = el("p", { class: "quiet nothing", hidden: true }, "No client.");
  const parts = pager(go);
  const rows = keyed(list.body, key, clientRow);
  let offset = 0;
  let newest = [];

  root.append(
    el("h1", {}, "Clients"),
    el("p", { class: "quiet" }, "Those that have come since the shim began, the oldest first. Who does not say what software it is, is told by its client id; how old it is, by the lowest versions of APIs that it has used."),
    el("div", { class: "controls", role: "search" },
      el("p", { class: "field wide" }, el("label", { for: "search" }, "Search"), search),
      el("p", { class: "field" }, el("label", { for: "which" }, "Speaks"), which)),
    told, list.node, nothing, parts.node,
  );

  function go(from) {
    offset = from;
    show();
  }

  function show() {
    const wanted = search.value.toLowerCase();
    const fitting = newest.filter((row) => FITS[which.value](row) && texts(row).some((text) => text.toLowerCase().includes(wanted)));
    offset = offset < fitting.length ? offset : 0;
    rows(fitting.slice(offset, offset + LIMIT));
    parts.show(offset, LIMIT, fitting.length);
    parts.node.hidden = fitting.length <= LIMIT;
    nothing.hidden = fitting.length > 0;
    list.node.hidden = fitting.length === 0;
    const dropped = newest.filter((row) => row.dropped).length;
    setText(told, dropped ? `${plural(dropped, "kind of client uses", "kinds of clients use")} versions that Kafka 4 does not answer any more; the shim translates them.` : "");
  }

  async function poll(signal) {
    newest = (await get("v1/clients", {}, signal)).clients;
    show();
  }

  return { title: "Clients", poll };
}

function key(row) {
  return JSON.stringify(row.software === null ? [row.client_id] : [row.software, row.software_version]);
}

function texts(row) {
  return [row.software ?? "", row.software_version ?? "", row.client_id, row.client_host, row.principal];
}

function clientRow(row) {
  const says = row.software !== null;
  const age = badge("…");
  const versions = cell("Lowest versions", "wrap");
  const open = cell("Open", "number");
  const seen = cell("Seen", "number");
  const last = cell("Last seen", "");
  const example = cell("For example", "wrap");
  const who = says ? name(row.software) : el("span", {}, name(row.client_id || "(no client id)"), " ", el("span", { class: "quiet aside" }, "client id"));
  const node = el("tr", { role: "row" }, cell("Client", "first", who), cell("Version", "", says ? name(row.software_version) : "not told"), cell("Speaks as", "", age), versions, open, seen, last, example);
  return {
    node,
    update(now) {
      age.hidden = now.lowest_versions.length === 0;
      setBadge(age, now.speaks_as === null ? "2.1 or newer" : `Kafka ${now.speaks_as}`, now.dropped ? "dropped" : "spoken");
      showVersions(versions, now);
      setText(open, count(now.open_connections));
      setText(seen, count(now.connections));
      setText(last, now.open_connections ? "now" : ago(now.last_seen_ms));
      setText(example, [says ? now.client_id : "", now.client_host, now.principal].filter(Boolean).join(", "));
    },
  };
}

/** Those that Kafka 4 does not speak any more, marked; of a client that uses none of these, some. */
function showVersions(node, row) {
  const all = row.lowest_versions;
  const shown = row.dropped ? all.filter((each) => each.dropped) : all.slice(0, TELLING);
  const more = !row.dropped && all.length > shown.length ? ", …" : "";
  setText(node, shown.map(({ api, version }) => `${api} v${version}`).join(", ") + more || "–");
  node.classList.toggle("dropped", row.dropped);
  node.title = all.map(({ api, version, dropped }) => `${api} v${version}${dropped ? " (not in Kafka 4)" : ""}`).join("\n");
}
