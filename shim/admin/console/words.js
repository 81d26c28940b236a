// Numbers, times and steps as people read them.

export const STEPS = ["zookeeper", "zookeeper+dual", "kafka+dual", "kafka", "upstream+dual", "upstream"];

// What can be tried at each step; whether it is refused is found out when it is made.
const ONWARD = ["advance", "rollback"];
export const MOVES = { zookeeper: ["start"], "zookeeper+dual": ONWARD, "kafka+dual": ONWARD, kafka: ONWARD, "upstream+dual": ONWARD, upstream: ["start", "rollback"] };

export function stepOf(row) {
  return `${row.offsets_storage}${row.dual_commit_enabled ? "+dual" : ""}`;
}

/** Of a group whose clients have another protocol than the classic one, which kind it is: of the others there is nothing to say. */
export function kindOf(row) {
  return row.type === "Classic" ? "" : `${row.type} group`;
}

export function count(number) {
  return number === null || number === undefined ? "–" : number.toLocaleString("en");
}

/** Short, for a tile or an axis. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(number) >= size) return `${+(number / (unit === "k" ? 1e3 : size)).toPrecision(3)}${unit}`;
  }
  return number.toLocaleString("en");
}

export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const at = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A tick of an axis; `step`: seconds between two. */
export function clock(ms, step) {
  const whole = time(ms);
  if (step < 1) return `${whole.slice(11)}.${String(Math.round(ms) % 1000).padStart(3, "0")}`;
  return step < 60 ? whole.slice(11) : step < 86400 ? whole.slice(5, 16) : whole.slice(0, 10);
}

/** `now`: by the clock of `ms`, where that is not this machine's. */
export function ago(ms, now = Date.now()) {
  if (ms === null || ms === undefined) return "–";
  return `${duration((now - ms) / 1000)} ago`;
}

/** As the shim says it: full units, of which there are two at least, but for seconds. */
export function duration(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// Where a group's offsets are, and what a commit waits for besides the log, at each step: as shim/migration/stores.py has it.
const AT = {
  zookeeper: "ZooKeeper has the offsets that count, and each commit waits until ZooKeeper has it",
  "zookeeper+dual": "ZooKeeper has the offsets that count, and each commit waits until ZooKeeper has it; the shim's log has each of them, too",
  "kafka+dual": "the shim's log has the offsets that count, and ZooKeeper follows",
  kafka: "the shim's log alone has the offsets that count",
  "upstream+dual": "the shim's log has the offsets that count, and each commit waits until the cluster has it, too",
  upstream: "the cluster's own coordinator serves it, and the shim passes it through",
};

/** The same, for the head of a column. */
export const IN_SHORT = {
  zookeeper: "ZooKeeper counts",
  "zookeeper+dual": "ZooKeeper counts, the log as well",
  "kafka+dual": "The log counts, ZooKeeper follows",
  kafka: "The shim's log",
  "upstream+dual": "The log counts, the cluster as well",
  upstream: "Passed through to the cluster",
};

/** Where a move leads: null where only the shim can tell, as it depends on where the group came from. */
export function after(move, step) {
  if (move === "start") return step === "zookeeper" ? "zookeeper+dual" : "kafka";
  const to = STEPS.indexOf(step) + (move === "advance" ? 1 : -1);
  if (move === "rollback" && (step === "kafka" || step === "upstream")) return null;
  return STEPS[to] ?? null;
}

/** What will happen, a sentence each. */
export function consequences(move, step) {
  const to = after(move, step);
  const told = [`Now at ${step}: ${AT[step]}.`];
  if (to !== null) told.push(`Then at ${to}: ${AT[to]}.`);
  else if (step === "kafka") told.push(`Then one step back: at kafka+dual where its offsets came from ZooKeeper, otherwise with the cluster's own coordinator, as it was.`);
  else told.push(`Then at upstream+dual: ${AT["upstream+dual"]}. Only a group that once came from ZooKeeper has this step.`);
  const changesHands = step === "upstream" || to === "upstream" || (to === null && step === "kafka");
  told.push(
    changesHands
      ? "Its members have to rejoin, as in any rebalance, and go on where they stand; none has to be restarted."
      : "Its members go on, and none of them notices.",
  );
  told.push("All its offsets are compared first. Where one would be lost, or made up, the move is refused, and the group stays where it is.");
  return told;
}
