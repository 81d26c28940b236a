// Elements are made from data and never from markup: a group's name is text, whatever is in it.

/** An element. `attributes`: `on…` are listeners, `class`, `data-…` and the like as in HTML; false and null leave one out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((each) => each !== null && each !== undefined));
  return node;
}

/** Sets a node's text, and touches the page only where it is another one. */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/**
 * Keeps the children of `parent` as `items` are, in their order: a child stays the same node for as long as its key is
 * there, so that what has the focus keeps it. `make(item)` gives `{node, update(item)}`.
 */
export function keyed(parent, key, make) {
  const kept = new Map();
  return (items) => {
    const keys = new Set(items.map(key));
    for (const [name, each] of kept) {
      if (!keys.has(name)) {
        each.node.remove();
        kept.delete(name);
      }
    }
    let before = parent.firstChild;
    for (const item of items) {
      const name = key(item);
      if (!kept.has(name)) kept.set(name, make(item));
      const { node, update } = kept.get(name);
      update(item);
      if (node === before) before = before.nextSibling;
      else parent.insertBefore(node, before);
    }
  };
}

/** A table in a frame that scrolls by itself. `columns`: `{label, class}`. Gives `{node, body, heads}`. */
export function table(label, columns, className = "") {
  const heads = columns.map((each) => el("th", { scope: "col", role: "columnheader", class: each.class }, each.label));
  const body = el("tbody", { role: "rowgroup" });
  const node = el(
    "div",
    { class: `frame ${className}`, role: "region", "aria-label": label, tabindex: "0" },
    el("table", { role: "table" }, el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), body),
  );
  return { node, body, heads };
}

/** A cell; `label` is shown before it where the table is narrow. */
export function cell(label, className, ...children) {
  return el("td", { role: "cell", "data-label": label, class: className }, ...children);
}

export function name(text) {
  return el("span", { class: "name" }, text === "" ? "(no name)" : text);
}

export function badge(text, kind) {
  return el("span", { class: "badge", "data-kind": kind ?? text }, text);
}

export function setBadge(node, text, kind = text) {
  setText(node, text);
  if (node.dataset.kind !== kind) node.dataset.kind = kind;
}

/** Buttons for the part of a long list that is shown; `go(offset)` is called with where the part is to begin. */
export function pager(go) {
  let offset = 0;
  let size = 1;
  const earlier = el("button", { type: "button", disabled: true, onclick: () => go(Math.max(0, offset - size)) }, "Previous");
  const later = el("button", { type: "button", disabled: true, onclick: () => go(offset + size) }, "Next");
  const where = el("span", { role: "status" });
  return {
    node: el("div", { class: "pager" }, earlier, where, later),
    show(from, limit, total) {
      [offset, size] = [from, limit];
      earlier.disabled = from === 0;
      later.disabled = from + limit >= total;
      setText(where, total === 0 ? "none" : `${from + 1}–${Math.min(from + limit, total)} of ${total.toLocaleString("en")}`);
    },
  };
}
