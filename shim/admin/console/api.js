// The shim's admin interface, asked with fetch. The token is kept for this tab alone, until it is closed.

const KEPT = "offset-shim admin token";

export class Failed extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEPT, text) : sessionStorage.removeItem(KEPT)),
};

async function asked(path, options, body) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { ...options, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The shim does not answer. Does it run?");
  }
  if (!response.ok) {
    const document = await response.json().catch(() => ({}));
    throw new Failed(document.error ?? `The shim answers ${response.status}.`, response.status);
  }
  return response;
}

/** A document. `query`: names and values, a value that is "" left out. Throws Failed, and AbortError. */
export async function get(path, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(given).toString();
  const response = await asked(search ? `${path}?${search}` : path, { signal });
  return response.json();
}

/** The row of one group, of an answer in lines. Throws Failed where it was not done. */
export async function ofOne(path, group, more = {}) {
  const response = await asked(path, { method: "POST" }, { groups: [group], ...more });
  const lines = (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const row = lines.find((line) => "group" in line);
  if (row === undefined) throw new Failed("The answer was cut off; what became of it is told by the group's step.");
  if (row.error) throw new Failed(row.error);
  return row;
}
