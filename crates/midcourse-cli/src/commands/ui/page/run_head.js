// @ts-check
// The head of a run: where it belongs, its task, how it went, and its facts.

import { exportAddress } from "./api.js";
import { HOME, runPath } from "./address.js";
import { el, fill } from "./dom.js";
import { compact, cost, dayAndTime, duration, number, timeInRun } from "./format.js";
import { foreign } from "./foreign.js";
import { firstHeadline, outcomeTag, runDuration, runTitle } from "./run_words.js";

/** @import {Report, Run} from "./types.js" */

export class RunHead {
  /** @param {Run} run @param {Run[]} parents @param {() => void} compare */
  constructor(run, parents, compare) {
    this.run = run;
    this.parents = parents;
    /** @type {Report | null} */
    this.report = null;
    this.headline = el("p", { class: "headline" });
    this.facts = el("dl", { class: "facts" });
    this.tag = el("span");
    const trail = el("nav", { "aria-label": "Breadcrumb", class: "trail" }, el("ol", null,
      el("li", null, el("a", { href: HOME }, "Runs")),
      parents.map((parent) => el("li", null, el("a", { href: runPath(parent.run_id) }, runTitle(parent, "trail-name")))),
      el("li", { "aria-current": "page" }, foreign(run.run_id, "trail-name"))));
    const actions = el("div", { class: "actions" },
      el("button", { type: "button", onclick: compare }, "Compare with…"),
      el("a", { class: "button", href: exportAddress(run.run_id), download: "" }, "Export HTML"));
    this.element = el("section", { class: "run-head", "aria-label": "The run" },
      el("div", { class: "run-head-top" }, trail, actions),
      el("h1", null, runTitle(run, "task"), " ", this.tag),
      this.headline, this.facts);
    this.show();
  }

  /** @param {Run} run */
  update(run) {
    this.run = run;
    this.show();
  }

  /** @param {Report} report */
  setReport(report) {
    this.report = report;
    this.show();
  }

  show() {
    const { run, report } = this;
    fill(this.tag, outcomeTag(run));
    // The report of a running run is older than the run; its own figures are newer.
    const headline = report && !run.running ? report.headline : firstHeadline(run);
    const end = headline.search(/[.\n](\s|$)/u) + 1;
    fill(this.headline, el("strong", null, foreign(headline.slice(0, end).trim())), " ", foreign(headline.slice(end).trim()));
    fill(this.facts, this.#facts().map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
  }

  /** Where the cost comes from. */
  #costBasis() {
    const { run, report } = this;
    const isReported = report && report.cost.usd !== null ? report.cost.basis === "reported" : run.cost_usd !== null;
    if (isReported) return "reported by the agent";
    const of = report?.cost.prices_of;
    const from = of === "configuration" ? "the prices in the configuration" : of ? `list prices of ${of}` : "list prices";
    return `${report?.cost.basis === "partly_estimated" ? "partly " : ""}estimated from ${from}`;
  }

  /** @returns {[string, Node | string][]} */
  #facts() {
    const { run, report } = this;
    const started = Date.parse(run.started);
    /** @type {[string, Node | string][]} */
    const facts = [["Agent", foreign([run.host, run.host_version, run.model].filter(Boolean).join(" · "))]];
    if (run.folder) facts.push(["Folder", foreign(run.folder, "path")]);
    const until = run.running ? "now" : timeInRun(Date.parse(run.ended ?? run.latest), started);
    facts.push(["Time", `${dayAndTime(started)} to ${until} (${duration(runDuration(run))})`]);
    facts.push(["Calls", `${number(run.calls)}, ${number(run.errors)} failed`]);
    const tokens = run.tokens ?? report?.tokens;
    if (tokens && tokens.input + tokens.output + tokens.cache_read > 0) {
      const into = tokens.input + tokens.cache_read + tokens.cache_write;
      facts.push(["Tokens", `${compact(into)} in (${compact(tokens.cache_read)} cached), ${compact(tokens.output)} out${run.tokens?.is_estimate ? ", estimated" : ""}`]);
    }
    const usd = report?.cost.usd ?? run.cost_usd ?? run.estimated_cost_usd;
    if (usd !== null && usd !== undefined) facts.push(["Cost", `${cost(usd)} (${this.#costBasis()})`]);
    return facts;
  }
}
