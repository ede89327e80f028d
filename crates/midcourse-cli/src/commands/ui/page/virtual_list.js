// @ts-check
// A list of any length in the scrolling page: only the rows near the window exist in the document.
// Rows have different heights; estimates are replaced by measured heights, and what the reader is
// looking at stays where it is while that happens.

import { Heights } from "./heights.js";

/**
 * Where a row is put in the window: at its upper edge, in its upper quarter (so that what follows can
 * be read), in the middle, at its end, or where it is if it can be seen.
 * @typedef {"start" | "quarter" | "center" | "end" | "nearest"} Align
 */

/**
 * @typedef {object} ListOptions
 * @property {(index: number) => number} estimate height of a row that was not measured
 * @property {(index: number) => HTMLElement} render
 * @property {() => number} inset height of what covers the top of the window
 * @property {(first: number, last: number) => void} [shown] called when other rows are in the window
 */

const OVERSCAN_PX = 600;

export class VirtualList {
  /** @param {HTMLElement} host @param {ListOptions} options */
  constructor(host, options) {
    this.host = host;
    this.options = options;
    this.heights = new Heights(options.estimate);
    /** @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    /** @type {WeakMap<Element, number>} */
    this.indexOf = new WeakMap();
    this.frame = 0;
    this.anchor = { index: 0, offset: 0 };
    this.hostTop = 0;
    /** Whether the reader has scrolled into the list. */
    this.isInside = false;
    host.classList.add("virtual");
    this.observer = new ResizeObserver((changes) => this.#measured(changes));
    /** The row that stays in the window while heights are corrected, until the reader scrolls. @type {{index: number, align: Align} | null} */
    this.target = null;
    /** Where this list has scrolled the window to. */
    this.scrolledTo = 0;
    this.onScroll = () => {
      if (Math.abs(window.scrollY - this.scrolledTo) > 1) this.target = null;
      this.schedule();
    };
    window.addEventListener("scroll", this.onScroll, { passive: true });
    window.addEventListener("resize", this.onScroll);
    this.pageObserver = new ResizeObserver(this.onScroll);
    this.pageObserver.observe(document.body);
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.pageObserver.disconnect();
    window.removeEventListener("scroll", this.onScroll);
    window.removeEventListener("resize", this.onScroll);
  }

  get count() {
    return this.heights.count;
  }

  /** @param {number} count */
  setCount(count) {
    this.heights.resize(count);
    for (const [index, row] of this.rows) if (index >= count) this.#remove(index, row);
    this.#setHeight();
    this.schedule();
  }

  /** Throws away all rows and heights. @param {number} count */
  reset(count) {
    for (const [index, row] of this.rows) this.#remove(index, row);
    this.heights.reset(count);
    this.#setHeight();
    this.schedule();
  }

  /** Renders rows again that are in the document. @param {Iterable<number>} indices */
  refresh(indices) {
    /** @type {[number, HTMLElement][]} */
    const renewed = [];
    for (const index of indices) {
      const row = this.#renew(index);
      if (row) renewed.push([index, row]);
    }
    this.#measure(renewed);
  }

  /** @param {number} index */
  #renew(index) {
    const row = this.rows.get(index);
    if (!row) return null;
    const active = document.activeElement;
    const hadFocus = active instanceof HTMLElement && row.contains(active) ? active : null;
    const key = hadFocus && hadFocus !== row ? hadFocus.dataset["focus"] : undefined;
    const next = this.options.render(index);
    this.#place(index, next);
    this.observer.unobserve(row);
    row.replaceWith(next);
    this.rows.set(index, next);
    this.observer.observe(next);
    if (hadFocus) {
      const target = key ? next.querySelector(`[data-focus="${CSS.escape(key)}"]`) : null;
      (target instanceof HTMLElement ? target : next).focus({ preventScroll: true });
    }
    return next;
  }

  refreshAll() {
    this.refresh([...this.rows.keys()]);
  }

  /** @param {number} index @returns {HTMLElement | undefined} */
  row(index) {
    return this.rows.get(index);
  }

  schedule() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.update();
      });
    }
  }

  #setHeight() {
    this.host.style.height = `${Math.ceil(this.heights.total())}px`;
  }

  /** The part of the list that the window shows. @returns {[number, number]} */
  #window() {
    const inset = this.options.inset();
    const top = this.host.getBoundingClientRect().top;
    return [inset - top, window.innerHeight - top];
  }

  /** Whether the end of the list is in the window. */
  isAtEnd() {
    const [, bottom] = this.#window();
    return bottom >= this.heights.total() - 80;
  }

  /** Brings the document in line with the position of the window. */
  update() {
    if (!this.host.isConnected || this.count === 0) return;
    this.#followHost();
    const [from, until] = this.#window();
    const first = this.heights.at(Math.max(0, from - OVERSCAN_PX));
    const last = this.heights.at(Math.max(0, until + OVERSCAN_PX));
    this.#anchorAt(from);
    for (const [index, row] of this.rows) {
      if ((index < first || index > last) && !row.contains(document.activeElement)) this.#remove(index, row);
    }
    /** @type {[number, HTMLElement][]} */
    const added = [];
    for (let index = first; index <= last; index += 1) {
      if (this.rows.has(index)) continue;
      const row = this.options.render(index);
      this.#place(index, row);
      this.rows.set(index, row);
      added.push([index, row]);
    }
    if (added.length > 0) {
      this.#insert(added);
      this.#measure(added);
      for (const [, row] of added) this.observer.observe(row);
    }
    this.options.shown?.(this.heights.at(Math.max(0, from)), this.heights.at(Math.max(0, until)));
  }

  /** Keeps what is in the window there when something above the list changed its height. */
  #followHost() {
    const top = this.host.getBoundingClientRect().top + window.scrollY;
    const moved = top - this.hostTop;
    this.hostTop = top;
    if (moved !== 0 && this.target) this.#alignTarget();
    else if (moved !== 0 && this.isInside) this.#scrollBy(moved);
    const [from] = this.#window();
    this.isInside = from > -1;
  }

  /** Puts rows into the document in the order of the list, for screen readers and the Tab key. @param {[number, HTMLElement][]} added */
  #insert(added) {
    const inDocument = [...this.host.children];
    let position = 0;
    for (const [index, row] of added) {
      while (position < inDocument.length && (this.indexOf.get(/** @type {Element} */ (inDocument[position])) ?? 0) < index) position += 1;
      this.host.insertBefore(row, inDocument[position] ?? null);
    }
  }

  /** @param {number} from */
  #anchorAt(from) {
    const index = this.heights.at(Math.max(0, from));
    this.anchor = { index, offset: Math.max(0, from) - this.heights.top(index) };
  }

  /** @param {number} index @param {HTMLElement} row */
  #place(index, row) {
    this.indexOf.set(row, index);
    row.style.transform = `translateY(${this.heights.top(index)}px)`;
  }

  /** @param {number} index @param {HTMLElement} row */
  #remove(index, row) {
    this.observer.unobserve(row);
    row.remove();
    this.rows.delete(index);
  }

  /** @param {ResizeObserverEntry[]} changes */
  #measured(changes) {
    /** @type {[number, HTMLElement][]} */
    const rows = [];
    for (const { target } of changes) {
      const index = this.indexOf.get(target);
      if (index !== undefined && target.isConnected && target instanceof HTMLElement) rows.push([index, target]);
    }
    this.#measure(rows);
  }

  /** @param {[number, HTMLElement][]} rows */
  #measure(rows) {
    let above = 0;
    let changed = false;
    for (const [index, row] of rows) {
      if (!row.isConnected) continue;
      const difference = this.heights.set(index, row.offsetHeight);
      if (difference !== 0) changed = true;
      if (index < this.anchor.index) above += difference;
    }
    if (!changed) return;
    this.#setHeight();
    for (const [index, row] of this.rows) this.#place(index, row);
    if (above !== 0) this.#scrollBy(above);
    this.#alignTarget();
    this.schedule();
  }

  /** @param {number} distance */
  #scrollBy(distance) {
    window.scrollBy(0, distance);
    this.scrolledTo = window.scrollY;
  }

  /**
   * Scrolls so that a row is in the window.
   * @param {number} index @param {Align} align
   */
  scrollTo(index, align) {
    this.target = { index, align };
    // More than once: rows that come into the document on the way are measured and move the target.
    for (let pass = 0; pass < 3; pass += 1) {
      this.#alignTarget();
      this.update();
    }
  }

  #alignTarget() {
    if (!this.target) return;
    const { index, align } = this.target;
    const [from, until] = this.#window();
    const top = this.heights.top(index);
    const height = this.heights.get(index);
    const room = until - from;
    let target = from;
    if (align === "end") target = from + document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
    else if (align === "start") target = top - 8;
    else if (align === "quarter") target = height >= room * 0.75 ? top - 8 : top - room * 0.2;
    else if (align === "center") target = height >= room ? top - 8 : top - (room - height) / 2;
    else if (top < from + 4) target = top - 8;
    else if (top + height > until - 8) target = height >= room - 16 ? top - 8 : top + height - room + 12;
    if (Math.abs(target - from) > 1) this.#scrollBy(target - from);
    this.scrolledTo = window.scrollY;
  }

  scrollToEnd() {
    this.scrollTo(this.count - 1, "end");
  }
}
