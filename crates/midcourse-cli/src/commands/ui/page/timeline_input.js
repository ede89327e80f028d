// @ts-check
// Pointer and keys on the timeline: hovering shows what a mark is, a click selects its step, dragging
// over a range or the wheel with Ctrl zooms, two fingers zoom and move.

import { el, fill } from "./dom.js";
import { duration, timeWithSeconds } from "./format.js";
import { foreign, plain } from "./foreign.js";
import { toUnits } from "./frame_paint.js";
import { CALLS_ROW, MESSAGES_ROW, TEXT_ROW } from "./lane.js";
import { LANE_HEIGHT, MAIN_ROWS } from "./timeline.js";

/** @import {Timeline} from "./timeline.js" */
/** @import {Outline} from "./outline.js" */

const REACH_PX = 6;
const DRAG_PX = 5;
const HOVER_MS = 100;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let titleTimer;

/**
 * @typedef {object} TimelineHandlers
 * @property {(index: number) => void} select a step of the main run
 * @property {(runId: string, seq: number) => void} open a step of a subagent
 * @property {(index: number) => string | null} title of a step, if it is known
 * @property {(index: number) => Promise<string | null>} loadTitle
 */

/** @param {Timeline} timeline @param {TimelineHandlers} handlers @returns {HTMLElement} the tooltip */
export function listenToTimeline(timeline, handlers) {
  const tooltip = el("div", { class: "tooltip", hidden: true, "aria-hidden": "true" });
  for (const host of [timeline.host, timeline.subHost]) {
    listenToPointer(timeline, host, handlers, tooltip);
    host.addEventListener("wheel", (event) => wheel(timeline, host, event), { passive: false });
  }
  return tooltip;
}

/** @param {Timeline} timeline @param {HTMLElement} host @param {WheelEvent} event */
function wheel(timeline, host, event) {
  const x = event.clientX - host.getBoundingClientRect().left;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    timeline.zoomBy(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * 0.006), toUnits(timeline.view(), x));
  } else if (timeline.zoom && Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    timeline.pan(event.deltaX / timeline.view().width);
  }
}

/**
 * @typedef {{lane: number, index: number} | null} Target
 * @param {Timeline} timeline @param {HTMLElement} host @param {TimelineHandlers} handlers @param {HTMLElement} tooltip
 */
function listenToPointer(timeline, host, handlers, tooltip) {
  /** @type {Map<number, number>} pointers that are down, with their position */
  const down = new Map();
  let startX = 0;
  let isDragging = false;

  const position = (/** @type {PointerEvent} */ event) => {
    const box = host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top + host.scrollTop };
  };
  host.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { x } = position(event);
    if (x < timeline.view().left) return;
    down.set(event.pointerId, x);
    startX = x;
    isDragging = false;
  });
  host.addEventListener("pointermove", (event) => {
    const { x, y } = position(event);
    const view = timeline.view();
    if (down.has(event.pointerId)) {
      const before = down.get(event.pointerId) ?? x;
      down.set(event.pointerId, x);
      if (down.size === 2) pinch(timeline, [...down.entries()], event.pointerId, before);
      else if (isDragging || Math.abs(x - startX) > DRAG_PX) {
        if (!isDragging) host.setPointerCapture(event.pointerId);
        isDragging = true;
        if (event.pointerType === "touch") timeline.pan((before - x) / view.width);
        else timeline.drag = [toUnits(view, startX), toUnits(view, x)];
      }
    }
    timeline.hover = x >= view.left ? toUnits(view, x) : null;
    timeline.schedule();
    if (isDragging) tooltip.hidden = true;
    else showTooltip(timeline, host, handlers, tooltip, x, y, event);
  });
  const up = (/** @type {PointerEvent} */ event) => {
    if (!down.delete(event.pointerId)) return;
    const drag = timeline.drag;
    timeline.drag = null;
    if (drag) timeline.show(Math.min(...drag), Math.max(...drag));
    else if (!isDragging && event.type === "pointerup") {
      const { x, y } = position(event);
      choose(timeline, targetAt(timeline, host, x, y), handlers);
    }
    timeline.schedule();
  };
  host.addEventListener("pointerup", up);
  host.addEventListener("pointercancel", up);
  host.addEventListener("pointerleave", () => {
    timeline.hover = null;
    tooltip.hidden = true;
    timeline.schedule();
  });
}

/** @param {Timeline} timeline @param {[number, number][]} pointers @param {number} moved @param {number} before */
function pinch(timeline, pointers, moved, before) {
  const fixed = pointers.find(([id]) => id !== moved)?.[1] ?? 0;
  const now = pointers.find(([id]) => id === moved)?.[1] ?? 0;
  const ratio = Math.abs(before - fixed) / Math.max(8, Math.abs(now - fixed));
  timeline.zoomBy(ratio, toUnits(timeline.view(), fixed));
}

/** @param {Timeline} timeline @param {HTMLElement} host @param {number} x @param {number} y @returns {Target} */
function targetAt(timeline, host, x, y) {
  const view = timeline.view();
  if (x < view.left - REACH_PX) return null;
  const units = toUnits(view, x);
  const reach = (REACH_PX * (view.until - view.from)) / view.width;
  const isMain = host === timeline.host;
  const number = isMain ? 0 : 1 + Math.floor(y / LANE_HEIGHT);
  const lane = timeline.lanes[number];
  if (!lane) return null;
  const row = isMain ? rowAt(y) : null;
  if (isMain && row === null) {
    const brackets = timeline.brackets.get(lane.outline.runId) ?? [];
    const bracket = brackets.find(({ from, until }) => units >= from - reach && units <= until + reach);
    if (bracket) return { lane: 0, index: lane.outline.find(bracket.seq) };
  }
  let index = lane.nearest(units, reach, row);
  if (index < 0) index = lane.nearest(units, reach, null);
  return index < 0 ? null : { lane: number, index };
}

/** The row under the pointer; null in the row of problems. @param {number} y */
function rowAt(y) {
  if (y < MAIN_ROWS.top) return null;
  if (y < MAIN_ROWS.messages + 8) return MESSAGES_ROW;
  if (y < MAIN_ROWS.text + 5) return TEXT_ROW;
  const call = MAIN_ROWS.calls.findLastIndex((top) => y >= top - 1);
  return y < MAIN_ROWS.failed && call >= 0 ? CALLS_ROW + call : null;
}

/** @param {Timeline} timeline @param {Target} target @param {TimelineHandlers} handlers */
function choose(timeline, target, handlers) {
  if (!target) return;
  const outline = timeline.lanes[target.lane]?.outline;
  if (target.lane === 0) handlers.select(target.index);
  else if (outline) handlers.open(outline.runId, outline.seq[target.index] ?? 0);
}

/** @param {Timeline} timeline @param {HTMLElement} host @param {TimelineHandlers} handlers @param {HTMLElement} tooltip @param {number} x @param {number} y @param {PointerEvent} event */
function showTooltip(timeline, host, handlers, tooltip, x, y, event) {
  const target = targetAt(timeline, host, x, y);
  const lane = target ? timeline.lanes[target.lane] : undefined;
  host.style.cursor = target ? "pointer" : "crosshair";
  if (!target || !lane || event.pointerType === "touch") {
    tooltip.hidden = true;
    return;
  }
  const { index } = target;
  const title = target.lane === 0 ? handlers.title(index) : null;
  const problem = (timeline.brackets.get(lane.outline.runId) ?? []).find(({ from, until }) => {
    const at = timeline.scale.toUnits(lane.outline.at[index] ?? 0);
    return at >= from - 1000 && at <= until + 1;
  });
  clearTimeout(titleTimer);
  const name = foreign(title ?? lane.outline.toolName(index) ?? lane.outline.kindName(index));
  if (target.lane === 0 && title === null) {
    titleTimer = setTimeout(async () => {
      const loaded = await handlers.loadTitle(index).catch(() => null);
      if (loaded && name.isConnected) name.replaceWith(foreign(loaded));
    }, HOVER_MS);
  }
  fill(tooltip,
    target.lane > 0 ? el("div", { class: "quiet" }, foreign(plain(lane.name).slice(0, 120))) : null,
    el("div", null, name),
    el("div", { class: "quiet" }, describe(lane.outline, index)),
    problem ? el("div", { class: "tooltip-problem" }, foreign(problem.text)) : null);
  tooltip.hidden = false;
  const width = tooltip.offsetWidth;
  const left = Math.max(8, Math.min(window.innerWidth - width - 8, event.clientX - width / 2));
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${host.getBoundingClientRect().bottom + 4}px`;
}

/** Time, length and result of a step. @param {Outline} outline @param {number} index */
export function describe(outline, index) {
  const at = outline.at[index] ?? 0;
  const end = outline.end[index] ?? -1;
  const parts = [timeWithSeconds(at)];
  if (end >= 0) parts.push(duration(end - at));
  const state = ["", "failed", "refused", "no result"][outline.state[index] ?? 0];
  if (state) parts.push(state);
  return parts.join(" · ");
}
