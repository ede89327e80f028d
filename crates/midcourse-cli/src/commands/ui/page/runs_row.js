// @ts-check
// A row of the table of runs. On a narrow screen the style sheet makes it a card.

import { runPath } from "./address.js";
import { el } from "./dom.js";
import { dayAndTime, duration, number } from "./format.js";
import { foreign, plain } from "./foreign.js";
import { costWords, messageWords, outcomeTag, runDuration, runTitle, tokenWords } from "./run_words.js";

/** @import {Run} from "./types.js" */
/** @import {Child} from "./dom.js" */

/** @type {{name: string, className: string, sort?: string, cell: (run: Run) => Child | Child[]}[]} */
export const COLUMNS = [
  {
    name: "Task", className: "c-task",
    cell: (run) => [el("a", { href: runPath(run.run_id), title: plain(run.task) || run.run_id }, runTitle(run, "ellipsis")),
      el("span", { class: "quiet ellipsis sub-line" }, foreign(run.folder ?? run.run_id), run.subagents ? ` · ${run.subagents} subagent${run.subagents === 1 ? "" : "s"}` : "")],
  },
  { name: "Agent", className: "c-agent", cell: (run) => [foreign(run.host, "ellipsis"), foreign(run.model, "quiet ellipsis sub-line")] },
  { name: "Started", className: "c-when figure", sort: "started", cell: (run) => dayAndTime(Date.parse(run.started)) },
  { name: "Duration", className: "c-duration figure right", sort: "duration", cell: (run) => duration(runDuration(run)) },
  { name: "Calls", className: "c-calls figure right", sort: "calls", cell: (run) => [number(run.calls), el("span", { class: "card-only" }, run.calls === 1 ? " call" : " calls")] },
  {
    name: "Failed", className: "c-errors figure right", sort: "errors",
    cell: (run) => run.errors > 0 ? el("span", { class: "bad-text" }, number(run.errors), el("span", { class: "card-only" }, " failed")) : el("span", { class: "quiet table-only" }, "0"),
  },
  {
    name: "Messages", className: "c-messages", sort: "messages",
    cell: (run) => {
      const all = run.deliveries + run.shadow_deliveries;
      if (all === 0) return el("span", { class: "quiet table-only" }, "0");
      return [el("span", { class: "message-count" }, el("span", { class: "diamond", "aria-hidden": "true" }), number(all), el("span", { class: "card-only spoken" }, all === 1 ? " message" : " messages")), el("span", { class: "quiet sub-line outcomes", title: messageWords(run) }, messageWords(run))];
    },
  },
  { name: "Tokens", className: "c-tokens figure right", sort: "tokens", cell: (run) => tokenWords(run) },
  { name: "Cost", className: "c-cost figure right", sort: "cost", cell: (run) => costWords(run) },
  { name: "Outcome", className: "c-outcome", cell: (run) => outcomeTag(run) },
];

/** @param {Run} run @param {number} index @param {boolean} isChosen */
export function runRow(run, index, isChosen) {
  const check = el("input", { type: "checkbox", value: run.run_id, checked: isChosen, "aria-label": "Select", "aria-describedby": `task-${index}` });
  return el("tr", { role: "row", "aria-rowindex": index + 2, "data-index": String(index), class: isChosen ? "chosen" : "" },
    el("td", { role: "cell", class: "c-check" }, el("label", { class: "check" }, check)),
    COLUMNS.map((column, position) => el("td", { role: "cell", class: column.className, id: position === 0 ? `task-${index}` : null }, column.cell(run))));
}

/** A row that is being loaded. @param {number} index */
export function emptyRow(index) {
  return el("tr", { role: "row", "aria-rowindex": index + 2, "data-index": String(index), class: "pending" },
    el("td", { role: "cell", colSpan: COLUMNS.length + 1 }, el("span", { class: "unseen" }, "Loading…")));
}
