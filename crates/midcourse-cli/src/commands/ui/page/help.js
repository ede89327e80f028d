// @ts-check
// The dialog that lists the keys.

import { el } from "./dom.js";
import { areKeysOn, setKeysOn } from "./keys.js";

/** @type {[string, [string, string][]][]} */
const KEYS = [
  ["Everywhere", [["/", "Search all runs"], ["?", "This help"], ["Esc", "Close, or go back"]]],
  ["Runs", [["j  k", "Next, previous run"], ["Enter", "Open the run"], ["x", "Select the run to compare"], ["c", "Compare the two selected runs"]]],
  ["A run", [
    ["j  k", "Next, previous step"], ["e  E", "Next, previous failed call"], ["m  M", "Next, previous message of midcourse"],
    ["p  P", "Next, previous problem"], ["Enter", "Expand or collapse the step"], ["w", "Why midcourse spoke"], ["s", "Go to the summary"],
    ["g  G", "Start, end of the run"], ["y", "Copy the link of the step"],
  ]],
  ["Timeline", [["t", "Go to the timeline"], ["+  -", "Zoom in, out"], ["0", "Show the whole run"], ["←  →", "Previous, next step"], ["Shift ←  →", "Move the part that is shown"]]],
  ["Compare", [["n  N", "Next, previous difference"], ["j  k", "Next, previous row"], ["Enter", "Show the step side by side"]]],
];

export function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  const on = el("input", { type: "checkbox", checked: areKeysOn(), onchange: () => setKeysOn(on.checked) });
  const dialog = el("dialog", { class: "help", "aria-labelledby": "help-title" },
    el("form", { method: "dialog", class: "dialog-head" }, el("h2", { id: "help-title" }, "Keyboard shortcuts"), el("button", { "aria-label": "Close", class: "close" }, "×")),
    el("div", { class: "help-groups" }, KEYS.map(([name, keys]) => el("section", null, el("h3", null, name),
      el("dl", null, keys.map(([key, text]) => el("div", null, el("dt", null, key.split("  ").map((one) => el("kbd", null, one))), el("dd", null, text))))))),
    el("label", { class: "only" }, on, " Use single-letter shortcuts"));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
