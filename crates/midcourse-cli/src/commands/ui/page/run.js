// @ts-check
// The view of one run: loads it, and connects its head, timeline, steps, summary and the panel that
// says why midcourse spoke.

import { ApiError, fetchReport, fetchRun } from "./api.js";
import { runPath } from "./address.js";
import { announce, el, fill } from "./dom.js";
import { count } from "./format.js";
import { plain } from "./foreign.js";
import { bindKeys } from "./keys.js";
import { follow } from "./live.js";
import { MESSAGE, Outline } from "./outline.js";
import { chooseRun } from "./run_picker.js";
import { RunHead } from "./run_head.js";
import { runKeys } from "./run_keys.js";
import { runName } from "./run_words.js";
import { Steps } from "./steps.js";
import { Summary } from "./summary.js";
import { TimelinePanel } from "./timeline_panel.js";
import { WhyPanel } from "./why.js";

/** @import {OutlinePage, Problem, Report, Run, RunDetails} from "./types.js" */
/** @import {ViewContext} from "./app.js" */

const MAX_LANES = 100;
const LANES_DRAWN_MS = 500;
const ADDRESS_MS = 100;

export class RunView {
  /** @param {HTMLElement} root @param {string} id @param {number | null} seq @param {ViewContext} context */
  constructor(root, id, seq, context) {
    this.root = root;
    this.id = id;
    this.wantedSeq = seq;
    this.context = context;
    this.controller = new AbortController();
    this.outline = new Outline(id);
    /** @type {Map<string, Outline>} of this run and its subagents */
    this.outlines = new Map([[id, this.outline]]);
    /** @type {Problem[]} of this run itself */
    this.problems = [];
    /** @type {Run[]} */
    this.subagents = [];
    /** @type {RunHead | undefined} */
    this.head = undefined;
    /** @type {Summary | undefined} */
    this.summary = undefined;
    /** @type {TimelinePanel | undefined} */
    this.panel = undefined;
    /** @type {Steps | undefined} */
    this.steps = undefined;
    /** @type {WhyPanel | undefined} */
    this.why = undefined;
    this.isRunning = false;
    this.unseen = 0;
    /** @type {(() => void)[]} */
    this.ends = [];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.reportTimer = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.addressTimer = undefined;
    this.addressAt = -Infinity;
    void this.#load();
  }

  destroy() {
    this.controller.abort();
    clearTimeout(this.reportTimer);
    clearTimeout(this.addressTimer);
    for (const end of this.ends) end();
  }

  async #load() {
    const { signal } = this.controller;
    try {
      const details = fetchRun(this.id, signal);
      const steps = this.outline.load(() => this.#grown(), signal);
      // Both are under way; an error of the second is reported by the await below.
      steps.catch(() => {});
      this.#build(await details);
      await steps;
      this.#grown();
      this.steps?.list.refreshAll();
      this.#follow();
      await this.#loadLanes();
    } catch (error) {
      if (!signal.aborted) this.context.fail(error);
    }
  }

  /** @param {RunDetails} details */
  #build(details) {
    const { run } = details;
    this.isRunning = run.running === true;
    this.subagents = details.subagents;
    this.context.setTitle(runName(run));
    this.head = new RunHead(run, details.parents, () => chooseRun(run, this.context.navigate));
    this.summary = new Summary(run);
    this.summary.setSubagents(details.subagents);
    this.panel = new TimelinePanel(this.outline, {
      select: (index) => this.steps?.select(index, { align: "quarter", focus: false }),
      open: (runId, seq) => this.context.navigate(runPath(runId, seq)),
      title: (index) => this.steps?.cache.get(index)?.title ?? null,
      loadTitle: async (index) => (await this.steps?.cache.loadOne(index))?.title ?? null,
      failed: (direction) => this.nextFailed(direction),
      message: (direction) => this.nextMessage(direction),
      problem: (direction) => this.nextProblem(direction),
      enter: () => this.steps?.select(Math.max(0, this.steps.selected)),
    });
    this.panel.timeline.isRunning = this.isRunning;
    const feed = el("div", { class: "steps", role: "feed", "aria-label": "Steps", "aria-busy": "true" });
    this.feed = feed;
    this.why = new WhyPanel(this.id, (seq) => this.goTo(seq), () => this.#closeWhy());
    this.aside = el("aside", { class: "run-aside", "aria-label": "About this run" }, this.summary.element, this.why.element);
    this.newSteps = el("button", { type: "button", class: "new-steps", hidden: true, onclick: () => this.toEnd() });
    const columns = el("div", { class: "run-columns" },
      el("section", { class: "run-steps", "aria-label": "Steps of the run" }, el("h2", { class: "unseen" }, "Steps"), feed), this.aside);
    const view = el("div", { class: "run" }, this.head.element, this.panel.sticky, this.panel.lanes, columns, this.newSteps);
    view.addEventListener("click", (event) => this.#clicked(event));
    fill(this.root, view);
    const { sticky, timeline } = this.panel;
    const observer = new ResizeObserver(() => view.style.setProperty("--sticky", `${sticky.offsetHeight}px`));
    observer.observe(sticky);
    this.ends.push(() => observer.disconnect());
    this.steps = new Steps(feed, this.outline, {
      inset: () => Math.max(0, sticky.getBoundingClientRect().bottom),
      isRunning: () => this.isRunning,
      selected: (index) => this.#selected(index),
      why: (index) => void this.openWhy(index),
      shown: (first, last) => {
        timeline.window = [first, last];
        timeline.schedule();
        if (this.unseen > 0 && this.steps?.list.isAtEnd()) this.#setUnseen(0);
      },
      failed: (error) => this.#loadingFailed(error),
    });
    this.ends.push(() => this.steps?.destroy(), () => this.panel?.destroy(), bindKeys(runKeys(this)));
    this.panel.setLive(this.isRunning ? true : null);
    this.#grown();
    void this.#loadReport();
  }

  /** Steps were added to this run. */
  #grown() {
    if (!this.steps || !this.panel) return;
    this.steps.grow();
    this.feed?.setAttribute("aria-busy", String(!this.outline.isComplete));
    this.panel.update(this.problems.length);
    const wanted = this.wantedSeq;
    const last = this.outline.seq[this.outline.count - 1] ?? -1;
    if (wanted !== null && (this.outline.isComplete || last >= wanted) && this.outline.count > 0) {
      this.wantedSeq = null;
      const index = this.outline.find(wanted);
      this.steps.open(index);
      this.steps.select(index, { align: "quarter" });
      if (this.outline.kind[index] === MESSAGE) void this.openWhy(index, false);
    }
  }

  async #loadLanes() {
    const shown = this.subagents.slice(0, MAX_LANES);
    const lanes = shown.map((run) => ({ outline: this.outlines.get(run.run_id) ?? new Outline(run.run_id), name: runName(run) }));
    const waiting = lanes.filter(({ outline }) => !this.outlines.has(outline.runId));
    for (const { outline } of lanes) this.outlines.set(outline.runId, outline);
    this.panel?.timeline.setSubagents(lanes);
    // Few at a time: the browser and the server have other things to do as well.
    let drawnAt = 0;
    const work = async () => {
      for (let lane = waiting.shift(); lane; lane = waiting.shift()) {
        try {
          await lane.outline.load(() => {}, this.controller.signal);
        } catch {
          // The page works without this lane; it is loaded again after the next connection.
          this.outlines.delete(lane.outline.runId);
        }
        if (performance.now() - drawnAt < LANES_DRAWN_MS && waiting.length > 0) continue;
        drawnAt = performance.now();
        this.panel?.timeline.changed();
      }
    };
    await Promise.all([work(), work(), work()]);
    this.panel?.timeline.changed();
  }

  async #loadReport() {
    try {
      this.#setReport(await fetchReport(this.id, this.controller.signal));
    } catch (error) {
      if (!this.controller.signal.aborted) this.summary?.setError(error instanceof Error ? error.message : "");
    }
  }

  /** @param {Report} report */
  #setReport(report) {
    this.problems = report.trouble.filter((problem) => problem.run_id === this.id).sort((a, b) => a.first_seq - b.first_seq);
    this.head?.setReport(report);
    this.summary?.setReport(report);
    /** @type {Map<string, Set<number>>} */
    const shadow = new Map();
    for (const message of report.messages) {
      if (message.shadow || message.withheld) shadow.set(message.run_id, (shadow.get(message.run_id) ?? new Set()).add(message.seq));
    }
    this.panel?.timeline.setProblems(report.trouble, shadow);
    this.panel?.update(this.problems.length);
  }

  #follow() {
    if (!this.outline.cursor) return;
    this.ends.push(follow(this.id, this.outline.cursor, {
      outline: (page) => this.#changed(page),
      run: (run) => this.#runChanged(run),
      state: (isConnected) => {
        this.panel?.setLive(this.isRunning || !isConnected ? isConnected : null);
        if (isConnected) this.#catchUp();
      },
    }));
  }

  /** Loads what could not be loaded while the server was away. */
  #catchUp() {
    this.steps?.list.schedule();
    if (this.subagents.slice(0, MAX_LANES).some((run) => !this.outlines.has(run.run_id))) void this.#loadLanes();
  }

  /** @param {unknown} error */
  #loadingFailed(error) {
    // The badge says that the server is away, and the rest is loaded when it is back.
    const isAway = error instanceof ApiError && error.status === 0;
    if (!isAway) this.context.fail(error);
  }

  /** @param {OutlinePage} page */
  #changed(page) {
    const outline = this.outlines.get(page.run_id ?? this.id);
    if (!outline || !this.steps || !this.panel) return;
    if (outline !== this.outline) {
      outline.merge(page);
      this.panel.timeline.changed();
      return;
    }
    const before = outline.count;
    const isAtEnd = this.steps.list.isAtEnd() && before > 0;
    const changed = outline.merge(page);
    this.steps.change(changed);
    if (outline.count > before) {
      this.steps.grow();
      if (isAtEnd && window.scrollY > 0) this.steps.list.scrollToEnd();
      else this.#setUnseen(this.unseen + outline.count - before);
    }
    this.panel.update(this.problems.length);
  }

  /** @param {number} unseen */
  #setUnseen(unseen) {
    const before = this.unseen;
    this.unseen = unseen;
    if (!this.newSteps) return;
    this.newSteps.hidden = unseen === 0;
    this.newSteps.textContent = `${count(unseen, "new step")} ↓`;
    // A screen reader hears it when it begins and then in tens, not at every step.
    if (unseen > 0 && (before === 0 || Math.floor(before / 10) !== Math.floor(unseen / 10))) announce(`${count(unseen, "new step")}.`);
  }

  /** @param {Run} run */
  #runChanged(run) {
    if (run.run_id === this.id) {
      const wasRunning = this.isRunning;
      this.isRunning = run.running === true;
      this.head?.update(run);
      this.panel?.setLive(this.isRunning ? true : null);
      if (this.panel) this.panel.timeline.isRunning = this.isRunning;
      if (wasRunning && !this.isRunning) {
        announce("The run ended.");
        this.steps?.list.refreshAll();
      }
      this.#renewReport();
      return;
    }
    const known = this.subagents.findIndex((candidate) => candidate.run_id === run.run_id);
    if (known >= 0) this.subagents[known] = { ...this.subagents[known], ...run };
    else {
      this.subagents.push({ level: 1, ...run });
      void this.#loadLanes();
    }
    this.summary?.setSubagents(this.subagents);
  }

  /** A report replays the run, so a growing run gets a new one only now and then. */
  #renewReport() {
    if (this.reportTimer) return;
    this.reportTimer = setTimeout(() => {
      this.reportTimer = undefined;
      void this.#loadReport();
    }, 15_000);
  }

  /** @param {number} index */
  #selected(index) {
    this.panel?.select(index);
    // Browsers refuse many changes of the address in a short time, for instance while a key is held.
    clearTimeout(this.addressTimer);
    const wait = Math.max(0, this.addressAt + ADDRESS_MS - performance.now());
    if (wait === 0) this.#setAddress();
    else this.addressTimer = setTimeout(() => this.#setAddress(), wait);
  }

  #setAddress() {
    this.addressAt = performance.now();
    history.replaceState(history.state, "", this.address());
  }

  /** The path of the selected step. */
  address() {
    const selected = this.steps?.selected ?? -1;
    return runPath(this.id, selected < 0 ? null : this.outline.seq[selected]);
  }

  /** @param {Event} event */
  #clicked(event) {
    if (!(event instanceof MouseEvent) || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    const link = event.target instanceof Element ? event.target.closest("a[data-run][data-step]") : null;
    if (!(link instanceof HTMLElement) || link.dataset["run"] !== this.id) return;
    event.preventDefault();
    this.goTo(Number(link.dataset["step"]));
  }

  /** Selects the step that a record of this run belongs to. @param {number} seq */
  goTo(seq) {
    const index = this.outline.find(seq);
    this.steps?.open(index);
    this.steps?.select(index, { align: "quarter" });
    if (this.outline.kind[index] === MESSAGE) void this.openWhy(index, false);
  }

  toEnd() {
    if (!this.steps) return;
    this.#setUnseen(0);
    this.steps.select(this.outline.count - 1, { align: "nearest" });
    this.steps.list.scrollToEnd();
  }

  /** @param {1 | -1} direction */
  nextFailed(direction) {
    this.steps?.jump(direction, (index) => this.outline.hasFailed(index), "failed call");
  }

  /** @param {1 | -1} direction */
  nextMessage(direction) {
    const index = this.steps?.jump(direction, (at) => this.outline.kind[at] === MESSAGE, "message of midcourse") ?? -1;
    if (index >= 0 && this.why?.isOpen) void this.openWhy(index, false);
  }

  /** @param {1 | -1} direction */
  nextProblem(direction) {
    const starts = new Set(this.problems.map((problem) => this.outline.find(problem.first_seq)));
    const index = this.steps?.jump(direction, (at) => starts.has(at), "problem") ?? -1;
    const problem = this.problems.find((candidate) => this.outline.find(candidate.first_seq) === index);
    if (problem) announce(`Problem ${this.problems.indexOf(problem) + 1} of ${this.problems.length}: it ${plain(problem.text)}.`);
  }

  /** Opens the panel about a message, by default with the focus. @param {number} index @param {boolean} [focus] */
  async openWhy(index, focus = true) {
    if (!this.why || !this.aside) return;
    this.aside.classList.add("is-why");
    await this.why.open(this.outline.seq[index] ?? 0, focus);
  }

  /** The panel about the selected message, or about the last one before the selected step. */
  whySelected() {
    const start = this.steps?.selected ?? -1;
    const index = this.outline.kind[start] === MESSAGE ? start : this.outline.next(start + 1, -1, (at) => this.outline.kind[at] === MESSAGE);
    const found = index >= 0 ? index : this.outline.next(start, 1, (at) => this.outline.kind[at] === MESSAGE);
    if (found < 0) {
      announce("midcourse said nothing in this run.");
      return;
    }
    this.steps?.select(found);
    void this.openWhy(found);
  }

  /** Moves the focus to the summary. */
  toSummary() {
    this.why?.close();
    this.summary?.title.focus();
  }

  #closeWhy() {
    this.aside?.classList.remove("is-why");
    const selected = this.steps?.selected ?? -1;
    if (selected >= 0) this.steps?.list.row(selected)?.focus({ preventScroll: true });
  }

  /** Closes what is open; false if there is nothing to close. */
  closeTop() {
    if (!this.why?.isOpen) return false;
    this.why.close();
    return true;
  }
}
