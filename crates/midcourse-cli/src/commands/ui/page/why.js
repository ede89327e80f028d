// @ts-check
// The panel that says why midcourse spoke: the exact text, the problem, the calls that show it, where
// the text landed, what became of it, and what other messages about the problem say.

import { fetchRungs, fetchWhy } from "./api.js";
import { runPath } from "./address.js";
import { el, fill } from "./dom.js";
import { timeOfDay, timeWithSeconds } from "./format.js";
import { foreign } from "./foreign.js";

/** @import {Child} from "./dom.js" */
/** @import {Why} from "./types.js" */

const DECISION_POINTS = new Map([
  ["post_tool_result", "after the result of a call"], ["pre_turn", "before the next turn"], ["turn_start", "at the start of a turn"],
]);

const OTHERS = "What the other messages about it would have said here";

export class WhyPanel {
  /** @param {string} runId @param {(seq: number) => void} goTo @param {() => void} closed */
  constructor(runId, goTo, closed) {
    this.runId = runId;
    this.goTo = goTo;
    this.closed = closed;
    this.isOpen = false;
    /** @type {number | null} */
    this.seq = null;
    this.controller = new AbortController();
    this.title = el("h2", { tabIndex: -1, id: "why-title" }, "Why midcourse spoke");
    this.content = el("div", { class: "why-content" });
    const close = el("button", { type: "button", class: "close", "aria-label": "Close (Escape)", onclick: () => this.close() }, "×");
    this.element = el("section", { class: "why", hidden: true, "aria-labelledby": "why-title" }, el("div", { class: "why-head" }, this.title, close), this.content);
  }

  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.seq = null;
    this.element.hidden = true;
    this.controller.abort();
    this.closed();
  }

  /** @param {number} seq @param {boolean} focus */
  async open(seq, focus) {
    this.isOpen = true;
    this.element.hidden = false;
    if (focus) this.title.focus({ preventScroll: true });
    if (this.seq === seq) return;
    this.seq = seq;
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    fill(this.content, el("p", { class: "quiet" }, "Loading…"));
    try {
      const why = await fetchWhy(this.runId, seq, signal);
      if (signal.aborted) return;
      const others = el("div", { class: "why-others" });
      fill(this.content, this.#parts(why), others);
      if (why.series.length > 0) await this.#showOthers(seq, others, signal);
    } catch (error) {
      if (signal.aborted) return;
      fill(this.content, el("p", { class: "error", role: "alert" }, error instanceof Error ? error.message : "Loading failed."));
    }
  }

  /** @param {Why} why @returns {Child[]} */
  #parts(why) {
    return [
      why.withheld ? el("p", { class: "tag" }, "Withheld by the experiment, not shown to the agent")
        : why.shadow ? el("p", { class: "tag" }, "Shadow: recorded only, not shown to the agent") : null,
      part(why.shadow || why.withheld ? "What it would have said" : "What it said", foreign(why.text, "message-text", "blockquote")),
      part("Why", reason(why)),
      part("What became of it", this.#outcome(why)),
      why.evidence.length > 0 ? part("The calls that show it", el("ul", { class: "evidence" }, why.evidence.map((call) => el("li", null,
        this.#link(call.seq, timeWithSeconds(call.at)), foreign(call.title, "evidence-title"),
        call.state === 1 ? el("span", { class: "tag bad" }, "failed") : call.state === 2 ? el("span", { class: "tag bad" }, "refused") : null)))) : null,
      part("Where it landed", el("p", null, timeWithSeconds(why.at), ", ", foreign(why.landed.text || DECISION_POINTS.get(why.landed.decision_point) || why.landed.decision_point),
        why.landed.seq === null ? null : [" (", this.#link(why.landed.seq, "show the step"), ")"])),
      this.#series(why),
    ];
  }

  /** @param {Why} why */
  #outcome(why) {
    if (!why.outcome) return el("p", { class: "quiet" }, why.shadow || why.withheld ? "The agent did not see it." : "Nothing is recorded about that.");
    const isGood = why.outcome.verdict === "cleared";
    return el("p", null, el("span", { class: isGood ? "tag good" : "tag" }, foreign(why.outcome.text)), " ", this.#link(why.outcome.seq, "show"));
  }

  /** @param {Why} why */
  #series(why) {
    if (why.series.length < 2) return null;
    return part("All messages about this problem", el("ol", { class: "series" }, why.series.map((message) => {
      const isThis = message.seq === why.seq;
      return el("li", { class: isThis ? "this" : "" }, isThis ? el("strong", null, timeOfDay(message.at)) : this.#link(message.seq, timeOfDay(message.at)),
        isThis ? " (this one) " : " ", foreign(message.text));
    })));
  }

  /** The server analyses the run up to the message for this, so it comes later. @param {number} seq @param {Element} place @param {AbortSignal} signal */
  async #showOthers(seq, place, signal) {
    fill(place, part(OTHERS, el("p", { class: "quiet" }, "Analysing the run up to this message…")));
    // The panel is of use without this part.
    const { rungs } = await fetchRungs(this.runId, seq, signal).catch(() => ({ rungs: [] }));
    const others = rungs.filter((rung) => !rung.is_this);
    if (signal.aborted) return;
    fill(place, others.length === 0 ? null : part(OTHERS, el("ul", { class: "series" }, others.map((rung) => el("li", null,
      el("span", { class: "quiet" }, `as the ${ordinal(rung.number)} message: `), foreign(rung.text))))));
  }

  /** @param {number} seq @param {string} text */
  #link(seq, text) {
    return el("a", { href: runPath(this.runId, seq), "data-run": this.runId, "data-step": String(seq) }, text);
  }
}

/** @param {Why} why */
function reason(why) {
  const facts = el("dl", { class: "reason" });
  const add = (/** @type {string} */ name, /** @type {Child | Child[]} */ value) => facts.append(el("div", null, el("dt", null, name), el("dd", null, value)));
  if (why.pattern) {
    const text = why.pattern_text && why.pattern_text !== why.pattern ? [foreign(why.pattern_text), " "] : [];
    add("Problem", [...text, foreign(why.pattern, "name")]);
  }
  if (why.confidence !== null) add("Confidence", `${Math.round(why.confidence * 100)} % sure that this is a problem`);
  if (why.series.length > 0 || why.number > 1) add("Message", `the ${ordinal(why.number)} about this problem`);
  add("Provider", [foreign(why.provider, "name"), " (the part of midcourse that wrote it)"]);
  return facts;
}

/** @param {number} number */
function ordinal(number) {
  return ["zeroth", "first", "second", "third", "fourth", "fifth", "sixth"][number] ?? `${number}th`;
}

/** @param {string} title @param {Child | Child[]} content */
function part(title, content) {
  return el("section", { class: "why-part" }, el("h3", null, title), content);
}
