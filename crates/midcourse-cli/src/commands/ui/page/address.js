// @ts-check
// The addresses of the views within the page.

/**
 * What the addresses of the page begin with: nothing in `midcourse ui`, `/p/PROJECT` in `midcourse
 * serve`. So a tab always belongs to the project in its address.
 */
export const BASE = /^\/p\/[^/]+/.exec(location.pathname)?.[0] ?? "";

/** The address of the list of runs. */
export const HOME = `${BASE}/`;

/**
 * The id of a run as a part of a path. Browsers remove the segments `.` and `..` even when they are
 * percent-encoded, so such an id gets a `~` before it.
 * @param {string} id
 */
export function segment(id) {
  const text = encodeURIComponent(id);
  return id === "" || id === "." || id === ".." || id.startsWith("~") ? `~${text}` : text;
}

/** @param {string} text */
function fromSegment(text) {
  const id = decodeURIComponent(text);
  return id.startsWith("~") ? id.slice(1) : id;
}

/** @param {string} id @param {number | null} [seq] */
export function runPath(id, seq) {
  const path = `${BASE}/run/${segment(id)}`;
  return seq === null || seq === undefined ? path : `${path}/${seq}`;
}

/** @param {string} a @param {string} b */
export function comparePath(a, b) {
  return `${BASE}/compare/${segment(a)}/${segment(b)}`;
}

/** @typedef {{view: "runs"} | {view: "run", id: string, seq: number | null} | {view: "compare", a: string, b: string} | {view: "unknown"}} Route */

/** @param {string} path @returns {Route} */
export function parsePath(path) {
  const [view, first, second] = path.slice(BASE.length).split("/").slice(1);
  if (!view) return { view: "runs" };
  try {
    if (view === "run" && first) {
      return { view: "run", id: fromSegment(first), seq: second && /^\d+$/.test(second) ? Number(second) : null };
    }
    if (view === "compare" && first && second) return { view: "compare", a: fromSegment(first), b: fromSegment(second) };
  } catch {
    // Not a valid percent-encoding.
  }
  return { view: "unknown" };
}
