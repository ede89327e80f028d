// @ts-check
// Colours of terminal output. Only "select graphic rendition" has an effect; every other escape
// sequence (cursor movement, links, titles, the clipboard) is dropped.

import { addVisible } from "./foreign.js";

// CSI with its final byte; OSC, DCS, PM, APC and SOS up to their end; any other two-byte escape.
const ESCAPE =
  /(?:\u001b\[|\u009b)([0-?]*)([ -/]*)([@-~])|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c|(?=\u001b)|$)|\u001b[ -/]*[0-~]|\u001b/gu;

/** @typedef {{fore: number, back: number, bold: boolean, dim: boolean, italic: boolean, underline: boolean, strike: boolean, inverse: boolean}} Style */

/** @returns {Style} */
const plainStyle = () => ({ fore: -1, back: -1, bold: false, dim: false, italic: false, underline: false, strike: false, inverse: false });

/**
 * Adds text with colours to a node, as spans with classes.
 * @param {Node} parent @param {string} text
 */
export function addColoured(parent, text) {
  if (!text.includes("\u001b") && !/[\u0090-\u009f]/u.test(text)) {
    addVisible(parent, text);
    return;
  }
  let style = plainStyle();
  let from = 0;
  for (const match of text.matchAll(ESCAPE)) {
    addStyled(parent, text.slice(from, match.index), style);
    from = match.index + match[0].length;
    if (match[3] === "m" && !match[2]) style = applied(style, match[1] ?? "");
  }
  addStyled(parent, text.slice(from), style);
}

/** @param {Node} parent @param {string} text @param {Style} style */
function addStyled(parent, text, style) {
  if (!text) return;
  const name = classOf(style);
  if (!name) {
    addVisible(parent, text);
    return;
  }
  const span = document.createElement("span");
  span.className = name;
  addVisible(span, text);
  parent.appendChild(span);
}

/** @param {Style} style */
function classOf(style) {
  const names = [];
  const fore = style.inverse ? (style.back < 0 ? 16 : style.back) : style.fore;
  const back = style.inverse ? (style.fore < 0 ? 17 : style.fore) : style.back;
  if (fore >= 0) names.push(`ansi-${fore}`);
  if (back >= 0) names.push(`ansi-on-${back}`);
  for (const name of /** @type {const} */ (["bold", "dim", "italic", "underline", "strike"])) {
    if (style[name]) names.push(`ansi-${name}`);
  }
  return names.join(" ");
}

/** @param {Style} before @param {string} parameters @returns {Style} */
function applied(before, parameters) {
  let style = { ...before };
  const codes = parameters.split(/[;:]/u).map((code) => (code === "" ? 0 : Number(code)));
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) style = plainStyle();
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.strike = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code === 29) style.strike = false;
    else if (code >= 30 && code <= 37) style.fore = code - 30;
    else if (code >= 90 && code <= 97) style.fore = code - 82;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 92;
    else if (code === 39) style.fore = -1;
    else if (code === 49) style.back = -1;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes, index + 1);
      if (code === 38) style.fore = colour;
      else style.back = colour;
      index += used;
    }
  }
  return style;
}

/** A colour of the 256 or of 24 bits, as the nearest of the 16. @param {number[]} codes @param {number} at @returns {[number, number]} */
function extended(codes, at) {
  if (codes[at] === 5) {
    const colour = codes[at + 1] ?? 0;
    if (colour < 16) return [colour, 2];
    if (colour >= 232) return [nearest((colour - 232) * 10 + 8, (colour - 232) * 10 + 8, (colour - 232) * 10 + 8), 2];
    const cube = colour - 16;
    const level = (/** @type {number} */ step) => (step ? step * 40 + 55 : 0);
    return [nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), 2];
  }
  if (codes[at] === 2) return [nearest(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), 4];
  return [-1, codes.length];
}

/** @param {number} red @param {number} green @param {number} blue */
function nearest(red, green, blue) {
  const brightest = Math.max(red, green, blue);
  if (brightest < 60) return 0;
  const floor = brightest * 0.6;
  const colour = (red > floor ? 1 : 0) + (green > floor ? 2 : 0) + (blue > floor ? 4 : 0);
  if (colour === 7) return brightest > 200 ? 15 : brightest > 120 ? 7 : 8;
  return brightest > 200 ? colour + 8 : colour;
}
