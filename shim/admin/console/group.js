// One group: where it stands, its partitions and members, and who moved which offset when.

import { Failed, get } from "./api.js";
import { lineChart } from "./charts.js";
import { badge, cell, el, keyed, name, pager, setBadge, setText, table } from "./dom.js";
import { historyPart } from "./history.js";
import { Samples } from "./lag.js";
import { sayMissing } from "./missing.js";
import { moveButtons } from "./moves.js";
import { ago, count, duration, kindOf, plural, short, stepOf, time } from "./words.js";

const LIMIT = 100;
const NAMED = 5;
const PARTITIONS = [{ label: "Topic" }, { label: "Partition", class: "number" }, { label: "Committed", class: "number" }, { label: "Log end", class: "number" }, { label: "Lag", class: "number" }, { label: "Last commit" }, { label: "Assigned to" }];
const MEMBERS = [{ label: "Client id" }, { label: "Host" }, { label: "Member id" }, { label: "Heard of" }, { label: "Session" }, { label: "Assigned" }];

export function groupView(root, group, pollNow) {
  const step = badge("…");
  const state = badge("…");
  const kind = badge("");
  const alarm = el("p", { class: "alarm", hidden: true });
  const buttons = moveButtons(pollNow);
  const since = el("p", { class: "quiet" });
  const rebalance = el("p", { class: "quiet" });
  const inZooKeeper = el("p", { class: "quiet" });
  const tiles = Object.fromEntries(["Lag", "Members", "Partitions", "Last commit"].map((label) => [label, el("dd", {})]));
  const chart = lineChart("tall");
  const samples = new Samples();
  const partitions = table("Partitions", PARTITIONS, "stack");
  const members = table("Members", MEMBERS, "stack");
  const noMembers = el("p", { class: "quiet" }, "No members.");
  const noOffsets = el("p", { class: "quiet" });
  const history = historyPart(group);
  let offset = 0;
  let newest = null;
  let begun = false;
  const parts = pager((from) => {
    offset = from;
    if (newest !== null) showPartitions(newest);
  });
  const partitionRows = keyed(partitions.body, (at) => `${at.partition} ${at.topic}`, partitionRow);
  const memberRows = keyed(members.body, (each) => each.member_id, memberRow);

  root.append(
    el("p", { class: "path" }, el("a", { href: "#/groups" }, "Groups"), " / "),
    el("div", { class: "title" }, el("h1", {}, name(group)), step, state, kind),
    alarm,
    since,
    rebalance,
    buttons.node,
    el("dl", { class: "tiles" }, ...Object.entries(tiles).map(([label, value]) => el("div", { class: "tile" }, el("dt", {}, label), value))),
    el("section", {}, el("h2", {}, "Lag over time"), chart.node),
    el("section", {}, el("h2", {}, "Partitions"), partitions.node, noOffsets, parts.node),
    el("section", {}, el("h2", {}, "Members"), members.node, noMembers, inZooKeeper),
    history.node,
  );
  const content = [...root.children];
  const missing = sayMissing("There is no such group", "#/groups", "All groups");
  parts.node.hidden = true;

  /** The page of a group, or that there is none: it may come, or go, while the page is open. */
  function turn(nodes) {
    if (root.firstElementChild !== nodes[0]) root.replaceChildren(...nodes);
  }

  function showPartitions(told) {
    const owners = new Map(told.member_details.flatMap((each) => (each.partitions ?? []).map((at) => [`${at.partition} ${at.topic}`, each.client_id])));
    const sorted = [...told.offsets].sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1) || (one.topic < other.topic ? -1 : one.topic > other.topic ? 1 : one.partition - other.partition));
    offset = offset < sorted.length ? offset : 0;
    const most = sorted[0]?.lag ?? 0;
    partitionRows(sorted.slice(offset, offset + LIMIT).map((at) => ({ ...at, most, owner: owners.get(`${at.partition} ${at.topic}`) ?? "" })));
    parts.show(offset, LIMIT, sorted.length);
    parts.node.hidden = sorted.length <= LIMIT;
    noOffsets.hidden = sorted.length > 0;
    partitions.node.hidden = sorted.length === 0;
  }

  async function poll(signal) {
    try {
      await look(signal);
    } catch (error) {
      if (!(error instanceof Failed) || error.status !== 404) throw error;
      missing.say(error.message);
      turn([missing.node]);
    }
  }

  async function look(signal) {
    const asked = { group };
    const [told, kept] = await Promise.all([get("v1/groups/describe", asked, signal), begun ? null : get("v1/groups/lag/recent", asked, signal)]);
    if (kept !== null) samples.begin(kept.samples);
    begun = true;
    turn(content);
    newest = told;
    const committed = told.offsets.filter((at) => at.offset !== null);
    const known = committed.filter((at) => at.lag !== null);
    const lag = committed.length === 0 || known.length < committed.length ? null : known.reduce((total, at) => total + at.lag, 0);
    samples.add(Date.now(), lag);
    setBadge(step, stepOf(told));
    setBadge(state, told.state);
    setBadge(kind, kindOf(told));
    kind.hidden = kindOf(told) === "";
    setText(noOffsets, told.type === "Share" ? "No committed offsets: where a share group stands kafka-share-groups.sh --describe --offsets says." : "No offsets.");
    alarm.hidden = !told.alarm;
    setText(alarm, told.alarm);
    setText(since, told.changed_ms === null ? "" : `At this step since ${time(told.changed_ms)}${told.cause ? `: ${told.cause}` : ""}`);
    setText(rebalance, told.generation === null ? "" : generation(told.generation));
    buttons.update(told);
    setText(tiles.Lag, short(lag));
    setText(tiles.Members, count(told.members));
    setText(tiles.Partitions, count(told.offsets.length));
    setText(tiles["Last commit"], stepOf(told) === "upstream" ? "not known here" : told.last_commit === null ? "–" : ago(told.last_commit.time_ms));
    tiles["Last commit"].title = stepOf(told) === "upstream" ? "The cluster has the group." : "";
    chart.show(`Lag of ${group}: ${lag === null ? "not known" : plural(lag, "record")} now`, samples.times, [{ label: "Records", values: samples.values }]);
    showPartitions(told);
    const awaited = new Set(told.generation?.awaited.map((each) => each.member_id));
    memberRows(told.member_details.map((each) => ({ ...each, awaited: awaited.has(each.member_id), now: told.now_ms })));
    members.node.hidden = told.member_details.length === 0;
    noMembers.hidden = told.member_details.length > 0;
    setText(inZooKeeper, consumersInZooKeeper(told.zookeeper_consumers));
    await history.poll(signal, moved(told), stepOf(told) !== "upstream");
  }

  return {
    title: group || "(no name)",
    poll,
    stop() {
      chart.stop();
      history.stop();
    },
  };
}

/** A text that is another one when an offset was committed or deleted, of a group that the shim serves: of no other is there a history. */
function moved(told) {
  const newest = told.offsets.reduce((latest, at) => Math.max(latest, at.committed_ms ?? 0), 0);
  const committed = told.offsets.filter((at) => at.offset !== null).length;
  return JSON.stringify([told.last_commit, stepOf(told), newest, committed]);
}

/** Old consumers, whom no coordinator has as members; null where nobody knows. */
function consumersInZooKeeper(ids) {
  if (ids === null) return "Whether consumers are in ZooKeeper is not known now.";
  return ids.length === 0 ? "" : `${plural(ids.length, "consumer")} in ZooKeeper: ${some(ids)}`;
}

/** Which generation it is, why the last rebalance began, and who is awaited, of a group that the shim serves. */
function generation(now) {
  const parts = [`Generation ${now.generation_id}, ${now.state}${now.since_ms === null ? "" : ` since ${time(now.since_ms)}`}`];
  if (now.reason) parts.push(`Last rebalance: ${now.reason}`);
  if (now.waited_for) parts.push(`It had to wait for: ${now.waited_for}`);
  if (now.awaited.length > 0) parts.push(`Awaited${now.until_ms === null ? "" : ` until ${time(now.until_ms)}`}: ${some(now.awaited.map((each) => each.words))}`);
  if (now.pending.length > 0) parts.push(`Given an id, and not joined: ${some(now.pending)}`);
  return parts.join(". ");
}

function some(names) {
  return names.length <= NAMED ? names.join(", ") : `${names.slice(0, NAMED).join(", ")} and ${count(names.length - NAMED)} more`;
}

function partitionRow(at) {
  const committed = cell("Committed", "number");
  const end = cell("Log end", "number");
  const lag = el("span", {});
  const bar = el("meter", { min: "0", "aria-hidden": "true" });
  const last = cell("Last commit", "");
  const owner = cell("Assigned to", "");
  const node = el("tr", { role: "row" }, cell("Topic", "first", name(at.topic)), cell("Partition", "number", String(at.partition)), committed, end, cell("Lag", "number", bar, lag), last, owner);
  return {
    node,
    update(now) {
      setText(committed, count(now.offset));
      setText(end, count(now.log_end_offset));
      end.title = now.why;
      setText(lag, count(now.lag));
      bar.max = Math.max(now.most, 1);
      bar.value = now.lag ?? 0;
      setText(last, now.committed_ms === null ? "–" : ago(now.committed_ms));
      setText(owner, now.owner || "–");
    },
  };
}

function memberRow(member) {
  const heard = cell("Heard of", "");
  const session = cell("Session", "");
  const assigned = cell("Assigned", "");
  const id = member.group_instance_id ? `${member.member_id} (${member.group_instance_id})` : member.member_id;
  const node = el("tr", { role: "row" }, cell("Client id", "first", name(member.client_id)), cell("Host", "", member.client_host), cell("Member id", "wrap", id), heard, session, assigned);
  return {
    node,
    update(its) {
      setText(heard, `${its.is_silent ? "silent; " : ""}${ago(its.heard_ms, its.now)}`);
      setText(session, sessionOf(its));
      setText(assigned, `${its.awaited ? "awaited; " : ""}${assignment(its.partitions)}`);
    },
  };
}

/** `45 s, ends in 41 s`; one that waits to be answered stays for as long. */
function sessionOf(member) {
  if (member.session_timeout_ms === null) return "–";
  const timeout = duration(member.session_timeout_ms / 1000);
  return member.removed_ms === null ? timeout : `${timeout}, ends in ${duration((member.removed_ms - member.now) / 1000)}`;
}

/** `orders 0, 1; bills 2` */
function assignment(partitions) {
  if (partitions === null) return "not told";
  const byTopic = new Map();
  for (const { topic, partition } of partitions) byTopic.set(topic, [...(byTopic.get(topic) ?? []), partition]);
  return [...byTopic].map(([topic, numbers]) => `${topic} ${numbers.join(", ")}`).join("; ") || "none";
}
