// @ts-check
// A JSON value as a tree that can be folded. Children are made when they are opened, so a deep or
// wide value costs only what is looked at.

import { el } from "./dom.js";
import { count } from "./format.js";
import { foreign } from "./foreign.js";
import { longText } from "./long_text.js";

const MAX_CHILDREN = 200;
const OPEN_DEPTH = 2;
const OPEN_CHILDREN = 20;
const INLINE_LENGTH = 72;

/** @param {unknown} value @returns {HTMLElement} */
export function jsonTree(value) {
  if (isObject(value)) {
    return el("div", { class: "json" }, children(value, 0));
  }
  return el("div", { class: "json" }, scalar(value, "Value"));
}

/** @param {unknown} value @returns {value is object} */
function isObject(value) {
  return typeof value === "object" && value !== null;
}

/** @param {object} value @param {number} depth @returns {HTMLElement} */
function children(value, depth) {
  const entries = Object.entries(value);
  const list = el("ul", { class: "json-children" });
  if (entries.length === 0) list.append(el("li", null, el("span", { class: "quiet" }, Array.isArray(value) ? "[ ]" : "{ }")));
  const add = (/** @type {number} */ from) => {
    for (const [key, child] of entries.slice(from, from + MAX_CHILDREN)) list.append(node(key, child, depth));
    const rest = entries.length - from - MAX_CHILDREN;
    if (rest > 0) {
      const more = el("li", null, el("button", { type: "button", class: "small", onclick: () => { more.remove(); add(from + MAX_CHILDREN); } }, `Show ${count(Math.min(rest, MAX_CHILDREN), "more entry").replace("entrys", "entries")}`));
      list.append(more);
    }
  };
  add(0);
  return list;
}

/** @param {string} key @param {unknown} value @param {number} depth */
function node(key, value, depth) {
  const name = foreign(key, "json-key");
  if (!isObject(value)) return el("li", null, name, scalar(value, key));
  const length = Object.keys(value).length;
  const summary = el("span", { class: "quiet" }, Array.isArray(value) ? `[ ${count(length, "item")} ]` : `{ ${count(length, "key")} }`);
  if (length === 0) return el("li", null, name, el("span", { class: "quiet" }, Array.isArray(value) ? "[ ]" : "{ }"));
  const details = el("details", null, el("summary", null, name, summary));
  const open = () => {
    if (details.childElementCount === 1) details.append(children(value, depth + 1));
  };
  details.addEventListener("toggle", open);
  if (depth + 1 < OPEN_DEPTH && length <= OPEN_CHILDREN) {
    details.open = true;
    open();
  }
  return el("li", null, details);
}

/** @param {unknown} value @param {string} label */
function scalar(value, label) {
  if (typeof value === "string") {
    if (value.length > INLINE_LENGTH || value.includes("\n")) return el("div", { class: "json-text" }, longText(value, null, label));
    return foreign(value, "json-string");
  }
  return el("span", { class: "json-literal" }, String(value));
}
