// @ts-check
// The parts of a step: texts, JSON and diffs, each with its label.

import { fetchEntry, textAddress } from "./api.js";
import { el } from "./dom.js";
import { size } from "./format.js";
import { foreign } from "./foreign.js";
import { jsonTree } from "./json_tree.js";
import { MAX_SHOWN, longText } from "./long_text.js";

/** @import {Block, Entry} from "./types.js" */

const DIFF_PREVIEW = 60;
const WORDS = { "-": "removed", "+": "added" };

/** @param {string} runId @param {Entry} entry @param {Block} block @param {number} index */
export function blockView(runId, entry, block, index) {
  const isError = block.label === "Error" || (block.label === "Result" && (entry.state === 1 || entry.state === 2));
  const head = el("div", { class: "block-head" }, el("span", { class: "block-label" }, block.label));
  if (block.path) head.append(foreign(block.path, "path"));
  const body = content(runId, entry, block, index);
  return el("div", { class: isError ? "block failed" : "block", role: "group", "aria-label": block.label }, head, body);
}

/** @param {string} runId @param {Entry} entry @param {Block} block @param {number} index @returns {HTMLElement} */
function content(runId, entry, block, index) {
  if (block.type === "diff") {
    const lines = diff(block.lines ?? []);
    return block.is_cut ? el("div", null, lines, rest(runId, entry, block, index)) : lines;
  }
  if (block.type === "json") {
    const tree = jsonTree(block.value);
    return block.is_cut ? el("div", null, tree, rest(runId, entry, block, index)) : tree;
  }
  return textOf(runId, entry, block, index);
}

/** The text of a block without its label. @param {string} runId @param {Entry} entry @param {Block} block @param {number} index */
export function textOf(runId, entry, block, index) {
  const whole = block.is_cut
    ? {
        length: block.length,
        load: async () => (await fetchEntry(runId, entry.seq)).blocks[index]?.text ?? block.text ?? "",
        download: block.pointer ? textAddress(runId, entry.seq, block.pointer) : null,
      }
    : null;
  return longText(block.text ?? "", whole, block.label);
}

/** Loads the rest of a JSON value or diff. @param {string} runId @param {Entry} entry @param {Block} block @param {number} index */
function rest(runId, entry, block, index) {
  const bar = el("div", { class: "long-text-bar" });
  const button = el("button", { type: "button", class: "small", "data-focus": `all-${index}` }, `Show all (${size(block.length)})`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const full = (await fetchEntry(runId, entry.seq)).blocks[index];
      if (full) bar.parentElement?.replaceWith(content(runId, entry, { ...full, is_cut: false }, index));
    } catch (error) {
      button.disabled = false;
      bar.append(el("span", { class: "error", role: "alert" }, error instanceof Error ? error.message : "Loading failed."));
    }
  });
  bar.append(button);
  if (block.length > MAX_SHOWN && block.pointer) {
    bar.append(el("a", { href: textAddress(runId, entry.seq, block.pointer), download: "" }, `Download all (${size(block.length)})`));
  }
  return bar;
}

/** @param {[string, string][]} lines */
function diff(lines) {
  const body = el("div", { class: "diff" });
  const add = (/** @type {number} */ from, /** @type {number} */ until) => {
    for (const [sign, text] of lines.slice(from, until)) {
      const word = WORDS[/** @type {"-" | "+"} */ (sign)];
      const name = sign === "-" ? "removed" : sign === "+" ? "added" : sign === "@" ? "hunk" : "same";
      body.append(
        el("div", { class: `diff-line ${name}` },
          el("span", { class: "diff-sign", "aria-hidden": "true" }, sign === "@" ? "" : sign),
          word ? el("span", { class: "unseen" }, `${word}: `) : null,
          foreign(text.slice(0, 4000), "diff-text")));
    }
  };
  add(0, DIFF_PREVIEW);
  if (lines.length <= DIFF_PREVIEW) return body;
  const more = el("button", { type: "button", class: "small" }, `Show all ${lines.length} lines`);
  const box = el("div", null, body, el("div", { class: "long-text-bar" }, more));
  more.addEventListener("click", () => {
    add(DIFF_PREVIEW, lines.length);
    more.remove();
  });
  return box;
}
