// @ts-check
// One run in the timeline: its steps with their positions on the scale, ready to be drawn.

import { ASSISTANT, MESSAGE, TOOL, USER } from "./outline.js";
import { toolKind } from "./tool_kind.js";

/** @import {Outline} from "./outline.js" */
/** @import {TimeScale} from "./time_scale.js" */

export const MESSAGES_ROW = 0;
export const TEXT_ROW = 1;
export const CALLS_ROW = 2;
export const NO_ROW = 255;

export class Lane {
  /** @param {Outline} outline @param {string} name */
  constructor(outline, name) {
    this.outline = outline;
    this.name = name;
    this.version = -1;
    /** @type {TimeScale | null} */
    this.scale = null;
    /** Positions of the steps in the order of time; null if the order of the records is that. @type {Int32Array | null} */
    this.order = null;
    this.start = new Float64Array(0);
    this.end = new Float64Array(0);
    this.latest = new Float64Array(0);
    this.row = new Uint8Array(0);
    this.turns = new Float64Array(0);
  }

  /** Renews the positions if the scale or the steps changed. @param {TimeScale} scale */
  prepare(scale) {
    const { outline } = this;
    if (this.scale === scale && this.version === outline.version) return;
    this.scale = scale;
    this.version = outline.version;
    const { count } = outline;
    this.order = timeOrder(outline);
    if (this.start.length < count) {
      const size = Math.ceil(count * 1.2);
      this.start = new Float64Array(size);
      this.end = new Float64Array(size);
      this.latest = new Float64Array(size);
      this.row = new Uint8Array(size);
    }
    const kinds = outline.tools.map(toolKind);
    let latest = -Infinity;
    for (let place = 0; place < count; place += 1) {
      const index = this.order ? (this.order[place] ?? 0) : place;
      const at = outline.at[index] ?? 0;
      const kind = outline.kind[index];
      let end = outline.end[index] ?? -1;
      if (end < 0) end = kind === TOOL && outline.state[index] === 3 ? scale.last : at;
      this.start[place] = scale.toUnits(at);
      this.end[place] = scale.toUnits(Math.max(at, end));
      latest = Math.max(latest, this.end[place] ?? 0);
      this.latest[place] = latest;
      if (kind === TOOL) this.row[place] = CALLS_ROW + (kinds[outline.tool[index] ?? -1] ?? 3);
      else if (kind === MESSAGE) this.row[place] = MESSAGES_ROW;
      else if (kind === ASSISTANT || kind === USER) this.row[place] = TEXT_ROW;
      else this.row[place] = NO_ROW;
    }
    this.turns = Float64Array.from(outline.turns, (at) => scale.toUnits(at));
  }

  /** The position in the outline of the step at a place in time. @param {number} place */
  index(place) {
    return this.order ? (this.order[place] ?? 0) : place;
  }

  /** The places whose steps can be seen between two positions of the scale. @param {number} from @param {number} until @returns {[number, number]} */
  range(from, until) {
    return [search(this.latest, this.outline.count, from, false), search(this.start, this.outline.count, until, true)];
  }

  /**
   * The step that is drawn nearest to a position, or -1.
   * @param {number} units @param {number} reach how far away it may be @param {number | null} row
   */
  nearest(units, reach, row) {
    const [first, last] = this.range(units - reach, units + reach);
    let best = -1;
    let distance = Infinity;
    for (let place = last - 1; place >= first && place > last - 4000; place -= 1) {
      if (this.row[place] === NO_ROW || (row !== null && this.row[place] !== row)) continue;
      const start = this.start[place] ?? 0;
      const end = this.end[place] ?? 0;
      const away = units < start ? start - units : units > end ? units - end : 0;
      if (away < distance && away <= reach) {
        best = this.index(place);
        distance = away;
      }
    }
    return best;
  }
}

/** @param {Outline} outline */
function timeOrder(outline) {
  let isSorted = true;
  for (let index = 1; index < outline.count && isSorted; index += 1) isSorted = (outline.at[index] ?? 0) >= (outline.at[index - 1] ?? 0);
  if (isSorted) return null;
  const order = Int32Array.from({ length: outline.count }, (_, index) => index);
  return order.sort((a, b) => (outline.at[a] ?? 0) - (outline.at[b] ?? 0) || a - b);
}

/** The first place whose value is not below (`isAbove`: above) the limit. @param {Float64Array} values @param {number} count @param {number} limit @param {boolean} isAbove */
function search(values, count, limit, isAbove) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    const value = values[middle] ?? 0;
    if (isAbove ? value <= limit : value < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
