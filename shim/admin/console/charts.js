// Charts over time. uPlot is a script of its own, loaded before this one.

import { el } from "./dom.js";
import { clock, count, short, time } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const LEAST_S = 300; // of time in a chart: one sample alone would be given years
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];

/** A colour of the style sheet, as it is in the theme of now. */
function colour(name) {
  const probe = el("span", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * Lines over time. `show(label, times, series)`: times in ms, `series` as `[{label, values}]`, a value null for none;
 * `label` says in words what is to be seen. `stepped`: a value holds until the next one.
 */
export function lineChart(className, { stepped = false, fromZero = true } = {}) {
  const node = el("div", { class: `chart ${className}`, role: "img" });
  let plot = null;
  let made = "";
  let last = null;

  function options(series) {
    const grid = { stroke: () => colour("--line"), width: 1 };
    const axis = { stroke: () => colour("--quiet"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    return {
      width: Math.max(node.clientWidth, 100),
      height: node.clientHeight || 220,
      scales: { x: { range: (plot, from, to) => timeRange(plot.data[0], from, to) }, y: { range: (_, low, high) => range(low, high, fromZero) } },
      axes: [{ ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((at) => clock(at * 1000, step)) }, { ...axis, size: 62, values: (_, ticks) => ticks.map(short) }],
      padding: [12, 48, 0, 0],
      cursor: { y: false },
      legend: { live: true },
      series: [
        { label: "Time", value: (_, at) => (at === null ? "–" : time(at * 1000)) },
        ...series.map((each, index) => ({
          label: each.label,
          stroke: () => colour(COLOURS[index % COLOURS.length]),
          width: 2,
          spanGaps: false, // what is not known, or not there, is no line
          points: { show: each.values.length < 3, size: 6, filter: (plot, at, all) => (all ? null : alone(plot.data[at])) },
          paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          value: (_, value) => count(value),
        })),
      ],
    };
  }

  function show(label, times, series) {
    last = [label, times, series];
    node.setAttribute("aria-label", label);
    node.dataset.points = String(times.length);
    const data = [rising(times), ...series.map((each) => each.values)];
    const shape = JSON.stringify([series.map((each) => each.label), times.length < 3]);
    if (plot === null || shape !== made) {
      plot?.destroy();
      plot = new uPlot(options(series), data, node);
      made = shape;
    } else {
      plot.setData(data);
    }
  }

  const resizing = new ResizeObserver(() => {
    if (plot !== null && node.clientWidth > 0) plot.setSize({ width: node.clientWidth, height: node.clientHeight || 220 });
  });
  resizing.observe(node);
  const recolour = () => {
    made = "";
    if (last !== null) show(...last);
  };
  document.addEventListener("themechange", recolour);
  return {
    node,
    show,
    stop() {
      resizing.disconnect();
      document.removeEventListener("themechange", recolour);
      plot?.destroy();
      plot = null;
    },
  };
}

/** In seconds, and no two the same: what is at the same time as another would not be drawn. */
function rising(times) {
  let last = -Infinity;
  return times.map((ms) => (last = Math.max(ms / 1000, last + 1e-6)));
}

/** In seconds: of what there is, up to now where that is not long ago; or the part that somebody has chosen. */
function timeRange(times, from, to) {
  const [first, last] = [times[0], times.at(-1)];
  if (times.length > 1 && (from !== first || to !== last)) return [from, to];
  const now = Date.now() / 1000;
  const end = times.length === 0 || now - last < LEAST_S ? Math.max(now, last ?? 0) : last;
  return [Math.min(first ?? end, end - LEAST_S), end];
}

/** Where the values are that have none beside them: no line would show them. */
function alone(values) {
  return values.flatMap((value, at) => (value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null ? [at] : []));
}

function range(low, high, fromZero) {
  if (low === null || high === null) return [0, 1];
  const bottom = fromZero ? 0 : low;
  const room = Math.max((high - bottom) * 0.08, high === bottom ? 1 : 0);
  return [fromZero ? 0 : Math.max(0, bottom - room), high + room];
}

/** A line as small as a word. `show(samples)`: `[[ms, value or null], …]`. */
export function spark() {
  const line = document.createElementNS(SVG, "polyline");
  const node = document.createElementNS(SVG, "svg");
  node.setAttribute("class", "spark");
  node.setAttribute("viewBox", "0 0 100 24");
  node.setAttribute("preserveAspectRatio", "none");
  node.setAttribute("role", "img");
  node.append(line);
  return {
    node,
    show(samples) {
      const known = samples.filter(([, value]) => value !== null);
      const most = Math.max(...known.map(([, value]) => value), 0);
      const begun = known[0]?.[0] ?? 0;
      const wide = (known.at(-1)?.[0] ?? 0) - begun || 1;
      const at = ([ms, value]) => `${(((ms - begun) / wide) * 98 + 1).toFixed(1)},${(22 - (most ? (value / most) * 20 : 0)).toFixed(1)}`;
      const points = known.length === 1 ? [known[0], [begun + 1, known[0][1]]] : known;
      line.setAttribute("points", points.map(at).join(" "));
      const label = known.length ? `lag over time: now ${count(known.at(-1)[1])}, at most ${count(most)}` : "lag over time: not known yet";
      if (node.getAttribute("aria-label") !== label) node.setAttribute("aria-label", label);
    },
  };
}
