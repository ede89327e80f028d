// @ts-check
// Makes text of a run visible. Characters that change the direction of a line, have no width or
// control a terminal could hide what is really there; they are shown as marks instead.

const CONTROLS = (
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split(" ");

const NAMES = new Map([
  [0x200b, "ZWSP"], [0x200c, "ZWNJ"], [0x200d, "ZWJ"], [0x200e, "LRM"], [0x200f, "RLM"],
  [0x202a, "LRE"], [0x202b, "RLE"], [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"],
  [0x2060, "WJ"], [0x2066, "LRI"], [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"],
  [0x7f, "DEL"], [0x61c, "ALM"], [0xfeff, "BOM"], [0xad, "SHY"], [0x2028, "LSEP"], [0x2029, "PSEP"],
]);

// All characters of the Unicode category "format", all control characters except tab and line feed,
// separators, fillers without a shape, and lone surrogates.
const HIDDEN =
  /[\p{Cf}\p{Cs}\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u115f\u1160\u3164\uffa0]/gu;

/** @param {string} character */
function symbol(character) {
  const code = character.codePointAt(0) ?? 0;
  return CONTROLS[code] ?? NAMES.get(code) ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** @param {string} text */
const normalised = (text) => (text.includes("\r") ? text.replaceAll("\r\n", "\n") : text);

/**
 * Adds text to a node, with marks in the place of hidden characters.
 * @param {Node} parent @param {string} given
 */
export function addVisible(parent, given) {
  const text = normalised(given);
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (isJoiner(text, match.index)) continue;
    if (match.index > from) parent.appendChild(document.createTextNode(text.slice(from, match.index)));
    const mark = document.createElement("span");
    mark.className = "hidden-character";
    const code = match[0].codePointAt(0) ?? 0;
    mark.title = `hidden character U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    mark.textContent = symbol(match[0]);
    parent.appendChild(mark);
    from = match.index + match[0].length;
  }
  if (from < text.length) parent.appendChild(document.createTextNode(from ? text.slice(from) : text));
}

/** Whether the character joins two emoji to one picture. @param {string} text @param {number} at */
function isJoiner(text, at) {
  if (text[at] !== "\u200d") return false;
  const before = text.slice(Math.max(0, at - 4), at);
  const after = text.slice(at + 1, at + 3);
  return /\p{Extended_Pictographic}[\u{fe0f}\u{1f3fb}-\u{1f3ff}]?$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after);
}

/**
 * Text of a run as an element that keeps its direction to itself.
 * @param {string | null | undefined} text @param {string} [className] @param {string} [tag]
 * @returns {HTMLElement}
 */
export function foreign(text, className, tag = "span") {
  const element = document.createElement(tag);
  element.className = className ? `foreign ${className}` : "foreign";
  addVisible(element, text ?? "");
  return element;
}

/** The same as plain text, for titles and labels. @param {string | null | undefined} text */
export function plain(text) {
  const shown = normalised(text ?? "");
  const marked = shown.replace(HIDDEN, (character, at) => (isJoiner(shown, at) ? character : symbol(character)));
  return marked.replace(/\s+/gu, " ").trim();
}
