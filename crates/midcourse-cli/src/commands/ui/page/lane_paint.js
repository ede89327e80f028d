// @ts-check
// Draws the steps of one lane. With many steps the calls are first counted per pixel column, so the
// work on the canvas depends on its width and not on the length of the run.

import { CALLS_ROW, MESSAGES_ROW, TEXT_ROW } from "./lane.js";
import { OPEN, USER } from "./outline.js";

/** @import {Lane} from "./lane.js" */

/**
 * @typedef {object} Rows places of the rows of a lane, from the top of the canvas
 * @property {number} top
 * @property {number} height
 * @property {number} messages centre of the marks
 * @property {number} text centre
 * @property {number[]} calls top of the row of each kind of tool
 * @property {number} callHeight
 * @property {number} failed top
 * @property {number} failedHeight
 *
 * @typedef {object} View the part of the scale that is shown
 * @property {number} from
 * @property {number} until
 * @property {number} left of the drawing area
 * @property {number} width of the drawing area
 *
 * @typedef {Record<"ground" | "ink" | "quiet" | "line" | "bar" | "bad" | "warn" | "accent" | "panel", string>} Colours
 */

const FEW = 1500;
const KINDS = 4;

/** Columns of counts, kept between frames. */
let columns = new Int32Array(0);

/** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {Rows} rows @param {View} view @param {Colours} colours @param {Set<number>} shadow seqs of messages that were not shown to the agent */
export function paintLane(context, lane, rows, view, colours, shadow) {
  const [first, last] = lane.range(view.from, view.until);
  paintTurns(context, lane, rows, view, colours);
  if (last - first > FEW) paintColumns(context, lane, rows, view, colours, first, last);
  else paintBars(context, lane, rows, view, colours, first, last);
  paintMarks(context, lane, rows, view, colours, first, last, shadow);
}

/** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {Rows} rows @param {View} view @param {Colours} colours */
function paintTurns(context, lane, rows, view, colours) {
  const scale = view.width / (view.until - view.from);
  const shown = lane.turns.length * (view.width / Math.max(1, (lane.scale?.total ?? 1) * scale));
  if (shown > view.width / 6) return;
  context.fillStyle = colours.line;
  for (const turn of lane.turns) {
    if (turn < view.from || turn > view.until) continue;
    context.fillRect(Math.round(view.left + (turn - view.from) * scale), rows.top + rows.height, 1, rows.callHeight > 8 ? 3 : 2);
  }
}

/** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {Rows} rows @param {View} view @param {Colours} colours @param {number} first @param {number} last */
function paintColumns(context, lane, rows, view, colours, first, last) {
  const width = Math.floor(view.width);
  const stride = width + 2;
  if (columns.length < stride * KINDS * 2) columns = new Int32Array(stride * KINDS * 2);
  columns.fill(0);
  const scale = width / (view.until - view.from);
  const { state } = lane.outline;
  for (let place = first; place < last; place += 1) {
    const kind = (lane.row[place] ?? 255) - CALLS_ROW;
    if (kind < 0 || kind >= KINDS) continue;
    const from = Math.max(0, Math.min(width, Math.floor(((lane.start[place] ?? 0) - view.from) * scale)));
    const until = Math.max(from + 1, Math.min(width + 1, Math.ceil(((lane.end[place] ?? 0) - view.from) * scale)));
    const result = state[lane.index(place)];
    add(kind * stride, from, until);
    if (result === 1 || result === 2) add((KINDS + kind) * stride, from, from + 1);
  }
  for (let kind = 0; kind < KINDS; kind += 1) {
    const top = rows.calls[kind] ?? 0;
    paintRuns(context, kind * stride, width, view.left, (level) => {
      context.globalAlpha = level === 1 ? 0.5 : level === 2 ? 0.75 : 1;
      context.fillStyle = colours.bar;
      return [top, rows.callHeight];
    });
  }
  context.globalAlpha = 1;
  context.fillStyle = colours.bad;
  for (let x = 0; x < width; x += 1) {
    let failed = 0;
    for (let kind = 0; kind < KINDS; kind += 1) {
      const here = columns[(KINDS + kind) * stride + x] ?? 0;
      // The failed columns hold plain counts: each failure has a width of one column.
      if (here > 0) {
        failed += here;
        const all = Math.max(here, columns[kind * stride + x] ?? 0);
        const height = Math.max(2, Math.round((rows.callHeight * here) / all));
        context.fillRect(view.left + x, (rows.calls[kind] ?? 0) + rows.callHeight - height, 1, height);
      }
    }
    if (failed > 0) {
      const height = Math.min(rows.failedHeight, 3 + Math.round(Math.log2(failed) * 2));
      context.fillRect(view.left + x, rows.failed + rows.failedHeight - height, 1, height);
    }
  }
}

/** @param {number} base @param {number} from @param {number} until */
function add(base, from, until) {
  columns[base + from] = (columns[base + from] ?? 0) + 1;
  if (until - from > 1) {
    // A bar: every column that it covers counts once.
    for (let x = from + 1; x < until; x += 1) columns[base + x] = (columns[base + x] ?? 0) + 1;
  }
}

/** Fills stretches of columns with the same density. @param {CanvasRenderingContext2D} context @param {number} base @param {number} width @param {number} left @param {(level: number) => [number, number]} prepare */
function paintRuns(context, base, width, left, prepare) {
  let from = 0;
  let level = 0;
  for (let x = 0; x <= width; x += 1) {
    const value = x < width ? (columns[base + x] ?? 0) : -1;
    const next = value <= 0 ? value : value === 1 ? 1 : value < 4 ? 2 : 3;
    if (next === level) continue;
    if (level > 0) {
      const [top, height] = prepare(level);
      context.fillRect(left + from, top, x - from, height);
    }
    from = x;
    level = next;
  }
}

/** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {Rows} rows @param {View} view @param {Colours} colours @param {number} first @param {number} last */
function paintBars(context, lane, rows, view, colours, first, last) {
  const scale = view.width / (view.until - view.from);
  const right = view.left + view.width;
  const { outline } = lane;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (let place = first; place < last; place += 1) {
    const kind = (lane.row[place] ?? 255) - CALLS_ROW;
    if (kind < 0 || kind >= KINDS) continue;
    const index = lane.index(place);
    const top = rows.calls[kind] ?? 0;
    const start = view.left + ((lane.start[place] ?? 0) - view.from) * scale;
    const from = Math.max(view.left, start);
    const until = Math.min(right, view.left + ((lane.end[place] ?? 0) - view.from) * scale);
    const width = Math.max(2, until - from - 0.5);
    if (outline.state[index] === OPEN) {
      paintOpen(context, from, top, width, rows.callHeight, colours);
      continue;
    }
    const failed = outline.hasFailed(index);
    context.fillStyle = failed ? colours.bad : colours.bar;
    context.fillRect(from, top, width, rows.callHeight);
    if (failed && start >= view.left - 4) paintCross(context, start + 1, rows.failed + rows.failedHeight / 2, Math.min(3, rows.failedHeight / 2), colours.bad);
    const tool = outline.toolName(index);
    if (tool && width > 34 && rows.callHeight >= 11) {
      context.save();
      context.beginPath();
      context.rect(from, top, width - 2, rows.callHeight);
      context.clip();
      context.fillStyle = colours.panel;
      context.fillText(tool.slice(0, 40), from + 4, top + rows.callHeight / 2 + 0.5);
      context.restore();
    }
  }
}

/** A call without a result: an outline that is open to the right. @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width @param {number} height @param {Colours} colours */
function paintOpen(context, x, y, width, height, colours) {
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  context.setLineDash([3, 2]);
  context.strokeRect(Math.round(x) + 0.5, y + 0.5, Math.max(3, Math.round(width) - 1), height - 1);
  context.setLineDash([]);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} radius @param {string} colour */
function paintCross(context, x, y, radius, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x - radius, y - radius);
  context.lineTo(x + radius, y + radius);
  context.moveTo(x + radius, y - radius);
  context.lineTo(x - radius, y + radius);
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {Lane} lane @param {Rows} rows @param {View} view @param {Colours} colours @param {number} first @param {number} last @param {Set<number>} shadow */
function paintMarks(context, lane, rows, view, colours, first, last, shadow) {
  const scale = view.width / (view.until - view.from);
  const { outline } = lane;
  let textAt = -Infinity;
  let messageAt = -Infinity;
  for (let place = first; place < last; place += 1) {
    const row = lane.row[place];
    if (row !== TEXT_ROW && row !== MESSAGES_ROW) continue;
    const index = lane.index(place);
    const x = view.left + ((lane.start[place] ?? 0) - view.from) * scale;
    if (x < view.left - 4) continue;
    if (row === TEXT_ROW) {
      if (rows.callHeight < 8) continue;
      const isUser = outline.kind[index] === USER;
      if (!isUser && x - textAt < 3) continue;
      textAt = x;
      context.fillStyle = isUser ? colours.ink : colours.quiet;
      if (isUser) context.fillRect(x - 3, rows.text - 3, 6, 6);
      else context.fillRect(x - 1, rows.text - 1, 2, 2);
    } else {
      if (x - messageAt < 3) continue;
      messageAt = x;
      paintDiamond(context, x, rows.messages, rows.callHeight > 8 ? 5.5 : 4, colours, shadow.has(outline.seq[index] ?? -1));
    }
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} radius @param {Colours} colours @param {boolean} isHollow */
function paintDiamond(context, x, y, radius, colours, isHollow) {
  context.beginPath();
  context.moveTo(x, y - radius);
  context.lineTo(x + radius, y);
  context.lineTo(x, y + radius);
  context.lineTo(x - radius, y);
  context.closePath();
  context.fillStyle = isHollow ? colours.panel : colours.accent;
  context.fill();
  context.strokeStyle = isHollow ? colours.accent : colours.panel;
  context.lineWidth = isHollow ? 1.5 : 1;
  context.stroke();
}
