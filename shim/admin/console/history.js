// A group's offsets over time, as the shim's history has them.

import { Failed, get } from "./api.js";
import { lineChart } from "./charts.js";
import { cell, el, name, pager, setText, table } from "./dom.js";
import { count, plural, time } from "./words.js";

const LAST = 1000;
const ROWS = 50;
const EVERY_MS = 10000;
const REST = 20; // the shim reads it from its disk: what takes long is asked for so many times as seldom
const NOTHING = "The history has nothing of this group: only what was committed while the shim served it is in it.";
const ELSEWHERE = "This log is moved between two places, or was: what was committed while a partition was at the other one is in the history there, which is not looked at.";
const COLUMNS = [{ label: "Time" }, { label: "Topic" }, { label: "Partition", class: "number" }, { label: "From", class: "number" }, { label: "To", class: "number" }, { label: "By" }];

export function historyPart(group) {
  const select = el("select", { id: "history-partition", onchange: () => showFrom(0) });
  const chart = lineChart("tall", { stepped: true, fromZero: false });
  const list = table("Moves of offsets, the newest first", COLUMNS, "stack");
  const told = el("p", { class: "quiet", role: "status" });
  const choice = el("p", { class: "field" }, el("label", { for: "history-partition" }, "Partition"), select);
  const parts = pager(showFrom);
  const node = el("section", {}, el("h2", {}, "Offset history"), choice, chart.node, told, list.node, parts.node);
  let moves = [];
  let offset = 0;
  let due = -Infinity;
  let known = null;
  let stands = false;
  let elsewhere = false;

  function showFrom(from) {
    offset = from;
    show();
  }

  function show() {
    const mine = moves.filter((move) => key(move) === select.value);
    chart.node.hidden = mine.length === 0;
    if (mine.length) {
      const first = mine[0];
      chart.show(`Offset of ${first.topic} ${first.partition} over time, ${plural(mine.length, "move")}, ${mine.at(-1).deleted ? "deleted since" : `now ${count(mine.at(-1).to)}`}`, ...drawn(mine, stands ? Date.now() : null));
    }
    offset = offset < mine.length ? offset : 0;
    list.body.replaceChildren(...[...mine].reverse().slice(offset, offset + ROWS).map(moveRow));
    list.node.hidden = mine.length === 0;
    parts.show(offset, ROWS, mine.length);
    parts.node.hidden = mine.length <= ROWS;
    setText(told, moves.length === 0 ? (elsewhere ? `${NOTHING} ${ELSEWHERE}` : NOTHING) : `${plural(mine.length, "move")} of this partition, of the newest ${count(moves.length)} of the group. Commits that moved nothing are left out.`);
  }

  function choose() {
    const names = new Map(moves.map((move) => [key(move), `${move.topic} ${move.partition}`]));
    const wanted = [...names].sort(([, one], [, other]) => one.localeCompare(other, "en", { numeric: true }));
    const now = select.value;
    if (wanted.map(([value]) => value).join("\n") !== [...select.options].map((each) => each.value).join("\n")) {
      select.replaceChildren(...wanted.map(([value, text]) => el("option", { value }, text)));
      if (names.has(now)) select.value = now;
    }
    choice.hidden = wanted.length === 0;
  }

  return {
    node,
    /** Asks when the page is opened, and again where `state` is another one than then: the group has moved. `served`:
     * the shim does; of others the history does not say where they stand now. */
    async poll(signal, state, served) {
      const begun = performance.now();
      if (state === known || begun < due) return;
      try {
        moves = (await get("v1/groups/history", { group, last: LAST }, signal)).moves;
        elsewhere = moves.length === 0 && (await get("v1/overview", {}, signal)).log_moves;
        known = state;
        stands = served;
      } catch (error) {
        if (!(error instanceof Failed) || error.status === 401) throw error;
        setText(told, `The history cannot be told: ${error.message}`);
        return;
      } finally {
        const now = performance.now();
        due = now + Math.max(EVERY_MS, REST * (now - begun));
      }
      choose();
      show();
    },
    stop: chart.stop,
  };
}

/** Times and values: an offset that is deleted is there until then, and none from then on; any other until `now`. */
function drawn(moves, now) {
  const points = moves.flatMap(({ time_ms: at, from, to, deleted }) => (deleted ? [[at, from === -1 ? null : from], [at, null]] : [[at, to]]));
  if (now !== null) points.push([now, points.at(-1)[1]]);
  return [points.map(([at]) => at), [{ label: "Offset", values: points.map(([, offset]) => offset) }]];
}

function key(move) {
  return `${move.partition} ${move.topic}`;
}

function moveRow(move) {
  const who = [move.client_id, move.client_host, move.cause && `(${move.cause})`].filter(Boolean).join(" ") || "–";
  const back = !move.deleted && move.from !== null && move.from > move.to;
  const to = move.deleted ? el("span", { class: "alarm" }, "deleted") : el("span", {}, count(move.to), back ? el("span", { class: "alarm" }, " back") : "");
  return el("tr", { role: "row", class: back && "back" }, cell("Time", "first", time(move.time_ms)), cell("Topic", "", name(move.topic)), cell("Partition", "number", String(move.partition)), cell("From", "number", move.from === -1 ? "none" : count(move.from)), cell("To", "number", to), cell("By", "wrap", who));
}
