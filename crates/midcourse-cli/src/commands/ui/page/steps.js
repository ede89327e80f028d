// @ts-check
// The list of the steps of a run: which one is selected, which ones are open, and moving between them.

import { announce } from "./dom.js";
import { EntryCache } from "./entry_cache.js";
import { duration } from "./format.js";
import { plain } from "./foreign.js";
import { ASSISTANT, MESSAGE, TOOL, USER } from "./outline.js";
import { stepView } from "./step_view.js";
import { VirtualList } from "./virtual_list.js";

/** @import {Outline} from "./outline.js" */
/** @import {Align} from "./virtual_list.js" */

/**
 * @typedef {object} StepsOptions
 * @property {() => number} inset height of what covers the top of the window
 * @property {() => boolean} isRunning
 * @property {(index: number) => void} selected
 * @property {(index: number) => void} why
 * @property {(first: number, last: number) => void} shown
 * @property {(error: unknown) => void} failed
 */

export class Steps {
  /** @param {HTMLElement} host @param {Outline} outline @param {StepsOptions} options */
  constructor(host, outline, options) {
    this.host = host;
    this.outline = outline;
    this.options = options;
    this.selected = -1;
    /** Steps that differ from what is usual for their kind. @type {Set<number>} */
    this.toggled = new Set();
    this.cache = new EntryCache(outline, (indices) => this.#arrived(indices), options.failed);
    this.list = new VirtualList(host, {
      estimate: (index) => this.#estimate(index),
      render: (index) => this.#render(index),
      inset: options.inset,
      shown: (first, last) => {
        this.cache.want(Math.max(0, first - 5), last + 5);
        options.shown(first, last);
      },
    });
    host.addEventListener("click", (event) => this.#clicked(event));
    host.addEventListener("focusin", (event) => this.#focused(event));
    this.clock = setInterval(() => this.#tick(), 1000);
  }

  destroy() {
    clearInterval(this.clock);
    this.cache.destroy();
    this.list.destroy();
  }

  /** @param {number} index */
  #estimate(index) {
    if (this.outline.kind[index] === MESSAGE) return 116;
    return this.isOpen(index) ? 52 : this.outline.kind[index] === TOOL ? 52 : 32;
  }

  /** @param {number} index */
  isOpen(index) {
    const kind = this.outline.kind[index];
    const isUsual = kind === ASSISTANT || kind === USER || kind === MESSAGE;
    return this.toggled.has(this.outline.seq[index] ?? -1) ? !isUsual : isUsual;
  }

  /** @param {number} index */
  #render(index) {
    return stepView({
      outline: this.outline, index, entry: this.cache.get(index), isOpen: this.isOpen(index),
      isSelected: index === this.selected, isRunning: this.options.isRunning(),
      toggle: (at) => this.toggle(at), why: this.options.why,
    });
  }

  /** @param {number[]} indices */
  #arrived(indices) {
    this.list.refresh(indices);
  }

  /** Steps were added. */
  grow() {
    this.list.setCount(this.outline.count);
  }

  /** The steps at these positions changed. @param {number[] | null} indices null if positions moved */
  change(indices) {
    if (indices === null) {
      const seq = this.outline.seq[this.selected];
      this.list.reset(this.outline.count);
      if (seq !== undefined && this.selected >= 0) this.selected = this.outline.find(seq);
      return;
    }
    for (const index of indices) this.cache.invalidate(this.outline.seq[index] ?? -1);
    this.list.refresh(indices);
    this.list.schedule();
  }

  /** @param {number} index */
  toggle(index) {
    const seq = this.outline.seq[index] ?? -1;
    if (!this.toggled.delete(seq)) this.toggled.add(seq);
    this.list.refresh([index]);
  }

  /** @param {number} index */
  open(index) {
    if (!this.isOpen(index)) this.toggle(index);
  }

  /**
   * Selects a step and brings it into the window.
   * @param {number} index @param {{align?: Align, focus?: boolean}} [how]
   */
  select(index, how = {}) {
    if (index < 0 || index >= this.outline.count) return;
    this.#mark(index);
    this.list.scrollTo(index, how.align ?? "nearest");
    if (how.focus !== false) this.list.row(index)?.focus({ preventScroll: true });
  }

  /** @param {number} index */
  #mark(index) {
    const before = this.selected;
    if (before === index) return;
    this.selected = index;
    this.#setMark(before, false);
    this.#setMark(index, true);
    this.options.selected(index);
  }

  /** Changes a row in place: a new row would lose the focus and the state of its parts. @param {number} index @param {boolean} on */
  #setMark(index, on) {
    const row = this.list.row(index);
    if (!row) return;
    row.classList.toggle("selected", on);
    row.tabIndex = on ? 0 : -1;
    if (on) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    for (const element of row.querySelectorAll(".step-toggle, .step-time")) {
      if (element instanceof HTMLElement) element.tabIndex = on ? 0 : -1;
    }
  }

  /** Goes to the next step. @param {1 | -1} direction */
  step(direction) {
    this.#go(direction, () => true, "step", "nearest");
  }

  /** Jumps to the next step of a kind, and says where it is among them. @param {1 | -1} direction @param {(index: number) => boolean} test @param {string} what the kind, in the singular */
  jump(direction, test, what) {
    const index = this.#go(direction, test, what, "quarter");
    if (index < 0) return index;
    let place = 0;
    let all = 0;
    for (let at = 0; at < this.outline.count; at += 1) {
      if (!test(at)) continue;
      all += 1;
      if (at <= index) place += 1;
    }
    const title = this.cache.get(index)?.title ?? this.outline.toolName(index) ?? "";
    announce(`${what.charAt(0).toUpperCase()}${what.slice(1)} ${place} of ${all}${title ? `, ${plain(title)}` : ""}`);
    return index;
  }

  /** @param {1 | -1} direction @param {(index: number) => boolean} test @param {string} what @param {Align} align */
  #go(direction, test, what, align) {
    const start = this.selected >= 0 ? this.selected : direction > 0 ? this.firstShown() - 1 : this.firstShown() + 1;
    const index = this.outline.next(start, direction, test);
    if (index < 0) announce(direction > 0 ? `No later ${what}.` : `No earlier ${what}.`);
    else this.select(index, { align });
    return index;
  }

  /** The first step in the window. */
  firstShown() {
    return this.list.anchor.index;
  }

  /** @param {Event} event */
  #clicked(event) {
    const target = event.target;
    if (!(target instanceof Element)) return;
    const index = this.#indexOf(target);
    if (index < 0) return;
    if (target.closest("[data-step]") && event instanceof MouseEvent && !event.ctrlKey && !event.metaKey) event.preventDefault();
    this.#mark(index);
    // A click on the line of a collapsed step opens it; a selection of text does not.
    const isLine = target.closest(".step-line, .step-preview") && !target.closest("a, button");
    if (isLine && !String(getSelection())) this.toggle(index);
  }

  /** @param {Event} event */
  #focused(event) {
    const index = event.target instanceof Element ? this.#indexOf(event.target) : -1;
    if (index >= 0) this.#mark(index);
  }

  /** @param {Element} element */
  #indexOf(element) {
    const row = element.closest("[data-index]");
    return row instanceof HTMLElement ? Number(row.dataset["index"]) : -1;
  }

  /** Renews the elapsed times of running calls. */
  #tick() {
    for (const element of this.host.querySelectorAll("[data-since]")) {
      if (element instanceof HTMLElement) element.textContent = duration(Date.now() - Number(element.dataset["since"]));
    }
  }
}
