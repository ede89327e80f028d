// @ts-check
// The view of two runs side by side, aligned by step. It begins at the first difference.

import { fetchComparison, fetchEntry } from "./api.js";
import { comparePath, runPath } from "./address.js";
import { blockView } from "./blocks.js";
import { isStartOfDifference, itemsOf } from "./compare_rows.js";
import { announce, el, fill } from "./dom.js";
import { count, dayAndTime, duration, number, timeWithSeconds } from "./format.js";
import { foreign, plain } from "./foreign.js";
import { bindKeys } from "./keys.js";
import { outcomeTag, runDuration, runTitle } from "./run_words.js";
import { VirtualList } from "./virtual_list.js";

/** @import {Comparison, CompareRow, Run, Step} from "./types.js" */
/** @import {Item} from "./compare_rows.js" */
/** @import {ViewContext} from "./app.js" */

const STATES = new Map([
  ["same", "same"], ["other_result", "other result"], ["other_arguments", "other arguments"], ["only_a", "only in A"], ["only_b", "only in B"],
]);

export class CompareView {
  /** @param {HTMLElement} root @param {string} a @param {string} b @param {ViewContext} context */
  constructor(root, a, b, context) {
    this.root = root;
    this.ids = { a, b };
    this.context = context;
    this.controller = new AbortController();
    /** @type {CompareRow[]} */
    this.rows = [];
    /** @type {Item[]} */
    this.items = [];
    /** @type {Set<number>} */
    this.unfolded = new Set();
    /** @type {Map<CompareRow, HTMLElement>} what was opened, with its steps side by side */
    this.opened = new Map();
    this.selected = -1;
    /** @type {VirtualList | undefined} */
    this.list = undefined;
    this.unbind = () => {};
    context.setTitle("Compare");
    void this.#load();
  }

  destroy() {
    this.controller.abort();
    this.unbind();
    this.list?.destroy();
  }

  async #load() {
    const { signal } = this.controller;
    try {
      this.#build(await fetchComparison(this.ids.a, this.ids.b, signal));
    } catch (error) {
      if (!signal.aborted) this.context.fail(error);
    }
  }

  /** @param {Comparison} comparison */
  #build(comparison) {
    this.rows = comparison.rows;
    this.items = itemsOf(this.rows, this.unfolded);
    const differences = this.items.filter((_, index) => isStartOfDifference(this.items, index)).length;
    const equal = this.rows.filter((row) => row.state === "same").length;
    const first = comparison.first_difference;
    const text = differences === 0 ? "The two runs made the same calls with the same results."
      : `${count(differences, "difference")}; ${first ? `the first ${first === 1 ? "step is" : `${number(first)} steps are`} equal` : "they differ from the first step on"}. ${number(equal)} of ${number(this.rows.length)} steps are equal.`;
    const bar = el("div", { class: "compare-head" },
      el("div", { class: "compare-title" }, el("h1", null, "Compare"), el("p", { class: "quiet" }, text, comparison.is_cut ? " Only the first 5,000 steps of each run are compared." : "")),
      el("div", { class: "compare-actions" },
        el("a", { class: "button", href: comparePath(this.ids.b, this.ids.a) }, "Swap"),
        el("div", { class: "group", role: "group", "aria-label": "Differences" },
          el("button", { type: "button", title: "Previous difference (N)", disabled: differences === 0, onclick: () => this.nextDifference(-1) }, "‹ Previous"),
          el("button", { type: "button", title: "Next difference (n)", disabled: differences === 0, onclick: () => this.nextDifference(1) }, "Next difference ›"))));
    const heads = el("div", { class: "compare-runs" }, runHead("A", comparison.a), runHead("B", comparison.b));
    const sticky = el("div", { class: "compare-sticky" }, bar, heads);
    const host = el("div", { class: "compare-rows", role: "feed", "aria-label": "Aligned steps" });
    fill(this.root, el("div", { class: "compare" }, sticky, host));
    host.addEventListener("click", (event) => this.#clicked(event));
    host.addEventListener("focusin", (event) => {
      const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
      if (row instanceof HTMLElement) this.#mark(Number(row.dataset["index"]));
    });
    this.list = new VirtualList(host, { estimate: () => 41, render: (index) => this.#render(index), inset: () => Math.max(0, sticky.getBoundingClientRect().bottom) });
    this.list.setCount(this.items.length);
    this.unbind = bindKeys({
      n: () => this.nextDifference(1), N: () => this.nextDifference(-1), j: () => this.move(1), k: () => this.move(-1),
      g: () => this.select(0), G: () => this.select(this.items.length - 1),
      Enter: (event) => {
        if (event.target instanceof Element && event.target.closest("a, button, summary, [role=region]")) return false;
        void this.toggle(this.selected);
        return true;
      },
      Escape: () => this.context.back(),
    });
    if (differences > 0) requestAnimationFrame(() => this.nextDifference(1));
  }

  /** @param {number} index @returns {HTMLElement} */
  #render(index) {
    const item = /** @type {Item} */ (this.items[index]);
    const common = { "data-index": String(index), tabIndex: index === this.selected ? 0 : -1, "aria-posinset": index + 1, "aria-setsize": this.items.length };
    const selected = index === this.selected ? " selected" : "";
    if (item.fold) {
      const words = `${count(item.fold.count, "equal step")}`;
      return el("article", { ...common, class: `compare-fold${selected}`, "aria-label": words }, el("button", { type: "button", "data-focus": "fold", onclick: () => this.#unfold(index) }, `Show ${words}`));
    }
    const { row } = item;
    const state = STATES.get(row.state) ?? row.state;
    const opened = this.opened.get(row);
    const article = el("article", { ...common, class: `compare-row ${row.state}${selected}`, "aria-label": `${state}: ${plain(row.a?.title ?? row.b?.title)}` },
      el("div", { class: "compare-line" }, this.#cell(this.ids.a, row.a),
        el("button", { type: "button", class: "compare-state", "aria-expanded": String(opened !== undefined), "data-focus": "state", onclick: () => void this.toggle(index) }, state),
        this.#cell(this.ids.b, row.b)));
    if (opened) article.append(opened);
    return article;
  }

  /** @param {string} id @param {Step | null} step */
  #cell(id, step) {
    if (!step) return el("div", { class: "compare-cell empty" }, el("span", { class: "unseen" }, "no such step"));
    return el("div", { class: "compare-cell" }, el("a", { class: "step-time", href: runPath(id, step.seq), tabIndex: -1 }, timeWithSeconds(step.at)), foreign(step.title, "compare-name"),
      step.state === 1 ? el("span", { class: "tag bad" }, "failed") : step.state === 2 ? el("span", { class: "tag bad" }, "refused") : step.state === 3 ? el("span", { class: "tag" }, "no result") : null);
  }

  /** @param {number} index */
  #unfold(index) {
    const fold = this.items[index]?.fold;
    if (!fold || !this.list) return;
    this.unfolded.add(fold.from);
    this.items = itemsOf(this.rows, this.unfolded);
    this.selected = -1;
    this.list.reset(this.items.length);
    this.select(index);
  }

  /** Shows the two steps of a row side by side, or hides them. @param {number} index */
  async toggle(index) {
    const item = this.items[index];
    if (!item) return;
    if (item.fold) {
      this.#unfold(index);
      return;
    }
    const { row } = item;
    if (this.opened.delete(row)) {
      this.list?.refresh([index]);
      return;
    }
    const sides = el("div", { class: "compare-sides" }, el("p", { class: "quiet" }, "Loading…"));
    this.opened.set(row, sides);
    this.list?.refresh([index]);
    try {
      const [a, b] = await Promise.all([this.#side(this.ids.a, row.a), this.#side(this.ids.b, row.b)]);
      fill(sides, a, b);
    } catch (error) {
      fill(sides, el("p", { class: "error", role: "alert" }, error instanceof Error ? error.message : "Loading failed."));
    }
  }

  /** @param {string} id @param {Step | null} step */
  async #side(id, step) {
    if (!step) return el("div", { class: "compare-side quiet" }, "This run has no such step.");
    const entry = await fetchEntry(id, step.seq);
    const length = entry.end_at === null ? "" : ` · ${duration(entry.end_at - entry.at)}`;
    return el("div", { class: "compare-side" }, entry.blocks.map((block, position) => blockView(id, entry, block, position)),
      el("p", { class: "quiet" }, el("a", { href: runPath(id, step.seq) }, `Open the step`), length));
  }

  /** @param {Event} event */
  #clicked(event) {
    const target = event.target;
    if (!(target instanceof Element) || target.closest("a, button, .compare-sides") || String(getSelection())) return;
    const row = target.closest("[data-index]");
    if (!(row instanceof HTMLElement)) return;
    const index = Number(row.dataset["index"]);
    this.#mark(index);
    void this.toggle(index);
  }

  /** @param {number} index */
  #mark(index) {
    if (index === this.selected) return;
    for (const [at, isOn] of /** @type {[number, boolean][]} */ ([[this.selected, false], [index, true]])) {
      const row = this.list?.row(at);
      row?.classList.toggle("selected", isOn);
      if (row) row.tabIndex = isOn ? 0 : -1;
    }
    this.selected = index;
  }

  /** @param {number} index @param {"nearest" | "center"} [align] */
  select(index, align = "nearest") {
    if (!this.list || index < 0 || index >= this.items.length) return;
    this.#mark(index);
    this.list.scrollTo(index, align);
    this.list.row(index)?.focus({ preventScroll: true });
  }

  /** @param {1 | -1} direction */
  move(direction) {
    this.select(Math.max(0, Math.min(this.items.length - 1, this.selected + direction)));
  }

  /** @param {1 | -1} direction */
  nextDifference(direction) {
    for (let index = this.selected + direction; index >= 0 && index < this.items.length; index += direction) {
      if (!isStartOfDifference(this.items, index)) continue;
      this.select(index, "center");
      return;
    }
    announce(direction > 0 ? "No later difference." : "No earlier difference.");
  }
}

/** @param {string} letter @param {Run} run */
function runHead(letter, run) {
  return el("div", { class: "compare-run" }, el("span", { class: "letter" }, letter), el("div", null,
    el("h2", null, el("a", { href: runPath(run.run_id) }, runTitle(run, "ellipsis"))),
    el("p", { class: "quiet" }, foreign([run.host, run.model].filter(Boolean).join(" · ")), ` · ${dayAndTime(Date.parse(run.started))}`),
    el("p", { class: "quiet" }, outcomeTag(run), ` ${duration(runDuration(run))} · ${count(run.calls, "call")}, ${number(run.errors)} failed`)));
}
