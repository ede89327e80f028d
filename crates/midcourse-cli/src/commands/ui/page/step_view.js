// @ts-check
// One step of a run as a row: a line that says what it was, and its parts when it is open.

import { recordAddress } from "./api.js";
import { runPath } from "./address.js";
import { blockView, textOf } from "./blocks.js";
import { el } from "./dom.js";
import { count, dayAndTime, duration, timeWithSeconds } from "./format.js";
import { foreign, plain } from "./foreign.js";
import { FAILED, OPEN, REFUSED } from "./outline.js";

/** @import {Entry} from "./types.js" */
/** @import {Outline} from "./outline.js" */

const KIND_NAMES = {
  tool: "Call", assistant: "Agent", user: "User", message: "midcourse", outcome: "Outcome",
  run: "Session", note: "Note", gap: "Gap", turn: "Turn",
};

const OUTCOMES = new Map([
  ["cleared", "the problem went away"], ["ignored", "the problem was still there"], ["run_ended", "the run ended first"],
]);

/**
 * @typedef {object} StepOptions
 * @property {Outline} outline
 * @property {number} index
 * @property {Entry | undefined} entry absent while it is being loaded
 * @property {boolean} isOpen
 * @property {boolean} isSelected
 * @property {boolean} isRunning whether the run still goes on
 * @property {(index: number) => void} toggle
 * @property {(index: number) => void} why
 */

/** @param {StepOptions} options @returns {HTMLElement} */
export function stepView(options) {
  const { outline, index, entry, isOpen, isSelected } = options;
  const kind = outline.kindName(index);
  const state = outline.state[index] ?? 0;
  const seq = outline.seq[index] ?? 0;
  const classes = ["step", `step-${kind}`];
  if (isSelected) classes.push("selected");
  if (state === FAILED || state === REFUSED) classes.push("failed");
  if (entry?.message?.shadow || entry?.message?.withheld) classes.push("shadow");
  const row = el("article", {
    class: classes.join(" "), tabIndex: isSelected ? 0 : -1, "data-index": String(index), "data-seq": String(seq),
    "aria-posinset": index + 1, "aria-setsize": outline.isComplete ? outline.count : -1,
    "aria-current": isSelected ? "true" : null, "aria-label": label(options),
  });
  row.append(headLine(options, kind, state, seq));
  if (!entry) return row;
  if (isOpen) row.append(body(options, entry));
  else {
    const preview = previewLine(entry);
    if (preview) row.append(preview);
  }
  return row;
}

/** @param {StepOptions} options */
function label({ outline, index, entry, isRunning }) {
  const kind = KIND_NAMES[outline.kindName(index)];
  const state = ["", ", failed", ", refused", isRunning ? ", no result yet" : ", no result"][outline.state[index] ?? 0] ?? "";
  return `${kind}: ${plain(entry?.title ?? outline.toolName(index) ?? "")}${state}`;
}

/** @param {StepOptions} options @param {string} kind @param {number} state @param {number} seq */
function headLine(options, kind, state, seq) {
  const { outline, index, entry, isOpen } = options;
  const tool = outline.toolName(index);
  const inline = entry && isOpen ? inlineBlock(entry) : undefined;
  const isQuoted = isOpen && kind === "message";
  const title = inline && entry ? el("div", { class: "step-text" }, textOf(outline.runId, entry, inline, entry.blocks.indexOf(inline)))
    : foreign(entry && !isQuoted ? titleWithoutTool(entry.title, tool) : "", "step-title");
  const toggle = el("button", {
    type: "button", class: "step-toggle", "aria-expanded": String(isOpen), "data-focus": "toggle",
    "aria-label": isOpen ? "Collapse this step" : "Expand this step", tabIndex: options.isSelected ? 0 : -1,
    onclick: (/** @type {Event} */ event) => { event.stopPropagation(); options.toggle(index); },
  });
  const name = kind === "tool" ? foreign(tool ?? "Call", "step-name") : el("span", { class: "step-name" }, KIND_NAMES[outline.kindName(index)]);
  const line = el("div", { class: "step-line" }, toggle, name, title, facts(options, kind, state));
  line.append(el("a", {
    class: "step-time", href: runPath(outline.runId, seq), tabIndex: options.isSelected ? 0 : -1, "data-step": String(seq),
    title: `${dayAndTime(outline.at[index] ?? 0)}, permalink of record ${seq}`, "aria-label": `${timeWithSeconds(outline.at[index] ?? 0)}, permalink of record ${seq}`,
  }, timeWithSeconds(outline.at[index] ?? 0)));
  return line;
}

/** The text that stands in the line itself: that of the agent or the user. @param {Entry} entry */
function inlineBlock(entry) {
  if (entry.kind !== "assistant" && entry.kind !== "user") return undefined;
  return entry.blocks.find((block) => block.type === "text" && block.label !== "Thinking");
}

/** @param {string} title @param {string | null} tool */
function titleWithoutTool(title, tool) {
  return tool && title.startsWith(tool) ? title.slice(tool.length).trimStart() : title;
}

/** @param {StepOptions} options @param {string} kind @param {number} state */
function facts({ outline, index, entry, isRunning }, kind, state) {
  const box = el("span", { class: "step-facts" });
  if (state === FAILED) box.append(el("span", { class: "tag bad" }, "failed"));
  if (state === REFUSED) box.append(el("span", { class: "tag bad" }, "refused"));
  const start = outline.at[index] ?? 0;
  const end = outline.end[index] ?? -1;
  if (state === OPEN && isRunning) {
    box.append(el("span", { class: "tag busy" }, "running ", el("span", { "data-since": String(start), class: "figure" }, duration(Date.now() - start))));
  } else if (state === OPEN) {
    box.append(el("span", { class: "tag" }, "no result"));
  } else if (kind === "tool" && end >= 0) {
    box.append(el("span", { class: "quiet figure" }, duration(end - start)));
  }
  if (entry?.message) {
    const { message } = entry;
    if (message.withheld) box.append(el("span", { class: "tag" }, "withheld by the experiment"));
    else if (message.shadow) box.append(el("span", { class: "tag" }, "shadow: not shown to the agent"));
    const outcome = message.outcome_text ?? OUTCOMES.get(message.outcome ?? "");
    if (outcome) box.append(el("span", { class: message.outcome === "cleared" ? "tag good" : "tag" }, outcome));
  }
  return box;
}

/** @param {Entry} entry */
function previewLine(entry) {
  if (entry.kind !== "tool") return null;
  const block = entry.blocks.findLast((candidate) => candidate.label === "Result" || candidate.label === "Error");
  if (!block?.text) return null;
  const lines = block.text.slice(0, 4000).split("\n").filter((candidate) => candidate.trim() !== "");
  // Of a failure, the line that looks most like the reason.
  const telling = entry.error_line ? entry.error_line : entry.state === FAILED ? lines.find((candidate) => /error|fail|fatal|panic|denied|not found|exception/iu.test(candidate)) : undefined;
  const line = telling ?? lines[0] ?? "";
  const bare = line.replace(/\u001b\[[0-?]*[ -/]*[@-~]/gu, "").slice(0, 300);
  return bare ? foreign(bare, "step-preview", "div") : null;
}

/** @param {StepOptions} options @param {Entry} entry */
function body(options, entry) {
  const { outline, index } = options;
  const inline = inlineBlock(entry);
  const blocks = entry.blocks.map((block, position) => block === inline ? null : blockView(outline.runId, entry, block, position));
  const foot = el("div", { class: "step-foot" });
  if (entry.kind === "message") {
    foot.append(el("button", {
      type: "button", class: "why-button", "data-focus": "why",
      onclick: (/** @type {Event} */ event) => { event.stopPropagation(); options.why(index); },
    }, "Why it spoke"));
    const about = entry.message?.pattern_text ?? entry.message?.pattern;
    if (about) foot.append(foreign(about, "quiet"));
  }
  const record = entry.end_seq === null ? `record ${entry.seq}` : `records ${entry.seq} and ${entry.end_seq}`;
  foot.append(el("span", { class: "quiet" }, `${record} · `, foreign(entry.source)));
  if (entry.redactions > 0) foot.append(el("span", { class: "quiet" }, `${count(entry.redactions, "secret")} removed`));
  foot.append(el("a", { class: "quiet", href: recordAddress(outline.runId, entry.seq), target: "_blank", rel: "noopener" }, "JSON"));
  return el("div", { class: "step-body" }, blocks, foot);
}
