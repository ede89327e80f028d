// @ts-check
// The steps of one run as columns: light enough for several hundred thousand of them, and quick to
// go through when the timeline is drawn.

import { fetchOutline } from "./api.js";

/** @import {OutlinePage} from "./types.js" */

export const KINDS = /** @type {const} */ (["tool", "assistant", "user", "message", "outcome", "run", "note", "gap", "turn"]);
export const TOOL = 0;
export const ASSISTANT = 1;
export const USER = 2;
export const MESSAGE = 3;
export const GAP = 7;
export const TURN = 8;
const NOTE = 6;

export const FINE = 0;
export const FAILED = 1;
export const REFUSED = 2;
export const OPEN = 3;

const FIRST_PAGE = 5000;
/** Pages of this size take one frame to read and draw. */
const PAGE = 15_000;

export class Outline {
  /** @param {string} runId */
  constructor(runId) {
    this.runId = runId;
    /** Number of steps. */
    this.count = 0;
    this.seq = new Float64Array(0);
    this.at = new Float64Array(0);
    this.end = new Float64Array(0);
    this.endSeq = new Float64Array(0);
    this.kind = new Uint8Array(0);
    this.state = new Uint8Array(0);
    this.tool = new Int32Array(0);
    /** @type {string[]} */
    this.tools = [];
    /** Starts of turns, which are ticks and not steps. */
    this.turns = /** @type {number[]} */ ([]);
    this.isComplete = false;
    /** @type {string | null} */
    this.cursor = null;
    /** Grows with every change, so that what was computed from it can be renewed. */
    this.version = 0;
  }

  /**
   * Loads all steps. `changed` is called after each page.
   * @param {() => void} changed @param {AbortSignal} signal
   */
  async load(changed, signal) {
    /** @type {number | null} */
    let from = 0;
    let size = FIRST_PAGE;
    while (from !== null) {
      /** @type {OutlinePage} */
      const page = await fetchOutline(this.runId, from, size, signal);
      this.cursor ??= page.cursor ?? null;
      this.merge(page);
      from = page.next ?? null;
      size = PAGE;
      this.isComplete = from === null;
      changed();
    }
  }

  /** @param {number} room */
  #reserve(room) {
    if (room <= this.seq.length) return;
    const size = Math.max(room, Math.ceil(this.seq.length * 1.5), 64);
    this.seq = grown(this.seq, new Float64Array(size));
    this.at = grown(this.at, new Float64Array(size));
    this.end = grown(this.end, new Float64Array(size));
    this.endSeq = grown(this.endSeq, new Float64Array(size));
    this.kind = grown(this.kind, new Uint8Array(size));
    this.state = grown(this.state, new Uint8Array(size));
    this.tool = grown(this.tool, new Int32Array(size));
  }

  /**
   * Takes in steps that are new or changed. Returns the positions of changed steps, or null if steps
   * were put between known ones, so that positions are not valid any more.
   * @param {OutlinePage} page @returns {number[] | null}
   */
  merge(page) {
    const kinds = page.kinds.map((name) => {
      const kind = KINDS.indexOf(/** @type {(typeof KINDS)[number]} */ (name));
      return kind < 0 ? NOTE : kind;
    });
    const tools = page.tools.map((name) => this.#toolIndex(name));
    const size = page.seq.length;
    this.#reserve(this.count + size);
    /** @type {number[]} */
    const changed = [];
    let isShifted = this.remove(page.gone ?? []);
    for (let index = 0; index < size; index += 1) {
      const seq = page.seq[index] ?? 0;
      const kind = kinds[page.kind[index] ?? 0] ?? NOTE;
      const at = page.base + (page.at[index] ?? 0);
      if (kind === TURN) {
        if (at > (this.turns.at(-1) ?? -Infinity)) this.turns.push(at);
        continue;
      }
      let position = this.count;
      if (position > 0 && seq <= (this.seq[position - 1] ?? 0)) {
        position = this.lowerBound(seq);
        if (this.seq[position] !== seq) {
          this.#shift(position);
          isShifted = true;
        } else {
          changed.push(position);
        }
      } else {
        this.count += 1;
      }
      const end = page.end[index] ?? -1;
      this.seq[position] = seq;
      this.at[position] = at;
      this.kind[position] = kind;
      this.tool[position] = tools[page.tool[index] ?? -1] ?? -1;
      this.end[position] = end < 0 ? -1 : page.base + end;
      this.endSeq[position] = page.end_seq[index] ?? -1;
      this.state[position] = page.state[index] ?? 0;
    }
    this.version += 1;
    return isShifted ? null : changed;
  }

  /** Removes steps. @param {number[]} seqs @returns {boolean} whether there was one */
  remove(seqs) {
    let isShifted = false;
    for (const seq of seqs) {
      const position = this.lowerBound(seq);
      if (position >= this.count || this.seq[position] !== seq) continue;
      for (const column of this.#columns()) column.copyWithin(position, position + 1, this.count);
      this.count -= 1;
      this.version += 1;
      isShifted = true;
    }
    return isShifted;
  }

  #columns() {
    return [this.seq, this.at, this.end, this.endSeq, this.kind, this.state, this.tool];
  }

  /** Makes room for a step between known ones. @param {number} position */
  #shift(position) {
    for (const column of this.#columns()) column.copyWithin(position + 1, position, this.count);
    this.count += 1;
  }

  /** @param {string} name */
  #toolIndex(name) {
    const known = this.tools.indexOf(name);
    if (known >= 0) return known;
    this.tools.push(name);
    return this.tools.length - 1;
  }

  /** Position of the first step with this seq or a later one. @param {number} seq */
  lowerBound(seq) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.seq[middle] ?? 0) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The step that a record belongs to: its own, or the call that it ends. @param {number} seq */
  find(seq) {
    const position = this.lowerBound(seq);
    if (position < this.count && this.seq[position] === seq) return position;
    for (let index = Math.min(position, this.count) - 1; index >= 0 && index > position - 2000; index -= 1) {
      if (this.endSeq[index] === seq) return index;
    }
    return Math.max(0, Math.min(position, this.count) - 1);
  }

  /** The next step for which `test` holds, or -1. @param {number} from @param {1 | -1} direction @param {(index: number) => boolean} test */
  next(from, direction, test) {
    for (let index = from + direction; index >= 0 && index < this.count; index += direction) {
      if (test(index)) return index;
    }
    return -1;
  }

  /** @param {number} index */
  toolName(index) {
    return this.tools[this.tool[index] ?? -1] ?? null;
  }

  /** @param {number} index */
  kindName(index) {
    return KINDS[this.kind[index] ?? NOTE] ?? "note";
  }

  /** @param {number} index */
  hasFailed(index) {
    const state = this.state[index];
    return state === FAILED || state === REFUSED;
  }
}

/**
 * @template {Float64Array | Uint8Array | Int32Array} T
 * @param {T} from @param {T} to @returns {T}
 */
function grown(from, to) {
  to.set(from);
  return to;
}
