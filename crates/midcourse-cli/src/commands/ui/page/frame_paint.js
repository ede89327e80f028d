// @ts-check
// Draws what surrounds the lanes of the timeline: the time axis, folded stretches, problems as
// brackets, the selected step and the names of the rows.

import { dayOf, shortDuration, timeOfDay, timeWithSeconds } from "./format.js";
import { roundTimes } from "./time_scale.js";

/** @import {Colours, Rows, View} from "./lane_paint.js" */
/** @import {Fold, TimeScale} from "./time_scale.js" */

/** @typedef {{from: number, until: number, text: string, level: number, seq: number}} Bracket in units of the scale */

const FEW_FOLDS = 8;
const HATCHED_PX = 8;
/** Room for the name of a short problem. */
const NAME_PX = 120;

export const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/** @param {View} view @param {number} units */
export function toX(view, units) {
  return view.left + ((units - view.from) / (view.until - view.from)) * view.width;
}

/** @param {View} view @param {number} x */
export function toUnits(view, x) {
  return view.from + ((x - view.left) / view.width) * (view.until - view.from);
}

/** @param {CanvasRenderingContext2D} context @param {View} view @param {TimeScale} scale @param {Colours} colours @param {number} top @param {number} bottom */
export function paintFolds(context, view, scale, colours, top, bottom) {
  for (const fold of scale.folds) {
    const from = Math.max(view.left, toX(view, fold.start));
    const until = Math.min(view.left + view.width, toX(view, fold.start + fold.width));
    if (until <= from) continue;
    if (until - from < HATCHED_PX) {
      context.fillStyle = colours.line;
      context.fillRect(from, top, until - from, bottom - top);
      continue;
    }
    context.save();
    context.beginPath();
    context.rect(from, top, until - from, bottom - top);
    context.clip();
    context.fillStyle = colours.ground;
    context.fillRect(from, top, until - from, bottom - top);
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = from - (bottom - top); x < until; x += 6) {
      context.moveTo(x, bottom);
      context.lineTo(x + (bottom - top), top);
    }
    context.stroke();
    context.restore();
  }
}

/** @param {CanvasRenderingContext2D} context @param {View} view @param {TimeScale} scale @param {Colours} colours @param {number} y baseline of the labels @param {number} bottom */
export function paintAxis(context, view, scale, colours, y, bottom) {
  context.font = FONT;
  context.textBaseline = "alphabetic";
  /** @type {[number, number][]} */
  const taken = [];
  const isFree = (/** @type {number} */ from, /** @type {number} */ until) => taken.every(([a, b]) => until < a - 6 || from > b + 6);
  const labelFolds = () => {
    context.textAlign = "center";
    context.fillStyle = colours.ink;
    for (const fold of scale.folds) labelFold(fold);
  };
  const labelFold = (/** @type {Fold} */ fold) => {
    const middle = toX(view, fold.start + fold.width / 2);
    const text = `idle ${shortDuration(fold.until - fold.from)}`;
    const half = context.measureText(text).width / 2;
    const x = Math.min(view.left + view.width - half, Math.max(view.left + half, middle));
    if (middle < view.left || middle > view.left + view.width || !isFree(x - half, x + half)) return;
    context.fillText(text, x, y);
    taken.push([x - half, x + half]);
  };
  // A few folds are worth more than round times; many would leave no room for times.
  const isFew = scale.folds.length <= FEW_FOLDS;
  if (isFew) labelFolds();
  context.fillStyle = colours.quiet;
  const perPixel = (view.until - view.from) / view.width;
  const { times, step } = roundTimes(scale.toTime(view.from), scale.toTime(view.until), perPixel * 80);
  let day = "";
  for (const time of times) {
    const units = scale.toUnits(time);
    if (scale.folds.some((fold) => time > fold.from && time < fold.until)) continue;
    const x = toX(view, units);
    if (x < view.left - 1 || x > view.left + view.width + 1) continue;
    const today = dayOf(time);
    const text = `${today === day || step < 60_000 ? "" : `${today} `}${step < 60_000 ? timeWithSeconds(time) : timeOfDay(time)}`;
    const width = context.measureText(text).width;
    const from = Math.min(Math.max(view.left, x - width / 2), view.left + view.width - width);
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x), y + 4, 1, bottom - y - 4);
    if (!isFree(from, from + width)) continue;
    day = today;
    taken.push([from, from + width]);
    context.fillStyle = colours.quiet;
    context.textAlign = "left";
    context.fillText(text, from, y);
  }
  if (!isFew) labelFolds();
}

/** @param {CanvasRenderingContext2D} context @param {Bracket[]} brackets @param {View} view @param {Rows} rows @param {Colours} colours @param {number} top of the row of problems @param {boolean} isNamed */
export function paintBrackets(context, brackets, view, rows, colours, top, isNamed) {
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  const right = view.left + view.width;
  let free = -Infinity;
  for (const [position, bracket] of brackets.entries()) {
    const from = Math.max(view.left, toX(view, bracket.from));
    const until = Math.min(right, Math.max(toX(view, bracket.until), toX(view, bracket.from) + 4));
    if (until < view.left || from > right) continue;
    context.fillStyle = colours.warn;
    context.globalAlpha = 0.1;
    context.fillRect(from, top, until - from, rows.top + rows.height - top);
    context.globalAlpha = 1;
    const line = isNamed ? top + 14 + bracket.level * 3 : top;
    context.fillRect(from, line, until - from, isNamed ? 2.5 : 2);
    if (isNamed) {
      context.fillRect(from, line, 1.5, 6);
      context.fillRect(until - 1.5, line, 1.5, 6);
      const next = brackets[position + 1];
      // Not much beyond its bracket: it would seem to name other calls.
      const limit = Math.max(until, from + NAME_PX);
      const end = Math.min(right, limit, next ? Math.max(until, toX(view, next.from) - 6) : right);
      const start = Math.max(from, Math.min(free, until));
      if (end - start > 48 && start >= free) {
        context.fillStyle = colours.ink;
        const text = clipped(context, bracket.text, end - start);
        context.fillText(text, start, top + 10);
        free = start + context.measureText(text).width + 8;
      }
    }
  }
}

/** @param {CanvasRenderingContext2D} context @param {string} text @param {number} room */
export function clipped(context, text, room) {
  const short = text.slice(0, 160);
  if (context.measureText(short).width <= room) return short;
  let low = 0;
  let high = short.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${short.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${short.slice(0, low)}…` : "";
}
