// @ts-check
// The timeline of a run: the main run and, under it, a lane for each subagent. This file keeps what
// is shown and draws it; timeline_input.js turns pointer and keys into changes of it.

import { el } from "./dom.js";
import { FONT, clipped, paintAxis, paintBrackets, paintFolds, toX } from "./frame_paint.js";
import { Lane } from "./lane.js";
import { paintLane } from "./lane_paint.js";
import { TimeScale } from "./time_scale.js";
import { TOOL_KIND_NAMES } from "./tool_kind.js";
import { plain } from "./foreign.js";

/** @import {Outline} from "./outline.js" */
/** @import {Problem} from "./types.js" */
/** @import {Colours, Rows, View} from "./lane_paint.js" */
/** @import {Bracket} from "./frame_paint.js" */

export const LANE_HEIGHT = 24;
/** More subagents than this share a smaller part of the window, in which they are scrolled. */
const MAX_LANES_SHOWN = 8;
const LANES_SHOWN_OF_MANY = 4;
/** A running run has a new scale when it is so much longer than the one that is drawn. */
const LATE_MS = 2000;
const BESIDE_PX = 160;
const AXIS_Y = 12;
const PROBLEMS_TOP = 20;
export const MAIN_ROWS = rowsAt(PROBLEMS_TOP + 26, 11, 3, 9);
const MAIN_HEIGHT = MAIN_ROWS.top + MAIN_ROWS.height + 6;

/** Places of the rows of a lane. @param {number} top @param {number} callHeight @param {number} space @param {number} failedHeight @returns {Rows} */
function rowsAt(top, callHeight, space, failedHeight) {
  const isLarge = callHeight > 8;
  const calls = [0, 1, 2, 3].map((row) => top + (isLarge ? 28 : 4) + row * (callHeight + space));
  const failed = (calls[3] ?? 0) + callHeight + space;
  return {
    top, height: failed + failedHeight - top, messages: top + (isLarge ? 7 : 4), text: top + (isLarge ? 20 : 4),
    calls, callHeight, failed, failedHeight,
  };
}

/** @param {number} position @returns {Rows} */
export const laneRows = (position) => rowsAt(position * LANE_HEIGHT + 1, 3, 1, 3);

export class Timeline {
  /** @param {Outline} outline of the main run */
  constructor(outline) {
    /** @type {Lane[]} the main run first */
    this.lanes = [new Lane(outline, "main")];
    this.scale = new TimeScale(new Float64Array([0, 1]));
    /** What is shown, in units of the scale; null shows everything. @type {{from: number, until: number} | null} */
    this.zoom = null;
    /** @type {Problem[]} */
    this.problems = [];
    /** @type {Map<string, Bracket[]>} */
    this.brackets = new Map();
    /** @type {Map<string, Set<number>>} */
    this.shadow = new Map();
    this.selected = -1;
    /** @type {number | null} position of the pointer in units of the scale */
    this.hover = null;
    /** @type {[number, number] | null} range that is being selected, in units */
    this.drag = null;
    /** @type {[number, number]} first and last step in the window */
    this.window = [0, -1];
    this.isRunning = false;
    this.frame = 0;
    this.isStale = true;
    this.hasScale = false;
    /** Grows with every change of what the lanes show. */
    this.drawing = 0;
    // What does not change while somebody scrolls or points is drawn once and then copied.
    this.mainLayer = { canvas: document.createElement("canvas"), key: "" };
    this.subLayer = { canvas: document.createElement("canvas"), key: "" };
    this.main = el("canvas", { class: "timeline-canvas", "aria-hidden": "true" });
    this.sub = el("canvas", { class: "timeline-canvas sub", "aria-hidden": "true" });
    this.spacer = el("div", { class: "lanes-spacer" }, this.sub);
    this.laneText = el("p", { class: "unseen" });
    this.subHost = el("div", { class: "lanes", hidden: true }, this.laneText, this.spacer);
    this.host = el("div", { class: "timeline-main" }, this.main);
    this.colours = readColours();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.host);
    this.onScheme = () => {
      this.colours = readColours();
      this.drawing += 1;
      this.schedule();
    };
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.onScheme);
    this.subHost.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.host.style.height = `${MAIN_HEIGHT}px`;
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  /** @returns {Lane} */
  get lane() {
    return /** @type {Lane} */ (this.lanes[0]);
  }

  /** @param {{outline: Outline, name: string}[]} subagents */
  setSubagents(subagents) {
    this.lanes = [this.lane, ...subagents.map(({ outline, name }) => new Lane(outline, name))];
    const shown = subagents.length > MAX_LANES_SHOWN ? LANES_SHOWN_OF_MANY : subagents.length;
    this.subHost.hidden = shown === 0;
    this.subHost.style.height = `${shown * LANE_HEIGHT + (subagents.length > shown ? 10 : 0)}px`;
    this.laneText.textContent = `The timeline has a lane for each of the ${subagents.length} subagents. The summary lists them.`;
    // More lanes than fit are scrolled, so the keyboard has to reach them.
    if (subagents.length > shown) {
      this.subHost.tabIndex = 0;
      this.subHost.setAttribute("role", "region");
      this.subHost.setAttribute("aria-label", "Lanes of the subagents");
    }
    this.spacer.style.height = `${subagents.length * LANE_HEIGHT}px`;
    this.changed();
  }

  /** @param {Problem[]} problems @param {Map<string, Set<number>>} shadow seqs of shadow messages by run */
  setProblems(problems, shadow) {
    this.problems = problems;
    this.shadow = shadow;
    this.changed();
  }

  /** Steps or problems were added. */
  changed() {
    this.isStale = true;
    this.schedule();
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Renews the scale if steps were added. */
  prepare() {
    const isLate = this.isRunning && Date.now() > this.scale.last + LATE_MS;
    if (this.isStale || isLate) {
      this.isStale = false;
      this.hasScale = true;
      this.drawing += 1;
      const before = this.scale;
      this.scale = new TimeScale(this.#times());
      if (this.zoom) {
        // The same stretch of time stays in view.
        const { from, until } = this.zoom;
        this.zoom = { from: this.scale.toUnits(before.toTime(from)), until: this.scale.toUnits(before.toTime(until)) };
      }
      this.#setBrackets();
    }
    for (const lane of this.lanes) lane.prepare(this.scale);
  }

  #times() {
    let size = this.isRunning ? 1 : 0;
    for (const { outline } of this.lanes) size += outline.count * 2;
    const times = new Float64Array(size);
    let used = 0;
    for (const { outline } of this.lanes) {
      for (let index = 0; index < outline.count; index += 1) {
        times[used++] = outline.at[index] ?? 0;
        const end = outline.end[index] ?? -1;
        if (end >= 0) times[used++] = end;
      }
    }
    if (this.isRunning) times[used++] = Date.now();
    return times.subarray(0, used).sort();
  }

  #setBrackets() {
    this.brackets = new Map();
    for (const problem of this.problems) {
      const list = this.brackets.get(problem.run_id) ?? [];
      const from = this.scale.toUnits(Date.parse(problem.from));
      const until = this.scale.toUnits(Date.parse(problem.until));
      const overlapping = list.filter((other) => other.until > from).length;
      list.push({ from, until, text: plain(problem.text), level: Math.min(2, overlapping), seq: problem.first_seq });
      this.brackets.set(problem.run_id, list);
    }
    for (const list of this.brackets.values()) list.sort((a, b) => a.from - b.from);
  }

  get gutter() {
    return this.host.clientWidth < 600 ? 66 : 112;
  }

  /** @returns {View} */
  view() {
    const left = this.gutter;
    const width = Math.max(50, this.host.clientWidth - left - 8);
    const zoom = this.zoom ?? { from: 0, until: this.scale.total };
    return { ...zoom, left, width };
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.host.isConnected || this.lane.outline.count === 0) return;
    this.prepare();
    const view = this.view();
    this.#drawMain(view);
    if (!this.subHost.hidden) this.#drawSubagents(view);
  }

  /** @param {View} view */
  #drawMain(view) {
    const width = this.host.clientWidth;
    const key = [view.from, view.until, width, window.devicePixelRatio, this.drawing].join();
    if (this.mainLayer.key !== key) this.#drawMainLayer(sized(this.mainLayer.canvas, width, MAIN_HEIGHT), view);
    this.mainLayer.key = key;
    const context = sized(this.main, width, MAIN_HEIGHT);
    context.drawImage(this.mainLayer.canvas, 0, 0, width, MAIN_HEIGHT);
    this.#drawCursor(context, view, PROBLEMS_TOP, MAIN_ROWS.top + MAIN_ROWS.height, true);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view */
  #drawMainLayer(context, view) {
    const { colours, scale } = this;
    const bottom = MAIN_ROWS.top + MAIN_ROWS.height;
    context.fillStyle = colours.line;
    for (const top of MAIN_ROWS.calls) context.fillRect(view.left, top + MAIN_ROWS.callHeight + 1, view.width, 0.5);
    paintFolds(context, view, scale, colours, PROBLEMS_TOP, bottom);
    paintAxis(context, view, scale, colours, AXIS_Y, bottom);
    const id = this.lane.outline.runId;
    paintBrackets(context, this.brackets.get(id) ?? [], view, MAIN_ROWS, colours, PROBLEMS_TOP, true);
    paintLane(context, this.lane, MAIN_ROWS, view, colours, this.shadow.get(id) ?? new Set());
    this.#drawNames(context, view);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view */
  #drawNames(context, view) {
    const { colours } = this;
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "right";
    /** @type {[string, number, string][]} */
    const names = [
      ["Problems", PROBLEMS_TOP + 10, colours.quiet], ["midcourse", MAIN_ROWS.messages, colours.accent], ["Text", MAIN_ROWS.text, colours.quiet],
      ["Failed", MAIN_ROWS.failed + MAIN_ROWS.failedHeight / 2, colours.bad],
    ];
    for (const [row, top] of MAIN_ROWS.calls.entries()) names.push([TOOL_KIND_NAMES[row] ?? "", top + MAIN_ROWS.callHeight / 2, colours.quiet]);
    for (const [name, y, colour] of names) {
      context.fillStyle = colour;
      context.fillText(name, view.left - 8, y + 1);
    }
  }

  /** @param {View} view */
  #drawSubagents(view) {
    const height = this.subHost.clientHeight;
    const width = this.host.clientWidth;
    const scrolled = this.subHost.scrollTop;
    const key = [view.from, view.until, width, height, scrolled, window.devicePixelRatio, this.drawing].join();
    if (this.subLayer.key !== key) this.#drawSubagentLayer(sized(this.subLayer.canvas, width, height), view, scrolled, height);
    this.subLayer.key = key;
    const context = sized(this.sub, width, height);
    context.drawImage(this.subLayer.canvas, 0, 0, width, height);
    this.#drawCursor(context, view, 0, height, false);
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view @param {number} scrolled @param {number} height */
  #drawSubagentLayer(context, view, scrolled, height) {
    const { colours } = this;
    context.save();
    context.translate(0, -scrolled);
    paintFolds(context, view, this.scale, colours, scrolled, scrolled + height);
    const first = Math.floor(scrolled / LANE_HEIGHT);
    const last = Math.min(this.lanes.length - 2, Math.ceil((scrolled + height) / LANE_HEIGHT));
    for (let position = first; position <= last; position += 1) {
      const lane = this.lanes[position + 1];
      if (!lane) continue;
      const rows = laneRows(position);
      const { runId } = lane.outline;
      context.fillStyle = colours.line;
      context.fillRect(0, position * LANE_HEIGHT, this.host.clientWidth, 0.5);
      paintBrackets(context, this.brackets.get(runId) ?? [], view, rows, colours, position * LANE_HEIGHT + 1, false);
      const { count } = lane.outline;
      if (count > 0) {
        // From its first to its last step, so that a short one among long ones can be seen.
        const from = Math.max(view.left, toX(view, lane.start[0] ?? 0));
        const until = Math.min(view.left + view.width, toX(view, lane.latest[count - 1] ?? 0));
        context.fillRect(from, position * LANE_HEIGHT + 2, Math.max(3, until - from), LANE_HEIGHT - 4);
      }
      paintLane(context, lane, rows, view, colours, this.shadow.get(runId) ?? new Set());
      this.#drawLaneName(context, view, lane, position * LANE_HEIGHT + LANE_HEIGHT / 2 + 1);
    }
    context.restore();
  }

  /** The name stands at the left, and again beside the steps if it does not fit there. @param {CanvasRenderingContext2D} context @param {View} view @param {Lane} lane @param {number} y */
  #drawLaneName(context, view, lane, y) {
    context.font = FONT;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = this.colours.quiet;
    const name = plain(lane.name);
    const short = clipped(context, name, view.left - 16);
    context.fillText(short, 8, y);
    const last = lane.outline.count - 1;
    if (short === name || last < 0) return;
    const from = toX(view, lane.start[0] ?? 0);
    const until = toX(view, lane.latest[last] ?? 0) + 8;
    const right = view.left + view.width;
    if (until > view.left && right - until > BESIDE_PX) context.fillText(clipped(context, name, right - until), until, y);
    else if (from < right && from - view.left > BESIDE_PX) {
      context.textAlign = "right";
      context.fillText(clipped(context, name, from - view.left - 16), from - 8, y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {View} view @param {number} top @param {number} bottom @param {boolean} isMain */
  #drawCursor(context, view, top, bottom, isMain) {
    const { colours } = this;
    const { outline } = this.lane;
    const right = view.left + view.width;
    const inside = (/** @type {number} */ x) => Math.max(view.left, Math.min(right, x));
    const [first, last] = this.window;
    if (isMain && last >= first && outline.count > 0) {
      const from = inside(toX(view, this.scale.toUnits(outline.at[first] ?? 0)));
      const until = inside(toX(view, this.scale.toUnits(outline.at[Math.min(last, outline.count - 1)] ?? 0)));
      context.fillStyle = colours.quiet;
      context.globalAlpha = 0.55;
      context.fillRect(from, bottom + 2, Math.max(3, until - from), 3);
      context.globalAlpha = 1;
    }
    if (this.drag) {
      const from = inside(toX(view, Math.min(...this.drag)));
      const until = inside(toX(view, Math.max(...this.drag)));
      context.fillStyle = colours.accent;
      context.globalAlpha = 0.15;
      context.fillRect(from, top, until - from, bottom - top);
      context.globalAlpha = 1;
    }
    if (this.hover !== null && !this.drag) {
      context.fillStyle = colours.quiet;
      context.globalAlpha = 0.5;
      context.fillRect(toX(view, this.hover), top, 1, bottom - top);
      context.globalAlpha = 1;
    }
    if (this.selected >= 0 && this.selected < outline.count) {
      const x = toX(view, this.scale.toUnits(outline.at[this.selected] ?? 0));
      if (x < view.left - 1 || x > right + 1) return;
      context.fillStyle = colours.accent;
      context.fillRect(Math.round(x) - 1, top - (isMain ? 4 : 0), 2, bottom - top + (isMain ? 4 : 0));
      if (isMain) {
        context.beginPath();
        context.moveTo(x - 5, top - 6);
        context.lineTo(x + 5, top - 6);
        context.lineTo(x, top + 1);
        context.fill();
      }
    }
  }

  /** Shows a part of the scale. @param {number} from @param {number} until */
  show(from, until) {
    const { total } = this.scale;
    const shortest = Math.min(total, 200);
    let width = Math.max(shortest, until - from);
    if (width >= total * 0.999) this.zoom = null;
    else {
      width = Math.min(width, total);
      const middle = (from + until) / 2;
      const start = Math.max(0, Math.min(total - width, middle - width / 2));
      this.zoom = { from: start, until: start + width };
    }
    this.schedule();
  }

  /** @param {number} factor below 1 shows less @param {number} [around] position that stays where it is */
  zoomBy(factor, around) {
    const { from, until } = this.zoom ?? { from: 0, until: this.scale.total };
    const selected = this.selected >= 0 ? this.scale.toUnits(this.lane.outline.at[this.selected] ?? 0) : null;
    const fixed = around ?? (selected !== null && selected >= from && selected <= until ? selected : (from + until) / 2);
    this.show(fixed - (fixed - from) * factor, fixed + (until - fixed) * factor);
  }

  /** @param {number} share of what is shown */
  pan(share) {
    if (!this.zoom) return;
    const width = this.zoom.until - this.zoom.from;
    const from = Math.max(0, Math.min(this.scale.total - width, this.zoom.from + width * share));
    this.zoom = { from, until: from + width };
    this.schedule();
  }

  /** Marks the selected step, and shows its time if the timeline is zoomed. @param {number} index */
  select(index) {
    this.selected = index;
    if (this.zoom) {
      const at = this.scale.toUnits(this.lane.outline.at[index] ?? 0);
      const { from, until } = this.zoom;
      if (at < from || at > until) this.show(at - (until - from) / 2, at + (until - from) / 2);
    }
    this.schedule();
  }
}

/** Sets the size of a canvas for the screen's resolution and clears it. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function sized(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** @returns {Colours} */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ground: read("ground"), ink: read("ink"), quiet: read("quiet"), line: read("line"), bar: read("bar"),
    bad: read("bad"), warn: read("warn"), accent: read("accent"), panel: read("panel"),
  };
}
