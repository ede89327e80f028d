// @ts-check
// What the table and the head of a run say about it, in words.

import { el } from "./dom.js";
import { allTokens, compact, cost, count, duration } from "./format.js";
import { foreign, plain } from "./foreign.js";

/** @import {Run} from "./types.js" */

const OUTCOMES = new Map([
  ["completed", "finished"], ["failed", "failed"], ["aborted", "aborted"], ["limit_reached", "limit reached"],
]);

/** @param {Run} run */
export function runName(run) {
  return plain(run.task) || run.run_id;
}

/** The task of a run, or its id, as an element. @param {Run} run @param {string} className */
export function runTitle(run, className) {
  return foreign(plain(run.task) ? run.task : run.run_id, className);
}

/** @param {Run} run */
export function runDuration(run) {
  const until = run.running ? Date.now() : Date.parse(run.ended ?? run.latest);
  return until - Date.parse(run.started);
}

/** @param {Run} run */
export function outcomeWord(run) {
  if (run.running) return "running";
  if (run.outcome === null) return "no end recorded";
  return OUTCOMES.get(run.outcome) ?? run.outcome;
}

/** @param {Run} run */
export function outcomeTag(run) {
  const word = outcomeWord(run);
  const code = run.exit_code !== null && run.exit_code !== 0 ? `, exit code ${run.exit_code}` : "";
  const isBad = !run.running && (run.outcome === "failed" || run.outcome === "aborted" || code !== "");
  const kind = run.running ? "tag busy" : isBad ? "tag bad" : word === "finished" ? "tag good" : "tag";
  return el("span", { class: kind }, word + code);
}

/** Messages and what became of them, in short. @param {Run} run */
export function messageWords(run) {
  const parts = [];
  if (run.cleared > 0) parts.push(`${run.cleared} went away`);
  if (run.ignored > 0) parts.push(`${run.ignored} stayed`);
  if (run.shadow_deliveries > 0) parts.push(`${run.shadow_deliveries} not shown`);
  return parts.join(", ");
}

/** The first sentences about a run, before its report is there. @param {Run} run */
export function firstHeadline(run) {
  const length = duration(runDuration(run));
  const start = run.running ? `Running for ${length}.` : run.ended ? `${capital(outcomeWord(run))} after ${length}.` : `No end is recorded; the latest record is ${length} after the start.`;
  const failed = run.errors > 0 ? `, ${run.errors} failed or refused` : "";
  const calls = `It made ${count(run.calls, "call")}${failed}.`;
  const times = run.deliveries === 1 ? "once" : run.deliveries === 2 ? "twice" : `${run.deliveries} times`;
  const spoke = run.deliveries > 0 ? `midcourse spoke ${times}.` : run.shadow_deliveries > 0 ? `midcourse recorded ${count(run.shadow_deliveries, "message")} and showed none.` : "midcourse did not speak.";
  return `${start} ${calls} ${spoke}`;
}

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {Run} run */
export function tokenWords(run) {
  if (!run.tokens) return "";
  return `${run.tokens.is_estimate ? "~" : ""}${compact(allTokens(run.tokens))}`;
}

/** @param {Run} run */
export function costWords(run) {
  if (run.cost_usd !== null) return cost(run.cost_usd);
  const estimate = run.estimated_cost_usd;
  return estimate === null || estimate === undefined ? "" : el("span", { title: "estimated from list prices" }, estimate > 0 && estimate < 0.01 ? cost(estimate) : `≈ ${cost(estimate)}`);
}
