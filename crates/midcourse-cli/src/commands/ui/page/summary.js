// @ts-check
// The summary beside the steps: where it went wrong, what midcourse said, what failed, the last words.

import { runPath } from "./address.js";
import { el, fill } from "./dom.js";
import { count, timeInRun } from "./format.js";
import { foreign } from "./foreign.js";
import { outcomeTag, runTitle } from "./run_words.js";

/** @import {Report, ReportMessage, Run} from "./types.js" */

const SHOWN = 6;

export class Summary {
  /** @param {Run} run */
  constructor(run) {
    this.started = Date.parse(run.started);
    /** @type {Run[]} */
    this.subagents = [];
    /** @type {Report | null} */
    this.report = null;
    this.content = el("div", { class: "summary-content" }, el("p", { class: "quiet" }, "Reading the whole run to sum it up…"));
    // On a narrow screen the summary is above the steps, and most of it waits behind this button.
    this.all = el("button", { type: "button", class: "small summary-all", onclick: () => this.element.classList.add("all") }, "Show the whole summary");
    this.title = el("h2", { class: "summary-title", tabIndex: -1, id: "summary-title" }, "Summary");
    this.element = el("section", { class: "summary", "aria-labelledby": "summary-title" }, this.title, this.content, this.all);
  }

  /** @param {Run[]} subagents */
  setSubagents(subagents) {
    this.subagents = subagents;
    this.show();
  }

  /** @param {Report} report */
  setReport(report) {
    this.report = report;
    this.show();
  }

  /** @param {string} text */
  setError(text) {
    fill(this.content, el("p", { class: "quiet" }, `The summary cannot be shown. ${text}`));
  }

  show() {
    const { report } = this;
    const parts = report ? [this.#problems(report), this.#messages(report), this.#failing(report), this.#lastWords(report)] : [el("p", { class: "quiet" }, "Reading the whole run to sum it up…")];
    fill(this.content, parts, this.#subagents(), report ? files(report) : null);
  }

  /** @param {Report} report */
  #problems(report) {
    const { trouble } = report;
    if (trouble.length === 0) return part("Where it went wrong", el("p", { class: "quiet" }, "midcourse found no problem in this run."));
    const items = trouble.map((problem) => el("li", null, this.#link(problem.run_id, problem.first_seq, problem.from, "warn-link"),
      foreign(`it ${problem.text}`, "summary-text")));
    return part("Where it went wrong", list(items));
  }

  /** @param {Report} report */
  #messages(report) {
    const { messages } = report;
    if (messages.length === 0) return part("What midcourse said", el("p", { class: "quiet" }, "Nothing."));
    const items = messages.map((message) => el("li", { class: "summary-message" }, this.#link(message.run_id, message.seq, message.at, "message-link"),
      foreign(message.text, "summary-text"), outcome(message)));
    return part(`What midcourse said (${report.message_count})`, list(items));
  }

  /** @param {Report} report */
  #failing(report) {
    if (report.failing.length === 0) return null;
    const items = report.failing.map((failure) => el("li", null,
      el("strong", { class: "times" }, `${failure.count} ×`), foreign(failure.refused ? `${failure.text} (refused)` : failure.text, "summary-text"),
      el("span", { class: "ends" }, failure.first && failure.count > 1 ? stepLink(failure.first, "first") : null, stepLink(failure.last, failure.count > 1 ? "last" : "show")),
      foreign(failure.error, "summary-error", "div")));
    return part("What failed", list(items));
  }

  /** @param {Report} report */
  #lastWords(report) {
    const last = report.last_words;
    if (!last) return null;
    return part("The last thing the agent said", el("p", { class: "last-words" }, foreign(last.text.slice(0, 600)), " ", this.#link(last.run_id, last.seq, last.at, "")));
  }

  #subagents() {
    if (this.subagents.length === 0) return null;
    const items = this.subagents.map((run) => el("li", { class: run.level && run.level > 1 ? "deeper" : "" }, el("a", { class: "summary-link", href: runPath(run.run_id) }, runTitle(run, "summary-name")),
      el("div", { class: "quiet" }, `${timeInRun(Date.parse(run.started), this.started)} · ${count(run.calls, "call")}, ${run.errors} failed `, outcomeTag(run))));
    return part(`Subagents (${this.subagents.length})`, list(items));
  }

  /** A link to a step; one in this run is followed without loading anything. @param {string} runId @param {number} seq @param {string} at @param {string} className */
  #link(runId, seq, at, className) {
    return el("a", { href: runPath(runId, seq), class: className, "data-run": runId, "data-step": String(seq) }, timeInRun(Date.parse(at), this.started));
  }
}

/** @param {{run_id: string, seq: number}} record @param {string} text */
function stepLink(record, text) {
  return el("a", { href: runPath(record.run_id, record.seq), "data-run": record.run_id, "data-step": String(record.seq) }, text);
}

/** @param {ReportMessage} message */
function outcome(message) {
  if (message.withheld) return el("span", { class: "tag" }, "withheld by the experiment");
  if (message.shadow) return el("span", { class: "tag" }, "shadow: not shown to the agent");
  if (!message.outcome) return null;
  const calls = count(message.outcome.after_calls, "call");
  if (message.outcome.verdict === "cleared") return el("span", { class: "tag good" }, `the problem went away after ${calls}`);
  if (message.outcome.verdict === "ignored") return el("span", { class: "tag" }, `the problem was still there after ${calls}`);
  return el("span", { class: "tag" }, "the run ended first");
}

/** @param {Report} report */
function files(report) {
  if (report.files.length === 0) return null;
  const items = report.files.map((file) => el("li", null, foreign(file.path, "path"), el("span", { class: "quiet" }, ` ${file.count} ×`)));
  return part(`Files written or edited (${report.files.length})`, list(items));
}

/** @param {string} title @param {Node} content */
function part(title, content) {
  return el("section", { class: "summary-part" }, el("h3", null, title), content);
}

/** A list that shows a few items at first. @param {HTMLLIElement[]} items */
function list(items) {
  const shown = el("ul", null, items.slice(0, SHOWN));
  if (items.length <= SHOWN) return shown;
  const more = el("button", { type: "button", class: "small" }, `Show ${items.length - SHOWN} more`);
  const box = el("div", null, shown, more);
  more.addEventListener("click", () => {
    const rest = items.slice(SHOWN);
    shown.append(...rest);
    more.remove();
    rest[0]?.querySelector("a")?.focus();
  });
  return box;
}
