// @ts-check
// Shows a text of any length. A long one begins as a preview; on demand all of it is added in pieces
// over several frames, each piece an element of its own, so that neither a megabyte nor a single
// endless line blocks the page.

import { addColoured } from "./ansi.js";
import { el } from "./dom.js";
import { number, size } from "./format.js";

const PREVIEW_LINES = 24;
const PREVIEW_CHARACTERS = 2400;
const PIECE_CHARACTERS = 8000;
const PIECES_PER_FRAME = 4;
/** Above this the server cuts the text, and only a download has all of it. */
export const MAX_SHOWN = 1_000_000;

/**
 * @typedef {object} Whole
 * @property {number} length of the whole text, in characters
 * @property {() => Promise<string>} load gets the whole text, at most MAX_SHOWN characters
 * @property {string | null} download address of the whole text
 */

/**
 * @param {string} text what is known of it
 * @param {Whole | null} whole given if `text` is not all of it
 * @param {string} label what it is, for screen readers
 * @returns {HTMLElement}
 */
export function longText(text, whole, label) {
  const preview = previewOf(text);
  const pre = el("div", { class: "text foreign" });
  if (preview.length === text.length && !whole) {
    addColoured(pre, text);
    return pre;
  }
  addColoured(pre, preview.trimEnd());
  const box = el("div", { class: "long-text" }, pre);
  const length = whole?.length ?? text.length;
  const more = el("button", { type: "button", class: "small", "data-focus": `all-${label}`, onclick: show }, `Show all (${size(length)})`);
  const bar = el("div", { class: "long-text-bar" }, more);
  box.append(bar);

  async function show() {
    more.disabled = true;
    more.textContent = "Loading…";
    let all = text;
    try {
      if (whole) all = await whole.load();
    } catch (error) {
      more.disabled = false;
      more.textContent = `Show all (${size(length)})`;
      bar.append(el("span", { class: "error", role: "alert" }, error instanceof Error ? error.message : "Loading failed."));
      return;
    }
    // One scrolling region per long text: the list around it stays easy to pass by.
    const region = el("div", { class: "text foreign whole", tabIndex: 0, role: "region", "aria-label": label });
    pre.replaceWith(region);
    addPieces(region, all);
    more.remove();
    if (all.length < length) {
      bar.append(el("span", { class: "quiet" }, `The first ${number(all.length)} of ${number(length)} characters.`));
      if (whole?.download) bar.append(el("a", { href: whole.download, download: "" }, `Download all (${size(length)})`));
    } else {
      bar.append(el("button", { type: "button", class: "small", onclick: () => box.replaceWith(longText(text, whole, label)) }, "Show less"));
    }
    region.focus({ preventScroll: true });
  }
  return box;
}

/** @param {string} text */
export function previewOf(text) {
  let end = Math.min(text.length, PREVIEW_CHARACTERS);
  let at = -1;
  for (let line = 0; line < PREVIEW_LINES; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at >= end) return cutAt(text, end);
  }
  end = at;
  // A rest of two lines is shown rather than hidden behind a button.
  const rest = text.slice(end);
  if (text.length <= PREVIEW_CHARACTERS && rest.trim().split("\n").length <= 3) return text;
  return cutAt(text, end);
}

/** Cuts at a position, but not through an escape sequence or a pair of surrogates. @param {string} text @param {number} end */
function cutAt(text, end) {
  if (end >= text.length) return text;
  const escape = text.lastIndexOf("\u001b", end);
  let cut = escape >= 0 && end - escape < 24 && !/[@-~]/u.test(text.slice(escape + 2, end)) ? escape : end;
  if (/[\ud800-\udbff]/u.test(text[cut - 1] ?? "")) cut -= 1;
  return text.slice(0, cut);
}

/** @param {HTMLElement} region @param {string} text */
function addPieces(region, text) {
  let from = 0;
  const add = () => {
    for (let piece = 0; piece < PIECES_PER_FRAME && from < text.length; piece += 1) {
      let end = Math.min(text.length, from + PIECE_CHARACTERS);
      const line = text.lastIndexOf("\n", end);
      if (end < text.length) end = line > from ? line + 1 : from + cutAt(text.slice(from, end + 32), end - from).length;
      const part = text.slice(from, end);
      const element = el("div", { class: "piece" });
      addColoured(element, part.endsWith("\n") ? part.slice(0, -1) || "\n" : part);
      region.append(element);
      from = end;
    }
    if (from < text.length && (region.isConnected || from < 2 * PIECE_CHARACTERS)) requestAnimationFrame(add);
  };
  add();
}
