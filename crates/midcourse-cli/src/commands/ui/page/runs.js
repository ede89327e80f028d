// @ts-check
// The view of all runs: filters, and a table of which only the rows near the window exist.

import { fetchRuns } from "./api.js";
import { comparePath, runPath } from "./address.js";
import { announce, el, fill } from "./dom.js";
import { count } from "./format.js";
import { bindKeys } from "./keys.js";
import { follow } from "./live.js";
import { COLUMNS, emptyRow, runRow } from "./runs_row.js";
import { RunsFilter } from "./runs_filter.js";

/** @import {Run, RunList} from "./types.js" */
/** @import {ViewContext} from "./app.js" */

const PAGE = 100;
const OVERSCAN = 12;
/** Heights of a row in the table and of a card; the style sheet has the same. */
const ROW_PX = 44;
const CARD_PX = 132;

export class RunsView {
  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, context) {
    this.context = context;
    this.total = 0;
    /** @type {Map<number, Run>} by position */
    this.runs = new Map();
    /** @type {Set<number>} pages that are loaded or on the way */
    this.pages = new Set();
    /** @type {Map<number, {run: Run, isChosen: boolean, row: HTMLElement}>} rows in the document, by position */
    this.rows = new Map();
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.controller = new AbortController();
    this.frame = 0;
    /** @type {[number, number]} first and last row in the document */
    this.drawn = [0, -1];
    this.news = 0;
    this.wantedScroll = /** @type {number} */ (history.state?.scroll ?? 0);
    context.setTitle("");
    this.filter = new RunsFilter(() => this.reload());
    this.status = el("p", { class: "runs-status", role: "status" });
    this.badge = el("span", { class: "badge waiting", hidden: true }, el("span", { class: "dot", "aria-hidden": "true" }), "Reconnecting…");
    this.newsButton = el("button", { type: "button", class: "news", hidden: true, onclick: () => this.#showNews() });
    this.compareBar = el("div", { class: "compare-bar", hidden: true, role: "region", "aria-label": "Compare" });
    this.body = el("tbody", { role: "rowgroup" });
    this.head = el("tr", { role: "row" });
    this.table = el("table", { class: "runs-table", role: "table", "aria-label": "Runs" }, el("thead", { role: "rowgroup" }, this.head), this.body);
    this.empty = el("div", { class: "notice", hidden: true });
    fill(root, el("div", { class: "runs" }, el("h1", { class: "unseen" }, "Runs"), this.filter.element,
      el("div", { class: "runs-line" }, this.status, this.badge, this.newsButton), this.table, this.empty, this.compareBar));
    this.onScroll = () => {
      if (!this.#isCovered()) this.schedule();
    };
    window.addEventListener("scroll", this.onScroll, { passive: true });
    this.onResize = () => this.schedule();
    window.addEventListener("resize", this.onResize);
    this.body.addEventListener("change", (event) => this.#checked(event));
    this.body.addEventListener("click", (event) => this.#clicked(event));
    this.unbind = bindKeys({
      j: () => this.move(1), k: () => this.move(-1), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
      x: () => this.#toggleFocused(), g: () => window.scrollTo(0, 0), G: () => window.scrollTo(0, document.documentElement.scrollHeight),
      c: () => this.#compare(),
      Escape: () => this.#clear(),
    });
    this.unfollow = follow(null, null, { run: (run) => this.#changed(run), state: (isConnected) => { this.badge.hidden = isConnected; } });
    void this.reload();
  }

  destroy() {
    this.controller.abort();
    cancelAnimationFrame(this.frame);
    window.removeEventListener("scroll", this.onScroll);
    window.removeEventListener("resize", this.onResize);
    this.unbind();
    this.unfollow();
  }

  /** Asks for the runs again, with the filters and the order of now. */
  async reload() {
    this.controller.abort();
    this.controller = new AbortController();
    this.pages = new Set();
    this.news = 0;
    this.#showNewsButton();
    this.#showHead();
    await this.#load(0, true);
  }

  #showHead() {
    const { sort, order } = this.filter.values;
    fill(this.head, el("th", { role: "columnheader", scope: "col", class: "c-check" }, el("span", { class: "unseen" }, "Compare")),
      COLUMNS.map((column) => {
        const isSorted = column.sort === sort;
        const arrow = isSorted ? (order === "asc" ? "↑" : "↓") : "";
        return el("th", { role: "columnheader", scope: "col", class: column.className, "aria-sort": isSorted ? (order === "asc" ? "ascending" : "descending") : column.sort ? "none" : null },
          column.sort ? el("button", { type: "button", class: "sort", onclick: () => this.#sortBy(column.sort ?? "started") }, column.name, el("span", { "aria-hidden": "true", class: "arrow" }, arrow)) : column.name);
      }));
  }

  /** @param {string} column */
  #sortBy(column) {
    const { sort, order } = this.filter.values;
    this.filter.set({ sort: column, order: sort === column && order !== "asc" ? "asc" : "desc" });
    const index = COLUMNS.findIndex((candidate) => candidate.sort === column);
    const button = this.head.children[index + 1]?.querySelector("button");
    button?.focus();
  }

  /** @param {number} page @param {boolean} isFirst whether older rows are to be thrown away */
  async #load(page, isFirst) {
    if (this.pages.has(page)) return;
    this.pages.add(page);
    const { signal } = this.controller;
    try {
      const list = await fetchRuns({ ...this.filter.query(), offset: page * PAGE, count: PAGE }, signal);
      if (isFirst) this.runs = new Map();
      this.#take(list, page);
    } catch (error) {
      if (signal.aborted) return;
      this.pages.delete(page);
      this.context.fail(error);
    }
  }

  /** @param {RunList} list @param {number} page */
  #take(list, page) {
    this.total = list.total;
    for (const [index, run] of list.runs.entries()) this.runs.set(page * PAGE + index, run);
    this.filter.setHosts(list.hosts);
    this.table.setAttribute("aria-rowcount", String(this.total + 1));
    this.status.textContent = this.filter.isActive() ? `${count(this.total, "run")} match${this.total === 1 ? "es" : ""}` : count(this.total, "run");
    this.table.hidden = this.total === 0;
    this.empty.hidden = this.total > 0;
    if (this.total === 0) this.#showEmpty();
    this.draw();
    if (this.wantedScroll > 0) {
      const top = this.wantedScroll;
      this.wantedScroll = 0;
      window.scrollTo(0, top);
      this.draw();
    }
  }

  #showEmpty() {
    if (this.filter.isActive()) {
      fill(this.empty, el("h2", null, "No run matches"), el("button", { type: "button", onclick: () => this.filter.clear() }, "Clear the filters"));
    } else {
      fill(this.empty, el("h2", null, "No runs yet"), el("p", null, "midcourse has recorded nothing so far. Run ", el("code", null, "midcourse doctor"), " to see which agents it can record, or ", el("code", null, "midcourse import"), " to read sessions that an agent has already written."));
    }
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  get rowHeight() {
    return matchMedia("(max-width: 720px)").matches ? CARD_PX : ROW_PX;
  }

  /** Whether the rows in the document fill the window, so that scrolling costs nothing. */
  #isCovered() {
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / this.rowHeight));
    const last = Math.min(this.total - 1, Math.ceil((top + window.innerHeight) / this.rowHeight));
    return first >= this.drawn[0] && last <= this.drawn[1];
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.body.isConnected || this.total === 0) return;
    const height = this.rowHeight;
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - OVERSCAN);
    const last = Math.min(this.total - 1, Math.ceil((top + window.innerHeight) / height) + OVERSCAN);
    this.drawn = [first, last];
    const active = document.activeElement;
    const focused = active instanceof HTMLElement && this.body.contains(active) ? { row: Number(active.closest("tr")?.dataset["index"]), isLink: active.tagName === "A" } : null;
    const rows = [];
    for (let index = first; index <= last; index += 1) rows.push(this.#row(index));
    // The row that has the focus stays in the document, wherever the window is.
    const isAbove = focused !== null && focused.row < first;
    const isBelow = focused !== null && focused.row > last;
    const spaceAbove = first * height - (isAbove ? height : 0);
    const spaceBelow = (this.total - 1 - last) * height - (isBelow ? height : 0);
    for (const index of this.rows.keys()) if (index < first || index > last) this.rows.delete(index);
    fill(this.body, isAbove ? this.#row(focused.row) : null, space(spaceAbove), rows, space(spaceBelow), isBelow ? this.#row(focused.row) : null);
    if (focused) this.#focusRow(focused.row, focused.isLink);
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) void this.#load(page, false);
  }

  /** @param {number} index */
  #row(index) {
    const run = this.runs.get(index);
    if (!run) return emptyRow(index);
    const isChosen = this.chosen.has(run.run_id);
    const known = this.rows.get(index);
    if (known && known.run === run && known.isChosen === isChosen) return known.row;
    const row = runRow(run, index, isChosen);
    this.rows.set(index, { run, isChosen, row });
    return row;
  }

  /** @param {number} index @param {boolean} isLink */
  #focusRow(index, isLink) {
    const row = this.body.querySelector(`tr[data-index="${index}"]`);
    const target = row?.querySelector(isLink ? "a" : "input");
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  }

  /** Moves the focus to the next row. @param {number} step */
  move(step) {
    const active = document.activeElement?.closest("tr[data-index]");
    const height = this.rowHeight;
    const shown = Math.max(0, Math.ceil(-this.body.getBoundingClientRect().top / height));
    const before = active instanceof HTMLElement ? Number(active.dataset["index"]) : null;
    const index = Math.max(0, Math.min(this.total - 1, before === null ? shown : before + step));
    const top = this.body.getBoundingClientRect().top + index * height;
    if (top < 56) window.scrollBy(0, top - 56 - height);
    else if (top + height > window.innerHeight - 8) window.scrollBy(0, top + height - window.innerHeight + 48);
    this.draw();
    this.#focusRow(index, true);
  }

  /** @param {Event} event */
  #checked(event) {
    if (!(event.target instanceof HTMLInputElement)) return;
    this.#choose(event.target.value, event.target.checked);
  }

  /** A click anywhere in a row opens the run. @param {MouseEvent} event */
  #clicked(event) {
    const target = event.target;
    if (!(target instanceof Element) || target.closest("a, input, label, button") || String(getSelection())) return;
    const row = target.closest("tr[data-index]");
    const run = row instanceof HTMLElement ? this.runs.get(Number(row.dataset["index"])) : undefined;
    if (run) this.context.navigate(runPath(run.run_id));
  }

  #toggleFocused() {
    const box = document.activeElement?.closest("tr[data-index]")?.querySelector("input");
    if (!box) return;
    this.#choose(box.value, !box.checked);
  }

  /** @param {string} id @param {boolean} isChosen */
  #choose(id, isChosen) {
    if (isChosen) {
      // Two runs can be compared; a third replaces the first.
      if (this.chosen.size >= 2) this.chosen.delete([...this.chosen][0] ?? "");
      this.chosen.add(id);
    } else this.chosen.delete(id);
    const size = this.chosen.size;
    this.compareBar.hidden = size === 0;
    fill(this.compareBar, el("span", null, size === 1 ? "One run is selected. Select another one to compare." : "Two runs are selected."),
      size === 2 ? el("button", { type: "button", class: "primary", onclick: () => this.#compare() }, "Compare") : null,
      el("button", { type: "button", onclick: () => this.#clear() }, "Clear"));
    announce(size === 1 ? "One run selected." : size === 2 ? "Two runs selected. Press c to compare." : "No run selected.");
    this.draw();
  }

  #clear() {
    this.chosen.clear();
    this.compareBar.hidden = true;
    this.draw();
  }

  #compare() {
    const [a, b] = [...this.chosen];
    if (a && b) this.context.navigate(comparePath(a, b));
  }

  /** A run changed or is new. Rows stay where they are; new runs wait until they are asked for. @param {Run} run */
  #changed(run) {
    for (const [index, known] of this.runs) {
      if (known.run_id !== run.run_id) continue;
      this.runs.set(index, { ...known, ...run });
      this.schedule();
      return;
    }
    if (this.filter.isActive() || this.runs.size < this.total || this.filter.values.sort !== "started") {
      // It may be a known run that is not loaded; the figures of the list say whether there are more.
      void this.#countNews();
      return;
    }
    this.news += 1;
    if (window.scrollY < 40) void this.reload();
    else this.#showNewsButton();
  }

  async #countNews() {
    const { signal } = this.controller;
    try {
      const { total } = await fetchRuns({ ...this.filter.query(), count: 1 }, signal);
      if (total <= this.total) return;
      this.news = total - this.total;
      if (window.scrollY < 40) void this.reload();
      else this.#showNewsButton();
    } catch {
      // The next change asks again.
    }
  }

  #showNewsButton() {
    this.newsButton.hidden = this.news === 0;
    this.newsButton.textContent = `Show ${count(this.news, "new run")}`;
  }

  #showNews() {
    window.scrollTo(0, 0);
    void this.reload();
  }
}

/** @param {number} height */
function space(height) {
  if (height <= 0) return null;
  const row = el("tr", { class: "space", role: "presentation", "aria-hidden": "true" }, el("td", { role: "presentation", colSpan: COLUMNS.length + 1 }));
  row.style.height = `${height}px`;
  return row;
}
