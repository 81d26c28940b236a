// The cluster, the shim, and how all groups do together.

import { get } from "./api.js";
import { lineChart } from "./charts.js";
import { badge, cell, el, name, setBadge, setText, table } from "./dom.js";
import { Samples } from "./lag.js";
import { STEPS, ago, count, plural, short } from "./words.js";

const FURTHEST = 8;

export function overviewView(root) {
  const tile = (label) => {
    const value = el("dd", {});
    return { value, node: el("div", { class: "tile" }, el("dt", {}, label), value) };
  };
  const tiles = { ready: tile("Shim"), cluster: tile("Cluster"), groups: tile("Groups"), lag: tile("Lag of all groups"), alarms: tile("Alarms") };
  const ready = badge("…");
  tiles.ready.value.append(ready);
  const facts = el("dl", { class: "facts" });
  const brokers = table("Brokers", [{ label: "Node id" }, { label: "Address" }, { label: "Clients' port here", class: "number" }], "stack");
  const listeners = table("Listeners", [{ label: "Listener" }, { label: "Listens on" }, { label: "Clients are told" }, { label: "Protocol" }], "stack");
  const steps = table("Groups by step", [{ label: "Step" }, { label: "Groups", class: "number" }], "");
  const furthest = table("Groups that are furthest behind", [{ label: "Group" }, { label: "Step" }, { label: "Lag", class: "number" }], "");
  const nothing = el("p", { class: "quiet nothing" }, "No group.");
  const chart = lineChart("medium");
  const samples = new Samples();

  root.append(
    el("h1", {}, "Overview"),
    el("dl", { class: "tiles" }, ...Object.values(tiles).map((each) => each.node)),
    el("section", {}, el("h2", {}, "Lag of all groups since this page was opened"), chart.node),
    el("div", { class: "columns" },
      el("section", {}, el("h2", {}, "Furthest behind"), furthest.node, nothing),
      el("section", {}, el("h2", {}, "Groups by step"), steps.node),
    ),
    el("div", { class: "columns" },
      el("section", {}, el("h2", {}, "Brokers"), brokers.node),
      el("section", {}, el("h2", {}, "Listeners"), listeners.node),
    ),
    el("section", {}, el("h2", {}, "This shim"), facts),
  );

  async function poll(signal) {
    const [shim, groups] = await Promise.all([
      get("v1/overview", {}, signal),
      get("v1/groups/summary", { sort: "lag", order: "desc", limit: FURTHEST }, signal),
    ]);
    const word = !shim.ready ? "not ready" : shim.owned ? "ready" : "stands by";
    setBadge(ready, word, shim.ready ? "ready" : "not ready");
    setText(tiles.cluster.value, shim.reachable ? plural(shim.brokers.length, "broker") : "not reachable");
    setText(tiles.groups.value, count(groups.total));
    setText(tiles.lag.value, short(groups.lag));
    setText(tiles.alarms.value, count(groups.alarms));
    tiles.alarms.node.classList.toggle("bad", groups.alarms > 0);
    samples.add(Date.now(), groups.lag);
    chart.show(`Lag of all groups: ${count(groups.lag)} records now`, samples.times, [{ label: "Records", values: samples.values }]);
    fill(brokers.body, shim.brokers.map((each) => [cell("Node id", "", String(each.node_id)), cell("Address", "", `${each.host}:${each.port}`), cell("Clients' port here", "number", String(each.port_here))]));
    fill(listeners.body, shim.listeners.map((each) => [cell("Listener", "", name(each.name)), cell("Listens on", "", each.listen), cell("Clients are told", "", each.advertised), cell("Protocol", "", each.security_protocol)]));
    fill(steps.body, STEPS.map((step) => [cell("Step", "", badge(step)), cell("Groups", "number", count(groups.steps[step]))]));
    fill(furthest.body, groups.groups.map((each) => [cell("Group", "", el("a", { href: `#/group/${encodeURIComponent(each.group)}` }, name(each.group))), cell("Step", "", badge(each.step)), cell("Lag", "number", count(each.lag))]));
    nothing.hidden = groups.total > 0;
    const told = {
      Version: shim.version,
      Started: ago(shim.started_ms),
      "Cluster id": shim.cluster_id ?? "not told",
      "Partitions of the offsets log": loadedOf(shim),
      ZooKeeper: shim.zookeeper ?? "none",
      "Token needed for": shim.token_for,
    };
    facts.replaceChildren(...Object.entries(told).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
  }

  return { title: "Overview", poll, stop: chart.stop };
}

/** Of the partitions of the log, how many are served; those of other shims are no concern of this one. */
function loadedOf(shim) {
  if (shim.owned === shim.partitions) return `${count(shim.loaded)} of ${count(shim.partitions)} loaded`;
  const others = shim.others.length ? `; others: ${shim.others.join(", ")}` : "";
  return `${count(shim.loaded)} of the ${count(shim.owned)} that are this shim's loaded (${count(shim.partitions)} in all${others})`;
}

/** Rows that have nothing to be kept; what is the same as before stays, and with it the focus. */
function fill(body, rows) {
  const wanted = rows.map((cells) => el("tr", { role: "row" }, ...cells));
  wanted.forEach((row, index) => {
    const now = body.children[index];
    if (now === undefined) body.append(row);
    else if (!now.isEqualNode(row)) now.replaceWith(row);
  });
  while (body.children.length > wanted.length) body.lastElementChild.remove();
}
